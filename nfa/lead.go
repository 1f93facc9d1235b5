package nfa

import (
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/internal/invariant"
)

// In a led program only the oldest start of a key is followed; the younger ones are parked, with the events that they may
// need later in a log of the key. That is right where an older start completes no later than a younger one, because its
// match then takes the younger one with it (after_match past_last) or goes before it (S5.3), and nobody ever sees what the
// younger one had come to. It matters only when the older one's window ends first. The next one then leads, and is brought
// up to date from the log before an event that might complete it.
//
// An older start completes no later if all links are relaxed, there are no windows but the rule's and no absences, and
// conditions read the event alone: whatever the younger one takes behind its first event the older one can take as well, or
// has got past already. Only with loops is that worth a log: a thousand events of one loop would be a thousand starts, each
// with a chain of its own through all later events, in memory and at each event.
//
// It is right too for one loop without an upper bound and one absence behind it that holds for a time, the burst that is
// collected until quiet. As long as the older start's loop goes on it takes what the younger one's takes, and waits for the
// same deadlines; what breaks the absence ends what waits for it in both. Once the older one has ended the next must lead at
// once, because time alone may complete it; and one whose window ends is followed from then on, because the absence may hold
// beyond the window.

// logged is an event of a key's log.
type logged struct {
	node  *node  // as the first element would take it
	heard uint64 // the elements that fit it
	kept  []*kept
}

// leads says whether the program is led.
func (p *form) leads() bool {
	if !p.linear() || p.pattern.After != SkipPastLast || p.pattern.Timeouts || p.pattern.Newest || p.without|p.lead|p.constant != 0 ||
		len(p.entries) != 1 || p.code[0].op != opTake {
		return false
	}
	if p.end != 0 {
		p.atOnce = true // time alone may complete the next
		return p.collects()
	}
	if p.least[0] < 2 { // a start that completes at once
		return false
	}
	if limit := p.pattern.Limits.EventsPerMatch; limit > 0 && p.least[0] > limit {
		return false
	}
	loops := false
	for i := range p.elements {
		e := &p.elements[i]
		if e.role != takes || e.looksAround || i > 0 && e.Link != Relaxed || e.Loop != Relaxed || e.Within > 0 || e.LoopWithin > 0 {
			return false
		}
		if e.Distinct != nil {
			// The limit of events may end such a loop, and the start with it, before it may be left. A younger start has
			// fewer events by at least as many as it has fewer values, so it is not the first to end; but an older one
			// that waits for another element would outlive it.
			if len(p.elements) > 1 {
				return false
			}
			p.atOnce = true
		}
		loops = loops || e.Max != 1
	}
	return loops
}

// linear says whether a program is flat but for loops that count values.
func (p *form) linear() bool {
	if len(p.wholes)+len(p.bars) > 0 {
		return false
	}
	for i := range p.elements {
		if e := &p.elements[i]; e.Until != nil || e.Having != nil {
			return false
		}
	}
	return true
}

// collects says whether the program is an open loop with an absence that holds for a time behind it.
func (p *form) collects() bool {
	if p.pattern.Ordered || len(p.elements) != 2 {
		return false
	}
	loop, absent := &p.elements[0], &p.elements[1]
	limit := p.pattern.Limits.EventsPerMatch
	return loop.Max < 0 && loop.Distinct == nil && loop.Loop == Relaxed && loop.Within == 0 && loop.LoopWithin == 0 && !loop.looksAround &&
		absent.role == absentLater && absent.Link == Relaxed && absent.For > 0 && !absent.looksAround &&
		(limit <= 0 || p.least[0] <= limit)
}

// follow brings the oldest start of a key up to date before an event that might complete it.
func (m *Machine) follow() {
	s := m.runs.oldest
	for s != nil && s.state&startPruned != 0 {
		s = s.next
	}
	if s != nil && s.state&startParked != 0 && (m.heard&m.form.final != 0 || m.form.atOnce) {
		m.lead(s)
	}
}

// lead makes a parked start one that is followed.
func (m *Machine) lead(s *start) {
	s.state &^= startParked
	m.replaying = true
	event, heard := m.event, m.heard
	done := len(m.done)
	at := func(l *node) {
		m.looked = cep.Event{Time: l.time, Seq: l.seq, Position: l.Position()}
		m.event, m.kept = &m.looked, ^uint64(0)
	}
	at(s.first)
	m.fresh = m.fresh[:0]
	first := m.form.entries[0]
	e := m.form.code[first.pc].element
	m.counters.Taken[e.Name]-- // it was counted when it began
	m.take(s, e, &run{pc: int16(first.pc), n: 1}, s.first, 0)
	s.setRuns(0, m.fresh)
	log := m.runs.rare.log
	from, _ := slices.BinarySearchFunc(log, s.first.seq+1, func(l logged, seq uint64) int {
		if l.node.seq < seq {
			return -1
		}
		return 1
	})
	for i := range log[from:] {
		l := &log[from+i]
		at(l.node)
		m.heard = l.heard | alwaysHeard
		m.keeps[e.Name] = l.node.kept
		for name, k := range l.kept {
			if k != nil {
				m.keeps[name] = k
			}
		}
		m.offerTo(s)
	}
	invariant.Check(len(m.done) == done, "a parked start of %s had completed", m.program.source.Rule)
	m.event, m.heard, m.kept, m.replaying = event, heard, 0, false
	runs := s.runs()
	for i := range runs {
		m.form.deadlines(&runs[i], func(gap int, from cep.Time) { m.scheduleLate(gap, s, from) })
	}
	if !s.waits() {
		m.closing++
	}
	m.runs.forget()
}

// parks says whether a start that the present event begins is parked.
func (m *Machine) parks() bool { return m.form.led && m.runs.oldest != nil }

// write adds the present event to the log, if some start is parked.
func (m *Machine) write() {
	p, r := m.program, m.runs
	if r.tail == nil || r.tail.state&startParked == 0 || m.heard&p.logging == 0 {
		return
	}
	first := p.code[p.entries[0].pc].element
	l := logged{heard: m.heard & p.logging}
	if r.tail.first.seq == m.event.Seq {
		l.node = r.tail.first
	} else {
		l.node = m.node(nil, first)
	}
	for i := range p.elements {
		e := &p.elements[i]
		if !p.logs(e, l.heard) {
			continue
		}
		if l.kept == nil {
			l.kept = make([]*kept, len(p.layouts))
		}
		l.kept[e.Name] = m.node(nil, e).kept
	}
	x := r.extra()
	x.log = append(x.log, l)
}

// logs says whether the log keeps something of an event for an element: the first one's stands in the node.
func (p *form) logs(e *element, heard uint64) bool {
	return heard&p.taking&e.bit != 0 && e != p.code[p.entries[0].pc].element && (len(p.layouts[e.Name].slots) > 0 || p.layouts[e.Name].value != nil || p.pattern.KeepRaw)
}

// forget drops what no parked start needs of the log.
func (r *Runs) forget() {
	if r.rare == nil || r.rare.log == nil {
		return
	}
	s := r.oldest
	for s != nil && s.state&startParked == 0 {
		s = s.next
	}
	if s == nil {
		r.rare.log = nil
		return
	}
	log := r.rare.log
	old := 0
	for old < len(log) && log[old].node.seq < s.first.seq {
		old++
	}
	if old > len(log)/2 { // seldom enough for the copy to be cheap
		log = slices.Clone(log[old:])
	} else {
		clear(log[:old])
		log = log[old:]
	}
	r.rare.log = log
}
