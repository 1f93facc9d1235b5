package nfa

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
)

// aggregates are one of each kind over step 0.
func aggregates() []cep.Aggregate {
	return []cep.Aggregate{
		{Kind: cep.AggregateCount, Slot: -1},
		{Kind: cep.AggregateSum, Slot: slotValue},
		{Kind: cep.AggregateMin, Slot: slotValue},
		{Kind: cep.AggregateMax, Slot: slotValue},
		{Kind: cep.AggregateDistinct, Slot: slotValue},
		{Kind: cep.AggregateFirst, Slot: -1},
		{Kind: cep.AggregateLast, Slot: -1},
	}
}

// chainOf makes the chain of a loop that took these values.
func chainOf(t testing.TB, values ...cep.Value) *history {
	s := sequence(t, "a+ >>b")
	s.Names[0].Keep = []int{slotValue}
	s.Aggregates = aggregates()
	m := NewMachine(s.compile(t), nil)
	var n *node
	for i, v := range values {
		m.event = &cep.Event{Time: cep.Time(i), Seq: uint64(i + 1), Values: []cep.Value{cep.String("a"), v}, Position: cep.Position{Offset: int64(i)}}
		m.kept = 0
		n = m.node(n, &m.program.elements[0])
	}
	return &history{form: m.form, node: n}
}

func TestAggregates(t *testing.T) {
	i, f := cep.Int, cep.Float
	failed := cep.String("failed")
	for _, c := range []struct {
		values                            []cep.Value
		count, sum, min, max, distinctOne cep.Value
	}{
		{nil, i(0), i(0), cep.Value{}, cep.Value{}, i(0)},
		{[]cep.Value{{}, cep.Null}, i(2), i(0), cep.Value{}, cep.Value{}, i(0)},
		{[]cep.Value{i(3), i(-1), {}, i(3)}, i(4), i(5), i(-1), i(3), i(2)},
		{[]cep.Value{i(1), f(1), f(0.5)}, i(3), f(2.5), f(0.5), i(1), i(2)},
		{[]cep.Value{i(math.MaxInt64), i(1), i(-1)}, i(3), failed, i(-1), i(math.MaxInt64), i(3)},
		{[]cep.Value{i(math.MinInt64), i(-1)}, i(2), failed, i(math.MinInt64), i(-1), i(2)},
		{[]cep.Value{i(1), cep.String("1")}, i(2), failed, failed, failed, i(2)},
		{[]cep.Value{f(math.NaN()), i(1)}, i(2), f(math.NaN()), failed, failed, i(2)},
	} {
		h := chainOf(t, c.values...)
		for k, want := range []cep.Value{c.count, c.sum, c.min, c.max, c.distinctOne} {
			got, err := h.Aggregate(k)
			if errors.Is(err, cep.ErrAggregate) {
				got = failed
			}
			same := cep.Equal(got, want) && got.Kind() == want.Kind()
			if math.IsNaN(want.AsFloat()) {
				same = math.IsNaN(got.AsFloat())
			}
			if !same {
				t.Errorf("%s of %v is %v, want %v", aggregateNames[k], c.values, got, want)
			}
		}
		first, last := h.AggregateEvent(5), h.AggregateEvent(6)
		if len(c.values) == 0 {
			if first != nil || last != nil {
				t.Errorf("first %v and last %v of nothing", first, last)
			}
			continue
		}
		if f, l := first.Position().Offset, last.Position().Offset; f != 0 || int(l) != len(c.values)-1 {
			t.Errorf("first %d and last %d of %d events", f, l, len(c.values))
		}
	}
}

// TestSet holds the set against a list, and old sets against what they were.
func TestSet(t *testing.T) {
	value := rapid.Custom(func(t *rapid.T) cep.Value {
		n := rapid.IntRange(-3, 3).Draw(t, "n")
		return rapid.SampledFrom([]cep.Value{
			cep.Int(int64(n)), cep.Float(float64(n)), cep.Float(float64(n) / 2), cep.String("1"), cep.String(""), cep.Bool(n > 0),
			cep.List([]cep.Value{cep.Int(int64(n))}), cep.List([]cep.Value{cep.Float(float64(n))}),
			cep.Object([]cep.Member{{Name: "a", Value: cep.Int(int64(n))}, {Name: "b"}}),
			cep.Int(rapid.Int64().Draw(t, "i")), cep.TimeValue(cep.Time(n)), cep.DurationValue(cep.Duration(n)),
		}).Draw(t, "v")
	})
	rapid.Check(t, func(t *rapid.T) {
		var s *set
		var list []cep.Value
		has := func(v cep.Value) bool {
			for _, w := range list {
				if cep.Equal(v, w) {
					return true
				}
			}
			return false
		}
		var older []*set
		var sizes []int
		for _, v := range rapid.SliceOfN(value, 0, 200).Draw(t, "values") {
			next, fresh := s.with(v)
			if fresh == has(v) {
				t.Fatalf("%v: fresh %v among %v", v, fresh, list)
			}
			if fresh {
				list = append(list, v)
			}
			s = next
			older, sizes = append(older, s), append(sizes, len(list))
		}
		for i, o := range older {
			if n := o.size(); n != sizes[i] {
				t.Fatalf("an older set has %d values, had %d", n, sizes[i])
			}
		}
	})
}

func (s *set) size() int {
	if s == nil {
		return 0
	}
	n := len(s.values)
	for _, c := range s.children {
		if c.deep == nil {
			n++
		}
		n += c.deep.size()
	}
	return n
}

// TestSetCollisions fills one bucket: values whose hashes are equal in all bits are told apart still.
func TestSetCollisions(t *testing.T) {
	var s *set
	for i := range 50 {
		var fresh bool
		if s, fresh = s.insert(cep.Int(int64(i)), 77, setDepth); !fresh {
			t.Fatalf("%d was in the set", i)
		}
	}
	if _, fresh := s.insert(cep.Int(7), 77, setDepth); fresh || s.size() != 50 {
		t.Fatalf("7 is fresh: %v, of %d", fresh, s.size())
	}
}

// TestAggregateCost: the cells of one more event do not depend on the length of the loop.
func TestAggregateCost(t *testing.T) {
	allocated := func(n int) float64 {
		values := make([]cep.Value, n)
		for i := range values {
			values[i] = cep.Int(int64(i % 16))
		}
		h := chainOf(t, values...)
		m := NewMachine(&Program{form: h.form}, nil)
		m.event = &cep.Event{Time: cep.Time(n), Seq: uint64(n + 1), Values: []cep.Value{cep.String("a"), cep.Int(3)}}
		return testing.AllocsPerRun(100, func() { m.kept = 0; m.node(h.node, &m.program.elements[0]) })
	}
	if short, long := allocated(20), allocated(20_000); long > short {
		t.Errorf("%v allocations for one more event after 20, %v after 20,000", short, long)
	}
}
