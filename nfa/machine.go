package nfa

import (
	"cmp"
	"container/heap"
	"math/bits"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/internal/invariant"
)

// Machine runs one program: all keys of a rule (one version of it) that one goroutine owns. What each event needs stands
// first: with many rules that is what comes from far.
type Machine struct {
	form *form // the program's
	*scratch
	rows *rowMachine // of a row pattern, which runs in its own way
	now  cep.Time
	// soon is no later than the first deadline queued: most events pass without a look at the queues, which would cost a
	// miss of the cache or four where many rules run.
	soon     cep.Time
	brake    *brake   // nil: the rule has none
	changes  *changes // nil: nobody has asked for them
	open     int32
	ownMemo  bool // nobody else tells the memo of new events
	draining bool
	letOut   bool // there is something in out, or in handed

	keys      table
	program   *Program
	queues    []queue
	memories  []memories
	counters  Counters
	spareRuns []*Runs // to be used again, up to spareMax
	spare     []*start
	late      dueHeap // deadlines that are queued late, see lead.go
	out       []cep.Match
	handed    []cep.Match // what the last call of Matches returned
	memo      *Memo
	firstTime cep.Time
	furthest  *furthest // nil: nobody asks
}

// NewMachine returns a machine without state. The memo is shared with the other machines of the goroutine, and its owner
// calls [Memo.Next]; nil: the machine has one to itself.
func NewMachine(p *Program, memo *Memo) *Machine {
	// Most rules have one queue, that of their window, and few names. What there is of them lies behind the machine then, and all
	// together begins at a line of the cache.
	space := &struct {
		machine Machine
		queue   [1]queue
		taken   [4]uint64
	}{}
	m := &space.machine
	*m = Machine{
		program: p, form: p.form, now: cep.BeforeAll, firstTime: cep.BeforeAll, soon: cep.AfterAll, memories: make([]memories, len(p.memories)),
		queues: space.queue[:0],
	}
	m.setMemo(memo)
	m.brake = newBrake(&p.source)
	if p.rows != nil {
		m.rows = newRowMachine(m)
	}
	for _, gap := range p.gaps {
		m.queues = append(m.queues, queue{gap: gap})
	}
	if n := len(p.pattern.Names); n <= len(space.taken) {
		m.counters.Taken = space.taken[:n:n]
	} else {
		m.counters.Taken = make([]uint64, n)
	}
	return m
}

// Program returns the program.
func (m *Machine) Program() *Program { return m.program }

// SetFirstTime sets the rule's first time (S4.3). A new machine has [cep.BeforeAll]: everything is known from the
// beginning.
func (m *Machine) SetFirstTime(t cep.Time) { m.firstTime = t }

// FirstTime returns the rule's first time.
func (m *Machine) FirstTime() cep.Time { return m.firstTime }

// Counters returns the counters. They change with the machine and must not be changed.
func (m *Machine) Counters() *Counters { return &m.counters }

// Keys is the number of keys that have state.
func (m *Machine) Keys() int {
	if m.rows != nil {
		return len(m.rows.keys)
	}
	return m.keys.count
}

// OpenStarts is the number of open starts of all keys.
func (m *Machine) OpenStarts() int { return int(m.open) }

// Matches returns what was let out since the last call, in the order of (moment, key, S5.3). The slice is valid until
// the next call.
func (m *Machine) Matches() []cep.Match {
	if !m.letOut { // mostly: what stands further back is not looked at then
		return nil
	}
	clear(m.handed)
	m.out, m.handed = m.handed[:0], m.out
	m.letOut = len(m.handed) > 0
	byMoment := func(a, b cep.Match) int {
		if c := a.Moment.Compare(b.Moment); c != 0 {
			return c
		}
		return strings.Compare(string(a.Key), string(b.Key))
	}
	if !slices.IsSortedFunc(m.handed, byMoment) { // an event with several keys, in the order in which they came
		slices.SortStableFunc(m.handed, byMoment)
	}
	return m.handed
}

// let lets a match out.
func (m *Machine) let(x cep.Match) {
	m.out, m.letOut = append(m.out, x), true
}

