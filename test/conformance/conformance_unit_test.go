package conformance

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
)

func vector(t *testing.T, text string) *Vector {
	t.Helper()
	v := &Vector{Sum: checksum([]byte(text))}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatal(err)
	}
	return v
}

// pattern returns a vector with these steps and nothing else.
func pattern(t *testing.T, steps string) *Vector {
	t.Helper()
	return vector(t, `{"id": "x", "pattern": {"steps": `+steps+`, "after_match": {"strategy": "no_skip"}}}`)
}

func TestTranslate(t *testing.T) {
	v := vector(t, `{"pattern": {
		"steps": [
			{"name": "e", "where": "name == \"a\"", "min": 1, "max": null, "inner": "any"},
			{"name": "not c", "contiguity": "not_next", "where": "name == \"c\""},
			{"name": "b", "contiguity": "strict", "where": "count(e)>=2 && !(price+sum(e.price)<5.0)", "optional": true, "gap_ms": 3},
			{"name": "d", "contiguity": "any", "where": "count(b) == 0 || first(b.num) != last(d.num)", "min": 2, "max": 4, "inner": "strict", "loop_gap_ms": 1}
		],
		"within_ms": 10, "after_match": {"strategy": "skip_to_last", "step": "e"}},
		"partition_by": "num", "emit_timeouts": true}`)
	want := `version: 1
rules:
- id: vector
  from: events
  by: [num]
  within: 19ms
  sequence:
  - step: s_e
    where: "name == \"a\""
    times: 1..
    loop: any
  - absent: s_not_c
    where: "name == \"c\""
    contiguity: strict
  - step: s_b
    where: "len(s_e) >= 2 && ! ( price + sum(s_e, .price) < 5.0 )"
    contiguity: strict
    optional: true
    within: 5ms
  - step: s_d
    where: "(s_b.name == s_b.name ? 1 : 0) == 0 || s_b.num != taken[-1].num"
    contiguity: any
    times: 2..4
    loop: strict
    loop_within: 1ms
  after_match: {to_last: s_e}
  emit: ordered
  on_timeout: emit
`
	tr := v.Translate()
	if diff := cmp.Diff(want, tr.Text); diff != "" {
		t.Error(diff)
	}
	if got := tr.Names["s_not_c"]; got != "not c" {
		t.Errorf("s_not_c is the peer's %q", got)
	}
}

// Inside a group that repeats a name is a list, inside one that may be left out it may be missing.
func TestTranslateGroup(t *testing.T) {
	v := pattern(t, `[
		{"group": [{"name": "a", "optional": true}, {"name": "b", "contiguity": "strict", "where": "count(a) > 0"}], "min": 1, "max": 2, "inner": "strict", "gap_ms": 5},
		{"group": [{"name": "c"}], "contiguity": "any", "optional": true},
		{"name": "d", "contiguity": "relaxed", "where": "sum(c.num) == count(b)", "min": 1, "max": null, "greedy": true, "until": "count(d) == 3"}]`)
	want := `  - group:
    - step: s_a
      optional: true
    - step: s_b
      where: "len(s_a) > 0"
      contiguity: strict
    times: 1..2
    loop: strict
  - group:
    - step: s_c
    contiguity: any
    optional: true
  - step: s_d
    where: "(s_c.num ?? 0) == len(s_b)"
    times: 1..
    greedy: true
    until: "len(taken) == 3"
`
	_, got, _ := strings.Cut(v.Translate().Text, "sequence:\n")
	got, _, _ = strings.Cut(got, "  after_match")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Patterns that may take nothing, and negations before what may be left out, in other words.
func TestTranslateOptional(t *testing.T) {
	for steps, want := range map[string]string{
		`[{"name": "a", "optional": true}]`: `  - group:
    - step: s_a
      optional: true
    times: 1
`,
		`[{"name": "a"}, {"name": "b", "contiguity": "not_followed_by"}, {"name": "c", "contiguity": "any", "optional": true}]`: `  - step: s_a
  - group:
    - absent: s_b
    - group:
      - step: s_c
        optional: true
      contiguity: any
      times: 1
    optional: true
`,
		`[{"name": "a"}, {"name": "b", "contiguity": "not_next"}, {"name": "c", "contiguity": "any", "optional": true}]`: `  - step: s_a
  - absent: s_b
    contiguity: strict
  - step: s_c
    contiguity: any
    optional: true
`,
		`[{"group": [{"name": "a", "optional": true}]}, {"name": "b", "contiguity": "not_next"}, {"name": "c", "contiguity": "relaxed"}]`: `  - group:
    - group:
      - step: s_a
        optional: true
      times: 1
    - absent: s_b
      contiguity: strict
    optional: true
  - step: s_c
`,
		`[{"name": "d"}, {"group": [{"name": "a"}, {"name": "b", "contiguity": "not_followed_by"}, {"name": "c", "contiguity": "relaxed", "optional": true}], "contiguity": "strict"}]`: `  - step: s_d
  - step: s_a
    contiguity: strict
  - group:
    - absent: s_b
    - group:
      - step: s_c
        optional: true
      contiguity: relaxed
      times: 1
    optional: true
`,
	} {
		_, got, _ := strings.Cut(pattern(t, steps).Translate().Text, "sequence:\n")
		got, _, _ = strings.Cut(got, "  after_match")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%s", steps, diff)
		}
	}
}

