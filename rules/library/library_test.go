package library_test

import (
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
	results, err := ruletest.Run(set, nil)
	if err != nil {
		t.Fatal(err)
	}
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
	for _, r := range set.Rules {
		if !strings.Contains(string(page), "`"+r.ID+"`") {
			t.Errorf("%s is not on the page", r.ID)
		}
	}
	if blocks < len(set.Rules) {
		t.Errorf("%d excerpts for %d rules", blocks, len(set.Rules))
	}
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
	results, err := ruletest.Run(&rules.Set{Set: &compiled, Sources: set.Sources}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range results {
		if r := &results[i]; !r.Passed() {
			t.Errorf("%s: %s\n  %s", r.Test.Pos, r.Name(), strings.Join(r.Failure, "\n  "))
		}
	}
}
