package patterns

import (
	"fmt"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns/expression"
)

// compile compiles an expression of the rule; nil where it has errors, which are reported where they stand in the file.
func (c *ruleChecker) compile(t *text, place *expression.Place) *expression.Expr {
	if c.rule.Pattern == nil {
		place.Aggregates = c.aggregates // the ways of a row pattern carry none
	}
	return c.compileAt(t, t.value, 0, place)
}

// compileAt compiles a part of a text that begins at an offset. It keeps no aggregates: alerts are rare, and walk.
func (c *ruleChecker) compileAt(t *text, source string, offset int, place *expression.Place) *expression.Expr {
	place.Schema = c.schema
	place.Lists, place.Maps, place.Macros = c.lists, c.maps, c.macros
	place.Trees = c.trees
	e, problems := expression.Compile(source, place)
	c.problems(t, offset, problems)
	if e == nil {
		c.failed = true
		return nil
	}
	c.uses = append(c.uses, use{e, t, offset})
	return e
}

// problems reports what is wrong with an expression: in its own text, or in the macro that it uses.
func (c *ruleChecker) problems(t *text, offset int, problems []expression.Problem) {
	for _, p := range problems {
		if !p.Warning {
			c.failed = true
		}
		d := t.at(p.Offset+offset, p.Length)
		if m := c.macroTexts[p.Macro]; p.Macro != "" && m != nil {
			d = m.at(p.Offset, p.Length)
		}
		d.Code, d.Message, d.Hint, d.Warning, d.Rule = p.Code, p.Message, p.Hint, p.Warning, c.rule.ID
		c.add(d)
	}
}

// conditions compiles the conditions of the rule, its exceptions, its elements and its `without`.
func (c *ruleChecker) conditions() {
	if t := c.all.where; t != nil {
		c.rule.Where = c.compile(t, &expression.Place{Event: true, Condition: true})
	}
	c.exceptions()
	c.conditionsOf(c.parts)
	for i, w := range c.all.without {
		if w.where != nil {
			c.rule.Without[i].Where = c.compile(w.where, c.see(c.leaves, nil, &expression.Place{Condition: true, Event: true, Prev: true, Match: true}))
		}
	}
}

func (c *ruleChecker) conditionsOf(parts []*part) {
	for i, p := range parts {
		e, el := p.syntax, p.el
		switch {
		case i > 0 && parts[i-1].syntax == e: // the second half of what was written as one
			el.Where = parts[i-1].el.Where
			if parts[i-1].el.Edge {
				el.Where = fails(el.Where)
			}
			continue
		case e.kind == kindAllOf && e.where != nil:
			// It is asked about whichever member comes last, with the others already taken.
			el.Where = c.compile(e.where, c.see(append(p.earlier(), leavesOf(nil, p.inner[0])...), nil, &expression.Place{
				Condition: true, Event: true, Prev: true, Match: true,
			}))
		case e.where != nil:
			el.Where = c.compile(e.where, c.place(p))
		}
		c.words(p)
		for _, inner := range p.inner {
			c.conditionsOf(inner)
		}
	}
}

// fails is the condition that another one does not hold: that it is false, or errs (S2.5).
func fails(e *expression.Expr) *expression.Expr {
	if e == nil {
		return nil
	}
	not := expression.Expr{
		Text: "not held (" + e.Text + ")", Canonical: "not held (" + e.Canonical + ")", Unary: e.Unary,
		UsesPrev: e.UsesPrev, PrevSlots: e.PrevSlots, Slots: e.Slots, Steps: e.Steps, StepSlots: e.StepSlots, AllSteps: e.AllSteps,
	}
	not.Test = func(s *cep.Scope) (bool, error) {
		ok, err := e.Test(s)
		return !ok || err != nil, nil
	}
	not.Eval = func(s *cep.Scope) (cep.Value, error) {
		ok, err := not.Test(s)
		return cep.Bool(ok), err
	}
	return &not
}

// place says what the condition of a leaf sees (S1.6).
func (c *ruleChecker) place(p *part) *expression.Place {
	if c.rule.Pattern != nil {
		return c.rowPlace(p)
	}
	visible := p.earlier()
	if may, _ := p.before(); p.el.Absent && !may {
		// An absence at the start is judged when the step behind it takes its event, and may name that step.
		visible = append(visible, p.next()...)
	}
	place := &expression.Place{
		Condition: true, Event: true, Prev: true, Match: true,
		Own: p.syntax.name.value, OwnIndex: p.el.Name, Taken: !p.el.Absent,
	}
	return c.see(visible, p, place)
}

