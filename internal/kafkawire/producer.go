package kafkawire

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"
)

const (
	// defaultTransactionTimeout is Kafka's default: an instance that dies holds readers up for no longer.
	defaultTransactionTimeout = time.Minute
	// defaultBatchBytes stays below the 1,048,588 bytes that a topic accepts by default.
	defaultBatchBytes = 1_000_000
	// maxTakeOvers bounds how often one recovery asks for a new identity: once for a fence that was none, and once more for
	// each of two instances that start at the same time.
	maxTakeOvers = 3
	// tokenHeader is the header of a progress record that says which instance wrote it.
	tokenHeader = "cepd-token"
	// tokenLength is 80 bits: no two instances of a job have the same.
	tokenLength = 16
)

// ProducerConfig says who writes, and where the position stands.
type ProducerConfig struct {
	// ID is the transactional id: of all producers with one id, the last one that was opened may write.
	ID string
	// Timeout is after what time brokers abort a transaction that nobody ends (1 m); at most transaction.max.timeout.ms.
	Timeout time.Duration
	// Progress and ProgressPartition are where the position is written, under the key ID. The topic should be compacted.
	Progress          Topic
	ProgressPartition int32
	// BatchBytes bounds a batch (1 MB); a record that is larger is a batch of its own.
	BatchBytes int
}

// PartitionBatch is what a transaction writes to one partition, in order.
type PartitionBatch struct {
	Topic     Topic
	Partition int32
	Records   []Record
}

// Producer writes records and a position in one transaction.
//
// What can happen, and what is done about it:
//
//  1. Open asks for a new identity: whoever had the id is fenced, and what it left open is aborted. Then it reads the position,
//     in that order, and writes it again with the token of this instance. Nothing else ever asks for a new identity, but case 5:
//     an instance that was paused for long would take the id back.
//  2. Transact succeeds: records and position are there, together.
//  3. Transact fails, whatever the error: the transaction may have been committed or not. Recover says which position stands:
//     an EndTxn that was sent is repeated until it has an answer, the next epoch is asked for with our own ids, which aborts
//     what is open, and the position is read.
//  4. Recover finds the token of another instance: a FencedError, the end of this one.
//  5. Recover is told that it is fenced, and finds its own token: an answer was lost, and the coordinator has restarted since
//     and knows the epoch before no more. It asks for a new identity. Had another one taken over and not written its token
//     yet, it loses the id, notices when it writes, and opens again.
//  6. An instance that wakes up asks with its own ids, is refused, and aborts the owner's open transaction by that. The owner
//     sees 47, 48 or 90 and recovers.
//
// The order of tokens in the position's partition is the order of owners, since each wrote its own under its own epoch.
type Producer struct {
	client *Client
	config ProducerConfig
	token  string
	table  *crc32.Table

	own identity
	// second: transactions of version 2 (KIP-890).
	second bool
	// fresh: the epoch has not been used by a transaction of version 1.
	fresh     bool
	sequences map[TopicPartition]int32
	opened    bool
	claimed   bool
	settled   bool
	// ending: EndTxn was sent and not answered.
	ending bool
	buf    []byte

	progress progressReader
}

// NewProducer makes a Producer that has asked nothing yet.
func (c *Client) NewProducer(config ProducerConfig) (*Producer, error) {
	if config.ID == "" {
		return nil, errors.New("producer: the transactional id is empty")
	}
	if config.Progress.ID == (TopicID{}) {
		return nil, errors.New("producer: the progress topic has no id: ask Topic for it")
	}
	if config.Timeout <= 0 {
		config.Timeout = defaultTransactionTimeout
	}
	if config.BatchBytes <= 0 {
		config.BatchBytes = defaultBatchBytes
	}
	p := &Producer{
		client: c, config: config, token: rand.Text()[:tokenLength], table: castagnoli(), own: nobody,
	}
	p.progress = progressReader{
		client: c, topic: config.Progress, partition: config.ProgressPartition, key: config.ID, offset: -1,
		decoder: newDecoder(newCodecs()),
	}
	return p, nil
}

