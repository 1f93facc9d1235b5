package nfa

import (
	"testing"

	"github.com/cepd/cepd/cep"
)

// leaf is a step or loop for tests of composites.
func leaf(b *builder, name string, link Link) Element {
	e := Element{Name: len(b.Names), Link: link, Loop: Relaxed, Min: 1, Max: 1, Where: kindIs(name)}
	b.Names = append(b.Names, Name{Name: name, Keep: []int{slotValue}})
	return e
}

// TestWholes holds composites and the words that need more than one run's state to worked examples of S2 to S5.
func TestWholes(t *testing.T) {
	for _, c := range []struct {
		name, events, want string
		advance            []float64
		make               func(*builder)
	}{
		{
			name: "a group that repeats", events: "a b a b c", want: "a=1,3 b=2,4 c=5 @5; a=1 b=2 c=5 @5; a=3 b=4 c=5 @5",
			make: func(b *builder) {
				g := Element{Kind: KindGroup, Elements: []Element{leaf(b, "a", NoLink), leaf(b, "b", Relaxed)}, Min: 1, Max: -1, Times: true}
				b.Elements = []Element{g, leaf(b, "c", Relaxed)}
			},
		},
		{
			name: "any_of", events: "b a c", want: "b=1 c=3 @3; a=2 c=3 @3",
			make: func(b *builder) {
				g := Element{Kind: KindAnyOf, Alternatives: [][]Element{{leaf(b, "a", NoLink)}, {leaf(b, "b", NoLink)}}, Min: 1, Max: 1}
				b.Elements = []Element{g, leaf(b, "c", Relaxed)}
			},
		},
		{
			name: "all_of in any order", events: "x b a c a", want: "a=3 b=2 c=4 @4",
			make: func(b *builder) {
				b.After = SkipPastLast
				g := Element{Kind: KindAllOf, Elements: []Element{leaf(b, "a", NoLink), leaf(b, "b", NoLink)}}
				b.Elements = []Element{g, leaf(b, "c", Relaxed)}
			},
		},
		{
			name: "at_least two of three, within four seconds", events: "a@0 c@5 b@9 x@10", want: "b=3 c=2 @3",
			make: func(b *builder) {
				b.Elements = []Element{{
					Kind: KindAllOf, Need: 2, Within: seconds(4),
					Elements: []Element{leaf(b, "a", NoLink), leaf(b, "b", NoLink), leaf(b, "c", NoLink)},
				}}
			},
		},
		{
			name: "the condition of all_of is about the last member", events: "a=1 b=2 b=1", want: "a=1 b=3 @3",
			make: func(b *builder) {
				b.Elements = []Element{{
					Kind: KindAllOf, Elements: []Element{leaf(b, "a", NoLink), leaf(b, "b", NoLink)},
					Where: &Pred{ID: 1, Text: "value == first.value", Test: func(s *cep.Scope) (bool, error) {
						return s.History.Total() == 2 && cep.Equal(s.History.Nth(1).Value(slotValue), s.History.Nth(0).Value(slotValue)), nil
					}},
				}}
			},
		},
		{
			name: "greedy", events: "a a x a b", want: "a=1,2,4 b=5 @5; a=2,4 b=5 @5; a=4 b=5 @5",
			make: func(b *builder) {
				a := leaf(b, "a", NoLink)
				a.Max, a.Greedy = -1, true
				b.Elements = []Element{a, leaf(b, "b", Relaxed)}
			},
		},
		{
			name: "until", events: "s a a u a e", want: "s=1 a=2,3 e=6 @6; s=1 a=2 e=6 @6",
			make: func(b *builder) {
				s, a := leaf(b, "s", NoLink), leaf(b, "a", Relaxed)
				a.Max, a.Until = -1, kindIs("u")
				b.Elements = []Element{s, a, leaf(b, "e", Relaxed)}
			},
		},
		{
			name: "distinct counts values", events: "a=1 a=1 a=2 b a=3 b", want: "a=1,2,3 b=4 @4; a=2,3 b=4 @4; a=3,5 b=6 @6",
			make: func(b *builder) {
				a := leaf(b, "a", NoLink)
				a.Min, a.Max, a.Distinct = 2, 2, value()
				b.Elements = []Element{a, leaf(b, "b", Relaxed)}
			},
		},
		{
			name: "having", events: "a=1 a=1 a=3 b", want: "a=1,2,3 b=4 @4; a=2,3 b=4 @4",
			make: func(b *builder) {
				a := leaf(b, "a", NoLink)
				a.Max = -1
				b.Aggregates = []cep.Aggregate{{Kind: cep.AggregateSum, Slot: slotValue}}
				a.Having = &Pred{ID: 1, Text: "sum(a, .value) > 3", Test: func(s *cep.Scope) (bool, error) {
					v, err := s.History.Aggregate(0)
					return v.AsInt() > 3, err
				}}
				b.Elements = []Element{a, leaf(b, "b", Relaxed)}
			},
		},
		{
			name: "having sees one pass", events: "a=4 x a=1 x", want: "a=1 x=2 @2",
			make: func(b *builder) {
				a, x := leaf(b, "a", NoLink), leaf(b, "x", Relaxed)
				a.Max, a.Loop = -1, Strict
				b.Aggregates = []cep.Aggregate{{Kind: cep.AggregateSum, Slot: slotValue}}
				a.Having = &Pred{ID: 1, Text: "sum(a, .value) > 3", Test: func(s *cep.Scope) (bool, error) {
					v, err := s.History.Aggregate(0)
					return v.AsInt() > 3 && s.History.Len(0) == 1, err
				}}
				b.Elements = []Element{{Kind: KindGroup, Elements: []Element{a, x}, Min: 1, Max: 2, Times: true}}
			},
		},
		{
			name: "without", events: "a w b a b", want: "a=4 b=5 @5",
			make: func(b *builder) {
				b.Elements = []Element{leaf(b, "a", NoLink), leaf(b, "b", Relaxed)}
				b.Without = []Without{{Name: leaf(b, "w", NoLink).Name, Where: kindIs("w")}}
			},
		},
		{
			name: "first_seen", events: "a@0=1 a@3=1 a@4=2 a@9=1 a@13.5=1 a@14", want: "a=1 @1; a=3 @3; a=4 @4",
			make: func(b *builder) {
				a := leaf(b, "a", NoLink)
				a.FirstSeen = &FirstSeen{By: []*Expr{value()}, For: seconds(5), FromStart: true}
				b.Elements = []Element{a}
			},
		},
		{
			name: "hold", events: "a@0=2 a@1=9 a@2=9 a@3=1 a@4=9", advance: []float64{9}, want: "a=5 @9s",
			make: func(b *builder) {
				high := func(s *cep.Scope) (bool, error) { return s.Event.Value(slotValue).AsInt() > 5, nil }
				a := leaf(b, "a", NoLink)
				a.Edge, a.Where = true, &Pred{ID: 1, Unary: true, Text: "value > 5", Test: high}
				low := &Pred{ID: 2, Unary: true, Text: "not value > 5", Test: func(s *cep.Scope) (bool, error) {
					ok, err := high(s)
					return !ok, err
				}}
				b.PrevReach = seconds(10)
				b.Elements = []Element{a, {Name: a.Name, Absent: true, Where: low, For: seconds(5)}}
			},
		},
		{
			name: "keep: newest", events: "a a b b c", want: "a=2 b=3 c=5 @5",
			make: func(b *builder) {
				b.Newest = true
				b.Elements = []Element{leaf(b, "a", NoLink), leaf(b, "b", Relaxed), leaf(b, "c", Relaxed)}
			},
		},
		{
			name: "keep: newest, and what has come less far goes on", events: "a a b a b c", want: "a=4 b=5 c=6 @6",
			make: func(b *builder) {
				b.Newest = true
				b.Elements = []Element{leaf(b, "a", NoLink), leaf(b, "b", Relaxed), leaf(b, "c", Relaxed)}
			},
		},
		{
			name: "on_limit: drop_oldest", events: "a a a b", want: "a=2 b=4 @4; a=3 b=4 @4",
			make: func(b *builder) {
				b.Limits.StartsPerKey, b.Limits.DropOldest = 2, true
				b.Elements = []Element{leaf(b, "a", NoLink), leaf(b, "b", Relaxed)}
			},
		},
	} {
		b := &builder{Pattern{Rule: c.name}}
		c.make(b)
		p := b.compile(t)
		if got := play(p, stream(c.events), c.advance...); got != c.want {
			t.Errorf("%s on %s\n got %s\nwant %s\n%s", c.name, c.events, got, c.want, p)
		}
	}
}

