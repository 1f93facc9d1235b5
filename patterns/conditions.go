package patterns

import (
	"fmt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns/expression"
)

// compile compiles an expression of the rule; nil where it has errors, which are reported where they stand in the file.
func (c *ruleChecker) compile(t *text, place *expression.Place) *expression.Expr {
	return c.compileAt(t, t.value, 0, place)
}

// compileAt compiles a part of a text that begins at an offset.
func (c *ruleChecker) compileAt(t *text, source string, offset int, place *expression.Place) *expression.Expr {
	place.Schema = c.schema
	place.Lists, place.Maps, place.Macros = c.lists, c.maps, c.macros
	place.Aggregates = c.aggregates
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
		at := t.at(p.Offset + offset)
		excerpt := t.file
		if m := c.macroTexts[p.Macro]; p.Macro != "" && m != nil {
			at, excerpt = m.at(p.Offset), m.file
		}
		if !p.Warning {
			c.failed = true
		}
		c.add(Diagnostic{
			Pos: at, Length: p.Length, Code: p.Code, Message: p.Message, Hint: p.Hint, Warning: p.Warning,
			Rule: c.rule.ID, Excerpt: excerpt.Line(at.Line),
		})
	}
}

// conditions compiles the conditions of the rule, its exceptions and its elements.
func (c *ruleChecker) conditions() {
	if t := c.all.where; t != nil {
		c.rule.Where = c.compile(t, &expression.Place{Event: true, Condition: true})
	}
	c.exceptions()
	els := c.rule.Elements
	for i, e := range c.elements {
		if e.where == nil {
			continue
		}
		if i > 0 && c.elements[i-1] == e {
			els[i].Where = els[i-1].Where // the two halves of an absence alone
			continue
		}
		c.rule.Elements[i].Where = c.compile(e.where, c.place(i))
	}
}

// place says what the condition of an element sees (S1.6).
func (c *ruleChecker) place(i int) *expression.Place {
	els := c.rule.Elements
	p := &expression.Place{
		Condition: true, Event: true, Prev: true, Match: true, Key: c.rule.Key,
		Own: c.rule.Names[els[i].Name], OwnIndex: els[i].Name, Taken: !els[i].Absent,
	}
	reach := i // elements before this one may be named
	if els[i].Absent {
		// An absence at the start is judged when the step behind it takes its event, and may name that step. Where that
		// step is optional it may be the one behind.
		atStart := true
		for _, e := range els[:i] {
			atStart = atStart && e.Absent
		}
		for j := i + 1; atStart && j < len(els); j++ {
			reach = j + 1
			if !els[j].Absent && !els[j].Optional {
				break
			}
		}
	}
	for j, e := range els {
		name := c.rule.Names[e.Name]
		switch {
		case e.Absent, j == i:
		case j < reach:
			p.Steps = append(p.Steps, expression.Step{Name: name, Index: e.Name, List: e.Max != 1})
		default:
			p.Later = append(p.Later, name)
		}
	}
	return p
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
			if n := len(c.elements); n > 1 && c.elements[0] == c.elements[n-1] {
				exception.Steps = append(exception.Steps, i+1) // the other half of an absence alone
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
