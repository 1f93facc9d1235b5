package expression

import (
	"math"
	"slices"

	"github.com/cepd/cepd/cep"
)

// bounds finds the fields that must be numbers between two ends for a condition to be true. The ends are floats: an int
// is rounded to one, and rounding keeps the order, so what is between the exact ends is between the rounded ones.
func bounds(n *node) []Bound {
	switch n.op {
	case opAnd:
		var all []Bound
		for _, a := range n.args {
			for _, b := range bounds(a) {
				all = narrow(all, b)
			}
		}
		return all
	case opOr:
		var common []Bound
		for i, a := range n.args {
			branch := bounds(a)
			if i == 0 {
				common = branch
			} else {
				common = widen(common, branch)
			}
		}
		return common
	case opCompare:
		field, constant, o := n.args[0], n.args[1], orders[n.name]
		if field.op == opConst {
			field, constant, o = constant, field, o.mirrored()
		}
		if field.op != opField || constant.op != opConst || !constant.value.IsNumber() || n.name == "!=" {
			return nil
		}
		b, c := Bound{field.slot, math.Inf(-1), math.Inf(1)}, constant.value.AsFloat()
		if !o.holds(-1) {
			b.Min = c
		}
		if !o.holds(1) {
			b.Max = c
		}
		if !o.holds(0) && exact(c) {
			// The end is not included. No int is rounded to one of these neighbours.
			if o.holds(1) {
				b.Min = math.Nextafter(c, math.Inf(1))
			} else {
				b.Max = math.Nextafter(c, math.Inf(-1))
			}
		}
		return []Bound{b}
	case opIn:
		field, list := n.args[0], n.args[1]
		if field.op != opField || list.op != opConst || list.kind != listKind || len(list.value.AsList()) == 0 ||
			slices.ContainsFunc(list.value.AsList(), func(v cep.Value) bool { return !v.IsNumber() }) {
			return nil
		}
		b := Bound{field.slot, math.Inf(1), math.Inf(-1)}
		for _, v := range list.value.AsList() {
			b.Min, b.Max = min(b.Min, v.AsFloat()), max(b.Max, v.AsFloat())
		}
		return []Bound{b}
	default:
		return nil
	}
}

// exact reports whether no other int is rounded to this float, nor to one of its neighbours.
func exact(f float64) bool { return math.Abs(f) < 1<<52 }

// whole reports whether a condition asks for nothing but one field that is one of some strings and one that lies within a
// range, so that an index which knows both knows the answer.
func whole(n *node) bool {
	leaves := []*node{n}
	if n.op == opAnd {
		leaves = n.args
	}
	strings, number := 0, -1
	for _, l := range leaves {
		eq, b := equalities(l), bounds(l)
		switch {
		case l.op == opCompare && len(b) == 1 && len(eq) == 0:
			c := l.args[1]
			if c.op != opConst {
				c = l.args[0]
			}
			if number >= 0 && number != b[0].Slot || !exact(c.value.AsFloat()) {
				return false
			}
			number = b[0].Slot
		case (l.op == opCompare || l.op == opIn) && len(eq) == 1 && !slices.ContainsFunc(eq[0].Values, func(v cep.Value) bool { return v.Kind() != cep.KindString }):
			strings++
		default:
			return false
		}
	}
	return strings == 1
}

// narrow adds a bound that must hold too.
func narrow(all []Bound, b Bound) []Bound {
	for i := range all {
		if all[i].Slot == b.Slot {
			all[i].Min, all[i].Max = max(all[i].Min, b.Min), min(all[i].Max, b.Max)
			return all
		}
	}
	return append(all, b)
}

// widen gives the bounds that hold whichever of two branches is true.
func widen(a, b []Bound) []Bound {
	var out []Bound
	for _, x := range a {
		for _, y := range b {
			if x.Slot == y.Slot {
				out = append(out, Bound{x.Slot, min(x.Min, y.Min), max(x.Max, y.Max)})
			}
		}
	}
	return out
}
