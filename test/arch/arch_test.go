// Package arch holds the code against the import graph in dag.txt.
package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/cepd/cepd"

// rule says what a package may import inside the module.
type rule struct {
	allowed map[string]bool
	// anything admits all packages but the forbidden prefixes.
	anything  bool
	forbidden []string
}

// readGraph parses dag.txt: `package: package package`, `package: anything [but prefix ...]`.
func readGraph(text string) map[string]rule {
	graph := map[string]rule{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, rest, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		rest, _, _ = strings.Cut(rest, ";")
		words := strings.Fields(rest)
		r := rule{allowed: map[string]bool{}}
		if len(words) > 0 && words[0] == "anything" {
			r.anything = true
			if len(words) > 1 {
				r.forbidden = words[2:]
			}
		} else {
			for _, w := range words {
				r.allowed[w] = true
			}
		}
		graph[name] = r
	}
	return graph
}

// verdict says why pkg may not import target, or "".
func verdict(graph map[string]rule, pkg, target string, isTest bool) string {
	const everybody = "internal/invariant"
	if target == everybody || target == pkg {
		return ""
	}
	if target == "test" || strings.HasPrefix(target, "test/") {
		if strings.HasPrefix(pkg, "test/") {
			return ""
		}
		return "nothing imports test"
	}
	if strings.HasPrefix(pkg, "test/") {
		return ""
	}
	r, ok := graph[pkg]
	if !ok {
		return "the package is not in dag.txt"
	}
	if r.anything {
		for _, f := range r.forbidden {
			if !isTest && (target == f || strings.HasPrefix(target, f+"/")) {
				return "forbidden by dag.txt"
			}
		}
		return ""
	}
	// A test may hold a package against what is built on it: the compiler keeps it from making a cycle.
	if r.allowed[target] || isTest {
		return ""
	}
	return "not listed in dag.txt"
}

// TestGraph parses imports itself: `go list` in a test would hide behind the test cache, which does not see that
// another package's file changed. The files read here are inputs that the cache knows.
func TestGraph(t *testing.T) {
	text, err := os.ReadFile("dag.txt")
	if err != nil {
		t.Fatal(err)
	}
	graph := readGraph(string(text))
	root := filepath.Join("..", "..")
	files, imports := 0, 0
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n == "testdata" || n == ".git" || n == "build" || n == "bin" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(rel))
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		files++
		for _, im := range f.Imports {
			target := strings.Trim(im.Path.Value, `"`)
			inside, ok := strings.CutPrefix(target, module+"/")
			if !ok {
				checkHome(t, rel, pkg, target)
				continue
			}
			imports++
			if why := verdict(graph, pkg, inside, strings.HasSuffix(p, "_test.go")); why != "" {
				t.Errorf("%s: %s imports %s: %s", rel, pkg, inside, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 || imports < 10 {
		t.Fatalf("only %d files and %d imports seen: the walk is blind", files, imports)
	}
}

// homes says where a third party may be imported: each has one place, tests aside.
var homes = map[string][]string{
	"github.com/expr-lang/expr":           {"patterns/expression"},
	"go.yaml.in/yaml":                     {"internal/yamlnode"},
	"github.com/valyala/fastjson":         {"cep/codec"},
	"github.com/klauspost/compress":       {"cep/source/filesource", "internal/kafkawire", "cmd/cepd"},
	"github.com/spf13/cobra":              {"cmd/cepd"},
	"github.com/spf13/pflag":              {"cmd/cepd"},
	"github.com/google/go-cmp":            {"cep/source/sourcetest", "checkpoint/storetest", "sinks/sinktest"},
	"pgregory.net/rapid":                  {"cep/source/sourcetest", "checkpoint/storetest", "sinks/sinktest"},
	"github.com/schollz/progressbar":      {"cmd/cepd"},
	"github.com/segmentio/kafka-go":       {"internal/kafkawire", "cep/source/kafkasource"},
	"github.com/twmb/franz-go":            {"internal/kafkawire/kafkatest"},
	"github.com/redis/go-redis":           {"sinks/redissink"},
	"go.etcd.io/bbolt":                    {"checkpoint/boltstore"},
	"github.com/labstack/echo":            {"rules/rulesapi", "cmd/cepd"},
	"github.com/fsnotify/fsnotify":        {"rules/watch"},
	"github.com/prometheus/common":        {"cmd/cepd"},
	"github.com/coreos/go-systemd":        {"cmd/cepd"},
	"golang.org/x/time":                   {"cmd/cepd"},
	"github.com/rogpeppe/go-internal":     {"cmd/cepd", "rules/rulesapi", "rules/ruletest"},
	"github.com/prometheus/client_golang": {"cmd/cepd"},
	"github.com/mattn/go-isatty":          {"cmd/cepd"},
	"golang.org/x/term":                   {"cmd/cepd"},
	"github.com/cespare/xxhash":           {"cep/engine", "cep/source", "cep/source/filesource", "checkpoint"},
	"golang.org/x/sync":                   {"cep/job", "cmd/cepd"},
}

func checkHome(t *testing.T, file, pkg, target string) {
	t.Helper()
	if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(pkg, "test/") || !strings.Contains(target, ".") {
		return
	}
	for lib, places := range homes {
		if target == lib || strings.HasPrefix(target, lib+"/") {
			if !slices.Contains(places, pkg) {
				t.Errorf("%s: %s is at home in %v only", file, lib, places)
			}
			return
		}
	}
	t.Errorf("%s: %s has no home in test/arch: say in one place who may import it", file, target)
}

func TestVerdict(t *testing.T) {
	graph := readGraph("# comment\ncep:\nnfa: cep\nsinks: cep\ncmd: anything but nfa test\ntest: anything; nothing imports test\n")
	for _, c := range []struct {
		pkg, target string
		isTest, ok  bool
	}{
		{"nfa", "cep", false, true},
		{"cep", "nfa", false, false},
		{"cep", "nfa", true, true},
		{"cmd", "sinks", false, true},
		{"cmd", "nfa", false, false},
		{"sinks", "test/bench", true, false},
		{"unknown", "cep", false, false},
		{"test/arch", "nfa", false, true},
		{"sinks", "internal/invariant", false, true},
	} {
		if got := verdict(graph, c.pkg, c.target, c.isTest); (got == "") != c.ok {
			t.Errorf("%s imports %s (test: %v): %q", c.pkg, c.target, c.isTest, got)
		}
	}
}
