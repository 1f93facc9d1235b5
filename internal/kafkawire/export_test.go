package kafkawire

import (
	"context"
	"time"
)

// Hang leaves a transaction as a broker does that loses markers: a record is in both partitions, and only the first one was
// added to the transaction, so that only that one gets a marker. The broker must not verify partitions.
func Hang(ctx context.Context, c *Client, id string, topic Topic, commit bool) error {
	var own identity
	err := c.retry(ctx, "identity", func() (err error) {
		own, err = c.initProducer(ctx, id, nobody, time.Minute)
		return err
	})
	if err != nil {
		return err
	}
	err = c.retry(ctx, "partitions", func() error {
		return c.addPartitions(ctx, id, own, []TopicPartition{{topic.Name, 0}})
	})
	if err != nil {
		return err
	}
	var batches []*outgoing
	for n := range int32(2) {
		b := appendBatch(nil, []Record{{Value: []byte("hangs")}}, time.Now().UnixMilli(), producerState{own.producer, own.epoch, 0}, true, castagnoli())
		batches = append(batches, &outgoing{topic: topic, partition: n, batch: b})
	}
	c.produce(ctx, id, false, batches)
	for _, b := range batches {
		if b.err != nil {
			return b.err
		}
	}
	_, err = c.endTransaction(ctx, id, own, commit, false)
	return err
}

// Forget has the coordinator forget how the last transaction ended.
func Forget(ctx context.Context, c *Client, id string) error {
	return c.retry(ctx, "identity", func() error {
		_, err := c.initProducer(ctx, id, nobody, time.Minute)
		return err
	})
}
