package patterns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cepd/cepd/cep"
)

func readBeside(dir string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) }
}

// load loads one text that must have no errors.
func load(t *testing.T, text string) *Set {
	t.Helper()
	set, diagnostics := Load([]Source{{Name: "rules.yaml", Data: []byte(text)}}, Options{ReadFile: readBeside("testdata/good")})
	if set == nil {
		t.Fatal(diagnostics.Error())
	}
	return set
}

// refuse loads one text and returns the codes of what is wrong with it, warnings too.
func codes(t *testing.T, text string) []string {
	t.Helper()
	_, diagnostics := Load([]Source{{Name: "rules.yaml", Data: []byte(text)}}, Options{})
	var codes []string
	for _, d := range diagnostics {
		codes = append(codes, d.Code)
	}
	return codes
}

// Each stage prints: what was written, what it means, what the machine runs.
func TestStages(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no good files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source := Source{Name: filepath.Base(file), Data: data}
			var b strings.Builder
			for _, d := range readFile(source, newReport()) {
				b.WriteString("---- written\n" + d.String())
			}
			set, diagnostics := Load([]Source{source}, Options{ReadFile: readBeside("testdata/good")})
			if len(diagnostics) > 0 {
				b.WriteString("---- diagnostics\n" + diagnostics.Error())
			}
			if set == nil {
				t.Fatal(diagnostics.Error())
			}
			for _, r := range set.Rules {
				b.WriteString("---- checked\n" + r.String() + "---- program\n" + r.Program.String())
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", b.String())
		})
	}
}

const pair = `version: 1
rules:
- id: a
  from: auth
  by: [user]
  within: 10m
  sequence:
  - {step: first, where: kind == "x"}
  - {step: second, where: kind == "y", times: 2}
`

// The fingerprint is the meaning: what LANGUAGE lists changes it, nothing else does.
func TestFingerprint(t *testing.T) {
	base := load(t, pair).Rules[0].Fingerprint
	edit := func(old, new string) string {
		t.Helper()
		text := strings.Replace(pair, old, new, 1)
		if text == pair {
			t.Fatalf("%q is not there", old)
		}
		return load(t, text).Rules[0].Fingerprint
	}
	for _, e := range [][2]string{
		{"from: auth", "from: [auth, web]"},
		{"by: [user]", "by: [host]"},
		{"by: [user]", "by: {account: user}"},
		{"within: 10m", "within: 11m"},
		{"within: 10m", "within: 10m\n  where: kind != \"z\""},
		{"within: 10m", "within: 10m\n  after_match: none"},
		{"within: 10m", "within: 10m\n  emit: ordered"},
		{"within: 10m", "within: 10m\n  on_timeout: emit"},
		{`kind == "x"`, `kind == "z"`},
		{"step: second", "step: third"},
		{"times: 2", "times: 2.."},
		{"times: 2", "times: 2, loop: strict"},
		{"times: 2", "times: 2, contiguity: strict"},
		{"times: 2", "times: 2, within: 1m"},
		{"times: 2", "times: 2, loop_within: 1m"},
		{"times: 2", "times: 2, optional: true"},
		{"times: 2", "times: 2, by: [account]"},
		{"times: 2", "times: 2, from: web"},
		{"times: 2}", "times: 2}\n  - {absent: none, where: kind == \"z\", for: 1m}"},
	} {
		if edit(e[0], e[1]) == base {
			t.Errorf("%s for %s does not change the fingerprint", e[1], e[0])
		}
	}
	for _, e := range [][2]string{
		{"id: a", "id: b"},
		{"id: a", "id: a\n  name: A\n  severity: high\n  tags: [x]\n  revision: 2\n  enabled: false"},
		{"from: auth", "from: [auth]"},
		{"within: 10m", "within: 600s"},
		{"within: 10m", "within: 10m\n  emit: eager\n  after_match: past_last\n  on_timeout: drop\n  on_change: drop"},
		{"within: 10m", "within: 10m\n  limits: {starts_per_key: 5}"},
		{"within: 10m", "within: 10m\n  exceptions: [{name: e, where: user == \"a\"}]"},
		{"within: 10m", "within: 10m\n  alert: {fields: {n: len(second)}, include_events: all}"},
		{`kind == "x"`, `kind=="x"`},
		{`kind == "x"`, `$ismacro`},
		{"times: 2", "times: 2..2, loop: relaxed, contiguity: relaxed, optional: false"},
	} {
		old, text := e[0], e[1]
		if strings.Contains(text, "$ismacro") {
			macro := strings.Replace(pair, "rules:", "macros: {ismacro: kind == \"x\"}\nrules:", 1)
			if load(t, strings.Replace(macro, old, text, 1)).Rules[0].Fingerprint != base {
				t.Error("a macro changes the fingerprint")
			}
			continue
		}
		if edit(old, text) != base {
			t.Errorf("%s for %s changes the fingerprint", text, old)
		}
	}
	if one, other := edit("from: auth", "from: [auth, web]"), edit("from: auth", "from: [web, auth, web]"); one != other {
		t.Error("the order of streams changes the fingerprint")
	}
	lists := func(values string) string {
		text := strings.Replace(pair, "rules:", "lists: {l: ["+values+"]}\nrules:", 1)
		return load(t, strings.Replace(text, `kind == "x"`, `kind in $l`, 1)).Rules[0].Fingerprint
	}
	if lists("a") != lists("a, b") {
		t.Error("the contents of a list change the fingerprint")
	}
}

