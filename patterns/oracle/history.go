package oracle

import (
	"math"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
)

// taken is an event that a step took.
type taken struct {
	event *cep.Event
	at    *place
	pos   int
}

func (t taken) Time() cep.Time           { return t.event.Time }
func (t taken) Position() cep.Position   { return t.event.Position }
func (t taken) Value(slot int) cep.Value { return t.event.Value(slot) }
func (t taken) Raw() []byte              { return t.event.Raw }

// Step is -1 for the event before, which no step took.
func (t taken) Step() int {
	if t.at == nil {
		return -1
	}
	return t.at.Name
}

// history is an assignment as conditions and alerts see it.
type history struct {
	rule *patterns.Rule
	took []taken
	// from, where it is above 0, is where the pass of the loop began whose `having` asks: its own name means this pass.
	own, from int
}

// of gives the events that a name took.
func (h history) of(name int) []taken {
	all := h.took
	if name == h.own {
		all = all[h.from:]
	}
	return slices.DeleteFunc(slices.Clone(all), func(t taken) bool { return t.at.Name != name })
}

func (h history) Len(step int) int         { return len(h.of(step)) }
func (h history) At(step, i int) cep.Taken { return h.of(step)[i] }
func (h history) Total() int               { return len(h.took) }
func (h history) Nth(i int) cep.Taken      { return h.took[i] }

// AggregateEvent is the first or last event of a step, nil where it took nothing.
func (h history) AggregateEvent(i int) cep.Taken {
	g := h.rule.Aggregates[i]
	switch all := h.of(g.Step); {
	case len(all) == 0:
		return nil
	case g.Kind == cep.AggregateFirst:
		return all[0]
	default:
		return all[len(all)-1]
	}
}

// Aggregate computes an aggregate anew from all that was taken.
func (h history) Aggregate(i int) (cep.Value, error) {
	g := h.rule.Aggregates[i]
	all := h.of(g.Step)
	var values []cep.Value // those that are present
	for _, t := range all {
		if v := t.Value(max(g.Slot, 0)); g.Slot >= 0 && !v.IsMissing() {
			values = append(values, v)
		}
	}
	switch g.Kind {
	case cep.AggregateCount:
		return cep.Int(int64(len(all))), nil
	case cep.AggregateDistinct:
		return cep.Int(int64(distinct(values))), nil
	case cep.AggregateSum:
		return sum(values)
	case cep.AggregateMin:
		return extreme(values, -1)
	case cep.AggregateMax:
		return extreme(values, 1)
	default: // First, Last: events
		return cep.Value{}, nil
	}
}

func distinct(values []cep.Value) int {
	n := 0
	for i, v := range values {
		if !slices.ContainsFunc(values[:i], func(w cep.Value) bool { return cep.Equal(v, w) }) {
			n++
		}
	}
	return n
}

// sum is an int as long as all values are.
func sum(values []cep.Value) (cep.Value, error) {
	whole, real, ints := int64(0), 0.0, true
	for _, v := range values {
		if !v.IsNumber() {
			return cep.Value{}, cep.ErrAggregate
		}
		real += v.AsFloat()
		if ints = ints && v.Kind() == cep.KindInt; !ints {
			continue
		}
		i := v.AsInt()
		if i > 0 && whole > math.MaxInt64-i || i < 0 && whole < math.MinInt64-i {
			return cep.Value{}, cep.ErrAggregate
		}
		whole += i
	}
	if ints {
		return cep.Int(whole), nil
	}
	return cep.Float(real), nil
}

// extreme is the least (sign -1) or greatest (1) value.
func extreme(values []cep.Value, sign int) (cep.Value, error) {
	var best cep.Value
	for i, v := range values {
		if !v.IsNumber() {
			return cep.Value{}, cep.ErrAggregate
		}
		if c, ok := cep.Compare(v, best); i == 0 || ok && c*sign > 0 {
			best = v
		}
	}
	return best, nil
}
