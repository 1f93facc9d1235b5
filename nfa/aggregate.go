package nfa

import (
	"math"

	"github.com/cepd/cepd/cep"
)

// cell is one aggregate over a chain. Which fields count depends on its kind.
type cell struct {
	value  cep.Value // Count, Sum, Min, Max, and for Distinct the number of values; missing: nothing yet
	event  *node     // First, Last
	values *set      // Distinct
	failed bool      // the aggregate has no value any more
}

// emptyAggregate is the value over no events.
func emptyAggregate(k cep.AggregateKind) cep.Value {
	switch k {
	case cep.AggregateCount, cep.AggregateSum, cep.AggregateDistinct:
		return cep.Int(0)
	default:
		return cep.Value{}
	}
}

func (c *cell) result(k cep.AggregateKind) (cep.Value, error) {
	switch {
	case c.failed:
		return cep.Value{}, cep.ErrAggregate
	case c.value.IsMissing():
		return emptyAggregate(k), nil
	}
	return c.value, nil
}

// aggregate gives n its cells: those of the chain before it with n's event added. A chain whose steps have no aggregates
// yet has none. The event of a First or Last is n itself.
func (p *form) aggregate(n *node) {
	if n.up != nil {
		n.cells = n.up.cells
	}
	if p.aggregated>>uint(n.step)&1 == 0 {
		return
	}
	cells := make([]cell, len(p.pattern.Aggregates))
	if n.cells != nil {
		copy(cells, *n.cells)
	}
	for i, a := range p.pattern.Aggregates {
		if a.Step == int(n.step) {
			cells[i].take(a, n)
		}
	}
	n.cells = &cells
}

func (c *cell) take(a cep.Aggregate, n *node) {
	var x cep.Value
	if a.Slot >= 0 {
		x = n.Value(a.Slot)
	}
	c.add(a.Kind, x, n)
}

// add takes one more event into c. Only values that the cell holds already are looked at: O(1), but O(log n) for the set
// of Distinct.
func (c *cell) add(k cep.AggregateKind, x cep.Value, n *node) {
	switch k {
	case cep.AggregateCount:
		c.value = cep.Int(c.value.AsInt() + 1)
		return
	case cep.AggregateFirst:
		if c.event == nil {
			c.event = n
		}
		return
	case cep.AggregateLast:
		c.event = n
		return
	default:
	}
	if x.IsMissing() || c.failed {
		return
	}
	switch k {
	case cep.AggregateDistinct:
		var fresh bool
		if c.values, fresh = c.values.with(x); fresh {
			c.value = cep.Int(c.value.AsInt() + 1)
		}
	case cep.AggregateSum:
		if !x.IsNumber() {
			c.failed = true
			return
		}
		c.value, c.failed = sum(c.value, x)
	case cep.AggregateMin, cep.AggregateMax:
		if !x.IsNumber() || math.IsNaN(x.AsFloat()) { // a NaN has no place in an order
			c.failed = true
			return
		}
		if c.value.IsMissing() {
			c.value = x
			return
		}
		if o, _ := cep.Compare(x, c.value); o < 0 && k == cep.AggregateMin || o > 0 && k == cep.AggregateMax {
			c.value = x
		}
	default:
	}
}

// sum adds x to a sum, which is missing at first; it stays an int as long as only ints were added. failed: it left int64.
func sum(s, x cep.Value) (_ cep.Value, failed bool) {
	if s.IsMissing() {
		s = cep.Int(0)
	}
	if s.Kind() != cep.KindInt || x.Kind() != cep.KindInt {
		return cep.Float(s.AsFloat() + x.AsFloat()), false
	}
	a, b := s.AsInt(), x.AsInt()
	if r := a + b; (r > a) == (b > 0) {
		return cep.Int(r), false
	}
	return cep.Value{}, true
}
