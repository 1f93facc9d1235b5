package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestLogLinesAreDocumented holds docs/operations.md against the code: every line of the log that a person may see is
// explained there under its level, and nothing is explained that is never said.
func TestLogLinesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	level := ""
	for line := range strings.Lines(string(page)) {
		if title, ok := strings.CutPrefix(line, "### "); ok {
			level = strings.TrimSpace(title)
		}
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && level != "" && strings.HasPrefix(line, "| `") {
			for _, m := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(cell, -1) {
				documented[level+" "+m[1]] = true
			}
		}
	}
	said := map[string]string{}
	for _, dir := range []string{"../../cep", "../../sinks", "../../checkpoint", "."} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			if strings.HasSuffix(filepath.Dir(path), "test") {
				return nil // suites and servers of tests
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				if s, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Info", "Warn", "Error"}, s.Sel.Name) {
					if text, ok := literal(call.Args[0]); ok {
						said[s.Sel.Name+" "+text] = fset.Position(call.Pos()).String()
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(said) < 20 {
		t.Fatalf("only %d lines were found: the search is blind", len(said))
	}
	for line, at := range said {
		if !documented[line] {
			t.Errorf("docs/operations.md does not explain %q, which %s logs", line, at)
		}
	}
	for line := range documented {
		if said[line] == "" {
			t.Errorf("docs/operations.md explains %q, which is never logged", line)
		}
	}
}

// literal is the text of a string that stands in the code, in one piece or several.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, e.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		a, ok := literal(e.X)
		b, more := literal(e.Y)
		return a + b, ok && more
	}
	return "", false
}
