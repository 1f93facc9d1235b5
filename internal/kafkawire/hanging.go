package kafkawire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A transaction hangs in a partition where its records are and its marker never comes: nothing behind them is seen by anybody
// who reads committed records. Brokers do that: a coordinator that loads a transaction which is to be committed sends the
// markers, and takes a partition that has no leader at that moment for one that was deleted. On one node every restart with
// markers under way is such a moment: the node leads its partitions by what it was, then none until it has registered anew.
// docs/kafka-protocol.md has the evidence.
//
// The records are committed by the next marker of the same producer in the partition. So whoever has the transactional id
// can end what hangs, and does: a transaction of version 1 without records, to which the partitions are added by name, ends
// as the one ended whose markers were lost.

// place is a partition of a topic that is known by its id.
type place struct {
	topic     Topic
	partition int32
}

func (p place) String() string { return fmt.Sprintf("%s/%d", p.topic.Name, p.partition) }

func (p place) same(o place) bool { return p.topic.ID == o.topic.ID && p.partition == o.partition }

// verdict is how the last transaction of an id ended, as its coordinator has it.
type verdict uint8

const (
	verdictUnknown verdict = iota
	verdictCommit
	verdictAbort
)

// stateOf is what the coordinator says of a transaction: DescribeTransactions v0 (KIP-664).
func (c *Client) stateOf(ctx context.Context, id string) (string, error) {
	var r request
	r.list(1)
	r.string(id)
	r.noTags()
	at := coordinator{transactionCoordinator, id}
	a, err := c.askCoordinator(ctx, at, apiDescribeTxns, r.b)
	if err != nil {
		return "", err
	}
	a.i32() // throttle
	if a.length() != 1 {
		return "", fmt.Errorf("%s: %w", apiDescribeTxns.name, errLong)
	}
	code := Code(a.i16())
	a.string()
	state := a.string()
	c.moved(at, code)
	if err := refused(apiDescribeTxns, code, "transactional id "+id); err != nil {
		return "", err
	}
	return state, a.err
}

// verdictOf says how a transaction ends that is in a state; asking for the next epoch aborts what is under way.
func verdictOf(state string) verdict {
	switch state {
	case "PrepareCommit", "CompleteCommit":
		return verdictCommit
	case "Ongoing", "PrepareAbort", "CompleteAbort", "PrepareEpochFence":
		return verdictAbort
	default:
		return verdictUnknown
	}
}

// openIn returns those of the places in which a producer has a transaction that has not ended and is older than its epoch:
// DescribeProducers v0 (KIP-664), asked of each leader. What has the same epoch or a newer one belongs to who is at work now.
func (c *Client) openIn(ctx context.Context, own identity, places []place) ([]place, error) {
	leaders := map[int32][]place{}
	for _, p := range places {
		l, err := c.leader(ctx, p.topic.Name, p.topic.ID, p.partition)
		if _, remade := errors.AsType[*RecreatedError](err); remade {
			continue // what it held is gone
		}
		if err != nil {
			return nil, err
		}
		leaders[l.Leader] = append(leaders[l.Leader], p)
	}
	var open []place
	for broker, places := range leaders {
		found, err := c.openAt(ctx, broker, own, places)
		if err != nil {
			for _, p := range places {
				c.forgetTopic(p.topic.ID)
			}
			return nil, err
		}
		open = append(open, found...)
	}
	return open, nil
}

func (c *Client) openAt(ctx context.Context, broker int32, own identity, places []place) ([]place, error) {
	by := map[string][]int32{}
	for _, p := range places {
		by[p.topic.Name] = append(by[p.topic.Name], p.partition)
	}
	var r request
	r.partitions(by)
	r.noTags()
	a, err := c.ask(ctx, broker, apiDescribeProducers, r.b, 0)
	if err != nil {
		return nil, err
	}
	var (
		open []place
		bad  error
	)
	a.i32() // throttle
	for n := a.length(); n > 0 && a.err == nil; n-- {
		topic := a.string()
		for n := a.length(); n > 0 && a.err == nil; n-- {
			partition, code, text := a.i32(), Code(a.i16()), a.string()
			if code != codeNone && bad == nil {
				bad = &BrokerError{API: apiDescribeProducers.name, Topic: topic, Partition: partition, Code: code, Text: text}
			}
			for n := a.length(); n > 0 && a.err == nil; n-- {
				id := a.i64()
				epoch := a.i32()
				a.i32() // last sequence
				a.i64() // last time
				a.i32() // coordinator's epoch
				if begun := a.i64(); id == own.producer && epoch < int32(own.epoch) && begun >= 0 {
					i := slices.IndexFunc(places, func(p place) bool { return p.topic.Name == topic && p.partition == partition })
					if i >= 0 {
						open = append(open, places[i])
					}
				}
				a.tags()
			}
			a.tags()
		}
		a.tags()
	}
	if a.err != nil {
		return nil, fmt.Errorf("%s: %w", apiDescribeProducers.name, a.err)
	}
	return open, bad
}

// mend ends what hangs in the places. The own identity is fresh: a coordinator gives one only when it takes the transaction
// before for ended, so that nothing older of this producer is open anywhere but what hangs.
func (p *Producer) mend(ctx context.Context, places []place) error {
	var hanging []place
	err := p.client.retry(ctx, "hanging transactions of "+p.config.ID, func() (err error) {
		hanging, err = p.client.openIn(ctx, p.own, places)
		return err
	})
	switch {
	case err != nil && !Retriable(err) && ctx.Err() == nil:
		// To look takes the right to read the topic, which who writes may not have.
		p.client.log.DebugContext(ctx, "hanging transactions are not looked for", "id", p.config.ID, "err", err)
		return nil
	case err != nil || len(hanging) == 0:
		return err
	case p.verdict == verdictUnknown:
		return &HangingError{ID: p.config.ID, Where: names(hanging)}
	}
	var partitions []TopicPartition
	for _, h := range hanging {
		partitions = append(partitions, TopicPartition{h.topic.Name, h.partition})
	}
	// From here on the next epoch would abort what is committed here: whatever fails, this end is asked for first.
	p.ending = &ending{commit: p.verdict == verdictCommit}
	err = p.client.retry(ctx, "partitions of "+p.config.ID, func() error {
		return p.client.addPartitions(ctx, p.config.ID, p.own, partitions)
	})
	if err == nil {
		err = p.end(ctx)
	}
	if err != nil {
		return err
	}
	p.client.log.WarnContext(ctx, "a broker had lost the markers of a transaction; it is ended now",
		"id", p.config.ID, "where", names(hanging), "committed", p.verdict == verdictCommit)
	return p.identify(ctx) // which waits until the markers are written
}

func names(places []place) string {
	var l []string
	for _, p := range places {
		l = append(l, p.String())
	}
	slices.Sort(l)
	return strings.Join(l, ", ")
}

// HangingError says that a transaction hangs, and that nobody knows any more whether it was committed: the instance that did
// died, and the one after it too before it could see to it.
type HangingError struct {
	// ID is the transactional id, Where the partitions.
	ID, Where string
}

// Error says what to do.
func (e *HangingError) Error() string {
	return fmt.Sprintf("a transaction of %q hangs in %s since a broker lost its markers, and whether it was committed is not known any more: end it with kafka-transactions.sh abort, in each partition, or let it stand and write to another topic", e.ID, e.Where)
}
