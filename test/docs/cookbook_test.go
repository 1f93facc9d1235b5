package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/ruletest"
)

// TestCookbook runs the tests of every recipe of docs/cookbook.md: each is a whole rule file with a hit, a near miss and a
// boundary, and is in the list at the head of the page.
func TestCookbook(t *testing.T) {
	page, err := os.ReadFile("../../docs/cookbook.md")
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(page), "\n## ")
	sections := strings.Split(string(page), "\n## ")[1:]
	if listed := strings.Count(head, "\n- ["); listed != len(sections) || listed < 10 {
		t.Errorf("%d recipes, %d in the list", len(sections), listed)
	}
	for _, section := range sections {
		title, rest, _ := strings.Cut(section, "\n")
		t.Run(title, func(t *testing.T) {
			anchor := strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(title, ",", ""), " ", "-"))
			if !strings.Contains(head, fmt.Sprintf("[%s](#%s)", title, anchor)) {
				t.Errorf("the list does not lead to #%s", anchor)
			}
			_, block, ok := strings.Cut(rest, "```yaml\n")
			if !ok {
				t.Fatal("no rule")
			}
			block, _, _ = strings.Cut(block, "```")
			file := filepath.Join(t.TempDir(), "rules.yaml")
			if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
				t.Fatal(err)
			}
			set, diagnostics, err := rules.Load([]string{file})
			if err != nil || set == nil || len(diagnostics) > 0 {
				t.Fatalf("%v\n%v", err, diagnostics)
			}
			results := ruletest.Run(set, nil)
			if len(results) < 3 {
				t.Fatalf("%d tests", len(results))
			}
			for _, r := range results {
				if !r.Passed() {
					t.Errorf("%s: %s", r.Name(), strings.Join(r.Failure, "\n  "))
				}
			}
		})
	}
}
