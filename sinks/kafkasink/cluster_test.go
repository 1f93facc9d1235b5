package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
	"github.com/cepd/cepd/sinks"
)

func TestMain(m *testing.M) { os.Exit(kafkatest.Run(m)) }

// patience bounds what a test waits for.
const patience = time.Minute

// place is a topic of a test's own, and the position beside it.
type place struct {
	*kafkatest.Cluster
	addresses       []string
	job             string
	topic, progress string
	partitions      int
}

// newPlace makes one. Batches may be larger than the cluster's default, so that the suite's big bodies fit.
func newPlace(t *testing.T, c *kafkatest.Cluster, partitions int) *place {
	t.Helper()
	return &place{
		Cluster: c, addresses: c.Addresses, job: kafkatest.Unique("job"), partitions: partitions,
		topic:    c.Topic(t, partitions, "max.message.bytes", "4194304"),
		progress: c.Topic(t, 1, "cleanup.policy", "compact"),
	}
}

func (p *place) config() Config {
	c := Config{Job: p.job, Name: "out", Topic: p.topic, ProgressTopic: p.progress, TransactionTimeout: 20 * time.Second}
	c.Cluster.Brokers, c.Cluster.Dial = p.addresses, p.Dial
	return c
}

func (p *place) sink(t *testing.T, change ...func(*Config)) *Sink {
	t.Helper()
	c := p.config()
	for _, f := range change {
		f(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// read returns what a reader of committed records finds in a topic, partition by partition: franz-go, which has nothing in
// common with what wrote it. It waits until no transaction is open.
func (p *place) read(t *testing.T, topic string) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admin := p.Admin(t)
	ends := map[int32]int64{}
	kafkatest.WaitFor(t, "the end of all transactions", func() bool {
		high, err := admin.ListEndOffsets(ctx, topic)
		if err != nil || high.Error() != nil {
			t.Fatalf("end of %s: %v, %v", topic, err, high.Error())
		}
		stable, err := admin.ListCommittedOffsets(ctx, topic)
		if err != nil || stable.Error() != nil {
			t.Fatalf("stable end of %s: %v, %v", topic, err, stable.Error())
		}
		settled := true
		for n, o := range high[topic] {
			s, ok := stable.Lookup(topic, n)
			settled = settled && ok && s.Offset == o.Offset
			ends[n] = o.Offset
		}
		return settled
	})
	from := map[int32]kgo.Offset{}
	for n, end := range ends {
		if end > 0 {
			from[n] = kgo.NewOffset().At(0)
		} else {
			delete(ends, n)
		}
	}
	var list []*kgo.Record
	if len(from) == 0 {
		return nil
	}
	client := p.Client(t, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	defer client.Close()
	for len(ends) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s: %v; still to read: %v", topic, err, ends)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				list = append(list, r)
			}
			if r.Offset >= ends[r.Partition]-1 {
				delete(ends, r.Partition)
			}
		})
	}
	slices.SortStableFunc(list, func(a, b *kgo.Record) int { return int(a.Partition) - int(b.Partition) })
	return list
}

// messages returns the records of the topic in the order of the job's history, and fails where one partition is not in it, or
// holds a key that belongs to another.
func (p *place) messages(t *testing.T) []*kgo.Record {
	t.Helper()
	list := p.read(t, p.topic)
	for i, r := range list {
		if i > 0 && list[i-1].Partition == r.Partition && !before(t, list[i-1], r) {
			t.Fatalf("partition %d: %s stands before %s", r.Partition, sequence(list[i-1]), sequence(r))
		}
		if want := partition(r.Key, p.partitions); r.Partition != want {
			t.Fatalf("key %s stands in partition %d, want %d", r.Key, r.Partition, want)
		}
	}
	slices.SortStableFunc(list, func(a, b *kgo.Record) int {
		if before(t, a, b) {
			return -1
		}
		if before(t, b, a) {
			return 1
		}
		return 0
	})
	return list
}

func (p *place) bodies(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, r := range p.messages(t) {
		list = append(list, string(r.Value))
	}
	return list
}

func sequence(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == sequenceHeader {
			return string(h.Value)
		}
	}
	return "nothing"
}

// before compares two places in the history.
func before(t *testing.T, a, b *kgo.Record) bool {
	t.Helper()
	var at [2]sinks.Progress
	for i, r := range []*kgo.Record{a, b} {
		if _, err := fmt.Sscanf(sequence(r), "%d-%d", &at[i].Lineage, &at[i].Sequence); err != nil {
			t.Fatalf("a record at %s: %v", sequence(r), err)
		}
	}
	return at[0].Lineage < at[1].Lineage || at[0].Lineage == at[1].Lineage && at[0].Sequence < at[1].Sequence
}

// open opens a sink, and begins its first lineage where it has none.
func open(t *testing.T, s *Sink) sinks.Progress {
	t.Helper()
	at, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if at == (sinks.Progress{}) && s.config.Guarantee == sinks.ExactlyOnce {
		at.Lineage = 1
		if err := s.Begin(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// put publishes messages and returns the position behind them.
func put(t *testing.T, s *Sink, base sinks.Progress, messages []sinks.Message) sinks.Progress {
	t.Helper()
	b := sinks.Batch{Base: base, Messages: messages}
	ack, err := s.Publish(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if ack.Published != b.End() {
		t.Fatalf("published %+v, want %+v", ack.Published, b.End())
	}
	return b.End()
}

// stops fails the test unless err is one that stops the sink and says something.
func stops(t *testing.T, err error, says string) {
	t.Helper()
	if !errors.Is(err, sinks.ErrStop) || !strings.Contains(err.Error(), says) {
		t.Fatalf("%v, want that it stops and says %q", err, says)
	}
}

func values(records []*kgo.Record) []string {
	list := make([]string, len(records))
	for i, r := range records {
		list[i] = string(r.Value)
	}
	return list
}
