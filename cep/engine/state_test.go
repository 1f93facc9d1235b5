package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

// source remembers what was read, as a source can that is read again.
type replayable struct {
	*bench
	set     *rules.Set
	streams []engine.Stream
	options engine.Options
	read    map[*cep.Partition][]input
}

func newReplayable(t fataler, set *rules.Set, batch int, streams ...engine.Stream) *replayable {
	return newReplayableWith(t, set, engine.Options{Batch: batch}, streams...)
}

func newReplayableWith(t fataler, set *rules.Set, o engine.Options, streams ...engine.Stream) *replayable {
	r := &replayable{set: set, streams: streams, read: map[*cep.Partition][]input{}}
	r.bench = newBenchWith(t, set, o, streams...)
	r.options = o
	r.options.Alert = func(a *cep.Alert) { r.alerts = append(r.alerts, line(a)) }
	return r
}

func (r *replayable) take(list ...input) {
	for _, in := range list {
		r.read[in.partition] = append(r.read[in.partition], in)
		r.push(in)
	}
}

// goOn leaves the Core, and goes on with a set in another one.
func (r *replayable) goOn(t fataler, set *rules.Set) []engine.Change {
	state, err := r.Leave()
	if err != nil {
		t.Fatal(err)
	}
	core, changes, err := engine.Resume(set, r.streams, r.options, state)
	if err != nil {
		t.Fatal(err)
	}
	r.Core = core
	for _, p := range []*cep.Partition{auth0, auth1, web0} {
		from := core.From(p)
		for _, in := range r.read[p] {
			if in.offset >= from {
				r.push(in)
			}
		}
	}
	return changes
}

// layeredRules are rules of all kinds: two streams, order alone, absences, open alerts, suppression, alerts of alerts.
func layeredRules() *rules.Set {
	list := metamorphicRules()
	resolved(list[0], "web", "c", 6, 2, patterns.OpenNew)
	resolved(list[3], "auth", "x", 0, 5, patterns.OpenUpdate)
	list[2].Alert.Suppress = &patterns.Suppress{By: []patterns.SuppressBy{{Field: -1}}, For: 9, Max: 1}
	return setOf(append(list,
		over(rule("up-alerts", 40, element{from: "alerts", kind: "auth-seq"}, element{from: "alerts", kind: "web-absent"}), 1, "auth-seq", "web-absent"),
		over(rule("up-mixed", 40, element{from: "alerts", kind: "both-seq"}, element{from: "web", kind: "c"}), 1, "both-seq"),
		// Alerts wait for this one wherever auth is behind web.
		rule("web-c", 0, element{from: "web", kind: "c"}),
		over(rule("up-lag", 40, element{from: "alerts", kind: "web-c"}, element{from: "auth", kind: "b"}), 1, "web-c"),
		over(rule("up-silent", 0, element{from: "alerts", kind: "up-alerts"}, element{from: "alerts", kind: "up-mixed", absent: true, lasts: 9}), 2, "up-alerts", "up-mixed"),
	)...)
}