// Drain lets no start begin any more; the open ones go on. It is no part of snapshots.
func (m *Machine) Drain() { m.draining = true }

// Event looks at an event of the key's stream. Events come in the total order (S1.1), the same one for several keys if
// need be, and above the watermark. Bit i of the mask says that name i may take the event, be broken by it, or see it; for
// strict links and prev it counts in any case. Time moves to the event first.
//
// The machine copies what it keeps of the event and of the key, but not the bytes of strings.
func (m *Machine) Event(key []byte, ev *cep.Event, mask uint64) { m.Offer(key, ev, mask, 0) }

// Offer is Event where it is known of some names, by their bits, that their unary condition holds. It is not asked again.
func (m *Machine) Offer(key []byte, ev *cep.Event, mask, holds uint64) {
	invariant.Check(ev.Time > m.now, "event at %v, watermark %v", ev.Time, m.now)
	m.Advance(ev.Time - 1)
	if m.rows != nil {
		m.rows.look(key, ev, mask)
		return
	}
	p := m.form
	entry := p.entry
	if m.draining {
		entry = 0
	}
	m.counters.Delivered++
	m.enter(m)
	m.event, m.heard, m.kept, m.holds = ev, alwaysHeard, 0, holds
	if ev.Seq != m.seq {
		m.seq, m.known, m.truth = ev.Seq, 0, 0
		if m.ownMemo {
			m.memo.Next()
		}
	}
	m.scope.Event = ev
	hash := hashKey(key)
	r := m.keys.find(key, hash)
	fresh := r == nil
	if fresh {
		if len(p.memories) == 0 {
			if m.hear(entry, mask); m.heard&entry == 0 {
				m.exit()
				return // by far the most common way through here: it must not allocate
			}
		}
		if m.brake.crowded(key) {
			m.counters.Braked++
			m.exit()
			return
		}
		r = m.newRuns(string(key), hash)
	}
	m.runs, m.isNext = r, r.last
	m.scope.Key = cep.Key(r.key)
	if p.pattern.UsesPrev {
		m.setPrev()
	}
	if p.constant != 0 {
		m.hearConstant(mask)
	}
	m.hear((r.hears|entry|p.around|p.lead)&^p.constant, mask)
	if p.repeats {
		m.cons = cleared(m.cons)
	}
	room := p.pattern.Limits.StartsPerKey <= 0 || int(r.count) < p.pattern.Limits.StartsPerKey
	if !room && p.pattern.Limits.DropOldest && m.heard&entry != 0 && !m.brake.heavy(key) && m.begins() {
		m.counters.Refused++
		m.drop(r.oldest)
		room = true
	}
	if p.led {
		m.follow()
	}
	if r.hears&m.heard != 0 {
		m.offer()
	}
	if m.heard&entry != 0 {
		if m.brake.heavy(key) {
			if m.begins() {
				m.counters.Braked++
			}
		} else {
			m.begin(room)
		}
	}
	if p.led {
		m.write()
	}
	if p.pattern.Newest {
		m.keepNewest()
	}
	r.last = ev.Seq
	m.settle(cep.Moment{Time: ev.Time, Seq: ev.Seq})
	if len(p.memories) > 0 {
		m.remember()
	}
	m.leave(fresh)
	m.exit()
}

// leave ends the work on a key: one that has no state is not kept, a fresh one that has is.
func (m *Machine) leave(fresh bool) {
	r := m.runs
	r.settleRare()
	if invariant.Enabled && !r.empty() && (r.count < 64 || m.counters.Delivered%1024 == 0) { // else too slow
		if err := m.checkKey(r); err != nil {
			invariant.Check(false, "rule %s, key %q: %v", m.program.source.Rule, r.key, err)
		}
	}
	empty := r.empty()
	if m.brake != nil {
		m.brake.settle(r.key, !fresh, !empty, int(r.count), r.weigh)
	}
	if m.changes != nil {
		m.changes.note(r, empty)
	}
	switch {
	case fresh && !empty:
		m.keys.insert(r)
	case empty:
		if !fresh {
			m.keys.remove(r)
		}
		m.freeRuns(r)
	}
	m.runs, m.event, m.scope = nil, nil, cep.Scope{}
}

