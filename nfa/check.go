package nfa

import (
	"errors"
	"fmt"

	"github.com/cepd/cepd/cep"
)

// checkNode says what is wrong with a node whose chain is right.
func (p *Program) checkNode(n *node) error {
	e := &p.elements[n.element]
	switch {
	case e.Absent:
		return errors.New("an absence took an event")
	case n.up == nil:
		if p.entry&e.bit == 0 {
			return errors.New("a chain begins in the middle")
		}
	case n.up.seq >= n.seq || n.up.time > n.time:
		return errors.New("a chain that goes back")
	case n.up.element > n.element || n.up.element == n.element && e.Max == 1:
		return errors.New("elements out of order")
	}
	return nil
}

// checkKey says which invariant the state of a key breaks. It holds between two calls of the machine.
func (m *Machine) checkKey(r *Runs) error {
	p := m.program
	var before *start
	count := int32(0)
	for s := r.oldest; s != nil; s = s.next {
		count++
		switch {
		case s.owner != r:
			return errors.New("a start of another key")
		case before != nil && before.first.seq >= s.first.seq:
			return errors.New("starts out of order")
		case len(s.runs) == 0 || s.state&startPruned != 0:
			return errors.New("an ended start is kept")
		case s.first.up != nil || s.first.seq > r.last:
			return errors.New("a start that does not begin with its first event")
		case s.next == nil && r.tail != s:
			return errors.New("the newest start is not the last")
		}
		before = s
		same := map[run]bool{}
		for i := range s.runs {
			t := &s.runs[i]
			if err := m.checkRun(s, t); err != nil {
				return err
			}
			if same[*t] {
				return errors.New("the same run twice")
			}
			same[*t] = true
			if p.hears(t)&^r.hears != 0 {
				return errors.New("a run that does not hear")
			}
		}
	}
	if count != r.count {
		return fmt.Errorf("%d starts, counted as %d", count, r.count)
	}
	if r.empty() {
		return errors.New("an empty key is kept")
	}
	if r.rare == nil {
		return nil
	}
	for i, c := range r.rare.held {
		switch {
		case !p.pattern.Ordered:
			return errors.New("held matches without emit: ordered")
		case r.oldest == nil || r.oldest.first.seq >= c.first:
			return errors.New("a match is held for nothing")
		case i > 0 && m.compare(r.rare.held[i-1], c) >= 0:
			return errors.New("held matches out of order")
		}
	}
	there := len(r.rare.held) > 0
	for kind, x := range r.rare.memories {
		if x == nil {
			continue
		}
		there = true
		if err := m.checkMemory(x, p.memories[kind]); err != nil {
			return err
		}
	}
	if !there {
		return errors.New("an empty key is kept")
	}
	return nil
}

func (m *Machine) checkRun(s *start, t *run) error {
	p := m.program
	if t.node.root().seq != s.first.seq {
		return errors.New("a run of another start")
	}
	in := &p.code[t.pc]
	from := &p.elements[t.node.element]
	if in.op == opTake && t.n > 1 {
		e := in.element
		switch {
		case from != e || e.Max == 1 || e.Max >= 0 && int(t.n) > e.Max || e.Max < 0 && int(t.n) > e.Min+1:
			return errors.New("a run in a loop that it is not in")
		case t.link != e.Loop || t.can != (int(t.n) > e.Min) || t.absent&^e.behind != 0:
			return errors.New("a run that does not fit its loop")
		}
	} else {
		x := exit{pc: -1}
		for _, y := range from.exits {
			if y.pc == int(t.pc) {
				x = y
			}
		}
		switch {
		case x.pc < 0:
			return errors.New("a run where no way leads")
		case t.absent&^x.absent != 0 || t.can:
			return errors.New("a run with absences that it never met")
		case in.op == opDone && (t.n != 0 || t.link != NoLink || t.absent == 0 || s.state&startFull == 0):
			return errors.New("a run that waits at the end for nothing")
		case in.op == opTake && (t.n != 1 || t.link != in.element.Link):
			return errors.New("a run that waits for an event in another way than its element")
		}
	}
	if in.op == opTake {
		if m.deadline(s, t) <= m.now {
			return errors.New("a run waits past its deadline")
		}
		return nil
	}
	for i := range p.elements {
		if e := &p.elements[i]; t.absent&e.bit != 0 && m.absenceEnd(s, t, e) <= m.now {
			return errors.New("an absence is pending past its deadline")
		}
	}
	return nil
}

func (m *Machine) checkMemory(x *memory, k memoryKind) error {
	if k.reach != Forever && x.time.Add(k.reach) <= m.now {
		return errors.New("something is remembered that has aged out")
	}
	if k.element == nil {
		if x.event.time != x.time || len(m.program.prevLayout.slots) > 0 && x.event.kept == nil {
			return errors.New("prev is not the newest event")
		}
		return nil
	}
	if !k.element.looksAhead() {
		return nil
	}
	if len(x.past) == 0 || x.past[len(x.past)-1].event.time != x.time {
		return errors.New("the past does not end with its newest event")
	}
	last := cep.BeforeAll
	for _, e := range x.past {
		if e.event.time < last {
			return errors.New("the past is out of order")
		}
		last = e.event.time
	}
	return nil
}

// deadlines calls add with the index of each constant that a resting run has a deadline by, counted from its last event;
// the window of the rule aside.
func (p *Program) deadlines(t *run, add func(gap int)) {
	e := p.code[t.pc].element
	switch {
	case e == nil:
		for i := range p.elements {
			if t.absent&p.elements[i].bit != 0 && p.elements[i].forGap >= 0 {
				add(p.elements[i].forGap)
			}
		}
	case t.n > 1 && e.loopGap >= 0:
		add(e.loopGap)
	case t.n <= 1 && e.gap >= 0:
		add(e.gap)
	}
}
