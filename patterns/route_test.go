package patterns_test

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/expression"
)

var (
	auth = &cep.Partition{Stream: "auth", Name: "0"}
	web  = &cep.Partition{Stream: "web", Name: "0", Order: 1}
)

// field is the expression that reads a slot.
func field(slot int) *expression.Expr {
	return &expression.Expr{
		Canonical: fmt.Sprintf("field %d", slot), Unary: true, Slots: []int{slot},
		Eval: func(s *cep.Scope) (cep.Value, error) { return s.Event.Value(slot), nil },
	}
}

// path is the same, written as the path of the field.
func path(slot int) *expression.Expr {
	x := field(slot)
	x.Path = []string{fmt.Sprint("f", slot)}
	return x
}

// is is the condition that a slot equals one of the values.
func is(slot int, values ...cep.Value) *expression.Expr {
	return &expression.Expr{
		Canonical: fmt.Sprintf("field %d is one of %v", slot, values), Unary: true, Slots: []int{slot},
		Equalities: []expression.Equality{{Slot: slot, Values: values}},
		Whole:      !slices.ContainsFunc(values, func(v cep.Value) bool { return v.Kind() != cep.KindString || v.AsString() == "" }),
		Test: func(s *cep.Scope) (bool, error) {
			v := s.Event.Value(slot)
			return slices.ContainsFunc(values, func(w cep.Value) bool { return !v.IsMissing() && cep.Equal(v, w) }), nil
		},
	}
}

// between is the condition that a slot is a number in a range.
func between(slot int, low, high float64) *expression.Expr {
	return &expression.Expr{
		Canonical: fmt.Sprintf("field %d from %v to %v", slot, low, high), Unary: true, Slots: []int{slot},
		Bounds: []expression.Bound{{Slot: slot, Min: low, Max: high}},
		Test: func(s *cep.Scope) (bool, error) {
			v := s.Event.Value(slot)
			return v.IsNumber() && v.AsFloat() >= low && v.AsFloat() <= high, nil
		},
	}
}

// both is the condition that two hold.
func both(a, b *expression.Expr) *expression.Expr {
	return &expression.Expr{
		Canonical: a.Canonical + " and " + b.Canonical, Unary: true,
		Equalities: slices.Concat(a.Equalities, b.Equalities), Bounds: slices.Concat(a.Bounds, b.Bounds),
		Whole: a.Whole && len(b.Equalities) == 0 || b.Whole && len(a.Equalities) == 0,
		Test: func(s *cep.Scope) (bool, error) {
			x, _ := a.Test(s)
			y, _ := b.Test(s)
			return x && y, nil
		},
	}
}

var broken = &expression.Expr{
	Canonical: "broken",
	Test:      func(*cep.Scope) (bool, error) { return true, errors.New("cannot be told") },
	Eval:      func(*cep.Scope) (cep.Value, error) { return cep.Int(1), errors.New("cannot be told") },
}

func step(name int, from string, where *expression.Expr, by ...*expression.Expr) patterns.Element {
	return patterns.Element{Name: name, From: []string{from}, By: by, Where: where, Min: 1, Max: 1, Link: nfa.Relaxed, Loop: nfa.Relaxed}
}

func event(p *cep.Partition, values ...cep.Value) *cep.Event {
	return &cep.Event{Position: cep.Position{Partition: p}, Values: values}
}

// route formats what a router says: keys with their masks, ordered.
func route(r *patterns.Router, ev *cep.Event) []string {
	var out []string
	for _, d := range r.Route(ev) {
		parts, err := cep.Key(d.Key).Parts()
		if err != nil {
			panic(err)
		}
		out = append(out, fmt.Sprintf("%v %b", parts, d.Mask))
	}
	slices.Sort(out)
	return out
}