// A restart, at any moment and as often as one likes, changes neither the alerts nor what was counted.
func TestRestartChangesNothing(t *testing.T) {
	again := 0
	rapid.Check(t, func(t *rapid.T) {
		all := drawPartitions(t)
		streams := slices.Clone(metamorphicStreams)
		streams[0].MaxAhead = rapid.SampledFrom([]cep.Duration{0, 5}).Draw(t, "max ahead")
		var arrival []int
		for i, list := range all {
			for range list {
				arrival = append(arrival, i)
			}
		}
		arrival = rapid.Permutation(arrival).Draw(t, "arrival")
		o := drawLayout(t)
		idle, idleAt := rapid.IntRange(0, 2).Draw(t, "idle"), rapid.IntRange(0, 60).Draw(t, "idle at")
		play := func(o engine.Options, restart func(i int) bool) *replayable {
			r := newReplayableWith(t, layeredRules(), o, streams...)
			parts := []*cep.Partition{auth0, auth1, web0}
			for _, p := range parts {
				r.Open(p)
			}
			rest := slices.Clone(all)
			for n, i := range arrival {
				if restart(n) {
					r.goOn(t, layeredRules())
					again++
				}
				r.take(rest[i][0])
				rest[i] = rest[i][1:]
				if n == idleAt {
					r.Idle(parts[idle])
				}
			}
			if restart(len(arrival)) {
				r.goOn(t, layeredRules())
			}
			r.Finish(3)
			r.Close()
			return r
		}
		want := play(engine.Options{Batch: 1}, func(int) bool { return false })
		points := rapid.SliceOfN(rapid.IntRange(0, len(arrival)), 1, 4).Draw(t, "restarts")
		got := play(o.Options, func(i int) bool { return slices.Contains(points, i) })
		if diff := cmp.Diff(want.alerts, got.alerts); diff != "" {
			t.Fatalf("%+v, restarted before %v (-through +restarted):\n%s", o, points, diff)
		}
		if diff := cmp.Diff(want.Summary(), got.Summary()); diff != "" {
			t.Fatalf("%+v, restarted before %v: %s", o, points, diff)
		}
	})
	if again == 0 {
		t.Error("nothing was restarted")
	}
}

// S10: a rule whose meaning stays keeps its open starts, a changed one finishes them beside the new version or drops them, a
// new one sees what lies above the swap, open alerts of a deleted one end.
func TestSwap(t *testing.T) {
	seq := func(id, fingerprint, b string) *patterns.Rule {
		r := rule(id, 1000, element{from: "auth", kind: "a"}, element{from: "auth", kind: b})
		r.Fingerprint = fingerprint
		return r
	}
	kept, changed, dropped := seq("kept", "1", "b"), seq("changed", "2", "b"), seq("dropped", "5", "b")
	deleted := resolved(rule("deleted", 0, element{from: "auth", kind: "a"}), "auth", "never", 0, 0, patterns.OpenCount)
	r := newReplayable(t, setOf(kept, changed, dropped, deleted), 1, engine.Stream{Name: "auth", Lateness: 5}, engine.Stream{Name: "web"})
	r.take(number([]input{ev(auth0, 1, "a", "u"), ev(auth0, 10, "other", "u"), ev(auth0, 7, "a", "v"), ev(auth0, 8, "c", "u")})...)
	wantAlerts(t, r.bench, "deleted 1 u a=auth/0/0@1")

	added := seq("added", "3", "c")
	kept = seq("kept", "1", "b")
	kept.Exceptions = []patterns.Exception{{Name: "not v", Where: kindIs("never"), Expires: cep.AfterAll}}
	dropped = seq("dropped", "6", "c")
	dropped.DropOnChange = true
	changes := r.goOn(t, setOf(kept, seq("changed", "4", "c"), dropped, added))
	want := []engine.Change{
		{Rule: "added", Kind: engine.RuleAdded},
		{Rule: "changed", Kind: engine.RuleDraining, Starts: 1},
		{Rule: "deleted", Kind: engine.RuleDeleted},
		{Rule: "dropped", Kind: engine.RuleChanged, Starts: 1},
		{Rule: "kept", Kind: engine.RuleKept, Starts: 1},
	}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Error(diff)
	}
	wantAlerts(t, r.bench, "deleted 1 u a=auth/0/0@1", "deleted 4 by time u resolved")
	// Above the watermark of the swap, 4, lie a@7 of v and c@8 of u: the new rules see them, and not a@1 of u.
	r.take(input{partition: auth0, time: 9, offset: 4, values: ev(auth0, 9, "c", "v").values}, input{partition: auth0, time: 9, offset: 5, values: ev(auth0, 9, "b", "u").values})
	r.Finish(0)
	wantAlerts(t, r.bench, "deleted 1 u a=auth/0/0@1", "deleted 4 by time u resolved",
		"added 9 v a=auth/0/2@7 c=auth/0/4@9", "changed 9 v a=auth/0/2@7 c=auth/0/4@9", "dropped 9 v a=auth/0/2@7 c=auth/0/4@9",
		"changed 9 u a=auth/0/0@1 b=auth/0/5@9", "kept 9 u a=auth/0/0@1 b=auth/0/5@9")
	if s := r.Summary().Streams[0]; s.Events != 6 || s.Late != 0 || s.Taken != 6 {
		t.Errorf("stream %+v", s)
	}
}

