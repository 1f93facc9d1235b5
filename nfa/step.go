package nfa

import (
	"math/bits"

	"github.com/cepd/cepd/cep"
)

// test evaluates a condition in the present scope. One that errs is false and counted (S1.6).
func (m *Machine) test(p *Pred) bool {
	holds, err := m.memo.Test(p, &m.scope)
	if err != nil {
		m.fail(err)
	}
	return holds
}

// fail counts an evaluation error: at the present event, or at a time that passes without one.
func (m *Machine) fail(err error) {
	at := m.now
	if m.event != nil {
		at = m.event.Time
	}
	m.counters.fail(err, at)
}

// testFor evaluates a condition for a candidate that has taken the chain of n.
func (m *Machine) testFor(p *Pred, n *node) bool {
	m.view.reset(n)
	m.scope.History = &m.view
	return m.test(p)
}

// fits says whether the event may be taken by the element, or break it, for a candidate that has taken the chain of n.
func (m *Machine) fits(e *element, n *node) bool {
	if m.heard&e.bit == 0 {
		return false
	}
	if !e.looksAround || e.FirstSeen != nil {
		return true
	}
	return m.testFor(m.program.conditions[e.index], n) && (!e.Edge || !m.wasHeld(e, n))
}

// breaks returns the elements of a set that the event fits, or breaks.
func (m *Machine) breaks(set uint64, n *node) uint64 {
	var broken uint64
	for s := set & m.heard &^ alwaysHeard; s != 0; s &= s - 1 {
		if e := &m.form.elements[bits.TrailingZeros64(s)]; m.fits(e, n) {
			broken |= e.bit
		}
	}
	return broken
}

// kill counts the absences that ended a candidate.
func (m *Machine) kill(broken uint64) {
	for ; broken != 0; broken &= broken - 1 {
		m.counters.Taken[m.form.elements[bits.TrailingZeros64(broken)].Name]++
	}
}

// hears is the set of elements whose events can change the run.
func (p *form) hears(t *run) uint64 {
	e := p.code[t.pc].element
	h := t.absent | p.without
	if t.frame != nil && t.frame.bars != 0 {
		h |= p.barsHear(t.frame.bars)
	}
	switch {
	case e == nil: // done
		if t.absent&p.strict != 0 {
			h |= alwaysHeard
		}
		return h
	case t.link == Strict:
		return alwaysHeard | h | e.bit | e.behind | e.untils
	case t.n > 1:
		return (h | e.bit | e.behind | e.untils) &^ t.absent
	default:
		return h | e.bit | e.untils
	}
}

func (p *form) barsHear(bars uint64) uint64 {
	var h uint64
	for ; bars != 0; bars &= bars - 1 {
		b := &p.bars[bits.TrailingZeros64(bars)]
		h |= b.element.bit | b.element.untils
		if b.link == Strict {
			h |= alwaysHeard
		}
	}
	return h
}

// offer shows the event to all runs of the key that listen.
func (m *Machine) offer() {
	p := m.form
	r := m.runs
	r.hears = 0
	for s := r.oldest; s != nil; s = s.next {
		if s.state&startPruned != 0 {
			continue
		}
		if s.state&startParked != 0 { // and so are all behind it
			r.hears |= p.logging
			break
		}
		r.hears |= m.offerTo(s)
	}
}

// offerTo shows the event to the runs of a start that listen, and returns what its runs hear then.
func (m *Machine) offerTo(s *start) uint64 {
	p := m.form
	var hears uint64
	m.fresh = m.fresh[:0]
	if p.repeats {
		m.same = cleared(m.same)
	}
	runs := s.runs()
	w := 0
	for i := range runs {
		t := &runs[i]
		h := p.hears(t)
		if h&m.heard != 0 {
			if !m.step(s, t) {
				continue
			}
			h = p.hears(t)
		}
		hears |= h
		if w < i {
			runs[w] = *t
		}
		w++
	}
	if w < len(runs) || len(m.fresh) > 0 {
		for i := range m.fresh {
			hears |= p.hears(&m.fresh[i])
		}
		s.setRuns(w, m.fresh)
		if !s.waits() {
			m.closing++
		}
		if p.pruning && len(m.fresh) > 0 {
			m.dominate(s)
		}
	}
	if m.narrowed {
		m.narrowed = false
		m.merge(s)
	}
	return hears
}