func TestRouteKeys(t *testing.T) {
	s := cep.String
	list := func(v ...cep.Value) cep.Value { return cep.List(v) }
	many := make([]cep.Value, 9)
	for i := range many {
		many[i] = cep.Int(int64(i))
	}
	r := patterns.NewRouter(&patterns.Rule{
		Streams: []string{"auth"}, Key: []string{"user", "ip"},
		Elements: []patterns.Element{step(0, "auth", nil, field(0), field(1)), step(1, "auth", nil, field(0), field(1))},
	})
	for _, c := range []struct {
		user, ip cep.Value
		want     []string
	}{
		{s("a"), cep.Int(1), []string{`["a" 1] 11`}},
		{s("a"), cep.Float(1), []string{`["a" 1] 11`}}, // 1 equals 1.0 ...
		{s("a"), s("1"), []string{`["a" "1"] 11`}},     // ... but not "1"
		{s(""), cep.Int(1), nil},
		{cep.Null, cep.Int(1), nil},
		{cep.Value{}, cep.Int(1), nil},
		{cep.Object(nil), cep.Int(1), nil},
		{list(s("a"), s("b"), s("a")), cep.Int(1), []string{`["a" 1] 11`, `["b" 1] 11`}},
		{list(s(""), cep.Null, cep.Object(nil), s("b")), cep.Int(1), []string{`["b" 1] 11`}},
		{list(), cep.Int(1), nil},
		{list(s("")), cep.Int(1), nil},
		{list(s("a"), s("b")), list(cep.Int(1), cep.Float(1), cep.Int(2)), []string{`["a" 1] 11`, `["a" 2] 11`, `["b" 1] 11`, `["b" 2] 11`}},
		{list(many[:8]...), list(many[:8]...), nil}, // 64 keys: checked below
		{list(many[:8]...), list(many...), nil},     // 72 are too many
	} {
		got := route(r, event(auth, c.user, c.ip))
		if len(c.user.AsList()) == 8 && len(c.ip.AsList()) == 8 {
			if len(got) != patterns.MaxKeys {
				t.Errorf("%d keys, want %d", len(got), patterns.MaxKeys)
			}
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("user %v, ip %v: %s", c.user, c.ip, diff)
		}
	}
	want := patterns.RouterCounters{Visible: 14, Keyed: 7, NoKey: 7, TooManyKeys: 1, Hidden: []uint64{}}
	if diff := cmp.Diff(want, *r.Counters()); diff != "" {
		t.Error(diff)
	}
}

// Elements with keys of their own: the masks of those that yield one key come together.
func TestRoutePerElement(t *testing.T) {
	r := patterns.NewRouter(&patterns.Rule{
		Streams: []string{"auth", "web"}, Key: []string{"host"},
		Elements: []patterns.Element{
			step(0, "auth", nil, field(0)), step(1, "auth", nil, field(1)), step(2, "web", nil, field(1)), step(3, "auth", nil, field(0)),
		},
	})
	for _, c := range []struct {
		ev   *cep.Event
		want []string
	}{
		{event(auth, cep.Int(1), cep.Int(2)), []string{"[1] 1001", "[2] 10"}},
		{event(auth, cep.Int(1), cep.Int(1)), []string{"[1] 1011"}},
		{event(auth, cep.Int(1)), []string{"[1] 1001"}},
		{event(web, cep.Int(1), cep.Int(2)), []string{"[2] 100"}},
		{event(&cep.Partition{Stream: "mail"}, cep.Int(1), cep.Int(2)), nil},
	} {
		if diff := cmp.Diff(c.want, route(r, c.ev)); diff != "" {
			t.Errorf("%v: %s", c.ev.Values, diff)
		}
	}
	if c := r.Counters(); c.Visible != 4 || c.Keyed != 4 || c.NoKey != 1 {
		t.Errorf("counters %+v", *c)
	}
}

func TestRouteWithoutKey(t *testing.T) {
	r := patterns.NewRouter(&patterns.Rule{Streams: []string{"auth"}, Elements: []patterns.Element{step(0, "auth", nil)}})
	if diff := cmp.Diff([]string{"[] 1"}, route(r, event(auth))); diff != "" {
		t.Error(diff)
	}
}

