package expression

import (
	"slices"

	"github.com/cepd/cepd/cep"
)

// Trees keeps what expressions were compiled from, so that it can be asked whether several of them can hold together. It
// belongs to the check of one rule: what stays behind that are the closures.
type Trees struct{ roots map[*Expr]*node }

// add is called by [Compile] for each expression.
func (t *Trees) add(x *Expr, n *node) {
	if t == nil {
		return
	}
	if t.roots == nil {
		t.roots = map[*Expr]*node{}
	}
	t.roots[x] = n
}

// Given is what is known of an event beside the conditions on it.
type Given struct {
	// By is the key that it yields: no part of that is missing or "".
	By []*Expr
	// StepBy are the keys of single steps and of loops that have taken an event for certain, by the index of their names.
	// All have the same key; so they have the same parts, unless one is a list, which yields a key for each of its elements.
	StepBy map[int][]*Expr
	// Counts are how many events the list of a step can hold, by the index of its name.
	Counts map[int]Count
}

// Count is a number of events. Most < 0 is no bound.
type Count struct{ Least, Most int }

// Clash says why conditions never hold together: these parts of them never do, and without any one of these they might.
type Clash struct {
	Parts []ClashPart
	// Key is the part of the key that would have to be a list for the conditions to hold; "" where nothing helps.
	Key string
	// Either is the condition that asks for one of two values, where two parts ask for both; else "".
	Either string
}

// ClashPart is a part of a condition.
type ClashPart struct {
	// Of is the condition; nil for what is given, and Why says by what.
	Of   *Expr
	Text string
	Why  string
	// Offset and Length are where it stands in the text of Of, in runes. Length is 0 where it stands in a macro.
	Offset, Length int
}

// Clash reports whether conditions can never hold together, whatever event they are asked about, and why. It says so
// only where it has a proof. A list that is read from a file may hold anything.
func (t *Trees) Clash(given Given, conditions ...*Expr) (Clash, bool) {
	all := t.conjuncts(conditions)
	all = append(all, t.facts(given, all)...)
	if !never(all) {
		return Clash{}, false
	}
	// What the clash does not need is left out. What stands first goes first: it is what the rest stands in.
	p := proof{left: maxProof}
	for i := 0; i < len(all); {
		if rest := slices.Delete(slices.Clone(all), i, i+1); p.never(rest) {
			all = rest
		} else {
			i++
		}
	}
	var c Clash
	for _, x := range all {
		p := ClashPart{Of: x.of, Text: x.n.String(), Why: x.why}
		if x.of != nil && x.n.at.macro == "" {
			p.Offset, p.Length = x.n.at.from, x.n.at.to-x.n.at.from
		}
		if x.key != "" {
			c.Key = x.key
		}
		c.Parts = append(c.Parts, p)
	}
	if len(all) == 2 {
		c.Either = eitherOf(all[0].n, all[1].n)
	}
	return c, true
}

// Exclude reports whether no event can fit two conditions that are asked at different places, so that only what they ask
// of the event itself counts.
func (t *Trees) Exclude(a, b *Expr) bool {
	return never(slices.DeleteFunc(t.conjuncts([]*Expr{a, b}), func(c conjunct) bool { return !c.n.unary() }))
}

// Implied reports whether a condition holds, without an error, whenever some others do.
func (t *Trees) Implied(x *Expr, by ...*Expr) bool {
	all := t.conjuncts(by)
	for _, c := range t.conjuncts([]*Expr{x}) {
		not := conjunct{n: &node{op: opNot, kind: boolKind, args: []*node{c.n}}}
		if !slices.ContainsFunc(all, func(b conjunct) bool { return sameNode(b.n, c.n) }) &&
			(!c.n.safe() || !never(append(slices.Clone(all), not))) {
			return false
		}
	}
	return true
}

// conjunct is one of the conditions that must all hold.
type conjunct struct {
	n *node
	// of is the expression that it is a part of, nil for a fact.
	of *Expr
	// why says where a fact comes from.
	why string
	// key is the part of the key for which the fact does not hold where it is a list.
	key string
}

// conjuncts takes conditions apart at their ands.
func (t *Trees) conjuncts(conditions []*Expr) []conjunct {
	var all []conjunct
	for _, x := range conditions {
		n := t.roots[x]
		switch {
		case n == nil:
		case n.op == opAnd:
			for _, a := range n.args {
				all = append(all, conjunct{n: a, of: x})
			}
		default:
			all = append(all, conjunct{n: n, of: x})
		}
	}
	return all
}

