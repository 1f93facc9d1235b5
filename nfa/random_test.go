package nfa

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
)

// relations are conditions that read more than the event. Each is made for an element and needs value kept of all steps.
var relations = []struct {
	text string
	test func(*cep.Scope) bool
}{
	{"value >= last.value", func(s *cep.Scope) bool {
		n := s.History.Total()
		if n == 0 {
			return true
		}
		c, ok := cep.Compare(s.Event.Value(slotValue), s.History.Nth(n-1).Value(slotValue))
		return ok && c >= 0
	}},
	{"value > prev.value", func(s *cep.Scope) bool {
		if s.Prev == nil {
			return true
		}
		c, ok := cep.Compare(s.Event.Value(slotValue), s.Prev.Value(slotValue))
		return ok && c > 0
	}},
	{"sum + value <= 9", func(s *cep.Scope) bool {
		sum, err := s.History.Aggregate(0)
		return err == nil && sum.AsFloat()+s.Event.Value(slotValue).AsFloat() <= 9
	}},
}

// drawn draws the elements of a pattern.
type drawn struct {
	*rapid.T
	pattern Pattern
}

// one says yes once in n times, and mostly no where rapid makes cases smaller.
func (d *drawn) one(n int, name string) bool { return rapid.IntRange(0, n-1).Draw(d.T, name) == n-1 }

func (d *drawn) span(name string) cep.Duration {
	if !d.one(3, name+" there") {
		return 0
	}
	return seconds(rapid.IntRange(1, 6).Draw(d.T, name))
}

func (d *drawn) link() Link {
	return rapid.SampledFrom([]Link{Relaxed, Strict, Any}).Draw(d.T, "link")
}

func (d *drawn) kind() *Pred {
	return kindIs(rapid.SampledFrom([]string{"a", "b", "c", "ab", "bc", ""}).Draw(d.T, "kind"))
}

// where draws a condition, for an element that may look back and around or not.
func (d *drawn) where(around bool) *Pred {
	kind := d.kind()
	if !around || !d.one(4, "related") {
		return kind
	}
	r := rapid.SampledFrom(relations).Draw(d.T, "relation")
	return &Pred{ID: 9999, Text: r.text, Slots: []int{slotKind, slotValue}, Test: func(s *cep.Scope) (bool, error) {
		ok := true
		if kind != nil {
			ok, _ = kind.Test(s)
		}
		return ok && r.test(s), nil
	}}
}

func (d *drawn) name() int {
	n := len(d.pattern.Names)
	d.pattern.Names = append(d.pattern.Names, Name{Name: fmt.Sprintf("s%d", n), Keep: []int{slotValue}})
	return n
}

// value is the field value as an expression.
func value() *Expr {
	return &Expr{Text: "value", Slots: []int{slotValue}, Eval: func(s *cep.Scope) (cep.Value, error) { return s.Event.Value(slotValue), nil }}
}

func (d *drawn) times(e *Element) {
	e.Min = rapid.IntRange(1, 2).Draw(d.T, "min")
	e.Max = rapid.SampledFrom([]int{-1, e.Min, e.Min + 1}).Draw(d.T, "max")
	e.Loop = d.link()
	if e.Max < 0 && d.one(3, "until there") {
		e.Until = d.where(true)
	}
}

func (d *drawn) sequence(most, depth int) []Element {
	var list []Element
	for range rapid.IntRange(1, most).Draw(d.T, "elements") {
		list = append(list, d.element(depth))
	}
	if depth < 2 {
		list[0].Link = NoLink // inside a composite, whose own word counts
	}
	return list
}

func (d *drawn) element(depth int) Element {
	e := Element{Min: 1, Max: 1, Link: d.link()}
	if depth > 0 && d.one(4, "composite") {
		e.Optional = d.one(4, "optional")
		e.Within = d.span("within")
		switch e.Kind = ElementKind(rapid.IntRange(1, 3).Draw(d.T, "composite kind")); e.Kind {
		case KindGroup:
			e.Elements = d.sequence(3, depth-1)
		case KindAnyOf:
			for range rapid.IntRange(1, 3).Draw(d.T, "alternatives") {
				e.Alternatives = append(e.Alternatives, d.sequence(2, depth-1))
			}
		default:
			for range rapid.IntRange(2, 3).Draw(d.T, "members") {
				e.Elements = append(e.Elements, Element{Name: d.name(), Where: d.where(false), Min: 1, Max: 1})
			}
			e.Need = rapid.IntRange(1, len(e.Elements)).Draw(d.T, "need")
			if d.one(3, "own where") {
				e.Where = d.where(true)
			}
			return e
		}
		if d.one(2, "times") {
			e.Times = true
			d.times(&e)
		}
		return e
	}
	e.Name = d.name()
	if depth == 2 && d.one(4, "absent") {
		e.Where = d.where(true)
		e.Absent, e.For = true, d.span("for")
		if e.Link == Any {
			e.Link = Relaxed
		}
		e.FromStart = rapid.Bool().Draw(d.T, "from start")
		if e.FromStart && d.one(4, "forever") {
			e.For = Forever
		}
		return e
	}
	e.Within, e.Optional = d.span("step within"), d.one(4, "optional")
	switch {
	case d.one(8, "edge"):
		e.Edge, e.Where = true, d.where(true)
		return e
	case d.one(8, "first seen"):
		e.Where = d.where(false)
		e.FirstSeen = &FirstSeen{By: []*Expr{value()}, For: seconds(rapid.IntRange(1, 9).Draw(d.T, "reach")), FromStart: rapid.Bool().Draw(d.T, "from start")}
		return e
	}
	e.Where = d.where(true)
	e.Greedy = d.one(5, "greedy")
	if d.one(3, "loop") {
		d.times(&e)
		e.LoopWithin = d.span("loop within")
		if d.one(3, "distinct") {
			e.Distinct = value()
		}
		if d.one(3, "having") {
			step := e.Name
			e.Having = &Pred{ID: 9998, Text: "len != 2", Test: func(s *cep.Scope) (bool, error) { return s.History.Len(step) != 2, nil }}
		}
	}
	return e
}

