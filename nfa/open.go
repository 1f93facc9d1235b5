package nfa

import (
	"container/heap"
	"math/bits"
	"slices"

	"github.com/cepd/cepd/cep"
)

// OpenStart is an open start as it is at this moment, for people who ask what a rule waits for.
type OpenStart struct {
	// Time and Seq are those of its first event; Seq is 0 where it began without one (S4.4).
	Time cep.Time
	Seq  uint64
	// Parked says that it is not followed while an older start of its key is open: what it would have come to is found out when
	// that one ends. Runs has its first event only then, and no names.
	Parked bool
	// Until is when it is over if nothing more comes, [cep.AfterAll] where it then stays open.
	Until cep.Time
	// Runs are the first ways in which it may go on, More is the number of others.
	Runs []OpenRun
	More int
}

// OpenRun is one way in which an open start may go on.
type OpenRun struct {
	// Taken has what it has taken, by name in written order, those left out that took nothing.
	Taken []OpenTaken
	// Waits are the names that it waits for: a step that has to take an event, or, with Absence, what must not come until Until.
	// None: it is complete, and only goes out if nothing that is preferred to it completes.
	Waits   []int
	Absence bool
	// Until is when the wait is over, [cep.AfterAll]: never.
	Until cep.Time
}

// OpenTaken is what a name has taken.
type OpenTaken struct {
	Name, Count int
	// Newest are the positions of its newest events, oldest first.
	Newest []cep.Position
}

// OpenLimits bound what is told of one start.
type OpenLimits struct {
	// Runs is the number of ways, Positions that of positions of each name.
	Runs, Positions int
}

// OpenKeys returns the next keys behind one, in order, that have an open start, at most max of them; first says that the first
// one is wanted, whatever after is. It costs a look at every key.
func (m *Machine) OpenKeys(after string, first bool, max int) []string {
	var most lastKeys
	offer := func(key string) {
		switch {
		case !first && key <= after:
		case len(most) < max:
			heap.Push(&most, key)
		case max > 0 && key < most[0]:
			most[0] = key
			heap.Fix(&most, 0)
		}
	}
	if m.rows != nil {
		for _, k := range m.rows.keys {
			if k.begun {
				offer(k.key)
			}
		}
	} else {
		for r := range m.keys.all() {
			if r.oldest != nil {
				offer(r.key)
			}
		}
	}
	keys := make([]string, len(most))
	for i := len(keys) - 1; i >= 0; i-- {
		keys[i], _ = heap.Pop(&most).(string)
	}
	return keys
}

// lastKeys are keys with the last of them on top.
type lastKeys []string

func (l lastKeys) Len() int           { return len(l) }
func (l lastKeys) Less(i, j int) bool { return l[i] > l[j] }
func (l lastKeys) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *lastKeys) Push(x any)        { *l = append(*l, x.(string)) }
func (l *lastKeys) Pop() any {
	n := len(*l) - 1
	x := (*l)[n]
	*l = (*l)[:n]
	return x
}

// Open calls yield for the open starts of a key, in the order of their first events, until it returns false. The events that
// limits bound are counted all the same: it costs what the starts have taken.
func (m *Machine) Open(key string, limits OpenLimits, yield func(OpenStart) bool) {
	if m.rows != nil {
		if k := m.rows.keys[key]; k != nil && k.begun {
			yield(m.rows.openStart(k, limits))
		}
		return
	}
	r := m.keys.find([]byte(key), hashText(key))
	if r == nil {
		return
	}
	for s := r.oldest; s != nil; s = s.next {
		if s.open() && !yield(m.openStart(s, limits)) {
			return
		}
	}
}

func (m *Machine) openStart(s *start, limits OpenLimits) OpenStart {
	o := OpenStart{Time: s.first.time, Seq: s.first.seq, Parked: s.state&startParked != 0, Until: cep.BeforeAll}
	if o.Parked {
		o.Until = cep.AfterAll
		if w := m.form.pattern.Within; w > 0 {
			o.Until = s.first.time.Add(w)
		}
		o.Runs = []OpenRun{{Taken: m.taken(s.first, limits.Positions), Until: o.Until}}
		return o
	}
	runs := s.runs()
	for i := range runs {
		t := &runs[i]
		until := m.runUntil(s, t)
		o.Until = max(o.Until, until)
		if i >= limits.Runs {
			o.More++
			continue
		}
		x := OpenRun{Taken: m.taken(t.node, limits.Positions), Until: until}
		if in := &m.form.code[t.pc]; in.op == opTake {
			x.Waits = []int{in.element.Name}
		} else {
			x.Absence = true
			for a := t.absent; a != 0; a &= a - 1 {
				x.Waits = append(x.Waits, m.form.elements[bits.TrailingZeros64(a)].Name)
			}
		}
		o.Runs = append(o.Runs, x)
	}
	if len(runs) == 0 { // only matches that wait for an older start hold it
		o.Until = cep.AfterAll
	}
	return o
}

// runUntil is when a run stops waiting: a window ends, or the last of the absences has held.
func (m *Machine) runUntil(s *start, t *run) cep.Time {
	if m.form.code[t.pc].op == opTake {
		return m.deadline(s, t)
	}
	until := cep.BeforeAll
	for a := t.absent; a != 0; a &= a - 1 {
		until = max(until, m.absenceEnd(s, t, &m.form.elements[bits.TrailingZeros64(a)]))
	}
	return until
}

// taken sums up a chain by name.
func (m *Machine) taken(n *node, positions int) []OpenTaken {
	counts := make([]OpenTaken, len(m.form.pattern.Names))
	for ; n != nil; n = n.up {
		if n.step == noElement {
			continue // it began without an event
		}
		x := &counts[n.step]
		if x.Count++; x.Count <= positions {
			x.Newest = append(x.Newest, n.Position())
		}
	}
	list := counts[:0]
	for name := range counts {
		if x := counts[name]; x.Count > 0 {
			x.Name = name
			slices.Reverse(x.Newest)
			list = append(list, x)
		}
	}
	return list
}

func (r *rowMachine) openStart(k *rowKey, limits OpenLimits) OpenStart {
	first := k.events[0].node
	o := OpenStart{Time: first.time, Seq: first.seq, Until: k.due}
	for i, w := range k.ways {
		if i >= limits.Runs {
			o.More = len(k.ways) - i
			break
		}
		x := OpenRun{Taken: r.m.taken(w.node, limits.Positions), Until: k.due}
		if in := &r.p.code[w.pc]; in.op == rowTake {
			x.Waits = []int{in.name}
		}
		o.Runs = append(o.Runs, x)
	}
	return o
}
