package kafkawire

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// identity is who a transactional producer is to the brokers.
type identity struct {
	producer int64
	epoch    int16
}

// nobody asks for a new identity, and so takes over from whoever has the transactional id.
var nobody = identity{-1, -1}

// initProducer gets the next epoch. InitProducerId v4 (KIP-98; own ids KIP-360): with nobody it takes over and aborts what
// is open; with the own ids it is refused where somebody else has taken over since.
func (c *Client) initProducer(ctx context.Context, id string, own identity, timeout time.Duration) (identity, error) {
	var r request
	r.string(id)
	r.i32(milliseconds(timeout))
	r.i64(own.producer)
	r.i16(own.epoch)
	r.noTags()
	at := coordinator{transactionCoordinator, id}
	a, err := c.askCoordinator(ctx, at, apiInitProducer, r.b)
	if err != nil {
		return nobody, err
	}
	a.i32() // throttle
	code := Code(a.i16())
	got := identity{a.i64(), a.i16()}
	c.moved(at, code)
	if code == CodeInvalidTxnTimeout {
		return nobody, refused(apiInitProducer, code, fmt.Sprintf("the transaction timeout of %v is above the broker's transaction.max.timeout.ms: lower one or raise the other", timeout))
	}
	if err := refused(apiInitProducer, code, "transactional id "+id); err != nil {
		return nobody, err
	}
	return got, a.err
}

// addPartitions tells the coordinator which partitions a transaction of version 1 writes. AddPartitionsToTxn v3 (KIP-98);
// version 2 has no need of it (KIP-890).
func (c *Client) addPartitions(ctx context.Context, id string, own identity, partitions []TopicPartition) error {
	var r request
	r.string(id)
	r.i64(own.producer)
	r.i16(own.epoch)
	by := map[string][]int32{}
	for _, p := range partitions {
		by[p.Topic] = append(by[p.Topic], p.Partition)
	}
	r.partitions(by)
	r.noTags()
	at := coordinator{transactionCoordinator, id}
	a, err := c.askCoordinator(ctx, at, apiAddPartitions, r.b)
	if err != nil {
		return err
	}
	var worst *BrokerError
	a.i32() // throttle
	for n := a.length(); n > 0 && a.err == nil; n-- {
		topic := a.string()
		for n := a.length(); n > 0 && a.err == nil; n-- {
			p, code := a.i32(), Code(a.i16())
			a.tags()
			// 55 says only that another partition was refused.
			if code != codeNone && (worst == nil || worst.Code == codeNotAttempted) {
				c.moved(at, code)
				worst = &BrokerError{API: apiAddPartitions.name, Topic: topic, Partition: p, Code: code}
			}
		}
		a.tags()
	}
	if a.err != nil {
		return fmt.Errorf("%s: %w", apiAddPartitions.name, a.err)
	}
	if worst != nil {
		return worst
	}
	return nil
}

const codeNotAttempted Code = 55

// endTransaction commits, or aborts. EndTxn v5 (KIP-890) returns the identity of the next transaction; v3 leaves the old one.
func (c *Client) endTransaction(ctx context.Context, id string, own identity, commit, second bool) (identity, error) {
	api := apiEndTxnV1
	if second {
		api = apiEndTxnV2
	}
	var r request
	r.string(id)
	r.i64(own.producer)
	r.i16(own.epoch)
	r.boolean(commit)
	r.noTags()
	at := coordinator{transactionCoordinator, id}
	a, err := c.askCoordinator(ctx, at, api, r.b)
	if err != nil {
		return own, err
	}
	a.i32() // throttle
	code := Code(a.i16())
	c.moved(at, code)
	if err := refused(api, code, "transactional id "+id); err != nil {
		return own, err
	}
	if second {
		own = identity{a.i64(), a.i16()}
	}
	return own, a.err
}

// outgoing is one batch of one partition on its way.
type outgoing struct {
	topic     Topic
	partition int32
	batch     []byte
	err       error
	done      bool
}

