package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// docs/configuration.md has a table of all settings and a list of all codes, made from what the program goes by.
func TestDocumentation(t *testing.T) {
	const file = "../../../docs/configuration.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var settings strings.Builder
	c := defaults("")
	document(&settings, "", c.settings())
	page := replaced(t, string(text), "settings", settings.String())
	var codes strings.Builder
	for _, c := range Codes() {
		fmt.Fprintf(&codes, "### %s\n\n%s%s", c.Code, map[bool]string{true: "*Warning.* "}[c.Warning], c.Title)
		if c.Explanation != "" {
			fmt.Fprintf(&codes, " %s", c.Explanation)
		}
		example, err := os.ReadFile("testdata/bad/" + c.Code + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&codes, "\n\n```\n%s```\n\n", firstOf(c.Code, string(example)))
	}
	golden(t, file, replaced(t, page, "codes", codes.String()))
}

// replaced puts a text between two marks of the page.
func replaced(t *testing.T, page, mark, text string) string {
	t.Helper()
	begin, end := "<!-- "+mark+": made by go test ./cmd/cepd/config -update -->\n", "<!-- end of "+mark+" -->"
	head, rest, ok := strings.Cut(page, begin)
	_, tail, more := strings.Cut(rest, end)
	if !ok || !more {
		t.Fatalf("the page has no place for the %s", mark)
	}
	return head + begin + text + end + tail
}

// document writes a table for each map of settings.
func document(b *strings.Builder, path string, settings section) {
	rows := settings
	title := path
	if path == "" {
		title = "the file"
	}
	fmt.Fprintf(b, "#### `%s`\n\n| key | value | default | |\n|---|---|---|---|\n", title)
	if path == "" {
		fmt.Fprint(b, "| `version` | `1` | required | The version of the configuration. |\n")
	}
	type inner struct {
		path     string
		settings section
	}
	var below []inner
	for i := range rows {
		s := &rows[i]
		at := join(path, s.name)
		value, usual := "", ""
		switch v := s.value.(type) {
		case *scalar:
			if v.secret {
				continue
			}
			value, usual = v.what, v.get()
			if usual != "" {
				usual = "`" + usual + "`"
			}
			if v.bounds != "" {
				value += ", " + v.bounds
			}
		case *list:
			value, usual = v.what, "`"+strings.Join(v.get(), ", ")+"`"
			if len(v.get()) == 0 {
				usual = ""
			}
		case *pairs:
			value = v.what
		case section:
			value = "a map: below"
			below = append(below, inner{at, v})
		case *named:
			value = "a map of names: below"
			below = append(below, inner{join(at, "NAME"), v.sample()})
		case *choice:
			if s.name != "" {
				value = "one of the kinds below"
			}
			for _, o := range v.options {
				if s.name != "" {
					below = append(below, inner{join(at, o.name), o.make()})
					continue
				}
				below = append(below, inner{join(path, o.name), o.make()})
				fmt.Fprintf(b, "| `%s` | a map: below | one of the kinds | %s |\n", o.name, o.about)
			}
			if s.name == "" {
				continue
			}
		}
		if s.required {
			usual = "required"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", s.name, value, usual, s.about)
	}
	fmt.Fprint(b, "\n")
	for _, in := range below {
		document(b, in.path, in.settings)
	}
}

// firstOf returns the first diagnostic with a code in a golden file.
func firstOf(code, text string) string {
	var out strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		if strings.HasSuffix(line, "]\n") && !strings.HasPrefix(line, " ") {
			if inside {
				break
			}
			inside = strings.HasSuffix(line, "["+code+"]\n")
		}
		if inside {
			out.WriteString(line)
		}
	}
	return out.String()
}

// TestDocumentedConfigurations: what pages show of configurations is one, where what it leaves out is added.
func TestDocumentedConfigurations(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no pages", err)
	}
	shown := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "```yaml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			has := func(key string) bool {
				return strings.HasPrefix(block, key+":") || strings.Contains(block, "\n"+key+":")
			}
			if !has("streams") && !has("sinks") && !has("http") {
				continue // of rules
			}
			shown++
			for key, rest := range map[string]string{
				"version": "version: 1\n", "streams": "streams: {s: {source: {http: {}}}}\n", "sinks": "sinks: {out: {file: {path: out}}}\n",
			} {
				if !has(key) {
					block += rest
				}
			}
			_, diagnostics := Parse("cepd.yaml", []byte(block), Layers{})
			for _, d := range diagnostics.Errors() {
				if d.Code != codeFile { // of a secret
					t.Errorf("%s, example %d: %s", filepath.Base(page), i+1, d.Error())
				}
			}
		}
	}
	if shown < 5 {
		t.Errorf("%d configurations are shown", shown)
	}
}