// hear finds out which elements of a set may take the event or be broken by it, judged by what does not depend on a
// candidate.
func (m *Machine) hear(set, mask uint64) {
	for s := set &^ m.heard; s != 0; s &= s - 1 {
		e := &m.form.elements[bits.TrailingZeros64(s)]
		if e.admits(mask) && m.unary(e) && (e.Distinct == nil || m.counts(e)) {
			m.heard |= e.bit
		}
	}
}

// admits says whether the event exists for the element. An until sees all.
func (e *element) admits(mask uint64) bool { return e.Name < 0 || mask>>e.Name&1 != 0 }

// unary is the condition of an element if it reads the event alone, else true.
func (m *Machine) unary(e *element) bool {
	if !e.asks || e.Name >= 0 && m.holds>>e.Name&1 != 0 {
		return true
	}
	if m.known&e.bit == 0 {
		m.known |= e.bit
		if m.test(m.program.conditions[e.index]) {
			m.truth |= e.bit
		}
	}
	return m.truth&e.bit != 0
}

// counts finds the value of a loop with distinct: without one the event is not taken (S3.4).
func (m *Machine) counts(e *element) bool {
	m.values[e.Name] = m.value(e.Distinct)
	return !m.values[e.Name].IsMissing()
}

// value is that of an expression over the event; missing where it errs.
func (m *Machine) value(x *Expr) cep.Value {
	v, err := x.Eval(&m.scope)
	if err != nil {
		m.fail(err)
		return cep.Value{}
	}
	return v
}

// Advance says that no event at or below w will come: deadlines up to w fire in the order of time, each a moment of its
// own, across keys.
func (m *Machine) Advance(w cep.Time) {
	if w <= m.now {
		return
	}
	if m.rows != nil {
		m.rows.advance(w)
		m.now = w
		return
	}
	for m.soon <= w && m.soon < cep.AfterAll {
		if d := m.nextDue(); d != m.soon {
			m.soon = d
			continue
		}
		m.fire(m.soon)
	}
	m.age(w)
	m.now = w
}

// NextDeadline is a time below which no [Machine.Advance] changes anything; [cep.AfterAll]: none does. It may be too early,
// where what waited for the deadline has ended in another way.
func (m *Machine) NextDeadline() cep.Time {
	if m.rows != nil {
		return m.rows.deadline()
	}
	d := m.soon
	for i := range m.form.memories { // shared, and so at hand
		if x := m.memories[i].oldest; x != nil {
			d = min(d, x.time.Add(m.form.memories[i].reach))
		}
	}
	return d
}

// IsQuiet says that [Machine.Matches] has nothing, and that no [Machine.Advance] up to a time changes anything.
func (m *Machine) IsQuiet(upTo cep.Time) bool { return !m.letOut && m.NextDeadline() > upTo }

func (m *Machine) nextDue() cep.Time {
	d := cep.AfterAll
	if x, ok := m.late.peek(); ok {
		d = x.at
	}
	for i := range m.queues {
		if x, ok := m.queues[i].peek(); ok && x.at < d {
			d = x.at
		}
	}
	return d
}

// fire is the moment d, after every event of that time, for all keys that have a deadline then.
func (m *Machine) fire(d cep.Time) {
	m.enter(m)
	m.dues = m.dues[:0]
	for x, ok := m.late.peek(); ok && x.at == d; x, ok = m.late.peek() {
		heap.Pop(&m.late)
		m.dues = append(m.dues, x)
	}
	for i := range m.queues {
		q := &m.queues[i]
		for {
			x, ok := q.peek()
			if !ok || x.at != d {
				break
			}
			q.pop()
			m.dues = append(m.dues, x)
		}
	}
	if len(m.dues) > 1 {
		slices.SortFunc(m.dues, func(a, b due) int {
			if c := strings.Compare(a.start.owner.key, b.start.owner.key); c != 0 {
				return c
			}
			return cmp.Compare(a.start.first.seq, b.start.first.seq)
		})
		m.dues = slices.Compact(m.dues)
	}
	for i := 0; i < len(m.dues); {
		m.runs = m.dues[i].start.owner
		j := i
		for ; j < len(m.dues) && m.dues[j].start.owner == m.runs; j++ {
			m.expire(m.dues[j].start, d)
		}
		m.settle(cep.Moment{Time: d, Seq: cep.ByTime})
		m.leave(false)
		i = j
	}
	clear(m.dues)
	m.exit()
}

