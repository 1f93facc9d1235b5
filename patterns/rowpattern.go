package patterns

import (
	"fmt"
	"slices"

	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns/expression"
)

// Row is a row pattern (S6), for readers of [Rule.Pattern] that do not know the machine.
type Row = nfa.Row

// The kinds of a Row.
const (
	RowStep     = nfa.RowStep
	RowSequence = nfa.RowSequence
	RowChoice   = nfa.RowChoice
	RowPermute  = nfa.RowPermute
	RowRepeat   = nfa.RowRepeat
	RowExclude  = nfa.RowExclude
)

// steps reads the steps of a row pattern: names with what each may take.
func (r *reader) steps(n *yamlnode.Node) []*elementSyntax {
	if n.Kind != yamlnode.Map {
		r.at(n, codeShape, "write steps: {a: {}, b: {where: …}}", `"steps" must be a map of names`)
		return nil
	}
	list := []*elementSyntax{}
	for k, v := range yamlnode.Pairs(n) {
		e := &elementSyntax{Pos: r.pos(k), kind: kindStep, name: r.text(k, "a step")}
		if e.name == nil {
			continue
		}
		r.mapping(v, "a step of a pattern", keys{
			"where": r.into(&e.where),
			"from":  r.intoTextOrTexts(&e.from),
			"by":    func(_, v *yamlnode.Node) { e.by = r.by(v) },
		})
		list = append(list, e)
	}
	return list
}

// rowShape checks a row pattern and makes an element of each of its steps (S6).
func (c *ruleChecker) rowShape() {
	r := c.rule
	if c.own.sequence != nil {
		c.fail(c.own.pattern, codeRowWord, "", `a rule has either "sequence" or "pattern"`)
		return
	}
	if c.all.pattern == nil {
		c.failed = true // reported when it was read
		return
	}
	if c.all.steps == nil {
		c.failed = true
		if !c.own.given["steps"] {
			c.fail(c.all.pattern, codeRowSteps, `add "steps" with a name and a condition for each step`, "the pattern has no steps")
		}
		return
	}
	if len(c.all.steps) == 0 {
		c.fail(c.all.pattern, codeRowSteps, "", `"steps" is empty`)
		return
	}
	// To all that is checked alike the steps are a sequence.
	all := *c.all
	all.sequence = &sequenceSyntax{Pos: all.pattern.Pos, elements: all.steps}
	c.all = &all
	r.Elements, c.parts = c.build(c.all.steps, nil)
	c.leaves = leavesOf(nil, c.parts)
	if len(r.Names) > maxNames {
		c.fail(c.own.id, codeTooMany, "", "rule %q has %d steps; %d are allowed", r.ID, len(r.Names), maxNames)
		return
	}
	names := func(name string, offset, length int) (int, bool) {
		i, ok := c.names[name]
		if !ok {
			c.markRows(offset, length, codeRowSteps, c.didYouMean(c.own.File, name, r.Names), "the pattern names the step %q, and \"steps\" has none of this name", name)
		}
		return i, ok
	}
	row, problems := parseRows(c.all.pattern.value, names)
	for _, p := range problems {
		c.markRows(p.Offset, p.Length, codeRow, p.Hint, "%s", p.Message)
	}
	if row == nil || c.failed {
		c.failed = true
		return
	}
	r.Pattern = row
	facts := factsOfRows(row, len(r.Names))
	for i := range r.Elements {
		e := &r.Elements[i]
		e.Link, e.Loop = nfa.Strict, nfa.Strict
		if facts.most[i] > 1 {
			e.Max = -1 // a list for whoever reads it
		}
		if facts.most[i] == 0 {
			c.fail(c.all.steps[i].name, codeRowSteps, "", "the step %q is not in the pattern", r.Names[i])
		}
	}
	if facts.blank && facts.prefersBlank {
		c.warn(c.all.pattern, codeRowBlank, "use the greedy forms, without ? behind them", "the pattern prefers to match nothing, so it never matches")
	}
	c.rowLint(facts)
}

// markRows reports a mistake at a place of the pattern.
func (c *ruleChecker) markRows(offset, length int, code, hint, format string, args ...any) {
	c.failed = true
	d := c.all.pattern.at(offset, length)
	d.Code, d.Message, d.Hint, d.Rule = code, fmt.Sprintf(format, args...), hint, c.rule.ID
	c.add(d)
}