// Equal conditions on the current event are one predicate in the whole set; others are not shared.
func TestPredicatesAreShared(t *testing.T) {
	set := load(t, `version: 1
rules:
- id: a
  from: auth
  by: [user]
  within: 10m
  sequence:
  - {step: first, where: kind == "x"}
  - {step: second, where: kind == first.kind}
- id: b
  from: auth
  by: [user]
  within: 10m
  sequence:
  - {step: second, where: kind=="y"}
  - {step: first, where: (kind == "x")}
  - {step: third, where: kind == first.kind}
`)
	if set.Predicates != 4 {
		t.Errorf("%d predicates, want 4", set.Predicates)
	}
}

// Files are loaded together: a list of one is known in all, ids are unique over all, and the order does not matter.
func TestFilesTogether(t *testing.T) {
	sources := []Source{
		{Name: "b.yaml", Data: []byte("version: 1\nrules:\n- {id: b, from: auth, where: user in $admins and $night}\n")},
		{Name: "a.yaml", Data: []byte("version: 1\nlists: {admins: [root]}\nrules:\n- {id: z, from: web}\n---\nversion: 1\nmacros: {night: hour < 6}\nrules:\n- {id: a, from: auth}\n")},
	}
	set, diagnostics := Load(sources, Options{})
	if set == nil {
		t.Fatal(diagnostics.Error())
	}
	var ids []string
	for _, r := range set.Rules {
		ids = append(ids, r.ID)
	}
	if got := strings.Join(ids, " "); got != "a b z" {
		t.Errorf("rules %s", got)
	}
	sources = append(sources, Source{Name: "c.yaml", Data: []byte("version: 1\nlists: {admins: [x]}\nrules:\n- {id: b, from: auth}\n")})
	_, first := Load(sources, Options{})
	sources[0], sources[2] = sources[2], sources[0]
	_, second := Load(sources, Options{})
	if first.Error() != second.Error() || len(first) != 2 || first[0].Code != codeDuplicate || first[1].Code != codeDuplicateID {
		t.Errorf("%s\n%s", first.Error(), second.Error())
	}
}

// A default holds where its word is allowed, and is silent elsewhere.
func TestDefaults(t *testing.T) {
	set := load(t, `version: 1
defaults:
  from: auth
  by: [user]
  within: 10m
  contiguity: any
  loop: strict
  after_match: {to_last: only_here}
  severity: high
  exceptions: [{name: e, where: kind == "z", steps: [only_here]}]
rules:
- id: a
  sequence: [{step: x, where: kind == "a"}, {absent: n, where: kind == "n"}, {step: y, where: kind == "b", contiguity: strict}]
- id: b
  unbounded: true
  severity: low
  sequence: [{step: x, where: kind == "a", times: 2}, {step: only_here, where: kind == "b"}]
- id: c
  sequence: [{step: x, by: [a, b], where: kind == "a"}, {step: y, by: [c, d], where: kind == "b", within: 20m}]
`)
	a, b, c := set.Rules[0], set.Rules[1], set.Rules[2]
	if a.Severity != "high" || b.Severity != "low" || a.After.String() != "past_last" || b.After.String() != "to_last" || b.Target != 1 {
		t.Errorf("%s\n%s", a, b)
	}
	if len(a.Exceptions) != 0 || len(b.Exceptions) != 1 || a.Within == 0 || b.Within != 0 {
		t.Errorf("%s\n%s", a, b)
	}
	if got := a.Elements[1].Link.String() + a.Elements[2].Link.String() + b.Elements[0].Loop.String() + b.Elements[1].Link.String(); got != "relaxedstrictstrictany" {
		t.Error(got)
	}
	if strings.Join(c.Key, " ") != "a b" {
		t.Errorf("key %q", c.Key)
	}
}

