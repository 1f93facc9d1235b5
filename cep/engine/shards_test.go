package engine_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/expression"
	"github.com/cepd/cepd/rules"
)

// layouts are inline and parallel ones.
var layouts = []engine.Options{{Batch: 1}, {Batch: 1, Shards: 4}, {Batch: 1, Shards: 4, Parallel: true}, {Batch: 100, Shards: 3, Parallel: true}}

// breakable is a rule whose machine, key or alert panics at an event of the user boom.
func breakable(at string) *patterns.Rule {
	r := rule("broken", 100, element{from: "auth", kind: "lost"}, element{from: "auth", kind: "found"})
	boom := func(s *cep.Scope) (bool, error) {
		if s.Event != nil && s.Event.Value(slotUser).AsString() == "boom" {
			panic("no such thing")
		}
		return true, nil
	}
	switch at {
	case "key":
		r.Where = &expression.Expr{Canonical: "where", Test: boom}
	case "event":
		p := r.Program.Pattern()
		was := p.Elements[1].Where.Test
		p.Elements[1].Where.Unary = false
		p.Elements[1].Where.Test = func(s *cep.Scope) (bool, error) {
			if _, err := boom(s); err != nil {
				return false, err
			}
			return was(s)
		}
		r.Elements[1].Where.Unary = false
	case "alert":
		r.Alert.Fields[0].Expr = &expression.Expr{Eval: func(s *cep.Scope) (cep.Value, error) {
			v, err := keyUser.Eval(s)
			if v.AsString() == "boom" {
				panic("no such thing")
			}
			return v, err
		}}
	}
	return r
}

// A panic in one rule disables that rule in all shards from that event on: what it found before stands, what other keys find
// at the same event or later does not, and other rules go on. Nobody sees in how many shards it ran.
func TestPanicDisablesOneRuleInAllShards(t *testing.T) {
	for _, at := range []string{"key", "event", "alert"} {
		for _, o := range layouts {
			b := newBenchWith(t, setOf(breakable(at), rule("sound", 100, element{from: "auth", kind: "fail"}, element{from: "auth", kind: "ok"})), o, engine.Stream{Name: "auth"})
			var list []input
			users := []string{"u", "v", "w", "x", "y", "z"}
			for i, u := range append(users, "boom") {
				list = append(list, ev(auth0, cep.Time(i), "lost", u))
			}
			list = append(list, ev(auth0, 10, "found", "u"), ev(auth0, 10, "found", "v"), ev(auth0, 10, "found", "boom"), ev(auth0, 10, "found", "w"))
			for i, u := range users[3:] {
				list = append(list, ev(auth0, cep.Time(11+i), "found", u), ev(auth0, cep.Time(11+i), "fail", u), ev(auth0, cep.Time(20), "ok", u))
			}
			slices.SortStableFunc(list, func(a, b input) int { return int(a.time - b.time) })
			if at == "key" {
				list = slices.DeleteFunc(list, func(in input) bool { return in.time == 6 }) // the first event of boom
			}
			b.push(number(list)...)
			b.Finish(0)
			b.Close()
			var broken, sound []string
			for _, l := range b.alerts {
				if strings.HasPrefix(l, "broken") {
					broken = append(broken, strings.Join(strings.Fields(l)[:3], " "))
				} else {
					sound = append(sound, l)
				}
			}
			if diff := cmp.Diff([]string{"broken 10 u", "broken 10 v"}, broken); diff != "" || len(sound) != 3 {
				t.Errorf("%s, %+v: %d alerts of the sound rule (-want +got):\n%s", at, o, len(sound), diff)
			}
			s := b.Summary()
			if !strings.Contains(s.Rules[0].Disabled, "no such thing") || s.Rules[1].Disabled != "" {
				t.Errorf("%s, %+v: rules %+v", at, o, s.Rules)
			}
		}
	}
}

