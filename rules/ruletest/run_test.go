package ruletest_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/ruletest"
)

// load compiles a rule file, and files beside it.
func load(text string, files map[string]string) (*rules.Set, error) {
	fsys := fstest.MapFS{"r.yaml": {Data: []byte(text)}}
	for name, data := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(data)}
	}
	set, diagnostics, err := rules.LoadFS(fsys, "r.yaml")
	if err == nil && set == nil {
		err = diagnostics
	}
	return set, err
}

func Example() {
	set, err := load(`
version: 1
rules:
- id: login
  from: auth
  by: [user]
  where: outcome == "failure"
  tests:
  - name: fires
    events: [{at: 1s, event: {user: ada, outcome: failure}}]
    expect: {alerts: [{at: 2s}]}
`, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range ruletest.Run(set, nil) {
		fmt.Println(r.Name(), r.Passed())
		fmt.Println(strings.Join(r.Failure, "\n"))
	}
	// Output:
	// login/fires false
	// ~ differs   at 1s  match  {}   expected at r.yaml:11:23
	//             at: expected 2s, got 1s
}

// rule is a rule whose only test is to be added.
const rule = `version: 1
rules:
- id: login
  from: [auth, vpn]
  by: [user]
  within: 1m
  sequence:
  - {step: fail, where: outcome == "failure", times: 3}
  - {step: ok, where: outcome == "success"}
  alert: {fields: {fails: len(fail), at: ts(ok)}}
  tests:
  - name: test
`

func TestRun(t *testing.T) {
	const fail, ok = `event: {user: ada, outcome: failure}`, `event: {user: ada, outcome: success}`
	for _, c := range []struct {
		name, test string
		failure    []string // a part of each line; none: it passes
	}{
		{
			"repeated events",
			`events: [{at: 0s, times: 3, every: 1s, ` + fail + `}, {at: 4s, ` + ok + `}]
    expect: {alerts: [{at: 4s, kind: match, fields: {fails: 3, at: "2026-01-01T00:00:04Z"}}]}`,
			nil,
		},
		{
			"the other stream",
			`events: [{at: 0s, times: 3, every: 1s, from: vpn, ` + fail + `}, {at: 4s, ` + ok + `}]
    expect: {count: 1}`,
			nil,
		},
		{
			"out of order without a lateness",
			`events: [{at: 4s, ` + ok + `}, {at: 0s, times: 3, every: 1s, ` + fail + `}]
    expect: {count: 1}`,
			[]string{"expected 1 alert, got 0", "3 events of auth went back in time and were late", "no event fitted the first step, fail"},
		},
		{
			"out of order within the lateness",
			`lateness: 10s
    events: [{at: 4s, ` + ok + `}, {at: 0s, times: 3, every: 1s, ` + fail + `}]
    expect: {count: 1}`,
			nil,
		},
		{
			"late after time was moved on",
			`lateness: 10s
    events: [{at: 4s, ` + ok + `}, {advance: 1s}, {at: 0s, times: 3, every: 1s, ` + fail + `}]
    expect: {alerts: []}`,
			nil,
		},
		{
			"silence is time that passes",
			`events: [{at: 0s, times: 3, every: 1s, ` + fail + `}, {idle: 1h}, {at: 4s, ` + ok + `}]
    expect: {alerts: []}`,
			nil,
		},
		{
			"but not a short one",
			`events: [{at: 0s, times: 3, every: 1s, ` + fail + `}, {idle: 29s}, {at: 4s, ` + ok + `}]
    expect: {count: 1}`,
			nil,
		},
		{
			"a restart changes nothing",
			`lateness: 2s
    events: [{at: 0s, ` + fail + `}, {restart: true}, {at: 2s, ` + fail + `}, {at: 1s, ` + fail + `}, {restart: true}, {restart: true}, {at: 4s, ` + ok + `}, {restart: true}]
    expect: {alerts: [{at: 4s, fields: {fails: 3}}]}`,
			nil,
		},
		{
			"nothing on its streams",
			`events: [{at: 0s, times: 3, from: mail, ` + fail + `}]
    expect: {count: 1}`,
			[]string{"expected 1 alert", "3 events were on streams that the rule does not read", "no event was on a stream of the rule"},
		},
		{
			"no key",
			`events: [{at: 0s, times: 3, event: {outcome: failure}}]
    expect: {count: 1}`,
			[]string{"expected 1 alert", "none of 3 visible events has a key"},
		},
		{
			"too many alerts",
			`events: [{at: 0s, times: 3, ` + fail + `}, {at: 4s, ` + ok + `}]
    expect: {count: 2}`,
			[]string{"expected 2 alerts, got 1", "at 4s  match", ""},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, err := load(rule+"    "+c.test+"\n", nil)
			if err != nil {
				t.Fatal(err)
			}
			results := ruletest.Run(set, nil)
			if len(results) != 1 || results[0].Err != nil {
				t.Fatal(results)
			}
			got := results[0].Failure
			if len(got) != len(c.failure) {
				t.Fatalf("failure:\n%s", strings.Join(got, "\n"))
			}
			for i := range got {
				if !strings.Contains(got[i], c.failure[i]) {
					t.Errorf("line %d is %q, expected %q", i, got[i], c.failure[i])
				}
			}
		})
	}
}

