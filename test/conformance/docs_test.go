package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/patterns/spectest"
)

// The pages that tell users what rules mean are held to it: each example in them is a script that runs on the oracle and
// on the machine.
func TestSemanticsPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "semantics", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	examples := 0
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		mended := eachExample(text, func(script string, line int) string {
			examples++
			blocks, err := spectest.Read(page, script)
			if err != nil {
				t.Errorf("%s:%d: %v", page, line, err)
				return script
			}
			outputs, err := spectest.Eval(page, blocks)
			if err != nil {
				t.Errorf("example at %s:%d: %v", page, line, err)
				return script
			}
			for i, b := range blocks {
				if diff := cmp.Diff(b.Output, outputs[i]); diff != "" && !*update {
					t.Errorf("example at %s:%d: directive %s in its line %d: (-page +run)\n%s", page, line, b.Command, b.Line, diff)
				}
				b.Output = outputs[i]
			}
			return spectest.Print(blocks)
		})
		if *update && mended != text {
			if err := os.WriteFile(page, []byte(mended), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if examples < 20 {
		t.Errorf("%d examples, there were more: is the fence still ```spec?", examples)
	}
}

// eachExample calls run for each fenced script of a page and puts what it returns in its place.
func eachExample(text string, run func(script string, line int) string) string {
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "```spec\n")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		script, after, _ := strings.Cut(rest, "```\n")
		line := strings.Count(out.String(), "\n") + 2
		out.WriteString("```spec\n" + run(script, line) + "```\n")
		text = after
	}
}