// merge leaves one of the runs of a start that have become equal.
func (m *Machine) merge(s *start) {
	if s.many == nil {
		return
	}
	m.same = cleared(m.same)
	runs := s.runs()
	w := 0
	for i := range runs {
		k := runs[i].key()
		if _, again := m.same[k]; again {
			continue
		}
		m.same[k] = struct{}{}
		runs[w] = runs[i]
		w++
	}
	if w < len(runs) {
		s.setRuns(w, nil)
	}
}

// step shows the event to one run; false: the run is over. What it becomes by taking the event goes to fresh.
//
// The order matters. At the end of the rule whatever forbids the event comes before the absence that it decides. A greedy
// loop left behind claims the event before anything else can take it, an until keeps it from being taken, absences behind a
// loop are judged by what the loop takes too, and a strict absence kills even what fits. Only then is the event taken; what
// goes on waiting besides can still be killed by it.
func (m *Machine) step(s *start, t *run) bool {
	p := m.form
	isNext := t.node.seq == m.isNext
	strict := p.strict // the strict absences that do not look at this event
	if isNext {
		strict = 0
	}
	e := p.code[t.pc].element
	var killed uint64
	if t.node.length > 0 { // S4.5: behind its first event, and unless it takes this one
		killed = m.breaks(p.without, t.node)
	}
	if e == nil && killed != 0 {
		m.kill(killed)
		return false
	}
	if e == nil {
		if broken := m.breaks(t.absent&^strict, t.node); broken != 0 {
			m.kill(broken)
			return false
		}
	}
	if t.frame.barred() != 0 && !m.passBars(t, isNext) {
		return false
	}
	if e == nil { // all is taken: absences at the end
		if t.absent&p.strict != 0 {
			t.absent &^= p.strict // decided by this event, which is not taken
			m.narrowed = p.repeats
		}
		if t.absent == 0 {
			m.complete(s, t.node, cep.Moment{Time: m.event.Time, Seq: m.event.Seq})
			return false
		}
		return true
	}
	fits := m.fits(e, t.node) && m.allows(t, e)
	over := false
	if e.untils&m.heard != 0 {
		fits, over = m.passUntils(t, e, fits)
	}
	var broken uint64 // of the absences behind the loop that the run is in
	if t.n > 1 {
		// S4.1: they are judged from the loop's first event on, by the loop's own events too. When no way out is left
		// the candidate cannot complete any more, and must not hold its start open.
		if !t.can {
			strict = p.strict
		}
		broken = t.absent
		if now := m.breaks(e.behind&^broken&^strict, t.node); now != 0 {
			broken |= now
			t.absent = broken
			m.narrowed = p.repeats
			if !m.canComplete(t) {
				m.kill(now)
				return false
			}
		}
	} else if isNext {
		// A strict absence kills what takes the event too.
		if b := m.breaks(t.absent&p.strict, t.node); b != 0 {
			m.kill(b)
			return false
		}
	}
	if fits {
		m.take(s, e, t, m.node(t.node, e), broken)
	}
	switch {
	case over || t.link == Strict || t.link == Relaxed && fits:
		return false
	case killed != 0:
		m.kill(killed)
		return false
	}
	if t.n <= 1 {
		if b := m.breaks(t.absent&^p.strict, t.node); b != 0 {
			m.kill(b)
			return false
		}
	}
	return true
}

// passBars lets the event go by the greedy loops that the run has left behind (S3.5); false: one of them still claims it,
// and it may be neither taken nor skipped.
func (m *Machine) passBars(t *run, isNext bool) bool {
	var gone uint64
	for bars := t.frame.bars; bars != 0; bars &= bars - 1 {
		bit := bars & -bars
		b := &m.form.bars[bits.TrailingZeros64(bars)]
		if b.link == Strict && !isNext {
			gone |= bit
			continue
		}
		fits := m.fits(b.element, t.node)
		if b.element.untils&m.heard != 0 && m.breaks(b.element.untils, t.node) != 0 {
			if !b.out || fits && b.link != Any {
				gone |= bit // the loop is over
			}
			continue
		}
		if fits {
			return false
		}
	}
	if gone != 0 {
		t.frame = t.frame.unbarred(gone)
		m.narrowed = m.form.repeats
	}
	return true
}

