package engine

import (
	"fmt"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/cep/codec"
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
}

// Keeper makes what an event borrows stay valid: see [codec.Decoder].
type Keeper interface{ Keep(ev *cep.Event) }

// Core runs rules over events: it times and orders them, finds the rules and keys they belong to, moves the machines, and
// makes alerts. It reads no clock and starts no goroutine: the same calls give the same alerts.
//
// It belongs to one goroutine.
type Core struct {
	schema     *cep.Schema
	streams    []*stream
	byName     map[string]*stream
	partitions map[*cep.Partition]*partition
	last       *partition // the one that Push saw last
	clocks     []*clock
	running    []*running // in the order of their ids
	skipped    []RuleSummary
	options    Options
	arrivals   uint64
	wanted     []wanted // scratch of admit
	waiting    int      // events since the last release
	// left are alerts that a Core before this one had not handed out. rereading is the number of partitions that have not
	// been read again as far as it had: until then nothing is released.
	left      outQueue
	rereading int
}

// New returns a Core that runs the enabled rules of the set. A rule that reads a stream which is not in the list is not
// run, and the summary says so.
//
// Streams stand in the order that decides between events of one time; partitions must have the same order. New enters the
// streams' tie-break fields into the schema of the set: make decoders after it.
func New(set *rules.Set, streams []Stream, o Options) (*Core, error) {
	return build(set, streams, o, nil)
}

// build makes a Core, with older versions of rules beside those of the set.
func build(set *rules.Set, streams []Stream, o Options, older []olderVersion) (*Core, error) {
	c := &Core{
		schema:     set.Schema,
		byName:     map[string]*stream{},
		partitions: map[*cep.Partition]*partition{},
		options:    o,
	}
	if c.options.Batch <= 0 {
		c.options.Batch = batchDefault
	}
	for _, s := range streams {
		if c.byName[s.Name] != nil {
			return nil, fmt.Errorf("stream %q is there twice", s.Name)
		}
		if s.Name == AlertStream {
			return nil, fmt.Errorf("stream %q: that is the name of the stream of alerts", s.Name)
		}
		st := &stream{
			Stream: s, tieSlot: -1,
			released: cep.BeforeAll, floor: cep.BeforeAll, highest: cep.BeforeAll, first: cep.AfterAll,
			summary: StreamSummary{Name: s.Name, Bad: map[string]uint64{}},
		}
		if len(s.Tiebreak) > 0 {
			st.tieSlot = set.Schema.Slot(s.Tiebreak...)
		}
		c.streams = append(c.streams, st)
		c.byName[s.Name] = st
	}
	ranks := make([]int, 0, len(set.Rules))
	for rank, r := range set.Rules {
		if r.Enabled {
			ranks = append(ranks, rank)
		}
	}
	// Lower layers first, so that a rule over alerts finds those that it reads.
	slices.SortStableFunc(ranks, func(a, b int) int { return set.Rules[a].Layer - set.Rules[b].Layer })
	for _, rank := range ranks {
		c.addRule(set.Rules[rank], rank, set.Predicates)
	}
	for i := range older {
		c.addOlder(&older[i])
	}
	c.connect()
	for _, k := range c.clocks {
		list := make([]*rules.Rule, len(k.rules))
		k.deadlines = make([]cep.Time, len(k.rules))
		for i, r := range k.rules {
			list[i], r.place = r.rule, i
			k.deadlines[i] = r.deadline()
		}
		k.index = rules.NewIndex(list)
		k.merged = len(c.clocks) > 1
	}
	return c, nil
}

