package oracle

import (
	"slices"

	"github.com/cepd/cepd/patterns"
)

// link is how an element is tied to the last event taken (S3.2). The numbers are those of package patterns' rules: this
// package reads no code of the machine's.
type link uint8

const (
	noLink link = iota
	strict
	relaxed
	anyLink
)

// The kinds of element, by number, as the links.
const (
	kindLeaf = iota
	kindGroup
	kindAnyOf
	kindAllOf
)

// node is an element of the rule. Leaves, which take, forbid or see events themselves, are numbered in written order.
type node struct {
	*patterns.Element
	index int
	// parts are the alternatives of an any_of, else there is one: the elements inside.
	parts [][]*node
}

// tree gives the elements as nodes, and appends the leaves to a list.
func tree(elements []patterns.Element, leaves *[]*node) []*node {
	all := make([]*node, len(elements))
	for i := range elements {
		n := &node{Element: &elements[i]}
		all[i] = n
		switch n.Kind {
		case kindLeaf:
			n.index = len(*leaves)
			*leaves = append(*leaves, n)
		case kindAnyOf:
			for _, a := range n.Alternatives {
				n.parts = append(n.parts, tree(a, leaves))
			}
		default:
			n.parts = append(n.parts, tree(n.Elements, leaves))
		}
	}
	return all
}

// without gives the entries of `without` as leaves behind the others.
func without(r *patterns.Rule, leaves *[]*node) []*node {
	var all []*node
	for _, w := range r.Without {
		n := &node{Element: &patterns.Element{Name: w.Name, From: w.From, By: w.By, Where: w.Where}, index: len(*leaves)}
		all = append(all, n)
		*leaves = append(*leaves, n)
	}
	return all
}

// A rule is written out step by step: what is left of it is a list of items, and [ways] are all the ways to go on until
// the next step. In this way a loop without a bound need not be written out further than the input has events.

// item is an element still to be written out, or, where ends is set, the end of a repetition of a composite.
type item struct {
	*node
	link   link
	frames []*frame
	// all is the all_of whose own condition the step has to meet, because it is the last of the members (S2.3).
	all  *node
	ends *frame
}

// frame is one repetition of a composite.
type frame struct {
	of *node
	n  int // from 1
	// first is the first repetition, which stands for the whole loop.
	first *frame
}

// place is a step where it stands in a way to write the rule out.
type place struct {
	*node
	link   link
	frames []*frame
	all    *node
}

// way is a way to go on to the next step, or to the end where step is nil.
type way struct {
	// absences stand before the step, or at the end.
	absences []*node
	// bars are greedy loops that were left out.
	bars []bar
	step *place
	rest []item
}

// bar is a greedy loop that a candidate has left, or left out, and that may still claim events (S3.5).
type bar struct {
	*place
	// begun loops have taken events: their inner link counts, else the link to them.
	begun bool
}

func (b bar) strict() bool {
	if b.begun {
		return link(b.Loop) == strict
	}
	return b.link == strict
}

// items puts elements under the link of the first and their own (S2.4).
func items(nodes []*node, first link, frames []*frame) []item {
	all := make([]item, len(nodes))
	for i, n := range nodes {
		all[i] = item{node: n, link: link(n.Link), frames: frames}
	}
	if len(all) > 0 {
		all[0].link = first
	}
	return all
}

// ways writes the rest of a rule out until its next step, in every way (S2). took is what was taken up to here.
func ways(rest []item, took []taken) []way {
	if len(rest) == 0 {
		return []way{{}}
	}
	it, rest := rest[0], rest[1:]
	switch {
	case it.ends != nil:
		return again(it, rest, took)
	case it.Absent:
		all := ways(rest, took)
		for i := range all {
			all[i].absences = append(all[i].absences, it.node)
		}
		return all
	}
	var all []way
	if it.Kind == kindLeaf {
		all = []way{{step: &place{it.node, it.link, it.frames, it.all}, rest: rest}}
	} else {
		all = repeat(it, 1, nil, it.link, rest, took)
	}
	if !it.Optional {
		return all
	}
	out := ways(rest, took) // S2.1: left out, it leaves no trace, but for a greedy loop
	if it.Greedy {
		for i := range out {
			out[i].bars = append(out[i].bars, bar{place: &place{it.node, it.link, it.frames, it.all}})
		}
	}
	return append(all, out...)
}

// again is the end of a repetition: the composite is left, or repeated by its inner link. A repetition of a composite
// with times takes at least one event (S2.4).
func again(it item, rest []item, took []taken) []way {
	f := it.ends
	if !slices.ContainsFunc(took, func(t taken) bool { return slices.Contains(t.at.frames, f) }) {
		return nil
	}
	var all []way
	if f.n >= f.of.Min {
		all = ways(rest, took)
	}
	if f.of.Max < 0 || f.n < f.of.Max {
		it.node = f.of
		all = append(all, repeat(it, f.n+1, f.first, link(f.of.Loop), rest, took)...)
	}
	return all
}

// repeat writes the n-th repetition of a composite: an any_of chooses anew (S2.2), an all_of stands in every order of
// every choice of its members (S2.3).
func repeat(it item, n int, first *frame, l link, rest []item, took []taken) []way {
	f := &frame{of: it.node, n: n, first: first}
	if first == nil {
		f.first = f
	}
	frames := append(slices.Clip(it.frames), f)
	var bodies [][]item
	if it.Kind == kindAllOf {
		bodies = orders(it.node, l, frames)
	} else {
		for _, part := range it.parts {
			body := items(part, l, frames)
			if it.all != nil { // a member of an all_of is a choice of single steps
				body[0].all = it.all
			}
			bodies = append(bodies, body)
		}
	}
	var all []way
	for _, body := range bodies {
		if it.Times {
			body = append(body, item{ends: f, frames: it.frames})
		}
		all = append(all, ways(append(body, rest...), took)...)
	}
	return all
}

// orders gives an all_of's members in every order of every choice of as many as it needs; relaxed between them.
func orders(n *node, l link, frames []*frame) [][]item {
	need := n.Need
	if need == 0 {
		need = len(n.parts[0])
	}
	var all [][]item
	var extend func(body []item, used []*node)
	extend = func(body []item, used []*node) {
		if len(body) == need {
			all = append(all, slices.Clone(body))
			return
		}
		for _, m := range n.parts[0] {
			if slices.Contains(used, m) {
				continue
			}
			it := item{node: m, link: relaxed, frames: frames}
			if len(body) == 0 {
				it.link = l
			}
			if len(body) == need-1 {
				it.all = n
			}
			extend(append(slices.Clip(body), it), append(slices.Clip(used), m))
		}
	}
	extend(nil, nil)
	return all
}

// completes says whether a way can be gone to the end with at most so many more events.
func completes(w way, took []taken, left int) bool {
	if w.step == nil || left < 0 {
		return left >= 0
	}
	took = append(slices.Clip(took), taken{at: w.step})
	return slices.ContainsFunc(ways(w.rest, took), func(v way) bool { return completes(v, took, left-w.step.Min) })
}
