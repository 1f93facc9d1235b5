package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/patterns/expression"
)

var (
	auth0 = &cep.Partition{Stream: "auth", Name: "0"}
	auth1 = &cep.Partition{Stream: "auth", Name: "1"}
	web0  = &cep.Partition{Stream: "web", Name: "0", Order: 1}
)

func wantAlerts(t *testing.T, b *bench, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, b.alerts); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
}

// Events arrive out of order, within the lateness: the rule sees them in order.
func TestOrderOfTime(t *testing.T) {
	set := setOf(rule("r", 100, element{from: "auth", kind: "fail"}, element{from: "auth", kind: "ok"}))
	b := newBench(t, set, 1, engine.Stream{Name: "auth", Lateness: 10})
	b.push(number([]input{
		ev(auth0, 20, "ok", "u"), ev(auth0, 15, "fail", "u"), // in order of arrival nothing would match
		ev(auth0, 10, "fail", "u"), // at the line: 20 - 10 is not late
		ev(auth0, 9, "fail", "u"),  // one below it
	})...)
	wantAlerts(t, b)
	b.push(ev(auth0, 30, "other", "u"))
	wantAlerts(t, b)
	b.push(ev(auth0, 31, "other", "u")) // watermark 20
	wantAlerts(t, b, "r 20 u fail=auth/0/2@10 ok=auth/0/0@20")
	s := b.Summary()
	if st := s.Streams[0]; st.Events != 6 || st.Late != 1 || st.Taken != 5 || st.Behind != 11 {
		t.Errorf("stream %+v", st)
	}
	if b.kept != 3 {
		t.Errorf("%d events kept, 3 may touch a rule and are not late", b.kept)
	}
}

// With lateness 0 equal times are still in order, and what goes back is late.
func TestEqualAndBackwardTimes(t *testing.T) {
	set := setOf(rule("r", 100, element{from: "auth", kind: "fail"}, element{from: "auth", kind: "ok", link: 1}))
	b := newBench(t, set, 1, engine.Stream{Name: "auth"})
	b.push(number([]input{ev(auth0, 5, "fail", "u"), ev(auth0, 5, "ok", "u"), ev(auth0, 4, "ok", "u")})...)
	b.Finish(0)
	wantAlerts(t, b, "r 5 u fail=auth/0/0@5 ok=auth/0/1@5")
	if s := b.Summary().Streams[0]; s.Late != 1 || s.Behind != 1 {
		t.Errorf("stream %+v", s)
	}
}

// Events of one time are ordered by tie-break (missing last), then by stream, partition and offset.
func TestTies(t *testing.T) {
	tied := func(p *cep.Partition, kind string, tie cep.Value) input {
		return input{partition: p, time: 5, values: []cep.Value{cep.String(kind), cep.String("u"), tie}}
	}
	set := setOf(rule("r", 100,
		element{from: "auth", kind: "a"}, element{from: "auth", kind: "b"}, element{from: "auth", kind: "c"},
		element{from: "auth", kind: "d"}, element{from: "auth", kind: "e"}, element{from: "web", kind: "f"}, element{from: "auth", kind: "g"}))
	// f is on a stream without a tie-break and comes behind what has one; the stream's place decides the rest.
	b := newBench(t, set, 1, engine.Stream{Name: "auth", Tiebreak: []string{"tie"}}, engine.Stream{Name: "web"})
	b.push(number([]input{
		tied(web0, "f", cep.Value{}), tied(auth0, "e", cep.Bool(false)), tied(auth0, "d", cep.String("1")),
		tied(auth1, "c", cep.Float(2.5)), tied(auth1, "b", cep.Int(2)), tied(auth1, "a", cep.Int(-1)),
	})...)
	b.push(input{partition: auth1, time: 6, values: []cep.Value{cep.String("g"), cep.String("u")}})
	b.Finish(0)
	wantAlerts(t, b, "r 6 u a=auth/1/2@5 b=auth/1/1@5 c=auth/1/0@5 d=auth/0/1@5 e=auth/0/0@5 f=web/0/0@5 g=auth/1/0@6")
}

