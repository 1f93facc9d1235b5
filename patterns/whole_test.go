package patterns

import (
	"strings"
	"testing"
)

// Where elements of composites may stand, and what they may say there (S2, S3, S4).
func TestComposites(t *testing.T) {
	const (
		a, b, c = "{step: a, where: x == 1}", "{step: b, where: x == 2}", "{step: c, where: x == 3}"
		n       = "{absent: n, where: x == 9}"
		o       = "{step: o, where: x == 7, optional: true}"
	)
	for _, test := range []struct {
		elements, want string
	}{
		{"{group: [" + a + b + "]}" + c, ""},
		{"{group: [" + a + b + "], times: 2..}" + c, ""},
		{"{group: [" + a + n + "], times: 2..}", ""},
		{"{group: [" + a + n + "], times: 2..}" + c, ""},
		{"{group: [" + a + "{absent: n, where: x == 9, for: 1m}], times: 2..}", codeHold},
		{"{group: [" + a + "{absent: n, where: x == 9, for: 1m}]}", ""},
		{"{group: [" + n + a + "], times: 2}", codeAbsencePlace},
		{"{group: [{absent: n, where: x == 9, for: 1m}" + a + "]}", ""},
		{"{group: [" + n + a + "]}", codeHoldMissing},
		{a + "{group: [" + n + b + "], times: 2}", ""},
		{a + n + "{group: [" + o + "]}", codeAbsenceTail},
		{a + n + "{group: [" + o + "], times: 1}", ""},
		{a + n + "{any_of: [" + o + b + "]}", codeAbsenceTail},
		{a + n + "{any_of: [" + b + c + "]}", ""},
		{"{group: [" + o + "]}", codeNothing},
		{"{group: [" + o + "], times: 1..}", ""},
		{"{any_of: [" + o + a + "]}", codeNothing},
		{"{any_of: [" + n + a + "]}" + b, codeHoldMissing},
		{"{any_of: [{absent: n, where: x == 9, for: 1m}" + a + "]}" + b, ""},
		{a + "{any_of: [" + n + c + "]}" + b, ""},
		{a + "{group: [" + n + "], times: 2}" + b, codeNothing},
		{"{all_of: [" + a + b + "]}", ""},
		{"{all_of: [" + a + b + c + "], at_least: 2, where: a.x == b.x}", ""},
		{"{all_of: [{step: a, where: x == b.x}" + b + "]}", "CEP0204"},
		{"{all_of: [" + a + n + "]}", codeMembers + " " + codeHoldMissing},
		{"{all_of: [" + a + "{any_of: [" + b + c + "]}]}", ""},
		{"{all_of: [" + a + "{group: [" + b + c + "]}]}", codeMembers},
		// Names: of another alternative, of an earlier repetition, lists by an enclosing times.
		{a + "{any_of: [" + b + "{step: c, where: x == b.x}]}", "CEP0204"},
		{a + "{any_of: [" + b + "{step: c, where: 'x == b[-1].x'}], times: 2}", ""},
		{"{group: [{step: a, where: 'len(b) == 0 or x > b[-1].x'}" + b + "], times: 2..3}" + c, ""},
		{"{group: [" + a + "{step: b, where: x == a.x}], times: 2..3}" + c, "CEP0206"},
		{"{group: [" + a + "{step: b, where: x == a.x}]}" + c, ""},
		// Words.
		{"{step: a, where: x == 1, times: 2.., until: x == 0}" + b, ""},
		{"{step: a, where: x == 1, times: 2.., having: len(a) > 3 and sum(a, .x) > 10}" + b, ""},
		{"{step: a, where: x == 1, times: 2.., having: len(b) > 3}" + b, "CEP0204"},
		{"{step: a, where: x == 1, times: 2.., having: x > 3}" + b, "CEP0218"},
		{"{step: a, where: x == 1, times: 2, distinct: user}" + b, ""},
		{a + "{step: b, where: x == 2, times: 2, distinct: a.user}", "CEP0205"},
		{"{step: a, where: x == prev.x, first_seen: {by: [user], for: 1d}}" + b, ""},
		{"{step: a, where: len(taken) == 0, first_seen: {by: [user], for: 1d}}" + b, codeFirstSeen},
		{"{step: a, where: x == 1, first_seen: {by: [user], for: forever}}" + b, codeHold},
		{"{hold: h, where: x > 1, for: 1m}", ""},
		{a + "{hold: h, where: x > a.x, for: 1m, contiguity: strict}", ""},
		{"{group: [" + a + "{hold: h, where: x > 1, for: 1m}]}", codeHoldPlace},
		{"{hold: h, where: x > 1, for: 1m}" + a, codeHoldPlace},
	} {
		elements := strings.ReplaceAll(strings.ReplaceAll(test.elements, "}{", "}, {"), "]}[", "]}, [")
		got := strings.Join(codes(t, "version: 1\nrules:\n- {id: r, from: s, by: [k], within: 1h, after_match: none, sequence: ["+quoteExpressions(elements)+"]}\n"), " ")
		if got != test.want {
			t.Errorf("%s: %q, want %q", elements, got, test.want)
		}
	}
}

// quoteExpressions puts the conditions of the table above in quotes, so that it stays readable.
func quoteExpressions(s string) string {
	for _, word := range []string{"having: ", "until: "} {
		head, tail, ok := strings.Cut(s, word)
		if !ok {
			continue
		}
		expr, rest, _ := strings.Cut(tail, "}")
		s = head + word + "'" + expr + "'}" + rest
	}
	return s
}

