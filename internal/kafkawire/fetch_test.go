package kafkawire_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

func shown(records []*kgo.Record) []string {
	var s []string
	for _, r := range records {
		s = append(s, show(r.Offset, r.Key, r.Value, len(r.Headers)))
	}
	return s
}

// holds reads a log from every place where something begins, with a limit that gives one batch at a time and with one that
// gives all.
func holds(t *testing.T, client *kafkawire.Client, l *kafkatest.Log) {
	t.Helper()
	top := see(t, client, l.Topic)
	starts := []int64{l.Start}
	for _, b := range l.Batches {
		if b.First >= l.Start {
			starts = append(starts, b.First)
		}
		if b.Last >= l.Start && b.Last != b.First {
			starts = append(starts, b.Last)
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	for _, limit := range []int32{1, 1 << 20} {
		// kfake leaves the list of aborted transactions out of an answer that the limit of all partitions cuts: so it is
		// that of the one partition which cuts.
		f := fetcher(t, client, kafkawire.FetcherConfig{PartitionBytes: limit, MaxWait: 5 * time.Millisecond})
		for i, start := range starts {
			if start >= l.Stable || limit == 1 && len(starts) > 20 && i%8 != 0 { // a fetch for each batch
				continue
			}
			cursor := open(t, f, top, 0, start)
			got := drain(t, cursor, l.Stable)
			if want := shown(l.From(start)); !slices.Equal(got, want) {
				t.Errorf("limit %d from %d: %d records\n%s\nwant %d\n%s", limit, start, len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
			}
			if ends := cursor.Ends(); ends.Stable != l.Stable || ends.End != l.End {
				t.Errorf("ends %+v, want stable %d end %d", ends, l.Stable, l.End)
			}
			cursor.Close()
		}
	}
}

func TestAborted(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		holds(t, newClient(t, c), kafkatest.Aborted(t, c))
	})
}

// A fetch that begins at an abort marker still gets its transaction listed.
func TestMarkers(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		holds(t, newClient(t, c), kafkatest.Markers(t, c))
	})
}

func TestInterleaved(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		client := newClient(t, c)
		for seed := range uint64(2) {
			holds(t, client, kafkatest.Interleaved(t, c, seed, 30))
		}
	})
}

func TestCodecs(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		holds(t, newClient(t, c), kafkatest.Codecs(t, c))
	})
}

// Compaction leaves holes, batches without records and markers without transactions.
func TestCompacted(t *testing.T) {
	t.Parallel() // it waits for the cleaner
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		l, _ := kafkatest.Compacted(t, c)
		holds(t, newClient(t, c), l)
	})
}

// Batches larger than every limit come whole.
func TestBig(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		holds(t, newClient(t, c), kafkatest.Big(t, c))
	})
}

// What a transaction has written is not seen before it ends, and then all or nothing.
func TestOpenTransaction(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		client := newClient(t, c)
		before, end := kafkatest.Open(t, c)
		holds(t, client, before)
		top := see(t, client, before.Topic)
		if latest := offset(t, client, top, kafkawire.Latest, 0); latest != before.Stable {
			t.Errorf("latest is %d, want %d: what the open transaction may commit would be jumped over", latest, before.Stable)
		}
		if all := offset(t, client, top, kafkawire.End, 0); all != before.End {
			t.Errorf("the end is %d, want %d", all, before.End)
		}
		holds(t, client, end(true))
	})
}

func TestAppendTime(t *testing.T) {
	c := kafkatest.Shared(t) // kfake does not stamp
	l := kafkatest.AppendTime(t, c)
	client := newClient(t, c)
	cursor := open(t, fetcher(t, client, kafkawire.FetcherConfig{}), see(t, client, l.Topic), 0, l.Start)
	want := l.Records
	for cursor.Offset() < l.Stable {
		records, err := cursor.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.Offset != want[0].Offset || r.Time != want[0].Timestamp.UnixMilli() || !r.AppendTime {
				t.Errorf("offset %d time %d by append %v, want %d %d", r.Offset, r.Time, r.AppendTime, want[0].Offset, want[0].Timestamp.UnixMilli())
			}
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("%d records did not come", len(want))
	}
}

// fatal waits for the cursor's error.
func fatal(t *testing.T, c *kafkawire.Cursor) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		if _, err := c.Next(ctx); err != nil {
			return err
		}
	}
}

func TestOutOfRange(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		client := newClient(t, c)
		l := kafkatest.Trimmed(t, c)
		top := see(t, client, l.Topic)
		if got := offset(t, client, top, kafkawire.Earliest, 0); got != l.Start {
			t.Errorf("earliest is %d, want %d", got, l.Start)
		}
		f := fetcher(t, client, kafkawire.FetcherConfig{})
		for _, at := range []int64{l.Start - 1, l.End + 1} {
			cursor := open(t, f, top, 0, at)
			err := fatal(t, cursor)
			want := kafkawire.OutOfRangeError{Topic: l.Topic, Offset: at, Start: l.Start, End: l.End}
			if got, ok := errors.AsType[*kafkawire.OutOfRangeError](err); !ok || *got != want {
				t.Errorf("at %d: %v", at, err)
			}
			if again := fatal(t, cursor); !errors.Is(again, err) {
				t.Errorf("then: %v", again)
			}
			cursor.Close()
		}
		// The ends themselves are in range.
		if got := drain(t, open(t, f, top, 0, l.Start), l.End); !slices.Equal(got, shown(l.Records)) {
			t.Errorf("from the start: %v", got)
		}
		if f.Trouble() != nil {
			t.Errorf("trouble: %v", f.Trouble())
		}
		if _, err := f.Open(top, 0, -1); err == nil {
			t.Error("-1 is taken for an offset")
		}
	})
}

