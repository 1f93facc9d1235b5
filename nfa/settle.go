package nfa

import (
	"cmp"
	"slices"

	"github.com/cepd/cepd/cep"
)

// settle ends a moment of a key: everything that happened in it has happened, and matches are let out (S5.3 to S5.5) after
// the timeouts (S5.7).
func (m *Machine) settle(at cep.Moment) {
	if m.closing == 0 && len(m.done) == 0 {
		m.expired = m.expired[:0] // of starts that go on another way: only what expires last counts
		return
	}
	for i := range m.done {
		m.done[i].start.state |= startCompleted
	}
	if m.form.repeats {
		m.finish()
	}
	m.sweep(at)
	if len(m.done) > 1 {
		slices.SortFunc(m.done, m.compare)
		if m.form.repeats {
			m.done = slices.CompactFunc(m.done, func(a, b completion) bool { return a.node == b.node })
		}
	}
	if m.form.pattern.Ordered {
		m.hold()
		m.release(at)
	} else {
		m.choose(at)
	}
	m.sweep(at)
	m.runs.forget()
	clear(m.done)
	clear(m.expired)
	m.done, m.expired = m.done[:0], m.expired[:0]
	if m.form.led && m.form.atOnce {
		for s := m.runs.oldest; s != nil && s.state&startParked != 0; s = m.runs.oldest {
			m.lead(s)
			m.sweep(at)
		}
	}
	for _, s := range m.ended {
		m.freeStart(s)
	}
	clear(m.ended)
	m.ended = m.ended[:0]
}

// finish ends what still waits at the end with an assignment that has completed: it counts once, at its earliest moment, and
// holds nothing open from then on (S2). An assignment is that of one start.
func (m *Machine) finish() {
	for i := range m.done {
		m.ready[m.done[i].node] = struct{}{}
	}
	for i := range m.done {
		s := m.done[i].start
		if i > 0 && s == m.done[i-1].start {
			continue
		}
		runs := s.runs()
		w := 0
		for i := range runs {
			if m.form.code[runs[i].pc].op == opDone {
				if _, is := m.ready[runs[i].node]; is {
					continue
				}
			}
			runs[w] = runs[i]
			w++
		}
		if w < len(runs) {
			s.setRuns(w, nil)
			if w == 0 {
				m.closing++
			}
		}
	}
	m.ready = cleared(m.ready)
}

// choose lets out what after_match leaves of the candidates of the moment, in their order (emit: eager).
func (m *Machine) choose(at cep.Moment) {
	var gone uint64 // starts up to this Seq were pruned
	for _, c := range m.done {
		if gone > 0 && c.first <= gone || c.start.state&startPruned != 0 {
			continue
		}
		m.emit(c, at)
		if m.form.pattern.After == SkipToNext {
			c.start.state |= startPruned
			m.closing++
			continue
		}
		gone = max(gone, m.prune(c))
	}
}

// hold puts the candidates of the moment among the matches that wait (emit: ordered): by first event, moment, S5.3.
func (m *Machine) hold() {
	if len(m.done) == 0 {
		return
	}
	x := m.runs.extra()
	for i := range m.done {
		m.done[i].start = nil
	}
	// Both are in order, and most candidates of a moment belong at the end: they are merged from behind.
	i, j := len(x.held)-1, len(m.done)-1
	x.held = append(x.held, m.done...)
	for k := len(x.held) - 1; j >= 0; k-- {
		if i >= 0 && m.compare(x.held[i], m.done[j]) > 0 {
			x.held[k] = x.held[i]
			i--
		} else {
			x.held[k] = m.done[j]
			j--
		}
	}
}

// release lets out the held matches that no earlier start holds back.
func (m *Machine) release(at cep.Moment) {
	x := m.runs.rare
	if x == nil {
		return
	}
	rest := x.held
	for len(rest) > 0 {
		c := rest[0]
		s := m.runs.oldest
		for s != nil && s.state&startPruned != 0 {
			s = s.next
		}
		if s != nil && s.first.seq < c.first {
			break
		}
		rest = rest[1:]
		m.emit(c, at)
		gone := m.prune(c)
		if m.form.pattern.After == SkipToNext {
			gone = m.pruneTo(c.first)
		}
		for len(rest) > 0 && rest[0].first <= gone {
			rest = rest[1:]
		}
	}
	x.held = slices.Delete(x.held, 0, len(x.held)-len(rest))
	if len(x.held) == 0 {
		x.held = nil
	}
}

