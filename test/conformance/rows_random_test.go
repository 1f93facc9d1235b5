package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/oracle"
)

// TestRows holds the machine of row patterns to the oracle: random patterns, conditions, windows and streams, with time in
// single steps: the matches, when they go out, and the open starts after every entry. The machine is restarted from its
// snapshot at a random place.
func TestRows(t *testing.T) { rapid.Check(t, rowsProperty) }

// FuzzRows is TestRows driven by the fuzzer.
func FuzzRows(f *testing.F) { f.Fuzz(rapid.MakeFuzz(rowsProperty)) }

func rowsProperty(t *rapid.T) {
	pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	var write func(depth int) string
	write = func(depth int) string {
		if depth == 0 {
			return pick("step", "a", "b", "c")
		}
		switch rapid.IntRange(0, 8).Draw(t, "form") {
		case 0, 1, 2:
			return write(depth-1) + " " + write(depth-1)
		case 3:
			return "(" + write(depth-1) + " | " + write(depth-1) + ")"
		case 4, 5, 6:
			return "(" + write(depth-1) + ")" + pick("times", "*", "+", "?", "{2}", "{1,2}", "{2,}", "{,2}") + pick("reluctant", "", "", "?")
		case 7:
			return "PERMUTE(" + write(depth-1) + ", " + write(depth-1) + ")"
		default:
			return "{- " + write(depth-1) + " -}"
		}
	}
	pattern := write(rapid.IntRange(1, 3).Draw(t, "depth"))
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n- id: row\n  from: s\n  by: [k]\n")
	fmt.Fprintf(&b, "  %s\n  pattern: %q\n  steps:\n", pick("window", "within: 3s", "within: 5s", "within: 1s", "unbounded: true"), pattern)
	var used []string
	for _, step := range []string{"a", "b", "c"} {
		if strings.Contains(strings.ReplaceAll(pattern, "PERMUTE", ""), step) {
			used = append(used, step)
			fmt.Fprintf(&b, "    %s: {where: %q}\n", step, pick("where "+step,
				`x == "`+step+`"`, `x == "`+step+`"`, `x != "`+step+`"`, "true", `n > prev.n`, `len(taken) < 2`, `len(match) < 3 or n > 1`, `n >= match[0].n`))
		}
	}
	fmt.Fprintf(&b, "  after_match: %s\n", pick("after", "past_last", "to_next", "{to_first: "+used[0]+"}", "{to_last: "+used[len(used)-1]+"}"))
	set, diagnostics := patterns.Load([]patterns.Source{{Name: "rows", Data: []byte(b.String())}}, patterns.Options{})
	if set == nil {
		t.Fatalf("%v", diagnostics)
	}
	rule := set.Rules[0]
	partition := &cep.Partition{Stream: "s", Name: "0"}
	var entries []oracle.Entry
	now := cep.Time(0)
	for i := range rapid.IntRange(1, 9).Draw(t, "events") {
		now += cep.Time(rapid.IntRange(0, 2).Draw(t, "gap")) * cep.Second
		if rapid.IntRange(0, 5).Draw(t, "watermark") == 0 {
			entries = append(entries, oracle.Entry{Watermark: now})
			now += cep.Second
		}
		ev := &cep.Event{Time: now, Seq: uint64(i + 1), Position: cep.Position{Partition: partition, Offset: int64(i)}, Values: make([]cep.Value, set.Schema.Len())}
		for slot := range set.Schema.Len() {
			switch set.Schema.Name(slot) {
			case "k":
				ev.Values[slot] = cep.Int(rapid.Int64Range(0, 1).Draw(t, "k"))
			case "n":
				ev.Values[slot] = cep.Int(rapid.Int64Range(0, 3).Draw(t, "n"))
			case "x":
				ev.Values[slot] = cep.String(pick("x", "a", "b", "c"))
			}
		}
		entries = append(entries, oracle.Entry{Event: ev, Watermark: now - 1})
	}
	entries = append(entries, oracle.Entry{Watermark: now + 2*cep.Second}, oracle.Entry{Watermark: now + 20*cep.Second})
	restart := rapid.IntRange(0, len(entries)).Draw(t, "restart")

	want := oracle.Run(rule, oracle.Input{FirstTime: cep.BeforeAll, Entries: entries})
	memo := nfa.NewMemo(set.Predicates)
	m := nfa.NewMachine(rule.Program, memo)
	router := patterns.NewRouter(rule)
	var got []string
	for i, e := range entries {
		if e.Event == nil {
			m.Advance(e.Watermark)
		} else {
			memo.Next()
			m.Advance(e.Event.Time - 1)
			for _, d := range router.Route(e.Event) {
				m.Event(d.Key, e.Event, d.Mask)
			}
		}
		for _, match := range m.Matches() {
			got = append(got, rowName(rule, &match))
		}
		if m.OpenStarts() != want.Open[i] {
			t.Fatalf("%s\nafter entry %d of %v: %d starts are open, want %d", &b, i, entriesText(entries), m.OpenStarts(), want.Open[i])
		}
		if i == restart {
			var err error
			if m, err = nfa.Restore(rule.Program, memo, m.AppendSnapshot(nil), func(string, string) *cep.Partition { return partition }); err != nil {
				t.Fatalf("%s\n%v", &b, err)
			}
		}
	}
	var plain []string
	for _, match := range want.Matches {
		plain = append(plain, rowName(rule, &match))
	}
	if !slices.Equal(got, plain) {
		t.Fatalf("%s\n%v\nmachine %q\noracle  %q", &b, entriesText(entries), got, plain)
	}
}

func entriesText(entries []oracle.Entry) string {
	var out []string
	for _, e := range entries {
		if e.Event == nil {
			out = append(out, fmt.Sprintf("[%d]", e.Watermark/cep.Second))
		} else {
			out = append(out, fmt.Sprintf("%d:%v", e.Event.Time/cep.Second, e.Event.Values))
		}
	}
	return strings.Join(out, " ")
}

// rowName writes a match with its key and moment.
func rowName(rule *patterns.Rule, m *cep.Match) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%x", string(m.Key[len(m.Key)-1:]))
	for i := range m.History.Total() {
		t := m.History.Nth(i)
		fmt.Fprintf(&b, " %d%s", t.Position().Offset, rule.Names[t.Step()])
	}
	fmt.Fprintf(&b, " @%v %v", m.Moment.Time, m.Moment.Timed())
	return b.String()
}
