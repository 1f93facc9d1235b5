package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cepd/cepd/internal/yamlnode"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := json.MarshalIndent(Schema(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "../../../docs/format/config.schema.json", string(text)+"\n")
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plainValue is a node as JSON has it.
func plainValue(n *yamlnode.Node) any {
	if n.Kind == yamlnode.Map {
		m := map[string]any{}
		for k, v := range yamlnode.Pairs(n) {
			m[k.Value] = plainValue(v)
		}
		return m
	}
	if n.Kind == yamlnode.List {
		l := []any{}
		for _, item := range n.Content {
			l = append(l, plainValue(item))
		}
		return l
	}
	switch kind := yamlnode.Core(n); kind {
	case yamlnode.CoreNull:
		return nil
	case yamlnode.CoreTrue, yamlnode.CoreFalse:
		return kind == yamlnode.CoreTrue
	case yamlnode.CoreInt, yamlnode.CoreFloat:
		return json.Number(n.Value)
	default:
		return n.Value
	}
}

// validate holds a configuration against the schema; ok is false where it is no YAML.
func validate(t *testing.T, s *jsonschema.Schema, file string) (err error, ok bool) { //nolint:revive // the error is what is asked for
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parsed, problems := yamlnode.Parse(file, data)
	if len(problems) > 0 || len(parsed.Documents) != 1 {
		return nil, false
	}
	return s.Validate(plainValue(parsed.Documents[0])), true
}

func TestSchemaTakesGoodConfigurations(t *testing.T) {
	s := compiledSchema(t)
	for _, pattern := range []string{"testdata/good/*.yaml", "../../../examples/*.yaml", "../../../examples/*/cepd.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			if err, ok := validate(t, s, file); err != nil || !ok {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// Mistakes of structure are those that a schema can find: keys, shapes, words.
var structural = []string{
	codeUnknownKey, codeShape, codeVersion, codeDuration, codeSize, codeNumber, codeBool, codeWord, codeKind,
}

func TestSchemaRefusesMistakesOfStructure(t *testing.T) {
	s := compiledSchema(t)
	refused := map[string]bool{}
	for _, file := range badFiles(t) {
		_, diagnostics := loadBad(t, file)
		for _, d := range diagnostics {
			if d.File != filepath.Base(file) || !slices.Contains(structural, d.Code) {
				continue
			}
			err, ok := validate(t, s, file)
			if ok && err == nil {
				t.Errorf("%s validates in spite of %s", file, d.Error())
			}
			refused[d.Code] = refused[d.Code] || ok
		}
	}
	for _, code := range structural {
		if !refused[code] {
			t.Errorf("no bad file has %s", code)
		}
	}
}

// Files that people begin with say which schema they have.
func TestModelines(t *testing.T) {
	for _, pattern := range []string{"../../../examples/*.yaml", "../../../examples/*/cepd.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(data), "# yaml-language-server: $schema="+SchemaID+"\n") {
				t.Errorf("%s does not begin with the line that names its schema", file)
			}
		}
	}
}