// allows asks the condition of an all_of about the member that comes last (S2.3): it sees all members, that one too.
func (m *Machine) allows(t *run, e *element) bool {
	for _, w := range e.inside {
		if w.Kind == KindAllOf && w.Where != nil && bits.OnesCount16(t.frame.group(w).n) == w.Need-1 && !m.testFor(w.Where, m.node(t.node, e)) {
			return false
		}
	}
	return true
}

// passUntils judges an event by the untils in force (S3.6): it is not taken where one holds. A loop or repetition under
// way is over then; before it has begun the event still counts as the first that fits.
func (m *Machine) passUntils(t *run, e *element, fits bool) (takes, over bool) {
	takes = fits
	if e.until&m.heard != 0 && m.breaks(e.until, t.node) != 0 {
		takes = false
		over = t.n > 1 || t.link == Relaxed && fits
	}
	for _, w := range e.inside {
		if w.until&m.heard != 0 && m.breaks(w.until, t.node) != 0 {
			g := t.frame.group(w)
			takes = false
			over = over || g.n > 1 || g.took || t.link == Relaxed && fits
		}
	}
	return takes, over
}

// canComplete says whether a run has a way to the end, with as many events as a match may have (S5.8). One that has none
// must not hold its start open.
func (m *Machine) canComplete(t *run) bool {
	least, ok := m.form.missing(t)
	limit := m.form.pattern.Limits.EventsPerMatch
	return ok && (limit <= 0 || int(t.node.length)+least <= limit)
}

// take makes what a run that waits for an event of element e becomes by taking the event as node. broken are the absences
// behind the loop that are broken by now.
func (m *Machine) take(s *start, e *element, t *run, node *node, broken uint64) {
	p := m.form
	m.counters.Taken[e.Name]++
	if p.flat {
		can := int(t.n) >= e.Min
		if can {
			for i := range e.exits {
				m.leaveFor(s, node, &e.exits[i], broken)
			}
		}
		if e.Max < 0 || int(t.n) < e.Max {
			m.rest(s, run{node: node, absent: broken, pc: t.pc, link: e.Loop, can: can, n: int32(e.next(int(t.n)))})
		}
		return
	}
	r := t.frame.registers(e)
	for _, w := range e.inside {
		if w.Within > 0 && !t.frame.group(w).took {
			r.groups[w.index].first = m.event.Time
			m.schedule(w.gap, s, m.event.Time)
		}
	}
	again := newFrame(p, &r)
	count := int(t.n) // of this pass, after the event
	if e.Distinct != nil || e.Having != nil {
		taken, values := int32(1), (*set)(nil)
		if t.n > 1 {
			taken, values = t.frame.count+1, t.frame.values
		}
		if e.Distinct != nil {
			var fresh bool
			if values, fresh = values.with(node.kept.value); !fresh {
				count--
			}
		}
		again = again.inLoop(p, taken, values)
	}
	can := count >= e.Min && (e.Having == nil || m.mayLeave(e, node, again.count))
	more := e.Max < 0 || count < e.Max
	if can {
		out := r
		if more {
			out.bars = e.barLeft
		}
		p.walk(int(t.pc)+1, out, func(pc int, r *registers) {
			x := exit{pc: pc, absent: r.absent, frame: newFrame(p, r)}
			if p.code[pc].op == opTake {
				x.link = r.linkOf(p.code[pc].element)
			}
			m.leaveFor(s, node, &x, broken)
		})
	}
	if more {
		m.rest(s, run{node: node, absent: broken, pc: t.pc, link: e.Loop, can: can, n: int32(e.next(count)), frame: again})
	}
}

// mayLeave asks the having of a loop.
func (m *Machine) mayLeave(e *element, n *node, pass int32) bool {
	m.view.reset(n)
	if e.repeated() {
		m.view.passStep, m.view.pass = e.Name, int(pass)
	}
	m.scope.History = &m.view
	return m.test(e.Having)
}

