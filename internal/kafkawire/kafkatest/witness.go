package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Witness reads the committed records of topics with franz-go from their beginning on, and never stops: whatever happens to
// the cluster and to whoever writes, what it has seen once is what readers were given.
type Witness struct {
	cluster *Cluster
	client  *kgo.Client
	topics  []string
	stop    context.CancelFunc
	done    chan struct{}

	mu      sync.Mutex
	records map[string][]*kgo.Record
	next    map[string]map[int32]int64
	odd     []string // what must not be
	trouble error    // the last one, which may have passed
}

// NewWitness begins to read topics. It ends with the test.
func NewWitness(t testing.TB, c *Cluster, topics ...string) *Witness {
	t.Helper()
	from := map[string]map[int32]kgo.Offset{}
	for _, topic := range topics {
		from[topic] = map[int32]kgo.Offset{}
		for _, p := range c.detail(t, topic).Partitions {
			from[topic][p.Partition] = kgo.NewOffset().At(0)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &Witness{
		cluster: c, topics: topics, stop: stop, done: make(chan struct{}), records: map[string][]*kgo.Record{}, next: map[string]map[int32]int64{},
		client: c.Client(t, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumePartitions(from), kgo.FetchMaxWait(5*time.Second),
			kgo.ConsumeResetOffset(kgo.NoResetOffset())), // what is deleted must be noticed, not passed over
	}
	for _, topic := range topics {
		w.next[topic] = map[int32]int64{}
	}
	go func() {
		defer close(w.done)
		for ctx.Err() == nil {
			w.take(w.client.PollFetches(ctx))
		}
	}()
	t.Cleanup(func() {
		w.stop()
		<-w.done
	})
	return w
}

func (w *Witness) take(fetches kgo.Fetches) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fetches.EachError(func(topic string, partition int32, err error) {
		w.trouble = fmt.Errorf("%s/%d: %w", topic, partition, err)
	})
	fetches.EachRecord(func(r *kgo.Record) {
		if r.Offset < w.next[r.Topic][r.Partition] {
			w.odd = append(w.odd, fmt.Sprintf("%s/%d: offset %d was read again", r.Topic, r.Partition, r.Offset))
		}
		w.next[r.Topic][r.Partition] = r.Offset + 1
		if !r.Attrs.IsControl() {
			w.records[r.Topic] = append(w.records[r.Topic], r)
		}
	})
}

// Count is how many records of a topic it has seen.
func (w *Witness) Count(topic string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.records[topic])
}

// Settle waits until no transaction is open in the topics and in others that are named, and all has been read. It fails the
// test where a transaction never ends, or where what was read once came again.
func (w *Witness) Settle(t testing.TB, others ...string) {
	t.Helper()
	for _, topic := range slices.Concat(w.topics, others) {
		for partition, end := range w.cluster.Settled(t, topic) {
			if !slices.Contains(w.topics, topic) {
				continue
			}
			WaitFor(t, fmt.Sprintf("the witness at %s/%d, offset %d", topic, partition, end), func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.next[topic][partition] >= end
			})
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range w.odd {
		t.Error(text)
	}
}

// Settled waits until the last stable offset of every partition of a topic is its high watermark, and returns that.
func (c *Cluster) Settled(t testing.TB, topic string) map[int32]int64 {
	t.Helper()
	admin := c.Admin(t)
	ends := map[int32]int64{}
	ask := func() (settled bool, err error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		high, err := admin.ListEndOffsets(ctx, topic)
		if err = errors.Join(err, high.Error()); err != nil {
			return false, err
		}
		stable, err := admin.ListCommittedOffsets(ctx, topic)
		if err = errors.Join(err, stable.Error()); err != nil {
			return false, err
		}
		for partition, o := range high[topic] {
			ends[partition] = o.Offset
			if s, ok := stable.Lookup(topic, partition); !ok || s.Offset != o.Offset {
				return false, fmt.Errorf("partition %d is stable up to %d of %d", partition, s.Offset, o.Offset)
			}
		}
		return len(ends) > 0, nil
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		settled, err := ask()
		if settled {
			return ends
		}
		if time.Now().After(deadline) {
			t.Fatalf("a transaction does not end in %s: %v\n%s", topic, err, c.openTransactions(t, topic))
		}
	}
}

// openTransactions tells who has a transaction in a topic, and what its coordinator says of it.
func (c *Cluster) openTransactions(t testing.TB, topic string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var b strings.Builder
	var set kadm.TopicsSet
	set.Add(topic)
	producers, err := c.Admin(t).DescribeProducers(ctx, set)
	if err != nil {
		return err.Error()
	}
	for _, p := range producers.SortedProducers() {
		fmt.Fprintf(&b, "%+v\n", p)
	}
	all, err := c.Admin(t).ListTransactions(ctx, nil, nil)
	if err != nil {
		return err.Error()
	}
	for _, id := range all.TransactionalIDs() {
		if d, err := c.Admin(t).DescribeTransactions(ctx, id); err == nil {
			for _, x := range d.Sorted() {
				if slices.ContainsFunc(producers.SortedProducers(), func(p kadm.DescribedProducer) bool { return p.ProducerID == x.ProducerID }) {
					fmt.Fprintf(&b, "%+v\n", x)
				}
			}
		}
	}
	return b.String()
}

// Records are those of a topic, partition by partition, in the order in which they were read.
func (w *Witness) Records(topic string) []*kgo.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := slices.Clone(w.records[topic])
	slices.SortStableFunc(l, func(a, b *kgo.Record) int { return int(a.Partition) - int(b.Partition) })
	return l
}

// Trouble is the last error of reading, which may have passed.
func (w *Witness) Trouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble
}

// Transaction is the state of the transaction of an id, as its coordinator has it: Ongoing, CompleteCommit, Empty and so on.
func (c *Cluster) Transaction(t testing.TB, id string) string {
	t.Helper()
	r := kmsg.NewPtrDescribeTransactionsRequest()
	r.TransactionalIDs = []string{id}
	state := ""
	client := c.Client(t)
	defer client.Close()
	WaitFor(t, "the coordinator of "+id, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		answer, err := r.RequestWith(ctx, client)
		if err != nil || len(answer.TransactionStates) != 1 || kerr.ErrorForCode(answer.TransactionStates[0].ErrorCode) != nil {
			return false
		}
		state = answer.TransactionStates[0].State
		return true
	})
	return state
}
