package patterns

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
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
	if r.Pattern == nil {
		c.lintLinks(c.parts)
		c.lintTail()
		c.lintReach()
	}
	c.lintClashes()
	c.lintNames()
	c.lintState()
	c.lintFields()
	if after := c.all.after; after != nil && after.target != nil && !c.isStep(r.Target) && c.names[after.target.value] == r.Target {
		c.warn(after.target, codeAfterAbsence, "name a step, or say after_match: none", "%q is an absence: it takes no event, so no start is ever skipped", after.target.value)
	}
	if r.Timeouts && r.Within == 0 && !bounded(r.Elements) {
		c.warn(c.all.onTimeout, codeNoTimeout, `add "within"`, "nothing in rule %q can time out", r.ID)
	}
}

// lintLinks warns of `any`, and of greed.
func (c *ruleChecker) lintLinks(parts []*part) {
	for _, p := range parts {
		e, el := p.syntax, p.el
		if el.Loop == nfa.Any && el.Max < 0 {
			c.warn(e.times, codeAnyLoop, "give \"times\" an upper bound, or leave \"loop\" out", "the loop %q takes any and has no upper bound: with n events that fit it has 2^n candidates", e.name.value)
		}
		if el.Link == nfa.Any && e.contiguity != nil {
			c.warn(e.contiguity, codeAny, "leave it out unless each pair is wanted", "%q goes on waiting after each event it takes: every event that fits is another candidate", e.name.value)
		}
		if el.Greedy {
			c.lintGreedy(p)
		}
		for _, inner := range p.inner {
			c.lintLinks(inner)
		}
	}
}

// lintGreedy warns of steps that a greedy loop starves (S3.5).
func (c *ruleChecker) lintGreedy(p *part) {
	if may, _ := p.after(); !may && !p.repeats() {
		c.warn(p.syntax.greedy, codeGreedyLast, "", "%q is the last element: greed changes nothing", p.syntax.name.value)
		return
	}
	for _, q := range p.next() {
		if q != p && !c.disjoint(p.el, q.el) {
			c.warn(q.syntax.name, codeGreedy, "let the condition of the greedy loop leave out what the step takes", "%q may fit what the greedy loop %q takes, and is never reached then", q.syntax.name.value, p.syntax.name.value)
		}
	}
}

// disjoint reports whether no event can be taken by both steps, as far as that can be seen.
func (c *ruleChecker) disjoint(a, b *Element) bool {
	if !slices.ContainsFunc(a.From, func(s string) bool { return slices.Contains(b.From, s) }) {
		return true
	}
	if a.Where == nil || b.Where == nil {
		return false
	}
	return c.trees.Exclude(a.Where, b.Where) || listed(a.Where, b.Where)
}

// lintTail warns of a last step that stops at its shortest (S5.4).
func (c *ruleChecker) lintTail() {
	if len(c.parts) > 0 && (c.rule.After == nfa.SkipPastLast || c.rule.After == nfa.SkipToNext) {
		c.lintTailOf(c.parts[len(c.parts)-1])
	}
}

func (c *ruleChecker) lintTailOf(p *part) {
	e, el := p.syntax, p.el
	switch {
	case el.Absent, el.Having != nil:
	case el.Optional:
		at := e.optional
		if at == nil {
			at = e.times
		}
		c.warn(at, codeTail, "end the sequence with {absent: more, for: 1m} to wait for it", "%q is optional and stands last, so it is never taken: the match is complete without it", e.name.value)
	case el.Max != el.Min && p.leaf():
		what := "event"
		if el.Distinct != nil {
			what = "different value"
		}
		c.warn(e.times, codeTail, "end the sequence with {absent: more, for: 1m} to collect until quiet", "the loop %q at the end never takes more than %s: the match is complete then", e.name.value, count(el.Min, what))
	case el.Max != el.Min:
		c.warn(e.times, codeTail, "end the sequence with {absent: more, for: 1m} to collect until quiet", "the %s at the end is never repeated more than %s: the match is complete then", e.kind, count(el.Min, "time"))
	case el.Kind == nfa.KindGroup || el.Kind == nfa.KindAnyOf:
		for _, inner := range p.inner {
			if len(inner) > 0 {
				c.lintTailOf(inner[len(inner)-1])
			}
		}
	}
}

// lintReach warns of matches that can never be complete.
func (c *ruleChecker) lintReach() {
	if least, limit := leastEvents(c.rule.Elements), c.rule.Limits.EventsPerMatch; least > limit {
		c.warn(c.own.id, codeNever, "raise limits.events_per_match", "a match of rule %q takes %d events or more, and %d are allowed", c.rule.ID, least, limit)
	}
}