func TestKeys(t *testing.T) {
	set := load(t, `version: 1
rules:
- id: a
  from: auth
  by: [user.name, lower(host), 'e["@id"]']
  within: 10m
  sequence: [{step: x, where: a == 1}, {step: y, where: a == 2, by: {name: n, "lower(host)": h, "@id": i}}]
- id: b
  from: auth
  by: {user: a, host: b}
  within: 10m
  sequence: [{step: x, where: a == 1, by: {host: c, user: d}}, {step: y, where: a == 2, by: [f, g]}]
`)
	a, b := set.Rules[0], set.Rules[1]
	if got := strings.Join(a.Key, "|"); got != "name|lower(host)|@id" {
		t.Error(got)
	}
	if got := canonical(a.Elements[1].By); got != "(n, h, i)" {
		t.Error(got)
	}
	if got := canonical(b.Elements[0].By) + canonical(b.Elements[1].By); got != "(d, c)(f, g)" {
		t.Error(got)
	}
}

// Numbers and texts in lists keep their kinds, and a cell of a file is both the text and the number that it spells.
func TestTables(t *testing.T) {
	set := load(t, `version: 1
lists:
  inline: [22, "23", 1.5, 0x10, true]
  file: {file: hosts.csv, column: host}
maps:
  names: {a: 1, 2: two}
  hosts: {file: hosts.csv, key: host, value: ip}
rules:
- {id: r, from: auth}
`)
	has := func(list, yaml string) bool {
		doc := readFile(Source{Name: "v.yaml", Data: []byte("version: 1\nlists: {x: [" + yaml + "]}\n")}, newReport())
		v, ok := scalarValue(doc[0].lists[0].pairs[0].value)
		return ok && set.Lists[list].Contains(v)
	}
	for yaml, want := range map[string]bool{"22": true, `"22"`: false, "23": false, `"23"`: true, "1.5": true, "16": true, "true": true, "22.0": true} {
		if has("inline", yaml) != want {
			t.Errorf("%s in the list: %t", yaml, !want)
		}
	}
	for yaml, want := range map[string]bool{"22": true, `"22"`: true, "alpha": true, "ignored": true, `""`: false} {
		if has("file", yaml) != want {
			t.Errorf("%s in the file: %t", yaml, !want)
		}
	}
	if got := set.Maps["names"].Get(cep.Int(2)); got.AsString() != "two" {
		t.Errorf("2 is %s", got)
	}
	if got := set.Maps["hosts"].Get(cep.Int(22)); got.AsString() != "10.0.0.2" {
		t.Errorf("22 is %s", got)
	}
	if set.Lists["file"].Len() != 4 || set.Lists["inline"].Len() != 5 {
		t.Errorf("%d and %d values", set.Lists["file"].Len(), set.Lists["inline"].Len())
	}
}