// repeated says whether a match may go through the element more than once.
func (e *element) repeated() bool {
	for _, w := range e.inside {
		if w.Max != 1 {
			return true
		}
	}
	return false
}

// leaveFor makes the run, or the completion, behind an exit.
func (m *Machine) leaveFor(s *start, n *node, x *exit, broken uint64) {
	switch {
	case m.form.code[x.pc].op == opTake:
		if x.absent&broken == 0 {
			m.rest(s, run{node: n, absent: x.absent, pc: int16(x.pc), link: x.link, n: 1, frame: x.frame})
		}
	case x.absent == 0:
		s.state |= startFull
		m.complete(s, n, cep.Moment{Time: m.event.Time, Seq: m.event.Seq})
	default:
		s.state |= startFull
		m.rest(s, run{node: n, absent: x.absent, pc: int16(x.pc), frame: x.frame})
	}
}

// rest adds a run, with its deadlines.
func (m *Machine) rest(s *start, t run) {
	p := m.form
	if limit := p.pattern.Limits.EventsPerMatch; limit > 0 && int(t.node.length)+p.most > limit && !m.canComplete(&t) {
		m.counters.TooLong++
		return
	}
	if p.repeats {
		k := t.key()
		if _, again := m.same[k]; again {
			return
		}
		m.same[k] = struct{}{}
	}
	if m.furthest != nil {
		m.furthest.consider(p, &t)
	}
	m.fresh = append(m.fresh, t)
	m.scheduleRun(s, &t, t.node.time)
}

// scheduleRun queues the deadlines of a new run that count from its last event.
func (m *Machine) scheduleRun(s *start, t *run, now cep.Time) {
	if e := m.form.code[t.pc].element; e != nil {
		if t.n > 1 {
			m.schedule(e.loopGap, s, now)
		} else {
			m.schedule(e.gap, s, now)
		}
		return
	}
	for a := t.absent; a != 0; a &= a - 1 {
		m.schedule(m.form.elements[bits.TrailingZeros64(a)].forGap, s, now)
	}
}

func (m *Machine) complete(s *start, n *node, at cep.Moment) {
	m.done = append(m.done, completion{s, s.first.seq, at, n})
}

// node makes the node of the present event, taken by e behind the chain of up.
func (m *Machine) node(up *node, e *element) *node {
	p := m.form
	if p.repeats {
		if n := m.cons[consKey{up, e.index}]; n != nil {
			return n
		}
	}
	if m.kept>>e.Name&1 == 0 {
		m.kept |= 1 << e.Name
		var value cep.Value
		if e.Distinct != nil && m.heard&e.bit != 0 {
			value = m.values[e.Name]
		}
		m.keeps[e.Name] = keep(&p.layouts[e.Name], m.event, p.pattern.KeepRaw, value)
	}
	n := &node{
		up: up, time: m.event.Time, seq: m.event.Seq,
		partition: m.event.Position.Partition, offset: m.event.Position.Offset,
		kept: m.keeps[e.Name], length: 1, element: int16(e.index), step: int16(e.Name),
	}
	if up != nil {
		n.length = up.length + 1
	}
	if p.aggregated != 0 {
		p.aggregate(n)
	}
	if p.repeats {
		m.cons[consKey{up, e.index}] = n
	}
	return n
}

// entersBy says whether the event can be the first by an entry.
func (m *Machine) entersBy(x *exit) bool {
	e := m.form.code[x.pc].element
	if !m.fits(e, nil) {
		return false
	}
	t := run{frame: x.frame, n: 1}
	if !m.allows(&t, e) || e.untils&m.heard != 0 && m.breaks(e.untils, nil) != 0 {
		return false
	}
	// Where a greedy loop is left out, what it could take is no start; an event that an until keeps from it is one.
	for bars := x.frame.barred(); bars != 0; bars &= bars - 1 {
		b := m.form.bars[bits.TrailingZeros64(bars)].element
		if m.fits(b, nil) && (b.untils&m.heard == 0 || m.breaks(b.untils, nil) == 0) {
			return false
		}
	}
	return x.absent == 0 || m.silent(x.absent, e)
}