// An absence at the start knows what lies above the swap only: its first time is the swap.
func TestFirstTimeIsTheSwap(t *testing.T) {
	absent := func(fingerprint string) *patterns.Rule {
		r := rule("r", 0, element{from: "auth", kind: "a", absent: true, lasts: 10}, element{from: "auth", kind: "b"})
		r.Fingerprint = fingerprint
		return r
	}
	for fingerprint, want := range map[string][]string{
		"same": {"r 15 u b=auth/0/1@15", "r 24 u b=auth/0/3@24", "r 25 u b=auth/0/4@25"},
		"new":  {"r 15 u b=auth/0/1@15", "r 25 u b=auth/0/4@25"},
	} {
		r := newReplayable(t, setOf(absent("same")), 1, engine.Stream{Name: "auth"})
		r.take(number([]input{ev(auth0, 0, "x", "u"), ev(auth0, 15, "b", "u"), ev(auth0, 16, "x", "u")})...)
		r.goOn(t, setOf(absent(fingerprint))) // at 15
		r.take(input{partition: auth0, time: 24, offset: 3, values: ev(auth0, 0, "b", "u").values}, input{partition: auth0, time: 25, offset: 4, values: ev(auth0, 0, "b", "u").values})
		r.Finish(0)
		wantAlerts(t, r.bench, want...)
	}
}

func TestLeaveInsideARecording(t *testing.T) {
	b := newBench(t, setOf(rule("r", 10, element{from: "auth", kind: "a"})), 1, engine.Stream{Name: "auth"})
	e := ev(auth0, 1, "a", "u")
	b.Push(auth1, b.lend(e), b)
	if _, err := b.Leave(); err == nil || !strings.Contains(err.Error(), "recording") {
		t.Errorf("error %v", err)
	}
}

// Keys that count as present wait from the first time on; the list may change with the rules.
func TestKeys(t *testing.T) {
	silent := func(keys ...string) *patterns.Rule {
		r := rule("silent", 0, element{from: "auth", kind: "beat"}, element{from: "auth", kind: "beat", absent: true, lasts: 50})
		for _, k := range keys {
			key, _ := cep.KeyOf(cep.String(k))
			r.Keys = append(r.Keys, key)
		}
		return r
	}
	r := newReplayable(t, setOf(silent("u", "v", "w")), 1, engine.Stream{Name: "auth"})
	r.take(number([]input{ev(auth0, 10, "x", "z"), ev(auth0, 20, "beat", "v"), ev(auth0, 41, "x", "z")})...)
	r.goOn(t, setOf(silent("u", "v", "n"))) // at 40: w no longer counts, n does from now on
	wantAlerts(t, r.bench)
	r.take(input{partition: auth0, time: 200, offset: 3, values: ev(auth0, 0, "x", "z").values})
	r.Finish(0)
	wantAlerts(t, r.bench, "silent 60 by time u", "silent 70 by time v beat=auth/0/1@20", "silent 90 by time n")
}

