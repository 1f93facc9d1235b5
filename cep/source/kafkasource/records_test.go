package kafkasource_test

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/kafkasource"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

func TestWhatStandsBesideAValue(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		topic := c.Topic(t, 1)
		at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
		write(
			t, c.Client(t),
			&kgo.Record{
				Topic: topic, Key: []byte("k"), Value: []byte("1"), Timestamp: at,
				Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("x")}, {Key: "b"}, {Key: "a", Value: []byte{0xff}}},
			},
			&kgo.Record{Topic: topic, Key: []byte("k"), Timestamp: at},
			&kgo.Record{Topic: topic, Value: []byte(strings.Repeat("x", 101)), Timestamp: at},
			&kgo.Record{Topic: topic, Value: []byte{}, Timestamp: at},
		)
		r := watch(t, c, kafkasource.Config{Topics: []string{topic}, MaxRecord: 100}).reader(topic + "/0")
		when, _ := cep.TimeOf(at)
		first, err := next(t, r)
		want := source.Record{Data: []byte("1"), Meta: &cep.Meta{
			Topic: topic, Key: []byte("k"), Time: when,
			Headers: []cep.Header{{Name: "a", Value: []byte("x")}, {Name: "b"}, {Name: "a", Value: []byte{0xff}}},
		}}
		if d := cmp.Diff(want, first); d != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, d)
		}
		tombstone, err := next(t, r)
		want = source.Record{Offset: 1, Meta: &cep.Meta{Topic: topic, Key: []byte("k"), Time: when, Headers: []cep.Header{}}}
		if d := cmp.Diff(want, tombstone); d != "" || err != nil {
			t.Errorf("a tombstone: %v (-want +got):\n%s", err, d)
		}
		_, err = next(t, r)
		if e, ok := errors.AsType[*source.RecordError](err); !ok || e.Position.Offset != 2 || !errors.Is(err, source.ErrTooLarge) {
			t.Errorf("a record that is too large: %v", err)
		}
		empty, err := next(t, r)
		if empty.Data == nil || len(empty.Data) != 0 || empty.Offset != 3 || err != nil {
			t.Errorf("an empty value: %+v, %v", empty, err)
		}
	})
}

func TestAppendTime(t *testing.T) {
	t.Parallel()
	l := kafkatest.AppendTime(t, kafkatest.Shared(t)) // kfake stamps nothing
	r := watch(t, kafkatest.Shared(t), kafkasource.Config{Topics: []string{l.Topic}}).reader(l.Topic + "/0")
	for _, want := range l.Records {
		rec, err := next(t, r)
		when, _ := cep.TimeOf(want.Timestamp)
		if err != nil || !rec.Meta.Appended || rec.Meta.Time != when || rec.Arrived != when {
			t.Fatalf("%+v, %+v, %v; want %v", rec, rec.Meta, err, when)
		}
	}
}

// What is aborted is not seen, and what stands at the end without being a record is passed, so that lag is none.
func TestBehindTheLastRecord(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		l := kafkatest.Aborted(t, c)
		r := watch(t, c, kafkasource.Config{Topics: []string{l.Topic}}).reader(l.Topic + "/0")
		var offsets []int64
		for {
			rec, err := next(t, r)
			if err != nil {
				t.Fatal(err)
			}
			if !rec.Nothing {
				offsets = append(offsets, rec.Offset)
			} else if rec.Offset == l.End-1 {
				break
			}
		}
		var want []int64
		for _, rec := range l.Records {
			want = append(want, rec.Offset)
		}
		if d := cmp.Diff(want, offsets); d != "" {
			t.Errorf("offsets (-want +got):\n%s", d)
		}
		if end, known := r.End(); end != l.End || !known {
			t.Errorf("the end is %d, %v; want %d", end, known, l.End)
		}
		// A later process goes on from there, and finds nothing but more of the same.
		if err := r.SeekTo(l.End); err != nil {
			t.Fatal(err)
		}
		write(t, c.Client(t), &kgo.Record{Topic: l.Topic, Value: []byte("more")})
		if d := cmp.Diff([]string{"more"}, values(t, r, 1)); d != "" {
			t.Errorf("behind the end (-want +got):\n%s", d)
		}
	})
}

// A finite source ends where the last transaction that has ended ends when it is found, whatever comes later.
func TestFinite(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		before, finish := kafkatest.Open(t, c)
		first := watch(t, c, kafkasource.Config{Topics: []string{before.Topic}, Finite: true})
		r := first.reader(before.Topic + "/0")
		first.finished()
		after := finish(true)
		if d := cmp.Diff(valuesOf(before.Records), rest(t, r)); d != "" {
			t.Errorf("before the open transaction (-want +got):\n%s", d)
		}
		second := watch(t, c, kafkasource.Config{Topics: []string{before.Topic}, Finite: true})
		r = second.reader(before.Topic + "/0")
		second.finished()
		if d := cmp.Diff(valuesOf(after.Records), rest(t, r)); d != "" {
			t.Errorf("once it has ended (-want +got):\n%s", d)
		}
		if err := r.SeekTo(after.Records[1].Offset); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(valuesOf(after.Records[1:]), rest(t, r)); d != "" {
			t.Errorf("once more, from the second record (-want +got):\n%s", d)
		}
	})
}