// see adds the names of leaves that may be read to a place; those that are neither these nor the part's own are names
// behind it.
func (c *ruleChecker) see(visible []*part, own *part, place *expression.Place) *expression.Place {
	place.Key = c.rule.Key
	for _, q := range c.leaves {
		switch name := c.rule.Names[q.el.Name]; {
		case q.el.Absent, own != nil && q.el == own.el:
		case slices.Contains(visible, q):
			place.Steps = append(place.Steps, expression.Step{Name: name, Index: q.el.Name, List: q.list()})
		default:
			place.Later = append(place.Later, name)
		}
	}
	return place
}

// words compiles the other expressions of an element: until, having, distinct, first_seen.
func (c *ruleChecker) words(p *part) {
	e, el := p.syntax, p.el
	if e.until != nil {
		place := &expression.Place{Condition: true, Event: true, Prev: true, Match: true}
		visible := p.earlier()
		if p.leaf() {
			place.OwnIndex, place.Taken = el.Name, true
		} else {
			visible = append(visible, leavesOf(nil, p.inner[0])...)
		}
		el.Until = c.compile(e.until, c.see(visible, p, place))
	}
	if e.having != nil {
		place := c.see(append(p.earlier(), p), nil, &expression.Place{Condition: true, Having: true, Match: true})
		if p.repeats() {
			// The loop's own name is this pass of it, and the rule's aggregates are about all passes.
			el.Having = c.compileAt(e.having, e.having.value, 0, place)
		} else {
			el.Having = c.compile(e.having, place)
		}
	}
	alone := func() *expression.Place {
		place := &expression.Place{Event: true, Own: e.name.value, OwnIndex: el.Name}
		for _, name := range c.rule.Names {
			if name != e.name.value {
				place.Hidden = append(place.Hidden, name)
			}
		}
		return place
	}
	if e.distinct != nil {
		el.Distinct = c.compile(e.distinct, alone())
	}
	if f := e.firstSeen; f != nil && el.FirstSeen != nil {
		for _, t := range f.by {
			if x := c.compile(t, alone()); x != nil {
				el.FirstSeen.By = append(el.FirstSeen.By, x)
			}
		}
		if w := el.Where; w != nil && (len(w.Steps) > 0 || w.AllSteps) {
			c.fail(e.where, codeFirstSeen, "", "%q has \"first_seen\", so its condition cannot ask what other steps, or this one, have taken", e.name.value)
		}
	}
}

// maxExceptions bounds the exceptions of a rule: each is evaluated for every event that it may read.
const maxExceptions = 1_000

// exceptions checks the exceptions of the rule (S1.4).
func (c *ruleChecker) exceptions() {
	if len(c.all.exceptions) > maxExceptions {
		c.fail(c.all.exceptions[maxExceptions].name, codeTooMany, "use a list", "a rule has at most %d exceptions", maxExceptions)
		return
	}
	seen := map[string]bool{}
	for _, x := range c.all.exceptions {
		if seen[x.name.value] {
			c.fail(x.name, codeDuplicate, "", "two exceptions are named %q", x.name.value)
		}
		seen[x.name.value] = true
		exception := Exception{Name: x.name.value, Expires: cep.AfterAll}
		if x.expires != nil {
			at, ok := parseMoment(x.expires.value)
			if !ok {
				c.fail(x.expires, codeTime, "write a date, or a time with a zone: 2027-06-30, 2027-06-30T12:00:00Z", "%q is no date or time", x.expires.value)
			}
			exception.Expires = at
		}
		for _, s := range x.steps {
			i, ok := c.names[s.value]
			if !ok {
				if c.own.exceptions != nil {
					c.fail(s, codeSteps, c.didYouMean(c.own.File, s.value, c.rule.Names), "the rule has no element %q", s.value)
				}
				continue
			}
			exception.Steps = append(exception.Steps, i)
			if c.isAlone {
				exception.Steps = append(exception.Steps, i+1) // its other half
			}
		}
		if x.steps != nil && len(exception.Steps) == 0 {
			if len(x.steps) == 0 {
				c.fail(x.name, codeSteps, `leave "steps" out to hide events from all`, "exception %q is for no step", x.name.value)
			}
			continue // a default for steps that this rule does not have
		}
		exception.Where = c.compile(x.where, &expression.Place{Event: true, Condition: true})
		c.rule.Exceptions = append(c.rule.Exceptions, exception)
	}
}

// count formats a number of things.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
