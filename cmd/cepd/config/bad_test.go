package config

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/patterns"
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

// loadBad reads a bad file. Its comments may say what stands above it and which rules it is held against:
// `# env CEPD_X=1`, `# set a.b=c`, `# rules FILE`. `# refused PATH MESSAGE` is what a source or sink says of its settings.
func loadBad(t *testing.T, file string) (*Config, patterns.Diagnostics) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var above Layers
	var rules []patterns.Source
	var refused [][2]string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(line, "# env "); ok {
			above.Environment = append(above.Environment, text)
		}
		if text, ok := strings.CutPrefix(line, "# set "); ok {
			above.Set = append(above.Set, text)
		}
		if text, ok := strings.CutPrefix(line, "# refused "); ok {
			path, message, _ := strings.Cut(text, " ")
			refused = append(refused, [2]string{path, message})
		}
		if name, ok := strings.CutPrefix(line, "# rules "); ok {
			text, err := os.ReadFile(filepath.Join(filepath.Dir(file), name))
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, patterns.Source{Name: name, Data: text})
		}
	}
	c, diagnostics := Parse(filepath.Base(file), data, above)
	if c != nil && rules != nil {
		set, wrong := patterns.Load(rules, patterns.Options{})
		if set == nil {
			t.Fatal(wrong.Error())
		}
		diagnostics = append(diagnostics, c.CheckRules(set.Rules, rules)...)
	}
	for _, r := range refused {
		diagnostics = append(diagnostics, c.Refused(r[0], errors.New(r[1])))
	}
	return c, diagnostics
}

// Each bad file is named for the code that it earns, and its golden file shows all that is said about it.
func TestBadFiles(t *testing.T) {
	for _, file := range badFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, diagnostics := loadBad(t, file)
			code, found := filepath.Base(file)[:len("CEP0901")], false
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
			if warning, known := warnings[d.Code]; !known || warning != d.Warning {
				t.Errorf("%s: %s is given as warning %t, documented %t", file, d.Code, d.Warning, known)
			}
		}
		seen[filepath.Base(file)[:len("CEP0901")]] = true
	}
	for code := range warnings {
		if !seen[code] {
			t.Errorf("no bad file for %s", code)
		}
	}
}

// A secret shows in no message, however it is printed.
func TestSecretsStayHidden(t *testing.T) {
	s := Secret{File: "f", value: []byte("hunter2")}
	text, err := s.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{
		fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %x %q %d", s, s, s, s, s, s, s), fmt.Sprintf("%+v", Webhook{Secret: s}), s.LogValue().String(), string(text),
	} {
		if strings.Contains(shown, "hunter2") || strings.Contains(shown, "68756e74") || strings.Contains(shown, "104 117") {
			t.Errorf("shown: %s", shown)
		}
	}
	data, err := os.ReadFile("testdata/good/small.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, diagnostics := Parse("cepd.yaml", append(data, "  hook: {webhook: {url: 'https://me:hunter2@x/'}}\n  r: {redis: {address: 'x:1', stream: s, password: hunter2}}\n"...), Layers{
		Environment: []string{"CEPD_PASSWORD=hunter2"}, Set: []string{"sinks.r.redis.password=hunter2"},
	})
	for _, d := range diagnostics {
		if strings.Contains(d.Message+d.Hint, "hunter2") {
			t.Errorf("shown: %s", d.Error())
		}
	}
	if len(diagnostics) < 4 {
		t.Errorf("%s", diagnostics.Error())
	}
}
