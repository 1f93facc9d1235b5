package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/oracle"
	"github.com/cepd/cepd/rules"
)

// load compiles a rule file.
func load(t fataler, text string) *rules.Set {
	set, diagnostics := patterns.Load([]patterns.Source{{Name: "rules.yaml", Data: []byte(text)}}, patterns.Options{})
	if set == nil {
		t.Fatal(diagnostics.Error())
	}
	return &rules.Set{Set: set}
}

// meaningRules use what decides which events a rule sees: streams and keys of rule and step, lists in keys, filters,
// exceptions with and without steps, conditions that the index can use and others, and what every event counts for.
const meaningRules = `
version: 1
rules:
- id: plain
  from: auth
  by: [user]
  within: 9s
  sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}]
- id: filtered
  from: [auth, web]
  by: [user]
  where: kind != "x"
  within: 9s
  after_match: none
  sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b", contiguity: strict}]
- id: lists
  from: auth
  by: [hosts, user]
  within: 9s
  sequence: [{step: a, where: 'kind in ["a", "b"]', times: 2..3}, {step: c, where: kind == "c"}]
  after_match: none
- id: per-step
  within: 20s
  after_match: none
  sequence:
  - {step: a, from: auth, by: {who: user}, where: kind == "a"}
  - {step: b, from: web, by: {who: host}, where: kind == "b"}
- id: other-key
  from: [auth, web]
  within: 20s
  sequence:
  - {step: a, by: {who: host}, where: kind == "a"}
  - {absent: c, by: {who: user}, where: kind == "c"}
  - {step: b, by: {who: user}, where: kind == "b"}
- id: excepted
  from: auth
  by: [user]
  within: 9s
  after_match: to_next
  sequence: [{step: a, where: kind == "a"}, {step: b, where: kind != "a", contiguity: strict}]
  exceptions:
  - {name: nobody, where: user == "w"}
  - {name: not b, where: kind == "x", steps: [b]}
  - {name: old, where: kind == "c", expires: 1970-01-01T00:00:10Z}
- id: silent
  from: web
  by: [user]
  sequence: [{step: a, where: kind == "a"}, {absent: b, where: kind == "b", for: 4s}]
- id: silent-before
  from: web
  by: [user]
  sequence: [{absent: a, where: kind == "a", for: 3s}, {step: b, where: kind == "b"}]
- id: timeout
  from: auth
  by: [user]
  within: 5s
  on_timeout: emit
  sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b", optional: true}, {step: c, where: kind == "c"}]
- id: ordered
  from: [auth, web]
  by: [user]
  within: 8s
  emit: ordered
  sequence: [{step: a, where: kind == "a", times: 1..}, {step: b, where: kind == "b"}]
- id: changes
  from: web
  by: [user]
  sequence: [{step: turn, where: kind != prev.kind and kind == "b"}]
- id: everywhere
  from: auth
  within: 6s
  sequence: [{step: a, where: kind == "a"}, {step: same, where: user == a.user and kind == "b"}]
- id: without
  from: auth
  by: [user]
  within: 9s
  sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}]
  without: [{name: never, where: kind == "x"}]
- id: without-elsewhere
  from: auth
  by: {who: user}
  within: 9s
  after_match: none
  sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}]
  without: [{name: never, from: web, by: {who: host}, where: kind == "x"}]
- id: until
  from: [auth, web]
  by: [user]
  within: 12s
  sequence: [{step: a, from: auth, where: kind == "a", times: 1.., until: kind == "x"}, {step: b, from: auth, where: kind == "b"}]
- id: held
  from: web
  by: [user]
  sequence: [{hold: h, where: kind == "a", for: 3s}]
- id: first
  from: auth
  by: [user]
  sequence: [{step: s, where: kind == "b", first_seen: {by: [host], for: 6s}}]
- id: any-order
  from: [auth, web]
  by: [user]
  within: 9s
  sequence: [{all_of: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}]}]
- id: either
  from: auth
  by: [user]
  within: 9s
  sequence: [{step: a, where: kind == "a"}, {any_of: [[{step: b, where: kind == "b"}], [{step: c, where: kind == "c"}]], times: 2}]
- id: group
  from: auth
  by: [user]
  within: 12s
  after_match: none
  sequence: [{group: [{step: a, where: kind == "a"}, {step: b, where: kind == "b", contiguity: strict}], times: 1..2}, {step: c, where: kind == "c"}]
- id: newest
  from: auth
  by: [user]
  keep: newest
  within: 9s
  sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}]
- id: distinct
  from: auth
  within: 9s
  sequence: [{step: a, where: kind == "a", times: 2.., distinct: user}]
- id: rows
  from: [auth, web]
  by: [user]
  within: 9s
  pattern: a b+ c?
  steps: {a: {where: kind == "a"}, b: {where: kind == "b"}, c: {where: kind == "c"}}
`

var meaningStreams = []engine.Stream{{Name: "auth", Lateness: 3 * cep.Duration(cep.Second)}, {Name: "web"}}

// fields are the fields of an event by name.
type fields map[string]cep.Value

