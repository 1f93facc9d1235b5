package codec

import (
	"strings"

	"github.com/cepd/cepd/cep"
)

// originName is the member in which `cepd record` writes where an event was first read.
const originName = "_cepd"

// plan is what to take from an event: a tree of names. A value has an index: a slot of the schema, or behind the slots
// the text of a time field.
type plan struct {
	root  *node
	slots int
	times []timeField
	// whole are the indexes of the empty path: the event itself.
	whole []int
	// meta are the fields of what a broker keeps with the record.
	meta []metaField
}

// node is a name that is wanted, or leads to one.
type node struct {
	// targets are what the value under the name is for.
	targets  []target
	children map[string]*node
	// below are the indexes of all descendants, which a second member of the name wipes out.
	below  []int
	origin bool
	// record is the number of the last record in which the name was met.
	record uint64
}

// target is one use of a value.
type target struct {
	index int
	// flat: the name is the whole dotted path, which wins over the nested spelling.
	flat bool
	// text asks for a time field's text instead of a value.
	text bool
}

// newPlan makes the plan. origin: _cepd says where an event was first read. meta: a broker keeps something with the records.
func newPlan(s *cep.Schema, t TimeSpec, origin, meta bool) *plan {
	p := &plan{root: &node{}, slots: s.Len(), times: t.fields}
	add := func(path []string, index int, text bool) {
		kept := len(path) > 0 && path[0] == metaName
		if kept && (origin || meta) {
			p.meta = append(p.meta, newMetaField(path, target{index: index, text: text}))
		}
		if !kept || !meta {
			p.add(path, index, text)
		}
	}
	for i := range s.Len() {
		add(s.Path(i), i, false)
	}
	for i, f := range t.fields {
		add(f.path, p.slots+i, true)
	}
	if origin {
		p.root.child(originName).origin = true
	}
	return p
}

func (p *plan) add(path []string, index int, text bool) {
	if len(path) == 0 {
		p.whole = append(p.whole, index)
		return
	}
	n := p.root
	for i, name := range path {
		if i > 0 {
			n.below = append(n.below, index)
		}
		n = n.child(name)
	}
	n.targets = append(n.targets, target{index: index, text: text})
	if len(path) > 1 {
		n = p.root.child(strings.Join(path, "."))
		n.targets = append(n.targets, target{index: index, text: text, flat: true})
	}
}

func (n *node) child(name string) *node {
	c := n.children[name]
	if c == nil {
		if n.children == nil {
			n.children = map[string]*node{}
		}
		c = &node{}
		n.children[name] = c
	}
	return c
}