// expire ends what is over for a start at the end of time d.
func (m *Machine) expire(s *start, d cep.Time) {
	p := m.form
	if s.state&startParked != 0 {
		switch over := p.pattern.Within > 0 && s.first.time.Add(p.pattern.Within) <= d; {
		case !over:
			return
		case p.end == 0:
			s.state &^= startParked
			m.closing++
			return
		}
		m.lead(s) // absences may hold beyond the window
	}
	runs := s.runs()
	w := 0
	for i := range runs {
		t := runs[i]
		if p.code[t.pc].op == opTake {
			if m.deadline(s, &t) <= d {
				if p.pattern.Timeouts {
					m.expired = append(m.expired, expiry{s, t.node})
				}
				continue
			}
		} else {
			for a := t.absent; a != 0; a &= a - 1 {
				if e := &p.elements[bits.TrailingZeros64(a)]; m.absenceEnd(s, &t, e) <= d {
					t.absent &^= e.bit // it held
				}
			}
			if t.absent == 0 {
				m.complete(s, t.node, cep.Moment{Time: d, Seq: cep.ByTime})
				continue
			}
		}
		runs[w] = t
		w++
	}
	if w < len(runs) {
		s.setRuns(w, nil)
		if w == 0 {
			m.closing++
		}
	}
	if p.repeats {
		m.merge(s)
	}
}

// deadline is when a run that waits for an event stops waiting: after every event of that time.
func (m *Machine) deadline(s *start, t *run) cep.Time {
	d := cep.AfterAll
	e := m.form.code[t.pc].element
	gap := e.Within
	if t.n > 1 {
		gap = e.LoopWithin
	}
	if gap > 0 {
		d = t.node.time.Add(gap)
	}
	if w := m.form.pattern.Within; w > 0 {
		d = min(d, s.first.time.Add(w))
	}
	for _, w := range e.inside {
		if w.Within > 0 {
			if g := t.frame.group(w); g.took {
				d = min(d, g.first.Add(w.Within))
			}
		}
	}
	return d
}

// absenceEnd is when an absence at the end has held for long enough (S4.2).
func (m *Machine) absenceEnd(s *start, t *run, e *element) cep.Time {
	switch {
	case e.For > 0:
		return t.node.time.Add(e.For)
	case m.form.pattern.Within > 0:
		return s.first.time.Add(m.form.pattern.Within)
	default:
		return cep.AfterAll
	}
}

// forgetDeadlines empties the queues when no start is open any more: all that is in them is of starts that have ended.
func (m *Machine) forgetDeadlines() {
	for i := range m.queues {
		m.queues[i].reset()
	}
	m.late = nil
	m.soon = cep.AfterAll
}

// scheduleLate queues a deadline that counts from an event which is past.
func (m *Machine) scheduleLate(gap int, s *start, from cep.Time) {
	if gap < 0 {
		return
	}
	if at := from.Add(m.form.gaps[gap]); at < cep.AfterAll {
		heap.Push(&m.late, due{at, s})
		m.soon = min(m.soon, at)
	}
}

// schedule queues a deadline counted from the present.
func (m *Machine) schedule(gap int, s *start, now cep.Time) {
	if gap < 0 || m.replaying {
		return
	}
	q := &m.queues[gap]
	d := due{now.Add(q.gap), s}
	if d.at < cep.AfterAll && !q.newest(d) {
		q.push(d)
		m.soon = min(m.soon, d.at)
	}
}
