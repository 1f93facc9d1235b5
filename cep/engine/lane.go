package engine

import (
	"fmt"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/internal/invariant"
	"github.com/cepd/cepd/nfa"
)

// releaseMax is the number of events that a lane releases before it hands over what came of them: it bounds the matches that
// wait when a watermark leaps, and is large enough that sorting them costs nothing an event.
const releaseMax = 1024

// lane is what a shard has of a clock: the order buffer of the events that belong to its keys, and the machines of these. It
// belongs to the shard's goroutine.
type lane struct {
	clock *clock
	// shard is the place of its shard among shards.
	shard, shards int

	memo   *nfa.Memo
	buffer orderBuffer
	parts  []*part // by place
	seq    uint64
	// released is the watermark up to which everything has been released; started says that the rules know their first time.
	released cep.Time
	started  bool
	// deadlines are those of the parts, by place: next to each other, because all are looked at in each release.
	deadlines []cep.Time
	active    []*part // parts that saw an event since the last settling
	// places are the places of the events since the last settling, from seq firstPlace on.
	places     []place
	firstPlace uint64
	// found is what came of them, drained the older versions that have no start open here any more.
	found   []found
	drained []*version
	spare   *pool
	left    []amount // by stream: what has left the order buffer in this step
	// timer is nil where nothing is timed; untimed is the number of events before the next one that is.
	timer   func() time.Duration
	untimed uint64
}

// part is the machine of a version for the keys of one lane. A panic in it disables the rule, and nothing else.
type part struct {
	version *version
	machine *nfa.Machine
	// active says that it saw an event since the last settling, touched that it did anything since the last barrier, started
	// that it knows its first time.
	active, touched, started bool
	drains                   bool // its version has an heir
	place                    int32
	// stopped says that the machine is not to be moved any more: it panicked, or all that it had is over. until is how far
	// its time may still go after a panic.
	stopped bool
	until   cep.Time
	broken  *found
	over    []resolution // events since the last settling that end open alerts, in order
	// gone says that its records are taken back; counters are what it had counted.
	gone     bool
	counters nfa.Counters
	// took is what the events that were timed took.
	took time.Duration
	_    [24]byte // four lines of the cache
}

// resolution is an event that ends the open alert of a key.
type resolution struct {
	seq  uint64
	time cep.Time
	key  cep.Key
}

// found is something that a lane tells the back: a match of a version of a rule, an event that ends an open alert, or the end
// of the version.
type found struct {
	version *version
	kind    foundKind
	order   order
	match   cep.Match
	// moment is that of a resolution, and key its key; cause is why a version broke.
	moment cep.Moment
	cause  string
}

// foundKind says what was found; what happens at one moment happens in this order.
type foundKind uint8

const (
	foundBreak foundKind = iota
	foundResolution
	foundMatch
)

func newLane(k *clock, s *shard) *lane {
	l := &lane{
		clock: k, shard: s.index, shards: s.shards, memo: s.memo, spare: s.spare, timer: s.timer, released: cep.BeforeAll,
		deadlines: make([]cep.Time, len(k.versions)), left: make([]amount, len(k.streams)),
	}
	for i, v := range k.versions {
		m := nfa.NewMachine(v.rule.Program, s.memo)
		m.SetFirstTime(cep.AfterAll) // until it is known nothing lies above it
		l.parts = append(l.parts, &part{version: v, machine: m, place: int32(i), drains: v.heir != nil, until: v.until, touched: true})
		l.deadlines[i] = l.parts[i].deadline()
	}
	return l
}