func TestFiles(t *testing.T) {
	const good = `{"ts":"2026-05-01T10:00:00Z","user":"ada","outcome":"failure"}
{"@timestamp":"2026-05-01T10:00:01Z","user":"ada","outcome":"failure"}

{"time":"2026-05-01T10:00:02Z","user":"ada","outcome":"failure"}
`
	for _, c := range []struct{ name, events, file, err string }{
		{"zero is the first event", `[{file: a.jsonl}, {at: 3s, event: {user: ada, outcome: success}}]`, good, ""},
		{"no time", `[{file: a.jsonl}]`, `{"user":"ada"}`, "r.yaml:13:14: a.jsonl line 1: no time"},
		{"no JSON", `[{file: a.jsonl}]`, good + "{", "a.jsonl line 5: bad json"},
		{"empty", `[{file: a.jsonl}]`, "", "a.jsonl is empty"},
		{"not there", `[{file: b.jsonl}]`, "", "b.jsonl: file does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, err := load(rule+"    events: "+c.events+"\n    expect: {alerts: [{at: 3s}]}\n", map[string]string{"a.jsonl": c.file})
			if err != nil {
				t.Fatal(err)
			}
			r := ruletest.Run(set, nil)[0]
			if (r.Err == nil) != (c.err == "") || r.Passed() != (c.err == "") || !strings.Contains(strings.Join(r.Failure, "\n"), c.err) {
				t.Errorf("%v, %q, expected %s", r.Err, r.Failure, c.err)
			}
		})
	}
}

