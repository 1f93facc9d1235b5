package engine

import (
	"sync/atomic"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/nfa"
)

// packet is what a shard, or the back, is handed at a time: events that it has to put in order, then watermarks, then at
// most one order. What changes output travels in packets and stands in them where it belongs.
type packet struct {
	clocks   []*clock // that are new
	entries  []*entry
	releases []release // lower layers first
	barrier  *barrier
}

// release moves the time of a clock.
type release struct {
	clock *clock
	to    cep.Time
	// first is the first time of the clock's rules, [cep.AfterAll] until it is known.
	first cep.Time
}

// shard holds the keys of some slots, for all clocks that read no alerts. It belongs to one goroutine, or to the caller.
type shard struct {
	index, shards int
	upper         bool // it is that of the back, for the clocks that read alerts
	memo          *nfa.Memo
	spare         *pool
	timer         func() time.Duration // nil: nothing is timed
	lanes         []*lane              // by the index of the clock
	packet        *packet
	at            int // the release of the packet that is under way
	// chunks are used again where the back is done with them before the next step: where reuse says so.
	chunks []chunk
	reuse  bool
}

// yield is what a shard tells the back: what came of some releases, and at the end of a packet that this is all.
type yield struct {
	chunks []chunk
	last   bool
	part   *shardPart // what a barrier asked for
}

// chunk is what came of a clock up to some time.
type chunk struct {
	clock   *clock
	upTo    cep.Time
	found   []found
	drained []*version
}

// shardOf is the shard that a slot belongs to.
func shardOf(slot uint8, shards int) int { return int(slot) * shards / checkpoint.Slots }

func newShard(index, shards, predicates int, spare *pool, timer func() time.Duration) *shard {
	return &shard{index: index, shards: shards, memo: nfa.NewMemo(predicates), spare: spare, timer: timer}
}

// separate gives the shard a pool of its own.
func (s *shard) separate(spare *pool) {
	s.spare = spare
	for _, l := range s.lanes {
		if l != nil {
			l.spare = spare
		}
	}
}

// lane returns the lane of a clock, and makes it where it is new.
func (s *shard) lane(k *clock) *lane {
	for len(s.lanes) <= k.index {
		s.lanes = append(s.lanes, nil)
	}
	if s.lanes[k.index] == nil {
		s.lanes[k.index] = newLane(k, s)
	}
	return s.lanes[k.index]
}

// begin takes a packet.
func (s *shard) begin(p *packet) {
	s.packet, s.at = p, 0
	for _, e := range p.entries {
		s.lane(e.clock).buffer.push(e)
	}
}

// step works on the packet until there is enough to tell, or it is done.
func (s *shard) step() yield {
	y := yield{chunks: s.chunks[:0]}
	for events := 0; s.at < len(s.packet.releases) && events < releaseMax; {
		r := &s.packet.releases[s.at]
		if r.clock.layer > 0 {
			s.at++
			continue
		}
		l := s.lane(r.clock)
		n, upTo := l.step(r.to, r.first)
		events += n
		y.chunks = append(y.chunks, chunk{r.clock, upTo, l.found, l.drained})
		l.found, l.drained = nil, nil
		if upTo == r.to {
			s.at++
		}
	}
	if s.reuse {
		s.chunks = y.chunks
	}
	if s.at < len(s.packet.releases) {
		return y
	}
	y.last = true
	if b := s.packet.barrier; b != nil {
		y.part = s.save(b)
	}
	s.packet = nil
	return y
}

// amount is a number of events, and of the bytes of the records that they came in.
type amount struct{ events, bytes int64 }

func (a *amount) add(bytes int64) {
	a.events++
	a.bytes += bytes
}

// level is an amount that several goroutines add to.
type level struct{ events, bytes atomic.Int64 }

// take adds an amount and makes it zero.
func (l *level) take(a *amount) {
	if a.events > 0 {
		l.events.Add(a.events)
		l.bytes.Add(a.bytes)
		*a = amount{}
	}
}