// The engine, with its index, router, buffers and clocks, lets out what the oracle says that each rule means.
func TestEngineIsTheMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := load(t, meaningRules)
		user := rapid.SampledFrom([]cep.Value{cep.String("u"), cep.String("u"), cep.String("u"), cep.String("v"), cep.String("w"), cep.String(""), {}})
		var all []*cep.Event
		now, highest := cep.Time(0), cep.BeforeAll
		for i := range rapid.IntRange(0, 18).Draw(t, "n") {
			now += cep.Time(rapid.IntRange(0, 2).Draw(t, "gap")) * cep.Second
			f := fields{
				"kind": cep.String(rapid.SampledFrom([]string{"a", "b", "c", "x"}).Draw(t, "kind")),
				"user": user.Draw(t, "user"), "host": user.Draw(t, "host"), "hosts": cep.List(rapid.SliceOfN(user, 0, 3).Draw(t, "hosts")),
			}
			ev := &cep.Event{Time: now, Position: cep.Position{Partition: rapid.SampledFrom([]*cep.Partition{auth0, web0}).Draw(t, "stream"), Offset: int64(i)}}
			for slot := range set.Schema.Len() {
				ev.Values = append(ev.Values, f[set.Schema.Name(slot)])
			}
			all = append(all, ev)
			highest = now
		}
		got := map[string][]string{}
		core, err := engine.New(set, meaningStreams, engine.Options{
			Batch: rapid.SampledFrom([]int{1, 5, 100}).Draw(t, "batch"),
			Alert: func(a *cep.Alert) { got[a.Rule] = append(got[a.Rule], meaningLine(a)) },
		})
		if err != nil {
			t.Fatal(err)
		}
		core.Open(auth0)
		core.Open(web0)
		for _, ev := range all {
			lent := *ev
			lent.Values = slices.Clone(ev.Values)
			core.Push(ev.Position.Partition, &lent, nil)
			clear(lent.Values)
		}
		core.Finish(0)
		for _, r := range set.Rules {
			if diff := cmp.Diff(meaning(r, all, highest), got[r.ID]); diff != "" {
				t.Fatalf("rule %s (-oracle +engine):\n%s", r.ID, diff)
			}
		}
		for _, s := range core.Summary().Rules {
			if s.Disabled != "" {
				t.Fatalf("rule %s: %s", s.ID, s.Disabled)
			}
		}
	})
}

// Each of the rules does match something, so that the test above tests something.
func TestMeaningRulesMatch(t *testing.T) {
	set := load(t, meaningRules)
	got := map[string]int{}
	core, err := engine.New(set, meaningStreams, engine.Options{Alert: func(a *cep.Alert) { got[a.Rule]++ }})
	if err != nil {
		t.Fatal(err)
	}
	core.Open(auth0)
	core.Open(web0)
	random := rand.New(rand.NewPCG(1, 2))
	users := []cep.Value{cep.String("u"), cep.String("v"), cep.String("")}
	user := func() cep.Value { return users[random.IntN(len(users))] }
	for i := range 2000 {
		f := fields{
			"kind": cep.String([]string{"a", "b", "c", "x"}[random.IntN(4)]),
			"user": user(), "host": user(), "hosts": cep.List([]cep.Value{user(), user()}),
		}
		ev := &cep.Event{
			Time:     cep.Time(i) * cep.Second,
			Position: cep.Position{Partition: []*cep.Partition{auth0, web0}[random.IntN(2)], Offset: int64(i)},
		}
		for slot := range set.Schema.Len() {
			ev.Values = append(ev.Values, f[set.Schema.Name(slot)])
		}
		core.Push(ev.Position.Partition, ev, nil)
	}
	core.Finish(0)
	for _, r := range set.Rules {
		if got[r.ID] == 0 {
			t.Errorf("rule %s never matches", r.ID)
		}
	}
}

// meaning is what the oracle says that a rule lets out.
func meaning(r *patterns.Rule, all []*cep.Event, end cep.Time) []string {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *cep.Event) int {
		if a.Time != b.Time {
			return int(a.Time - b.Time)
		}
		return a.Position.Compare(b.Position)
	})
	in := oracle.Input{FirstTime: cep.BeforeAll}
	first := map[string]cep.Time{}
	for _, ev := range all {
		stream := ev.Position.Partition.Stream
		if !slices.Contains(r.Streams, stream) {
			continue
		}
		if _, ok := first[stream]; !ok {
			first[stream] = ev.Time
			in.FirstTime = max(in.FirstTime, ev.Time)
		}
		seen := *ev
		seen.Seq = uint64(len(in.Entries) + 1)
		in.Entries = append(in.Entries, oracle.Entry{Event: &seen})
	}
	if len(first) < len(r.Streams) {
		in.FirstTime = cep.AfterAll // a stream without events has no first time
	}
	in.Entries = append(in.Entries, oracle.Entry{Watermark: end})
	var lines []string
	for _, m := range oracle.Run(r, in).Matches {
		key, err := m.Key.Parts()
		if err != nil {
			panic(err)
		}
		kind := cep.AlertMatch
		if m.Kind == cep.MatchTimeout {
			kind = cep.AlertTimeout
		}
		b := &strings.Builder{}
		fmt.Fprintf(b, "%s %s %v", m.Moment.Time, kind, key)
		for step, name := range r.Names {
			for i := range m.History.Len(step) {
				fmt.Fprintf(b, " %s=%d", name, m.History.At(step, i).Position().Offset)
			}
		}
		lines = append(lines, b.String())
	}
	return lines
}

func meaningLine(a *cep.Alert) string {
	key := make([]cep.Value, len(a.Key))
	for i, n := range a.Key {
		key[i] = n.Value
	}
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s %s %v", a.Time, a.Kind, key)
	for _, s := range a.Steps {
		for _, e := range s.Events {
			fmt.Fprintf(b, " %s=%d", s.Name, e.Position.Offset)
		}
	}
	return b.String()
}
