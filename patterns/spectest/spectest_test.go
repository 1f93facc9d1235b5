package spectest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write what scripts give into testdata, where oracle and machine agree")

// TestScripts runs the corpus.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.test")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".test"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			blocks, err := Read(file, string(text))
			if err != nil {
				t.Fatal(err)
			}
			outputs, err := Eval(file, blocks)
			if err != nil {
				t.Fatal(err)
			}
			for i, b := range blocks {
				if d := cmp.Diff(b.Output, outputs[i]); d != "" && !*rewrite {
					t.Errorf("%s:%d: expected, given:\n%s", file, b.Line, d)
				}
				b.Output = outputs[i]
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(Print(blocks)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestPrint: a script that is read and printed is the same script.
func TestPrint(t *testing.T) {
	files, err := filepath.Glob("testdata/*.test")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := Read(file, string(text))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(text), Print(blocks)); d != "" {
			t.Errorf("%s: read, printed:\n%s", file, d)
		}
	}
	blocks, err := Read("x", "say a b\nhello\n----\n----\none\n\ntwo\n----\n----\n\nsay\n----\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(blocks) != 2 || blocks[0].Output != "one\n\ntwo\n" || blocks[1].Output != "" || blocks[0].Args[1] != "b" {
		t.Errorf("read %+v", blocks)
	}
	for _, bad := range []string{"say\nhello\n", "say\n----\n----\nhello\n----\n"} {
		if _, err := Read("x", bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