// The order of partitions is part of the total order: name, not arrival.
func TestPartitionsAtOneTime(t *testing.T) {
	set := setOf(rule("r", 100, element{from: "auth", kind: "fail"}, element{from: "auth", kind: "ok"}))
	b := newBench(t, set, 1, engine.Stream{Name: "auth"})
	b.Open(auth0)
	b.push(ev(auth1, 5, "ok", "u"), ev(auth0, 5, "fail", "u"))
	b.Finish(0)
	wantAlerts(t, b, "r 5 u fail=auth/0/0@5 ok=auth/1/0@5")
}

// A stream waits for its slowest partition, but lateness is a matter of the own one.
func TestSlowestPartition(t *testing.T) {
	set := setOf(rule("r", 1000, element{from: "auth", kind: "fail"}, element{from: "auth", kind: "ok"}))
	b := newBench(t, set, 1, engine.Stream{Name: "auth"})
	b.Open(auth0)
	b.Open(auth1)
	b.push(ev(auth0, 100, "ok", "u"), ev(auth0, 200, "other", "u"))
	wantAlerts(t, b) // auth1 may still bring anything
	b.push(ev(auth1, 50, "fail", "u"))
	b.push(ev(auth1, 101, "other", "u"))
	wantAlerts(t, b, "r 100 u fail=auth/1/0@50 ok=auth/0/0@100")
	if s := b.Summary().Streams[0]; s.Late != 0 {
		t.Errorf("%d late", s.Late)
	}
}

// A silent partition that is taken out holds nothing back; what it brings below what was released is refused, and counted
// apart.
func TestIdle(t *testing.T) {
	set := setOf(rule("r", 1000, element{from: "auth", kind: "fail"}, element{from: "auth", kind: "ok"}))
	for _, batch := range []int{1, 100} {
		b := newBench(t, set, batch, engine.Stream{Name: "auth"})
		b.push(ev(auth0, 10, "fail", "u"), ev(auth1, 10, "other", "u"))
		b.Idle(auth1)
		b.push(ev(auth0, 100, "ok", "u"), ev(auth0, 101, "other", "u"))
		b.push(ev(auth1, 100, "ok", "v"), ev(auth1, 9, "ok", "v"), ev(auth1, 101, "fail", "v"), ev(auth1, 102, "ok", "v"))
		b.Finish(0)
		wantAlerts(t, b, "r 100 u fail=auth/0/0@10 ok=auth/0/0@100", "r 102 v fail=auth/1/0@101 ok=auth/1/0@102")
		if s := b.Summary().Streams[0]; s.Late != 1 || s.Returned != 1 || s.Taken != 6 {
			t.Errorf("batch %d: stream %+v", batch, s)
		}
	}
}

// When all partitions fall silent, what was read is released whichever is taken out first.
func TestIdleInAnyOrder(t *testing.T) {
	set := setOf(rule("r", 1000, element{from: "auth", kind: "fail"}, element{from: "auth", kind: "ok"}))
	for _, order := range [][]*cep.Partition{{auth0, auth1}, {auth1, auth0}} {
		b := newBench(t, set, 1, engine.Stream{Name: "auth"})
		b.push(ev(auth1, 1, "other", "u"), ev(auth0, 10, "fail", "u"), ev(auth0, 100, "ok", "u"))
		for _, id := range order {
			b.Idle(id)
		}
		b.Tick("auth", 1)
		b.Release()
		wantAlerts(t, b, "r 100 u fail=auth/0/0@10 ok=auth/0/0@100")
	}
}