// TestAwait: a key that counts as present from the beginning is silent until it speaks (S4.4).
func TestAwait(t *testing.T) {
	b := &builder{Pattern{Rule: "silent", After: SkipPastLast}}
	beat := leaf(b, "a", NoLink)
	b.Elements = []Element{beat, {Name: beat.Name, Absent: true, Where: beat.Where, For: seconds(5)}}
	p := b.compile(t)
	m := NewMachine(p, nil)
	for _, key := range []string{"never", "once", "gone"} {
		m.Await([]byte(key), 0)
	}
	m.Dismiss([]byte("gone"))
	m.Dismiss([]byte("unknown"))
	again, err := Restore(p, nil, m.AppendSnapshot(nil), interner())
	if err != nil {
		t.Fatal(err)
	}
	store := &records{parts: newNumbers(interner()), keys: map[string]string{}}
	store.take(t, m)
	byKey := store.restore(t, p, 1)[0]
	byKey.Dismiss([]byte("once"))
	byKey.Await([]byte("once"), 0)
	store.take(t, byKey)
	for _, m := range []*Machine{m, again, byKey} {
		if m.OpenStarts() != 2 || m.Keys() != 2 {
			t.Errorf("%d starts of %d keys", m.OpenStarts(), m.Keys())
		}
		m.Event([]byte("once"), stream("a@3")[0], all)
		m.Advance(cep.Minute)
		got := ""
		for _, x := range m.Matches() {
			got += string(x.Key) + ": " + line(p, x) + "; "
			if x.Key == "never" && x.History.Total() != 0 {
				t.Errorf("%d events", x.History.Total())
			}
		}
		if got != "never: @5s; once: a=1 @8s; " {
			t.Error(got)
		}
		if m.OpenStarts() != 0 || m.Keys() != 0 {
			t.Errorf("%d starts of %d keys are left", m.OpenStarts(), m.Keys())
		}
	}
}

