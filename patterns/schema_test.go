package patterns

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cepd/cepd/internal/yamlnode"
)

func readAll(t *testing.T, patterns ...string) []Source {
	t.Helper()
	var sources []Source
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, Source{Name: file, Data: data})
		}
	}
	return sources
}

// The tables that the schema is made of have the keys that the reader takes, all of them and no others.
func TestKeyTables(t *testing.T) {
	d := newReport()
	asked := map[string][]string{}
	d.asked = func(what string, known keys) { asked[what] = known.names() }
	for _, s := range readAll(t, "testdata/good/*.yaml", "testdata/bad/*.yaml") {
		readFile(s, d)
	}
	for _, kind := range elementKinds {
		delete(asked, kind.article())
	}
	for _, table := range keyTables {
		var names []string
		for _, k := range table.keys {
			names = append(names, k.name)
		}
		slices.Sort(names)
		if diff := cmp.Diff(asked[table.what], names); diff != "" {
			t.Errorf("%s: %s", table.what, diff)
		}
		delete(asked, table.what)
	}
	for what := range asked {
		t.Errorf("%s has no table", what)
	}
	var names []string
	for _, key := range elementKeys {
		names = append(names, key.name)
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(elementRows))); diff != "" {
		t.Errorf("keys of elements: %s", diff)
	}
}

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	var text strings.Builder
	encoder := json.NewEncoder(&text) // as cepd schema prints it
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(Schema()); err != nil {
		t.Fatal(err)
	}
	golden(t, "../docs/format/rule.schema.json", text.String())
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text.String()))
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

// validate holds each document of a file against the schema.
func validate(t *testing.T, s *jsonschema.Schema, source Source) error {
	t.Helper()
	file, problems := yamlnode.Parse(source.Name, source.Data)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, root := range file.Documents {
		text := (&reader{file: file, report: newReport()}).json(nil, root)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(doc); err != nil {
			return err
		}
	}
	return nil
}

func TestSchemaTakesGoodRules(t *testing.T) {
	s := compiledSchema(t)
	for _, source := range readAll(t, "testdata/good/*.yaml", "../rules/library/*.yaml", "../examples/*/rules/*.yaml", "../test/conformance/cases/rules/*.yaml", "../test/replay/rules/*.yaml") {
		if err := validate(t, s, source); err != nil {
			t.Errorf("%s: %v", source.Name, err)
		}
	}
}

// Mistakes of structure are those that a schema can find: keys, shapes, words.
var structural = []string{
	codeUnknownKey, codeNull, codeShape, codeMissing, codeVersion, codeDuration, codeNumber, codeBool, codeWord,
	codeElement, codeElementKey,
}

func TestSchemaRefusesMistakesOfStructure(t *testing.T) {
	s := compiledSchema(t)
	refused := map[string]bool{}
	for _, source := range readAll(t, "testdata/bad/*.yaml") {
		if _, problems := yamlnode.Parse(source.Name, source.Data); len(problems) > 0 {
			continue // no YAML that a schema could be held against
		}
		_, diagnostics := Load([]Source{source}, Options{})
		at := slices.IndexFunc(diagnostics, func(d Diagnostic) bool { return slices.Contains(structural, d.Code) })
		if at < 0 {
			continue
		}
		if err := validate(t, s, source); err == nil {
			t.Errorf("%s validates in spite of %s", source.Name, diagnostics[at].Message)
		}
		refused[diagnostics[at].Code] = true
	}
	for _, code := range structural {
		if !refused[code] {
			t.Errorf("no bad file has %s", code)
		}
	}
}

// Files that people begin with say which schema they have, so that their editor helps them from the first line on.
func TestModelines(t *testing.T) {
	for _, source := range readAll(t, "../rules/library/*.yaml", "../examples/*/rules/*.yaml") {
		if !strings.HasPrefix(string(source.Data), "# yaml-language-server: $schema="+SchemaID+"\n") {
			t.Errorf("%s does not begin with the line that names its schema", source.Name)
		}
	}
}
