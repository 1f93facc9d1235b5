package expression

import (
	"slices"

	"github.com/cepd/cepd/cep"
)

// maxEqualities bounds the constants of one necessary condition: an index over more costs more memory than it saves.
const maxEqualities = 1_000

// equalities finds the fields that must equal one of some constants for a condition to be true. Only values that an
// index can hold count: "" and NaN are no keys.
func equalities(n *node) []Equality {
	switch n.op {
	case opAnd:
		var all []Equality
		for _, a := range n.args {
			all = append(all, equalities(a)...)
		}
		return all
	case opOr:
		// a == 1 or a == 2: every branch must bind the same field.
		var common []Equality
		for i, a := range n.args {
			branch := equalities(a)
			if i == 0 {
				common = branch
				continue
			}
			common = either(common, branch)
		}
		return common
	case opField:
		return one(n.slot, []cep.Value{cep.Bool(true)})
	case opCompare:
		a, b := n.args[0], n.args[1]
		if a.op == opConst {
			a, b = b, a
		}
		if n.name == "==" && a.op == opField && b.op == opConst {
			return one(a.slot, []cep.Value{b.value})
		}
	case opIn:
		a, b := n.args[0], n.args[1]
		switch {
		case a.op != opField:
		case b.list != nil:
			return one(a.slot, b.list.Values())
		case b.op == opConst && b.kind == listKind:
			return one(a.slot, b.value.AsList())
		}
	default:
	}
	return nil
}

func one(slot int, values []cep.Value) []Equality {
	if len(values) > maxEqualities {
		return nil
	}
	for _, v := range values {
		if _, ok := cep.KeyOf(v); !ok {
			return nil
		}
	}
	return []Equality{{slot, values}}
}

// either gives the equalities that hold whichever of two branches is true.
func either(a, b []Equality) []Equality {
	var out []Equality
	for _, x := range a {
		i := slices.IndexFunc(b, func(y Equality) bool { return y.Slot == x.Slot })
		if i < 0 || len(x.Values)+len(b[i].Values) > maxEqualities {
			continue
		}
		out = append(out, Equality{x.Slot, slices.Concat(x.Values, b[i].Values)})
	}
	return out
}