// S1.4: `where` and exceptions without steps make an event invisible; one with steps hides it from these, and it still
// counts in its key.
func TestRouteVisibility(t *testing.T) {
	rule := &patterns.Rule{
		Streams: []string{"auth"}, Key: []string{"k"},
		Where:    is(1, cep.String("login")),
		Elements: []patterns.Element{step(0, "auth", nil, field(0)), step(1, "auth", nil, field(0))},
		Exceptions: []patterns.Exception{
			{Name: "scanner", Where: is(0, cep.Int(9)), Expires: 100},
			{Name: "robot", Where: is(0, cep.Int(8)), Steps: []int{0}, Expires: cep.AfterAll},
			{Name: "both", Where: is(0, cep.Int(7)), Steps: []int{0, 1}, Expires: cep.AfterAll},
			{Name: "broken", Where: broken, Expires: 50},
		},
	}
	rule.Elements[1].Link = nfa.Strict // every visible event counts
	r := patterns.NewRouter(rule)
	login := cep.String("login")
	at := func(t cep.Time, v ...cep.Value) *cep.Event {
		ev := event(auth, v...)
		ev.Time = t
		return ev
	}
	for _, c := range []struct {
		ev   *cep.Event
		want []string
	}{
		{at(60, cep.Int(1), login), []string{"[1] 11"}},
		{at(60, cep.Int(1), cep.String("logout")), nil},
		{at(60, cep.Int(1)), nil},
		{at(60, cep.Int(9), login), nil},
		{at(99, cep.Int(9), login), nil},
		{at(100, cep.Int(9), login), []string{"[9] 11"}}, // it has expired
		{at(60, cep.Int(8), login), []string{"[8] 10"}},
		{at(60, cep.Int(7), login), []string{"[7] 0"}},
		{at(49, cep.Int(1), login), []string{"[1] 11"}}, // an exception that errs is false, and counted
	} {
		if diff := cmp.Diff(c.want, route(r, c.ev)); diff != "" {
			t.Errorf("%v at %d: %s", c.ev.Values, c.ev.Time, diff)
		}
	}
	want := patterns.RouterCounters{Visible: 5, Keyed: 5, Hidden: []uint64{2, 1, 1, 0}, Errors: 1, LastError: "cannot be told", ErrorAt: 49}
	if diff := cmp.Diff(want, *r.Counters()); diff != "" {
		t.Error(diff)
	}

	rule.Exceptions, rule.Where = nil, broken
	if got := route(patterns.NewRouter(rule), at(1, cep.Int(1), login)); got != nil {
		t.Errorf("a where that errs lets %v through", got)
	}
	rule.Where = nil
	rule.Elements = []patterns.Element{step(0, "auth", nil, broken), step(1, "auth", nil, field(0))}
	if diff := cmp.Diff([]string{"[1] 10"}, route(patterns.NewRouter(rule), at(1, cep.Int(1)))); diff != "" {
		t.Errorf("a key that errs: %s", diff)
	}
}

