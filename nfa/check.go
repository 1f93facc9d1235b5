package nfa

import (
	"errors"
	"fmt"

	"github.com/cepd/cepd/cep"
)

// checkNode says what is wrong with a node whose chain is right.
func (p *form) checkNode(n *node) error {
	e := &p.elements[n.element]
	switch {
	case n.up == nil:
		if p.entry&e.bit == 0 {
			return errors.New("a chain begins in the middle")
		}
	case n.up.seq >= n.seq || n.up.time > n.time:
		return errors.New("a chain that goes back")
	case p.flat && (n.up.element > n.element || n.up.element == n.element && e.Max == 1):
		return errors.New("elements out of order")
	}
	return nil
}

// checkKey says which invariant the state of a key breaks. It holds between two calls of the machine.
func (m *Machine) checkKey(r *Runs) error {
	until, err := m.inspect(r)
	if err == nil && until <= m.now && until < cep.AfterAll {
		err = errors.New("something is kept that is over")
	}
	return err
}

// inspect is checkKey for a time that is not known yet: the state is what it can be before until.
func (m *Machine) inspect(r *Runs) (until cep.Time, err error) {
	until = cep.AfterAll
	err = m.inspectKey(r, &until)
	return until, err
}

func (m *Machine) inspectKey(r *Runs, until *cep.Time) error {
	p := m.form
	var before *start
	count := int32(0)
	for s := r.oldest; s != nil; s = s.next {
		count++
		parked := s.state&startParked != 0
		if parked && p.pattern.Within > 0 {
			*until = min(*until, s.first.time.Add(p.pattern.Within))
		}
		switch {
		case parked && (!p.led || len(s.runs()) > 0 || p.logging&^r.hears != 0):
			return errors.New("a start is parked that cannot be")
		case !parked && before != nil && before.state&startParked != 0:
			return errors.New("a start is followed behind a parked one")
		case s.owner != r:
			return errors.New("a start of another key")
		case before != nil && before.first.seq >= s.first.seq:
			return errors.New("starts out of order")
		case !s.waits() || s.state&startPruned != 0:
			return errors.New("an ended start is kept")
		case s.first.up != nil || s.first.seq > r.last || (s.first.seq == 0) != (s.state&startAwaited != 0):
			return errors.New("a start that does not begin with its first event")
		case s.next == nil && r.tail != s:
			return errors.New("the newest start is not the last")
		}
		before = s
		runs := s.runs()
		var same map[runKey]bool
		if len(runs) > 1 {
			same = make(map[runKey]bool, len(runs))
		}
		for i := range runs {
			t := &runs[i]
			if err := m.checkRun(s, t, until); err != nil {
				return err
			}
			if same != nil {
				if same[t.key()] {
					return errors.New("the same run twice")
				}
				same[t.key()] = true
			}
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
	for i, l := range r.rare.log {
		if i > 0 && r.rare.log[i-1].node.seq >= l.node.seq || l.heard&^p.logging != 0 {
			return errors.New("a log that is out of order")
		}
	}
	if (len(r.rare.log) > 0) != (r.tail != nil && r.tail.state&startParked != 0) {
		return errors.New("a log without a parked start, or one without a log")
	}
	there := len(r.rare.held)+len(r.rare.log) > 0
	for kind, x := range r.rare.memories {
		if x == nil {
			continue
		}
		there = true
		if err := m.checkMemory(x, p.memories[kind], until); err != nil {
			return err
		}
	}
	if !there {
		return errors.New("an empty key is kept")
	}
	return nil
}

func (m *Machine) checkRun(s *start, t *run, until *cep.Time) error {
	p := m.form
	if t.node.root().seq != s.first.seq {
		return errors.New("a run of another start")
	}
	in := &p.code[t.pc]
	e := in.element
	switch {
	case in.op != opTake && in.op != opDone:
		return errors.New("a run that rests between two events")
	case t.absent&^(p.between|p.end) != 0:
		return errors.New("unknown absences")
	case in.op == opDone && (t.n != 0 || t.link != NoLink || t.can || t.absent == 0 || s.state&startFull == 0):
		return errors.New("a run that waits at the end for nothing")
	case in.op == opTake && t.n > 1:
		switch {
		case t.node.element != int16(e.index) || e.Max == 1 || e.Max >= 0 && int(t.n) > e.Max || e.Max < 0 && int(t.n) > e.Min+1:
			return errors.New("a run in a loop that it is not in")
		case t.link != e.Loop || t.absent&^e.behind != 0 || t.can && int(t.n) <= e.Min:
			return errors.New("a run that does not fit its loop")
		case e.Having == nil && e.Distinct == nil && t.can != (int(t.n) > e.Min):
			return errors.New("a run that may leave its loop, or may not")
		case (e.Having != nil || e.Distinct != nil) != (t.frame != nil && t.frame.count > 0):
			return errors.New("a run that does not count its loop")
		}
	case in.op == opTake && (t.n != 1 || t.can):
		return errors.New("a run that waits for no event of its element")
	}
	if err := m.checkFrame(t); err != nil {
		return err
	}
	if p.flat && t.n <= 1 && t.node.length > 0 {
		if err := p.checkExit(t); err != nil {
			return err
		}
	}
	if in.op == opTake {
		if t.node.length == 0 {
			return errors.New("a start without an event waits for one")
		}
		*until = min(*until, m.deadline(s, t))
		return nil
	}
	for i := range p.elements {
		e := &p.elements[i]
		if t.absent&e.bit == 0 {
			continue
		}
		if e.role != absentLater {
			return errors.New("an absence is pending that is at the start")
		}
		*until = min(*until, m.absenceEnd(s, t, e))
	}
	return nil
}

// checkExit says what is wrong with where a run has come to behind its last event.
func (p *form) checkExit(t *run) error {
	for _, x := range p.elements[t.node.element].exits {
		if x.pc == int(t.pc) && t.absent&^x.absent == 0 && t.link == x.link {
			return nil
		}
	}
	return errors.New("a run where no way leads")
}

func (m *Machine) checkFrame(t *run) error {
	p := m.form
	f := t.frame
	if f == nil {
		return nil
	}
	switch {
	case p.flat || len(f.groups) != len(p.wholes):
		return errors.New("a frame of another program")
	case f.bars == 0 && f.count == 0 && !busy(f.groups):
		return errors.New("an empty frame")
	case t.n > 1 && f.bars != 0:
		return errors.New("greedy loops are left behind inside a loop")
	case f.count < 0 || int(f.count) > int(t.node.length):
		return errors.New("a loop longer than the match")
	}
	for i, g := range f.groups {
		w := p.wholes[i]
		bound := max(w.Min+1, w.Max)
		if w.Kind == KindAllOf {
			bound = 1<<len(w.Elements) - 1
		}
		if int(g.n) > bound {
			return errors.New("a repetition that there cannot be")
		}
	}
	return nil
}

func (m *Machine) checkMemory(x *memory, k memoryKind, until *cep.Time) error {
	if k.reach != Forever {
		*until = min(*until, x.time.Add(k.reach))
	}
	e := k.element
	switch {
	case e == nil:
		if x.event.time != x.time || len(m.form.prevLayout.slots) > 0 && x.event.kept == nil {
			return errors.New("prev is not the newest event")
		}
	case e.FirstSeen != nil:
		if x.met == nil || x.met.newest == nil || x.met.newest.time != x.time {
			return errors.New("what was met does not end with the newest event")
		}
		for y := x.met.oldest; y.newer != nil; y = y.newer {
			if y.time > y.newer.time {
				return errors.New("what was met is out of order")
			}
		}
	case e.looksAround:
		if len(x.past) == 0 || x.past[len(x.past)-1].event.time != x.time || e.Edge && len(x.past) > 1 {
			return errors.New("the past does not end with its newest event")
		}
		last := cep.BeforeAll
		for _, y := range x.past {
			if y.event.time < last {
				return errors.New("the past is out of order")
			}
			last = y.event.time
		}
	}
	return nil
}

// deadlines calls add with each constant that a run has a deadline by and the time from which it counts, the window of the
// rule aside.
func (p *form) deadlines(t *run, add func(gap int, from cep.Time)) {
	e := p.code[t.pc].element
	if e == nil {
		for i := range p.elements {
			if t.absent&p.elements[i].bit != 0 {
				add(p.elements[i].forGap, t.node.time)
			}
		}
		return
	}
	if t.n > 1 {
		add(e.loopGap, t.node.time)
	} else {
		add(e.gap, t.node.time)
	}
	for _, w := range e.inside {
		if g := t.frame.group(w); w.Within > 0 && g.took {
			add(w.gap, g.first)
		}
	}
}
