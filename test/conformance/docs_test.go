package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/patterns/spectest"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/ruletest"
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

// Rule files in the pages are run as `cepd test` runs those of users.
func TestSemanticsRules(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "semantics", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := 0
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		files := fstest.MapFS{}
		eachFence(string(data), "yaml new.yaml", func(text string, _ int) string {
			files["rules/new.yaml"] = &fstest.MapFile{Data: []byte(text)}
			return text
		})
		eachFence(string(data), "yaml", func(text string, line int) string {
			files["rules/page.yaml"] = &fstest.MapFile{Data: []byte(text)}
			set, diagnostics, err := rules.LoadFS(files, "rules/page.yaml")
			if err != nil || set == nil {
				t.Errorf("rules at %s:%d: %v\n%v", page, line, err, diagnostics)
				return text
			}
			results, err := ruletest.Run(set, nil)
			if err != nil {
				t.Errorf("rules at %s:%d: %v", page, line, err)
			}
			for _, r := range results {
				tests++
				if len(r.Failure) > 0 {
					t.Errorf("rules at %s:%d: test %q\n%s", page, line, r.Test.Name, strings.Join(r.Failure, "\n"))
				}
			}
			return text
		})
	}
	if tests < 5 {
		t.Errorf("%d tests, there were more: is the fence still ```yaml?", tests)
	}
}

// eachExample calls run for each fenced script of a page and puts what it returns in its place.
func eachExample(text string, run func(script string, line int) string) string {
	return eachFence(text, "spec", run)
}

// eachFence does so for the fences of a language.
func eachFence(text, language string, run func(content string, line int) string) string {
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "```"+language+"\n")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		content, after, _ := strings.Cut(rest, "```\n")
		line := strings.Count(out.String(), "\n") + 2
		out.WriteString("```" + language + "\n" + run(content, line) + "```\n")
		text = after
	}
}