// An event that no element can take is left out, unless every visible event counts.
func TestRouteLeavesOut(t *testing.T) {
	history := &expression.Expr{Canonical: "a.x == x", Test: func(*cep.Scope) (bool, error) { panic("needs what was taken") }}
	rule := &patterns.Rule{
		Streams: []string{"auth"}, Key: []string{"k"},
		Elements:   []patterns.Element{step(0, "auth", is(1, cep.Int(1)), field(0)), step(1, "auth", is(1, cep.Int(2)), field(0))},
		Exceptions: []patterns.Exception{{Name: "not b", Where: is(0, cep.Int(8)), Steps: []int{1}, Expires: cep.AfterAll}},
	}
	for _, c := range []struct {
		name   string
		change func(e *patterns.Element)
		k, x   int64
		want   []string
	}{
		{"one fits", nil, 1, 2, []string{"[1] 10"}},
		{"the other fits", nil, 1, 1, []string{"[1] 11"}}, // what stands behind it is not asked
		{"none fits", nil, 1, 3, nil},
		{"the one that fits does not see it", nil, 8, 2, nil},
		{"strict", func(e *patterns.Element) { e.Link = nfa.Strict }, 1, 3, []string{"[1] 11"}},
		{"strict loop", func(e *patterns.Element) { e.Loop = nfa.Strict }, 1, 3, []string{"[1] 11"}},
		{"prev", func(e *patterns.Element) { x := *is(1, cep.Int(2)); x.UsesPrev = true; e.Where = &x }, 1, 3, []string{"[1] 11"}},
		{"what was taken decides", func(e *patterns.Element) { e.Where = history }, 1, 3, []string{"[1] 10"}},
		{"no condition", func(e *patterns.Element) { e.Where = nil }, 1, 3, []string{"[1] 10"}},
	} {
		r := *rule
		r.Elements = slices.Clone(rule.Elements)
		if c.change != nil {
			c.change(&r.Elements[1])
		}
		if diff := cmp.Diff(c.want, route(patterns.NewRouter(&r), event(auth, cep.Int(c.k), cep.Int(c.x)))); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	failing := *broken
	failing.Unary = true
	rule.Elements[0].Where = &failing
	r := patterns.NewRouter(rule)
	if got := route(r, event(auth, cep.Int(1), cep.Int(3))); got != nil || r.Counters().Errors != 1 {
		t.Errorf("a condition that errs: %v, %+v", got, *r.Counters())
	}
	// Where the machine hears the event it asks, and counts, itself.
	if got := route(r, event(auth, cep.Int(1), cep.Int(2))); len(got) != 1 || r.Counters().Errors != 1 {
		t.Errorf("a condition that errs beside one that holds: %v, %+v", got, *r.Counters())
	}
}

func TestRouteDoesNotAllocate(t *testing.T) {
	r := patterns.NewRouter(&patterns.Rule{
		Streams: []string{"auth"}, Key: []string{"user", "ip"}, Where: is(1, cep.Int(1), cep.Int(2)),
		Elements: []patterns.Element{step(0, "auth", nil, field(0), field(1)), step(1, "auth", nil, field(0), field(1))},
	})
	ev := event(auth, cep.String("somebody"), cep.Int(1))
	if n := testing.AllocsPerRun(100, func() {
		if len(r.Route(ev)) != 1 {
			t.Fatal("no key")
		}
	}); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

// The index may name too many rules, never too few: whatever would take an event, or be moved by it, is found.
func TestIndexLosesNothing(t *testing.T) {
	constant := rapid.SampledFrom([]cep.Value{
		cep.Int(1), cep.Float(1), cep.Float(1.5), cep.Int(2), cep.String("1"), cep.String("a"), cep.String(""), cep.Bool(true), cep.Null,
	})
	condition := rapid.Custom(func(t *rapid.T) *expression.Expr {
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return nil
		case 5: // an index that admits an event knows the answer
			name := is(rapid.IntRange(0, 3).Draw(t, "slot"), cep.String("a"))
			if rapid.Bool().Draw(t, "bounded") {
				return both(name, between(rapid.IntRange(0, 3).Draw(t, "slot"), 1, 2))
			}
			return name
		case 1: // two fields, each a necessary condition
			x := both(is(rapid.IntRange(0, 3).Draw(t, "slot"), constant.Draw(t, "value")),
				is(rapid.IntRange(0, 3).Draw(t, "slot"), rapid.SliceOfN(constant, 1, 3).Draw(t, "values")...))
			x.UsesPrev = rapid.IntRange(0, 9).Draw(t, "prev") == 0
			return x
		case 2:
			low := rapid.SampledFrom([]float64{math.Inf(-1), 0, 1, 1.5}).Draw(t, "low")
			b := between(rapid.IntRange(0, 3).Draw(t, "slot"), low, rapid.SampledFrom([]float64{math.Inf(1), 2, 1}).Draw(t, "high"))
			if rapid.Bool().Draw(t, "alone") {
				return b
			}
			return both(b, is(rapid.IntRange(0, 3).Draw(t, "slot"), rapid.SliceOfN(constant, 1, 3).Draw(t, "values")...))
		default:
			return is(rapid.IntRange(0, 3).Draw(t, "slot"), rapid.SliceOfN(constant, 1, 3).Draw(t, "values")...)
		}
	})
	rule := rapid.Custom(func(t *rapid.T) *patterns.Rule {
		r := &patterns.Rule{}
		if rapid.Bool().Draw(t, "where") {
			r.Where = condition.Draw(t, "rule where")
		}
		if rapid.IntRange(0, 3).Draw(t, "resolve") == 0 {
			r.Alert.Resolve = &patterns.Resolve{From: []string{"web"}, Where: condition.Draw(t, "over")}
		}
		var by []*expression.Expr
		for range rapid.SampledFrom([]int{0, 1, 1, 2}).Draw(t, "parts of the key") {
			by = append(by, path(rapid.IntRange(0, 3).Draw(t, "part")))
		}
		r.Key = make([]string, len(by))
		for i := range rapid.IntRange(1, 3).Draw(t, "elements") {
			e := step(i, rapid.SampledFrom([]string{"auth", "web"}).Draw(t, "from"), condition.Draw(t, "where"), by...)
			e.Absent = rapid.IntRange(0, 3).Draw(t, "absent") == 0
			if rapid.IntRange(0, 5).Draw(t, "strict") == 0 {
				e.Link = nfa.Strict
			}
			r.Elements = append(r.Elements, e)
			if !slices.Contains(r.Streams, e.From[0]) {
				r.Streams = append(r.Streams, e.From[0])
			}
		}
		return r
	})
	value := rapid.OneOf(constant, rapid.Just(cep.String("a")), rapid.Just(cep.Value{}), rapid.Just(cep.List([]cep.Value{cep.Int(1)})))
	touched, found, held, surely := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.SliceOfN(rule, 1, 6).Draw(t, "rules")
		x := patterns.NewIndex(set)
		for range 8 {
			ev := event(rapid.SampledFrom([]*cep.Partition{auth, web}).Draw(t, "stream"), rapid.SliceOfN(value, 0, 4).Draw(t, "fields")...)
			got := slices.Clone(x.Lookup(ev))
			slices.Sort(got)
			if len(slices.Compact(slices.Clone(got))) != len(got) {
				t.Fatalf("rules named twice: %v", got)
			}
			found += len(got)
			for _, i := range got {
				may, sure := x.May(i)
				surely += bits.OnesCount64(sure)
				held += narrows(t, set[i], ev, may, sure)
			}
			for i, r := range set {
				if touches(r, ev) {
					touched++
					if !slices.Contains(got, i) {
						t.Fatalf("event %v of %s: rule %d is lost, found %v", ev.Values, ev.Position.Partition.Stream, i, got)
					}
				}
			}
		}
	})
	if touched == 0 || found < touched || held == 0 || surely == 0 {
		t.Errorf("%d rules touched, %d found, %d conditions known to hold, %d by the index: the test tests nothing", touched, found, held, surely)
	}
}