func valuesOf(records []*kgo.Record) (all []string) {
	for _, r := range records {
		all = append(all, string(r.Value))
	}
	return all
}

// rest reads to the end.
func rest(t testing.TB, r source.Reader) (all []string) {
	t.Helper()
	for {
		rec, err := next(t, r)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("behind %q: %v", all, err)
		}
		if !rec.Nothing {
			all = append(all, string(rec.Data))
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		topic := c.Topic(t, 2)
		began := time.Now().Add(-time.Hour).Truncate(time.Second)
		client := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for i := range 10 {
			write(t, client, &kgo.Record{Topic: topic, Value: []byte(strconv.Itoa(i)), Timestamp: began.Add(time.Duration(i) * time.Second)})
		}
		at := func(i int, more time.Duration) string {
			return began.Add(time.Duration(i)*time.Second + more).Format(time.RFC3339Nano)
		}
		for _, b := range []struct {
			from, to    string
			first, last int
		}{
			{"", "", 0, 9},
			{"earliest", "latest", 0, 9},
			{"latest", "", 0, -1},
			{"3", "7", 3, 6},
			{"7", "3", 0, -1},
			{"3", "500", 3, 9},
			{at(3, 0), at(7, 0), 3, 6},
			{at(2, 1), at(6, time.Nanosecond), 3, 6},
			{at(-100, 0), at(100, 0), 0, 9},
			{"2", at(4, 0), 2, 3},
		} {
			var bounds [2]kafkasource.Bound
			for i, text := range []string{b.from, b.to} {
				var err error
				if bounds[i], err = kafkasource.ParseBound(text); err != nil {
					t.Fatal(err)
				}
			}
			s := newSource(t, c, kafkasource.Config{Topics: []string{topic}, Finite: true, Numbers: []int32{0}})
			readers, err := s.Open(t.Context(), bounds[0], bounds[1])
			if err != nil || len(readers) != 1 {
				t.Fatalf("%+v: %d readers, %v", b, len(readers), err)
			}
			var want []string
			for i := b.first; i <= b.last; i++ {
				want = append(want, strconv.Itoa(i))
			}
			if left := readers[0].(*kafkasource.Reader).Left(); left != int64(len(want)) {
				t.Errorf("%+v: %d are left, want %d", b, left, len(want))
			}
			if got := rest(t, readers[0]); !slices.Equal(got, want) {
				t.Errorf("%+v: %q, want %q", b, got, want)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	for _, bad := range []string{"-1", "yesterday", "2024-11-29", "3000-01-01T00:00:00Z"} {
		if b, err := kafkasource.ParseBound(bad); err == nil {
			t.Errorf("%q is %+v", bad, b)
		}
	}
}

func TestRangeBelowTheLog(t *testing.T) {
	c := kafkatest.StartFake(t, kafkatest.FakeOptions{}).As
	l := kafkatest.Trimmed(t, c)
	s := newSource(t, c, kafkasource.Config{Topics: []string{l.Topic}, Finite: true})
	defer func() { _ = s.Close() }()
	from, err := kafkasource.ParseBound("0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), from, kafkasource.Bound{}); err == nil || !strings.Contains(err.Error(), "were deleted") {
		t.Errorf("a range that begins before the log: %v", err)
	}
}

func TestSeekTime(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		topic := c.Topic(t, 1)
		began := time.Now().Add(-time.Hour).Truncate(time.Second)
		for i := range 3 {
			write(t, c.Client(t), &kgo.Record{Topic: topic, Value: []byte{'0' + byte(i)}, Timestamp: began.Add(time.Duration(i) * time.Second)})
		}
		r := watch(t, c, kafkasource.Config{Topics: []string{topic}}).reader(topic + "/0")
		when, _ := cep.TimeOf(began)
		for want, from := range map[int64]cep.Time{0: 0, 1: when + cep.Second, 2: when + cep.Second + 1, 3: when + cep.Hour} {
			if at, err := r.SeekTime(t.Context(), from); at != want || err != nil {
				t.Errorf("%v is at %d, %v; want %d", from, at, err, want)
			}
		}
		if _, err := r.SeekTime(t.Context(), when+cep.Second); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"1", "2"}, values(t, r, 2)); d != "" {
			t.Errorf("from the second on (-want +got):\n%s", d)
		}
	})
}