// begins says whether the event is a start.
func (m *Machine) begins() bool {
	for i := range m.form.entries {
		if m.entersBy(&m.form.entries[i]) {
			return true
		}
	}
	return false
}

// begin looks at the event as the first of candidates (S3.1).
func (m *Machine) begin(room bool) {
	p := m.form
	m.fresh = m.fresh[:0]
	if p.repeats {
		m.same = cleared(m.same)
	}
	done := len(m.done)
	var s *start
	for i := range p.entries {
		x := &p.entries[i]
		if !m.entersBy(x) {
			continue
		}
		if s == nil {
			if !room {
				m.counters.Refused++
				return
			}
			s = m.newStart()
		}
		e := p.code[x.pc].element
		n := m.node(nil, e)
		if s.first == nil {
			s.first = n
		}
		if m.parks() {
			s.state |= startParked
			m.counters.Taken[e.Name]++
			continue
		}
		t := run{pc: int16(x.pc), n: 1, frame: x.frame}
		m.take(s, e, &t, n, 0)
	}
	if s == nil {
		return
	}
	m.counters.Opened++
	if len(m.fresh) == 0 && s.state&startParked == 0 {
		s.owner = nil
		m.ended = append(m.ended, s)
		reason := EndKilled // too long
		if len(m.done) > done {
			reason = EndCompleted
		}
		m.counters.Ended[reason]++
		return
	}
	if p.pattern.Within > 0 {
		m.schedule(0, s, m.event.Time)
	}
	m.keepStart(s)
}

// keepStart adds a new start with the fresh runs to the present key.
func (m *Machine) keepStart(s *start) {
	for i := range m.fresh {
		m.runs.hears |= m.form.hears(&m.fresh[i])
	}
	if s.state&startParked != 0 {
		m.runs.hears |= m.form.logging
	}
	s.setRuns(0, m.fresh)
	m.runs.push(s)
	m.open++
}

// drop takes an open start off, at a limit. It does not see the present event.
func (m *Machine) drop(s *start) {
	s.state |= startPruned
	m.closing++
}

// keepNewest leaves one start for each number of steps taken (S5.6): the one that got there with the present event.
func (m *Machine) keepNewest() {
	for s := m.runs.oldest; s != nil; s = s.next {
		if s.state&startPruned != 0 || !s.waits() {
			continue
		}
		for o := s.next; o != nil; o = o.next {
			if !o.waits() || o.state&startPruned != 0 || o.runs()[0].pc != s.runs()[0].pc {
				continue
			}
			if s.runs()[0].node.seq == m.event.Seq {
				m.drop(o)
			} else {
				m.drop(s)
			}
		}
	}
}

// Await opens the start of a key that counts as present from a time on, without an event, as if its first step had been
// taken before all events of that time (S4.4). The program is an absence alone: a step and an absence of the same.
func (m *Machine) Await(key []byte, at cep.Time) {
	hash := hashKey(key)
	r := m.keys.find(key, hash)
	fresh := r == nil
	if fresh {
		r = m.newRuns(string(key), hash)
	}
	m.enter(m)
	m.runs = r
	m.fresh = m.fresh[:0]
	s := m.newStart()
	s.state = startAwaited | startFull
	s.first = &node{time: at, element: noElement, step: noElement}
	for _, x := range m.form.elements[0].exits {
		t := run{node: s.first, absent: x.absent, pc: int16(x.pc)}
		m.fresh = append(m.fresh, t)
		m.scheduleRun(s, &t, at)
	}
	if m.form.pattern.Within > 0 {
		m.schedule(0, s, at)
	}
	m.counters.Opened++
	m.keepStart(s)
	m.leave(fresh)
	m.exit()
}

// Dismiss ends the start that [Machine.Await] opened for a key, if it is open still.
func (m *Machine) Dismiss(key []byte) {
	r := m.keys.find(key, hashKey(key))
	if r == nil || r.oldest == nil || r.oldest.state&startAwaited == 0 {
		return
	}
	m.enter(m)
	m.runs = r
	m.drop(r.oldest)
	m.settle(cep.Moment{Time: m.now, Seq: cep.ByTime})
	m.leave(false)
	m.exit()
}
