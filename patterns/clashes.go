package patterns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns/expression"
)

// lintClashes warns of conditions that can never hold, and of exceptions from which nothing is left. All of it is proved:
// what is only unlikely is no business of a lint.
func (c *ruleChecker) lintClashes() {
	r := c.rule
	if c.lintClash(c.all.where, r.Where, "no event passes", expression.Given{By: c.oneKey()}, r.Where) {
		return // nothing below could hold either
	}
	c.lintExceptions()
	for i, p := range c.leaves {
		if i > 0 && c.leaves[i-1].syntax == p.syntax {
			continue // the second half of what was written as one
		}
		e, el := p.syntax, p.el
		never := "%q can never fit"
		switch e.kind {
		case kindHold:
			never = "%q can never begin to hold"
		case kindAbsent:
			never = "%q never sees an event"
		default:
		}
		c.lintClash(e.where, el.Where, fmt.Sprintf(never, e.name.value), c.given(p), r.Where, el.Where)
		c.lintClash(e.having, el.Having, fmt.Sprintf("%q can never be left", e.name.value), c.givenHaving(p), el.Having)
	}
	c.lintComposites(c.parts)
	for i, w := range c.all.without {
		c.lintClash(w.where, r.Without[i].Where, fmt.Sprintf("%q never sees an event", w.name.value), expression.Given{By: r.Without[i].By}, r.Where, r.Without[i].Where)
	}
	if end := r.Alert.Resolve; end != nil {
		c.lintClash(c.all.alert.resolve.where, end.Where, "no event resolves the alert", expression.Given{By: end.By}, end.Where)
	}
}

// lintComposites warns of what elements of all kinds can have: `until`, and the `where` of an all_of.
func (c *ruleChecker) lintComposites(parts []*part) {
	for i, p := range parts {
		if i > 0 && parts[i-1].syntax == p.syntax {
			continue
		}
		c.lintClash(p.syntax.until, p.el.Until, fmt.Sprintf("%q never ends so", p.syntax.name.value), expression.Given{}, c.rule.Where, p.el.Until)
		if p.el.Kind == nfa.KindAllOf {
			c.lintClash(p.syntax.where, p.el.Where, "the all_of can never be complete", expression.Given{}, c.rule.Where, p.el.Where)
		}
		for _, inner := range p.inner {
			c.lintComposites(inner)
		}
	}
}

// lintExceptions warns of exceptions that hide all, or nothing.
func (c *ruleChecker) lintExceptions() {
	where := c.rule.Where
	for _, x := range c.rule.Exceptions {
		i := slices.IndexFunc(c.all.exceptions, func(s *exceptionSyntax) bool { return s.name.value == x.Name })
		s := c.all.exceptions[i]
		if len(x.Steps) == 0 && c.trees.Implied(x.Where, where) {
			c.warn(s.where, codeHidden, "", "the exception %q hides every event that the rule could see", x.Name)
			continue
		}
		useless := true
		for j, p := range c.leaves {
			if len(x.Steps) > 0 && !slices.Contains(x.Steps, p.el.Name) || j > 0 && c.leaves[j-1].syntax == p.syntax {
				continue
			}
			if p.el.Where != nil && !p.el.Absent && c.trees.Implied(x.Where, where, p.el.Where) {
				c.warn(s.where, codeHidden, "", "the exception %q hides every event that %q could take", x.Name, p.syntax.name.value)
			}
			if len(x.Steps) > 0 {
				_, never := c.trees.Clash(c.given(p), where, p.el.Where, x.Where)
				useless = useless && never
			}
		}
		switch {
		case c.own.exceptions == nil: // a default may be meant for other rules
		case len(x.Steps) == 0:
			c.lintClash(s.where, x.Where, fmt.Sprintf("the exception %q never hides an event", x.Name), expression.Given{By: c.oneKey()}, where, x.Where)
		case useless:
			c.warn(s.where, codeNever, "", "the exception %q never hides an event: none fits it and its steps", x.Name)
		}
	}
}