// A rule that was disabled stays so after a crash, and leaves no records; another set lets it begin anew.
func TestDisabledRuleIsRemembered(t *testing.T) {
	parts()
	set := setOf(breakable("key"))
	l := newLife(t, set, engine.Options{Batch: 1, Shards: 3}, engine.Stream{Name: "auth"})
	push := func(at cep.Time, kind, user string) {
		in := ev(auth0, at, kind, user)
		in.offset = int64(len(l.read[0]))
		l.take(0, in)
	}
	push(1, "lost", "u")
	push(2, "x", "u")
	l.barrier()
	push(3, "lost", "boom")
	push(4, "x", "u")
	l.barrier()
	l.barrier() // the shards may hear of it one epoch late
	for _, r := range l.disk.records {
		if len(r.Key) > 2 {
			t.Errorf("record %q of a rule that is disabled", r.Key)
		}
	}
	l.crash(engine.Options{Batch: 1, Shards: 2}, [3]int{4})
	push(5, "found", "u")
	push(6, "x", "u")
	l.barrier()
	if len(l.alerts) > 0 || !strings.Contains(l.Summary().Rules[0].Disabled, "no such thing") {
		t.Errorf("%d alerts, %+v", len(l.alerts), l.Summary().Rules[0])
	}
	l.swap(setOf(breakable("never")), engine.Options{Batch: 1})
	push(7, "lost", "u")
	push(8, "found", "u")
	l.Finish(0)
	l.barrier()
	if len(l.alerts) != 1 || l.Summary().Rules[0].Disabled != "" {
		t.Errorf("%d alerts, %+v", len(l.alerts), l.Summary().Rules[0])
	}
}

// Records that are no events are counted, and told of, once however often they are read.
func TestRefusedOnce(t *testing.T) {
	parts()
	l := newLife(t, setOf(rule("r", 10, element{from: "auth", kind: "a"})), engine.Options{}, engine.Stream{Name: "auth"})
	bad := func(offset int64) {
		l.Refuse(auth0, offset, codec.BadJSON, errors.New("no object"), []byte("{"))
	}
	bad(0)
	bad(7)
	l.barrier()
	if s := l.disk.sources[0]; s.From != 8 || s.Read != 7 { // nothing of it waits
		t.Errorf("position %+v", s)
	}
	l.crash(engine.Options{}, [3]int{})
	bad(0)
	bad(7)
	bad(9)
	l.barrier()
	if diff := cmp.Diff([]string{"bad json auth/0/0@-9223372036854775808 {", "bad json auth/0/7@-9223372036854775808 {", "bad json auth/0/9@-9223372036854775808 {"}, l.rejects); diff != "" {
		t.Error(diff)
	}
	if s := l.Summary().Streams[0]; s.Bad["bad json"] != 3 || !strings.Contains(s.FirstBad, "no object") {
		t.Errorf("stream %+v", s)
	}
}

// Where it is known when events came in, one from the future is refused at once and moves nothing, also when it is read again
// at a time when it would be none.
func TestFutureByArrival(t *testing.T) {
	parts()
	l := newLife(t, setOf(rule("r", 10, element{from: "auth", kind: "a"})), engine.Options{Batch: 1}, engine.Stream{Name: "auth", MaxAhead: 100})
	for i, at := range []cep.Time{1000, 1101, 1100, 1102} {
		l.Arrive(1000)
		in := ev(auth0, at, "a", "u")
		in.offset = int64(i)
		l.take(0, in)
	}
	l.barrier()
	want := []string{"future auth/0/1@1101 record 1", "future auth/0/3@1102 record 3"}
	if diff := cmp.Diff(want, l.rejects); diff != "" {
		t.Error(diff)
	}
	l.Arrive(cep.BeforeAll)
	l.crash(engine.Options{Batch: 1}, [3]int{4})
	l.Finish(0)
	l.barrier()
	if s := l.Summary().Streams[0]; s.Future != 2 || s.Taken != 2 || s.Events != 4 || s.Highest != 1100 {
		t.Errorf("stream %+v", s)
	}
	if len(l.alerts) != 2 {
		t.Errorf("%d alerts", len(l.alerts))
	}
}

