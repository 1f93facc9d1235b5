package conformance

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	if n := testScripts(t, "spec", spectest.Eval); n < 20 {
		t.Errorf("%d examples, there were more: is the fence still ```spec?", n)
	}
}

// Examples that show whole alerts run on the engine, read in several ways that must make no difference.
func TestSemanticsAlerts(t *testing.T) {
	if n := testScripts(t, "alerts", evalAlerts); n < 5 {
		t.Errorf("%d examples, there were more: is the fence still ```alerts?", n)
	}
}

// testScripts runs the scripts in the fences of a language, and returns how many there are.
func testScripts(t *testing.T, language string, eval func(name string, blocks []*spectest.Block) ([]string, error)) int {
	examples := 0
	for page, text := range semanticsPages(t) {
		mended := eachFence(text, language, func(script string, line int) string {
			examples++
			blocks, err := spectest.Read(page, script)
			if err != nil {
				t.Errorf("%s:%d: %v", page, line, err)
				return script
			}
			outputs, err := eval(page, blocks)
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
	return examples
}

// semanticsPages returns the pages by path.
func semanticsPages(t *testing.T) map[string]string {
	paths, err := filepath.Glob(filepath.Join("..", "..", "docs", "semantics", "*.md"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	pages := map[string]string{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages[path] = string(data)
	}
	return pages
}

// Rule files in the pages are run as `cepd test` runs those of users.
func TestSemanticsRules(t *testing.T) {
	tests := 0
	for page, text := range semanticsPages(t) {
		files := fstest.MapFS{}
		for _, name := range namedFence.FindAllStringSubmatch(text, -1) { // what `reload` names
			eachFence(text, "yaml "+name[1], func(text string, _ int) string {
				files["rules/"+name[1]] = &fstest.MapFile{Data: []byte(text)}
				return text
			})
		}
		eachFence(text, "yaml", func(text string, line int) string {
			files["rules/page.yaml"] = &fstest.MapFile{Data: []byte(text)}
			set, diagnostics, err := rules.LoadFS(files, "rules/page.yaml")
			if err != nil || set == nil {
				t.Errorf("rules at %s:%d: %v\n%v", page, line, err, diagnostics)
				return text
			}
			results := ruletest.Run(set, nil)
			if len(results) == 0 {
				t.Errorf("rules at %s:%d: no tests", page, line)
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

// semanticsRules is the number of rules in each chapter; 0: the chapter is one rule.
var semanticsRules = []int{1: 6, 2: 6, 3: 7, 4: 5, 5: 9, 6: 6, 7: 4, 8: 0, 9: 0, 10: 0}

// Every rule stands on a page, once, with an example that the tests above run, and the table of contents knows every page.
func TestSemanticsComplete(t *testing.T) {
	missing := map[string]bool{}
	for chapter, n := range semanticsRules[1:] {
		name := fmt.Sprintf("S%d", chapter+1)
		if n == 0 {
			missing[name] = true
		}
		for i := range n {
			missing[fmt.Sprintf("%s.%d", name, i+1)] = true
		}
	}
	pages := semanticsPages(t)
	index := pages[filepath.Join("..", "..", "docs", "semantics", "README.md")]
	for path, text := range pages {
		if name := filepath.Base(path); name != "README.md" && !strings.Contains(index, "("+name+")") {
			t.Errorf("README.md does not name %s", name)
		}
		for _, section := range ruleSections(text) {
			switch {
			case !missing[section.rule]:
				t.Errorf("%s: %s stands twice, or is no rule", path, section.rule)
			case !section.example:
				t.Errorf("%s: %s has no example", path, section.rule)
			}
			delete(missing, section.rule)
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("no page tells %s", rule)
	}
}

// ruleSection is what a page says of a numbered rule.
type ruleSection struct {
	rule    string
	example bool
}

var (
	boldHead = regexp.MustCompile(`(?m)^\*\*(?:(S\d+(?:\.\d+)?)\b)?`)
	fence    = regexp.MustCompile("(?m)^```(spec|yaml|alerts)$")

	namedFence = regexp.MustCompile("(?m)^```yaml (\\S+)$")
)

// ruleSections finds the numbered rules of a page. One ends where the next paragraph begins with bold words, numbered or
// not.
func ruleSections(text string) []ruleSection {
	var sections []ruleSection
	heads := boldHead.FindAllStringSubmatchIndex(text, -1)
	for i, head := range heads {
		if head[2] < 0 {
			continue
		}
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		sections = append(sections, ruleSection{text[head[2]:head[3]], fence.MatchString(text[head[0]:end])})
	}
	return sections
}

func TestRuleSections(t *testing.T) {
	page := "# S1\n\n**S1.1 Order.** Text.\n\n```spec\n```\n\n**S1.2 Streams.** Text.\n\n**Having.** Text.\n\n```yaml\n```\n\n**S9 State.** **Not** here.\n\n```yaml new.yaml\n```\n"
	want := []ruleSection{{"S1.1", true}, {"S1.2", false}, {"S9", false}}
	if got := ruleSections(page); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// eachFence calls run for what stands in each fence of a language, and puts what it returns in its place.
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
