package nfa

import (
	stdcmp "cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/internal/invariant"
)

// TestMask: an event that a name does not exist for is neither taken by it nor breaks it, and counts for strict.
func TestMask(t *testing.T) {
	run := func(text, events string, masks ...uint64) string {
		p := sequence(t, text).compile(t)
		m := NewMachine(p, nil)
		for i, ev := range stream(events) {
			m.Event(nil, ev, masks[i])
		}
		return lines(p, m)
	}
	for _, c := range []struct {
		text, events string
		masks        []uint64
		want         string
	}{
		{"a >>b", "a b b", []uint64{1, 1, 2}, "a=1 b=3 @3"},
		{"a >b", "a b b", []uint64{1, 1, 2}, ""},
		{"a >b", "a x b", []uint64{1, 0, 2}, ""},
		{"a !>>x >>b", "a x b", []uint64{1, 5, 4}, "a=1 b=3 @3"},
		{"a !>>x >>b", "a x b", []uint64{1, 2, 4}, ""},
		{"a >>b", "a b", []uint64{2, 2}, ""},
	} {
		if got := run(c.text, c.events, c.masks...); got != c.want {
			t.Errorf("%s on %s with %b: %s, want %s", c.text, c.events, c.masks, got, c.want)
		}
	}
}

// TestPrev: the event before, in the key's own stream, whatever it was and only within reach (S1.5).
func TestPrev(t *testing.T) {
	s := sequence(t, "a")
	s.UsesPrev, s.PrevSlots, s.PrevReach = true, []int{slotValue}, seconds(10)
	s.Elements[0].Where = &Pred{ID: 1, Text: "value > prev.value", Slots: []int{slotKind, slotValue}, Test: func(s *cep.Scope) (bool, error) {
		if s.Prev == nil {
			return false, nil
		}
		c, ok := cep.Compare(s.Event.Value(slotValue), s.Prev.Value(slotValue))
		return s.Event.Value(slotKind).AsString() == "a" && ok && c > 0, nil
	}}
	p := s.compile(t)
	m := NewMachine(p, nil)
	for i, ev := range stream("a@0=5 a@1=6 x@2=9 a@3=8 a@13=9 a@24=10 a@25=11") {
		m.Event([]byte("k"), ev, all)
		if i%2 == 1 {
			ev.Values[slotValue] = cep.Int(0) // the caller uses its memory again
		}
		other := *ev
		other.Values = []cep.Value{cep.String("x"), cep.Int(100)}
		m.Event([]byte("other"), &other, all)
	}
	if got, want := lines(p, m), "a=2 @2; a=5 @5; a=7 @7"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if m.Keys() != 2 {
		t.Errorf("%d keys", m.Keys())
	}
	m.Advance(35*cep.Second - 1)
	if m.Keys() != 2 {
		t.Errorf("%d keys before the reach ends", m.Keys())
	}
	if d := m.NextDeadline(); d != 35*cep.Second {
		t.Errorf("next deadline %v", d)
	}
	m.Advance(35 * cep.Second)
	if m.Keys() != 0 {
		t.Errorf("%d keys after the reach of prev (S9)", m.Keys())
	}
}

// TestFirstTime: before first time + for an absence at the start has not held, unless the time before counts as empty
// (S4.3).
func TestFirstTime(t *testing.T) {
	for _, c := range []struct {
		first     cep.Time
		fromStart bool
		want      string
	}{
		{cep.BeforeAll, false, "a=1 @1; a=2 @2; a=3 @3"},
		{0, false, "a=2 @2; a=3 @3"},
		{cep.Second, false, "a=3 @3"},
		{0, true, "a=1 @1; a=2 @2; a=3 @3"},
	} {
		s := sequence(t, "!x >>a")
		s.Elements[0].For, s.Elements[0].FromStart = seconds(5), c.fromStart
		p := s.compile(t)
		m := NewMachine(p, nil)
		m.SetFirstTime(c.first)
		for _, ev := range stream("a@4 a@5 a@6") {
			m.Event(nil, ev, all)
		}
		if got := lines(p, m); got != c.want {
			t.Errorf("first time %v, from start %v: %s, want %s", c.first, c.fromStart, got, c.want)
		}
		if m.Keys() != 0 {
			t.Errorf("%d keys", m.Keys())
		}
	}
}