// A partition whose clock is broken for good makes neither state nor what is read again grow, once what it said before is
// released.
func TestMarksMoveOn(t *testing.T) {
	parts()
	l := newLife(t, setOf(rule("r", 10, element{from: "auth", kind: "a"})), engine.Options{}, engine.Stream{Name: "auth", MaxAhead: 100})
	l.Arrive(1000)
	push := func(at cep.Time) {
		in := ev(auth0, at, "a", "u")
		in.offset = 3 * int64(len(l.read[0]))
		l.take(0, in)
	}
	push(900)
	for range 3000 {
		push(1_000_000)
	}
	l.barrier()
	if s, n := l.disk.sources[0], len(l.disk.state); s.From != 0 || s.Read != 9000 || n > 2500 {
		t.Errorf("position %+v, %d bytes of state", s, n)
	}
	l.crash(engine.Options{}, [3]int{3001})
	l.Arrive(2_000_000) // nothing is from the future any more, but what was refused stays so
	push(1000)
	push(1001)
	l.Advance(1000)
	for range 1000 {
		push(10_000_000)
	}
	l.barrier()
	if s := l.disk.sources[0]; s.From < 8000 || len(l.alerts) != 2 || len(l.rejects) != 4000 {
		t.Errorf("position %+v, %d alerts, %d rejects", s, len(l.alerts), len(l.rejects))
	}
}

// What holds a clock back is named, and what waits for it counted.
func TestLagging(t *testing.T) {
	set := setOf(rule("auth", 100, element{from: "auth", kind: "a"}), rule("both", 100, element{from: "auth", kind: "a"}, element{from: "web", kind: "b"}))
	for _, o := range layouts {
		o.PerClock = true
		core, err := engine.New(set, []engine.Stream{{Name: "auth"}, {Name: "web"}}, o)
		if err != nil {
			t.Fatal(err)
		}
		core.Open(auth0)
		core.Open(auth1)
		for i := range 10 {
			e := ev(auth0, cep.Time(10+i), "a", "u")
			core.PushRecord(auth0, &cep.Event{Time: e.time, Position: cep.Position{Partition: auth0, Offset: int64(i)}, Values: e.values}, nil, make([]byte, 50))
		}
		if n, bytes := core.Buffered("auth"); n != 20 || bytes != 1000 { // for two clocks
			t.Errorf("%+v: %d events of %d bytes wait", o, n, bytes)
		}
		e := ev(auth1, 15, "x", "u")
		core.Push(auth1, &cep.Event{Time: e.time, Position: cep.Position{Partition: auth1}, Values: e.values}, nil)
		core.Release()
		core.Summary()
		if core.Watermark("auth") != 14 || core.Watermark("web") != cep.BeforeAll || core.Clock(auth0) != 19 || core.Clock(auth1) != 15 {
			t.Errorf("watermarks %v and %v, clocks %v and %v", core.Watermark("auth"), core.Watermark("web"), core.Clock(auth0), core.Clock(auth1))
		}
		if n, _ := core.Buffered("auth"); n != 15 { // five have gone to the rule that reads auth alone
			t.Errorf("%+v: %d events wait", o, n)
		}
		want := []engine.Lag{
			{Rules: []string{"auth"}, Stream: "auth", Partitions: []string{"1"}, Watermark: 14, Behind: 5},
			{Rules: []string{"both"}, Stream: "web", Watermark: cep.BeforeAll, Behind: cep.Time(19).Sub(cep.BeforeAll)},
		}
		if diff := cmp.Diff(want, core.Lagging()); diff != "" {
			t.Error(diff)
		}
		core.Close()
	}
}