func TestTranslateMissing(t *testing.T) {
	for steps, missing := range map[string]string{
		`[{"name": "a", "where": "mean(a.price) > 1"}]`: "function mean",
		`[{"name": "a", "where": "name == \"a"}]`:       `condition name == "a`,
	} {
		if got := pattern(t, steps).Translate(); got.Missing != missing || got.Text != "" {
			t.Errorf("%s: missing %q, text %q", steps, got.Missing, got.Text)
		}
	}
}

// A vector in event time: events wait for the watermark and stand in the order of time, then price, then arrival; late
// ones are gone.
func TestTimeline(t *testing.T) {
	v := vector(t, `{"mode": "event_time", "tie_break": "price ascending",
		"events": [{"id": "a", "price": 2}, {"id": "b", "price": 1}, {"id": "c"}, {"id": "late"}, {"id": "d"}],
		"input": [{"event": "a", "ts": 5}, {"event": "b", "ts": 5}, {"event": "c", "ts": 3}, {"watermark": 5},
			{"event": "late", "ts": 5}, {"event": "d", "ts": 6}, {"watermark": "max"}]}`)
	moves, err := v.Timeline(cep.NewSchema())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range moves {
		if m.Event == nil {
			got = append(got, "time "+m.To.String())
			continue
		}
		got = append(got, v.Input[m.Event.Position.Offset].Event+" "+m.Event.Time.String())
	}
	want := []string{
		"c 1970-01-01T00:00:00.006Z", "b 1970-01-01T00:00:00.01Z", "a 1970-01-01T00:00:00.01Z", "time 1970-01-01T00:00:00.01Z",
		"d 1970-01-01T00:00:00.012Z", "time 1970-01-12T13:46:40Z",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if moves[1].At != 3 || moves[4].At != 6 {
		t.Errorf("released by entries %d and %d, want the watermarks 3 and 6", moves[1].At, moves[4].At)
	}
}

func TestDiffMatches(t *testing.T) {
	v := vector(t, `{"input": [{"event": "a1"}, {"event": "a1"}],
		"expected": {"matches": [{"at": 0, "steps": {"a": ["a1"]}}, {"at": 1, "steps": {"a": ["a1"]}}]}}`)
	found := []Found{{At: 1, Steps: "a=a1"}, {At: 0, Steps: "a=a1"}}
	if diff := v.DiffMatches(found); diff != "" {
		t.Error(diff)
	}
	for _, wrong := range [][]Found{found[:1], append(found, found[0]), {{At: 0, Steps: "a=a1"}, {At: 1, Steps: "a=a2"}}} {
		if v.DiffMatches(wrong) == "" {
			t.Errorf("%v equals %v", wrong, v.Expected.Matches)
		}
	}
}

func TestDiffRaised(t *testing.T) {
	v := vector(t, `{"pattern": {"steps": [{"name": "a"}, {"name": "b", "optional": true}],
		"after_match": {"strategy": "skip_to_first", "step": "b", "error_if_missing": true}}, "input": [{"event": "a1"}, {"event": "b1"}]}`)
	for want, got := range map[string][]Found{
		"":                                     {{At: 1, First: "a1", taken: map[string][]string{"a": {"a1"}}}},
		"no match that the peer could fail at": {{At: 1, First: "a1", taken: map[string][]string{"a": {"a1"}, "b": {"b1"}}}},
		"before the peer fails: (a=a1)@0":      {{At: 0, First: "a1", Steps: "a=a1"}},
	} {
		if diff := v.DiffRaised(got); diff != want {
			t.Errorf("%v: %q, want %q", got, diff, want)
		}
	}
}

func TestDiffOrder(t *testing.T) {
	v := vector(t, `{"pattern": {"steps": [{"name": "a"}]}, "input": [{"event": "a1"}, {"event": "a2"}],
		"expected": {"matches": [{"at": 1, "steps": {"a": ["a1"]}}, {"at": 1, "steps": {"a": ["a2"]}}]}}`)
	got := []Found{{At: 1, First: "a1"}, {At: 1, First: "a2"}}
	if diff := v.DiffOrder(got); diff != "" {
		t.Error(diff)
	}
	got[0], got[1] = got[1], got[0]
	if v.DiffOrder(got) == "" {
		t.Error("a2 before a1 is the peer's order")
	}
}

func TestDiffTimeouts(t *testing.T) {
	v := vector(t, `{"input": [{"event": "a1"}, {"event": "a2"}, {"event": "b1"}], "expected": {"timeouts": [
		{"at": 2, "steps": {"a": ["a1"]}}, {"at": 2, "steps": {"b": ["b1"], "a": ["a1"]}}, {"at": 2, "steps": {"a": ["a2"]}}]}}`)
	// a2 has matched, so that it timed out as well says nothing.
	got := Outcome{Matches: []Found{{First: "a2"}}, Timeouts: []Found{{First: "a1"}}}
	if diff := v.DiffTimeouts(got); diff != "" {
		t.Error(diff)
	}
	got.Matches = nil
	if diff := v.DiffTimeouts(got); diff != "only in the peer: timeout of a2" {
		t.Errorf("got %q", diff)
	}
}

const list = `
covers known ab12
reason gap_states: S5.1 a gap holds everywhere.
reason tail_optional: S4.1 refused.
reason raises: S5.4 nothing fails.
vector known v 11 gap_states
`

func TestJudge(t *testing.T) {
	const gap = `"pattern": {"steps": [{"name": "a", "gap_ms": 3}]}, `
	const tail = `"pattern": {"steps": [{"name": "a"}, {"name": "b", "contiguity": "not_next"}, {"name": "c", "optional": true}]}, `
	for name, c := range map[string]struct {
		vector, sum, file string
		diff              string
		refused           bool
		want              Verdict
		because           string
	}{
		"equal":                             {vector: `"id": "w"`, file: "known", want: Equal},
		"differs":                           {vector: `"id": "w"`, file: "known", diff: "x", want: Wrong, because: "not listed"},
		"differs elsewhere":                 {vector: `"id": "w"`, file: "other", diff: "x", want: Wrong, because: "nothing excuses it"},
		"listed":                            {vector: gap + `"id": "v", "peer_quirk": "gap_states"`, sum: "11", file: "known", diff: "x", want: Decided, because: "gap_states"},
		"listed but equal":                  {vector: gap + `"id": "v", "peer_quirk": "gap_states"`, sum: "11", file: "known", want: Wrong, because: "is equal"},
		"listed for another reason":         {vector: gap + `"id": "v"`, sum: "11", file: "known", diff: "x", want: Wrong, because: "is listed as decided"},
		"another vector with a listed id":   {vector: gap + `"id": "v", "peer_quirk": "gap_states"`, sum: "12", file: "known", diff: "x", want: Wrong, because: "not listed"},
		"another seed":                      {vector: gap + `"id": "v", "peer_quirk": "gap_states"`, sum: "12", file: "other", diff: "x", want: Decided, because: "gap_states"},
		"another seed, quirk does not fit":  {vector: `"id": "v", "peer_quirk": "gap_states"`, file: "other", diff: "x", want: Wrong, because: "nothing excuses it"},
		"another seed, no sentence":         {vector: `"id": "v", "peer_quirk": "unexplained"`, file: "other", diff: "x", want: Wrong, because: "no sentence"},
		"refused":                           {vector: tail + `"peer_quirk": "tail_optional"`, file: "other", diff: "x", refused: true, want: Decided, because: "tail_optional"},
		"refused without a quirk that may":  {vector: gap + `"peer_quirk": "gap_states"`, file: "other", diff: "x", refused: true, want: Wrong, because: "refused, but"},
		"not refused with a quirk that may": {vector: tail + `"peer_quirk": "tail_optional"`, file: "other", want: Equal},
		"raises": {
			vector: `"raises": "E", "pattern": {"steps": [{"name": "a"}], "after_match": {"strategy": "skip_to_last", "error_if_missing": true}}`,
			file:   "other", diff: "x", want: Decided, because: "raises",
		},
		"raises something else": {vector: `"raises": "E", "pattern": {"steps": [{"name": "a"}]}`, file: "other", diff: "x", want: Wrong, because: "nothing excuses it"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := parseDecisions("list", list)
			if err != nil {
				t.Fatal(err)
			}
			v := vector(t, "{"+c.vector+"}")
			v.Sum = c.sum
			sum := "ffff"
			if c.file == "known" {
				sum = "ab12"
			}
			got, because := d.Judge(c.file, sum, v, c.diff, c.refused)
			if got != c.want || !strings.Contains(because, c.because) {
				t.Errorf("verdict %d because %q, want %d because %q", got, because, c.want, c.because)
			}
		})
	}
}