// TestLooksAhead: the condition of an absence at the start names the event to come.
func TestLooksAhead(t *testing.T) {
	s := sequence(t, "!x >>a")
	s.Elements[0].For = seconds(5)
	s.Names[1].Keep = []int{slotValue}
	asked := 0
	s.Elements[0].Where = &Pred{ID: 1, Text: "value == a.value", Slots: []int{slotKind, slotValue}, Test: func(s *cep.Scope) (bool, error) {
		asked++
		if s.History.Total() != 1 || s.History.Len(1) != 1 {
			t.Errorf("a history of %d", s.History.Total())
		}
		if s.Event.Value(slotKind).AsString() == "e" {
			return false, errors.New("no value")
		}
		return s.Event.Value(slotKind).AsString() == "x" && cep.Equal(s.Event.Value(slotValue), s.History.At(1, 0).Value(slotValue)), nil
	}}
	p := s.compile(t)
	m := NewMachine(p, nil)
	for _, ev := range stream("x@0=1 e@1 a@2=1 a@3=2 a@5=1 a@5.5=1") {
		m.Event([]byte("k"), ev, all)
	}
	if got, want := lines(p, m), "a=4 @4; a=6 @6"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if c := m.Counters(); asked == 0 || c.Errors != 4 || c.LastError != "no value" {
		t.Errorf("asked %d times, %d errors, the last %q", asked, c.Errors, c.LastError)
	}
	m.Advance(11 * cep.Second)
	if m.Keys() != 0 {
		t.Errorf("%d keys after all has aged out", m.Keys())
	}
}

