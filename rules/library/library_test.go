package library_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/library"
	"github.com/cepd/cepd/rules/ruletest"
)

// TestLibrary holds every shipped rule to what its readers expect: it loads without a warning, says what it finds, has
// tests for a hit and for a miss, and passes them.
func TestLibrary(t *testing.T) {
	set, diagnostics, err := rules.LoadFS(library.FS, ".")
	if err != nil {
		t.Fatal(err)
	}
	if len(diagnostics) > 0 {
		t.Errorf("diagnostics:\n%v", diagnostics)
	}
	if set == nil {
		t.FailNow()
	}
	if len(set.Rules) < 10 {
		t.Errorf("only %d rules", len(set.Rules))
	}
	for _, r := range set.Rules {
		if r.Name == "" || r.Description == "" || r.Status == "" || len(r.Tags) == 0 {
			t.Errorf("%s: name, description, status and tags are what people choose rules by", r.ID)
		}
		if len(r.Alert.Title) == 0 {
			t.Errorf("%s has no title", r.ID)
		}
		if !library.Worked(r.Pos.File) && (len(r.References) == 0 || len(r.FalsePositives) == 0) {
			t.Errorf("%s: a rule for real systems names where what it finds is described, and what else looks like it", r.ID)
		}
		hits, misses := 0, 0
		for _, test := range r.Tests {
			if test.Expect.Count > 0 || len(test.Expect.Alerts) > 0 {
				hits++
			} else {
				misses++
			}
		}
		if hits == 0 || misses == 0 || hits+misses < 3 {
			t.Errorf("%s has %d tests with alerts and %d without: a hit, a near miss and a boundary are the least", r.ID, hits, misses)
		}
	}
	results := ruletest.Run(set, nil)
	for i := range results {
		if r := &results[i]; !r.Passed() {
			t.Errorf("%s: %s\n  %s", r.Test.Pos, r.Name(), strings.Join(r.Failure, "\n  "))
		}
	}
}

// TestExamples holds docs/examples.md against the files that it shows parts of, and against all rules being there.
func TestExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/examples.md")
	if err != nil {
		t.Fatal(err)
	}
	names, err := fs.Glob(library.FS, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var files strings.Builder
	for _, name := range names {
		data, err := library.FS.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files.Write(data)
	}
	blocks := 0
	for i, part := range strings.Split(string(page), "```") {
		excerpt, isYAML := strings.CutPrefix(part, "yaml\n")
		if i%2 == 0 || !isYAML {
			continue
		}
		blocks++
		if !strings.Contains(files.String(), "\n"+excerpt) {
			t.Errorf("no file of the library has\n%s", excerpt)
		}
	}
	set, _, err := rules.LoadFS(library.FS, ".")
	if err != nil || set == nil {
		t.Fatal(err)
	}
	examples := 0
	for _, r := range set.Rules {
		if !library.Worked(r.Pos.File) {
			continue
		}
		examples++
		if !strings.Contains(string(page), "`"+r.ID+"`") {
			t.Errorf("%s is not on the page", r.ID)
		}
	}
	if examples == 0 || blocks < examples {
		t.Errorf("%d excerpts for %d rules", blocks, examples)
	}
}

var update = flag.Bool("update", false, "write docs/library.md anew")

// TestPage holds docs/library.md, which is made of the files.
func TestPage(t *testing.T) {
	set, _, err := rules.LoadFS(library.FS, ".")
	if err != nil || set == nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(pageHead)
	file := ""
	for _, r := range set.Rules {
		if library.Worked(r.Pos.File) {
			continue
		}
		if r.Pos.File != file {
			file = r.Pos.File
			fmt.Fprintf(&b, "\n## %s\n%s\n", file, about(t, file))
		}
		fmt.Fprintf(&b, "\n### %s\n**%s.** %s\n\n", r.ID, r.Name, r.Description)
		if len(r.Mitre) > 0 {
			fmt.Fprintf(&b, "- MITRE ATT&CK: %s\n", strings.Join(r.Mitre, ", "))
		}
		fmt.Fprintf(&b, "- Looks like it: %s\n", strings.Join(r.FalsePositives, " "))
		fmt.Fprintf(&b, "- Read: %s\n", strings.Join(r.References, ", "))
	}
	const page = "../../docs/library.md"
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Error("docs/library.md is not what the rules say: go test ./rules/library -update")
	}
}

const pageHead = "# The rule library\n\n" +
	"Rules over events that widely used systems really write, in [rules/library](../rules/library). Each has tests for a hit, a near miss\n" +
	"and the boundary between them (`cepd test`): one of them fails where a limit of the rule is another one, or a part of a condition\n" +
	"is left out. Each says what else looks like it, and where what it finds is described. The numbers are starting points: replay your\n" +
	"own recordings before you rely on one (`cepd replay`), and write exceptions for what is usual with you. The worked examples stand\n" +
	"in [examples.md](examples.md). This page is made of the files.\n"

// about is the comment at the head of a file: which events its streams have.
func about(t *testing.T, file string) string {
	t.Helper()
	data, err := library.FS.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for line := range strings.Lines(string(data)) {
		text, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		if !strings.HasPrefix(text, "yaml-language-server") {
			words = append(words, strings.TrimSpace(text))
		}
	}
	return strings.Join(words, " ")
}

// TestLibraryRestarted stops the service and starts it again between all steps of all tests: nothing may change.
func TestLibraryRestarted(t *testing.T) {
	set, _, err := rules.LoadFS(library.FS, ".")
	if err != nil || set == nil {
		t.Fatal(err)
	}
	compiled := *set.Set
	compiled.Rules = nil
	for _, r := range set.Rules {
		restarted := *r
		restarted.Tests = nil
		for _, test := range r.Tests {
			var steps []patterns.TestStep
			for _, s := range test.Steps {
				steps = append(steps, s, patterns.TestStep{Pos: s.Pos, Restart: true})
			}
			test.Steps = steps
			restarted.Tests = append(restarted.Tests, test)
		}
		compiled.Rules = append(compiled.Rules, &restarted)
	}
	results := ruletest.Run(&rules.Set{Set: &compiled, Sources: set.Sources}, nil)
	for i := range results {
		if r := &results[i]; !r.Passed() {
			t.Errorf("%s: %s\n  %s", r.Test.Pos, r.Name(), strings.Join(r.Failure, "\n  "))
		}
	}
}
