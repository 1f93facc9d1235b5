package kafkawire

import (
	"context"
	"fmt"
	"time"
)

// Moment is a place in a partition that is not a number yet.
type Moment int64

// The moments that are no time.
const (
	// Earliest is the first offset that is there.
	Earliest Moment = -2
	// Latest is where new records will be seen: the last stable offset, below every transaction that is still open.
	Latest Moment = -1
	// End is behind all that was written, open transactions included: the high watermark.
	End Moment = -100
)

// At is the first record with this time or a later one; Latest where there is none.
func At(t time.Time) Moment { return Moment(max(0, t.UnixMilli())) }

// ListOffsets makes a number of a moment in each of the partitions of one topic. ListOffsets v6 (KIP-98 isolation, KIP-320
// leader epochs).
func (c *Client) ListOffsets(ctx context.Context, t Topic, m Moment, partitions ...int32) (map[int32]int64, error) {
	offsets := make(map[int32]int64, len(partitions))
	for _, p := range partitions {
		err := c.retry(ctx, "offsets of "+t.Name, func() error {
			o, err := c.listOffset(ctx, t, m, p)
			if err == nil && o < 0 && m >= 0 {
				o, err = c.listOffset(ctx, t, Latest, p)
			}
			offsets[p] = o
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return offsets, nil
}

func (c *Client) listOffset(ctx context.Context, t Topic, m Moment, partition int32) (int64, error) {
	p, err := c.leader(ctx, t.Name, t.ID, partition)
	if err != nil {
		return 0, err
	}
	var r request
	r.i32(-1) // we are no replica
	if m == End {
		r.i8(0) // read_uncommitted: up to the high watermark
		m = Latest
	} else {
		r.i8(1) // read_committed
	}
	r.list(1)
	r.string(t.Name)
	r.list(1)
	r.i32(partition)
	r.i32(p.LeaderEpoch)
	r.i64(int64(m))
	r.noTags()
	r.noTags()
	r.noTags()
	a, err := c.ask(ctx, p.Leader, apiListOffsets, r.b, 0)
	if err != nil {
		c.forgetTopic(t.ID)
		return 0, err
	}
	a.i32() // throttle
	one := a.length() == 1
	a.string()
	one = one && a.length() == 1
	one = one && a.i32() == partition
	code := Code(a.i16())
	a.i64() // time
	offset := a.i64()
	switch {
	case a.err != nil:
		return 0, fmt.Errorf("%s: %w", apiListOffsets.name, a.err)
	case !one:
		return 0, fmt.Errorf("%s: not the partition that was asked for", apiListOffsets.name)
	case code != codeNone:
		c.forgetTopic(t.ID)
		return 0, &BrokerError{API: apiListOffsets.name, Topic: t.Name, Partition: partition, Code: code}
	}
	return offset, nil
}

const codeGroupNotFound Code = 69

// GroupOffset is where a group is in a partition, with what whoever moved it there has noted beside.
type GroupOffset struct {
	Offset int64
	Note   string
}

// Committed returns the offsets that a group has for partitions of topics; what has none is not in the answer. OffsetFetch
// v7 (KIP-447: it waits for transactions that are about to move an offset).
func (c *Client) Committed(ctx context.Context, group string, of map[string][]int32) (map[TopicPartition]GroupOffset, error) {
	var r request
	r.string(group)
	r.partitions(of)
	r.boolean(true) // stable
	r.noTags()
	var offsets map[TopicPartition]GroupOffset
	at := coordinator{groupCoordinator, group}
	err := c.retry(ctx, "offsets of group "+group, func() error {
		a, err := c.askCoordinator(ctx, at, apiOffsetFetch, r.b)
		if err != nil {
			return err
		}
		offsets = map[TopicPartition]GroupOffset{}
		var bad error
		a.i32() // throttle
		for n := a.length(); n > 0 && a.err == nil; n-- {
			topic := a.string()
			for n := a.length(); n > 0 && a.err == nil; n-- {
				p, offset := a.i32(), a.i64()
				a.i32() // leader epoch
				note := a.string()
				if code := Code(a.i16()); code != codeNone && bad == nil {
					bad = &BrokerError{API: apiOffsetFetch.name, Topic: topic, Partition: p, Code: code}
				}
				a.tags()
				if offset >= 0 {
					offsets[TopicPartition{topic, p}] = GroupOffset{offset, note}
				}
			}
			a.tags()
		}
		code := Code(a.i16())
		c.moved(at, code)
		if code == codeGroupNotFound { // No group, no offsets.
			return nil
		}
		if err := refused(apiOffsetFetch, code, "group "+group); err != nil {
			return err
		}
		if a.err != nil {
			return fmt.Errorf("%s: %w", apiOffsetFetch.name, a.err)
		}
		return bad
	})
	if err != nil {
		return nil, err
	}
	return offsets, nil
}

// Commit notes offsets in a group, and a text beside each, as one that assigns partitions by itself: an error with CodeUnknownMember says that the
// group has members, who own its offsets. OffsetCommit v8. The leader epoch is -1, unknown (KIP-320): a wrong one makes
// others believe that the log was cut.
func (c *Client) Commit(ctx context.Context, group, note string, offsets map[TopicPartition]int64) error {
	by := map[string][]int32{}
	for p := range offsets {
		by[p.Topic] = append(by[p.Topic], p.Partition)
	}
	var r request
	r.string(group)
	r.i32(-1) // no generation
	r.string("")
	r.null()
	r.list(len(by))
	for topic, partitions := range by {
		r.string(topic)
		r.list(len(partitions))
		for _, p := range partitions {
			r.i32(p)
			r.i64(offsets[TopicPartition{topic, p}])
			r.i32(-1)
			r.string(note)
			r.noTags()
		}
		r.noTags()
	}
	r.noTags()
	at := coordinator{groupCoordinator, group}
	return c.retry(ctx, "commit of group "+group, func() error {
		a, err := c.askCoordinator(ctx, at, apiOffsetCommit, r.b)
		if err != nil {
			return err
		}
		var bad error
		a.i32() // throttle
		for n := a.length(); n > 0 && a.err == nil; n-- {
			topic := a.string()
			for n := a.length(); n > 0 && a.err == nil; n-- {
				p, code := a.i32(), Code(a.i16())
				a.tags()
				if code != codeNone && bad == nil {
					c.moved(at, code)
					bad = &BrokerError{API: apiOffsetCommit.name, Topic: topic, Partition: p, Code: code, Text: "group " + group}
				}
			}
			a.tags()
		}
		if a.err != nil {
			return fmt.Errorf("%s: %w", apiOffsetCommit.name, a.err)
		}
		return bad
	})
}