func TestStale(t *testing.T) {
	d, err := parseDecisions("list", list)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Stale("known", "ab12"); len(got) != 1 || got[0] != "vector v" {
		t.Errorf("stale: %v", got)
	}
	if got := d.Stale("known", "cd34"); got != nil {
		t.Errorf("stale in another file of that name: %v", got)
	}
}

func TestDecisionsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"vector f v 1 nothing":                             "has no sentence",
		"vector f v 1":                                     "FILE ID SUM REASON",
		"reason a: s\nreason a: t":                         "once",
		"reason a: s\nvector f v 1 a\nvector f v 1 a":      "listed twice",
		"because of it":                                    "unknown word",
		"covers f":                                         "covers FILE SUM",
		"reason a: s\nvector f v 1 a; b":                   "has no sentence",
		"reason a: s\ntimeout f v 1 a\ntimeout f v 1 a\n ": "listed twice",
	} {
		if _, err := parseDecisions("list", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestQuirkNeedsIngredient(t *testing.T) {
	for name, q := range quirks {
		if name == "unexplained" {
			continue
		}
		if q.needs(pattern(t, `[{"name": "a"}]`)) {
			t.Errorf("%s would excuse a pattern of one plain step", name)
		}
	}
	if v := pattern(t, `[{"group": [{"name": "a", "optional": true}, {"name": "b", "min": 0, "max": 2}]}]`); !v.mayTakeNothing() {
		t.Error("a group of optional steps may take nothing")
	}
}

func TestTranslateSiddhi(t *testing.T) {
	const head = "version: 1\nrules:\n- id: vector\n"
	for name, c := range map[string]struct{ pattern, columns, want string }{
		"once": {
			pattern: `{"seq": [{"atom": {"as": "e1", "stream": "A", "where": "price>20.0f"}}, {"atom": {"as": "e2", "stream": "B", "where": "price>e1.price"}}], "contiguity": "relaxed"}`,
			columns: `["e1.price as p"]`,
			want: head + `  from: [A, B]
  unbounded: true
  sequence:
  - absent: earlier
    from: A
    where: "price>20.0"
    for: forever
    from_start: true
  - step: s_e1
    from: A
    where: "price>20.0"
  - step: s_e2
    from: B
    where: "price>s_e1.price"
  after_match: none
  alert:
    fields:
      f0: "s_e1.price"
`,
		},
		"sequence of every": {
			pattern: `{"within_ms": 5, "of": {"seq": [{"every": {"atom": {"as": "e1", "stream": "A"}}}, {"repeat": {"atom": {"as": "e2", "stream": "A", "where": "ifThenElse(e2[last].price is null, e1.price <= price, e2[last - 1].price <= price)"}}, "min": 1, "max": null}, {"atom": {"as": "e3", "stream": "A"}}], "contiguity": "strict"}}`,
			columns: `["e2[0].price as p", "e2.price as q"]`,
			want: head + `  from: [A]
  within: 5ms
  sequence:
  - step: s_e1
    from: A
  - step: s_e2
    from: A
    where: "(taken[-1].price == nil ? s_e1.price <= price : taken[-2].price <= price)"
    contiguity: strict
    times: 1..
    loop: strict
  - step: s_e3
    from: A
    contiguity: strict
  after_match: {to_last: s_e3}
  alert:
    fields:
      f0: "s_e2[0].price"
      f1: "s_e2[-1].price"
`,
		},
		"absence with a time between": {
			pattern: `{"seq": [{"every": {"atom": {"as": "e1", "stream": "A"}}}, {"not": {"atom": {"stream": "B", "where": "x==1"}}, "for_ms": 7}, {"atom": {"as": "e3", "stream": "A"}}], "contiguity": "relaxed"}`,
			columns: `["e1.price as p"]`,
			want: head + `  from: [A, B]
  unbounded: true
  sequence:
  - step: s_e1
    from: A
  - absent: n_1
    from: B
    where: "(x==1) and not (ts(e) - ts(s_e1) > duration('7ms'))"
  - step: s_e3
    from: A
    where: "ts(e) - ts(s_e1) > duration('7ms')"
  after_match: to_next
  alert:
    fields:
      f0: "s_e1.price"
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := (&Vector{Text: []byte(`{"pattern": ` + c.pattern + `, "select": ` + c.columns + `}`)}).Siddhi()
			if err != nil {
				t.Fatal(err)
			}
			tr := s.Translate()
			if diff := cmp.Diff(c.want, tr.Text); diff != "" || tr.Missing != "" {
				t.Errorf("missing %q\n%s", tr.Missing, diff)
			}
			if tr.Once != (name == "once") {
				t.Errorf("once: %v", tr.Once)
			}
		})
	}
}
