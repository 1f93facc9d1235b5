package expression

import (
	"os"
	"strings"
	"testing"
)

// TestDocs runs every line `expression => value` of docs/expressions.md.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile("../../docs/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, inside := 0, false
	for i, line := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(line, "```") {
			inside = line == "```expr"
			continue
		}
		text, want, ok := strings.Cut(line, "=> ")
		if !inside || !ok {
			continue
		}
		examples++
		text = strings.TrimSpace(text)
		w := populated()
		x, problems := Compile(text, w.place)
		got := "error"
		if x == nil {
			got = "refused " + problems[0].Code
		} else if v, err := x.Eval(w.set()); err == nil {
			got = v.String()
		}
		if got != want {
			t.Errorf("docs/expressions.md:%d: %s => %s", i+1, text, got)
		}
	}
	if examples < 50 {
		t.Errorf("%d examples", examples)
	}
	// The page names every function.
	for name := range functions {
		if !strings.Contains(string(data), name) {
			t.Errorf("docs/expressions.md does not name %s", name)
		}
	}
	for name := range predicates {
		if !strings.Contains(string(data), "`"+name+"`") {
			t.Errorf("docs/expressions.md does not name %s", name)
		}
	}
}
