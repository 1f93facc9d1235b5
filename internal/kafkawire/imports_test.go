package kafkawire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestWhatIsTakenOfKafkaGo: its Reader, Conn and Client.Fetch return aborted records and control records as messages, its
// Writer and Client.Produce know no transactions. So nobody but this package uses kafka-go, tests aside, and here only what
// lends connections.
func TestWhatIsTakenOfKafkaGo(t *testing.T) {
	const library = "github.com/segmentio/kafka-go"
	allowed := map[string]bool{"Transport": true, "TCP": true, "Error": true}
	root := filepath.Join("..", "..")
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case "testdata", ".git", "build", "bin":
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name := ""
		for _, spec := range f.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if target != library && !strings.HasPrefix(target, library+"/") {
				continue
			}
			if dir := filepath.ToSlash(filepath.Dir(path)); dir != "." && dir != "../../internal/kafkawire" {
				t.Errorf("%s imports %s: Kafka is spoken through internal/kafkawire", path, target)
			}
			if target == library {
				name = "kafka"
				if spec.Name != nil {
					name = spec.Name.Name
				}
			}
		}
		if name == "" {
			return nil
		}
		if f, err = parser.ParseFile(set, path, nil, 0); err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == name {
					seen++
					if !allowed[s.Sel.Name] {
						t.Errorf("%s uses %s.%s of kafka-go: see docs/kafka-protocol.md for what is wrong with it", set.Position(s.Pos()), name, s.Sel.Name)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Error("no use of kafka-go was found, not even our own: the test looks at the wrong place")
	}
}