// TestCounters follows a funnel.
func TestCounters(t *testing.T) {
	s := sequence(t, "a >>b !>>x >>c")
	s.Within, s.Timeouts, s.After = seconds(10), true, SkipPastLast
	m := NewMachine(s.compile(t), nil)
	for i, events := range []string{"a b c", "a b x c", "a b z", "a a b c", "a@0 b@2 c@10.5"} {
		for _, ev := range stream(events) {
			ev.Time += cep.Time(i) * 100 * cep.Second
			ev.Seq += uint64(i) * 100
			m.Event([]byte("k"), ev, all)
		}
	}
	m.Advance(cep.AfterAll)
	got := *m.Counters()
	// Of "a a b c" both starts complete, and the match of the first takes the second with it.
	want := Counters{
		Delivered: 17, Taken: []uint64{6, 6, 1, 3}, Opened: 6,
		Ended:   [endReasons]uint64{EndCompleted: 3, EndExpired: 2, EndKilled: 1},
		Matched: 2, Timeouts: 2,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if m.OpenStarts() != 0 || m.Keys() != 0 || m.NextDeadline() != cep.AfterAll {
		t.Errorf("%d starts, %d keys, next deadline %v", m.OpenStarts(), m.Keys(), m.NextDeadline())
	}
}

// TestLimits is S5.8.
func TestLimits(t *testing.T) {
	s := sequence(t, "a >>b")
	s.Within, s.Limits.StartsPerKey = seconds(10), 2
	p := s.compile(t)
	m := NewMachine(p, nil)
	// The third start is refused; that at 10 comes while the first is open still, that at 10.5 after it has expired.
	for _, ev := range stream("a@0 a@1 a@2 a@10 a@10.5 b@11") {
		m.Event([]byte("k"), ev, all)
	}
	if got, want := lines(p, m), "a=2 b=6 @6; a=5 b=6 @6"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := m.Counters().Refused; n != 2 {
		t.Errorf("%d refused", n)
	}

	s = sequence(t, "a >>b+ >>c")
	s.Limits.EventsPerMatch = 3
	p = s.compile(t)
	m = NewMachine(p, nil)
	for _, ev := range stream("a b b b c") {
		m.Event([]byte("k"), ev, all)
	}
	if got, want := lines(p, m), "a=1 b=2 c=5 @5"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := m.Counters().TooLong; n != 1 {
		t.Errorf("%d too long", n)
	}
}

// TestErrors: a condition that errs is false and counted, a unary one once an event however many keys and runs ask.
func TestErrors(t *testing.T) {
	s := sequence(t, "a >>b")
	s.Elements[1].Where = &Pred{ID: 2, Unary: true, Text: "bad", Test: func(s *cep.Scope) (bool, error) {
		return true, fmt.Errorf("bad at %d", s.Event.Seq)
	}}
	m := NewMachine(s.compile(t), nil)
	for _, ev := range stream("a a b b") {
		m.Event([]byte("k"), ev, all)
		m.Event([]byte("l"), ev, all)
	}
	if c := m.Counters(); c.Errors != 3 || c.LastError != "bad at 4" || c.Matched != 0 {
		t.Errorf("%d errors, the last %q, %d matches", c.Errors, c.LastError, c.Matched)
	}
}

// TestMemo: machines of one goroutine ask an equal condition once.
func TestMemo(t *testing.T) {
	asked := 0
	s := sequence(t, "a >>b")
	s.Elements[0].Where = &Pred{ID: 3, Unary: true, Test: func(*cep.Scope) (bool, error) { asked++; return true, nil }}
	p := s.compile(t)
	memo := NewMemo(1 << 20)
	machines := []*Machine{NewMachine(p, memo), NewMachine(p, memo), NewMachine(p, memo)}
	for _, ev := range stream("a a a") {
		memo.Next()
		for _, m := range machines {
			m.Event([]byte("k"), ev, all)
			m.Event([]byte("l"), ev, all)
		}
	}
	if asked != 3 {
		t.Errorf("asked %d times about 3 events", asked)
	}
	memo.round = ^uint32(0)
	memo.Next() // round 1 again: the answers of the first event must be gone
	machines[0].Event([]byte("k"), &cep.Event{Time: cep.Hour, Seq: 9, Values: []cep.Value{cep.String("a")}}, all)
	if asked != 4 {
		t.Errorf("an old answer came back")
	}
}

// TestOrder: what comes out is in the order of (moment, key), whichever key is asked first, and each deadline is a moment
// of its own (S5.3).
func TestOrder(t *testing.T) {
	s := sequence(t, "a !>>x")
	s.Elements[1].For = seconds(5)
	p := s.compile(t)
	m := NewMachine(p, nil)
	for i, ev := range stream("a@0 a@1 a@2") {
		for _, key := range []string{"z", "y", "x"}[i:] {
			m.Event([]byte(key), ev, all)
		}
	}
	m.Advance(cep.Hour)
	var got []string
	for _, x := range m.Matches() {
		got = append(got, string(x.Key)+" "+line(p, x))
	}
	if s := strings.Join(got, ", "); s != "x a=1 @5s, y a=1 @5s, z a=1 @5s, x a=2 @6s, y a=2 @6s, x a=3 @7s" {
		t.Error(s)
	}
	s = sequence(t, "a")
	m = NewMachine(s.compile(t), nil)
	ev := stream("a")[0]
	for _, key := range []string{"b", "c", "a"} {
		m.Event([]byte(key), ev, all)
	}
	for i, x := range m.Matches() {
		if string(x.Key) != []string{"a", "b", "c"}[i] {
			t.Errorf("match %d is of key %s", i, x.Key)
		}
	}
	if len(m.Matches()) != 0 {
		t.Error("matches come out twice")
	}
}

// TestMatchStays: a match can be read long after the machine has gone on.
func TestMatchStays(t *testing.T) {
	s := sequence(t, "a+ >>b")
	s.KeepRaw, s.Names[0].Keep = true, []int{slotValue}
	p := s.compile(t)
	m := NewMachine(p, nil)
	var kept []cep.Match
	var want []string
	events := stream("a=1 a=2 b x a=5 b")
	for _, ev := range events {
		ev.Raw = []byte(fmt.Sprint(ev.Seq))
		m.Event([]byte("k"), ev, all)
		for _, x := range m.Matches() {
			kept, want = append(kept, x), append(want, line(p, x))
		}
		clear(ev.Values)
		clear(ev.Raw)
	}
	for i, x := range kept {
		if got := line(p, x); got != want[i] {
			t.Errorf("%s, was %s", got, want[i])
		}
		n := x.History.At(0, 0)
		if string(n.Raw()) != fmt.Sprint(n.Position().Offset+1) || n.Value(slotValue).AsInt() != n.Position().Offset+1 || !n.Value(7).IsMissing() {
			t.Errorf("raw %q, value %v at %d", n.Raw(), n.Value(slotValue), n.Position().Offset)
		}
	}
	if len(kept) != 6 {
		t.Errorf("%d matches", len(kept))
	}
}

// TestNothingIsAllocated for an event that changes nothing.
func TestNothingIsAllocated(t *testing.T) {
	if invariant.Enabled {
		return // checking them allocates
	}
	s := sequence(t, "a >>b !>>c >>d")
	s.Within = seconds(1e6)
	m := NewMachine(s.compile(t), nil)
	seq := uint64(0)
	event := func(key, kind string) {
		seq++
		m.Event([]byte(key), &cep.Event{Time: cep.Time(seq), Seq: seq, Values: []cep.Value{cep.String(kind)}}, all)
	}
	event("k", "a")
	event("k", "b")
	known, unknown := []byte("k"), []byte("l")
	ev := &cep.Event{Time: cep.Time(seq), Values: []cep.Value{cep.String("x")}}
	if n := testing.AllocsPerRun(100, func() {
		seq++
		ev.Seq, ev.Time = seq, cep.Time(seq)
		m.Event(known, ev, all)
		m.Event(unknown, ev, all)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestMemoryGoesBack: when a hundred thousand keys have come and gone, by match, by time or by absence, the machine holds
// about nothing (S9). It takes a second.
func TestMemoryGoesBack(t *testing.T) {
	const keys = 100_000
	for name, end := range map[string]func(m *Machine, event func(key int, kind string)){
		"match": func(_ *Machine, event func(int, string)) {
			for i := range keys {
				event(i, "b")
			}
		},
		"time": func(m *Machine, _ func(int, string)) { m.Advance(cep.AfterAll) },
	} {
		s := sequence(t, "a >>b")
		s.Within = seconds(1e6)
		m := NewMachine(s.compile(t), nil)
		seq := uint64(0)
		ev := &cep.Event{}
		event := func(key int, kind string) {
			seq++
			*ev = cep.Event{Time: cep.Time(seq), Seq: seq, Values: []cep.Value{cep.String(kind)}}
			m.Event(fmt.Append(nil, key), ev, all)
			if seq%1000 == 0 {
				m.Matches()
			}
		}
		heap := func() int {
			m.Matches()
			m.Matches()
			var s runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&s)
			return int(s.HeapAlloc)
		}
		empty := heap()
		for i := range keys {
			event(i, "a")
		}
		full := heap() - empty
		end(m, event)
		rest := heap() - empty
		runtime.KeepAlive(m)
		if m.Keys() != 0 || m.OpenStarts() != 0 || rest > full/50 {
			t.Errorf("%s: %d keys, %d starts, %d bytes of %d are left", name, m.Keys(), m.OpenStarts(), rest, full)
		}
	}
}

// TestTable holds the table against a map.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table table
		want := map[string]*Runs{}
		// Few different hashes, so that runs of displaced entries form.
		hash := func(key string) uint32 { return uint32(len(key)%3)<<29 | uint32(key[0]%8)*(marks+1) }
		for range rapid.IntRange(0, 300).Draw(t, "operations") {
			key := fmt.Sprint(rapid.IntRange(0, 80).Draw(t, "key"))
			r := table.find([]byte(key), hash(key))
			if r != want[key] {
				t.Fatalf("%s: found %v, want %v", key, r, want[key])
			}
			if r == nil {
				r = &Runs{key: key, hash: hash(key)}
				want[key] = r
				table.insert(r)
			} else if rapid.Bool().Draw(t, "remove") {
				delete(want, key)
				table.remove(r)
			}
			seen := 0
			for r := range table.all() {
				seen++
				if want[r.key] != r {
					t.Fatalf("%s is there", r.key)
				}
			}
			if seen != len(want) || table.count != seen {
				t.Fatalf("%d entries, counted as %d, want %d", seen, table.count, len(want))
			}
		}
	})
}

