package kafkawire

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// wanted is one partition of a fetch.
type wanted struct {
	id          TopicID
	partition   int32
	leaderEpoch int32
	offset      int64
	// bytes is the limit for this partition; a first batch that is larger comes whole all the same (KIP-74).
	bytes int32
}

// fetched is the answer for one partition.
type fetched struct {
	code                            Code
	highWatermark, stable, logStart int64
	aborted                         []aborted
	raw                             []byte
}

// fetch asks one leader for several partitions: Fetch v13, by topic id (KIP-516), read_committed (KIP-98), with the leader
// epoch (KIP-320), without a session (KIP-227). Answers come in the order of what was wanted.
func (c *Client) fetch(ctx context.Context, broker int32, want []wanted, maxBytes int32, wait time.Duration) ([]fetched, error) {
	var r request
	r.i32(-1) // we are no replica
	r.i32(milliseconds(wait))
	r.i32(1) // one byte is enough to answer
	r.i32(maxBytes)
	r.i8(1)   // read_committed
	r.i32(0)  // no session,
	r.i32(-1) // and none wanted
	// Each partition stands as a topic of its own: the order in which they are wanted is the order in which they are filled.
	r.list(len(want))
	for i := range want {
		w := &want[i]
		r.id(w.id)
		r.list(1)
		r.i32(w.partition)
		r.i32(w.leaderEpoch)
		r.i64(w.offset)
		r.i32(-1) // last fetched epoch: for replicas
		r.i64(-1) // log start: the same
		r.i32(w.bytes)
		r.noTags()
		r.noTags()
	}
	r.list(0)    // forgotten topics
	r.string("") // rack
	r.noTags()
	a, err := c.ask(ctx, broker, apiFetch, r.b, wait)
	if err != nil {
		return nil, err
	}
	return parseFetch(&a, want)
}

type fetchKey struct {
	id        TopicID
	partition int32
}

func parseFetch(a *answer, want []wanted) ([]fetched, error) {
	index := make(map[fetchKey]int, len(want))
	for i := range want {
		index[fetchKey{want[i].id, want[i].partition}] = i
	}
	got := make([]fetched, len(want))
	for i := range got {
		got[i].code = CodeNetworkException // not in the answer
	}
	a.i32() // throttle
	code := Code(a.i16())
	a.i32() // session
	for n := a.length(); n > 0 && a.err == nil; n-- {
		id := a.id()
		for n := a.length(); n > 0 && a.err == nil; n-- {
			partition := a.i32()
			f := fetched{code: Code(a.i16()), highWatermark: a.i64(), stable: a.i64(), logStart: a.i64()}
			for n := a.length(); n > 0 && a.err == nil; n-- {
				f.aborted = append(f.aborted, aborted{producer: a.i64(), first: a.i64()})
				a.tags()
			}
			a.i32() // preferred replica: we give no rack, so there is none
			f.raw = a.bytes()
			a.tags()
			if a.err != nil {
				break
			}
			i, ok := index[fetchKey{id, partition}]
			if !ok {
				return nil, fmt.Errorf("%s: an answer for topic id %s partition %d, which was not asked for", apiFetch.name, id, partition)
			}
			slices.SortFunc(f.aborted, func(a, b aborted) int { return cmp.Compare(a.first, b.first) })
			got[i] = f
		}
		a.tags()
	}
	if err := refused(apiFetch, code, ""); err != nil {
		return nil, err
	}
	if a.err != nil {
		return nil, fmt.Errorf("%s: %w", apiFetch.name, a.err)
	}
	return got, nil
}
