package patterns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func readBeside(dir string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) }
}

// load loads one text that must have no errors.
func load(t *testing.T, text string) *Set {
	t.Helper()
	set, diagnostics := Load([]Source{{Name: "rules.yaml", Data: []byte(text)}}, Options{ReadFile: readBeside("testdata/good")})
	if set == nil {
		t.Fatal(diagnostics.Error())
	}
	return set
}

// refuse loads one text and returns the codes of what is wrong with it, warnings too.
func codes(t *testing.T, text string) []string {
	t.Helper()
	_, diagnostics := Load([]Source{{Name: "rules.yaml", Data: []byte(text)}}, Options{})
	var codes []string
	for _, d := range diagnostics {
		codes = append(codes, d.Code)
	}
	return codes
}

// Each stage prints: what was written, what it means, what the machine runs.
func TestStages(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no good files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source := Source{Name: filepath.Base(file), Data: data}
			var b strings.Builder
			for _, d := range readFile(source, newReport()) {
				b.WriteString("---- written\n" + d.String())
			}
			set, diagnostics := Load([]Source{source}, Options{ReadFile: readBeside("testdata/good")})
			if len(diagnostics) > 0 {
				b.WriteString("---- diagnostics\n" + diagnostics.Error())
			}
			if set == nil {
				t.Fatal(diagnostics.Error())
			}
			for _, r := range set.Rules {
				b.WriteString("---- checked\n" + r.String() + "---- program\n" + r.Program.String())
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", b.String())
		})
	}
}