// All mistakes of a file come at once, though some of its lines cannot be read as they stand.
func TestAllMistakesAtOnce(t *testing.T) {
	got := codes(t, `version: 1
rules:
- id: A
  from: auth
  by: [coalesce(a, b), c]
  within: ten
  sequence:
  - {step: a, where: x in [1, 2], times: 3}
  - {step: b, where: "a" in y}
  - {step: c, where: lowr(x) == "a" and z = 3}
  - {step: d, times: *}
- id: second
  form: auth
  where: !x
---
version: 1
rules:
- {id: third, from: auth, where: fail( }
`)
	want := "CEP0120 CEP0108 CEP0115 CEP0108 CEP0108 CEP0201 CEP0106 CEP0103 CEP0108 CEP0201"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// Ordinary texts with brackets and apostrophes in flow maps are no expressions.
func TestTextsThatLookTorn(t *testing.T) {
	for _, rule := range []string{
		`{id: r, from: auth, description: it's fine, tags: [a]}`,
		`{id: r, from: auth, description: first (of two, status: test}`,
		`{id: r, from: auth, description: "a, b) c", name: x)}`,
		`{id: r, from: auth, references: [a (b), c]}`,
	} {
		if got := codes(t, "version: 1\nrules:\n- "+rule+"\n"); len(got) > 0 {
			t.Errorf("%s: %v", rule, got)
		}
	}
}

// The windows that LANGUAGE asks for (`within`).
func TestWindows(t *testing.T) {
	for _, test := range []struct {
		rule, want string
	}{
		{"sequence: [{step: a}]", ""},
		{"sequence: [{step: a, times: 2}]", codeNoWindow},
		{"sequence: [{step: a, times: 2, within: 1m}]", ""},
		{"sequence: [{step: a, times: 2, loop_within: 1m}]", ""},
		{"sequence: [{step: a, where: x == 1}, {step: b, where: x == 2, within: 1m}]", ""},
		{"sequence: [{step: a, where: x == 1}, {step: b, where: x == 2, within: 1m, times: 2}]", ""},
		{"sequence: [{step: a, where: x == 1}, {step: b, where: x == 2, loop_within: 1m, times: 2}]", codeNoWindow},
		{"sequence: [{step: a, where: x == 1}, {absent: b, where: x == 2, for: 1m}]", ""},
		{"sequence: [{step: a, where: x == 1}, {absent: b, where: x == 2}]", codeHoldMissing},
		{"sequence: [{step: a, where: x == 1}, {absent: b, where: x == 2, contiguity: strict}]", codeNoWindow},
		{"unbounded: true, sequence: [{step: a, where: x == 1}, {absent: b, where: x == 2, contiguity: strict}]", ""},
		{"within: 1m, sequence: [{step: a, where: x == 1}, {absent: b, where: x == 2}]", ""},
		{"within: 1m, sequence: [{step: a, where: x == 1}, {absent: b, where: x == 2, for: 1h}]", ""},
		{"sequence: [{absent: b, where: x == 2, for: 1m}, {step: a, where: x == 1}]", ""},
		{"sequence: [{absent: b, where: x == 2, for: 1m}]", ""},
		{"within: 1m, sequence: [{absent: b, where: x == 2}]", ""},
		{"sequence: [{absent: b, where: x == 2}]", codeHoldMissing},
		{"unbounded: true, sequence: [{step: a, where: x == 1}, {step: b, where: x == 2}]", ""},
		{"within: 1m, sequence: [{step: a, where: x == 1}, {step: b, where: x == 2, within: 2m}]", codeGap},
		{"within: 1m, sequence: [{step: a, where: x == 1}, {step: b, where: x == 2, within: 1m}]", ""},
	} {
		got := strings.Join(codes(t, "version: 1\nrules:\n- {id: r, from: s, by: [k], "+test.rule+"}\n"), " ")
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.rule, got, test.want)
		}
	}
}

// Where absences may stand (S4).
func TestAbsences(t *testing.T) {
	const (
		a, b, c = "{step: a, where: x == 1}", "{step: b, where: x == 2}", "{step: c, where: x == 3, optional: true}"
		n       = "{absent: n, where: x == 4}"
	)
	for _, test := range []struct {
		elements, want string
	}{
		{a + n + b, ""},
		{a + n + "{absent: m, where: x == 5}" + b, ""},
		{a + c + n + b, ""},
		{c + n + b, codeAbsencePlace},
		{a + n + c, codeAbsenceTail},
		{a + n + c + b, ""},
		{a + n + c + "{absent: m, where: x == 5, for: 1m}", ""},
		{n + b, codeHoldMissing},
		{"{absent: n, where: x == 4, for: 1m}{absent: m, where: x == 5, for: 2m}" + b, ""},
		{"{absent: n, where: x == b.x, for: 1m}" + b, ""},
		{"{absent: n, where: x == b.x or x == c.x, for: 1m}" + c + b, ""},
		{"{absent: n, where: x == b.x, for: 1m}" + a + b, "CEP0204"},
		{"{absent: n, where: x == 4, for: 1m, contiguity: strict}" + b, codeContiguity},
		{"{absent: n, where: x == 4, for: forever}" + b, codeHold},
		{"{absent: n, where: x == 4, for: forever, from_start: true}" + b, ""},
		{a + "{absent: n, where: x == 4, for: 1m}" + b, codeHold},
		{a + "{absent: n, where: x == 4, from_start: true}" + b, codeHold},
		{a + "{absent: n, where: x == 4, contiguity: strict}" + b, ""},
		{a + "{absent: n, where: x == 4, contiguity: any}" + b, codeContiguity},
		{a + "{absent: n, where: x == a.x}" + b, ""},
		{a + "{absent: n, where: x == 4, for: 1m}{absent: m, where: x == 5, for: 2m}", ""},
		{"{absent: n, where: x == 4, for: 1m, from_start: true}", codeHold},
		{"{absent: n, where: x == 4, for: 1m, contiguity: strict}", codeContiguity},
		{"{absent: n, where: x == 4, for: 1m}{absent: m, where: x == 5, for: 1m}", codeNothing},
	} {
		got := strings.Join(codes(t, "version: 1\nrules:\n- {id: r, from: s, by: [k], within: 1h, sequence: ["+strings.ReplaceAll(test.elements, "}{", "}, {")+"]}\n"), " ")
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.elements, got, test.want)
		}
	}
}
