package nfa

import (
	"math/bits"

	"github.com/cepd/cepd/cep"
)

// test evaluates a condition in the present scope. One that errs is false and counted (S1.6).
func (m *Machine) test(p *Pred) bool {
	holds, err := m.memo.Test(p, &m.scope)
	if err != nil {
		m.counters.Errors++
		m.counters.LastError = err.Error()
	}
	return holds
}

// fits says whether the event may be taken by the element, or break it, for a candidate that has taken the chain of n.
func (m *Machine) fits(e *element, n *node) bool {
	if m.heard&e.bit == 0 {
		return false
	}
	if e.Where == nil || e.Where.Unary {
		return true
	}
	m.view.reset(n)
	m.scope.History = &m.view
	return m.test(e.Where)
}

// breaks returns the absences of a set that the event breaks.
func (m *Machine) breaks(set uint64, n *node) uint64 {
	var broken uint64
	for s := set & m.heard; s != 0; s &= s - 1 {
		if e := &m.program.elements[bits.TrailingZeros64(s)]; m.fits(e, n) {
			broken |= e.bit
		}
	}
	return broken
}

// kill counts the absences that ended a candidate.
func (m *Machine) kill(broken uint64) {
	for ; broken != 0; broken &= broken - 1 {
		m.counters.Taken[m.program.elements[bits.TrailingZeros64(broken)].Name]++
	}
}

// hears is the set of elements whose events can change the run.
func (p *Program) hears(t *run) uint64 {
	e := p.code[t.pc].element
	switch {
	case e == nil: // done
		if t.absent&p.strict != 0 {
			return t.absent | alwaysHeard
		}
		return t.absent
	case t.link == Strict:
		return alwaysHeard | e.bit | e.behind | t.absent
	case t.n > 1:
		return e.bit | e.behind&^t.absent
	default:
		return e.bit | t.absent
	}
}

// offer shows the event to all runs of the key that listen.
func (m *Machine) offer() {
	p := m.program
	r := m.runs
	r.hears = 0
	for s := r.oldest; s != nil; s = s.next {
		m.fresh = m.fresh[:0]
		w := 0
		for i := range s.runs {
			t := &s.runs[i]
			h := p.hears(t)
			if h&m.heard != 0 {
				if !m.step(s, t) {
					continue
				}
				h = p.hears(t)
			}
			r.hears |= h
			if w < i {
				s.runs[w] = *t
			}
			w++
		}
		if w == len(s.runs) && len(m.fresh) == 0 {
			continue
		}
		for i := range m.fresh {
			r.hears |= p.hears(&m.fresh[i])
		}
		s.setRuns(w, m.fresh)
		m.changed = m.changed || len(s.runs) == 0
	}
}

// step shows the event to one run; false: the run is over. What it becomes by taking the event goes to fresh.
func (m *Machine) step(s *start, t *run) bool {
	p := m.program
	isNext := t.node.seq == m.isNext
	strict := p.strict // the strict absences that do not look at this event
	if isNext {
		strict = 0
	}
	e := p.code[t.pc].element
	if e == nil { // all is taken: absences at the end
		if broken := m.breaks(t.absent&^strict, t.node); broken != 0 {
			m.kill(broken)
			return false
		}
		t.absent &^= p.strict // decided by this event, which is not taken
		if t.absent == 0 {
			m.complete(s, t.node, cep.Moment{Time: m.event.Time, Seq: m.event.Seq})
			return false
		}
		return true
	}
	fits := m.fits(e, t.node)
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
		m.take(s, e, int(t.pc), t.n, m.node(t.node, e), broken)
	}
	if t.link == Strict || t.link == Relaxed && fits {
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

// canComplete says whether a run has a way to the end, with as many events as a match may have (S5.8). One that has none
// must not hold its start open.
func (m *Machine) canComplete(t *run) bool {
	least, ok := m.program.missing(t)
	limit := m.program.pattern.Limits.EventsPerMatch
	return ok && (limit <= 0 || int(t.node.length)+least <= limit)
}

// take makes what a run that waits at pc for the n-th event of element e becomes by taking the event as node. broken are
// the absences behind the loop that are broken by now.
func (m *Machine) take(s *start, e *element, pc int, n int32, node *node, broken uint64) {
	p := m.program
	m.counters.Taken[e.Name]++
	can := int(n) >= e.Min
	if can {
		for _, x := range e.exits {
			if p.code[x.pc].op == opDone {
				s.state |= startFull
				if x.absent == 0 {
					m.complete(s, node, cep.Moment{Time: m.event.Time, Seq: m.event.Seq})
				} else {
					m.rest(s, run{node: node, absent: x.absent, pc: int16(x.pc)})
				}
			} else if x.absent&broken == 0 {
				m.rest(s, run{node: node, absent: x.absent, pc: int16(x.pc), link: p.code[x.pc].element.Link, n: 1})
			}
		}
	}
	if e.Max < 0 || int(n) < e.Max {
		if e.Max >= 0 || int(n) <= e.Min { // beyond, the number of events changes nothing
			n++
		}
		m.rest(s, run{node: node, absent: broken, pc: int16(pc), link: e.Loop, can: can, n: n})
	}
}

// rest adds a run, with its deadlines.
func (m *Machine) rest(s *start, t run) {
	if m.program.pattern.Limits.EventsPerMatch > 0 && !m.canComplete(&t) {
		m.counters.TooLong++
		return
	}
	if m.furthest != nil {
		m.furthest.consider(m.program, &t)
	}
	m.fresh = append(m.fresh, t)
	if e := m.program.code[t.pc].element; e != nil {
		if t.n > 1 {
			m.schedule(e.loopGap, s)
		} else {
			m.schedule(e.gap, s)
		}
		return
	}
	for a := t.absent; a != 0; a &= a - 1 {
		m.schedule(m.program.elements[bits.TrailingZeros64(a)].forGap, s)
	}
}

func (m *Machine) complete(s *start, n *node, at cep.Moment) {
	m.done = append(m.done, completion{s, s.first.seq, at, n})
}

// node makes the node of the present event, taken by e behind the chain of up.
func (m *Machine) node(up *node, e *element) *node {
	p := m.program
	if m.kept>>e.Name&1 == 0 {
		m.kept |= 1 << e.Name
		m.keeps[e.Name] = keep(&p.layouts[e.Name], m.event, p.pattern.KeepRaw)
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
	return n
}

// begin looks at the event as the first of candidates (S3.1).
func (m *Machine) begin(room bool) {
	p := m.program
	m.fresh = m.fresh[:0]
	done := len(m.done)
	var s *start
	for _, x := range p.entries {
		e := p.code[x.pc].element
		if !m.fits(e, nil) || x.absent != 0 && !m.silent(x.absent, e) {
			continue
		}
		if s == nil {
			if !room {
				m.counters.Refused++
				return
			}
			s = m.newStart()
		}
		n := m.node(nil, e)
		if s.first == nil {
			s.first = n
		}
		m.take(s, e, x.pc, 1, n, 0)
	}
	if s == nil {
		return
	}
	m.counters.Opened++
	if len(m.fresh) == 0 {
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
		m.schedule(0, s)
	}
	for i := range m.fresh {
		m.runs.hears |= p.hears(&m.fresh[i])
	}
	s.setRuns(0, m.fresh)
	m.runs.push(s)
	m.open++
}
