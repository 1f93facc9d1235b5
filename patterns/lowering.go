package patterns

import (
	"fmt"
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
	for _, e := range r.Elements {
		p.Elements = append(p.Elements, nfa.Element{
			Name: e.Name, Absent: e.Absent, Where: c.predicate(e.Where), Link: e.Link, Loop: e.Loop, Min: e.Min, Max: e.Max,
			Optional: e.Optional, Within: e.Within, LoopWithin: e.LoopWithin, For: e.For, FromStart: e.FromStart,
		})
		if e.Where != nil && e.Where.UsesPrev {
			p.UsesPrev = true
			p.PrevSlots = append(p.PrevSlots, e.Where.PrevSlots...)
		}
	}
	slices.Sort(p.PrevSlots)
	p.PrevSlots = slices.Compact(p.PrevSlots)
	program, err := nfa.Compile(p)
	if err != nil {
		// The checker has refused all that a machine refuses, in words for people.
		panic(fmt.Sprintf("rule %s passed the checker: %v", r.ID, err))
	}
	r.Program = program
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