// A version drains until its last start has ended, at the latest after its window; four may, the oldest makes room; what is
// suppressed is suppressed for all versions.
func TestDraining(t *testing.T) {
	version := func(n string) *patterns.Rule {
		r := rule("r", 100, element{from: "auth", kind: "a" + n}, element{from: "auth", kind: "b"})
		r.Fingerprint = n
		r.Alert.Suppress = &patterns.Suppress{By: []patterns.SuppressBy{{Field: -1}}, For: 50, Max: 1}
		return r
	}
	r := newReplayable(t, setOf(version("1")), 1, engine.Stream{Name: "auth"})
	offset := int64(-1)
	take := func(at cep.Time, kind, user string) {
		offset++
		r.take(input{partition: auth0, time: at, offset: offset, values: ev(auth0, at, kind, user).values})
	}
	var changes []engine.Change
	for i, n := range []string{"1", "2", "3", "4", "5", "6"} {
		at := cep.Time(10 * i)
		take(at, "a"+n, "u"+n)
		take(at, "a"+n, "w")
		take(at+1, "x", "u")
		if n != "6" {
			changes = r.goOn(t, setOf(version(string(rune(n[0]+1)))))
		}
	}
	// Version 1 had to make room at the fifth change.
	if diff := cmp.Diff([]engine.Change{{Rule: "r", Kind: engine.RuleDraining, Starts: 2, Dropped: 2}}, changes); diff != "" {
		t.Error(diff)
	}
	if s := r.Summary().Rules; len(s) != 1 || s[0].Draining != 8 {
		t.Errorf("rules %+v", s)
	}
	take(60, "b", "u1")
	take(61, "b", "u2")
	take(62, "b", "u6")
	take(63, "b", "w") // five starts of five versions, all suppressed but one
	take(100, "b", "u3")
	take(135, "b", "u4") // its window, and its draining, ended at 130
	r.Finish(engine.ToEnd)
	wantAlerts(t, r.bench,
		"r 61 u2 a2=auth/0/3@10 b=auth/0/19@61", "r 62 u6 a6=auth/0/15@50 b=auth/0/20@62", "r 63 w a2=auth/0/4@10 b=auth/0/21@63",
		"r 100 u3 a3=auth/0/6@20 b=auth/0/22@100")
	if s := r.Summary().Rules[0]; s.Suppressed != 4 || s.Draining != 0 {
		t.Errorf("rule %+v", s)
	}
}

// Edits at any moment: what comes of them does not depend on batches, shards and goroutines.
func TestEditsDependOnInputAlone(t *testing.T) {
	drained := 0
	rapid.Check(t, func(t *rapid.T) {
		all := drawPartitions(t)
		var arrival []int
		for i, list := range all {
			for range list {
				arrival = append(arrival, i)
			}
		}
		arrival = rapid.Permutation(arrival).Draw(t, "arrival")
		edits := map[int]uint64{}
		for range rapid.IntRange(1, 4).Draw(t, "edits") {
			edits[rapid.IntRange(0, len(arrival)).Draw(t, "edit at")] = rapid.Uint64().Draw(t, "which")
		}
		play := func(o engine.Options) ([]string, [][]engine.Change) {
			r := newReplayableWith(t, layeredRules(), o, metamorphicStreams...)
			for _, p := range []*cep.Partition{auth0, auth1, web0} {
				r.Open(p)
			}
			rest := slices.Clone(all)
			var changes [][]engine.Change
			for n, i := range arrival {
				if which, ok := edits[n]; ok {
					changes = append(changes, r.goOn(t, editedSet(layeredRules(), which)))
				}
				r.take(rest[i][0])
				rest[i] = rest[i][1:]
			}
			r.Finish(engine.ToEnd)
			r.Close()
			return r.alerts, changes
		}
		want, wantChanges := play(engine.Options{Batch: 1})
		for _, c := range slices.Concat(wantChanges...) {
			if c.Kind == engine.RuleDraining {
				drained++
			}
		}
		got, gotChanges := play(drawLayout(t).Options)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(wantChanges, gotChanges); diff != "" {
			t.Fatal(diff)
		}
	})
	if drained == 0 {
		t.Error("nothing drained")
	}
}

// editedSet gives rules of one id other meanings, drops some, and changes only the looks of others.
func editedSet(set *rules.Set, which uint64) *rules.Set {
	var list []*patterns.Rule
	for i, r := range set.Rules {
		switch which >> (2 * i) & 3 {
		case 0:
			r.Fingerprint = "other"
		case 1:
			r.Fingerprint, r.DropOnChange = "other", true
		case 2:
			if r.Layer == 0 && i%2 == 0 { // rules over alerts name those they read
				continue
			}
		}
		list = append(list, r)
	}
	return setOf(list...)
}
