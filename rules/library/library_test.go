package library_test

import (
	"strings"
	"testing"

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
