package patterns

import (
	"slices"

	"github.com/cepd/cepd/patterns/expression"
)

// includeWords are the words of `include_events`, by [Include].
var includeWords = []string{"ids", "none", "first_last", "all"}

// alertNames are what an alert says as an event of the stream `alerts`, beside its fields (S8).
var alertNames = []string{"rule", "kind", "severity", "key", "tags"}

// maxFields bounds what an alert carries: it is a message for people.
const maxFields = 256

// alert checks what the rule's alerts look like.
func (c *ruleChecker) alert() {
	a := c.all.alert
	if a == nil {
		return
	}
	alert := &c.rule.Alert
	if len(a.fields) > maxFields {
		c.fail(a.fields[maxFields].name, codeTooMany, "", "an alert has at most %d fields", maxFields)
		return
	}
	for _, f := range a.fields {
		if slices.Contains(alertNames, f.name.value) {
			c.fail(f.name, codeName, "", "every alert has %q already, so no field can have this name", f.name.value)
		}
		if !nameShape.MatchString(f.name.value) {
			c.fail(f.name, codeName, "letters, digits and _, not beginning with a digit", "%q cannot be the name of an alert field", f.name.value)
		}
		if e := c.compile(f.value, c.alertPlace(nil)); e != nil {
			alert.Fields = append(alert.Fields, Field{f.name.value, e})
		}
	}
	var names []string
	for _, f := range a.fields {
		names = append(names, f.name.value)
	}
	if a.title != nil {
		alert.Title = c.title(a.title, names)
	}
	if t := a.severity; t != nil {
		source := t.value
		if slices.Contains(severities, source) && !slices.Contains(names, source) {
			source = `"` + source + `"` // a word of the language, not a field
		}
		alert.Severity = c.compileAt(t, source, 0, c.alertPlace(names))
	}
	alert.Include = Include(slices.Index(includeWords, c.word(a.include, "include_events", "ids", includeWords...)))
	for _, t := range a.to {
		if !streamShape.MatchString(t.value) {
			c.fail(t, codeName, "", "%q cannot be the name of a sink", t.value)
		}
		alert.To = append(alert.To, t.value)
	}
	if a.suppress != nil {
		alert.Suppress = c.suppress(a.suppress, names)
	}
}

// alertPlace says what expressions of an alert see; fields is nil where those of the alert are not known yet.
func (c *ruleChecker) alertPlace(fields []string) *expression.Place {
	p := &expression.Place{Match: true, Key: c.rule.Key, Fields: fields}
	if c.stepless() {
		p.Steps = []expression.Step{{Name: c.rule.Names[0]}}
	}
	return c.see(c.leaves, nil, p)
}

// title checks a template.
func (c *ruleChecker) title(t *text, fields []string) []Segment {
	pieces, problems := expression.Template(t.value)
	c.problems(t, 0, problems)
	var segments []Segment
	for _, p := range pieces {
		if !p.Expr {
			segments = append(segments, Segment{Text: p.Text})
		} else if e := c.compileAt(t, p.Text, p.Offset, c.alertPlace(fields)); e != nil {
			segments = append(segments, Segment{Expr: e})
		}
	}
	return segments
}

func (c *ruleChecker) suppress(s *suppressSyntax, fields []string) *Suppress {
	out := &Suppress{
		For: c.duration(s.hold, "for", false),
		Max: int(c.number(s.max, "max", 1, 1)),
	}
	for _, t := range s.by {
		field, part := slices.Index(fields, t.value), slices.Index(c.rule.Key, t.value)
		if field >= 0 {
			part = -1 // a field that repeats a key part says the same
		} else if part < 0 {
			c.fail(t, codeSuppress, c.didYouMean(c.own.File, t.value, slices.Concat(fields, c.rule.Key)), "the alert has no field %q, and the key no such part", t.value)
		}
		out.By = append(out.By, SuppressBy{Field: field, Key: part})
	}
	if s.by == nil {
		for i := range c.rule.Key {
			out.By = append(out.By, SuppressBy{Field: -1, Key: i})
		}
	}
	return out
}