// Open takes over the transactional id and returns the position that stands; nil where there is none.
func (p *Producer) Open(ctx context.Context) ([]byte, error) {
	p.own, p.opened, p.claimed, p.settled, p.ending = nobody, true, false, false, false
	return p.recover(ctx)
}

// Recover returns the position that stands after Transact has failed, and makes the producer ready for the next one. It may
// be repeated; its errors that are [Retriable] are worth it.
func (p *Producer) Recover(ctx context.Context) ([]byte, error) {
	if !p.opened {
		return nil, errors.New("producer: not open")
	}
	p.settled = false
	return p.recover(ctx)
}

// Transact writes all batches and the position in one transaction, or nothing that a read_committed consumer sees. A nil
// error: it is committed, and seen a few milliseconds later. Any error: Recover says what stands.
func (p *Producer) Transact(ctx context.Context, progress []byte, batches []PartitionBatch) error {
	if !p.settled {
		return ErrUnsettled
	}
	p.settled = false
	if err := p.transact(ctx, progress, batches); err != nil {
		return fmt.Errorf("transaction of %q: %w", p.config.ID, err)
	}
	p.settled = true
	return nil
}

// Version is the version of the transactions: 2 where the cluster has finalized it, else 1.
func (p *Producer) Version() int {
	if p.second {
		return 2
	}
	return 1
}

// recover is the one way back, cases 1 and 3 to 6.
func (p *Producer) recover(ctx context.Context) ([]byte, error) {
	if p.ending {
		// A refusal is an answer too.
		if err := p.end(ctx); p.ending {
			return nil, fmt.Errorf("recover %q: how the last transaction ended is not known yet: %w", p.config.ID, err)
		}
	}
	// The cluster may have another version by now.
	p.client.forgetBroker(anyBroker)
	end := time.Now().Add(p.client.config.RetryFor)
	for takeOvers := 0; ; {
		fenced := p.identify(ctx)
		if fenced != nil && !notOwner(fenced) {
			return nil, fmt.Errorf("open transactional id %q: %w", p.config.ID, fenced)
		}
		stands, err := p.progress.read(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the position of %q: %w", p.config.ID, err)
		}
		switch {
		case fenced != nil && p.claimed && stands.token != p.token, fenced != nil && takeOvers >= maxTakeOvers:
			return nil, &FencedError{ID: p.config.ID, Ours: p.token, Owner: stands.token}
		case fenced != nil:
			p.client.log.DebugContext(ctx, "fenced by nobody", "id", p.config.ID, "claimed", p.claimed, "err", fenced)
			p.own = nobody
			takeOvers++
		case p.claimed && stands.token != p.token && stands.token != "":
			// We are the owner by the epoch, and somebody else has written: the id is used by two that do not know it.
			return nil, &FencedError{ID: p.config.ID, Ours: p.token, Owner: stands.token}
		case p.claimed && stands.token == p.token:
			p.settled = true
			return stands.value, nil
		default: // Not claimed yet, or the position was lost with our token: claimed anew.
			err := p.transact(ctx, stands.value, nil)
			if err == nil {
				p.claimed, p.settled = true, true
				return stands.value, nil
			}
			if p.ending || time.Now().After(end) || !Retriable(err) && !mayPass(err) {
				return nil, fmt.Errorf("claim transactional id %q: %w", p.config.ID, err)
			}
			if err := sleep(ctx, maxPause); err != nil {
				return nil, err
			}
		}
	}
}

// notOwner are the refusals of those who do not own the id, or whom the coordinator has forgotten.
func notOwner(err error) bool {
	return errors.Is(err, CodeProducerFenced) || errors.Is(err, CodeInvalidProducerEpoch) || errors.Is(err, CodeInvalidProducerID)
}

