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
	if x := m.runs.memory(0); x != nil && m.event.Time.Sub(x.time) <= m.form.memories[0].reach {
		m.scope.Prev = x.event
	}
}

// silent says whether the absences of a set hold at the start of the present event, which e is about to take (S4.3).
func (m *Machine) silent(set uint64, e *element) bool {
	for s := set; s != 0; s &= s - 1 {
		a := &m.form.elements[bits.TrailingZeros64(s)]
		if !a.FromStart && m.firstTime != cep.BeforeAll && m.event.Time < m.firstTime.Add(a.For) {
			return false
		}
		x := m.runs.memory(a.memory)
		if x == nil {
			continue
		}
		within := func(t cep.Time) bool { return a.For == Forever || m.event.Time.Sub(t) <= a.For }
		broken := within(x.time)
		if broken && a.looksAround {
			broken = false
			n := m.node(nil, e) // its condition sees the event to come
			for i := len(x.past) - 1; i >= 0 && !broken && within(x.past[i].event.time); i-- {
				broken = m.heldFor(a, x.past[i], n)
			}
		}
		if broken {
			m.counters.Taken[a.Name]++
			return false
		}
	}
	return true
}

// heldFor asks the condition of an element about an event that is past, for the history of n.
func (m *Machine) heldFor(e *element, past pastEvent, n *node) bool {
	scope := m.scope
	m.view.reset(n)
	m.scope.History = &m.view
	m.scope.Event = &m.looked
	m.looked = cep.Event{
		Time: past.event.time, Seq: past.event.seq, Position: past.event.Position(), Values: m.looked.Values[:0],
	}
	for slot := range len(e.seen.index) {
		m.looked.Values = append(m.looked.Values, past.event.Value(slot))
	}
	m.scope.Prev = nil
	if past.prev != nil {
		m.scope.Prev = past.prev
	}
	holds := m.test(m.program.conditions[e.index])
	m.scope = scope
	return holds
}

// hearConstant is hear for the steps that must be told of every event: those with first_seen or an edge.
func (m *Machine) hearConstant(mask uint64) {
	m.admits, m.met = 0, 0
	for s := m.form.constant; s != 0; s &= s - 1 {
		e := &m.form.elements[bits.TrailingZeros64(s)]
		if !e.admits(mask) {
			continue
		}
		m.admits |= e.bit
		if m.unary(e) && (e.FirstSeen == nil || m.firstSeen(e)) && (!e.Edge || e.looksAround || !m.wasHeld(e, nil)) &&
			(e.Distinct == nil || m.counts(e)) {
			m.heard |= e.bit
		}
	}
}

// firstSeen says whether no event like the present one came before (S3.7), and notes that this one did.
func (m *Machine) firstSeen(e *element) bool {
	if e.looksAround { // at prev or the key: no candidate matters
		m.view.reset(nil)
		m.scope.History = &m.view
		if !m.test(m.program.conditions[e.index]) {
			return false
		}
	}
	var b []byte
	for _, x := range e.FirstSeen.By {
		v := m.value(x)
		if v.IsMissing() {
			return false
		}
		b = appendEqual(b, v)
	}
	m.met |= e.bit
	m.tuples[e.index] = string(b)
	f := e.FirstSeen
	if !f.FromStart && m.firstTime != cep.BeforeAll && m.event.Time < m.firstTime.Add(f.For) {
		return false
	}
	if x := m.runs.memory(e.memory); x != nil {
		if last, ok := x.met.last(string(b)); ok && (f.For == Forever || m.event.Time.Sub(last) <= f.For) {
			return false
		}
	}
	return true
}

// wasHeld says whether the condition of an edge held for the event before (S2.5), for a candidate that has taken the chain
// of n.
func (m *Machine) wasHeld(e *element, n *node) bool {
	x := m.runs.memory(e.memory)
	switch {
	case x == nil || m.event.Time.Sub(x.time) > m.form.memories[e.memory].reach:
		return false
	case e.looksAround:
		return m.heldFor(e, x.past[0], n)
	}
	return x.held
}

// remember records the present event for the events to come.
func (m *Machine) remember() {
	for kind := len(m.form.memories) - 1; kind >= 0; kind-- { // prev last: the others want the event before
		k := &m.form.memories[kind]
		e := k.element
		var concerns bool
		switch {
		case e == nil:
			concerns = true
		case e.FirstSeen != nil:
			concerns = m.met&e.bit != 0
		case e.Edge:
			concerns = m.admits&e.bit != 0
		default:
			concerns = m.heard&e.bit != 0
		}
		if !concerns {
			continue
		}
		x := m.recall(kind)
		x.time = m.event.Time
		switch {
		case e == nil:
			x.event = m.replacePrev(x.event)
		case e.FirstSeen != nil:
			if x.met == nil {
				x.met = newMet()
			}
			x.met.note(m.tuples[e.index], m.event.Time)
			if k.reach != Forever {
				x.met.forget(m.event.Time.Add(-k.reach))
			}
		case e.Edge && !e.looksAround:
			x.held = !e.asks || m.truth&e.bit != 0
		case e.looksAround:
			p := pastEvent{event: seen(m.event, keep(&e.seen, m.event, false, cep.Value{}))}
			if m.scope.Prev != nil {
				p.prev, _ = m.scope.Prev.(*node)
			}
			if e.Edge {
				x.past = append(x.past[:0], p)
				continue
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
	l := &m.form.prevLayout
	if old == nil || m.form.looksBack {
		return seen(m.event, keep(l, m.event, false, cep.Value{}))
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
			r.memories = make([]*memory, len(m.form.memories))
		}
		x = &memory{owner: m.runs, kind: kind}
		r.memories[kind] = x
	}
	m.memories[kind].push(x)
	return x
}

// age forgets what no event above w can ask for (S9).
func (m *Machine) age(w cep.Time) {
	for kind := range m.form.memories {
		l, reach := &m.memories[kind], m.form.memories[kind].reach
		if reach == Forever {
			continue
		}
		for x := l.oldest; x != nil && x.time.Add(reach) <= w; x = l.oldest {
			l.remove(x)
			x.owner.rare.memories[kind] = nil
			m.enter(m)
			m.runs = x.owner
			m.leave(false)
			m.exit()
		}
	}
}