// While all partitions are idle only ticks move time: a lone sensor that dies raises its absence.
func TestTicks(t *testing.T) {
	set := setOf(rule("silent", 0, element{from: "auth", kind: "beat"}, element{from: "auth", kind: "beat2", absent: true, lasts: 50}))
	b := newBench(t, set, 1, engine.Stream{Name: "auth"})
	b.push(ev(auth0, 10, "beat", "u"))
	b.Tick("auth", 100) // not idle: time is that of events
	b.Release()
	wantAlerts(t, b)
	b.Idle(auth0)
	b.Tick("auth", 50) // watermark 9 + 50
	b.Release()
	wantAlerts(t, b)
	b.Tick("auth", 1)
	b.Release()
	wantAlerts(t, b, "silent 60 by time u beat=auth/0/0@10")
}

// A rule's clock is the least of its streams; alerts come in one order for all rules.
func TestTwoStreams(t *testing.T) {
	set := setOf(
		rule("both", 1000, element{from: "web", kind: "get"}, element{from: "auth", kind: "ok"}),
		rule("auth", 1000, element{from: "auth", kind: "fail"}, element{from: "auth", kind: "ok"}),
		rule("web", 1000, element{from: "web", kind: "get"}, element{from: "web", kind: "put"}),
	)
	b := newBench(t, set, 1, engine.Stream{Name: "auth"}, engine.Stream{Name: "web"})
	b.push(ev(auth0, 10, "fail", "u"), ev(auth0, 20, "ok", "u"), ev(auth0, 500, "other", "u"))
	wantAlerts(t, b) // web has not spoken yet
	b.push(ev(web0, 5, "get", "u"), ev(web0, 30, "put", "u"))
	wantAlerts(t, b, "auth 20 u fail=auth/0/0@10 ok=auth/0/0@20", "both 20 u get=web/0/0@5 ok=auth/0/0@20")
	b.Finish(0)
	wantAlerts(t, b, "auth 20 u fail=auth/0/0@10 ok=auth/0/0@20", "both 20 u get=web/0/0@5 ok=auth/0/0@20",
		"web 30 u get=web/0/0@5 put=web/0/0@30")
}

// The end of a partition takes it out; the end of all of a rule's lets its time go to the highest seen.
func TestEndOfInput(t *testing.T) {
	silent := rule("silent", 0, element{from: "auth", kind: "beat"}, element{from: "auth", kind: "beat2", absent: true, lasts: 50})
	for _, c := range []struct {
		advance cep.Duration
		want    []string
	}{
		{0, []string{"silent 60 by time u beat=auth/0/0@10"}},
		{1, []string{"silent 60 by time u beat=auth/0/0@10"}},
		{40, []string{"silent 60 by time u beat=auth/0/0@10", "silent 100 by time v beat=auth/1/0@50"}},
		{engine.ToEnd, []string{"silent 60 by time u beat=auth/0/0@10", "silent 100 by time v beat=auth/1/0@50", "silent 110 by time w beat=auth/1/1@60"}},
	} {
		b := newBench(t, setOf(silent), 1, engine.Stream{Name: "auth", Lateness: 1000})
		b.push(number([]input{ev(auth0, 10, "beat", "u"), ev(auth1, 50, "beat", "v"), ev(auth1, 60, "beat", "w")})...)
		b.End(auth0)
		wantAlerts(t, b)
		b.Finish(c.advance)
		wantAlerts(t, b, c.want...)
	}
}

// What comes behind an explicit advance is late.
func TestAdvance(t *testing.T) {
	silent := rule("silent", 0, element{from: "auth", kind: "beat"}, element{from: "auth", kind: "beat2", absent: true, lasts: 50})
	b := newBench(t, setOf(silent), 1, engine.Stream{Name: "auth", Lateness: 1000, MaxAhead: 1000})
	b.push(ev(auth0, 10, "beat", "u"))
	b.Advance(59)
	wantAlerts(t, b)
	b.Advance(60)
	wantAlerts(t, b, "silent 60 by time u beat=auth/0/0@10")
	b.push(ev(auth0, 60, "beat", "u"), ev(auth0, 61, "beat", "u"))
	b.Finish(engine.ToEnd)
	wantAlerts(t, b, "silent 60 by time u beat=auth/0/0@10", "silent 111 by time u beat=auth/0/0@61")
	if s := b.Summary().Streams[0]; s.Late != 1 {
		t.Errorf("stream %+v", s)
	}
}

