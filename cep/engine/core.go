package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/rules"
)

// ToEnd is an advance for [Core.Finish] that moves time behind every deadline.
const ToEnd = cep.Duration(1<<63 - 1)

// batchDefault is the number of events between two releases. A release costs a look at every clock and every rule's
// deadline, a microsecond for 1,000 rules; 256 events make that nothing, and their alerts wait less than a millisecond.
const batchDefault = 256

// Options change how a Core works.
type Options struct {
	// Alert is handed every alert, in the order of S7.1. Nil: nobody wants them.
	Alert func(*cep.Alert)
	// Batch is the number of events between two releases; a default where it is 0. Output does not depend on it.
	Batch int
	// Furthest remembers the run of each rule that came furthest, for tests of rules: see [Core.Furthest].
	Furthest bool
	// Shards is the number of parts into which keys fall; 1 where it is 0, [checkpoint.Slots] at most. Output does not depend
	// on it.
	Shards int
	// Parallel gives each shard, and the back where their matches meet, a goroutine of its own: see [Core.Close].
	Parallel bool
	// PerClock lets alerts out as soon as the clock of their rules has passed them: a stream that stalls delays only rules that
	// read it, and alerts of rules on different clocks come in no promised order. Otherwise all alerts come in one order.
	PerClock bool
	// Reject is told of each event or record that is refused, in the goroutine of the caller of Push, and not again when it
	// is read again. Nil: nobody wants to know.
	Reject func(*Reject)
	// Ready is told when alerts wait for the next barrier: from the goroutine of the back with Parallel, so it must not block
	// or call the Core. Nil: nobody wants to know.
	Ready func()
	// Timer tells how much time has passed since whenever, from any goroutine: with it the work on some events is timed, and
	// summaries tell what each rule takes. Output does not depend on it. Nil: nothing is timed.
	Timer func() time.Duration
}

// Keeper makes what an event borrows stay valid: see [codec.Decoder].
type Keeper interface{ Keep(ev *cep.Event) }

// Core runs rules over events: it times and orders them, finds the rules and keys they belong to, moves the machines, and
// makes alerts. It reads no clock: the same calls give the same alerts.
//
// What is declared here is the front: it judges events by the clocks of their partitions, finds out which keys they belong
// to, and moves the watermarks. The shards put events in order and run the machines; in the back their matches meet.
//
// It belongs to one goroutine.
type Core struct {
	set        *rules.Set
	streams    []*stream
	byName     map[string]*stream
	partitions map[*cep.Partition]*partition
	last       *partition  // the one that Push saw last
	rules      []*enrolled // lower layers first
	byID       map[string]*enrolled
	skipped    []RuleSummary
	// clocks are those that the rules share, lower layers first, and behind them those of partitions. fresh are those of them
	// that the back does not know yet.
	clocks, fresh []*clock
	options       Options
	numbers       uint64 // the last one given to a version, a book or a partition
	numbering     *numbering
	arrivals      uint64
	arrived       cep.Time
	waiting       int // events since the last release
	// rereading is the number of partitions that have not been read again as far as a Core before this one had: until then
	// nothing is released.
	rereading int

	spread *spread
	upper  *spread  // of clocks in the back
	wanted []wanted // scratch of admit
	spare  *pool
	// packets are on their way to the shards, and the last one to the back.
	packets  []*packet
	releases []release
	shards   []*shard
	back     *back
	lines    *lines // nil: all run in the caller's goroutine
	// unsaved are records that the next barrier has to bring besides.
	unsaved []checkpoint.Record
}

// New returns a Core that runs the enabled rules of the set. A rule that reads a stream which is not in the list is not
// run, and the summary says so.
//
// Streams stand in the order that decides between events of one time; partitions must have the same order. New enters the
// streams' tie-break fields into the schema of the set: make decoders after it.
func New(set *rules.Set, streams []Stream, o Options) (*Core, error) {
	c, err := assemble(set, streams, o, 0)
	if err != nil {
		return nil, err
	}
	c.complete()
	c.run()
	return c, nil
}

// assemble makes a Core of the rules of the set. Numbers are given out from one on; older versions of rules may still be added.
func assemble(set *rules.Set, streams []Stream, o Options, numbers uint64) (*Core, error) {
	c := &Core{
		set:        set,
		byName:     map[string]*stream{},
		byID:       map[string]*enrolled{},
		partitions: map[*cep.Partition]*partition{},
		options:    o,
		numbers:    numbers,
		arrived:    cep.BeforeAll,
		spare:      &pool{},
	}
	if c.options.Batch <= 0 {
		c.options.Batch = batchDefault
	}
	if c.options.Shards = min(max(c.options.Shards, 1), checkpoint.Slots); o.Furthest {
		c.options.Shards = 1
	}
	if err := c.addStreams(streams); err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(slices.Clone(set.Rules), func(r *rules.Rule) bool { return !r.Enabled })
	// Lower layers first, so that a rule over alerts finds those that it reads.
	slices.SortStableFunc(list, func(a, b *rules.Rule) int { return a.Layer - b.Layer })
	for _, r := range list {
		c.addRule(r)
	}
	for i := range c.options.Shards {
		c.shards = append(c.shards, newShard(i, c.options.Shards, set.Predicates, c.spare, c.options.Timer))
	}
	return c, nil
}