// TestQueue holds the queue against a list: deadlines come out in order, and those of ended starts go by themselves.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &queue{}
		owner := &Runs{}
		var want []due
		at := cep.Time(0)
		for range rapid.IntRange(0, 8).Draw(t, "rounds") {
			for range rapid.IntRange(0, 900).Draw(t, "pushes") {
				at++
				d := due{at, &start{owner: owner}}
				if at%3 == 0 {
					d.start.owner = nil
				} else {
					want = append(want, d)
				}
				q.push(d)
				if !q.newest(d) && d.start.open() {
					t.Fatal("the newest is another")
				}
			}
			for range rapid.IntRange(0, 900).Draw(t, "pops") {
				d, ok := q.peek()
				if !ok {
					if len(want) > 0 {
						t.Fatal("empty too early")
					}
					break
				}
				if d != want[0] {
					t.Fatalf("%v, want %v", d, want[0])
				}
				q.pop()
				want = want[1:]
			}
		}
	})
}

// TestSortDues: short and long lists, with spans of any size, times before all among them.
func TestSortDues(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 100, 4096, 20_000} {
		for _, span := range []int64{1, 1000, 1 << 40, math.MaxInt64} {
			list := make([]due, n)
			for i := range list {
				list[i].at = cep.Time(random.Int64N(span) - random.Int64N(span))
			}
			want := slices.Clone(list)
			slices.SortFunc(want, func(a, b due) int { return stdcmp.Compare(a.at, b.at) })
			sortDues(list)
			if !slices.Equal(list, want) {
				t.Errorf("%d deadlines within %d are out of order", n, span)
			}
		}
	}
}