// One event from a broken clock must not make all others late; a real leap of time must not be lost.
func TestFuture(t *testing.T) {
	set := setOf(rule("r", 100, element{from: "auth", kind: "fail"}, element{from: "auth", kind: "ok"}))
	steady := func(from cep.Time, n int) (list []input) {
		for i := range n {
			list = append(list, ev(auth0, from+cep.Time(i), "other", "u"))
		}
		return list
	}
	broken := ev(auth0, 1_000_000, "ok", "u")
	for name, c := range map[string]struct {
		list         []input
		future, late uint64
		alerts       int
	}{
		"a broken clock":                    {append(append(append(steady(0, 10), ev(auth0, 10, "fail", "u"), broken), steady(11, 100)...), ev(auth0, 111-1, "ok", "u")), 1, 0, 1},
		"only 99 follow":                    {append(append(steady(0, 10), broken), steady(10, 99)...), 0, 99, 0},
		"one of the 100 is beyond too":      {append(append(append(steady(0, 10), broken), steady(10, 98)...), steady(1_000_001, 2)...), 0, 98, 0},
		"time leaps":                        {append(steady(0, 10), steady(1_000_000, 200)...), 0, 0, 0},
		"at the line":                       {append(append(steady(0, 10), ev(auth0, 9+1000, "x", "u")), steady(10, 100)...), 0, 100, 0},
		"the first event is broken":         {append([]input{broken}, steady(0, 100)...), 1, 0, 0},
		"the first event is late, not more": {append([]input{ev(auth0, 1100-1, "x", "u")}, steady(0, 100)...), 0, 100, 0},
	} {
		for _, batch := range []int{1, 7, 1000} {
			b := newBench(t, set, batch, engine.Stream{Name: "auth", MaxAhead: 1000, Lateness: 5})
			b.push(number(c.list)...)
			b.Finish(0)
			s := b.Summary().Streams[0]
			if s.Future != c.future || s.Late != c.late || len(b.alerts) != c.alerts || s.Events != uint64(len(c.list)) {
				t.Errorf("%s, batch %d: %d future, %d late, %d alerts, want %d, %d, %d; %+v", name, batch, s.Future, s.Late, len(b.alerts), c.future, c.late, c.alerts, s)
			}
		}
	}
}

// A recording restores where events were first read: their own partitions judge them.
func TestCarriedPartitions(t *testing.T) {
	set := setOf(rule("r", 1000, element{from: "auth", kind: "fail"}, element{from: "auth", kind: "ok"}))
	file := &cep.Partition{Stream: "auth", Name: "file"}
	b := newBench(t, set, 1, engine.Stream{Name: "auth"})
	b.Open(file)
	for _, in := range number([]input{
		ev(auth1, 50, "fail", "u"), ev(auth0, 100, "other", "u"), ev(auth0, 110, "ok", "u"), ev(auth1, 60, "other", "u"), ev(auth0, 105, "ok", "u"),
	}) {
		b.Push(file, b.lend(in), b)
	}
	b.CloseStream("auth")
	b.End(file)
	b.Release()
	wantAlerts(t, b, "r 110 u fail=auth/1/0@50 ok=auth/0/1@110")
	if s := b.Summary().Streams[0]; s.Late != 1 || s.Returned != 0 {
		t.Errorf("stream %+v", s)
	}
}

