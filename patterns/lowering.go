package patterns

import (
	"errors"
	"slices"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns/expression"
)

// prevReach is how far back prev looks in a rule without a window (S1.5).
const prevReach = cep.Duration(24 * time.Hour)

// lower compiles the checked rule for the machine.
func (c *ruleChecker) lower() {
	r := c.rule
	p := nfa.Pattern{
		Rule: r.ID, Within: r.Within, After: r.After, Target: r.Target, Ordered: r.Ordered, Timeouts: r.Timeouts,
		PrevReach: r.Within, KeepRaw: r.Alert.Include == IncludeFirstLast || r.Alert.Include == IncludeAll,
		Aggregates: r.Aggregates, Limits: r.Limits,
	}
	if p.PrevReach == 0 {
		p.PrevReach = prevReach
	}
	keep := c.kept()
	for i, name := range r.Names {
		p.Names = append(p.Names, nfa.Name{Name: name, Keep: keep[i]})
	}
	p.Elements = c.lowered(r.Elements)
	if r.Pattern != nil {
		c.lowerRows(&p)
	}
	p.Newest = r.Newest
	for _, w := range r.Without {
		p.Without = append(p.Without, nfa.Without{Name: w.Name, Where: c.predicate(w.Where)})
	}
	for _, u := range c.uses {
		if u.expr.UsesPrev {
			p.UsesPrev = true
			p.PrevSlots = append(p.PrevSlots, u.expr.PrevSlots...)
		}
	}
	slices.Sort(p.PrevSlots)
	p.PrevSlots = slices.Compact(p.PrevSlots)
	program, err := c.forms.Compile(p)
	if err != nil {
		c.fail(c.own.id, codeTooMuch, "", "the rule is more than cepd can run: %v", errors.Unwrap(err))
		return
	}
	r.Program = program
}

// lowered makes elements for the machine.
func (c *ruleChecker) lowered(elements []Element) []nfa.Element {
	var list []nfa.Element
	for _, e := range elements {
		n := nfa.Element{
			Kind: e.Kind, Name: e.Name, Absent: e.Absent, Where: c.predicate(e.Where), Link: e.Link, Loop: e.Loop,
			Min: e.Min, Max: e.Max, Optional: e.Optional, Within: e.Within, LoopWithin: e.LoopWithin, For: e.For,
			FromStart: e.FromStart, Times: e.Times, Need: e.Need, Greedy: e.Greedy, Until: c.predicate(e.Until),
			Having: c.predicate(e.Having), Distinct: value(e.Distinct), Edge: e.Edge, Elements: c.lowered(e.Elements),
		}
		for _, a := range e.Alternatives {
			n.Alternatives = append(n.Alternatives, c.lowered(a))
		}
		if f := e.FirstSeen; f != nil {
			n.FirstSeen = &nfa.FirstSeen{For: f.For, FromStart: f.FromStart}
			for _, x := range f.By {
				n.FirstSeen.By = append(n.FirstSeen.By, value(x))
			}
		}
		list = append(list, n)
	}
	return list
}

// value is an expression that the machine computes of an event alone.
func value(e *expression.Expr) *nfa.Expr {
	if e == nil {
		return nil
	}
	return &nfa.Expr{Text: e.Canonical, Slots: e.Slots, Eval: e.Eval}
}

// kept returns for each name the fields that expressions read of events it has taken, sorted.
func (c *ruleChecker) kept() [][]int {
	keep := make([][]int, len(c.rule.Names))
	for _, u := range c.uses {
		for step, slots := range u.expr.StepSlots {
			keep[step] = append(keep[step], slots...)
		}
	}
	for _, a := range c.rule.Aggregates {
		if a.Slot >= 0 {
			keep[a.Step] = append(keep[a.Step], a.Slot)
		}
	}
	for i := range keep {
		slices.Sort(keep[i])
		keep[i] = slices.Compact(keep[i])
	}
	return keep
}

// predicate returns the predicate of a condition. Conditions on the current event alone are shared by all rules of the
// set, so that the machine's memo evaluates each once an event; names of steps mean something else in every rule, so
// the others are not.
func (c *checker) predicate(e *expression.Expr) *nfa.Pred {
	if e == nil {
		return nil
	}
	if p, ok := c.predicates[e.Canonical]; ok && e.Unary {
		return p
	}
	p := &nfa.Pred{ID: c.count, Text: e.Canonical, Unary: e.Unary, Slots: e.Slots, Test: e.Test}
	c.count++
	if e.Unary {
		c.predicates[e.Canonical] = p
	}
	return p
}