// step releases at most releaseMax events at or below w in order, with those of the same time, and settles there: at w, or
// before the next event.
func (l *lane) step(w, first cep.Time) (events int, upTo cep.Time) {
	upTo = w
	var last cep.Time
	for e := l.buffer.least(); e != nil && e.ev.Time <= w; e = l.buffer.least() {
		if events >= releaseMax && e.ev.Time > last {
			upTo = e.ev.Time - 1
			break
		}
		l.buffer.pop()
		last = e.ev.Time
		if !l.started && last >= first {
			l.start(first)
		}
		events++
		l.event(e)
		l.give(e)
	}
	if !l.started && upTo >= first && first != cep.AfterAll {
		l.start(first)
	}
	l.settle(upTo)
	l.released = upTo
	for i := range l.left {
		l.clock.streams[i].left.take(&l.left[i])
	}
	return events, upTo
}

// give keeps an entry for reuse.
func (l *lane) give(e *entry) {
	if e.stream != noStream {
		l.left[e.stream].add(e.size)
	}
	if e.alert != nil {
		e.alert.readers--
	}
	l.spare.put(e)
}

// start begins the rules at their first time, before any event of it. What came before lies below it in any case.
func (l *lane) start(first cep.Time) {
	l.started = true
	for _, p := range l.parts {
		if !p.started && !p.stopped {
			l.begin(p, first)
			l.activate(p)
		}
	}
}

// begin tells a rule its first time, and lets the keys wait that count as present from then on.
func (l *lane) begin(p *part, first cep.Time) {
	p.started = true
	p.machine.SetFirstTime(first)
	for _, key := range p.version.rule.Keys {
		if l.owns(p.version, []byte(key)) {
			p.machine.Await([]byte(key), first)
		}
	}
}

// owns reports whether a key of a version lies in this lane.
func (l *lane) owns(v *version, key []byte) bool {
	return l.shards == 1 || shardOf(v.slot(key), l.shards) == l.shard
}

// activate notes that the part has to be looked at in this release.
func (l *lane) activate(p *part) {
	if !p.active {
		p.active, p.touched = true, true
		l.active = append(l.active, p)
	}
}

func (l *lane) event(e *entry) {
	l.seq++
	e.ev.Seq = l.seq
	if len(l.places) == 0 {
		l.firstPlace = l.seq
	}
	l.places = append(l.places, e.place)
	l.memo.Next()
	timed := l.isTimed()
	for i := range e.routes {
		to := &e.routes[i]
		p := l.parts[to.version]
		if p.stopped || e.ev.Time > p.until {
			continue
		}
		if timed {
			begun := l.timer()
			p.event(e, to)
			p.took += l.timer() - begun
		} else {
			p.event(e, to)
		}
		l.activate(p)
	}
}

// timedMean is the mean number of events from one that is timed to the next: reading a clock twice takes as long as a simple
// event does, so timing costs a percent or two.
const timedMean = 64

// isTimed reports whether an event is timed. The distance to the next one varies, so that nothing which comes around in the
// input is met again and again, or never.
func (l *lane) isTimed() bool {
	switch {
	case l.timer == nil:
		return false
	case l.untimed > 0:
		l.untimed--
		return false
	}
	l.untimed = l.seq * 0x9e3779b97f4a7c15 >> 32 % (2*timedMean - 1) // 0 to 126, 63 in the mean
	return true
}

// settle moves the parts to upTo and gathers what they let out.
func (l *lane) settle(upTo cep.Time) {
	for _, p := range l.active {
		p.active = false
		l.gather(p, upTo)
	}
	clear(l.active)
	l.active = l.active[:0]
	for i, d := range l.deadlines {
		if d <= upTo {
			l.gather(l.parts[i], upTo)
		}
	}
	l.places = l.places[:0]
}

