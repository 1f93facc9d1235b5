package patterns

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestClashes holds which conditions are said never to hold, and which are not: each case is the body of a rule over the
// stream s with its messages of CEP0165 and CEP0174.
func TestClashes(t *testing.T) {
	for _, c := range []struct{ name, rule, want string }{
		{"itself", `{where: 'x == 1 and x == 2'}`, `no event passes: x == 2 contradicts x == 1`},
		{"false", `{where: "false"}`, `no event passes: it is always false`},
		{"or", `{where: 'x == 1 or x == 2'}`, ``},
		{"kinds", `{where: 'x == 1 and x == "1"'}`, `no event passes: x == "1" contradicts x == 1`},
		{"macro", `{where: '$one and x == 2'}`, `no event passes: x == 2 contradicts x == 1`},
		{"inline list", `{where: 'x in $few and x == 5'}`, `no event passes: x == 5 contradicts x in $few`},
		{"list of a file", `{where: 'ip in $filed and ip == "10.9.9.9"'}`, ``},
		{"step and rule", `{by: [u], within: 1m, where: x > 5, sequence: [{step: a, where: x < 3}, {step: b}]}`, `"a" can never fit: x < 3 contradicts x > 5 in the "where" of the rule`},
		{"steps differ", `{by: [u], within: 1m, sequence: [{step: a, where: x < 3}, {step: b, where: x > 5}]}`, ``},
		{"key equal", `{by: [u], within: 1m, sequence: [{step: a}, {step: b, where: u != a.u}]}`, `"b" can never fit, unless u is a list: u != a.u contradicts u == a.u, by the key, which both have`},
		{"key of a left out step", `{by: [u], within: 1m, sequence: [{step: z}, {step: a, optional: true}, {step: b, where: u != a.u}]}`, ``},
		{"key of one of two", `{by: [u], within: 1m, sequence: [{any_of: [{step: a}, {step: z}]}, {step: b, where: u != a.u}]}`, ``},
		{"other key", `{within: 1m, sequence: [{step: a, by: [v]}, {step: b, by: [u], where: u != a.u}]}`, ``},
		{"other key, same part", `{within: 1m, sequence: [{step: a, by: [v]}, {step: b, by: [u], where: u != a.v}]}`, `"b" can never fit, unless u is a list: u != a.v contradicts u == a.v, by the key, which both have`},
		{"key missing", `{by: [u], where: u == nil}`, `no event passes: u == nil contradicts u != nil, by the key, which is never missing or ""`},
		{"key missing at one step", `{within: 1m, sequence: [{step: a, by: [v], where: u == nil}, {step: b, by: [u]}]}`, ``},
		{"having", `{by: [u], within: 1m, sequence: [{step: a, times: 1..3, having: len(a) > 5}, {step: b}]}`, `"a" can never be left: len(a) > 5 contradicts len(a) <= 3, by the number of events that the step takes`},
		{"having fits", `{by: [u], within: 1m, sequence: [{step: a, times: 1..6, having: len(a) > 5}, {step: b}]}`, ``},
		{"having below", `{by: [u], within: 1m, sequence: [{step: a, times: 3.., having: len(a) < 3}, {step: b}]}`, `"a" can never be left: len(a) < 3 contradicts len(a) >= 3, by the number of events that the step takes`},
		{"having and distinct", `{by: [u], within: 1m, sequence: [{step: a, times: 1..3, distinct: x, having: len(a) > 5}, {step: b}]}`, ``},
		{"having in a group", `{by: [u], within: 1m, sequence: [{group: [{step: a, times: 1..3, having: len(a) > 5}, {step: b}], times: 2..}, {step: c}]}`, `"a" can never be left`},
		{"loop before", `{by: [u], within: 1m, sequence: [{step: a, times: 1..3}, {step: b, where: len(a) > 3}]}`, `"b" can never fit: len(a) > 3 contradicts len(a) <= 3`},
		{"loop before in a group", `{by: [u], within: 1m, sequence: [{group: [{step: a, times: 1..3}], times: 2}, {step: b, where: len(a) > 3}]}`, ``},
		{"loop left out", `{by: [u], within: 1m, sequence: [{step: z}, {step: a, times: 0..3}, {step: b, where: len(a) == 0}]}`, ``},
		{"loop not left out", `{by: [u], within: 1m, sequence: [{step: a, times: 2..3}, {step: b, where: len(a) == 0}]}`, `"b" can never fit`},
		{"absence behind a loop", `{by: [u], within: 1m, sequence: [{step: a, times: 3..}, {absent: n, where: len(a) < 3}, {step: b}]}`, ``},
		{"absence behind a loop, above", `{by: [u], within: 1m, sequence: [{step: a, times: 3..5}, {absent: n, where: len(a) > 5}, {step: b}]}`, `"n" never sees an event`},
		{"taken", `{by: [u], within: 1m, sequence: [{step: a, times: 2..3, where: len(taken) > 2}, {step: b}]}`, `"a" can never fit: len(taken) > 2 contradicts len(taken) <= 2`},
		{"taken fits", `{by: [u], within: 1m, sequence: [{step: a, times: 2..3, where: len(taken) == 2}, {step: b}]}`, ``},
		{"taken in a group", `{by: [u], within: 1m, sequence: [{group: [{step: a, times: 2..3, where: len(taken) > 2}], times: 2}, {step: b}]}`, ``},
		{"absence", `{by: [u], within: 1m, sequence: [{step: a}, {absent: n, where: x == 1 and x == 2, for: 1m}]}`, `"n" never sees an event`},
		{"absence alone", `{by: [u], sequence: [{absent: n, where: x == 1 and x == 2, for: 1m}]}`, `"n" never sees an event`},
		{"hold", `{by: [u], sequence: [{hold: n, where: x == 1 and x == 2, for: 1m}]}`, `"n" can never begin to hold`},
		{"until", `{by: [u], within: 1m, sequence: [{step: a, times: 1.., until: x == 1 and x == 2}, {step: b}]}`, `"a" never ends so`},
		{"all_of", `{by: [u], within: 1m, sequence: [{all_of: [{step: a}, {step: b}], where: a.x > b.x and a.x < b.x}]}`, `the all_of can never be complete`},
		{"without", `{by: [u], within: 1m, sequence: [{step: a}, {step: b}], without: [{name: n, where: x == 1 and x == 2}]}`, `"n" never sees an event`},
		{"resolve", `{by: [u], where: x == 1, alert: {resolve: {where: x == 2}}}`, ``},
		{"resolve never", `{by: [u], alert: {resolve: {where: x == 2 and x == 1}}}`, `no event resolves the alert`},
		{"row pattern", `{by: [u], within: 1m, pattern: a b, steps: {a: {}, b: {where: x > prev.x and x < prev.x}}}`, `"b" can never fit`},
		{"row pattern and key", `{by: [u], within: 1m, pattern: (a | z) b, steps: {a: {}, z: {}, b: {where: u != a.u}}}`, ``},
		{"exception like where", `{where: 'x == 1 and y == 2', exceptions: [{name: n, where: y == 2}]}`, `the exception "n" hides every event that the rule could see`},
		{"exception wider", `{where: x > 5, exceptions: [{name: n, where: x > 3}]}`, `the exception "n" hides every event that the rule could see`},
		{"exception narrower", `{where: x > 5, exceptions: [{name: n, where: x > 7}]}`, ``},
		{"exception that may err", `{where: x > 5, exceptions: [{name: n, where: x + 1 > 3}]}`, ``},
		{"exception and step", `{by: [u], within: 1m, sequence: [{step: a, where: x == 1}, {step: b, where: x == 2}], exceptions: [{name: n, where: x == 1}]}`, `the exception "n" hides every event that "a" could take`},
		{"exception for a step", `{by: [u], within: 1m, sequence: [{step: a, where: x == 1}, {step: b, where: x == 2}], exceptions: [{name: n, where: x == 1, steps: [b]}]}`, `the exception "n" never hides an event`},
		{"exception for nothing", `{where: x == 1, exceptions: [{name: n, where: x == 2}]}`, `the exception "n" never hides an event: x == 2 contradicts x == 1 in the "where" of the rule`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "version: 1\nlists: {few: [1, 2], filed: {file: hosts.csv, column: ip}}\nmacros: {one: x == 1}\nrules:\n- " +
				strings.Replace(c.rule, "{", "{id: r, from: s, ", 1) + "\n"
			set, diagnostics := Load([]Source{{Name: "r.yaml", Data: []byte(text)}}, Options{ReadFile: func(name string) ([]byte, error) {
				return os.ReadFile("testdata/bad/" + name)
			}})
			if set == nil {
				t.Fatal(diagnostics.Error())
			}
			var got []string
			for _, d := range diagnostics {
				if d.Code == codeNever || d.Code == codeHidden {
					got = append(got, d.Message)
				}
			}
			if message := strings.Join(got, "; "); !strings.HasPrefix(message, c.want) || (c.want == "") != (message == "") {
				t.Errorf("%s\n  says %q\n  want %q", c.rule, message, c.want)
			}
		})
	}
}

// A default exception may be of no use for one of the rules: nothing is said of it.
func TestClashOfDefault(t *testing.T) {
	text := "version: 1\ndefaults: {from: s, exceptions: [{name: n, where: x == 2}]}\nrules:\n- {id: a, where: x == 1}\n- {id: b, where: x in [2]}\n"
	_, diagnostics := Load([]Source{{Name: "r.yaml", Data: []byte(strings.Replace(text, "x in [2]", `"x in [2]"`, 1))}}, Options{})
	var got []string
	for _, d := range diagnostics {
		got = append(got, fmt.Sprint(d.Rule, " ", d.Code))
	}
	if strings.Join(got, ", ") != "b CEP0174" {
		t.Error(got)
	}
}
