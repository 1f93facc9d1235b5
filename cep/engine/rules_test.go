package engine_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/expression"
	"github.com/cepd/cepd/rules"
)

// The rules of these tests are made by hand, so that they test the engine and not the language. Events have three fields:
// what they are, whose they are, and a tie-break.
const (
	slotKind = iota
	slotUser
	slotTie
	slotRule
)

func schema() *cep.Schema {
	s := cep.NewSchema()
	s.Slot("kind")
	s.Slot("user")
	s.Slot("tie")
	s.Slot("rule")
	return s
}

func kindIs(kind string) *expression.Expr {
	return &expression.Expr{
		Text: kind, Canonical: fmt.Sprintf("kind == %q", kind), Unary: true, Slots: []int{slotKind},
		Equalities: []expression.Equality{{Slot: slotKind, Values: []cep.Value{cep.String(kind)}}},
		Test: func(s *cep.Scope) (bool, error) {
			return s.Event.Value(slotKind).AsString() == kind, nil
		},
	}
}

// ruleIs is the condition of a rule over alerts.
func ruleIs(id string) *expression.Expr {
	return &expression.Expr{
		Text: id, Canonical: fmt.Sprintf("rule == %q", id), Unary: true, Slots: []int{slotRule},
		Test: func(s *cep.Scope) (bool, error) { return s.Event.Value(slotRule).AsString() == id, nil },
	}
}

var user = &expression.Expr{
	Canonical: "user", Unary: true, Slots: []int{slotUser}, Path: []string{"user"},
	Eval: func(s *cep.Scope) (cep.Value, error) { return s.Event.Value(slotUser), nil },
}

// keyUser is the user again, in alerts.
var keyUser = &expression.Expr{Eval: func(s *cep.Scope) (cep.Value, error) {
	parts, err := s.Key.Parts()
	if err != nil {
		return cep.Value{}, err
	}
	return parts[0], nil
}}

// over makes a rule one that reads the alerts of others.
func over(r *patterns.Rule, layer int, reads ...string) *patterns.Rule {
	r.Layer, r.Reads = layer, reads
	return r
}

// element is a step of a test rule: its stream, the kind of event it takes, and what is special about it.
type element struct {
	from, kind string
	absent     bool
	lasts      cep.Duration
	link       nfa.Link
}

// rule makes a rule by user over the elements.
func rule(id string, within cep.Duration, elements ...element) *patterns.Rule {
	r := &patterns.Rule{
		Meta: patterns.Meta{ID: id, Enabled: true, Severity: "low"}, Key: []string{"user"}, Within: within,
		After: nfa.SkipPastLast, Alert: patterns.Alert{Include: patterns.IncludeIDs, Fields: []patterns.Field{{Name: "user", Expr: keyUser}}},
	}
	p := nfa.Pattern{Rule: id, Within: within, After: nfa.SkipPastLast}
	for i, e := range elements {
		if e.link == nfa.NoLink && i > 0 {
			e.link = nfa.Relaxed
		}
		where := kindIs(e.kind)
		if e.from == engine.AlertStream {
			where = ruleIs(e.kind)
		}
		r.Names = append(r.Names, e.kind)
		r.Elements = append(r.Elements, patterns.Element{
			Name: i, Absent: e.absent, From: []string{e.from}, By: []*expression.Expr{user}, Where: where,
			Link: e.link, Loop: nfa.Relaxed, Min: 1, Max: 1, For: e.lasts,
		})
		if !slices.Contains(r.Streams, e.from) {
			r.Streams = append(r.Streams, e.from)
		}
		p.Names = append(p.Names, nfa.Name{Name: e.kind})
		p.Elements = append(p.Elements, nfa.Element{
			Name: i, Absent: e.absent, Link: e.link, Loop: nfa.Relaxed, Min: 1, Max: 1, For: e.lasts,
			Where: &nfa.Pred{Text: where.Text, Unary: true, Slots: where.Slots, Test: where.Test},
		})
	}
	slices.Sort(r.Streams)
	program, err := nfa.Compile(p)
	if err != nil {
		panic(err)
	}
	r.Program = program
	return r
}

// setOf gives the rules' predicates their numbers.
func setOf(list ...*patterns.Rule) *rules.Set {
	slices.SortFunc(list, func(a, b *patterns.Rule) int { return strings.Compare(a.ID, b.ID) })
	n := 0
	for _, r := range list {
		p := r.Program.Pattern()
		for i := range p.Elements {
			if w := p.Elements[i].Where; w != nil {
				w.ID = n
				n++
			}
		}
	}
	return &rules.Set{Set: &patterns.Set{Rules: list, Schema: schema(), Predicates: n}}
}

// input is one call of a Core.
type input struct {
	partition *cep.Partition
	time      cep.Time
	values    []cep.Value
	offset    int64
}

func ev(p *cep.Partition, t cep.Time, kind, user string) input {
	return input{partition: p, time: t, values: []cep.Value{cep.String(kind), cep.String(user)}}
}

// number gives the events of each partition their offsets, in the order of arrival.
func number(list []input) []input {
	next := map[*cep.Partition]int64{}
	for i := range list {
		list[i].offset = next[list[i].partition]
		next[list[i].partition]++
	}
	return list
}

// lender lends values as a decoder does: what was not kept is overwritten.
type lender struct {
	ev   cep.Event
	kept int
}

func (l *lender) lend(in input) *cep.Event {
	for i := range l.ev.Values {
		l.ev.Values[i] = cep.String("overwritten")
	}
	l.ev.Time, l.ev.Position = in.time, cep.Position{Partition: in.partition, Offset: in.offset}
	l.ev.Values = append(l.ev.Values[:0], in.values...)
	return &l.ev
}

func (l *lender) Keep(*cep.Event) { l.kept++ }

// fataler is a test, of rapid or not.
type fataler interface{ Fatal(args ...any) }

// bench is a Core under test, with the alerts it gave.
type bench struct {
	*engine.Core
	lender
	alerts []string
}

func newBench(t fataler, set *rules.Set, batch int, streams ...engine.Stream) *bench {
	return newBenchWith(t, set, engine.Options{Batch: batch}, streams...)
}

func newBenchWith(t fataler, set *rules.Set, o engine.Options, streams ...engine.Stream) *bench {
	b := &bench{}
	o.Alert = func(a *cep.Alert) { b.alerts = append(b.alerts, line(a)) }
	core, err := engine.New(set, streams, o)
	if err != nil {
		t.Fatal(err)
	}
	b.Core = core
	return b
}

func (b *bench) push(list ...input) {
	for _, in := range list {
		b.Push(in.partition, b.lend(in), b)
	}
}

// line formats an alert: rule, time, by what, key, and what it took.
func line(a *cep.Alert) string {
	by := ""
	if a.Timed {
		by = " by time"
	}
	text := fmt.Sprintf("%s %d%s %v", a.Rule, a.Time, by, a.Key[0].Value.AsString())
	if a.Kind != cep.AlertMatch {
		text += " " + a.Kind.String()
	}
	for _, s := range a.Steps {
		for _, e := range s.Events {
			if e.Position.Partition.Stream == engine.AlertStream {
				text += fmt.Sprintf(" %s@%d", s.Name, e.Time)
				continue
			}
			text += fmt.Sprintf(" %s=%s/%s/%d@%d", s.Name, e.Position.Partition.Stream, e.Position.Partition.Name, e.Position.Offset, e.Time)
		}
	}
	return text
}
