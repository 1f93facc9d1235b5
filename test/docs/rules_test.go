package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/ruletest"
)

// TestComingFrom loads every rule of docs/coming-from.md and runs its tests.
func TestComingFrom(t *testing.T) {
	page, err := os.ReadFile("../../docs/coming-from.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(page), "\n## ")[1:]
	if len(sections) != 7 {
		t.Errorf("%d engines, want 7", len(sections))
	}
	for _, section := range sections {
		name, _, _ := strings.Cut(section, "\n")
		t.Run(name, func(t *testing.T) {
			blocks := strings.Split(section, "```yaml\n")[1:]
			if len(blocks) == 0 {
				t.Error("no rule")
			}
			for i, block := range blocks {
				block, _, _ = strings.Cut(block, "```")
				file := filepath.Join(t.TempDir(), "rules.yaml")
				if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
					t.Fatal(err)
				}
				set, diagnostics, err := rules.Load([]string{file})
				if err != nil || set == nil {
					t.Fatalf("rule %d: %v\n%v", i+1, err, diagnostics)
				}
				for _, d := range diagnostics {
					t.Logf("rule %d: %v", i+1, d)
				}
				results := ruletest.Run(set, nil)
				if len(results) < 1 {
					t.Fatalf("rule %d: %d tests", i+1, len(results))
				}
				for _, r := range results {
					if !r.Passed() {
						t.Errorf("%s: %s", r.Name(), r.Failure)
					}
				}
			}
		})
	}
}
