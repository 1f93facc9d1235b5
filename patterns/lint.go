package patterns

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns/expression"
)

// lint warns about what is allowed and probably not meant. It is given rules without errors.
func (c *ruleChecker) lint() {
	r := c.rule
	lone := len(r.Elements) == 1 && r.Elements[0].Max == 1
	if len(r.Key) == 0 && !lone {
		c.warn(c.own.id, codeNoKey, `add "by: [user]", or whatever the events of one match have in common`, "rule %q has no key: all its events are one sequence", r.ID)
	}
	c.lintLinks()
	c.lintTail()
	c.lintReach()
	c.lintNames()
	c.lintFields()
	if after := c.all.after; after != nil && after.target != nil && c.isAbsence(r.Target) && c.names[after.target.value] == r.Target {
		c.warn(after.target, codeAfterAbsence, "name a step, or say after_match: none", "%q is an absence: it takes no event, so no start is ever skipped", after.target.value)
	}
	if r.Timeouts && r.Within == 0 && !slices.ContainsFunc(r.Elements, func(e Element) bool { return e.Within > 0 || e.LoopWithin > 0 }) {
		c.warn(c.all.onTimeout, codeNoTimeout, `add "within"`, "nothing in rule %q can time out", r.ID)
	}
}

// lintLinks warns of `any`.
func (c *ruleChecker) lintLinks() {
	for i, e := range c.elements {
		el := c.rule.Elements[i]
		if el.Loop == nfa.Any && el.Max < 0 {
			c.warn(e.times, codeAnyLoop, "give \"times\" an upper bound, or leave \"loop\" out", "the loop %q takes any and has no upper bound: with n events that fit it has 2^n candidates", e.name.value)
		}
		if el.Link == nfa.Any && e.contiguity != nil {
			c.warn(e.contiguity, codeAny, "leave it out unless each pair is wanted", "%q goes on waiting after each event it takes: every event that fits is another candidate", e.name.value)
		}
	}
}

// lintTail warns of a last step that stops at its shortest (S5.4).
func (c *ruleChecker) lintTail() {
	last := len(c.rule.Elements) - 1
	if last < 0 || last >= len(c.elements) || c.rule.After == nfa.SkipNone {
		return
	}
	if c.rule.After != nfa.SkipPastLast && c.rule.After != nfa.SkipToNext {
		return
	}
	e, el := c.elements[last], c.rule.Elements[last]
	switch {
	case el.Absent:
	case el.Optional:
		at := e.optional
		if at == nil {
			at = e.times
		}
		c.warn(at, codeTail, "end the sequence with {absent: more, for: 1m} to wait for it", "the optional step %q at the end is never taken: the match is complete without it", e.name.value)
	case el.Max != el.Min:
		c.warn(e.times, codeTail, "end the sequence with {absent: more, for: 1m} to collect until quiet", "the loop %q at the end never takes more than %s: the match is complete then", e.name.value, count(el.Min, "event"))
	}
}

// lintReach warns of steps that can never be reached.
func (c *ruleChecker) lintReach() {
	events := 0
	for i, e := range c.elements {
		el := c.rule.Elements[i]
		if !el.Absent && !el.Optional {
			events += el.Min
		}
		if el.Where == nil || i > 0 && c.elements[i-1] == e {
			continue
		}
		if slot, ok := contradiction(c.rule.Where, el.Where); ok {
			c.warn(e.where, codeNever, "", "%q can never fit: its condition on %s contradicts the \"where\" of the rule", e.name.value, c.schema.Name(slot))
		}
	}
	if limit := c.rule.Limits.EventsPerMatch; events > limit {
		c.warn(c.own.id, codeNever, "raise limits.events_per_match", "a match of rule %q takes %d events or more, and %d are allowed", c.rule.ID, events, limit)
	}
}

// contradiction finds a field that two conditions want to have different values.
func contradiction(a, b *expression.Expr) (slot int, ok bool) {
	if a == nil || b == nil {
		return 0, false
	}
	for _, x := range a.Equalities {
		for _, y := range b.Equalities {
			if x.Slot != y.Slot || len(x.Values) == 0 || len(y.Values) == 0 {
				continue
			}
			if !slices.ContainsFunc(x.Values, func(v cep.Value) bool {
				return slices.ContainsFunc(y.Values, func(w cep.Value) bool { return cep.Equal(v, w) })
			}) {
				return x.Slot, true
			}
		}
	}
	return 0, false
}

// lintNames warns of steps named like a field.
func (c *ruleChecker) lintNames() {
	for i, e := range c.elements {
		if i > 0 && c.elements[i-1] == e {
			continue
		}
		for _, u := range c.uses {
			if slices.ContainsFunc(u.expr.Slots, func(slot int) bool {
				path := c.schema.Path(slot)
				return len(path) > 0 && path[0] == e.name.value
			}) {
				c.warn(e.name, codeStepField, "give the step another name", "the step %q is named like a field that line %d reads", e.name.value, u.text.Line)
				break
			}
		}
	}
}

// maxKnown bounds the names that a misspelt field is compared with.
const maxKnown = 1_000

// lintFields warns of fields that no event of the rule's tests has where one has a field of nearly the same name. Tests
// are the only witness of what fields there are.
func (c *ruleChecker) lintFields() {
	var known []string
	for _, t := range c.all.tests {
		for _, s := range t.steps {
			if s.file != nil {
				return // who knows what is in the file
			}
			if s.node != nil {
				known = fieldNames(known, "", s.node)
			}
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	if len(known) > maxKnown {
		return
	}
	for _, u := range c.uses {
		for _, slot := range u.expr.Slots {
			name := c.schema.Name(slot)
			if name == "" || slices.Contains(known, name) {
				continue
			}
			near := expression.Nearest(name, known)
			at := fieldOffset(u.expr.Text, name)
			if near == "" || at < 0 {
				continue
			}
			pos := u.text.at(u.offset + at)
			c.add(Diagnostic{
				Pos: pos, Length: utf8.RuneCountInString(name), Code: codeField, Warning: true, Rule: c.rule.ID,
				Message: fmt.Sprintf("unknown field name %q", name), Hint: c.didYouMean(c.own.File, name, []string{near}),
				Excerpt: u.text.file.Line(pos.Line),
			})
		}
	}
}

// fieldNames adds the names of the fields of a written event, nested ones with dots.
func fieldNames(names []string, prefix string, n *yamlnode.Node) []string {
	for k, v := range yamlnode.Pairs(n) {
		names = append(names, prefix+k.Value)
		if v.Kind == yamlnode.Map {
			names = fieldNames(names, prefix+k.Value+".", v)
		}
	}
	return names
}

// fieldOffset finds a field in the text of an expression, in runes; -1 where it is not written like that.
func fieldOffset(source, name string) int {
	at := regexp.MustCompile(`(^|[^\w."'$])` + regexp.QuoteMeta(name) + `($|[^\w])`).FindStringIndex(source)
	if at == nil {
		return -1
	}
	return utf8.RuneCountInString(source[:at[0]+strings.Index(source[at[0]:], name)])
}
