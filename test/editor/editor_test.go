package editor

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/patterns"
)

// cursor stands in a text where the editor is.
const cursor = "‸"

// document is a text that the editor has open.
type document struct {
	uri                string
	line, column       int
	completions, hover string
}

// open writes the schema and a document that names it in its first line, opens that, and asks what an editor asks.
func (s *server) open(schema map[string]any, text string) document {
	s.t.Helper()
	folder := s.t.TempDir()
	path := filepath.Join(folder, "schema.json")
	if err := os.WriteFile(path, encode(s.t, schema), 0o600); err != nil {
		s.t.Fatal(err)
	}
	d := document{uri: (&url.URL{Scheme: "file", Path: filepath.Join(folder, "file.yaml")}).String()}
	text = "# yaml-language-server: $schema=" + (&url.URL{Scheme: "file", Path: path}).String() + "\n" + text
	for i, line := range strings.Split(text, "\n") {
		if before, _, ok := strings.Cut(line, cursor); ok {
			d.line, d.column = i, len([]rune(before))
		}
	}
	s.tell("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": d.uri, "languageId": "yaml", "version": 1, "text": strings.Replace(text, cursor, "", 1),
	}})
	at := map[string]any{
		"textDocument": map[string]any{"uri": d.uri}, "position": map[string]any{"line": d.line, "character": d.column},
	}
	var completions struct{ Items []struct{ Label string } }
	if err := json.Unmarshal(s.ask("textDocument/completion", at), &completions); err != nil {
		s.t.Fatal(err)
	}
	for _, item := range completions.Items {
		d.completions += item.Label + "\n"
	}
	d.hover = string(s.ask("textDocument/hover", at))
	return d
}

// mistakes waits for what the server finds wrong with a document.
func (s *server) mistakes(d document) []string {
	s.t.Helper()
	for {
		m := s.read()
		if m.Method != "textDocument/publishDiagnostics" {
			continue
		}
		var params struct {
			URI         string
			Diagnostics []struct{ Message string }
		}
		if err := json.Unmarshal(m.Params, &params); err != nil {
			s.t.Fatal(err)
		}
		if params.URI != d.uri {
			continue
		}
		var list []string
		for _, d := range params.Diagnostics {
			list = append(list, d.Message)
		}
		return list
	}
}

func TestCompletion(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		name   string
		schema map[string]any
		text   string
		want   []string
		not    string
	}{
		{"keys of a rule", patterns.Schema(), "version: 1\nrules:\n- id: a\n  from: auth\n  ‸\n  severity: low\n", []string{"sequence", "within", "after_match", "alert"}, "times"},
		{"keys of a step", patterns.Schema(), "version: 1\nrules:\n- id: a\n  from: auth\n  sequence:\n  - step: fail\n    ‸\n", []string{"where", "times", "having", "first_seen"}, "severity"},
		{"words", patterns.Schema(), "version: 1\nrules:\n- id: a\n  severity: ‸\n", []string{"info", "critical"}, "eager"},
		{"keys of an alert", patterns.Schema(), "version: 1\nrules:\n- id: a\n  alert:\n    ‸\n", []string{"title", "suppress", "resolve"}, "sequence"},
		{"settings", config.Schema(), "version: 1\nstreams:\n  auth:\n    ‸\n", []string{"source", "lateness", "tiebreak"}, "checkpoint"},
		{"kinds of sinks", config.Schema(), "version: 1\nsinks:\n  out:\n    ‸\n", []string{"file", "redis", "webhook"}, "lateness"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Split(s.open(c.schema, c.text).completions, "\n")
			for _, want := range c.want {
				if !slices.Contains(got, want) {
					t.Errorf("no %q among %q", want, got)
				}
			}
			if slices.Contains(got, c.not) {
				t.Errorf("%q is offered", c.not)
			}
		})
	}
}

func TestExplanation(t *testing.T) {
	s := start(t)
	d := s.open(patterns.Schema(), "version: 1\nrules:\n- id: a\n  from: auth\n  with‸in: 10m\n")
	if !strings.Contains(d.hover, "The longest time from the first to the last event of a match") {
		t.Errorf("hover: %s", d.hover)
	}
	d = s.open(patterns.Schema(), "version: 1\nrules:\n- id: a\n  form: auth\n  within: ‸600\n")
	got := strings.Join(s.mistakes(d), "\n")
	if !strings.Contains(got, "form") {
		t.Errorf("mistakes: %s", got)
	}
	d = s.open(patterns.Schema(), "version: 1\nrules:\n- id: a\n  from: auth\n  sequence:\n  - {step: a, times: 5..}‸\n")
	if got := s.mistakes(d); len(got) > 0 {
		t.Errorf("mistakes of a good file: %q", got)
	}
}