// complete makes what needs to know all versions.
func (c *Core) complete() {
	c.spread, c.upper = newSpread(c.options.Shards, c.spare), newSpread(1, c.spare)
	for range c.options.Shards + 1 {
		c.packets = append(c.packets, &packet{})
	}
	for _, k := range c.clocks {
		k.wire()
	}
	c.back = newBack(c)
	for _, k := range c.clocks {
		c.back.join(k)
	}
	c.back.connect()
	c.fresh = nil
	if c.options.Furthest {
		for _, e := range c.rules {
			for _, v := range e.versions {
				c.parts(v)[0].machine.TrackFurthest()
			}
		}
	}
}

func (c *Core) addStreams(streams []Stream) error {
	for _, s := range streams {
		if c.byName[s.Name] != nil {
			return fmt.Errorf("stream %q is there twice", s.Name)
		}
		if s.Name == AlertStream {
			return fmt.Errorf("stream %q: that is the name of the stream of alerts", s.Name)
		}
		st := &stream{
			Stream: s, tieSlot: -1,
			released: cep.BeforeAll, floor: cep.BeforeAll, highest: cep.BeforeAll, first: cep.AfterAll,
			summary: StreamSummary{Name: s.Name, Bad: map[string]uint64{}},
		}
		if len(s.Tiebreak) > 0 {
			st.tieSlot = c.set.Schema.Slot(s.Tiebreak...)
		}
		c.streams = append(c.streams, st)
		c.byName[s.Name] = st
	}
	return nil
}

// enrolled is a rule of the set that runs.
type enrolled struct {
	rule *rules.Rule
	// local is the stream whose partitions have a clock each for the rule, nil where there is one for all.
	local *stream
	// versions are the newest, one for each clock.
	versions []*version
}

func (c *Core) addRule(r *rules.Rule) {
	streams, missing := c.streamsOf(r)
	if missing != "" {
		c.skipped = append(c.skipped, RuleSummary{ID: r.ID, Skipped: fmt.Sprintf("nothing is read for its stream %q", missing)})
		return
	}
	e := &enrolled{rule: r}
	c.rules = append(c.rules, e)
	c.byID[r.ID] = e
	if len(streams) == 1 && c.keepsApart(r, streams[0]) == "" {
		e.local = streams[0]
		streams[0].locals = append(streams[0].locals, e)
		return
	}
	c.addVersion(e, c.clockOf(streams, r))
}

// addVersion lets a rule run on a clock.
func (c *Core) addVersion(e *enrolled, k *clock) {
	v := newVersion(e.rule, c.set)
	v.number, v.book = c.number(), c.number()
	v.clock = k
	k.versions = append(k.versions, v)
	e.versions = append(e.versions, v)
}

// number gives out the next number.
func (c *Core) number() uint64 {
	c.numbers++
	return c.numbers
}

// streamsOf returns the streams that a rule waits for, in the order of their names, or the name of one that is not read.
func (c *Core) streamsOf(r *rules.Rule) (list []*stream, missing string) {
	for _, name := range r.Inputs() {
		if name == AlertStream {
			continue
		}
		s := c.byName[name]
		if s == nil {
			return nil, name
		}
		list = append(list, s)
	}
	return list, ""
}

// clockOf returns the clock of exactly these streams, and the alerts of the same rules.
func (c *Core) clockOf(streams []*stream, r *rules.Rule) *clock {
	for _, k := range c.clocks {
		if slices.Equal(k.streams, streams) && slices.Equal(k.reads, r.Reads) && k.layer == r.Layer {
			return k
		}
	}
	k := &clock{streams: streams, layer: r.Layer, reads: r.Reads, released: cep.BeforeAll, first: cep.AfterAll}
	c.addClock(k)
	for _, s := range streams {
		s.clocks = append(s.clocks, k)
	}
	for _, id := range r.Reads {
		if low := c.find(id); low != nil && !slices.Contains(k.below, low.clock) {
			k.below = append(k.below, low.clock)
		}
	}
	return k
}

func (c *Core) addClock(k *clock) {
	k.index, k.name = len(c.clocks), nameOf(k)
	c.clocks, c.fresh = append(c.clocks, k), append(c.fresh, k)
}

// enlisted returns a rule that runs, nil where there is none of that id.
func (c *Core) enlisted(id string) *enrolled { return c.byID[id] }

// find returns the newest version of a rule that has one clock for all, nil where there is none of that id.
func (c *Core) find(id string) *version {
	if e := c.enlisted(id); e != nil && e.local == nil {
		return e.versions[0]
	}
	return nil
}

