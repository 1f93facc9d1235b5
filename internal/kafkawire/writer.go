package kafkawire

import (
	"context"
	"slices"
	"time"
)

// writer brings batches to their leaders.
type writer struct {
	client *Client
	// id and second are those of the transaction; "" for none.
	id         string
	second     bool
	batchBytes int
	// patience bounds the repetitions of one round.
	patience time.Duration
	// seal appends the batch that records make.
	seal func(b []byte, tp TopicPartition, records []Record, millis int64) []byte
	buf  []byte
}

// write sends the batches in rounds: one of each partition at a time, since the connections of the pool do not keep the order
// of two. Record time is the wall clock: a record with the time of an old event rolls a segment at each marker, and is deleted
// by retention.ms at once.
func (w *writer) write(ctx context.Context, batches []PartitionBatch) error {
	now := time.Now().UnixMilli()
	batches = slices.DeleteFunc(slices.Clone(batches), func(b PartitionBatch) bool { return len(b.Records) == 0 })
	for len(batches) > 0 {
		var (
			round []*outgoing
			rest  []PartitionBatch
			taken = map[TopicPartition]bool{}
			ends  []int
		)
		w.buf = w.buf[:0]
		for _, b := range batches {
			tp := TopicPartition{b.Topic.Name, b.Partition}
			if taken[tp] {
				rest = append(rest, b)
				continue
			}
			taken[tp] = true
			n := w.fitting(b.Records)
			w.buf = w.seal(w.buf, tp, b.Records[:n], now)
			ends = append(ends, len(w.buf))
			round = append(round, &outgoing{topic: b.Topic, partition: b.Partition})
			if n < len(b.Records) {
				b.Records = b.Records[n:]
				rest = append(rest, b)
			}
		}
		begin := 0
		for i, o := range round {
			o.batch = w.buf[begin:ends[i]]
			begin = ends[i]
		}
		if err := w.send(ctx, round); err != nil {
			return err
		}
		batches = rest
	}
	return nil
}

// send repeats what failed of a round; with sequences, a batch that had arrived is known by them.
func (w *writer) send(ctx context.Context, round []*outgoing) error {
	return w.client.retryFor(ctx, w.patience, "batches", func() error {
		w.client.produce(ctx, w.id, w.second, round)
		var first error
		for _, o := range round {
			if o.err != nil && (first == nil || Retriable(first) && !Retriable(o.err)) {
				first = o.err
			}
		}
		round = slices.DeleteFunc(round, func(o *outgoing) bool { return o.done })
		return first
	}, Retriable)
}

// fitting is how many of the records make one batch.
func (w *writer) fitting(records []Record) int {
	size := batchHeader
	for i := range records {
		n := recordSize(&records[i], i)
		size += n + varintSize(int64(n))
		if size > w.batchBytes && i > 0 {
			return i
		}
	}
	return len(records)
}
