package layout_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/layout"
)

// repository are the files that people read as examples: they are kept laid out.
func repository(t testing.TB) []string {
	var files []string
	for _, root := range []string{"../../rules/library", "../../examples"} {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if filepath.Ext(path) == ".yaml" {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) < 10 {
		t.Fatalf("%d files", len(files))
	}
	return files
}

func TestShippedFilesAreLaidOut(t *testing.T) {
	for _, file := range repository(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out, err := layout.Format(file, data)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, out) {
			t.Errorf("%s is not laid out: run cepd fmt -w %s\n%s", file, file, cmp.Diff(string(data), string(out)))
		}
	}
}

// Each file of testdata has a text and, behind a line of dashes, what becomes of it.
func TestFormat(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		in, want, ok := strings.Cut(string(data), "\n-----\n")
		if !ok {
			t.Fatalf("%s has no line of dashes", file)
		}
		got, err := layout.Format("in.yaml", []byte(in+"\n"))
		if err != nil {
			got = []byte(err.Error() + "\n")
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s:\n%s", file, diff)
		}
	}
}

// meaning is what Load makes of a file, but for the places.
func meaning(t testing.TB, name string, data []byte) []any {
	set, diagnostics := patterns.Load([]patterns.Source{{Name: name, Data: data}}, patterns.Options{ReadFile: func(name string) ([]byte, error) {
		return os.ReadFile(name)
	}})
	if set == nil {
		return []any{"mistakes", codes(diagnostics)}
	}
	list := []any{codes(diagnostics)}
	for _, r := range set.Rules {
		list = append(list, r.Fingerprint, r.Meta, r.String(), r.Program.String())
		for _, test := range r.Tests {
			for _, s := range test.Steps {
				list = append(list, s.At, s.Times, s.Every, s.From, string(s.Event), s.File, s.Advance, s.Idle, s.Reload, s.Restart)
			}
			list = append(list, test.Name, test.Lateness, test.Expect.Count, len(test.Expect.Alerts))
		}
	}
	return list
}

func codes(ds patterns.Diagnostics) []string {
	var list []string
	for _, d := range ds {
		list = append(list, d.Code+" "+d.Message)
	}
	return list
}

// Good files mean the same, laid out; so do files with mistakes that are none of YAML's.
func TestMeaning(t *testing.T) {
	good, err := filepath.Glob("../testdata/good/*.yaml")
	if err != nil || len(good) == 0 {
		t.Fatal(good, err)
	}
	for _, file := range append(good, repository(t)...) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out, err := layout.Format(file, data)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if diff := cmp.Diff(meaning(t, file, data), meaning(t, file, out)); diff != "" {
			t.Errorf("%s:\n%s", file, diff)
		}
	}
}
