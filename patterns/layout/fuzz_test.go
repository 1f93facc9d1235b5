package layout_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/layout"
)

// check holds Format to its promises for any text: it reads what YAML reads, means the same, and has one form.
func check(t *testing.T, data []byte) {
	source, diagnostics := patterns.Mend(patterns.Source{Name: "f.yaml", Data: data})
	out, err := layout.Format("f.yaml", data)
	if len(diagnostics) > 0 {
		if err == nil {
			t.Fatalf("laid out in spite of %v", diagnostics)
		}
		return
	}
	var refusal *layout.Refusal
	if errors.As(err, &refusal) && refusable(source.Data) {
		return
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	again, err := layout.Format("f.yaml", out)
	if err != nil {
		t.Fatalf("again: %v\n%s", err, out)
	}
	if !bytes.Equal(out, again) {
		t.Fatalf("two forms: %s\nof %q", cmp.Diff(string(out), string(again)), data)
	}
	if diff := cmp.Diff(meaning(t, "f.yaml", source.Data), meaning(t, "f.yaml", out)); diff != "" {
		t.Fatalf("%s\nof %q\nto %q", diff, data, out)
	}
}

// refusable reports whether a text has keys that are none, which no file of ours has: only such is refused.
func refusable(data []byte) bool {
	file, _ := yamlnode.Parse("f.yaml", data)
	var odd func(n *yamlnode.Node) bool
	odd = func(n *yamlnode.Node) bool {
		for i, c := range n.Content {
			isKey := n.Kind == yamlnode.Map && i%2 == 0
			if isKey && (c.Kind != yamlnode.Scalar || c.Value == "" && !yamlnode.IsQuoted(c)) || odd(c) {
				return true
			}
		}
		return false
	}
	if slices.ContainsFunc(file.Documents, odd) {
		return true
	}
	// An explicit key leaves no trace in the tree, and neither does a document that says nothing: "null", or a lone tag.
	for _, mark := range []string{"?", "---", "...", "~", "!", "null"} {
		if bytes.Contains(bytes.ToLower(data), []byte(mark)) {
			return true
		}
	}
	return false
}

func FuzzFormat(f *testing.F) {
	for _, pattern := range []string{"../testdata/good/*.yaml", "../testdata/bad/*.yaml", "testdata/*.txt", "../../examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	for _, text := range []string{
		"a: |\n  x\n\n   y\n\nb: >-\n  z\n", "a: |2\n    x\n", "a: |+\n  x\n\n", "a: |+\n  x\n\nb: 1", "a: |\n  x", "- - a\n  - b\n-\n- c\n",
		"a:   # c\n\n\n  # d\n    b:  1  # e\n    # f\n  # g\n# h\n", "{a: [b,\n c\n # d\n],\n}\n", "a: \"x\n\n  y\\\n  z \\\n  w\"\nb: 'it''s\n  so'\n",
		"a: b\n  c\n\n  d\n# e\n", "%YAML 1.2\n---\na: 1\n...\n# x\n---\nb: 2\n", "--- {a: 1}\n--- |\n  x\n", "[a: b, {c}, \"d\":e]\n", "\ufeffa: 1\r\nb: 2\r\n",
		"- |\n x\n-\n  # c\n  k: v\n- [ a ?? b , c ]\n", "a:\n- b\n  # c\n- d\n # e\nf: 1 # g\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(check)
}
