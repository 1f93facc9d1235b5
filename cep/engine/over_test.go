package engine_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/expression"
)

// resolved makes a rule's alerts stay open until an event of the kind, or until quiet.
func resolved(r *patterns.Rule, from, kind string, quiet, repeat cep.Duration, open patterns.WhileOpen) *patterns.Rule {
	r.Alert.Resolve = &patterns.Resolve{From: []string{from}, By: []*expression.Expr{user}, Quiet: quiet}
	if kind != "" {
		r.Alert.Resolve.Where = kindIs(kind)
	}
	r.Alert.Repeat, r.Alert.WhileOpen = repeat, open
	return r
}

// An alert ends by an event that the rule itself does not see, in its own stream, and by quiet.
func TestResolve(t *testing.T) {
	r := resolved(rule("r", 100, element{from: "auth", kind: "a"}), "web", "over", 50, 20, patterns.OpenUpdate)
	r.Where = kindIs("a")
	r.Exceptions = []patterns.Exception{{Name: "all", Where: kindIs("over"), Expires: cep.AfterAll}}
	for _, batch := range []int{1, 3, 100} {
		b := newBench(t, setOf(r), batch, engine.Stream{Name: "auth"}, engine.Stream{Name: "web"})
		b.Open(auth0)
		b.Open(web0)
		b.push(number([]input{
			ev(auth0, 0, "a", "u"), ev(auth0, 5, "a", "u"), ev(auth0, 7, "a", "v"), ev(auth0, 8, "over", "v"), // not its stream
			ev(web0, 12, "over", "u"), ev(web0, 13, "over", "u"), ev(auth0, 14, "a", "u"), ev(web0, 14, "over", "w"), ev(web0, 90, "x", "u"), ev(auth0, 90, "x", "u"),
		})...)
		b.Finish(0)
		wantAlerts(t, b,
			"r 0 u a=auth/0/0@0", "r 5 u update a=auth/0/1@5", "r 7 v a=auth/0/2@7", "r 12 u resolved", "r 14 u a=auth/0/4@14",
			"r 27 by time v reminder", "r 34 by time u reminder", "r 47 by time v reminder", "r 54 by time u reminder",
			"r 57 by time v resolved", "r 64 by time u resolved")
		if s := b.Summary().Rules[0]; s.Matched != 4 || s.Alerts != 11 || s.OpenAlerts != 0 {
			t.Errorf("batch %d: %+v", batch, s)
		}
	}
}

// The event that ends one alert may begin the next.
func TestResolveAndMatchAtOneEvent(t *testing.T) {
	b := newBench(t, setOf(resolved(rule("r", 100, element{from: "auth", kind: "a"}), "auth", "a", 0, 0, patterns.OpenCount)), 1, engine.Stream{Name: "auth"})
	b.push(number([]input{ev(auth0, 1, "a", "u"), ev(auth0, 1, "a", "u"), ev(auth0, 2, "a", "u")})...)
	b.Finish(0)
	wantAlerts(t, b, "r 1 u a=auth/0/0@1", "r 1 u resolved", "r 1 u a=auth/0/1@1", "r 2 u resolved", "r 2 u a=auth/0/2@2")
}