// A panic that is no rule's breaks the Core and not the process: whoever waits for a cut is told.
func TestBroken(t *testing.T) {
	core, err := engine.New(setOf(rule("r", 10, element{from: "auth", kind: "a"})), []engine.Stream{{Name: "auth"}}, engine.Options{
		Batch: 1, Shards: 2, Parallel: true, PerClock: true, Ready: func() { panic("out of order") },
	})
	if err != nil {
		t.Fatal(err)
	}
	if core.Err() != nil {
		t.Errorf("error %v", core.Err())
	}
	for i := range 100 {
		e := ev(auth0, cep.Time(i), "a", "u")
		core.Push(auth0, &cep.Event{Time: e.time, Position: cep.Position{Partition: auth0, Offset: int64(i)}, Values: e.values}, nil)
	}
	<-core.Broken()
	if err := core.Barrier(1, func(*engine.Cut) { t.Error("a cut of a broken Core") }); err != nil {
		t.Fatal(err)
	}
	core.Close()
	core.Close()
	if core.Err() == nil || !strings.Contains(core.Err().Error(), "out of order") {
		t.Errorf("error %v", core.Err())
	}
	if _, err := core.Leave(); err == nil {
		t.Error("a broken Core was left in order")
	}
}

// What cannot be restored is refused with what to do.
func TestRestoreRefuses(t *testing.T) {
	parts()
	set := func(fingerprint string) *rules.Set {
		r := rule("r", 100, element{from: "auth", kind: "a"}, element{from: "auth", kind: "b"})
		r.Fingerprint = fingerprint
		return setOf(r)
	}
	l := newLife(t, set("1"), engine.Options{Batch: 1}, engine.Stream{Name: "auth"})
	l.take(0, ev(auth0, 1, "a", "u"))
	l.barrier()
	restore := func(set *rules.Set, stream engine.Stream, change func(*engine.Saved)) error {
		saved := l.disk.saved()
		if change != nil {
			change(saved)
		}
		_, err := engine.Restore(set, []engine.Stream{stream}, parts(), engine.Options{PerClock: true}, saved)
		return err
	}
	if err := restore(set("1"), engine.Stream{Name: "auth"}, nil); err != nil {
		t.Fatal(err)
	}
	moved := set("1")
	moved.Schema = cep.NewSchema()
	moved.Schema.Slot("user")
	another := func(r checkpoint.Record) func(*engine.Saved) {
		return func(s *engine.Saved) {
			all := s.Records
			s.Records = func(each func(checkpoint.Record) error) error { return errors.Join(all(each), each(r)) }
		}
	}
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"another meaning":   {restore(set("2"), engine.Stream{Name: "auth"}, nil), engine.ErrOtherRules},
		"a rule is missing": {restore(setOf(), engine.Stream{Name: "auth"}, nil), engine.ErrOtherRules},
		"a rule is new":     {restore(setOf(set("1").Rules[0], rule("more", 1, element{from: "auth", kind: "a"})), engine.Stream{Name: "auth"}, nil), engine.ErrOtherRules},
		"other clocks":      {restore(set("1"), engine.Stream{Name: "auth", KeyLocal: [][]string{{"user"}}}, nil), engine.ErrOtherClocks},
		"fields have moved": {restore(moved, engine.Stream{Name: "auth"}, nil), nil},
		"no state":          {restore(set("1"), engine.Stream{Name: "auth"}, func(s *engine.Saved) { s.State = []byte("{") }), checkpoint.ErrDamaged},
		"a newer version":   {restore(set("1"), engine.Stream{Name: "auth"}, func(s *engine.Saved) { s.State = []byte(`{"version": 99}`) }), checkpoint.ErrNewer},
		"no version":        {restore(set("1"), engine.Stream{Name: "auth"}, func(s *engine.Saved) { s.State = []byte(`{}`) }), checkpoint.ErrDamaged},
		"the store fails": {restore(set("1"), engine.Stream{Name: "auth"}, func(s *engine.Saved) {
			s.Records = func(func(checkpoint.Record) error) error { return checkpoint.ErrMissing }
		}), checkpoint.ErrMissing},
		"a key without end":   {restore(set("1"), engine.Stream{Name: "auth"}, another(checkpoint.Record{Key: []byte{0x80}})), checkpoint.ErrDamaged},
		"the globals are not": {restore(set("1"), engine.Stream{Name: "auth"}, func(s *engine.Saved) { s.Records = func(func(checkpoint.Record) error) error { return nil } }), checkpoint.ErrDamaged},
	} {
		if c.err == nil || c.want != nil && !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	if _, err := engine.SchemaOf([]byte("[]")); !errors.Is(err, checkpoint.ErrDamaged) {
		t.Errorf("schema: %v", err)
	}
	// Rules that read a stream which is not there any more are forgotten, with all their records.
	core, err := engine.Restore(set("1"), []engine.Stream{{Name: "web"}}, parts(), engine.Options{PerClock: true}, l.disk.saved())
	if err != nil {
		t.Fatal(err)
	}
	if err := core.Barrier(2, func(c *engine.Cut) { l.disk.commit(t, c) }); err != nil {
		t.Fatal(err)
	}
	if len(l.disk.records) > 0 {
		t.Errorf("%d records are left", len(l.disk.records))
	}
}

