package patterns

import (
	"slices"

	"github.com/cepd/cepd/nfa"
)

// part is an element of the rule under check, with where it stands.
type part struct {
	syntax *elementSyntax
	// el is the element of the rule.
	el *Element
	// parent is the composite that it stands in, nil in the rule's own sequence.
	parent *part
	// sequence are the parts that it stands among, index its place.
	sequence []*part
	index    int
	// inner are the sequences of a composite: one of a group or an all_of, one an alternative of an any_of.
	inner [][]*part
}

// leaf reports whether the part is a step, loop or absence.
func (p *part) leaf() bool { return p.el.Kind == nfa.KindLeaf }

// takes reports whether an element can take an event at all.
func takes(e *Element) bool {
	if e.Kind == nfa.KindLeaf {
		return !e.Absent
	}
	return slices.ContainsFunc(leaves(nil, []Element{*e}), func(l *Element) bool { return !l.Absent })
}

// nullable reports whether a match can have taken nothing by an element (S2.1, S2.4).
func nullable(e *Element) bool {
	all := func(list []Element) bool {
		return !slices.ContainsFunc(list, func(e Element) bool { return !nullable(&e) })
	}
	switch {
	case e.Optional:
		return true
	case e.Kind == nfa.KindLeaf:
		return e.Absent
	case e.Kind == nfa.KindAllOf, e.Times:
		return false // each repetition takes an event
	case e.Kind == nfa.KindGroup:
		return all(e.Elements)
	}
	return slices.ContainsFunc(e.Alternatives, all)
}

// before says what can have been taken before a part: whether something may, and whether something must.
func (p *part) before() (may, must bool) {
	for q := p; q != nil; q = q.parent {
		if q.parent == nil || q.parent.el.Kind != nfa.KindAllOf { // members of an all_of come in any order
			for _, s := range q.sequence[:q.index] {
				may = may || takes(s.el)
				must = must || !nullable(s.el)
			}
		}
		if q.parent != nil && q.parent.el.Max != 1 {
			may = may || takes(q.parent.el) // an earlier repetition
		}
	}
	return may, must
}

// after says the same of what follows, later repetitions of its own composites aside (S4.1).
func (p *part) after() (may, must bool) {
	for q := p; q != nil; q = q.parent {
		for _, s := range q.sequence[q.index+1:] {
			may = may || takes(s.el)
			must = must || !nullable(s.el)
		}
	}
	return may, must
}

// closed reports whether an absence behind the part stands at the end of the rule whatever is left out.
func (p *part) closed() bool {
	for q := p; q != nil; q = q.parent {
		for _, s := range leavesOf(nil, q.sequence[q.index+1:]) {
			if may, _ := s.after(); s.el.Absent && !may {
				return true
			}
		}
	}
	return false
}

// repeats reports whether a composite around the part may be repeated.
func (p *part) repeats() bool {
	for q := p.parent; q != nil; q = q.parent {
		if q.el.Max != 1 {
			return true
		}
	}
	return false
}

// list reports whether the step may take more than one event in a match.
func (p *part) list() bool { return p.el.Max != 1 || p.repeats() }

// leavesOf returns the leaves of parts of all nesting, in written order.
func leavesOf(list, parts []*part) []*part {
	for _, p := range parts {
		if p.leaf() {
			list = append(list, p)
		}
		for _, inner := range p.inner {
			list = leavesOf(list, inner)
		}
	}
	return list
}

// earlier returns the leaves that may have taken an event before the part does.
func (p *part) earlier() []*part {
	var list []*part
	for q := p; q != nil; q = q.parent {
		switch {
		case q.parent != nil && q.parent.el.Max != 1:
			list = append(list, leavesOf(nil, []*part{q.parent})...) // in an earlier repetition
		case q.parent == nil || q.parent.el.Kind != nfa.KindAllOf:
			list = append(list, leavesOf(nil, q.sequence[:q.index])...)
		}
	}
	return list
}

// next returns the leaves that may take the next event behind the part.
func (p *part) next() []*part {
	for q := p; q != nil; q = q.parent {
		list, must := firstOfSequence(q.sequence[q.index+1:])
		if must || q.parent == nil {
			return list
		}
		if q.parent != nil {
			more := q.parent.next()
			return append(list, more...)
		}
	}
	return nil
}

// firstOfSequence returns the leaves that may take the first event of a sequence, and whether one of them must.
func firstOfSequence(sequence []*part) (list []*part, must bool) {
	for _, s := range sequence {
		switch {
		case s.leaf():
			if !s.el.Absent {
				list = append(list, s)
			}
		case s.el.Kind == nfa.KindAllOf:
			list = leavesOf(list, s.inner[0])
		default:
			for _, inner := range s.inner {
				first, _ := firstOfSequence(inner)
				list = append(list, first...)
			}
		}
		if !nullable(s.el) {
			return list, true
		}
	}
	return list, false
}