// TestManyAtOnce: where tens of thousands of assignments complete in one moment, and as many runs wait, each is looked at once:
// for each of one side all of the other took minutes.
func TestManyAtOnce(t *testing.T) {
	b := &builder{Pattern{Rule: "test"}}
	a := Element{Kind: KindAnyOf, Alternatives: [][]Element{{leaf(b, "a", NoLink)}, {leaf(b, "a", NoLink)}}, Min: 1, Max: -1, Times: true, Loop: Any}
	b.Elements = []Element{a, leaf(b, "a", Relaxed)}
	m := NewMachine(b.compile(t), nil)
	const events = 10
	for seq := range uint64(events) {
		m.Event([]byte("k"), &cep.Event{Time: cep.Time(seq) * cep.Second, Seq: seq + 1, Values: []cep.Value{cep.String("a")}}, all)
	}
	// Each start that the last moment ends takes its first and last event in two ways, and those between in two or not at all.
	want := 2
	for between, ways := 0, 4; between <= events-3; between, ways = between+1, 3*ways {
		want += ways
	}
	last := 0
	for _, x := range m.Matches() {
		if x.Moment.Time == (events-1)*cep.Second {
			last++
		}
	}
	if last != want {
		t.Errorf("%d matches at the last moment, want %d", last, want)
	}
}