// Windows of rules without `within`: every gap inside a composite needs a bound too.
func TestCompositeWindows(t *testing.T) {
	for _, test := range []struct {
		elements, want string
	}{
		{"{group: [{step: a}, {step: b}]}", codeNoWindow},
		{"{group: [{step: a}, {step: b}], within: 1m}", ""},
		{"{group: [{step: a}, {step: b, within: 1m}]}", ""},
		{"{group: [{step: a}, {step: b}], within: 1m, times: 2}", codeNoWindow},
		{"{group: [{step: z}, {group: [{step: a, within: 1m}, {step: b}], within: 1m, times: 2}]}", ""},
		{"{all_of: [{step: a}, {step: b}]}", codeNoWindow},
		{"{all_of: [{step: a}, {step: b}], within: 1m}", ""},
		{"{step: z}, {all_of: [{step: a}, {step: b}], within: 1m}", codeNoWindow},
		{"{any_of: [{step: a}, {step: b}]}", ""},
		{"{any_of: [[{step: a}, {step: b}], {step: c}]}", codeNoWindow},
		{"{any_of: [[{step: a}, {step: b, within: 1m}], {step: c}]}", ""},
		{"{step: z}, {any_of: [{step: a, within: 1m}, {step: b, within: 2m}]}", ""},
		{"{step: z}, {any_of: [{step: a, within: 1m}, {step: b}]}", codeNoWindow},
		{"{hold: h, where: x > 1, for: 1m}", ""},
		{"{step: z}, {hold: h, where: x > 1, for: 1m}", codeNoWindow},
	} {
		got := strings.Join(codes(t, "version: 1\nrules:\n- {id: r, from: s, by: [k], after_match: none, sequence: ["+test.elements+"]}\n"), " ")
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.elements, got, test.want)
		}
	}
}

// An override changes a rule of any file, whatever the order of the files.
func TestOverrides(t *testing.T) {
	pack := Source{Name: "pack.yaml", Data: []byte(`version: 1
rules:
- id: brute
  from: auth
  by: [user]
  severity: low
  tags: [a]
  sequence: [{step: x, where: k == 1}, {step: y, where: k == 2, within: 1m}]
`)}
	for _, name := range []string{"a.yaml", "z.yaml"} {
		set, diagnostics := Load([]Source{pack, {Name: name, Data: []byte(`version: 1
overrides:
- {rule: brute, set: {severity: high, by: [host]}}
- {rule: brute, append: {exceptions: [{name: robots, where: user == "robot"}], tags: [b]}}
`)}}, Options{})
		if set == nil {
			t.Fatal(diagnostics.Error())
		}
		r := set.Rules[0]
		if r.Severity != "high" || strings.Join(r.Key, " ") != "host" || strings.Join(r.Tags, " ") != "a b" || len(r.Exceptions) != 1 {
			t.Errorf("%s: %s", name, r)
		}
	}
}

// Rules over alerts stand above what they read (S8).
func TestLayers(t *testing.T) {
	set := load(t, `version: 1
lists: {some: [low, quiet]}
rules:
- {id: low, from: auth}
- {id: quiet, from: auth}
- {id: hidden, from: auth, mode: shadow}
- {id: by-name, from: alerts, where: rule == "low"}
- {id: by-list, from: alerts, where: 'rule in ["low", "by-name"] and severity == "high"'}
- {id: by-constant, from: alerts, where: rule in $some}
- {id: by-step, within: 1h, from: auth, sequence: [{step: a, from: alerts, where: rule == "quiet"}, {step: b}]}
- {id: everything, from: [alerts, auth]}
- {id: until-low, from: auth, alert: {resolve: {from: alerts, where: rule == "low"}}}
- {id: until-quiet, from: auth, alert: {resolve: {from: alerts, quiet: 1h}}}
`)
	want := map[string]string{
		"low": "0", "quiet": "0", "hidden": "0", "by-name": "1 low", "by-list": "2 by-name low", "by-constant": "1 low quiet", "by-step": "1 quiet",
		"everything": "1 low quiet until-quiet", "until-low": "1 low", "until-quiet": "0",
	}
	for _, r := range set.Rules {
		got := strings.TrimSpace(string(rune('0'+r.Layer)) + " " + strings.Join(r.Reads, " "))
		if got != want[r.ID] {
			t.Errorf("%s is of layer and reads %q, want %q", r.ID, got, want[r.ID])
		}
	}
}

// A set that takes the place of another keeps the slots of its fields.
func TestBefore(t *testing.T) {
	before := load(t, "version: 1\nrules:\n- {id: r, from: s, where: 'a == 1 and e[\"x.y\"] == 2 and b.c == 3'}\n")
	set, diagnostics := Load([]Source{{Name: "r.yaml", Data: []byte("version: 1\nrules:\n- {id: r, from: s, where: z == 1 and b.c == 3}\n")}}, Options{Before: before})
	if set == nil {
		t.Fatal(diagnostics.Error())
	}
	for i := range before.Schema.Len() {
		if set.Schema.Name(i) != before.Schema.Name(i) {
			t.Errorf("slot %d was %s and is %s", i, before.Schema.Name(i), set.Schema.Name(i))
		}
	}
	if set.Schema.Len() != before.Schema.Len()+1 {
		t.Errorf("%d fields after %d", set.Schema.Len(), before.Schema.Len())
	}
}