// A panic in one rule disables that rule, and what it had found before stands, whatever the batch.
func TestPanicDisablesOneRule(t *testing.T) {
	set := setOf(
		rule("a", 100, element{from: "auth", kind: "fail"}, element{from: "auth", kind: "ok"}),
		rule("b", 100, element{from: "auth", kind: "lost"}, element{from: "auth", kind: "found"}),
	)
	set.Rules[1].Where = &expression.Expr{Canonical: "where", Test: func(s *cep.Scope) (bool, error) {
		if s.Event.Value(slotUser).AsString() == "boom" {
			panic("no such thing")
		}
		return true, nil
	}}
	for _, batch := range []int{1, 100} {
		b := newBench(t, set, batch, engine.Stream{Name: "auth"})
		b.push(number([]input{
			ev(auth0, 1, "lost", "u"), ev(auth0, 2, "found", "u"), ev(auth0, 3, "lost", "u"), ev(auth0, 4, "lost", "boom"),
			ev(auth0, 4, "found", "u"), ev(auth0, 5, "fail", "u"), ev(auth0, 6, "ok", "u"),
		})...)
		b.Finish(0)
		wantAlerts(t, b, "b 2 u lost=auth/0/0@1 found=auth/0/1@2", "a 6 u fail=auth/0/5@5 ok=auth/0/6@6")
		s := b.Summary()
		if s.Rules[0].Disabled != "" || !strings.Contains(s.Rules[1].Disabled, "no such thing") {
			t.Errorf("rules %+v", s.Rules)
		}
	}
}

func TestRefusedRecords(t *testing.T) {
	b := newBench(t, setOf(), 1, engine.Stream{Name: "auth"})
	b.Refuse(auth0, 0, codec.BadJSON, &codec.Error{Kind: codec.BadJSON, Offset: 3, Detail: "no object"}, nil)
	b.Refuse(auth0, 1, codec.NoTime, &codec.Error{Kind: codec.NoTime, Offset: -1}, nil)
	b.Refuse(auth0, 2, codec.NoTime, &codec.Error{Kind: codec.NoTime, Offset: -1}, nil)
	s := b.Summary().Streams[0]
	if diff := cmp.Diff(map[string]uint64{"bad json": 1, "no time": 2}, s.Bad); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(s.FirstBad, "no object") {
		t.Errorf("first bad: %q", s.FirstBad)
	}
}

func TestNotRun(t *testing.T) {
	off := rule("off", 100, element{from: "auth", kind: "a"})
	off.Enabled = false
	b := newBench(t, setOf(off, rule("elsewhere", 100, element{from: "mail", kind: "a"}), rule("here", 100, element{from: "auth", kind: "a"})), 1, engine.Stream{Name: "auth"})
	b.push(ev(auth0, 1, "a", "u"))
	b.Finish(0)
	wantAlerts(t, b, "here 1 u a=auth/0/0@1")
	s := b.Summary().Rules
	if len(s) != 2 || s[0].ID != "elsewhere" || !strings.Contains(s[0].Skipped, `"mail"`) || s[1].Skipped != "" {
		t.Errorf("rules %+v", s)
	}
	if _, err := engine.New(setOf(), []engine.Stream{{Name: "a"}, {Name: "a"}}, engine.Options{}); err == nil {
		t.Error("a stream twice is no error")
	}
}

// An event that no rule touches costs no allocation, and is not kept.
func TestUntouchedEventsAreFree(t *testing.T) {
	b := newBench(t, setOf(rule("r", 100, element{from: "auth", kind: "fail"}, element{from: "auth", kind: "ok"})), 0, engine.Stream{Name: "auth", Lateness: 10})
	now := cep.Time(0)
	if n := testing.AllocsPerRun(1000, func() {
		now++
		b.ev.Time, b.ev.Position = now, cep.Position{Partition: auth0}
		b.ev.Values = append(b.ev.Values[:0], cep.String("other"), cep.String("u"))
		b.Push(auth0, &b.ev, b)
	}); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
	if b.kept != 0 {
		t.Errorf("%d events kept", b.kept)
	}
}