// A test that cannot be run has failed, and the others run. It covers nothing.
func TestOthersRun(t *testing.T) {
	const one = `{at: 0s, event: {user: ada, outcome: failure}}`
	set, err := load(strings.TrimSuffix(rule, "  - name: test\n")+`  - {name: gone, events: [`+one+`, {file: gone.jsonl}], expect: {count: 1}}
  - {name: no reload, events: [`+one+`, {reload: gone.yaml}], expect: {count: 0}}
  - {name: good, events: [`+one+`], expect: {count: 0}}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	results := ruletest.Run(set, nil)
	var got []string
	for _, r := range results {
		got = append(got, fmt.Sprint(r.Test.Name, " ", r.Passed(), " ", strings.Join(r.Failure, "|")))
	}
	want := []string{
		"gone false r.yaml:12:75: gone.jsonl: file does not exist",
		"no reload false r.yaml:13:80: gone.yaml: file does not exist",
		"good true ",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if c := ruletest.Cover(set.Rules, results)[0]; c.Tests != 1 || c.Hits != 0 || c.NearMisses != 1 {
		t.Errorf("%d tests, %d hits, %d near misses", c.Tests, c.Hits, c.NearMisses)
	}
}

// TestFilter picks tests by rule and name, and runs those of rules that are switched off.
func TestFilter(t *testing.T) {
	set, err := load(`
version: 1
defaults: {from: s, by: [k], enabled: false}
rules:
- {id: a, where: x == 1, tests: [{name: one, events: [{at: 0s, event: {k: 1, x: 1}}], expect: {count: 1}}, {name: two, events: [{at: 0s, event: {k: 1}}], expect: {count: 0}}]}
- {id: b, where: x == 1, tests: [{name: one, events: [{at: 0s, event: {k: 1, x: 1}}], expect: {count: 1}}]}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[string]string{"": "a/one a/two b/one", "^a/": "a/one a/two", "one$": "a/one b/one", "c": ""} {
		results := ruletest.Run(set, regexp.MustCompile(filter))
		var names []string
		for _, r := range results {
			if !r.Passed() {
				t.Errorf("%s: %v", r.Name(), r.Failure)
			}
			names = append(names, r.Name())
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q runs %q", filter, got)
		}
	}
}

func TestTooManyEvents(t *testing.T) {
	set, err := load(rule+"    events: [{at: 0s, event: {x: 1}}, {at: 0s, times: 1000000, event: {x: 1}}]\n    expect: {count: 0}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := ruletest.Run(set, nil); len(r) != 1 || r[0].Err == nil || !strings.HasSuffix(strings.Join(r[0].Failure, "\n"), "more than 1000000 events in one test") {
		t.Error(r)
	}
}

// TestReload swaps rules in the middle of a test: what keeps its meaning goes on, what changes begins anew.
func TestReload(t *testing.T) {
	const rule = `version: 1
rules:
- id: pair
  from: s
  by: [k]
  within: %s
  sequence: [{step: a, where: x == 1}, {step: b, where: x == 2}]
  alert: {title: "%s", fields: {y: b.y}}
%s`
	const events = `  tests:
  - name: reload
    events: [{at: 0s, event: {k: 1, x: 1}}, {at: 1s, event: {k: 2, x: 1}}, {reload: next/b.yaml}, {at: 2s, event: {k: 1, x: 2, y: 7}}]
    expect: {alerts: [{at: 2s, fields: {y: 7}}]}
`
	for name, c := range map[string]struct {
		next   string
		passes bool
	}{
		"another title":           {fmt.Sprintf(rule, "1h", "another", ""), true},
		"another window, drained": {fmt.Sprintf(rule, "2h", "one", ""), true},
		"another window, dropped": {fmt.Sprintf(rule, "2h", "one", "  on_change: drop\n"), false},
		"another rule":            {"version: 1\nrules: [{id: other, from: [t, s], by: [z], where: q == 1}]\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := load(fmt.Sprintf(rule, "1h", "one", events), map[string]string{"next/b.yaml": c.next})
			if err != nil {
				t.Fatal(err)
			}
			results := ruletest.Run(set, nil)
			if len(results) != 1 || results[0].Err != nil {
				t.Fatal(results)
			}
			if results[0].Passed() != c.passes {
				t.Errorf("%d alerts, failure: %v", len(results[0].Alerts), results[0].Failure)
			}
		})
	}
	set, err := load(fmt.Sprintf(rule, "1h", "one", events), map[string]string{"next/b.yaml": "version: 1\nrules: [{id: pair}]\n"})
	if err != nil {
		t.Fatal(err)
	}
	if r := ruletest.Run(set, nil); len(r) != 1 || r[0].Err == nil || !strings.Contains(r[0].Failure[0], "next/b.yaml:2:14: ") {
		t.Errorf("mistakes in the other file: %v", r)
	}
}
