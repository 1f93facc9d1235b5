package spectest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/expression"
)

// shape is a rule without YAML, small enough to be enumerated, drawn at random, and printed on a line. Spans are whole
// seconds; 0 is none.
type shape struct {
	elements []shapeElement
	within   int
	after    nfa.AfterMatch
	target   int
	ordered  bool
	timeouts bool
	limits   nfa.Limits
	keyed    bool // the key is field k, or field j for elements that say so
	// where hides events with n == 9, the exception without steps those with n == 8, that with steps those with n == 7
	// from the name hides.
	where, except bool
	hides         int // -1: none
}

// shapeElement is an element of a shape. Its name is its index.
type shapeElement struct {
	letter           byte // what field l must be; '.' is anything
	condition        condition
	ref              int // the element that the condition reads
	absent, optional bool
	link, loop       nfa.Link
	min, max         int
	within, loopGap  int
	span             int // for
	forever          bool
	fromStart        bool
	otherKey         bool // by field j
	stream           int  // 0: s, 1: t
}

// condition is what an element asks beside its letter.
type condition uint8

const (
	plain     condition = iota
	rising              // n > the last n that ref took
	counted             // ref took less than 2 events
	summed              // sum of n over ref + n <= 6
	differs             // n is not the first n that ref took
	afterSame           // prev.l == l
	afterLess           // prev.n < n, or no prev
	aboveMax            // n > the greatest n of ref, or it took none
	belowMin            // n < the least n of ref, or it took none
	distinct            // less than 2 different n in ref
	asFirst             // n is that of the first event of ref, or it took nothing
	notLast             // n is not that of the last event of ref
	few                 // less than 3 events were taken
	inKey               // n is even, or the key is "x"
	conditions
)

var conditionNames = [...]string{
	"", "rising", "counted", "summed", "differs", "afterSame", "afterLess", "aboveMax", "belowMin", "distinct", "asFirst",
	"notLast", "few", "inKey",
}

// aggregate is the aggregate that a condition asks for; false where it asks for none.
func (c condition) aggregate(ref int) (cep.Aggregate, bool) {
	g := cep.Aggregate{Step: ref, Slot: slotN}
	switch c {
	case summed:
		g.Kind = cep.AggregateSum
	case aboveMax:
		g.Kind = cep.AggregateMax
	case belowMin:
		g.Kind = cep.AggregateMin
	case distinct:
		g.Kind = cep.AggregateDistinct
	case counted:
		g.Kind, g.Slot = cep.AggregateCount, -1
	case asFirst:
		g.Kind, g.Slot = cep.AggregateFirst, -1
	case notLast:
		g.Kind, g.Slot = cep.AggregateLast, -1
	default:
		return g, false
	}
	return g, true
}

// The slots of a shape's events.
const (
	slotL = iota
	slotN
	slotK
	slotJ
	slots
)

// String writes the shape in the shorthand of the semantics: > strict, >> relaxed, >>> any, !> and !>> absences, !< an
// absence at the start.
func (s *shape) String() string {
	var sb strings.Builder
	for i, e := range s.elements {
		if i > 0 {
			sb.WriteByte(' ')
		}
		if e.absent {
			sb.WriteByte('!')
		}
		sb.WriteString([...]string{"", ">", ">>", ">>>"}[e.link])
		if e.absent && e.link == nfa.NoLink {
			sb.WriteByte('<')
		}
		sb.WriteByte(e.letter)
		switch {
		case e.min == 1 && e.max == 1 && e.optional:
			sb.WriteByte('?')
		case e.min == 1 && e.max == 1:
		case e.max < 0:
			fmt.Fprintf(&sb, "{%d,}", e.min)
		default:
			fmt.Fprintf(&sb, "{%d,%d}", e.min, e.max)
		}
		if e.optional && e.max != 1 {
			sb.WriteByte('?')
		}
		if e.max != 1 && e.loop != nfa.Relaxed {
			sb.WriteString([...]string{"", "/strict", "", "/any"}[e.loop])
		}
		for _, f := range []struct {
			name  string
			value int
		}{{"gap", e.within}, {"loopgap", e.loopGap}, {"for", e.span}, {"stream", e.stream}} {
			if f.value != 0 {
				fmt.Fprintf(&sb, "/%s=%d", f.name, f.value)
			}
		}
		if e.condition != plain {
			fmt.Fprintf(&sb, "/%s(%d)", conditionNames[e.condition], e.ref)
		}
		for _, f := range []struct {
			name string
			is   bool
		}{{"forever", e.forever}, {"from_start", e.fromStart}, {"by=j", e.otherKey}} {
			if f.is {
				sb.WriteString("/" + f.name)
			}
		}
	}
	fmt.Fprintf(&sb, ", W=%d after=%d target=%d ordered=%v timeouts=%v limits=%v keyed=%v where=%v except=%v hides=%d",
		s.within, s.after, s.target, s.ordered, s.timeouts, s.limits, s.keyed, s.where, s.except, s.hides)
	return sb.String()
}