func (m *Machine) emit(c completion, at cep.Moment) {
	m.counters.Matched++
	m.let(cep.Match{
		Kind: cep.MatchComplete, Key: cep.Key(m.runs.key), Moment: at, Completed: c.at,
		History: &history{form: m.form, node: c.node},
	})
}

// prune applies past_last, to_first and to_last after a match: starts up to the Seq that it returns are gone.
func (m *Machine) prune(c completion) uint64 {
	p := &m.form.pattern
	switch p.After {
	case SkipPastLast:
		return m.pruneTo(c.node.seq)
	case SkipToFirst, SkipToLast:
		var target *node
		for n := c.node; n != nil; n = n.up {
			if int(n.step) == p.Target {
				if target = n; p.After == SkipToLast {
					break
				}
			}
		}
		if target != nil {
			return m.pruneTo(target.seq - 1) // starts before it
		}
	case SkipNone, SkipToNext:
	}
	return 0
}

func (m *Machine) pruneTo(seq uint64) uint64 {
	for s := m.runs.oldest; s != nil && s.first.seq <= seq; s = s.next {
		s.state |= startPruned
		m.closing++
	}
	return seq
}

// sweep unlinks the starts that are no longer open and lets their timeouts out. It looks no further than the last of them:
// mostly they are the oldest.
func (m *Machine) sweep(at cep.Moment) {
	r := m.runs
	var last *start
	for s := r.oldest; s != nil && m.closing > 0; {
		if s.state&(startParked|startPruned) == startParked {
			break // and so are all behind it: they end from the front only
		}
		next := s.next
		if s.waits() && s.state&startPruned == 0 {
			last, s = s, next
			continue
		}
		if last == nil {
			r.oldest = next
		} else {
			last.next = next
		}
		if next == nil {
			r.tail = last
		}
		m.closing--
		m.end(s, at)
		s = next
	}
	m.closing = 0
	if r.oldest == nil {
		r.hears = 0
	}
}

func (m *Machine) end(s *start, at cep.Moment) {
	reason := EndKilled
	switch {
	case s.state&startCompleted != 0:
		reason = EndCompleted
	case s.state&startPruned != 0:
		reason = EndPruned
	case at.Timed():
		reason = EndExpired
	}
	m.counters.Ended[reason]++
	if s.state&(startFull|startPruned) == 0 && len(m.expired) > 0 {
		m.timeout(s, at)
	}
	m.runs.count--
	m.open--
	s.owner = nil
	if m.open == 0 {
		m.forgetDeadlines()
	}
	m.ended = append(m.ended, s)
}

// timeout lets out the largest assignment of those that waited when the last window of a start ended.
func (m *Machine) timeout(s *start, at cep.Moment) {
	var best *node
	for _, x := range m.expired {
		if x.start != s {
			continue
		}
		if best == nil || x.node.length > best.length || x.node.length == best.length && m.compareNodes(x.node, best) < 0 {
			best = x.node
		}
	}
	if best == nil {
		return
	}
	m.counters.Timeouts++
	m.let(cep.Match{
		Kind: cep.MatchTimeout, Key: cep.Key(m.runs.key), Moment: at, Completed: at,
		History: &history{form: m.form, node: best},
	})
}

// compare is the order of S5.3, and with `emit: ordered` that of S5.5: within one moment they are the same.
func (m *Machine) compare(a, b completion) int {
	if c := cmp.Compare(a.first, b.first); c != 0 {
		return c
	}
	if c := a.at.Compare(b.at); c != 0 {
		return c
	}
	return m.compareNodes(a.node, b.node)
}

// compareNodes orders two assignments with the same first event: name by name the one that took more events, then by the
// earlier events, then by what is written first. What both have in common from some node on backwards is not looked at.
func (m *Machine) compareNodes(a, b *node) int {
	if a == b {
		return 0
	}
	tally := m.tally[:len(m.form.layouts)]
	clear(tally)
	for x, y := a, b; x != y; {
		if y == nil || x != nil && x.length >= y.length {
			tally[x.step]++
			x = x.up
		} else {
			tally[y.step]--
			y = y.up
		}
	}
	for _, n := range tally {
		if n != 0 {
			return -cmp.Compare(n, 0)
		}
	}
	// Both have taken equally many events. The earliest difference is the one met last on the way back.
	events, elements := 0, 0
	for ; a != b; a, b = a.up, b.up {
		if c := cmp.Compare(a.seq, b.seq); c != 0 {
			events = c
		}
		if c := cmp.Compare(a.element, b.element); c != 0 {
			elements = c
		}
	}
	return cmp.Or(events, elements)
}