// parts returns the machines of a version, shard by shard. The shards must be at rest.
func (c *Core) parts(v *version) []*part {
	if v.clock.layer > 0 {
		return []*part{c.back.shard.lane(v.clock).parts[v.place]}
	}
	list := make([]*part, len(c.shards))
	for i, s := range c.shards {
		list[i] = s.lane(v.clock).parts[v.place]
	}
	return list
}

// NeedsRaw reports whether alerts of the set show events, so that decoders must keep their text.
func NeedsRaw(set *rules.Set) bool {
	return slices.ContainsFunc(set.Rules, func(r *rules.Rule) bool { return r.Enabled && showsEvents(r) })
}

func showsEvents(r *rules.Rule) bool {
	return r.Alert.Include == rules.IncludeFirstLast || r.Alert.Include == rules.IncludeAll
}

// Idle takes a silent partition out: its stream no longer waits for it, until its next event.
func (c *Core) Idle(id *cep.Partition) {
	if p := c.partition(id); p != nil {
		c.decide(p, true)
		p.stream.refresh()
		p.idle = true
	}
}

// End says that the partition, and what it carried, has been read to its end.
func (c *Core) End(id *cep.Partition) {
	p := c.partition(id)
	if p == nil {
		return
	}
	for _, q := range append([]*partition{p}, p.carried...) {
		c.decide(q, true)
		q.stream.refresh()
		q.ended = true
		c.reread(q)
	}
}

// reread says that a partition has been read again as far as it is going to be.
func (c *Core) reread(p *partition) {
	if p.rereading {
		p.rereading = false
		c.rereading--
	}
}

// CloseStream says that no partition of a stream will come any more. Until then a stream all of whose partitions have ended is silent,
// as a log is that was rotated away and whose next file nobody has found: what waits for the stream goes on waiting.
func (c *Core) CloseStream(name string) {
	if s := c.byName[name]; s != nil {
		s.closed = true
	}
}

// Tick says that time has passed for a stream of which every partition is idle, or has ended while others may come; for any other
// it says nothing.
func (c *Core) Tick(name string, passed cep.Duration) {
	s := c.byName[name]
	if s == nil || len(s.partitions) == 0 || s.highest == cep.BeforeAll {
		return
	}
	if s.ended() || slices.ContainsFunc(s.partitions, (*partition).holds) {
		return
	}
	s.refresh()
	s.released = s.released.Add(passed)
}

// Advance says that no event at or below t will come in any stream. What does is late.
func (c *Core) Advance(t cep.Time) {
	for _, s := range c.streams {
		for _, p := range s.partitions {
			c.decide(p, true)
			p.watermark = max(p.watermark, t)
		}
		s.floor = max(s.floor, t)
	}
	c.Release()
}

// Finish ends the input. Everything is released, and time stands at the highest seen in any stream, or goes on from there
// by advance; [ToEnd] takes it behind every deadline.
func (c *Core) Finish(advance cep.Duration) {
	for _, s := range c.streams {
		for _, p := range s.partitions {
			c.decide(p, true)
			p.ended = true
			c.reread(p)
		}
		s.closed = true
	}
	c.Release()
	if advance <= 0 {
		return
	}
	for _, k := range c.clocks { // lower layers first
		w := k.released
		switch {
		case advance == ToEnd:
			w = cep.AfterAll
		case w != cep.BeforeAll:
			w = w.Add(advance)
		}
		for _, s := range k.streams {
			s.released = max(s.released, w)
		}
		c.move(k, w)
	}
	c.flush(nil)
}

// Release lets out what the watermarks allow. Push does so once a batch by itself.
func (c *Core) Release() {
	c.waiting = 0
	if c.rereading == 0 {
		for _, s := range c.streams {
			s.refresh()
		}
		now := c.now()
		for _, s := range c.streams {
			if s.ended() { // should more come after all, what the rules have passed is refused, and counted
				s.released = max(s.released, now)
			}
		}
		for _, k := range c.clocks {
			c.move(k, k.watermark(now))
		}
	}
	c.flush(nil)
}

// move moves the time of a clock to w.
func (c *Core) move(k *clock, w cep.Time) {
	if w <= k.released {
		return
	}
	k.findFirst(w)
	k.released = w
	c.releases = append(c.releases, release{k, w, k.first})
}

// now is the time of the input as a whole: the least watermark of the streams that have not ended, or the highest time seen
// where all have. What has ended no longer holds time back, so a stream that ends early is silent from then on.
func (c *Core) now() cep.Time {
	least, highest, ended := cep.AfterAll, cep.BeforeAll, true
	for _, s := range c.streams {
		highest = max(highest, s.released)
		if !s.ended() {
			ended = false
			least = min(least, s.released)
		}
	}
	if ended {
		return highest
	}
	return least
}

// Furthest says how far the run of a rule came that came furthest; Progress.Name is an index into the rule's names.
// [Options.Furthest] must have asked for it.
func (c *Core) Furthest(rule string) (_ nfa.Progress, ok bool) {
	c.pause()
	if v := c.find(rule); v != nil && c.options.Furthest {
		if p := c.parts(v)[0]; !p.gone {
			return p.machine.Furthest()
		}
	}
	return nfa.Progress{}, false
}