// mayPass are the refusals inside a transaction behind which recovery goes on.
func mayPass(err error) bool {
	return notOwner(err) || errors.Is(err, CodeInvalidTxnState) || errors.Is(err, CodeTransactionAbortable) ||
		errors.Is(err, CodeOutOfOrderSequence) || errors.Is(err, CodeUnknownProducer)
}

// identify gets the next epoch, and finds out which transactions the cluster has.
func (p *Producer) identify(ctx context.Context) error {
	return p.client.retry(ctx, "identity of "+p.config.ID, func() error {
		v, err := p.client.brokerVersions(ctx, anyBroker)
		if err != nil {
			return err
		}
		own, err := p.client.initProducer(ctx, p.config.ID, p.own, p.config.Timeout)
		if err != nil {
			return err
		}
		p.second = v.transactions >= 2 && v.speaks(apiProduceV2) && v.speaks(apiEndTxnV2)
		p.identity(own)
		p.fresh = true
		return nil
	})
}

// identity begins an epoch, in which sequences begin at 0.
func (p *Producer) identity(own identity) {
	p.own = own
	p.sequences = map[TopicPartition]int32{}
}

func (p *Producer) transact(ctx context.Context, progress []byte, batches []PartitionBatch) error {
	if progress == nil {
		progress = []byte{} // A null value would remove the token when the topic is compacted.
	}
	all := slices.Concat(batches, []PartitionBatch{{
		Topic: p.config.Progress, Partition: p.config.ProgressPartition,
		Records: []Record{{Key: []byte(p.config.ID), Value: progress, Headers: []Header{{tokenHeader, []byte(p.token)}}}},
	}})
	all = slices.DeleteFunc(all, func(b PartitionBatch) bool { return len(b.Records) == 0 })
	if !p.second {
		// A new epoch for each transaction: a batch of the one before that comes late is refused.
		if !p.fresh {
			if err := p.identify(ctx); err != nil {
				return err
			}
		}
		p.fresh = false
		if !p.second { // The cluster may have changed its mind.
			var partitions []TopicPartition
			for _, b := range all {
				if tp := (TopicPartition{b.Topic.Name, b.Partition}); !slices.Contains(partitions, tp) {
					partitions = append(partitions, tp)
				}
			}
			err := p.client.retryFor(ctx, p.patience(), "partitions of "+p.config.ID, func() error {
				return p.client.addPartitions(ctx, p.config.ID, p.own, partitions)
			}, Retriable)
			if err != nil {
				return err
			}
		}
	}
	w := writer{client: p.client, id: p.config.ID, second: p.second, batchBytes: p.config.BatchBytes, patience: p.patience(), seal: p.seal, buf: p.buf}
	err := w.write(ctx, all)
	p.buf = w.buf
	if err != nil {
		return err
	}
	p.ending = true
	return p.end(ctx)
}

// patience is for how long a request inside a transaction is repeated: well below the time after which it is aborted.
func (p *Producer) patience() time.Duration { return min(p.client.config.RetryFor, p.config.Timeout/2) }

// seal appends a batch with the next sequences of its partition.
func (p *Producer) seal(b []byte, tp TopicPartition, records []Record, millis int64) []byte {
	b = appendBatch(b, records, millis, producerState{p.own.producer, p.own.epoch, p.sequences[tp]}, true, p.table)
	// They wrap around at 2^31 (KIP-98), though no epoch comes that far.
	p.sequences[tp] = int32((int64(p.sequences[tp]) + int64(len(records))) & 0x7fffffff)
	return b
}

// end commits, and repeats that until it has an answer: from version 2 on the answer holds the next epoch, without which a
// restarted coordinator takes us for somebody else.
func (p *Producer) end(ctx context.Context) error {
	return p.client.retry(ctx, "end of "+p.config.ID, func() error {
		own, err := p.client.endTransaction(ctx, p.config.ID, p.own, true, p.second)
		if err == nil {
			p.ending = false
			if p.second {
				p.identity(own)
			}
			return nil
		}
		if code, ok := errors.AsType[*BrokerError](err); ok && !code.Code.retriable() {
			p.ending = false
		}
		return err
	})
}
