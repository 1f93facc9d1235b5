package nfa

import "slices"

// Where a start lets out one match at most (after_match past_last or to_next), two of its runs that go on in the same way
// complete together, and then the one whose history S5.3 prefers goes out and the other never does. So the other can be
// dropped as soon as both stand in the same place: a loop without an upper bound before another step holds one run that
// waits for that step instead of one for each length.
//
// They go on in the same way if they wait for the first event of the same element with the same absences pending, and
// nothing from there on depends on the history:
//
//  1. The conditions of the element and of all behind it read the event alone.
//  2. What is measured from the last event taken is the same: where the element has a window or is strict, or a strict
//     absence is pending, both have taken the same last event.
//  3. The limit of events a match may have cannot end the preferred one alone. Either there is no limit, or the number of
//     events still to come is fixed, or everything behind is relaxed and without windows and absences. In the last case
//     the preferred one, which can complete with the fewest events there are (else it would not be there), does so no
//     later than any longer one of the other; and with names in written order it wins by what it has taken already, or
//     both have taken equally many.
//
// Timeouts choose the longest history first, so with these the preferred run must not be the shorter one.

// prunable says whether rule 1 and 3 hold for runs that wait for the first event of the take at pc.
func (p *form) prunable(pc int) bool {
	if !p.linear() || p.pattern.After != SkipPastLast && p.pattern.After != SkipToNext || p.pattern.Newest || p.without != 0 {
		return false
	}
	fixed, relaxed := true, true
	at := p.code[pc].element.index
	for i := at; i < len(p.elements); i++ {
		e := &p.elements[i]
		if e.looksAround || e.Distinct != nil {
			return false
		}
		fixed = fixed && (e.Absent || e.Min == e.Max && (!e.Optional || i == at))
		relaxed = relaxed && !e.Absent && e.Link == Relaxed && e.Loop == Relaxed && e.Within == 0 && e.LoopWithin == 0
	}
	return fixed || relaxed || p.pattern.Limits.EventsPerMatch <= 0
}

// dominate drops the runs of a start that others of it dominate.
func (m *Machine) dominate(s *start) {
	if s.many == nil {
		return
	}
	runs := s.runs()
	w := 0
	for i := range runs {
		t := runs[i]
		other := -1
		if t.n == 1 && m.form.prunes[t.pc] {
			other = slices.IndexFunc(runs[:w], func(o run) bool { return m.form.alike(&o, &t) })
		}
		switch {
		case other < 0:
			runs[w] = t
			w++
		case m.prefers(t.node, runs[other].node):
			runs[other] = t
		case m.prefers(runs[other].node, t.node):
		default:
			runs[w] = t
			w++
		}
	}
	if w < len(runs) {
		s.setRuns(w, nil)
	}
}

// alike says whether two runs of a start that wait at prunable takes go on in the same way.
func (p *form) alike(a, b *run) bool {
	if a.n != 1 || a.pc != b.pc || a.absent != b.absent {
		return false
	}
	e := p.code[a.pc].element
	return a.node.seq == b.node.seq || e.Within == 0 && a.link != Strict && a.absent&p.strict == 0
}

// prefers says whether a goes before b in a match and in a timeout.
func (m *Machine) prefers(a, b *node) bool {
	return m.compareNodes(a, b) < 0 && (!m.form.pattern.Timeouts || a.length >= b.length)
}