// A topic that was made again is another one, though the offset is in it.
func TestRemade(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		client := newClient(t, c)
		top := topic(t, c, client, 1)
		kc := c.Client(t)
		f := fetcher(t, client, kafkawire.FetcherConfig{})
		if err := kc.ProduceSync(t.Context(), &kgo.Record{Topic: top.Name, Value: []byte("old")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		running := open(t, f, top, 0, 0)
		drain(t, running, 1)
		c.Remake(t, top.Name, 1)
		now := see(t, client, top.Name)
		kafkatest.WaitFor(t, "the new topic", func() bool {
			now = see(t, client, top.Name)
			return now.ID != top.ID
		})
		for _, cursor := range []*kafkawire.Cursor{running, open(t, f, top, 0, 0)} {
			err := fatal(t, cursor)
			if got, ok := errors.AsType[*kafkawire.RecreatedError](err); !ok || got.Topic != top.Name || got.Was != top.ID || got.Is != now.ID {
				t.Errorf("read on: %v", err)
			}
		}
		if _, err := client.ListOffsets(t.Context(), top, kafkawire.Latest, 0); err == nil {
			t.Error("offsets of the old topic are those of the new one")
		}
	})
}

// Next ends with its context and loses nothing by it.
func TestNextEndsWithItsContext(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		client := newClient(t, c)
		l := kafkatest.Aborted(t, c)
		f := fetcher(t, client, kafkawire.FetcherConfig{PartitionBytes: 1})
		cursor := open(t, f, see(t, client, l.Topic), 0, l.Start)
		var got []string
		for i := 0; cursor.Offset() < l.Stable; i++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%5)*time.Millisecond)
			records, err := cursor.Next(ctx)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			for _, r := range records {
				got = append(got, show(r.Offset, r.Key, r.Value, len(r.Headers)))
			}
		}
		if want := shown(l.Records); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// Many partitions through few requests, in any order of hunger, with little room to read ahead.
func TestManyPartitions(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		const partitions, each = 40, 50
		client := newClient(t, c)
		top := topic(t, c, client, partitions)
		var batches []kafkawire.PartitionBatch
		for p := range int32(partitions) {
			b := kafkawire.PartitionBatch{Topic: top, Partition: p}
			for i := range each {
				b.Records = append(b.Records, kafkawire.Record{Value: []byte{byte(p), byte(i)}})
			}
			for half := range 2 {
				b := b
				b.Records = b.Records[half*each/2 : (half+1)*each/2]
				batches = append(batches, b)
			}
		}
		if err := client.Write(t.Context(), batches); err != nil {
			t.Fatal(err)
		}
		f := fetcher(t, client, kafkawire.FetcherConfig{PartitionBytes: 300, MaxBytes: 2000, Buffer: 1000})
		errs := make(chan error, partitions)
		for p := range int32(partitions) {
			cursor := open(t, f, top, p, 0)
			go func() {
				n := 0
				for n < each {
					records, err := cursor.Next(t.Context())
					if err != nil {
						errs <- err
						return
					}
					for _, r := range records {
						if r.Value[0] != byte(p) || r.Value[1] != byte(n) {
							errs <- errors.New("a record out of order")
							return
						}
						n++
					}
				}
				errs <- nil
			}()
		}
		for range partitions {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

// What cannot be read now is named, repeated, and read when it can be.
func TestTrouble(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		proxy := kafkatest.NewProxy(t, c)
		client := newClient(t, proxy.Cluster())
		l := kafkatest.Aborted(t, c)
		top := see(t, client, l.Topic)
		proxy.Rule(func(r kafkatest.Request) kafkatest.Fate {
			if r.Key == 1 {
				return kafkatest.LoseAnswer
			}
			return kafkatest.Pass
		})
		f := fetcher(t, client, kafkawire.FetcherConfig{})
		cursor := open(t, f, top, 0, l.Start)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		for ctx.Err() == nil {
			if records, _ := cursor.Next(ctx); len(records) > 0 {
				t.Fatal("records through a connection that is cut")
			}
		}
		cancel()
		if err := f.Trouble(); err == nil || !strings.Contains(err.Error(), l.Topic+"/0") || !kafkawire.Retriable(err) {
			t.Errorf("trouble: %v", err)
		}
		proxy.Rule(nil)
		if got := drain(t, cursor, l.Stable); !slices.Equal(got, shown(l.Records)) {
			t.Errorf("then %v", got)
		}
		if err := f.Trouble(); err != nil {
			t.Errorf("trouble stays: %v", err)
		}
	})
}
