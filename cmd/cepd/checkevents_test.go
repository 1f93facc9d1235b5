package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

const heldDir = "testdata/events/"

// held holds a text of rules, under the name of a bad file, against the recorded events beside it.
func held(t *testing.T, name, text string) patterns.Diagnostics {
	t.Helper()
	set, diagnostics, err := rules.LoadOver([]string{heldDir + name}, map[string][]byte{heldDir + name: []byte(text)})
	if err != nil || set == nil || len(diagnostics) > 0 {
		t.Fatal(err, diagnostics)
	}
	found, err := checkEvents(t.Context(), set, []string{heldDir + "auth.jsonl"}, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		found[i].File = name
	}
	return found
}

// Each code of recorded events has a file that earns it and one place in it that mends it, and stands in docs/diagnostics.md, which
// shows both.
func TestEventsDocumentation(t *testing.T) {
	const page, mark = "../../docs/diagnostics.md", "\n<!-- events: made by go test ./cmd/cepd -update -->\n"
	mended, err := os.ReadFile(heldDir + "mended.txt")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, c := range eventCodes {
		text, err := os.ReadFile(heldDir + c.Code + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		of := func(text string) (list patterns.Diagnostics) {
			for _, d := range held(t, c.Code+".yaml", text) {
				if d.Code == c.Code {
					list = append(list, d)
				}
			}
			return list
		}
		bad := of(string(text))
		_, change, ok := strings.Cut(string(mended), c.Code+"\t")
		change, _, _ = strings.Cut(change, "\n")
		was, is, split := strings.Cut(change, "\t")
		if len(bad) != 1 || !ok || !split {
			t.Fatalf("%s: %d in its file; mended: %q", c.Code, len(bad), change)
		}
		if bad[0].Warning != c.Warning {
			t.Errorf("%s is given as %s", c.Code, bad[0].Severity())
		}
		good := strings.Replace(string(text), was, is, 1)
		if left := of(good); len(left) > 0 {
			t.Errorf("%s is not mended: %s", c.Code, left.Error())
		}
		severity := strings.ToUpper(bad[0].Severity()[:1]) + bad[0].Severity()[1:]
		fmt.Fprintf(&b, "\n## %s\n\n*%s.* %s %s\n\n```\n%s```\n\n```diff\n", c.Code, severity, c.Title, c.Explanation, bad.Error())
		after := strings.Split(good, "\n")
		for i, line := range strings.Split(string(text), "\n") {
			if line != after[i] {
				fmt.Fprintf(&b, "- %s\n+ %s\n", line, after[i])
			}
		}
		b.WriteString("```\n")
	}
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(old), mark)
	if !ok {
		t.Fatal("docs/diagnostics.md has no place for what recorded events say")
	}
	want := head + mark + b.String()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, string(old)); d != "" {
		t.Errorf("docs/diagnostics.md (-want +got), go test ./cmd/cepd -run TestEventsDocumentation -update writes it anew:\n%s", d)
	}
}

var (
	codeLiteral = regexp.MustCompile(`"(CEP\d{4})"`)
	heading     = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are what links into a page can lead to, as GitHub makes them of its headings.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		list = append(list, strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return list
}

// Every code that stands in the program can be looked up: SARIF leads to a page and to a heading that is there.
func TestEveryCodeIsDocumented(t *testing.T) {
	codes := allCodes()
	pages := map[string][]string{}
	for _, c := range codes {
		page, anchor, _ := strings.Cut(strings.TrimPrefix(c.HelpURI, documentation), "#")
		if pages[page] == nil {
			pages[page] = anchors(t, page)
		}
		if !slices.Contains(pages[page], anchor) {
			t.Errorf("%s: docs/%s has no heading for #%s", c.ID, page, anchor)
		}
	}
	inProgram := 0
	err := filepath.WalkDir("../..", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "testdata" || name != "../.." && strings.HasPrefix(e.Name(), ".") || filepath.Base(name) == "test"):
			return filepath.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		for _, m := range codeLiteral.FindAllStringSubmatch(string(text), -1) {
			inProgram++
			if !slices.ContainsFunc(codes, func(r sarifRule) bool { return r.ID == m[1] }) {
				t.Errorf("%s gives %s, which is in no list of codes", name, m[1])
			}
		}
		return err
	})
	if err != nil || inProgram < len(codes) {
		t.Errorf("%d codes found in the program, %d are listed: %v", inProgram, len(codes), err)
	}
}