// Where facts come from.
const (
	byKey   = `by the key, which is never missing or ""`
	byBoth  = "by the key, which both have"
	byCount = "by the number of events that the step takes"
)

// facts are what is given, as far as the conditions ask about it.
func (t *Trees) facts(given Given, conditions []conjunct) []conjunct {
	var facts []conjunct
	compare := func(a *node, operator string, b *node, why, key string) {
		f := conjunct{n: &node{op: opCompare, kind: boolKind, name: operator, args: []*node{a, b}}, why: why, key: key}
		if !slices.ContainsFunc(facts, func(o conjunct) bool { return sameNode(o.n, f.n) }) {
			facts = append(facts, f)
		}
	}
	for _, c := range conditions {
		c.n.walk(func(n *node) bool {
			for _, by := range given.By {
				if part := t.roots[by]; part != nil && sameNode(part, n) {
					compare(n, "!=", constant(n.at, cep.Null), byKey, "")
					compare(n, "!=", constant(n.at, cep.String("")), byKey, "")
				}
			}
			switch {
			case n.op == opKey && n.index < len(given.By):
				if part := t.roots[given.By[n.index]]; part != nil {
					compare(part, "==", n, byBoth, part.String())
				}
			case n.op == opTakenField:
				t.sameKey(given, n, compare)
			default:
				if step, ok := n.countOf(); ok {
					if count, known := given.Counts[step]; known {
						compare(n, ">=", constant(n.at, cep.Int(int64(count.Least))), byCount, "")
						if count.Most >= 0 {
							compare(n, "<=", constant(n.at, cep.Int(int64(count.Most))), byCount, "")
						}
					}
				}
			}
			return true
		})
	}
	return facts
}

// sameKey adds that a part of the key of a taken event is that of the current one.
func (t *Trees) sameKey(given Given, taken *node, compare func(a *node, operator string, b *node, why, key string)) {
	item := taken.args[0]
	at := item
	if item.op == opAggregateTaken {
		at = item.args[0]
	}
	end := at.op == opAt && at.args[1].op == opConst && (at.args[1].value == cep.Int(0) || at.args[1].value == cep.Int(-1)) && at.args[0].op == opSteps
	if at.op != opStep && !end || len(item.origin.steps) != 1 {
		return
	}
	for i, by := range given.StepBy[item.origin.steps[0]] {
		if i >= len(given.By) {
			break // the key has mistakes
		}
		own, other := t.roots[given.By[i]], t.roots[by]
		if own != nil && other != nil && other.op == opField && other.slot == taken.slot {
			compare(own, "==", taken, byBoth, own.String())
		}
	}
}

// countOf returns the step of which a node is the number of events.
func (n *node) countOf() (step int, ok bool) {
	if n.op == opAggregate {
		n = n.args[0]
	}
	if n.op == opCall && n.name == "len" && n.args[0].op == opSteps {
		return n.args[0].index, true
	}
	return 0, false
}

// unary says that nothing but the current event and constants is read.
func (n *node) unary() bool {
	unary := true
	n.walk(func(m *node) bool {
		switch m.op {
		case opPrev, opStep, opSteps, opMatch, opDuration, opKey, opAlertField, opAggregate, opAggregateTaken:
			unary = false
		default:
		}
		return unary
	})
	return unary
}

// safe says that the evaluation of a condition cannot err.
func (n *node) safe() bool {
	value := func(v *node) bool {
		switch v.op {
		case opConst, opField, opKey, opPrev, opStep:
			return true
		case opTable:
			return v.list != nil
		case opTakenField:
			return v.args[0].op == opPrev || v.args[0].op == opStep || v.args[0].op == opAggregateTaken
		default:
			return false
		}
	}
	switch n.op {
	case opNot, opAnd, opOr:
		return !slices.ContainsFunc(n.args, func(a *node) bool { return !a.safe() })
	case opCompare, opIn:
		return value(n.args[0]) && value(n.args[1])
	case opText:
		return value(n.args[0]) && n.args[1].op == opConst
	case opCall:
		return (n.name == "like" || n.name == "cidr") && value(n.args[0]) && value(n.args[1])
	case opConst:
		return n.kind == boolKind
	default:
		return false
	}
}