func (c *Core) addRule(r *rules.Rule, rank, predicates int) {
	streams, missing := c.streamsOf(r)
	if missing != "" {
		c.skipped = append(c.skipped, RuleSummary{ID: r.ID, Skipped: fmt.Sprintf("nothing is read for its stream %q", missing)})
		return
	}
	k := c.clockOf(streams, r, predicates)
	x := newRunning(r, rank, nfa.NewMachine(r.Program, k.memo))
	x.machine.SetFirstTime(cep.AfterAll) // until it is known nothing lies above it
	if c.options.Furthest {
		x.machine.TrackFurthest()
	}
	x.clock = k
	k.rules = append(k.rules, x)
	c.running = append(c.running, x)
}

// streamsOf returns the streams that a rule waits for, in the order of their names, or the name of one that is not read.
func (c *Core) streamsOf(r *rules.Rule) (list []*stream, missing string) {
	names := slices.Clone(r.Streams)
	if r.Alert.Resolve != nil {
		names = append(names, r.Alert.Resolve.From...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
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
func (c *Core) clockOf(streams []*stream, r *rules.Rule, predicates int) *clock {
	for _, k := range c.clocks {
		if slices.Equal(k.streams, streams) && slices.Equal(k.reads, r.Reads) && k.layer == r.Layer {
			return k
		}
	}
	k := &clock{
		streams: streams, layer: r.Layer, reads: r.Reads, memo: nfa.NewMemo(predicates),
		released: cep.BeforeAll, first: cep.AfterAll, emit: c.alert,
	}
	c.clocks = append(c.clocks, k)
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

// connect lets rules over alerts read the alerts of those below.
func (c *Core) connect() {
	for _, k := range c.clocks {
		for _, id := range k.reads {
			low := c.find(id)
			if low == nil || low.rule.Shadow {
				continue
			}
			raw := slices.ContainsFunc(k.rules, func(r *running) bool { return showsEvents(r.rule) })
			low.feedTo(k, c.schema, raw)
			for _, old := range low.drains {
				old.feedTo(k, c.schema, raw)
			}
		}
	}
}

// feedTo lets the rules of a clock read the alerts of this one.
func (r *running) feedTo(k *clock, schema *cep.Schema, raw bool) {
	if r.feed == nil {
		names := make([]string, len(r.rule.Alert.Fields))
		for i, f := range r.rule.Alert.Fields {
			names[i] = f.Name
		}
		r.feed = newFeed(schema, names)
		r.maker.Feed(func(m *cep.Match, a *cep.Alert) {
			r.clock.fed = append(r.clock.fed, made{r, alert.Out{Moment: m.Moment, Key: m.Key, Alert: a}})
		})
	}
	r.feed.readers = append(r.feed.readers, k)
	r.feed.raw = r.feed.raw || raw
}

// find returns a rule that runs, nil where there is none of that id.
func (c *Core) find(id string) *running {
	for _, r := range c.running {
		if r.rule.ID == id {
			return r
		}
	}
	return nil
}

// NeedsRaw reports whether alerts of the set show events, so that decoders must keep their text.
func NeedsRaw(set *rules.Set) bool {
	return slices.ContainsFunc(set.Rules, func(r *rules.Rule) bool { return r.Enabled && showsEvents(r) })
}

func showsEvents(r *rules.Rule) bool {
	return r.Alert.Include == rules.IncludeFirstLast || r.Alert.Include == rules.IncludeAll
}

// Open announces a partition: from now on its stream waits for it. Push opens partitions by itself, but what comes late in
// one that nobody announced may lie below what was released.
func (c *Core) Open(id *cep.Partition) { c.partition(id) }

// partition returns the clock of a partition, nil for one of a stream that nothing reads.
func (c *Core) partition(id *cep.Partition) *partition {
	if c.last != nil && c.last.id == id {
		return c.last
	}
	p := c.partitions[id]
	if p == nil {
		s := c.byName[id.Stream]
		if s == nil {
			return nil
		}
		s.refresh()
		p = &partition{id: id, stream: s, highest: cep.BeforeAll, watermark: s.floor, readTo: -1, settled: -1, again: -1, believed: -1}
		s.partitions = append(s.partitions, p)
		c.partitions[id] = p
	}
	c.last = p
	return p
}

// Push takes the next event of the partition that is being read. Its position may name another partition, the one that a
// recording was made from: that one's clock then judges it.
//
// keep is asked to keep what the event borrows, if and only if the event may touch a rule; nil: nothing is borrowed. The
// event itself may be reused by the caller afterwards.
//
// An event at or below the watermark of its own partition is late: counted, and dropped. So is one that lies at or below
// what its stream has released although its own partition lags behind, as one does that returns from idle.
//
// An event more than MaxAhead above the highest time of its partition is doubted, and so is the first of a partition. It
// waits for the next 100 of the partition: if all are there and at or below that line, its clock was broken and it is
// dropped as `future`; if not, time has moved on. For the first event the line is MaxAhead above the highest of those 100.
func (c *Core) Push(from *cep.Partition, ev *cep.Event, keep Keeper) {
	p := c.partition(from)
	if p == nil {
		return
	}
	if id := ev.Position.Partition; id != from {
		if id == nil {
			ev.Position.Partition = from
		} else if p = c.carriedBy(p, ev); p == nil {
			return
		}
	}
	s := p.stream
	p.note(ev.Position.Offset, ev.Time)
	if ev.Position.Offset > p.again {
		s.summary.Events++
		if p.idle || p.ended {
			s.refresh()
			p.idle, p.ended = false, false
		}
	}
	if ev.Position.Offset > p.believed && (len(p.doubted) > 0 || p.suspicious(ev.Time)) {
		c.doubt(p, ev, keep)
	} else {
		c.admit(p, ev, keep)
	}
	if p.rereading && p.readTo >= p.again {
		p.rereading = false
		c.rereading--
	}
	if c.waiting++; c.waiting >= c.options.Batch {
		c.Release()
	}
}

// carriedBy returns the clock of an event that came inside another partition, whose own clock moves along: it must neither
// stand still nor run ahead of what it carries.
func (c *Core) carriedBy(carrier *partition, ev *cep.Event) *partition {
	p := c.partition(ev.Position.Partition)
	if p == nil {
		return nil
	}
	if !slices.Contains(carrier.carried, p) {
		carrier.carried = append(carrier.carried, p)
	}
	carrier.see(ev.Time)
	return p
}

// doubt makes an event wait for what follows it.
func (c *Core) doubt(p *partition, ev *cep.Event, keep Keeper) {
	e := &entry{ev: *ev}
	if c.touches(p.stream, ev) {
		if keep != nil {
			keep.Keep(ev)
		}
		e.ev = *ev
		e.ev.Values = slices.Clone(ev.Values)
	} else {
		e.ev.Values, e.ev.Raw = nil, nil
	}
	p.doubted = append(p.doubted, e)
	c.decide(p, false)
}

// decide admits or refuses doubted events as far as it is known what becomes of them.
func (c *Core) decide(p *partition, final bool) {
	n := 0
	for len(p.doubted) > 0 {
		v := p.judge(final)
		if v == undecided {
			break
		}
		e := p.doubted[0]
		p.doubted = p.doubted[1:]
		n++
		if v == future {
			p.stream.summary.Future++
			p.settled = e.ev.Position.Offset
			p.refused = append(p.refused, e.ev.Position.Offset)
			continue
		}
		c.admit(p, &e.ev, nil)
	}
	if len(p.doubted) == 0 {
		p.doubted = nil
	} else if n > 0 {
		p.doubted = slices.Clone(p.doubted) // what was decided must not stay for the queue's sake
	}
}

// admit judges an event by its partition's clock and puts it in order where a rule may want it.
func (c *Core) admit(p *partition, ev *cep.Event, keep Keeper) {
	s, t, again := p.stream, ev.Time, ev.Position.Offset <= p.believed
	p.settled = ev.Position.Offset
	if again && slices.Contains(p.refused, ev.Position.Offset) {
		return
	}
	if t < p.highest {
		s.summary.Behind = max(s.summary.Behind, p.highest.Sub(t))
	}
	switch {
	case t <= p.watermark:
		if !again {
			s.summary.Late++
		}
		return
	case !again && t <= s.released:
		s.summary.Returned++
		p.refused = append(p.refused, ev.Position.Offset)
		return
	}
	p.see(t)
	s.highest, s.first = max(s.highest, t), min(s.first, t)
	if !again {
		s.summary.Taken++
	}

	c.wanted = c.wanted[:0]
	for _, k := range s.clocks {
		if t <= k.released { // read again
			continue
		}
		if e := k.route(ev); e != nil {
			c.wanted = append(c.wanted, wanted{k, e})
		}
	}
	if len(c.wanted) == 0 {
		return
	}
	if keep != nil {
		keep.Keep(ev)
	}
	at := place{position: ev.Position}
	if s.tieSlot >= 0 {
		at.tie = ev.Value(s.tieSlot)
	}
	c.arrivals++
	values, shared := ev.Values, len(c.wanted) > 1
	if shared {
		values = slices.Clone(values)
	}
	for _, w := range c.wanted {
		w.clock.take(w.entry, ev, at, c.arrivals, values, shared)
	}
}

// wanted is an event on its way into a clock's order buffer.
type wanted struct {
	clock *clock
	entry *entry
}

// touches reports whether a rule may have a use for the event.
func (c *Core) touches(s *stream, ev *cep.Event) bool {
	for _, k := range s.clocks {
		if len(k.index.Lookup(ev)) > 0 {
			return true
		}
	}
	return false
}

// Refuse counts a record of the partition that is no event. The record is borrowed, for [Options.Reject].
func (c *Core) Refuse(from *cep.Partition, offset int64, kind codec.ErrorKind, err error, data []byte) {
	p := c.partition(from)
	if p == nil {
		return
	}
	s := &p.stream.summary
	s.Bad[kind.String()]++
	if s.FirstBad == "" {
		s.FirstBad = err.Error()
	}
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
	}
}

// Tick says that time has passed for a stream of which every partition is idle; for any other it says nothing.
func (c *Core) Tick(name string, passed cep.Duration) {
	s := c.byName[name]
	if s == nil || len(s.partitions) == 0 || s.highest == cep.BeforeAll {
		return
	}
	idle := false
	for _, p := range s.partitions {
		if p.holds() {
			return
		}
		idle = idle || p.idle
	}
	if idle {
		s.refresh()
		s.released = s.released.Add(passed)
	}
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
	c.rereading = 0
	for _, s := range c.streams {
		for _, p := range s.partitions {
			c.decide(p, true)
			p.ended = true
		}
		if len(s.partitions) == 0 { // nothing will come from where nothing is read
			s.partitions = append(s.partitions, &partition{stream: s, ended: true, highest: cep.BeforeAll, watermark: cep.BeforeAll})
		}
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
		k.release(w)
	}
	c.emit()
}

// Release lets out what the watermarks allow. Push does so once a batch by itself.
func (c *Core) Release() {
	c.waiting = 0
	if c.rereading > 0 {
		return
	}
	for _, s := range c.streams {
		s.refresh()
	}
	now := c.now()
	for _, k := range c.clocks {
		k.release(k.watermark(now))
	}
	c.emit()
}

// Furthest says how far the run of a rule came that came furthest; Progress.Name is an index into the rule's names.
// [Options.Furthest] must have asked for it.
func (c *Core) Furthest(rule string) (_ nfa.Progress, ok bool) {
	if r := c.find(rule); r != nil {
		return r.machine.Furthest()
	}
	return nfa.Progress{}, false
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

func (c *Core) alert(a *cep.Alert) {
	if c.options.Alert != nil {
		c.options.Alert(a)
	}
}