// admitted reports whether the semantics admits the shape: what patterns.Load refuses is not worth a run.
func (s *shape) admitted() bool {
	required := slices.ContainsFunc(s.elements, func(e shapeElement) bool { return !e.absent && !e.optional })
	if !required { // S2.6
		return false
	}
	step := func(e shapeElement) bool { return !e.absent }
	for i, e := range s.elements {
		if !e.absent {
			continue
		}
		before, behind := s.elements[:i], s.elements[i+1:]
		atStart := !slices.ContainsFunc(before, func(e shapeElement) bool { return !e.absent && !e.optional })
		atEnd := !slices.ContainsFunc(behind, step)
		switch {
		case atStart && slices.ContainsFunc(before, step): // S4.1: at the start in one expansion, between in another
			return false
		case atStart:
			if (e.span == 0) == !e.forever || e.forever && !e.fromStart || e.link == nfa.Strict { // S4.3
				return false
			}
		case atEnd:
			if e.span == 0 && s.within == 0 && e.link != nfa.Strict || e.forever || e.fromStart { // S4.2
				return false
			}
		case e.span > 0 || e.forever || e.fromStart: // S4.1: for between two elements
			return false
		case !slices.ContainsFunc(behind, func(e shapeElement) bool { return !e.absent && !e.optional }): // S4.1
			return false
		}
	}
	return true
}

const second = cep.Duration(cep.Second)

// span turns seconds into a duration.
func span(seconds int) cep.Duration { return cep.Duration(seconds) * second }

// rule builds the rule, with its program, and the size of its memo.
func (s *shape) rule() (*patterns.Rule, int, error) {
	r := &patterns.Rule{
		Meta:     patterns.Meta{ID: "r"},
		Within:   span(s.within),
		After:    s.after,
		Target:   s.target,
		Ordered:  s.ordered,
		Timeouts: s.timeouts,
		Limits:   s.limits,
	}
	p := nfa.Pattern{
		Rule: "r", Within: r.Within, After: s.after, Target: s.target, Ordered: s.ordered, Timeouts: s.timeouts,
		Limits: s.limits, PrevReach: r.Within,
	}
	if p.PrevReach == 0 {
		p.PrevReach = span(24 * 3600)
	}
	for i, e := range s.elements {
		if g, ok := e.condition.aggregate(e.ref); ok {
			r.Aggregates = append(r.Aggregates, g)
		}
		name := fmt.Sprintf("e%d", i)
		r.Names = append(r.Names, name)
		p.Names = append(p.Names, nfa.Name{Name: name, Keep: []int{slotL, slotN}})
		stream := [...]string{"s", "t"}[e.stream]
		if !slices.Contains(r.Streams, stream) {
			r.Streams = append(r.Streams, stream)
		}
		where := e.where(i, len(r.Aggregates)-1)
		pe := nfa.Element{
			Name: i, Absent: e.absent, Link: e.link, Loop: e.loop, Min: e.min, Max: e.max, Optional: e.optional,
			Within: span(e.within), LoopWithin: span(e.loopGap), For: span(e.span), FromStart: e.fromStart,
		}
		if e.forever {
			pe.For = nfa.Forever
		}
		if where != nil {
			pe.Where = &nfa.Pred{ID: i, Text: where.Text, Unary: where.Unary, Slots: []int{slotL, slotN}, Test: where.Test}
		}
		p.UsesPrev = p.UsesPrev || e.condition == afterSame || e.condition == afterLess
		re := patterns.Element{
			Name: i, Absent: e.absent, From: []string{stream}, Where: where, Link: e.link, Loop: e.loop,
			Min: e.min, Max: e.max, Optional: e.optional,
			Within: pe.Within, LoopWithin: pe.LoopWithin, For: pe.For, FromStart: e.fromStart,
		}
		if s.keyed {
			slot := slotK
			if e.otherKey {
				slot = slotJ
			}
			re.By = []*expression.Expr{{
				Text: fmt.Sprint(slot), Canonical: fmt.Sprint(slot), Unary: true, Slots: []int{slot},
				Eval: func(sc *cep.Scope) (cep.Value, error) { return sc.Event.Value(slot), nil },
			}}
		}
		p.Elements, r.Elements = append(p.Elements, pe), append(r.Elements, re)
	}
	if s.keyed {
		r.Key = []string{"k"}
	}
	if s.where {
		r.Where = numbered("n != 9", func(n int64) bool { return n != 9 })
	}
	if s.except {
		r.Exceptions = append(r.Exceptions, patterns.Exception{
			Name: "all", Where: numbered("n == 8", func(n int64) bool { return n == 8 }), Expires: 5 * cep.Second,
		})
	}
	if s.hides >= 0 {
		r.Exceptions = append(r.Exceptions, patterns.Exception{
			Name: "some", Where: numbered("n == 7", func(n int64) bool { return n == 7 }), Steps: []int{s.hides}, Expires: cep.AfterAll,
		})
	}
	p.Aggregates = r.Aggregates
	if p.UsesPrev {
		p.PrevSlots = []int{slotL, slotN}
	}
	var err error
	r.Program, err = nfa.Compile(p)
	return r, len(s.elements), err
}

