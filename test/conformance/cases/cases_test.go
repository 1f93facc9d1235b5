package cases

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

// need is a case.
type need struct {
	ID     string  `json:"id"`
	Need   string  `json:"need"`
	Events []entry `json:"events"`
	Wanted []alert `json:"wanted"`
}

// eventsOpen reports whether the asker did not say exactly which events belong to a match.
func (n *need) eventsOpen() bool {
	return slices.ContainsFunc(n.Wanted, func(a alert) bool { return a.EventsOpen })
}

// entry is one thing that happens.
type entry struct {
	ID        string          `json:"id"`
	At        string          `json:"at"`
	From      string          `json:"from"`
	Event     json.RawMessage `json:"event"`
	AdvanceTo string          `json:"advance_to"`
	IdleFor   string          `json:"idle_for"`
	ReloadAt  string          `json:"reload_at"`
	StartAt   string          `json:"start_at"`
}

type alert struct {
	At     string   `json:"at"`
	Events []string `json:"events"`
	Kind   string   `json:"kind"`
	// EventsOpen: compare time and kind only.
	EventsOpen bool `json:"events_open"`
}

// zero is a Monday at midnight, so that days and weeks of a case begin where its times do.
const zero = 1_704_067_200 * cep.Second

// notYet is the code of a rule that is more than cepd can run.
const notYet = "CEP0112"

func folder(t *testing.T) string {
	dir := os.Getenv("CEPD_CASES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "cases")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no cases of what people wanted to detect: set CEPD_CASES, or put them at %s", dir)
	}
	return dir
}

func read(t *testing.T) []*need {
	data, err := os.ReadFile(filepath.Join(folder(t), "cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var out []*need
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		n := &need{}
		if err := json.Unmarshal(lines.Bytes(), n); err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

func TestCases(t *testing.T) {
	var equal, nearest, later, none []string
	for _, n := range read(t) {
		t.Run(n.ID, func(t *testing.T) {
			set := load(t, n.ID)
			if set == nil {
				if _, err := os.Stat(file(n.ID)); err != nil {
					none = append(none, n.ID)
				} else {
					later = append(later, n.ID)
				}
				return
			}
			got := describe(n, play(t, n, set))
			want := describe(n, n.Wanted)
			if wrong, known := shortfalls[n.ID]; known {
				nearest = append(nearest, n.ID)
				if slices.Equal(got, want) {
					t.Errorf("gives what was wanted, but is listed: %s", wrong.because)
				}
				want = wrong.alerts
			} else {
				equal = append(equal, n.ID)
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got)\n%s", n.Need, diff)
			}
		})
	}
	t.Logf("cases cases.jsonl: %d as wanted, %d by the nearest rule %v, %d wait for words of the language %v, %d without a rule %v",
		len(equal), len(nearest), nearest, len(later), later, len(none), none)
}

// The page for users names each need that cannot be said.
func TestCannotPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "semantics", "cannot.md"))
	if err != nil {
		t.Fatal(err)
	}
	for id := range shortfalls {
		if !bytes.Contains(page, []byte("`"+id+"`")) {
			t.Errorf("docs/semantics/cannot.md does not name %s", id)
		}
	}
	if got, want := bytes.Count(page, []byte("| `u")), len(shortfalls); got != want {
		t.Errorf("the page names %d needs, there are %d", got, want)
	}
}

func file(id string) string { return filepath.Join("rules", id+".yaml") }