// narrows holds what a router says of an event, with the names that the index leaves, against the plain reading: whatever may
// take the event is in a mask, and what is said to hold does. It returns how many conditions are said to hold.
func narrows(t *rapid.T, r *patterns.Rule, ev *cep.Event, may, sure uint64) int {
	scope := &cep.Scope{Event: ev}
	holds := func(x *expression.Expr) bool {
		if x == nil {
			return true
		}
		ok, err := x.Test(scope)
		return ok && err == nil
	}
	var takes, mask, known, edges uint64
	for i := range r.Elements {
		e := &r.Elements[i]
		if slices.Contains(e.From, ev.Position.Partition.Stream) && holds(r.Where) && holds(e.Where) {
			takes |= 1 << e.Name
		}
		if e.Edge { // its machine wants to know whether the condition holds, for the event to come
			edges |= 1 << e.Name
		}
	}
	// One of many takes a shorter way where there is one: to the same keys and counters.
	alone, many := patterns.NewRouter(r), patterns.NewRouters([]*patterns.Rule{r, r})
	want := alone.Narrow(ev, may, sure)
	got := many.Narrow(1, ev, may, sure)
	for i, d := range got {
		if len(want) != len(got) || string(want[i].Key) != string(d.Key) || want[i].Mask != d.Mask || want[i].Holds&^d.Holds != 0 {
			t.Fatalf("event %v: one router says %v, one of many %v", ev.Values, want, got)
		}
		mask, known = mask|d.Mask, known|d.Holds
	}
	if diff := cmp.Diff(alone.Counters(), many.Counters(1)); diff != "" {
		t.Fatalf("event %v: (-alone +of many)\n%s", ev.Values, diff)
	}
	if keyless := alone.Counters().NoKey > 0; takes&^mask != 0 && !keyless || known&^takes != 0 || known&edges != 0 {
		t.Fatalf("event %v: %b take it; the mask is %b of %b, %b are said to hold", ev.Values, takes, mask, may, known)
	}
	return bits.OnesCount64(known)
}