// rowLint warns of patterns that are probably not meant.
func (c *ruleChecker) rowLint(facts rowFacts) {
	if after := c.all.after; after != nil && after.target != nil && after.word.value == "to_first" {
		if i, ok := c.names[after.target.value]; ok && facts.first[i] {
			c.warn(after.target, codeRowAfter, "write after_match: to_next", "%q is always the first event of a match, so this is to_next", after.target.value)
		}
	}
	row := c.rule.Pattern
	if row.Kind == nfa.RowSequence {
		for i := range row.Parts[:len(row.Parts)-1] {
			p := &row.Parts[i]
			if p.Kind == nfa.RowRepeat && p.Max < 0 && !p.Reluctant && p.Parts[0].Kind == nfa.RowStep &&
				c.all.steps[p.Parts[0].Name].where == nil {
				name := c.rule.Names[p.Parts[0].Name]
				c.warn(c.all.pattern, codeRowGreedy, "write the reluctant form, "+name+"*?, which is decided at once",
					"%q takes every event, so only the end of the window decides how many", name)
			}
		}
	}
	if hiddenAlternative(row) {
		c.warn(c.all.pattern, codeRowHidden, "write the longer alternative first", "an alternative at the end is never reached: the one before it is complete as soon as it begins")
	}
	if blankLoop(row) {
		c.warn(c.all.pattern, codeRowLoop, "take the inner ? or * away", "an unbounded loop over a part that can take nothing")
	}
}

// hiddenAlternative finds a | a b at the end of a pattern.
func hiddenAlternative(row *nfa.Row) bool {
	switch row.Kind {
	case nfa.RowSequence:
		return hiddenAlternative(&row.Parts[len(row.Parts)-1])
	case nfa.RowChoice:
		for i := range row.Parts {
			for j := range row.Parts[:i] {
				if isRowPrefix(&row.Parts[j], &row.Parts[i]) {
					return true
				}
			}
		}
	default:
	}
	return false
}

// isRowPrefix says that b begins with all of a.
func isRowPrefix(a, b *nfa.Row) bool {
	parts := func(r *nfa.Row) []nfa.Row {
		if r.Kind == nfa.RowSequence {
			return r.Parts
		}
		return []nfa.Row{*r}
	}
	x, y := parts(a), parts(b)
	if len(x) > len(y) {
		return false
	}
	for i := range x {
		if x[i].Kind != nfa.RowStep || y[i].Kind != nfa.RowStep || x[i].Name != y[i].Name {
			return false
		}
	}
	return true
}

// blankLoop finds an unbounded loop whose body can take no event.
func blankLoop(row *nfa.Row) bool {
	if row.Kind == nfa.RowRepeat && row.Max < 0 && isBlank(&row.Parts[0]) {
		return true
	}
	return slices.ContainsFunc(row.Parts, func(p nfa.Row) bool { return blankLoop(&p) })
}

// rowPlace says what the condition of a step of a row pattern sees: every step, for it may stand anywhere (S6.4).
func (c *ruleChecker) rowPlace(p *part) *expression.Place {
	place := &expression.Place{
		Condition: true, Event: true, Prev: true, Match: true, Taken: true, Key: c.rule.Key,
		Own: c.rule.Names[p.el.Name], OwnIndex: p.el.Name,
	}
	for _, e := range c.rule.Elements {
		if e.Name != p.el.Name {
			place.Steps = append(place.Steps, expression.Step{Name: c.rule.Names[e.Name], Index: e.Name, List: e.Max != 1})
		}
	}
	return place
}

// rowOptions refuses words that have no meaning with a row pattern (S6.3).
func (c *ruleChecker) rowOptions() {
	refuse := func(t *text, word string) {
		if t != nil && t.value == word {
			c.fail(t, codeRowWord, "", "%q has no meaning with a pattern: one match follows the other", word)
		}
	}
	refuse(c.own.emit, "ordered")
	refuse(c.own.keep, "newest")
	refuse(c.own.onTimeout, "emit")
	if c.own.after != nil {
		refuse(c.own.after.word, "none")
	}
	r := c.rule
	r.Ordered, r.Newest, r.Timeouts = false, false, false // of defaults
	if r.After == nfa.SkipNone {
		r.After = nfa.SkipPastLast
	}
	if len(r.Without) > 0 {
		c.fail(c.all.pattern, codeRowWord, "give the steps conditions", `"without" cannot stand beside a pattern`)
	}
}

// lowerRows puts the row pattern into what the machine is made from.
func (c *ruleChecker) lowerRows(p *nfa.Pattern) {
	p.Rows = c.rule.Pattern
	for _, e := range c.rule.Elements {
		if w := e.Where; w != nil && (len(w.Steps) > 0 || w.AllSteps) {
			p.RowsLookBack = true
		}
	}
}

// names makes names for nfa.
func names(list []string) []nfa.Name {
	var out []nfa.Name
	for _, n := range list {
		out = append(out, nfa.Name{Name: n})
	}
	return out
}
