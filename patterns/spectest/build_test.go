package spectest

import (
	"fmt"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/expression"
)

// builder makes the rule of a shape, and its program.
type builder struct {
	shape   *shape
	rule    *patterns.Rule
	pattern nfa.Pattern
	preds   int
	leaves  int
}

// build builds the rule, with its program, and gives the size of its memo.
func (s *shape) build() (*patterns.Rule, int, error) {
	b := &builder{shape: s, rule: &patterns.Rule{
		Meta:     patterns.Meta{ID: "r"},
		Within:   spanOf(s.within),
		After:    s.after,
		Target:   s.target,
		Ordered:  s.ordered,
		Timeouts: s.timeouts,
		Newest:   s.newest,
		Limits:   s.limits,
	}}
	r, p := b.rule, &b.pattern
	*p = nfa.Pattern{
		Rule: "r", Within: r.Within, After: s.after, Target: s.target, Ordered: s.ordered, Timeouts: s.timeouts,
		Newest: s.newest, Limits: s.limits, PrevReach: r.Within,
	}
	if p.PrevReach == 0 {
		p.PrevReach = spanOf(24 * 3600)
	}
	if s.keyed {
		r.Key = []string{"k"}
	}
	r.Elements, p.Elements = b.elements(s.elements)
	for _, w := range s.without {
		name := b.name()
		where, pred := b.condition(&w, name)
		r.Without = append(r.Without, patterns.Without{Name: name, From: b.from(&w), By: b.by(&w), Where: where})
		p.Without = append(p.Without, nfa.Without{Name: name, Where: pred})
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
	if s.present {
		r.Keys = []cep.Key{keyX}
	}
	p.Aggregates = r.Aggregates
	if p.UsesPrev {
		p.PrevSlots = []int{slotL, slotN}
	}
	var err error
	r.Program, err = nfa.Compile(*p)
	return r, b.preds, err
}

// name gives out the next name.
func (b *builder) name() int {
	i := len(b.rule.Names)
	name := fmt.Sprintf("e%d", i)
	b.rule.Names = append(b.rule.Names, name)
	b.pattern.Names = append(b.pattern.Names, nfa.Name{Name: name, Keep: []int{slotL, slotN}})
	return i
}

func (b *builder) from(e *shapeElement) []string {
	stream := [...]string{"s", "t"}[e.stream]
	if !slices.Contains(b.rule.Streams, stream) {
		b.rule.Streams = append(b.rule.Streams, stream)
	}
	return []string{stream}
}

func (b *builder) by(e *shapeElement) []*expression.Expr {
	if !b.shape.keyed {
		return nil
	}
	slot := slotK
	if e.otherKey {
		slot = slotJ
	}
	return []*expression.Expr{fieldOf(slot)}
}

func fieldOf(slot int) *expression.Expr {
	return &expression.Expr{
		Text: fmt.Sprint(slot), Canonical: fmt.Sprint(slot), Unary: true, Slots: []int{slot},
		Eval: func(sc *cep.Scope) (cep.Value, error) { return sc.Event.Value(slot), nil },
	}
}

func numbered(text string, test func(n int64) bool) *expression.Expr {
	return &expression.Expr{Text: text, Canonical: text, Unary: true, Slots: []int{slotN}, Test: func(sc *cep.Scope) (bool, error) {
		return test(sc.Event.Value(slotN).AsInt()), nil
	}}
}

// pred makes the machine's half of a condition.
func (b *builder) pred(x *expression.Expr) *nfa.Pred {
	if x == nil {
		return nil
	}
	b.preds++
	return &nfa.Pred{ID: b.preds - 1, Text: x.Text, Unary: x.Unary, Slots: []int{slotL, slotN}, Test: x.Test}
}

func (b *builder) elements(elements []shapeElement) ([]patterns.Element, []nfa.Element) {
	var rule []patterns.Element
	var pattern []nfa.Element
	for i := range elements {
		e := &elements[i]
		if e.kind != nfa.KindLeaf {
			r, p := b.composite(e)
			rule, pattern = append(rule, r), append(pattern, p)
			continue
		}
		r, p := b.leaf(e)
		rule, pattern = append(rule, r), append(pattern, p)
		if e.hold {
			r, p := b.holds(e, r, p)
			rule, pattern = append(rule, r), append(pattern, p)
		}
	}
	return rule, pattern
}

func (b *builder) leaf(e *shapeElement) (patterns.Element, nfa.Element) {
	name := b.name()
	b.leaves++
	where, pred := b.condition(e, name)
	r := patterns.Element{
		Name: name, Absent: e.absent, From: b.from(e), By: b.by(e), Where: where, Link: e.link, Loop: e.loop,
		Min: e.min, Max: e.max, Optional: e.optional, Within: spanOf(e.within), LoopWithin: spanOf(e.loopGap),
		For: spanOf(e.span), FromStart: e.fromStart, Greedy: e.greedy, Edge: e.hold,
	}
	if e.forever {
		r.For = nfa.Forever
	}
	if e.hold {
		r.For = 0
	}
	p := nfa.Element{
		Name: name, Absent: e.absent, Where: pred, Link: e.link, Loop: e.loop, Min: e.min, Max: e.max, Optional: e.optional,
		Within: r.Within, LoopWithin: r.LoopWithin, For: r.For, FromStart: e.fromStart, Greedy: e.greedy, Edge: e.hold,
	}
	if e.until != 0 {
		r.Until = e.untilCondition(name)
		p.Until = b.pred(r.Until)
	}
	if e.having != always {
		r.Having = e.havingCondition(name)
		p.Having = b.pred(r.Having)
	}
	if e.distinct {
		r.Distinct = fieldOf(slotN)
		p.Distinct = &nfa.Expr{Text: "n", Slots: []int{slotN}, Eval: r.Distinct.Eval}
	}
	if e.seen.word {
		r.FirstSeen = &patterns.FirstSeen{By: []*expression.Expr{fieldOf(slotN)}, For: 3 * second, FromStart: e.seen.fromStart}
		if e.seen.forever {
			r.FirstSeen.For = nfa.Forever
		}
		p.FirstSeen = &nfa.FirstSeen{
			By:  []*nfa.Expr{{Text: "n", Slots: []int{slotN}, Eval: r.FirstSeen.By[0].Eval}},
			For: r.FirstSeen.For, FromStart: e.seen.fromStart,
		}
	}
	return r, p
}

// holds is the absence of a hold (S2.5), under the name of its step.
func (b *builder) holds(e *shapeElement, r patterns.Element, p nfa.Element) (patterns.Element, nfa.Element) {
	not := *r.Where
	not.Canonical = "not " + not.Canonical
	not.Text = not.Canonical
	test := not.Test
	not.Test = func(sc *cep.Scope) (bool, error) {
		ok, err := test(sc)
		return !ok || err != nil, nil
	}
	r.Edge, r.Absent, r.Where, r.For, r.Link = false, true, &not, spanOf(e.span), nfa.Relaxed
	p.Edge, p.Absent, p.Where, p.For, p.Link = false, true, b.pred(&not), r.For, nfa.Relaxed
	return r, p
}

func (b *builder) composite(e *shapeElement) (patterns.Element, nfa.Element) {
	r := patterns.Element{
		Kind: e.kind, Link: e.link, Loop: e.loop, Min: e.min, Max: e.max, Optional: e.optional, Times: e.times,
		Within: spanOf(e.within), Need: e.need,
	}
	p := nfa.Element{
		Kind: e.kind, Link: e.link, Loop: e.loop, Min: e.min, Max: e.max, Optional: e.optional, Times: e.times,
		Within: r.Within, Need: e.need,
	}
	first := b.leaves
	for _, part := range e.parts {
		rs, ps := b.elements(part)
		if e.kind == nfa.KindAnyOf {
			r.Alternatives, p.Alternatives = append(r.Alternatives, rs), append(p.Alternatives, ps)
		} else {
			r.Elements, p.Elements = rs, ps
		}
	}
	if e.until != 0 {
		r.Until = e.untilCondition(first)
		p.Until = b.pred(r.Until)
	}
	if e.related {
		r.Where = relatedCondition(first, b.leaves)
		p.Where = b.pred(r.Where)
	}
	return r, p
}

// relatedCondition: what the names of an all_of's members have taken differs in n.
func relatedCondition(from, to int) *expression.Expr {
	var steps []int
	for i := from; i < to; i++ {
		steps = append(steps, i)
	}
	return &expression.Expr{Text: "related", Canonical: fmt.Sprint("related", from), Steps: steps, Test: func(sc *cep.Scope) (bool, error) {
		var values []cep.Value
		for _, i := range steps {
			for j := range sc.History.Len(i) {
				v := sc.History.At(i, j).Value(slotN)
				if slices.ContainsFunc(values, func(w cep.Value) bool { return cep.Equal(v, w) }) {
					return false, nil
				}
				values = append(values, v)
			}
		}
		return true, nil
	}}
}

// untilCondition is of the letter until, and with untilTwo only true once two events were taken.
func (e *shapeElement) untilCondition(own int) *expression.Expr {
	letter := cep.String(string(e.until))
	x := &expression.Expr{
		Text: fmt.Sprintf("until %c", e.until), Canonical: fmt.Sprintf("until %c %v %d", e.until, e.untilTwo, own), Unary: !e.untilTwo,
		Slots: []int{slotL},
	}
	two := e.untilTwo
	x.Test = func(sc *cep.Scope) (bool, error) {
		if !cep.Equal(sc.Event.Value(slotL), letter) {
			return false, nil
		}
		return !two || sc.History != nil && sc.History.Total() >= 2, nil
	}
	return x
}

// havingCondition reads what this pass of the loop took.
func (e *shapeElement) havingCondition(own int) *expression.Expr {
	kind := e.having
	return &expression.Expr{
		Text: havingNames[kind], Canonical: fmt.Sprint(havingNames[kind], own), Steps: []int{own},
		Test: func(sc *cep.Scope) (bool, error) {
			h := sc.History
			n := h.Len(own)
			switch kind {
			case notTwo:
				return n != 2, nil
			case above:
				sum := 0.0
				for i := range n {
					sum += h.At(own, i).Value(slotN).AsFloat()
				}
				return sum > 4, nil
			case varied:
				return n > 1 && !cep.Equal(h.At(own, 0).Value(slotN), h.At(own, n-1).Value(slotN)), nil
			default:
				return h.Total() >= 3, nil
			}
		},
	}
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

// condition builds the condition of a leaf.
func (b *builder) condition(e *shapeElement, own int) (*expression.Expr, *nfa.Pred) {
	letter := cep.String(string(e.letter))
	fits := func(sc *cep.Scope) bool { return e.letter == '.' || cep.Equal(sc.Event.Value(slotL), letter) }
	if e.condition == plain && e.letter == '.' && !e.hold {
		return nil, nil
	}
	x := &expression.Expr{Text: fmt.Sprintf("%c %s(%d)", e.letter, conditionNames[e.condition], e.ref), Slots: []int{slotL, slotN}}
	x.Canonical = fmt.Sprint(x.Text, own)
	if e.condition == plain {
		x.Unary = true
		x.Test = func(sc *cep.Scope) (bool, error) { return fits(sc), nil }
		return x, b.pred(x)
	}
	aggregate := -1
	if g, ok := e.condition.aggregate(e.ref); ok {
		aggregate = len(b.rule.Aggregates)
		b.rule.Aggregates = append(b.rule.Aggregates, g)
	}
	condition, ref := e.condition, e.ref
	x.Test = func(sc *cep.Scope) (bool, error) {
		if !fits(sc) {
			return false, nil
		}
		return condition.asks(sc, ref, aggregate)
	}
	if x.UsesPrev = e.condition == afterSame || e.condition == afterLess; x.UsesPrev {
		x.PrevSlots = []int{slotL, slotN}
		b.pattern.UsesPrev = true
	}
	return x, b.pred(x)
}

// keyX is the key "x".
var keyX, _ = cep.KeyOf(cep.String("x"))

// asks is the condition beside the letter; aggregate is the index of the one that it asks for.
func (c condition) asks(sc *cep.Scope, ref, aggregate int) (bool, error) {
	n, h := sc.Event.Value(slotN), sc.History
	took := 0
	if h != nil {
		took = h.Len(ref)
	}
	switch c {
	case afterSame:
		return sc.Prev != nil && cep.Equal(sc.Prev.Value(slotL), sc.Event.Value(slotL)), nil
	case afterLess:
		if sc.Prev == nil {
			return true, nil
		}
		d, ok := cep.Compare(sc.Prev.Value(slotN), n)
		return ok && d < 0, nil
	case inKey:
		return n.AsInt()%2 == 0 || sc.Key == keyX, nil
	default:
	}
	if took == 0 { // what follows asks what ref took, or how much there is
		return true, nil
	}
	switch c {
	case rising:
		d, ok := cep.Compare(n, h.At(ref, took-1).Value(slotN))
		return ok && d > 0, nil
	case differs:
		return !cep.Equal(n, h.At(ref, 0).Value(slotN)), nil
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
	switch c {
	case summed:
		return v.AsFloat()+n.AsFloat() <= 6, nil
	case aboveMax, belowMin:
		d, ok := cep.Compare(n, v)
		return v.IsMissing() || ok && (d > 0) == (c == aboveMax), nil
	default: // counted, distinct
		return v.AsInt() < 2, nil
	}
}