// Where the index is sure of all conditions the keys of an event are found in a shorter way: they are the same.
func TestRouteIsSure(t *testing.T) {
	value := rapid.SampledFrom([]cep.Value{
		cep.String("a"), cep.String("b"), cep.Int(1), cep.Float(2.5), {}, cep.Null, cep.List([]cep.Value{cep.Int(1), cep.String("b")}), cep.List(nil),
	})
	known := 0
	rapid.Check(t, func(t *rapid.T) {
		r := &patterns.Rule{Streams: []string{"auth"}, Key: []string{"k"}}
		for i := range rapid.IntRange(1, 3).Draw(t, "elements") {
			where := is(0, cep.String(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "is")))
			if rapid.Bool().Draw(t, "bounded") {
				where = both(where, between(1, 1, 2))
			}
			e := step(i, "auth", where, path(rapid.SampledFrom([]int{2, 2, 2, 3}).Draw(t, "key")))
			e.Edge = rapid.IntRange(0, 5).Draw(t, "edge") == 0
			r.Elements = append(r.Elements, e)
		}
		x := patterns.NewIndex([]*patterns.Rule{r})
		for range 8 {
			ev := event(auth, rapid.SliceOfN(value, 4, 4).Draw(t, "fields")...)
			if len(x.Lookup(ev)) > 0 {
				may, sure := x.May(0)
				known += narrows(t, r, ev, may, sure)
			}
		}
	})
	if known == 0 {
		t.Error("no condition was known to hold")
	}
}

// touches is the plain reading of S1.4: what the index must not lose.
func touches(r *patterns.Rule, ev *cep.Event) bool {
	scope := &cep.Scope{Event: ev}
	holds := func(x *expression.Expr) bool {
		if x == nil {
			return true
		}
		ok, err := x.Test(scope)
		return ok && err == nil
	}
	stream := ev.Position.Partition.Stream
	if over := r.Alert.Resolve; over != nil && over.Where != nil && slices.Contains(over.From, stream) && holds(over.Where) {
		return true
	}
	if !slices.Contains(r.Streams, stream) || !holds(r.Where) {
		return false
	}
	for i := range r.Elements {
		e := &r.Elements[i]
		if e.Link == nfa.Strict || (e.Where != nil && e.Where.UsesPrev) {
			return true
		}
	}
	for i := range r.Elements {
		e := &r.Elements[i]
		if slices.Contains(e.From, stream) && holds(e.Where) {
			return true
		}
	}
	return false
}

