package nfa

import (
	"math/bits"

	"github.com/cepd/cepd/cep"
)

// memory returns what the key remembers of a kind, nil: nothing.
func (r *Runs) memory(kind int) *memory {
	if r.rare == nil || r.rare.memories == nil {
		return nil
	}
	return r.rare.memories[kind]
}

// setPrev puts the event before into the scope, if it is within reach (S1.5). It is the memory of kind 0.
func (m *Machine) setPrev() {
	if x := m.runs.memory(0); x != nil && m.event.Time.Sub(x.time) <= m.program.memories[0].reach {
		m.scope.Prev = x.event
	}
}

// silent says whether the absences of a set hold at the start of the present event, which e is about to take (S4.3).
func (m *Machine) silent(set uint64, e *element) bool {
	for s := set; s != 0; s &= s - 1 {
		a := &m.program.elements[bits.TrailingZeros64(s)]
		if !a.FromStart && m.firstTime != cep.BeforeAll && m.event.Time < m.firstTime.Add(a.For) {
			return false
		}
		x := m.runs.memory(a.memory)
		if x == nil {
			continue
		}
		within := func(t cep.Time) bool { return a.For == Forever || m.event.Time.Sub(t) <= a.For }
		broken := within(x.time)
		if broken && a.looksAhead() {
			broken = m.brokenBefore(a, x, e, within)
		}
		if broken {
			m.counters.Taken[a.Name]++
			return false
		}
	}
	return true
}

// looksAhead says whether the condition of an absence at the start may read more than its own event.
func (e *element) looksAhead() bool { return e.Where != nil && !e.Where.Unary }

// brokenBefore asks the condition of an absence at the start about all events that it looks back at, with the present event
// as what e took.
func (m *Machine) brokenBefore(a *element, x *memory, e *element, within func(cep.Time) bool) bool {
	scope := m.scope
	defer func() { m.scope = scope }()
	m.view.reset(m.node(nil, e))
	m.scope.History = &m.view
	m.scope.Event = &m.looked
	for i := len(x.past) - 1; i >= 0 && within(x.past[i].event.time); i-- {
		p := x.past[i]
		m.looked = cep.Event{
			Time: p.event.time, Seq: p.event.seq, Position: p.event.Position(), Values: m.looked.Values[:0],
		}
		for slot := range len(a.seen.index) {
			m.looked.Values = append(m.looked.Values, p.event.Value(slot))
		}
		m.scope.Prev = nil
		if p.prev != nil {
			m.scope.Prev = p.prev
		}
		if m.test(a.Where) {
			return true
		}
	}
	return false
}

// remember records the present event for the events to come.
func (m *Machine) remember() {
	for kind := len(m.program.memories) - 1; kind >= 0; kind-- { // prev last: the others want the event before
		k := &m.program.memories[kind]
		if k.element != nil && m.heard&k.element.bit == 0 {
			continue
		}
		x := m.recall(kind)
		x.time = m.event.Time
		switch {
		case k.element == nil:
			x.event = m.replacePrev(x.event)
		case k.element.looksAhead():
			p := pastEvent{event: seen(m.event, keep(&k.element.seen, m.event, false))}
			if m.scope.Prev != nil {
				p.prev, _ = m.scope.Prev.(*node)
			}
			x.past = append(x.past, p)
			if k.reach != Forever {
				old := 0
				for m.event.Time.Sub(x.past[old].event.time) > k.reach {
					old++
				}
				clear(x.past[:old])
				x.past = x.past[old:]
			}
		}
	}
}

// replacePrev makes the present event the one before. It is written over the old one, which costs no allocation, unless
// the past of an absence may still refer to that.
func (m *Machine) replacePrev(old *node) *node {
	l := &m.program.prevLayout
	if old == nil || m.program.looksAhead {
		return seen(m.event, keep(l, m.event, false))
	}
	k := old.kept
	*old = *seen(m.event, k)
	for i, slot := range l.slots {
		k.values[i] = m.event.Value(slot)
	}
	return old
}

// recall finds or makes a memory of the present key and makes it the newest of its kind.
func (m *Machine) recall(kind int) *memory {
	x := m.runs.memory(kind)
	if x != nil {
		m.memories[kind].remove(x)
	} else {
		r := m.runs.extra()
		if r.memories == nil {
			r.memories = make([]*memory, len(m.program.memories))
		}
		x = &memory{owner: m.runs, kind: kind}
		r.memories[kind] = x
	}
	m.memories[kind].push(x)
	return x
}

// age forgets what no event above w can ask for (S9).
func (m *Machine) age(w cep.Time) {
	for kind := range m.memories {
		l, reach := &m.memories[kind], m.program.memories[kind].reach
		if reach == Forever {
			continue
		}
		for x := l.oldest; x != nil && x.time.Add(reach) <= w; x = l.oldest {
			l.remove(x)
			x.owner.rare.memories[kind] = nil
			m.runs = x.owner
			m.leave(false)
		}
	}
}
