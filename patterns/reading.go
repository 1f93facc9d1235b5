package patterns

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns/expression"
)

// Reading is what a rule asks of the events of its streams, each question with its place: what can be held against events that
// were recorded.
type Reading struct {
	Rule *Rule
	// Fields stand in the order of their places.
	Fields []FieldRead
	Waits  []Wait
}

// FieldRead is a field of events that an expression of the rule reads.
type FieldRead struct {
	// At has the place, and nothing else.
	At   Diagnostic
	Path []string
	// From are the streams of whose events it may be.
	From []string
	// Key says that it is a part of a key: an event without it does not exist for the rule (S1.3). Of another field it is
	// enough that one of the streams has it.
	Key bool
}

// WaitKind is what waits for an event.
type WaitKind uint8

// What waits for events.
const (
	// WaitStep is a step, a loop, a hold, or the rule itself where it has no sequence.
	WaitStep WaitKind = iota
	// WaitMembers is the condition of an all_of, about whichever member comes last.
	WaitMembers
	// WaitAlone is an absence alone, which begins with an event like that for which it waits.
	WaitAlone
	// WaitAbsence is an absence or an entry of `without`, which is content where nothing comes.
	WaitAbsence
	// WaitUntil is the end of a loop or group, WaitResolve that of an alert.
	WaitUntil
	WaitResolve
)

// Wait is something of the rule that waits for an event of its own.
type Wait struct {
	// At has the place, and nothing else.
	At   Diagnostic
	Kind WaitKind
	// Name is that of a step or absence; "" for the rule itself, and for all else.
	Name string
	From []string
	// Where are the conditions that an event must meet by itself: its own and the rule's.
	Where []expression.Part
}

// reading walks the rule for all that it asks of events. The rule has no mistakes.
func (c *ruleChecker) reading() Reading {
	r := c.rule
	w := readingWalk{c: c, uses: map[*expression.Expr]use{}, from: make([][]string, len(r.Names)), fields: map[string]int{}}
	w.out.Rule = r
	for _, u := range c.uses {
		w.uses[u.expr] = u
	}
	for _, e := range r.Leaves() {
		w.from[e.Name] = e.From
		w.all = append(w.all, e.From...)
	}
	for i := range r.Without {
		w.from[r.Without[i].Name] = r.Without[i].From
		w.all = append(w.all, r.Without[i].From...)
	}
	w.all = unique(w.all)

	w.field(r.Where, w.all)
	for _, x := range r.Exceptions {
		from := w.all
		if x.Steps != nil {
			from = nil
			for _, i := range x.Steps {
				from = append(from, w.from[i]...)
			}
		}
		w.field(x.Where, unique(from))
	}
	if c.stepless() {
		w.key(r.Elements[0].By, r.Elements[0].From)
		at := c.all.where
		if at == nil {
			at = c.own.id
		}
		w.wait(WaitStep, "", at, r.Elements[0].From, r.Where)
	}
	w.parts(c.parts)
	for i, e := range r.Without {
		w.key(e.By, e.From)
		w.field(e.Where, e.From)
		w.wait(WaitAbsence, r.Names[e.Name], c.all.without[i].name, e.From, r.Where, e.Where)
	}
	w.alert()
	slices.SortStableFunc(w.out.Fields, func(a, b FieldRead) int { return comparePlaces(a.At.Pos, b.At.Pos) })
	return w.out
}

// readingWalk is such a walk under way.
type readingWalk struct {
	c    *ruleChecker
	uses map[*expression.Expr]use
	// from are the streams of each name of the rule, all those of them all.
	from [][]string
	all  []string
	out  Reading
	// fields are the places of fields in out, so that what elements have in common stands there once.
	fields map[string]int
}