// Write writes batches without a transaction, each acknowledged by all replicas in sync: records may be there twice where an
// answer was lost, and some of them where there is an error. Produce v9.
func (c *Client) Write(ctx context.Context, batches []PartitionBatch) error {
	table := castagnoli()
	w := writer{client: c, batchBytes: defaultBatchBytes, patience: c.config.RetryFor, seal: func(b []byte, _ TopicPartition, records []Record, millis int64) []byte {
		return appendBatch(b, records, millis, producerState{-1, -1, -1}, false, table)
	}}
	return w.write(ctx, batches)
}

// produce sends each batch to its leader, once, and notes in each what became of it. No two are for one partition.
func (c *Client) produce(ctx context.Context, id string, second bool, batches []*outgoing) {
	leaders := map[int32][]*outgoing{}
	for _, o := range batches {
		p, err := c.leader(ctx, o.topic.Name, o.topic.ID, o.partition)
		if o.err = err; err == nil {
			leaders[p.Leader] = append(leaders[p.Leader], o)
		}
	}
	var wg sync.WaitGroup
	for broker, batches := range leaders {
		wg.Go(func() {
			err := c.produceTo(ctx, broker, id, second, batches)
			for _, o := range batches {
				if err != nil {
					o.err = err
				}
				if o.err != nil {
					c.forgetTopic(o.topic.ID)
				}
			}
		})
	}
	wg.Wait()
}

// produceTo is one request to one leader. Produce v12 adds its partitions to the transaction by itself (KIP-890), v9 wants
// them added before. A batch with a sequence that is there already is acknowledged, or answered by 46.
func (c *Client) produceTo(ctx context.Context, broker int32, id string, second bool, batches []*outgoing) error {
	api := apiProduceV1
	if second {
		api = apiProduceV2
	}
	size := 64 + len(id)
	for _, o := range batches {
		size += 64 + len(o.topic.Name) + len(o.batch)
	}
	r := request{b: make([]byte, 0, size)}
	if id == "" {
		r.null()
	} else {
		r.string(id)
	}
	r.i16(-1) // acknowledged by all replicas in sync
	r.i32(milliseconds(c.config.RequestTimeout))
	by := map[string][]*outgoing{}
	var names []string
	for _, o := range batches {
		if by[o.topic.Name] == nil {
			names = append(names, o.topic.Name)
		}
		by[o.topic.Name] = append(by[o.topic.Name], o)
	}
	r.list(len(names))
	for _, name := range names {
		r.string(name)
		r.list(len(by[name]))
		for _, o := range by[name] {
			r.i32(o.partition)
			r.bytes(o.batch)
			r.noTags()
		}
		r.noTags()
	}
	r.noTags()
	a, err := c.ask(ctx, broker, api, r.b, c.config.RequestTimeout)
	if err != nil {
		return err
	}
	for _, o := range batches {
		o.err = errUnanswered
	}
	for n := a.length(); n > 0 && a.err == nil; n-- {
		topic := a.string()
		for n := a.length(); n > 0 && a.err == nil; n-- {
			partition, code := a.i32(), Code(a.i16())
			a.i64() // base offset
			a.i64() // log append time
			a.i64() // log start
			for n := a.length(); n > 0 && a.err == nil; n-- {
				a.i32()
				a.string()
				a.tags()
			}
			text := a.string()
			a.tags()
			for _, o := range by[topic] {
				if o.partition != partition {
					continue
				}
				o.err = nil
				if code != codeNone && code != CodeDuplicateSequence {
					o.err = &BrokerError{API: api.name, Topic: topic, Partition: partition, Code: code, Text: text}
				}
				o.done = o.err == nil
			}
		}
		a.tags()
	}
	if a.err != nil {
		return fmt.Errorf("%s: %w", api.name, a.err)
	}
	return nil
}

var errUnanswered = fmt.Errorf("produce: the partition is not in the answer: %w", CodeNetworkException)
