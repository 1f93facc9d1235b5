package nfa

import (
	"bytes"

	"github.com/cepd/cepd/cep"
)

// node is one taken event; the history of a candidate is the chain of its nodes, so candidates share what they have in
// common. A node is immutable: matches keep theirs for as long as they like. It is 64 bytes, a size class of the
// allocator, because a start costs at least one.
//
// A node is made once for each (chain before it, element, event): the ways through a sequence never meet again, so the
// same assignment is the same node.
type node struct {
	up        *node // nil: the first event
	time      cep.Time
	seq       uint64
	partition *cep.Partition
	offset    int64
	kept      *kept   // nil: nothing is kept
	cells     *[]cell // by aggregate, shared with up where this event changes none; nil without aggregates
	length    uint32  // events in the chain
	element   int16   // noElement: an event that was seen and not taken
	step      int16   // the element's name
}

const noElement = -1

// kept is what a program keeps of an event for one name; all nodes of the event share it.
type kept struct {
	layout *layout
	values []cep.Value // by layout.slots
	raw    []byte
	value  cep.Value // what distinct counts
}

// keep copies what the layout names, because the caller uses Event.Values again. nil: there is nothing to keep.
func keep(l *layout, ev *cep.Event, raw bool, value cep.Value) *kept {
	raw = raw && ev.Raw != nil
	if len(l.slots) == 0 && !raw && value.IsMissing() {
		return nil
	}
	k := &kept{layout: l, value: value}
	if len(l.slots) > 0 {
		k.values = make([]cep.Value, len(l.slots))
		for i, slot := range l.slots {
			k.values[i] = ev.Value(slot)
		}
	}
	if raw {
		k.raw = bytes.Clone(ev.Raw)
	}
	return k
}

// seen makes the node of an event that is remembered without being taken.
func seen(ev *cep.Event, k *kept) *node {
	return &node{
		time: ev.Time, seq: ev.Seq, partition: ev.Position.Partition, offset: ev.Position.Offset,
		kept: k, length: 1, element: noElement, step: noElement,
	}
}

// The methods of [cep.Taken].

func (n *node) Time() cep.Time { return n.time }

func (n *node) Position() cep.Position {
	return cep.Position{Partition: n.partition, Offset: n.offset}
}

func (n *node) Value(slot int) cep.Value {
	if n.kept == nil || slot >= len(n.kept.layout.index) {
		return cep.Value{}
	}
	if i := n.kept.layout.index[slot]; i >= 0 {
		return n.kept.values[i]
	}
	return cep.Value{}
}

func (n *node) Raw() []byte {
	if n.kept == nil {
		return nil
	}
	return n.kept.raw
}

func (n *node) Step() int { return int(n.step) }

// root is the first event of the chain.
func (n *node) root() *node {
	for n.up != nil {
		n = n.up
	}
	return n
}

// history is a chain as conditions and alerts see it. It is laid out as a list when something first asks for it, so that
// going through a loop of n events costs O(n).
type history struct {
	form   *form
	node   *node // nil: nothing was taken
	listed bool
	// In the `having` of a loop that may be gone through again its name means one pass: the last events of that step.
	// pass 0: any other place.
	passStep, pass int
	all            []*node // in time order
	byStep         []*node // the same by step, then time
	offsets        []int   // by step: where its events begin in byStep; one more for the end
}

// reset makes h the history of another chain and keeps its memory.
func (h *history) reset(n *node) {
	h.node, h.listed, h.pass = n, false, 0
}

// list lays the chain out. The sort by step is a counting sort.
func (h *history) list() {
	if h.listed {
		return
	}
	h.listed = true
	steps := len(h.form.pattern.Names)
	if cap(h.offsets) < steps+1 {
		h.offsets = make([]int, steps+1)
	}
	h.offsets = h.offsets[:steps+1] // it may have been that of another program
	clear(h.offsets)
	total := h.Total()
	h.all, h.byStep = grown(h.all, total), grown(h.byStep, total)
	for i, n := total-1, h.node; i >= 0; i, n = i-1, n.up {
		h.all[i] = n
		h.offsets[n.step+1]++
	}
	for i := 1; i <= steps; i++ {
		h.offsets[i] += h.offsets[i-1]
	}
	// Filling from the back leaves each offset one step behind its end, which is where the next one begins.
	for i := total - 1; i >= 0; i-- {
		step := h.all[i].step
		h.offsets[step+1]--
		h.byStep[h.offsets[step+1]] = h.all[i]
	}
	copy(h.offsets, h.offsets[1:])
	h.offsets[steps] = total
}

func grown(s []*node, n int) []*node {
	if cap(s) < n {
		return make([]*node, n, 2*n)
	}
	return s[:n]
}

// The methods of [cep.History].

func (h *history) Total() int {
	if h.node == nil {
		return 0
	}
	return int(h.node.length)
}

func (h *history) Len(step int) int { return len(h.step(step)) }

func (h *history) At(step, i int) cep.Taken { return h.step(step)[i] }

// step are the events of a step, in a `having` those of this pass.
func (h *history) step(step int) []*node {
	h.list()
	nodes := h.byStep[h.offsets[step]:h.offsets[step+1]]
	if h.pass > 0 && step == h.passStep {
		nodes = nodes[len(nodes)-h.pass:]
	}
	return nodes
}

func (h *history) Nth(i int) cep.Taken {
	if !h.listed { // the ends do without a list: `duration` asks for them at each event of a loop
		switch i {
		case h.Total() - 1:
			return h.node
		case 0:
			return h.node.root()
		}
	}
	h.list()
	return h.all[i]
}

func (h *history) Aggregate(i int) (cep.Value, error) {
	a := h.form.pattern.Aggregates[i]
	if h.node == nil || h.node.cells == nil {
		return emptyAggregate(a.Kind), nil
	}
	c := h.cell(i)
	return c.result(a.Kind)
}

func (h *history) AggregateEvent(i int) cep.Taken {
	if h.node == nil || h.node.cells == nil {
		return nil
	}
	if n := h.cell(i).event; n != nil {
		return n
	}
	return nil
}

// cell is an aggregate over the chain. That over one pass of a loop which may have been gone through before is added up anew,
// because the cells go back further.
func (h *history) cell(i int) cell {
	a := h.form.pattern.Aggregates[i]
	if h.pass == 0 || a.Step != h.passStep {
		return (*h.node.cells)[i]
	}
	var c cell
	for _, n := range h.step(a.Step) {
		c.take(a, n)
	}
	return c
}