// A rule over alerts: it sees what is held back too, its ids are made of ids, and at one time it comes behind those it reads.
func TestRulesOverAlerts(t *testing.T) {
	low := rule("z-low", 100, element{from: "auth", kind: "a"})
	low.Alert.Suppress = &patterns.Suppress{By: []patterns.SuppressBy{{Field: -1}}, For: 1000, Max: 1}
	shadow := rule("shadow", 100, element{from: "auth", kind: "a"})
	shadow.Shadow = true
	silent := rule("silent", 0, element{from: "web", kind: "a"}, element{from: "web", kind: "b", absent: true, lasts: 5})
	set := setOf(low, shadow, silent,
		over(rule("m-both", 100, element{from: "alerts", kind: "z-low"}, element{from: "alerts", kind: "silent"}), 1, "silent", "z-low"),
		over(rule("m-mixed", 100, element{from: "alerts", kind: "z-low"}, element{from: "web", kind: "c"}), 1, "z-low"),
		over(rule("n-shadow", 100, element{from: "alerts", kind: "shadow"}), 1, "shadow"),
		over(rule("a-top", 100, element{from: "alerts", kind: "m-both"}), 2, "m-both"),
	)
	for _, batch := range []int{1, 2, 100} {
		b := newBench(t, set, batch, engine.Stream{Name: "auth"}, engine.Stream{Name: "web"})
		b.Open(auth0)
		b.Open(web0)
		b.push(number([]input{
			ev(auth0, 1, "a", "u"), ev(web0, 1, "c", "u"), // c comes before the alert of its time
			ev(auth0, 2, "a", "u"), ev(web0, 5, "a", "u"), ev(web0, 6, "c", "u"), ev(auth0, 10, "x", "u"),
		})...)
		b.Finish(engine.ToEnd)
		wantAlerts(t, b,
			"z-low 1 u a=auth/0/0@1", "m-mixed 6 u z-low@1 c=web/0/2@6",
			"silent 10 by time u a=web/0/1@5", "m-both 10 u z-low@1 silent@10", "a-top 10 u m-both@10")
		for _, s := range b.Summary().Rules {
			if s.ID == "m-mixed" && (s.Seen != 3+2 || s.Matched != 1) || s.ID == "shadow" && (s.Matched != 2 || s.Alerts != 0 || !s.Shadow) {
				t.Errorf("batch %d: %+v", batch, s)
			}
		}
	}
	if _, err := engine.New(setOf(), []engine.Stream{{Name: "alerts"}}, engine.Options{}); err == nil || !strings.Contains(err.Error(), "alerts") {
		t.Errorf("a stream named alerts: %v", err)
	}
}

// An alert over alerts names the alerts that it took.
func TestPositionsOverAlerts(t *testing.T) {
	set := setOf(rule("low", 100, element{from: "auth", kind: "a"}), over(rule("up", 100, element{from: "alerts", kind: "low"}), 1, "low"))
	set.Rules[1].Alert.Include = patterns.IncludeAll
	var got []*cep.Alert
	core, err := engine.New(set, []engine.Stream{{Name: "auth"}}, engine.Options{Alert: func(a *cep.Alert) { got = append(got, a) }})
	if err != nil {
		t.Fatal(err)
	}
	e := ev(auth0, 1, "a", "u")
	core.Push(auth0, &cep.Event{Time: e.time, Position: cep.Position{Partition: auth0}, Values: e.values}, nil)
	core.Finish(0)
	if len(got) != 2 || len(got[1].Steps) != 1 || len(got[1].Steps[0].Events) != 1 {
		t.Fatalf("alerts %+v", got)
	}
	p := got[1].Steps[0].Events[0].Position
	if p.Partition.Stream != "alerts" || p.Partition.Name != got[0].ID.String() || p.Offset != 0 {
		t.Errorf("position %+v of %v", p.Partition, got[0].ID)
	}
}

// Layers, open alerts and clocks of their own change nothing about what S9 says: batches and interleavings do not matter.
func TestLayersDependOnInputAlone(t *testing.T) {
	build := func() []*patterns.Rule {
		list := metamorphicRules()
		resolved(list[0], "web", "c", 6, 2, patterns.OpenNew)
		resolved(list[3], "auth", "x", 0, 5, patterns.OpenUpdate)
		return append(list,
			over(rule("up-alerts", 40, element{from: "alerts", kind: "auth-seq"}, element{from: "alerts", kind: "web-absent"}), 1, "auth-seq", "web-absent"),
			over(rule("up-mixed", 40, element{from: "alerts", kind: "both-seq"}, element{from: "web", kind: "c"}), 1, "both-seq"),
			over(rule("up-silent", 0, element{from: "alerts", kind: "up-alerts"}, element{from: "alerts", kind: "up-mixed", absent: true, lasts: 9}), 2, "up-alerts", "up-mixed"),
		)
	}
	counts := map[string]int{}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	rapid.Check(t, func(t *rapid.T) {
		all := drawPartitions(t)
		advance := rapid.SampledFrom([]cep.Duration{0, 3, engine.ToEnd}).Draw(t, "advance")
		var base []int
		for i, list := range all {
			for range list {
				base = append(base, i)
			}
		}
		_, want := run(t, build(), layout{engine.Options{Batch: 1}, 1}, all, base, false, advance)
		for _, l := range want {
			name, _, _ := strings.Cut(l, " ")
			counts[name]++
		}
		for range 3 {
			arrival := rapid.Permutation(base).Draw(t, "arrival")
			o := drawLayout(t)
			_, got := run(t, build(), o, all, arrival, rapid.Bool().Draw(t, "end early"), advance)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%+v, arrival %v:\n%s", o, arrival, diff)
			}
		}
	})
	t.Logf("alerts %v", counts)
}