func TestFurthest(t *testing.T) {
	set := setOf(rule("r", 100, element{from: "auth", kind: "a"}, element{from: "auth", kind: "b"}, element{from: "auth", kind: "c"}))
	core, err := engine.New(set, []engine.Stream{{Name: "auth"}}, engine.Options{Furthest: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := core.Furthest("r"); ok {
		t.Error("a run before there was an event")
	}
	for i, kind := range []string{"a", "b"} {
		e := ev(auth0, cep.Time(i), kind, "u")
		core.Push(auth0, &cep.Event{Time: e.time, Position: cep.Position{Partition: auth0}, Values: e.values}, nil)
	}
	core.Finish(0)
	if p, ok := core.Furthest("r"); !ok || p.Name != 2 || p.Total != 2 {
		t.Errorf("furthest %+v, %v", p, ok)
	}
	if _, ok := core.Furthest("other"); ok {
		t.Error("a run of a rule that is not there")
	}
}

// The funnel adds up.
func TestSummary(t *testing.T) {
	set := setOf(rule("r", 100, element{from: "auth", kind: "fail"}, element{from: "auth", kind: "ok"}))
	b := newBench(t, set, 3, engine.Stream{Name: "auth"})
	b.push(number([]input{
		ev(auth0, 1, "fail", "u"), ev(auth0, 2, "other", "u"), ev(auth0, 3, "fail", ""), ev(auth0, 4, "ok", "u"), ev(auth0, 5, "fail", "v"),
	})...)
	b.Finish(engine.ToEnd)
	got := b.Summary().Rules[0]
	want := engine.RuleSummary{
		ID: "r", Seen: 5, Visible: 4, Keyed: 3, NoKey: 1, Opened: 2, Matched: 1, Alerts: 1, LastMatch: 4,
		Taken: []engine.Count{{Name: "fail", N: 2}, {Name: "ok", N: 1}},
		Ended: []engine.Count{{Name: "completed", N: 1}, {Name: "expired", N: 1}, {Name: "killed"}, {Name: "pruned"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// All partitions of a stream may have ended before the next one is found, as of a log that is rotated: the rules that read another
// stream as well wait for it.
func TestEndedPartitionsAreNoEndOfTheStream(t *testing.T) {
	set := setOf(rule("both", 1000, element{from: "auth", kind: "fail"}, element{from: "web", kind: "get"}))
	for _, batch := range []int{1, 100} {
		b := newBench(t, set, batch, engine.Stream{Name: "auth", Lateness: 5}, engine.Stream{Name: "web", Lateness: 5})
		b.push(number([]input{ev(auth0, 10, "other", "u"), ev(web0, 10, "other", "u"), ev(web0, 30, "get", "u"), ev(web0, 100, "other", "u")})...)
		b.End(auth0)
		b.Release()
		b.push(number([]input{ev(auth1, 6, "other", "u"), ev(auth1, 20, "fail", "u"), ev(auth1, 90, "other", "u")})...)
		b.Release()
		wantAlerts(t, b, "both 30 u fail=auth/1/1@20 get=web/0/1@30")
		if s := b.Summary(); s.Streams[0].Taken != 4 || s.Streams[0].Returned != 0 {
			t.Errorf("%+v", s.Streams[0])
		}
		b.End(auth1)
		b.Release()
		b.CloseStream("auth")
		b.Release()
		if w := b.Watermark("auth"); w != 94 {
			t.Errorf("the stream that has ended stands at %d, want 94 as the other", w)
		}
		b.Open(auth0) // somebody was wrong, and what is lost by it is counted
		b.push(ev(auth0, 92, "fail", "u"))
		if s := b.Summary(); s.Streams[0].Returned != 1 {
			t.Errorf("%+v", s.Streams[0])
		}
	}
}

// What an advance at the end has passed is refused, and counted, when more is read behind it.
func TestWhatAnAdvanceHasPassedIsRefused(t *testing.T) {
	for _, advance := range []cep.Duration{20, engine.ToEnd} {
		b := newBench(t, setOf(rule("r", 100, element{from: "auth", kind: "fail"})), 1, engine.Stream{Name: "auth"})
		b.push(ev(auth0, 10, "other", "u"))
		b.Finish(advance)
		in := ev(auth0, 25, "fail", "u")
		in.offset = 1
		b.push(in)
		b.Finish(0)
		wantAlerts(t, b)
		if s := b.Summary().Streams[0]; s.Returned != 1 || s.Taken != 1 {
			t.Errorf("advance %d: %+v", advance, s)
		}
	}
}