// Behind an equality the bounds of another field decide, without a look at the rule.
func TestIndexAsksBounds(t *testing.T) {
	x := patterns.NewIndex([]*patterns.Rule{{
		Streams: []string{"auth"},
		Elements: []patterns.Element{
			step(0, "auth", both(is(0, cep.Int(7)), both(between(0, 7, 7), between(1, 900, math.Inf(1))))),
			step(1, "auth", both(is(0, cep.Int(7)), between(1, math.Inf(-1), 100))),
		},
	}})
	for v, want := range map[cep.Value]int{
		cep.Int(900): 1, cep.Int(899): 0, cep.Float(100): 1, cep.Float(100.5): 0, cep.String("950"): 0, {}: 0, cep.Float(math.NaN()): 0,
	} {
		if got := x.Lookup(event(auth, cep.Int(7), v)); len(got) != want {
			t.Errorf("%v: %v", v, got)
		}
	}
}

// What ends an alert is routed by its own stream, key and condition, beside what the rule takes.
func TestRouteResolves(t *testing.T) {
	r := patterns.NewRouter(&patterns.Rule{
		Streams: []string{"auth"}, Key: []string{"k"}, Where: is(1, cep.Int(1)),
		Elements: []patterns.Element{step(0, "auth", nil, field(0))},
		Alert: patterns.Alert{Resolve: &patterns.Resolve{
			From: []string{"auth", "web"}, By: []*expression.Expr{field(2)}, Where: is(3, cep.Bool(true)),
		}},
	})
	type got struct {
		Key      string
		Mask     uint64
		Resolves bool
	}
	for _, c := range []struct {
		ev   *cep.Event
		want []got
	}{
		{event(auth, cep.Int(5), cep.Int(1), cep.Int(5), cep.Bool(true)), []got{{"[5]", 1, false}, {"[5]", 0, true}}},
		{event(auth, cep.Int(5), cep.Int(0), cep.Int(6), cep.Bool(true)), []got{{"[6]", 0, true}}}, // the rule's where is not asked
		{event(web, cep.Int(5), cep.Int(1), cep.List([]cep.Value{cep.Int(6), cep.Int(7)}), cep.Bool(true)), []got{{"[6]", 0, true}, {"[7]", 0, true}}},
		{event(web, cep.Int(5), cep.Int(1), cep.Int(6), cep.Bool(false)), nil},
	} {
		var list []got
		for _, d := range r.Route(c.ev) {
			parts, err := cep.Key(d.Key).Parts()
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, got{fmt.Sprint(parts), d.Mask, d.Resolves})
		}
		if diff := cmp.Diff(c.want, list); diff != "" {
			t.Errorf("%v: %s", c.ev.Values, diff)
		}
	}
}

// A thousand rules, each on a type of its own: an event finds one.
func TestIndexFindsFew(t *testing.T) {
	var set []*patterns.Rule
	for i := range 1000 {
		set = append(set, &patterns.Rule{
			Streams: []string{"auth"}, Where: is(1, cep.String("auth")),
			Elements: []patterns.Element{step(0, "auth", is(0, cep.String(fmt.Sprint("type", i)))), step(1, "auth", is(0, cep.String(fmt.Sprint("type", i))))},
		})
	}
	x := patterns.NewIndex(set)
	ev := event(auth, cep.String("type77"), cep.String("auth"))
	if diff := cmp.Diff([]int{77}, x.Lookup(ev)); diff != "" {
		t.Error(diff)
	}
	if got := x.Lookup(event(auth, cep.String("type7777"), cep.String("auth"))); len(got) != 0 {
		t.Errorf("an event of no type finds %v", got)
	}
	if n := testing.AllocsPerRun(100, func() { x.Lookup(ev) }); n != 0 {
		t.Errorf("%v allocations a lookup", n)
	}
}