func (w *readingWalk) parts(parts []*part) {
	for i, p := range parts {
		e, el := p.syntax, p.el
		if i > 0 && parts[i-1].syntax == e {
			continue // the absence of what was written as one: a hold, an absence alone
		}
		from := el.From
		if !p.leaf() {
			for _, l := range leaves(nil, []Element{*el}) {
				from = append(from, l.From...)
			}
			from = unique(from)
		}
		w.key(el.By, el.From)
		w.field(el.Where, from)
		switch {
		case p.leaf():
			kind := WaitStep
			switch {
			case el.Absent, w.c.isAlone && len(w.c.rule.Keys) > 0: // its keys count as present from the beginning (S4.4)
				kind = WaitAbsence
			case w.c.isAlone:
				kind = WaitAlone
			}
			w.wait(kind, e.name.value, e.name, from, w.c.rule.Where, el.Where)
		case el.Kind == nfa.KindAllOf && el.Where != nil:
			w.wait(WaitMembers, "", e.where, from, w.c.rule.Where, el.Where)
		}
		if el.Until != nil {
			w.field(el.Until, w.all) // S3.6: whichever of the rule's streams
			w.wait(WaitUntil, "", e.until, w.all, w.c.rule.Where, el.Until)
		}
		w.field(el.Having, from)
		w.field(el.Distinct, from)
		if el.FirstSeen != nil {
			for _, x := range el.FirstSeen.By {
				w.field(x, from)
			}
		}
		for _, inner := range p.inner {
			w.parts(inner)
		}
	}
}

func (w *readingWalk) alert() {
	a := &w.c.rule.Alert
	for _, s := range a.Title {
		w.field(s.Expr, nil)
	}
	for _, f := range a.Fields {
		w.field(f.Expr, nil)
	}
	w.field(a.Severity, nil)
	if s := a.Resolve; s != nil && s.Where != nil {
		w.key(s.By, s.From)
		w.field(s.Where, s.From)
		w.wait(WaitResolve, "", w.c.all.alert.resolve.where, s.From, s.Where) // without the rule's where (S1.2)
	}
}

// key takes the fields of a key. Of a part that is more than a path nobody knows what it makes of a field that is missing.
func (w *readingWalk) key(parts []*expression.Expr, from []string) {
	for _, x := range parts {
		w.read(x, from, len(x.Path) > 0)
	}
}

func (w *readingWalk) field(x *expression.Expr, from []string) { w.read(x, from, false) }

// read takes the fields of an expression. from are the streams of its current event.
func (w *readingWalk) read(x *expression.Expr, from []string, key bool) {
	u, known := w.uses[x]
	if !known {
		return // nil
	}
	for _, f := range w.c.trees.Reading(x).Fields {
		of := from
		if !f.Current {
			of = nil
			if f.Prev || f.All {
				of = w.all
			}
			for _, step := range f.Steps {
				of = append(slices.Clip(of), w.from[step]...)
			}
		}
		at := u.text.at(u.offset+f.Offset, f.Length)
		if m := w.c.macroTexts[f.Macro]; f.Macro != "" && m != nil {
			at = m.at(f.Offset, f.Length)
		}
		id := at.String() + "\x00" + strings.Join(f.Path, "\x00")
		i, twice := w.fields[id]
		if !twice {
			i = len(w.out.Fields)
			w.fields[id] = i
			w.out.Fields = append(w.out.Fields, FieldRead{At: at, Path: f.Path, Key: key})
		}
		w.out.Fields[i].From = unique(append(w.out.Fields[i].From, of...))
	}
}

// wait takes what waits for an event, if there are conditions that the event must meet by itself.
func (w *readingWalk) wait(kind WaitKind, name string, at *text, from []string, where ...*expression.Expr) {
	out := Wait{Kind: kind, Name: name, From: unique(slices.Clone(from)), At: Diagnostic{Pos: at.Pos, Length: at.width, Excerpt: at.file.Line(at.Line)}}
	for _, x := range where {
		if x != nil {
			out.Where = append(out.Where, w.c.trees.Reading(x).Parts...)
		}
	}
	if len(out.Where) > 0 {
		w.out.Waits = append(w.out.Waits, out)
	}
}

// unique sorts streams and takes each once.
func unique(streams []string) []string {
	slices.Sort(streams)
	return slices.Compact(streams)
}

func comparePlaces(a, b Pos) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}