// A barrier wants alerts that wait for nobody.
func TestBarrierWithoutPerClock(t *testing.T) {
	b := newBench(t, setOf(), 1, engine.Stream{Name: "auth"})
	if err := b.Barrier(1, func(*engine.Cut) {}); err == nil {
		t.Error("no error")
	}
}

// State that nobody needs leaves the store: what is left of many keys is what the rules themselves keep.
func TestRecordsReturnToNothing(t *testing.T) {
	for _, o := range layouts {
		parts()
		l := newLife(t, setOf(
			rule("seq", 20, element{from: "auth", kind: "a"}, element{from: "web", kind: "b"}),
			resolved(rule("absent", 0, element{from: "web", kind: "a"}, element{from: "web", kind: "b", absent: true, lasts: 7}), "auth", "x", 9, 5, patterns.OpenUpdate),
			over(rule("up", 40, element{from: "alerts", kind: "seq"}, element{from: "web", kind: "c"}), 1, "seq"),
		), o, metamorphicStreams...)
		for _, p := range partitions() {
			l.Open(p)
		}
		most := 0
		for i := range 3000 {
			for j, p := range partitions() {
				in := ev(p, cep.Time(i), []string{"a", "b", "c", "x"}[(i+j)%4], fmt.Sprint("u", i/10))
				in.offset = int64(i)
				l.give(j, in)
			}
			if i%100 == 99 {
				l.barrier()
				most = max(most, len(l.disk.records))
			}
		}
		l.Finish(engine.ToEnd)
		l.barrier()
		left := 0
		for _, r := range l.disk.records {
			if !slices.Contains([]byte("gc"), r.Key[1]) {
				left++
			}
		}
		if left > 0 || most < 8 || most > 100 {
			t.Errorf("%+v: %d records are left, %d at most", o, left, most)
		}
		l.Close()
	}
}

// A summary in the middle of things counts all that was pushed, whatever runs where.
func TestSummaryOnTheWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
		o := drawLayout(t)
		runtime.GOMAXPROCS(o.procs)
		b := newBenchWith(t, setOf(metamorphicRules()...), o.Options, metamorphicStreams...)
		for i := range rapid.IntRange(0, 50).Draw(t, "n") {
			in := ev(auth0, cep.Time(i), "a", fmt.Sprint(i%3))
			in.offset = int64(i)
			b.push(in)
		}
		b.Release()
		s := b.Summary()
		if s.Streams[0].Events != s.Streams[0].Taken || s.Rules[0].Visible != s.Streams[0].Taken || s.Rules[0].Opened != uint64(s.Rules[0].Open)+s.Rules[0].Ended[0].N+s.Rules[0].Ended[1].N {
			t.Fatalf("%+v", s)
		}
		b.Close()
	})
}