// TestFurthest: what the furthest run waited for.
func TestFurthest(t *testing.T) {
	for _, c := range []struct {
		text, events string
		want         Progress
		none         bool
	}{
		{text: "a{5} >>b", events: "x b", none: true},
		{text: "a{5} >>b", events: "a a x a a b", want: Progress{Name: 0, Taken: 4, Total: 4}},
		{text: "a{2,} >>b", events: "a a a a", want: Progress{Name: 1, Total: 2}},
		{text: "a >>b{3,} >>c", events: "a b a b", want: Progress{Name: 1, Taken: 2, Total: 3}},
		{text: "a >>b !>x", events: "a b", want: Progress{Name: 2, Total: 2}},
	} {
		m := NewMachine(sequence(t, c.text).compile(t), nil)
		m.TrackFurthest()
		for _, ev := range stream(c.events) {
			m.Event(nil, ev, all)
		}
		if got, ok := m.Furthest(); ok == c.none || got != c.want {
			t.Errorf("%s on %s: %+v %v, want %+v", c.text, c.events, got, ok, c.want)
		}
	}
}

// TestFurthestInGroup: a repetition that begins anew stands earlier in the program and is further all the same.
func TestFurthestInGroup(t *testing.T) {
	b := &builder{Pattern{Rule: "pairs"}}
	b.Elements = []Element{{
		Kind: KindGroup, Elements: []Element{leaf(b, "a", NoLink), leaf(b, "b", Relaxed)}, Min: 2, Max: 2, Times: true,
	}}
	m := NewMachine(b.compile(t), nil)
	m.TrackFurthest()
	for _, ev := range stream("a b") {
		m.Event(nil, ev, all)
	}
	if got, ok := m.Furthest(); !ok || got != (Progress{Name: 0, Total: 2}) {
		t.Errorf("%+v %v", got, ok)
	}
}