// gather advances a part and notes what comes of it.
func (l *lane) gather(p *part, upTo cep.Time) {
	p.touched = true
	if invariant.Enabled {
		invariant.Check(p.drains == (p.version.heir != nil), "rule %s got an heir while it ran", p.version.rule.ID)
	}
	if p.isQuiet(upTo) {
		l.deadlines[p.place] = p.machine.NextDeadline()
		return
	}
	for _, m := range p.advance(upTo) {
		l.found = append(l.found, found{version: p.version, kind: foundMatch, order: l.order(p.version, m.Moment, m.Key), match: m})
	}
	for _, o := range p.over {
		at := cep.Moment{Time: o.time, Seq: o.seq}
		l.found = append(l.found, found{version: p.version, kind: foundResolution, order: l.order(p.version, at, o.key), moment: at})
	}
	clear(p.over)
	p.over = p.over[:0]
	if p.broken != nil {
		l.found = append(l.found, *p.broken)
		p.broken = nil
	}
	if p.version.over.Load() { // some other lane, or the making of an alert, has ended it
		p.stopped = true
	}
	if v := p.version; v.heir != nil && !p.stopped && (p.machine.OpenStarts() == 0 || upTo >= p.until) {
		p.stopped = true
	}
	if p.stopped && p.version.heir != nil {
		l.drained = append(l.drained, p.version)
	}
	l.deadlines[p.place] = p.deadline()
}

// isQuiet says of a part of a newest version that nothing happens up to a time, nor has happened: most events change what is
// open, and no more. Who hears late that its version is over loses nothing.
func (p *part) isQuiet(upTo cep.Time) bool {
	return !p.drains && !p.stopped && p.broken == nil && len(p.over) == 0 && p.machine.IsQuiet(upTo)
}

// order is where what happens at a moment since the last settling stands in the order of all alerts.
func (l *lane) order(v *version, at cep.Moment, key cep.Key) order {
	o := order{time: at.Time, layer: l.clock.layer, timed: at.Timed(), rule: v.rule.ID, key: key}
	if !o.timed {
		o.place = l.places[at.Seq-l.firstPlace]
	}
	return o
}

// event offers an event to the machine for one of its keys.
func (p *part) event(e *entry, to *route) {
	defer func() {
		if cause := recover(); cause != nil {
			p.fail(e, "event", cause)
		}
	}()
	if to.broken != "" {
		p.fail(e, "key", to.broken)
		return
	}
	key := e.keys[to.start:to.end]
	if to.resolves {
		if p.version.heir == nil { // open alerts are in the care of the newest version
			p.over = append(p.over, resolution{e.ev.Seq, e.ev.Time, cep.Key(key)})
		}
		return
	}
	p.machine.Offer(key, &e.ev, to.mask, to.holds)
}

// fail stops the version at an event. What time alone decides before this event still counts, whatever else is released
// together with it.
func (p *part) fail(e *entry, during string, cause any) {
	p.stopped, p.until = true, min(p.until, e.ev.Time-1)
	p.broken = p.failure(during, cause, order{time: e.ev.Time, place: e.place})
}

func (p *part) failure(during string, cause any, at order) *found {
	at.layer, at.rule = p.version.clock.layer, p.version.rule.ID
	return &found{version: p.version, kind: foundBreak, order: at, cause: fmt.Sprintf("panic (%s): %v", during, cause)}
}

// advance moves the machine and returns what it lets out.
func (p *part) advance(w cep.Time) []cep.Match {
	if p.gone || p.stopped && p.broken == nil {
		return nil
	}
	if w = min(w, p.until); p.machine.NextDeadline() <= w {
		p.move(w)
	}
	return p.machine.Matches()
}

// move moves the time of the machine. Where that panics, what it let out before stands.
func (p *part) move(w cep.Time) {
	defer func() {
		if cause := recover(); cause != nil {
			p.stopped = true
			if p.broken == nil {
				p.broken = p.failure("time", cause, order{time: min(p.machine.NextDeadline(), w), timed: true})
			}
		}
	}()
	p.machine.Advance(w)
}

// deadline is the next time at which the part needs to be moved.
func (p *part) deadline() cep.Time {
	if p.stopped {
		return cep.AfterAll
	}
	if t := p.machine.NextDeadline(); t <= p.until {
		return t
	}
	if p.version.heir != nil {
		return p.until // it is over then
	}
	return cep.AfterAll
}