// drawPattern draws a pattern that compiles, flat or not.
func drawPattern(t *rapid.T, flat bool) *Program {
	for range 100 {
		d := &drawn{T: t, pattern: Pattern{Rule: "random"}}
		b := &d.pattern
		b.Elements = d.sequence(4, 2)
		last := len(b.Names) - 1
		b.Within = d.span("window")
		b.After = AfterMatch(rapid.IntRange(0, 4).Draw(t, "after"))
		b.Target = rapid.IntRange(0, last).Draw(t, "target")
		b.Ordered = d.one(3, "ordered")
		b.Timeouts = rapid.Bool().Draw(t, "timeouts")
		b.KeepRaw = rapid.Bool().Draw(t, "raw")
		b.UsesPrev, b.PrevSlots, b.PrevReach = true, []int{slotValue}, seconds(3)
		b.Aggregates = []cep.Aggregate{
			{Kind: cep.AggregateSum, Step: 0, Slot: slotValue},
			{Kind: cep.AggregateDistinct, Step: last, Slot: slotValue},
			{Kind: cep.AggregateFirst, Step: 0, Slot: -1},
		}
		if d.one(6, "without") {
			b.Without = []Without{{Name: d.name(), Where: d.where(true)}}
		}
		b.Limits.StartsPerKey = rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "starts")
		b.Limits.DropOldest = rapid.Bool().Draw(t, "drop oldest")
		b.Limits.EventsPerMatch = rapid.SampledFrom([]int{0, 0, 0, 4}).Draw(t, "events")
		b.Newest = d.one(4, "newest")
		if p, err := Compile(*b); err == nil && (p.flat || !flat) {
			return p
		}
	}
	t.Skip("no pattern that compiles")
	return nil
}

// input is an event for a key, or time that moves.
type input struct {
	key     string
	event   *cep.Event
	mask    uint64
	advance cep.Time
}

func drawInput(t *rapid.T, most int, intern func(stream, name string) *cep.Partition) []input {
	parts := []*cep.Partition{intern("s", "0"), intern("s", "1")}
	now := cep.Time(0)
	var list []input
	seq := uint64(0)
	for range rapid.IntRange(1, most).Draw(t, "inputs") {
		if rapid.IntRange(0, 7).Draw(t, "move") == 0 {
			now += cep.Time(rapid.IntRange(0, 4).Draw(t, "by")) * cep.Second
			list = append(list, input{advance: now})
			now++ // events come above the watermark
			continue
		}
		now += cep.Time(rapid.SampledFrom([]int{0, 1, 1, 2, 3}).Draw(t, "gap")) * cep.Second / 2
		seq++
		ev := &cep.Event{
			Time: now, Seq: seq, Raw: []byte(fmt.Sprint("{", seq, "}")),
			Position: cep.Position{Partition: rapid.SampledFrom(parts).Draw(t, "partition"), Offset: int64(seq)},
		}
		ev.Values = []cep.Value{
			cep.String(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "kind")),
			cep.Int(int64(rapid.IntRange(0, 4).Draw(t, "value"))),
		}
		mask := all
		if rapid.IntRange(0, 9).Draw(t, "masked") == 0 {
			mask = rapid.Uint64Range(0, 255).Draw(t, "mask")
		}
		key := rapid.SampledFrom([]string{"k", "k", "l"}).Draw(t, "key")
		list = append(list, input{key: key, event: ev, mask: mask})
		if rapid.IntRange(0, 9).Draw(t, "both") == 0 {
			list = append(list, input{key: "both", event: ev, mask: all})
		}
	}
	return list
}

// feed runs the inputs and prints what comes out after each.
func feed(m *Machine, list []input) []string {
	var out []string
	for _, in := range list {
		if in.event != nil {
			m.Event([]byte(in.key), in.event, in.mask)
		} else {
			m.Advance(in.advance)
		}
		out = append(out, describe(m))
	}
	return out
}

// describe prints what a machine lets out, to the last detail, and what is open.
func describe(m *Machine) string {
	s := ""
	for _, x := range m.Matches() {
		s += fmt.Sprintf("%s %s at %v done %v:", x.Key, line(m.program, x), x.Moment, x.Completed)
		for i := range x.History.Total() {
			n := x.History.Nth(i)
			s += fmt.Sprintf(" %d:%v/%d/%s/%v", n.Step(), n.Time(), n.Position().Offset, n.Raw(), n.Value(slotValue).AsInt())
		}
		for i := range min(2, len(m.program.pattern.Aggregates)) {
			v, err := x.History.Aggregate(i)
			s += fmt.Sprint(" ", v.AsInt(), err)
		}
		s += "; "
	}
	return s + fmt.Sprintf("%d open, %d keys", m.OpenStarts(), m.Keys())
}