// TestDrain: no start begins any more, and what is open goes on.
func TestDrain(t *testing.T) {
	p := sequence(t, "a+ >>b").compile(t)
	m := NewMachine(p, nil)
	for i, ev := range stream("a a b a b") {
		if i == 1 {
			m.Drain()
		}
		m.Event([]byte("k"), ev, all)
	}
	m.Event([]byte("l"), &cep.Event{Time: cep.Minute, Seq: 9, Values: []cep.Value{cep.String("a")}}, all)
	if got, want := lines(p, m), "a=1,2 b=3 @3; a=1 b=3 @3; a=1,2,4 b=5 @5"; got != want || m.Keys() != 1 {
		t.Errorf("%s, want %s; %d keys", got, want, m.Keys())
	}
}

// TestFactsOfWholes: the facts of a program that is not flat are found behind composites too.
func TestFactsOfWholes(t *testing.T) {
	b := &builder{Pattern{Rule: "both", Within: seconds(9)}}
	both := Element{Kind: KindAllOf, Elements: []Element{leaf(b, "a", NoLink), leaf(b, "b", NoLink)}}
	absent := leaf(b, "c", Relaxed)
	absent.Absent = true
	b.Elements = []Element{both, absent}
	got := b.compile(t).Facts()
	if want := (Facts{Unary: true, Single: true, AbsentAtEnd: true, Timed: true}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestSharedSpace: machines that share a memo do not see what another one was doing, also where its condition panicked in
// the middle of an event; a machine goes from one key of an event to the next although others had their turn in between.
func TestSharedSpace(t *testing.T) {
	memo := NewMemo(100)
	bad := sequence(t, "a >>>b+/any >>c")
	inner := bad.Elements[1].Where
	bad.Elements[1].Where = &Pred{ID: 99, Text: "panics", Test: func(s *cep.Scope) (bool, error) {
		if s.Event.Value(slotValue).AsInt() == 7 {
			panic("seven")
		}
		return inner.Test(s)
	}}
	broken := NewMachine(bad.compile(t), memo)
	var programs []*Program
	var machines, alone []*Machine
	for _, text := range []string{"a >>b >>c >>d", "a >>b+ !>>d >>c", "a >>>b+/any >>c"} {
		p := sequence(t, text).compile(t)
		programs = append(programs, p)
		machines, alone = append(machines, NewMachine(p, memo)), append(alone, NewMachine(p, nil))
	}
	panicked := 0
	for _, ev := range stream("a=1 a=1 b=1 b=7 b=7 c=1 a=2 b=2 d=2 c=2 d=3") {
		memo.Next()
		for _, key := range []string{"k", "l"} {
			func() {
				defer func() {
					if recover() != nil {
						panicked++
					}
				}()
				broken.Event([]byte(key), ev, all)
			}()
			for i := range machines {
				machines[i].Event([]byte(key), ev, all)
				alone[i].Event([]byte(key), ev, all)
			}
		}
	}
	if panicked < 2 {
		t.Errorf("%d panics", panicked)
	}
	for i, p := range programs {
		got, want := lines(p, machines[i]), lines(p, alone[i])
		if got != want || want == "" {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
}
