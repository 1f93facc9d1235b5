package patterns

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a text with a file, or writes the file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got), -update writes it anew:\n%s", file, d)
	}
}

func badFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no bad files", err)
	}
	return files
}

func loadBad(t *testing.T, file string) (*Set, Diagnostics) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return Load([]Source{{Name: filepath.Base(file), Data: data}}, badFilesBeside())
}

// badFilesBeside are the files beside bad ones.
func badFilesBeside() Options {
	read := func(name string) ([]byte, error) {
		data, err := os.ReadFile(filepath.Join("testdata/bad", filepath.Base(name)))
		if err != nil {
			return nil, fmt.Errorf("there is no file %s", name)
		}
		return data, nil
	}
	return Options{ReadFile: read, FindFile: func(name string) error {
		_, err := read(name)
		return err
	}}
}

// Each bad file is named for the code that it earns, and its golden file shows all that is said about it.
func TestBadFiles(t *testing.T) {
	for _, file := range badFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			set, diagnostics := loadBad(t, file)
			if (set == nil) != (len(diagnostics.Errors()) > 0) {
				t.Errorf("set %v with %d errors", set, len(diagnostics.Errors()))
			}
			code := filepath.Base(file)[:len("CEP0101")]
			found := false
			for _, d := range diagnostics {
				found = found || d.Code == code
				if d.Line < 1 || d.Column < 1 || d.Length < 1 {
					t.Errorf("no place: %+v", d)
				}
			}
			if !found {
				t.Errorf("%s does not earn %s", file, code)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", diagnostics.Error())
		})
	}
}

// Every code has a bad file, and is given by the severity that it is documented with.
func TestEveryCodeHasBadFile(t *testing.T) {
	warnings := map[string]bool{}
	for _, c := range Codes() {
		if _, twice := warnings[c.Code]; twice {
			t.Errorf("%s is documented twice", c.Code)
		}
		warnings[c.Code] = c.Warning
	}
	seen := map[string]bool{}
	for _, file := range badFiles(t) {
		_, diagnostics := loadBad(t, file)
		for _, d := range diagnostics {
			warning, known := warnings[d.Code]
			if !known {
				t.Errorf("%s: %s is not documented", file, d.Code)
			}
			if warning != d.Warning {
				t.Errorf("%s: %s is given as warning %t", file, d.Code, d.Warning)
			}
		}
		seen[filepath.Base(file)[:len("CEP0101")]] = true
	}
	for code := range warnings {
		if !seen[code] {
			t.Errorf("no bad file for %s", code)
		}
	}
}

// docs/diagnostics.md is made from the codes and the golden files of the bad files. What `cepd check --events` finds stands behind
// them, made by its own test. The anchors of codes are what SARIF leads to, so a heading has nothing else in it.
func TestDocumentation(t *testing.T) {
	const file, rest = "../docs/diagnostics.md", "\n<!-- events: made by go test ./cmd/cepd -update -->\n"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, tail, ok := strings.Cut(string(page), rest)
	if !ok {
		t.Fatal("docs/diagnostics.md has no place for what recorded events say")
	}
	var b strings.Builder
	b.WriteString(`# Diagnostics

Every mistake in a rule file is reported with its place, the line, a mark and a code, all mistakes of all files at once.
The codes are stable: a code that is no longer given is never given another meaning. CEP01xx are about files and rules,
CEP02xx about expressions, CEP03xx about row patterns, CEP0951 and up what [recorded events](cli.md#check) say about rules. A warning
does not keep a rule from running. Behind each diagnostic stands how its lines are mended. The codes of configurations stand in
[configuration.md](configuration.md#mistakes).

This file is made from the code and from patterns/testdata/bad, where each code has a file that earns it, and patterns/testdata/mended.txt
(behind CEP0951 from cmd/cepd/testdata/events): ` + "`go test ./patterns ./cmd/cepd -run Documentation -update`.\n")
	mended := readMended(t)
	for _, c := range Codes() {
		fmt.Fprintf(&b, "\n## %s\n\n%s%s", c.Code, either(c.Warning, "*Warning.* ", ""), c.Title)
		if c.Explanation != "" {
			fmt.Fprintf(&b, " %s", c.Explanation)
		}
		example, err := os.ReadFile("testdata/bad/" + c.Code + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n\n```\n%s```\n", firstOf(c.Code, string(example)))
		bad, err := os.ReadFile("testdata/bad/" + c.Code + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := mended[c.Code]; ok {
			fmt.Fprintf(&b, "\n```diff\n%s```\n", m.change(string(bad)))
		}
	}
	golden(t, file, b.String()+rest+tail)
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

// How lines end, and the mark that some editors put at the beginning, change no place.
func TestPlacesOfWindows(t *testing.T) {
	for _, file := range []string{"CEP0202-written.yaml", "CEP0202-macro.yaml", "CEP0102-nested.yaml"} {
		data, err := os.ReadFile("testdata/bad/" + file)
		if err != nil {
			t.Fatal(err)
		}
		_, want := Load([]Source{{Name: file, Data: data}}, Options{})
		windows := "\ufeff" + strings.ReplaceAll(string(data), "\n", "\r\n")
		_, got := Load([]Source{{Name: file, Data: []byte(windows)}}, Options{})
		if d := cmp.Diff(want, got); d != "" || len(want) == 0 {
			t.Errorf("%s: %s", file, d)
		}
	}
}

// A mistake ends where its last character stands, be it in a later line or an escape.
func TestEnds(t *testing.T) {
	for _, test := range []struct{ where, want string }{
		{"x in 0..1001", "7:17-7:24 7"},
		{"x in 0..\n    1001", "7:17-8:9 3"},
		{">\n    x in 0..\n    1001", "8:10-9:9 3"},
		{"'x == y and\n    x in\n\n    0..  \n    1001'", "10:5-11:9 5"},
		{`"x in\x200..\x31001"`, "7:21-7:31 10"},
		{"|\n    x == 1 and\n\n", "8:15-8:16 1"},
	} {
		_, diagnostics := Load([]Source{{Name: "r", Data: []byte("version: 1\nrules:\n- id: a\n  from: s\n  by: [k]\n  within: 1h\n  where:   " + test.where + "\n")}}, Options{})
		if len(diagnostics) != 1 {
			t.Fatalf("%q: %v", test.where, diagnostics)
		}
		d := diagnostics[0]
		line, column := d.End()
		if got := fmt.Sprintf("%d:%d-%d:%d %d", d.Line, d.Column, line, column, d.Length); got != test.want {
			t.Errorf("%q: %s, want %s\n%v", test.where, got, test.want, diagnostics)
		}
	}
}
