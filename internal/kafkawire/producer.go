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
	// minMarkers is how long markers take at least on a machine with nothing else to do, maxMarkers how long they are waited
	// for at most: by then the leader would have asked again.
	minMarkers, maxMarkers = 500 * time.Microsecond, 25 * time.Millisecond
	// abandonFor bounds the end of a transaction for which nobody waits any more: it takes milliseconds where a broker is there.
	abandonFor = time.Second
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
	// Outputs are topics that transactions of this id are written to. Open looks there for transactions that a broker has
	// left hanging when a predecessor died.
	Outputs []Topic
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
	// ending is an EndTxn that was sent, or has to be, and is not answered; nil: none.
	ending *ending
	buf    []byte
	// last is where the transaction before wrote, and all that are not known to have ended; verdict is how it ended, and dials
	// how many connections there were then.
	last    []place
	ended   time.Time // when the last transaction was
	verdict verdict
	dials   int64

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
	p.own, p.opened, p.claimed, p.settled, p.ending = nobody, true, false, false, nil
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
	before := p.last
	if err := p.transact(ctx, progress, batches); err != nil {
		if ctx.Err() != nil {
			p.abandon(ctx)
		}
		return fmt.Errorf("transaction of %q: %w", p.config.ID, err)
	}
	p.settled = true
	p.look(ctx, before)
	return nil
}

// abandon ends what is open where the caller has no time left, as a process that ends: until its time-out an open transaction
// hides what stands behind it, in the topic of positions from other jobs too. What cannot be done in a second is left to that,
// or to whoever opens the id next.
func (p *Producer) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonFor)
	defer cancel()
	if p.ending == nil {
		p.ending = &ending{commit: false, second: p.second}
	}
	if err := p.end(ctx); err != nil {
		p.client.log.DebugContext(ctx, "a transaction is left open", "id", p.config.ID, "err", err)
	}
}

// look finds out, where a connection was made since the transaction before, whether a broker has restarted and lost its
// markers: those in partitions to which the one that has just ended wrote too are there by now. What cannot be asked now is
// asked behind the next transaction.
func (p *Producer) look(ctx context.Context, before []place) {
	now := p.last
	dials := p.client.dials.Load()
	if dials == p.dials {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(before), func(b place) bool { return slices.ContainsFunc(now, b.same) })
	hanging, err := p.client.openIn(ctx, p.own, rest)
	if err == nil && len(hanging) > 0 {
		if err = p.identify(ctx); err == nil {
			err = p.mend(ctx, hanging)
		}
	}
	if err != nil {
		p.client.log.DebugContext(ctx, "hanging transactions are looked for later", "id", p.config.ID, "err", err)
		p.last = append(slices.Clone(now), rest...)
		p.settled = p.ending == nil && !notOwner(err)
		return
	}
	p.dials = dials
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
	if p.ending != nil {
		// A refusal is an answer too.
		if err := p.end(ctx); p.ending != nil {
			return nil, fmt.Errorf("recover %q: how the last transaction ended is not known yet: %w", p.config.ID, err)
		}
	}
	// The cluster may have another version by now.
	p.client.forgetBroker(anyBroker)
	end := time.Now().Add(p.client.config.RetryFor)
	for takeOvers := 0; ; {
		fenced := p.succeed(ctx)
		if fenced == nil {
			if err := p.mend(ctx, p.places()); err != nil && !notOwner(err) {
				return nil, fmt.Errorf("recover %q: %w", p.config.ID, err)
			}
			p.last, p.dials = nil, p.client.dials.Load()
		}
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
			if p.ending != nil || time.Now().After(end) || !Retriable(err) && !mayPass(err) {
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

// succeed gets the next epoch behind a transaction whose end is noted first: it is forgotten by that.
func (p *Producer) succeed(ctx context.Context) error {
	return p.client.retry(ctx, "identity of "+p.config.ID, func() error {
		state, err := p.client.stateOf(ctx, p.config.ID)
		if err != nil && Retriable(err) {
			return err
		}
		if v := verdictOf(state); v != verdictUnknown {
			p.verdict = v
		}
		return p.next(ctx)
	})
}

// places are the partitions in which a transaction of this id may hang.
func (p *Producer) places() []place {
	all := append([]place{{p.config.Progress, p.config.ProgressPartition}}, p.last...)
	for _, t := range p.config.Outputs {
		for _, n := range t.Partitions {
			all = append(all, place{t, n.Number})
		}
	}
	seen := map[TopicPartition]bool{}
	return slices.DeleteFunc(all, func(p place) bool {
		tp := TopicPartition{p.topic.Name, p.partition}
		twice := seen[tp]
		seen[tp] = true
		return twice
	})
}

// identify gets the next epoch, and finds out which transactions the cluster has.
func (p *Producer) identify(ctx context.Context) error {
	return p.client.retry(ctx, "identity of "+p.config.ID, func() error { return p.next(ctx) })
}

// next asks once.
func (p *Producer) next(ctx context.Context) error {
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
	before := p.last
	p.last = nil
	for _, b := range all {
		if at := (place{b.Topic, b.Partition}); !slices.ContainsFunc(p.last, at.same) {
			p.last = append(p.last, at)
		}
	}
	now := p.last
	p.last = append(slices.Clone(now), before...)
	if err := p.bring(ctx, all); err != nil {
		return err
	}
	p.last, p.verdict = now, verdictCommit
	return nil
}

// bring writes batches in one transaction, and ends it.
func (p *Producer) bring(ctx context.Context, all []PartitionBatch) error {
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
	if p.second {
		p.await(ctx)
	}
	w := writer{client: p.client, id: p.config.ID, second: p.second, batchBytes: p.config.BatchBytes, patience: p.patience(), seal: p.seal, buf: p.buf}
	err := w.write(ctx, all)
	p.buf = w.buf
	if err != nil {
		return err
	}
	p.ending = &ending{commit: true, second: p.second}
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

// await waits until the coordinator has done with the transaction before. A batch that comes earlier is held by its leader, which
// asks again after 20 ms (add.partitions.to.txn.retry.backoff.ms); the markers take some milliseconds.
func (p *Producer) await(ctx context.Context) {
	for pause := minMarkers - time.Since(p.ended); time.Since(p.ended) < maxMarkers; pause = minPause {
		if pause > 0 && sleep(ctx, pause) != nil {
			return
		}
		state, err := p.client.stateOf(ctx, p.config.ID)
		if err != nil || verdictOf(state) == verdictUnknown || state == "CompleteCommit" || state == "CompleteAbort" {
			return
		}
	}
}

// ending is how a transaction is to end, in which version.
type ending struct{ commit, second bool }

// end ends a transaction, and repeats that until it has an answer: from version 2 on the answer holds the next epoch, without
// which a restarted coordinator takes us for somebody else.
func (p *Producer) end(ctx context.Context) error {
	return p.client.retry(ctx, "end of "+p.config.ID, func() error {
		own, err := p.client.endTransaction(ctx, p.config.ID, p.own, p.ending.commit, p.ending.second)
		if err == nil {
			if p.ending.second {
				p.identity(own)
			}
			p.ending, p.ended = nil, time.Now()
			return nil
		}
		if code, ok := errors.AsType[*BrokerError](err); ok && !code.Code.retriable() {
			p.ending = nil
		}
		return err
	})
}