func numbered(text string, test func(n int64) bool) *expression.Expr {
	return &expression.Expr{Text: text, Canonical: text, Unary: true, Slots: []int{slotN}, Test: func(sc *cep.Scope) (bool, error) {
		return test(sc.Event.Value(slotN).AsInt()), nil
	}}
}

// where builds the condition of an element. own is its index, sum the index of its aggregate.
func (e shapeElement) where(own, sum int) *expression.Expr {
	letter := cep.String(string(e.letter))
	fits := func(sc *cep.Scope) bool { return e.letter == '.' || cep.Equal(sc.Event.Value(slotL), letter) }
	if e.condition == plain && e.letter == '.' {
		return nil
	}
	text := fmt.Sprintf("%c %s(%d)", e.letter, conditionNames[e.condition], e.ref)
	if e.condition == plain {
		return &expression.Expr{Text: text, Canonical: text, Unary: true, Slots: []int{slotL}, Test: func(sc *cep.Scope) (bool, error) {
			return fits(sc), nil
		}}
	}
	x := &expression.Expr{Text: text, Canonical: text, Slots: []int{slotL, slotN}, Test: func(sc *cep.Scope) (bool, error) {
		if !fits(sc) {
			return false, nil
		}
		return e.asks(sc, sum)
	}}
	if x.UsesPrev = e.condition == afterSame || e.condition == afterLess; x.UsesPrev {
		x.PrevSlots = []int{slotL, slotN}
	}
	return x
}

// keyX is the key "x".
var keyX, _ = cep.KeyOf(cep.String("x"))

// asks is the condition beside the letter; aggregate is the index of the one that it asks for.
func (e shapeElement) asks(sc *cep.Scope, aggregate int) (bool, error) {
	n, h := sc.Event.Value(slotN), sc.History
	took := 0
	if h != nil {
		took = h.Len(e.ref)
	}
	switch e.condition {
	case afterSame:
		return sc.Prev != nil && cep.Equal(sc.Prev.Value(slotL), sc.Event.Value(slotL)), nil
	case afterLess:
		if sc.Prev == nil {
			return true, nil
		}
		c, ok := cep.Compare(sc.Prev.Value(slotN), n)
		return ok && c < 0, nil
	case inKey:
		return n.AsInt()%2 == 0 || sc.Key == keyX, nil
	default:
	}
	if took == 0 { // what follows asks what ref took, or how much there is
		return true, nil
	}
	switch e.condition {
	case rising:
		c, ok := cep.Compare(n, h.At(e.ref, took-1).Value(slotN))
		return ok && c > 0, nil
	case differs:
		return !cep.Equal(n, h.At(e.ref, 0).Value(slotN)), nil
	case few:
		return h.Total() < 3 && h.Nth(0).Time() <= sc.Event.Time, nil
	case asFirst:
		return cep.Equal(n, h.AggregateEvent(aggregate).Value(slotN)), nil
	case notLast:
		return !cep.Equal(n, h.AggregateEvent(aggregate).Value(slotN)), nil
	default:
	}
	v, err := h.Aggregate(aggregate)
	if err != nil {
		return false, err
	}
	switch e.condition {
	case summed:
		return v.AsFloat()+n.AsFloat() <= 6, nil
	case aboveMax, belowMin:
		c, ok := cep.Compare(n, v)
		return v.IsMissing() || ok && (c > 0) == (e.condition == aboveMax), nil
	default: // counted, distinct
		return v.AsInt() < 2, nil
	}
}
