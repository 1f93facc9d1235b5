package patterns

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf8"
)

// FuzzLoad holds Load to its contract whatever the text: a set or an error, places inside the file, sorted, the same
// answer every time, and each rule printable.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sources := []Source{{Name: "fuzz.yaml", Data: data}}
		set, diagnostics := Load(sources, Options{})
		if (set == nil) != (len(diagnostics.Errors()) > 0) {
			t.Fatalf("set %v, diagnostics %v", set, diagnostics)
		}
		if !slices.IsSortedFunc(diagnostics, func(a, b Diagnostic) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		}) {
			t.Fatalf("not sorted: %v", diagnostics.Error())
		}
		for _, d := range diagnostics {
			if d.Line < 1 || d.Column < 1 || d.Length < 1 || d.Code == "" || d.Message == "" || d.Column > utf8.RuneCountInString(d.Excerpt)+2 {
				t.Fatalf("%+v", d)
			}
		}
		text := diagnostics.Error()
		if !utf8.ValidString(text) {
			t.Fatalf("%q", text)
		}
		_, again := Load(sources, Options{})
		if again.Error() != text {
			t.Fatalf("first %s\nthen %s", text, again.Error())
		}
		if set == nil {
			return
		}
		for _, r := range set.Rules {
			if r.String() == "" || r.Program.String() == "" || len(r.Fingerprint) != 64 {
				t.Fatalf("%+v", r)
			}
		}
	})
}
