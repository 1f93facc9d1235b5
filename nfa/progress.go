package nfa

import "cmp"

// Progress says how far a run came.
type Progress struct {
	// Name is what the run waits for: a step, or an absence at the end that has to hold.
	Name int
	// Taken is how many events it has taken for that name, which is then a loop; Total is all that it has taken.
	Taken, Total int
}

// TrackFurthest makes the machine remember the run that came furthest. It is for tests of rules, which want to say what was
// missing; it costs a little for each run and is no part of snapshots.
func (m *Machine) TrackFurthest() { m.furthest = &furthest{} }

// Furthest returns how far the run came that came furthest: that waits for the last element, of those the one that took
// most events for it, then the earliest. With composites that is the one that took most events, then as before. ok is false if
// there was no run, or nobody tracks.
func (m *Machine) Furthest() (_ Progress, ok bool) {
	if m.furthest == nil || m.furthest.run.node == nil {
		return Progress{}, false
	}
	t := m.furthest.run
	p := Progress{Name: -1, Total: int(t.node.length)}
	if e := m.form.code[t.pc].element; e != nil {
		p.Name, p.Taken = e.Name, m.furthest.taken
		return p, true
	}
	for i := range m.form.elements {
		if e := &m.form.elements[i]; t.absent&e.bit != 0 {
			p.Name = e.Name
			break
		}
	}
	return p, true
}

type furthest struct {
	run   run
	taken int
}

// consider compares a new run with the furthest. What a run has taken for its loop is counted only where that decides: each
// event may make a run of every open start, and each of these has taken as many events as there are.
func (f *furthest) consider(p *form, t *run) {
	c := 1
	if f.run.node != nil {
		c = cmp.Compare(t.pc, f.run.pc)
		if !p.flat { // a repetition goes back in the program
			c = cmp.Or(cmp.Compare(t.node.length, f.run.node.length), c)
		}
	}
	if c < 0 || c == 0 && int(t.node.length) <= f.taken { // for its loop it has taken no more than in all
		return
	}
	taken := 0
	if e := p.code[t.pc].element; e != nil && t.n > 1 {
		for n := t.node; n != nil && n.element == int16(e.index); n = n.up {
			taken++
		}
	}
	if c > 0 || taken > f.taken {
		f.run, f.taken = *t, taken
	}
}
