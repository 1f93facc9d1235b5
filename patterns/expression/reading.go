package expression

import (
	"cmp"
	"slices"

	"github.com/cepd/cepd/cep"
)

// Reading is what an expression asks of events, with the place of each question in its text: what can be held against events
// that were recorded.
type Reading struct {
	// Fields are the fields that it reads, in the order of the text.
	Fields []Read
	// Parts are what an event must meet by itself for the expression to be true: what it joins by `and`, without the parts
	// that see more than the current event.
	Parts []Part
}

// Read is one place where a field is read.
type Read struct {
	Path []string
	// Offset and Length count runes in the text of the expression, or in that of the macro named by Macro.
	Offset, Length int
	Macro          string
	// Current says that the field is the current event's. Otherwise it is one of the event before (Prev), of what Steps took,
	// or of anything that was taken (All).
	Current, Prev, All bool
	Steps              []int
}

// Part is a condition on the current event alone.
type Part struct {
	// Text is the part in normal form.
	Text string
	// Test is as that of an [Expr].
	Test func(*cep.Scope) (bool, error)
	// Slots are the fields that it reads.
	Slots []int
}

// Reading says what an expression asks of events.
func (t *Trees) Reading(x *Expr) *Reading {
	n, r := t.roots[x], &Reading{}
	n.walk(func(m *node) bool {
		if len(m.names) == 0 || m.op != opField && m.op != opTakenField {
			return true
		}
		read := Read{Path: m.names, Offset: m.at.from, Length: max(m.at.to-m.at.from, 1), Macro: m.at.macro, Current: m.op == opField}
		if !read.Current {
			o := m.args[0].origin
			read.Prev, read.All, read.Steps = o.prev, o.all, o.steps
		}
		r.Fields = append(r.Fields, read)
		return true
	})
	slices.SortStableFunc(r.Fields, func(a, b Read) int {
		return cmp.Or(cmp.Compare(a.Macro, b.Macro), cmp.Compare(a.Offset, b.Offset))
	})
	r.parts(n)
	return r
}

// parts takes what a node joins; a macro can be such a conjunction inside of another.
func (r *Reading) parts(n *node) {
	if n.op == opAnd {
		for _, a := range n.args {
			r.parts(a)
		}
		return
	}
	alone, slots := true, []int(nil)
	n.walk(func(m *node) bool {
		switch m.op {
		case opStep, opSteps, opMatch, opDuration, opPrev, opKey, opAlertField, opAggregate, opAggregateTaken:
			alone = false
		case opField:
			insert(&slots, m.slot)
		default:
		}
		return alone
	})
	if alone {
		x := Expr{}
		x.evaluator(n)
		r.Parts = append(r.Parts, Part{Text: n.String(), Test: x.Test, Slots: slots})
	}
}