// lintClash warns of a condition that can never hold together with others, and reports whether it did. what says what
// never happens then.
func (c *ruleChecker) lintClash(t *text, own *expression.Expr, what string, given expression.Given, conditions ...*expression.Expr) bool {
	if t == nil || own == nil {
		return false
	}
	clash, ok := c.trees.Clash(given, conditions...)
	if !ok {
		return false
	}
	at := -1
	var others []string
	for i, p := range clash.Parts {
		if p.Of == own {
			at = i
		}
	}
	if at < 0 {
		return false // the `where` of the rule, of which all is said
	}
	isOwn := true
	for i, p := range clash.Parts {
		switch {
		case i == at:
		case p.Of == own:
			others = append(others, p.Text)
		case p.Of == nil:
			others = append(others, p.Text+", "+p.Why)
			isOwn = false
		default:
			others = append(others, p.Text+` in the "where" of the rule`)
			isOwn = false
		}
	}
	part := clash.Parts[at]
	why, hint := part.Text+" is never true", ""
	switch {
	case len(others) > 0:
		why = part.Text + " contradicts " + strings.Join(others, " and ")
	case part.Text == "false":
		why = "it is always false"
	}
	if isOwn && len(others) == 1 {
		hint = `write "or" between them if either is meant`
		if clash.Either != "" {
			hint = "write " + clash.Either + " if either is meant"
		}
	}
	if clash.Key != "" {
		what += ", unless " + clash.Key + " is a list"
	}
	if part.Length == 0 { // it stands in a macro
		c.warn(t, codeNever, hint, "%s: %s", what, why)
		return true
	}
	d := t.at(part.Offset, part.Length)
	d.Code, d.Message, d.Hint, d.Warning, d.Rule = codeNever, what+": "+why, hint, true, c.rule.ID
	c.add(d)
	return true
}

// oneKey is the key of all events that the rule sees; nil where its elements have keys of their own.
func (c *ruleChecker) oneKey() []*expression.Expr {
	all := c.keyed()
	if len(all) == 0 {
		return nil
	}
	one := *all[0].key
	if slices.ContainsFunc(all, func(k keyed) bool { return !slices.Equal(*k.key, one) }) {
		return nil
	}
	return one
}

// given is what is known where the condition of a leaf is asked: the key of its event, that of events taken before, and
// how many these are.
func (c *ruleChecker) given(p *part) expression.Given {
	g := expression.Given{By: p.el.By, StepBy: map[int][]*expression.Expr{}, Counts: map[int]expression.Count{}}
	if c.rule.Pattern != nil {
		return g // which steps stand before it depends on the way through the pattern
	}
	top := p
	for top.parent != nil {
		top = top.parent
	}
	for _, q := range c.leaves {
		if q.el == p.el || q.parent != nil || q.el.Absent {
			continue
		}
		count := expression.Count{Most: mostOf(q)}
		if q.index < top.index && !q.el.Optional {
			g.StepBy[q.el.Name] = q.el.By
			if !p.el.Absent { // an absence looks at what comes from the first event of a loop on (S4.1)
				count.Least = q.el.Min
			}
		}
		g.Counts[q.el.Name] = count
	}
	// Its own name is what it has taken so far, without the event under test.
	if most := mostOf(p); most > 0 {
		g.Counts[p.el.Name] = expression.Count{Most: most - 1}
	}
	return g
}

// givenHaving is what is known where a loop may be left: how much this pass of it took.
func (c *ruleChecker) givenHaving(p *part) expression.Given {
	count := expression.Count{Least: p.el.Min, Most: p.el.Max}
	if p.el.Distinct != nil {
		count.Most = -1 // known values are taken, and not counted
	}
	g := c.given(p)
	g.By = nil
	g.StepBy = nil
	g.Counts[p.el.Name] = count
	return g
}

// mostOf is the largest number of events that a leaf takes in a match; -1 without a bound.
func mostOf(p *part) int {
	if p.el.Max < 0 || p.el.Distinct != nil || p.repeats() {
		return -1
	}
	return p.el.Max
}