// leastEvents is the number of events that a match of a sequence takes at least, up to a bound that no limit reaches.
func leastEvents(elements []Element) int {
	const most = 1 << 40
	sum := 0
	for _, e := range elements {
		if e.Absent || e.Optional {
			continue
		}
		n := 1
		switch e.Kind {
		case nfa.KindGroup:
			n = leastEvents(e.Elements)
		case nfa.KindAnyOf:
			n = most
			for _, a := range e.Alternatives {
				n = min(n, leastEvents(a))
			}
		case nfa.KindAllOf:
			if n = e.Need; n == 0 {
				n = len(e.Elements)
			}
		default:
		}
		sum = min(most, sum+n*max(1, e.Min))
	}
	return sum
}

// lookBack is the time above which remembering every value is worth a warning: a month.
const lookBack = cep.Duration(30 * 24 * time.Hour)

// lintState warns of rules that keep very much.
func (c *ruleChecker) lintState() {
	for _, p := range c.leaves {
		if f := p.el.FirstSeen; f != nil && f.For > lookBack {
			c.warn(p.syntax.firstSeen.hold, codeState, "", "every value of %q is remembered for so long, for each key", p.syntax.name.value)
		}
		if p.el.Distinct != nil && (c.rule.Within > lookBack || c.rule.Within == 0 && p.el.LoopWithin == 0) {
			c.warn(p.syntax.distinct, codeState, `bound the rule by a shorter "within"`, "every value of %q is kept for so long, for each key", p.syntax.name.value)
		}
	}
}

// bounded reports whether any element has a window of its own.
func bounded(elements []Element) bool {
	return slices.ContainsFunc(elements, func(e Element) bool {
		return e.Within > 0 || e.LoopWithin > 0 || bounded(e.Elements) || slices.ContainsFunc(e.Alternatives, bounded)
	})
}

// listed reports whether two conditions want a field to have different values, by what the lists of files hold now.
func listed(a, b *expression.Expr) bool {
	for _, x := range a.Equalities {
		for _, y := range b.Equalities {
			if x.Slot == y.Slot && len(x.Values) > 0 && len(y.Values) > 0 && !slices.ContainsFunc(x.Values, func(v cep.Value) bool {
				return slices.ContainsFunc(y.Values, func(w cep.Value) bool { return cep.Equal(v, w) })
			}) {
				return true
			}
		}
	}
	return false
}

// lintNames warns of steps named like a field.
func (c *ruleChecker) lintNames() {
	for i, p := range c.leaves {
		e := p.syntax
		if i > 0 && c.leaves[i-1].syntax == e {
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

// lintFields warns of fields that no event of the rule's tests has where one has a field of nearly the same name, or a step,
// list, map or macro has. Tests are the only witness of what fields there are; without them only such names are told that
// stand where a step, a list or a macro is usual.
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
			name, path := c.schema.Name(slot), c.schema.Path(slot)
			if len(known) == 0 || name == "" || slices.Contains(known, name) {
				continue
			}
			near := expression.Nearest(name, known)
			if near == "" && len(path) > 1 && !slices.Contains(known, path[0]) {
				name, near = path[0], expression.Nearest(path[0], c.stepNames())
			}
			if at := fieldOffset(u.expr.Text, name); near != "" && at >= 0 {
				c.lintField(u, at, name, near)
			}
		}
		for _, b := range c.trees.Bare(u.expr) {
			if slices.Contains(known, b.Name) || expression.Nearest(b.Name, known) != "" {
				continue
			}
			near := ""
			switch b.Role {
			case expression.Events:
				near = expression.Nearest(b.Name, c.stepNames())
			case expression.Values:
				near = nearTable(b.Name, c.lists)
			default:
				near = nearTable(b.Name, c.macros)
			}
			if near != "" {
				c.lintField(u, b.Offset, b.Name, near)
			}
		}
	}
}

// nearTable returns what a name without its $ may have been meant to be.
func nearTable[T any](name string, tables map[string]T) string {
	if _, is := tables[name]; is {
		return "$" + name
	}
	if near := expression.Nearest(name, slices.Sorted(maps.Keys(tables))); near != "" {
		return "$" + near
	}
	return ""
}

func (c *ruleChecker) lintField(u use, at int, name, near string) {
	d := u.text.at(u.offset+at, utf8.RuneCountInString(name))
	d.Code, d.Warning, d.Rule = codeField, true, c.rule.ID
	d.Message, d.Hint = fmt.Sprintf("unknown field name %q", name), fmt.Sprintf("did you mean %q?", near)
	c.add(d)
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