// load compiles the rules of a case, nil where they use words that this version does not know, or are not there.
func load(t *testing.T, id string) *rules.Set {
	data, err := os.ReadFile(file(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	set, diagnostics := compile(id, data, "1m")
	if set == nil {
		if slices.ContainsFunc(diagnostics, func(d patterns.Diagnostic) bool { return d.Code == notYet }) {
			return nil
		}
		t.Fatal(diagnostics.Error())
	}
	if !slices.ContainsFunc(set.Rules, func(r *patterns.Rule) bool { return r.ID == id }) {
		t.Fatalf("no rule %s in %s", id, file(id))
	}
	return &rules.Set{Set: set}
}

// another is a rule beside those of the case, which is edited where rules are reloaded. It stands behind them, so that fields
// keep their places.
const another = `version: 1
rules:
- {id: another, from: events, within: %s, sequence: [{step: a, where: 'state == "nothing"'}, {step: b, where: 'state == "nothing"'}]}
`

func compile(id string, data []byte, within string) (*patterns.Set, patterns.Diagnostics) {
	return patterns.Load([]patterns.Source{
		{Name: file(id), Data: data},
		{Name: "rules/zz-another.yaml", Data: fmt.Appendf(nil, another, within)},
	}, patterns.Options{})
}

// play runs the case's events through the engine and returns the alerts of the rule with its id.
func play(t *testing.T, n *need, set *rules.Set) []alert {
	var alerts []alert
	lower := map[string][]string{} // the events of each alert, for rules over alerts
	var streams []engine.Stream
	for _, name := range streamsOf(n) {
		streams = append(streams, engine.Stream{Name: name, Lateness: lateness(t, n)})
	}
	options := engine.Options{Alert: func(a *cep.Alert) {
		converted := convert(n, a, lower)
		lower[a.ID.String()] = converted.Events
		if a.Rule == n.ID {
			alerts = append(alerts, converted)
		}
	}}
	core, err := engine.New(set, streams, options)
	if err != nil {
		t.Fatal(err)
	}
	decoder := codec.NewJSON(set.Schema, codec.TimeSpec{}, codec.Options{})
	partitions := source.NewPartitions(streamsOf(n)...)
	for _, name := range streamsOf(n) {
		core.Open(partitions.Get(name, "0"))
	}
	push := func(i int) {
		e := n.Events[i]
		p := partitions.Get(e.stream(), "0")
		ev := cep.Event{Time: at(t, e.At), Position: cep.Position{Partition: p, Offset: int64(i)}}
		if err := decoder.Decode(e.Event, &ev); err != nil {
			t.Fatal(err)
		}
		core.Push(p, &ev, decoder)
	}
	for i, e := range n.Events {
		switch {
		case e.Event != nil:
			push(i)
		case e.ReloadAt != "":
			core = reload(t, n, core, streams, options)
			for j, before := range n.Events[:i] {
				if p := partitions.Get(before.stream(), "0"); before.Event != nil && int64(j) >= core.From(p) {
					push(j)
				}
			}
		case e.AdvanceTo != "":
			core.Advance(at(t, e.AdvanceTo))
		default:
			t.Fatalf("entry %d: %+v is not known here", i, e)
		}
	}
	core.Finish(0)
	for _, r := range core.Summary().Rules {
		if r.Errors > 0 || r.Skipped != "" || r.Disabled != "" {
			t.Errorf("rule %s: %d errors %s, skipped %q, disabled %q", r.ID, r.Errors, r.LastError, r.Skipped, r.Disabled)
		}
	}
	for _, s := range core.Summary().Streams {
		if s.Late > 0 || s.Returned > 0 {
			t.Errorf("stream %s: %d late", s.Name, s.Late+s.Returned)
		}
	}
	return alerts
}

// reload goes on with the rules of the case and an edited one beside them.
func reload(t *testing.T, n *need, core *engine.Core, streams []engine.Stream, options engine.Options) *engine.Core {
	state, err := core.Leave()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file(n.ID))
	if err != nil {
		t.Fatal(err)
	}
	set, diagnostics := compile(n.ID, data, "2m")
	if set == nil {
		t.Fatal(diagnostics.Error())
	}
	core, changes, err := engine.Resume(&rules.Set{Set: set}, streams, options, state)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]engine.ChangeKind{"another": engine.RuleChanged, n.ID: engine.RuleKept}
	for _, c := range changes {
		if c.Kind != want[c.Rule] {
			t.Errorf("reload: rule %s was %s", c.Rule, c.Kind)
		}
	}
	return core
}

func (e entry) stream() string {
	if e.From == "" {
		return "events"
	}
	return e.From
}

func streamsOf(n *need) []string {
	var out []string
	for _, e := range n.Events {
		if e.Event != nil && !slices.Contains(out, e.stream()) {
			out = append(out, e.stream())
		}
	}
	return out
}

// at reads a time of the case.
func at(t *testing.T, text string) cep.Time {
	d, err := patterns.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return zero.Add(d)
}

// lateness is how far the case's events go back.
func lateness(t *testing.T, n *need) cep.Duration {
	highest, most := cep.BeforeAll, cep.Duration(0)
	for _, e := range n.Events {
		if e.Event == nil {
			continue
		}
		now := at(t, e.At)
		if now < highest {
			most = max(most, highest.Sub(now))
		}
		highest = max(highest, now)
	}
	return most
}

// convert tells an alert as the cases do. An event that is an alert stands for the events of that one.
func convert(n *need, a *cep.Alert, lower map[string][]string) alert {
	var events []cep.AlertEvent
	for _, s := range a.Steps {
		events = append(events, s.Events...)
	}
	slices.SortFunc(events, func(x, y cep.AlertEvent) int {
		return cmp.Or(cmp.Compare(x.Time, y.Time), x.Position.Compare(y.Position))
	})
	out := alert{At: cep.FormatDuration(a.Time.Sub(zero)), Kind: a.Kind.String()}
	switch {
	case a.Kind == cep.AlertMatch && a.Timed:
		out.Kind = "time"
	case a.Kind == cep.AlertResolved:
		out.Kind = "resolve"
	}
	for _, e := range events {
		if p := e.Position.Partition; p.Stream == engine.AlertStream {
			out.Events = append(out.Events, lower[p.Name]...)
			continue
		}
		out.Events = append(out.Events, n.Events[e.Position.Offset].ID)
	}
	return out
}

// describe writes alerts in a form that compares: in order, times in one form.
func describe(n *need, alerts []alert) []string {
	var out []string
	for _, a := range alerts {
		when := a.At
		if d, err := patterns.ParseDuration(a.At); err == nil {
			when = cep.FormatDuration(d)
		}
		line := fmt.Sprintf("%s %s", when, a.Kind)
		// What ends an alert is not listed in it.
		if !n.eventsOpen() && a.Kind != "resolve" {
			line += " " + strings.Join(a.Events, ",")
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}
