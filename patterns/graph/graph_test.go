package graph_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/graph"
)

var update = flag.Bool("update", false, "write the golden files anew")

func load(t testing.TB, pattern ...string) map[string]*patterns.Rule {
	t.Helper()
	rules := map[string]*patterns.Rule{}
	for _, p := range pattern {
		files, err := filepath.Glob(p)
		if err != nil || len(files) == 0 {
			t.Fatal(p, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			set, diagnostics := patterns.Load([]patterns.Source{{Name: file, Data: data}}, patterns.Options{ReadFile: os.ReadFile})
			if set == nil {
				t.Fatal(diagnostics.Error())
			}
			for _, r := range set.Rules {
				rules[r.ID] = r
			}
		}
	}
	return rules
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got), -update writes it anew; look at the picture:\n%s", file, d)
	}
}

func TestPictures(t *testing.T) {
	rules := load(t, "../../rules/library/*.yaml", "testdata/*.yaml")
	for _, id := range []string{"ssh-bruteforce-then-success", "sensor-silent", "two-ways", "v-shape", "loops"} {
		r := rules[id]
		if r == nil {
			t.Fatalf("no rule %s", id)
		}
		g, err := graph.Of(r)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/"+id+".svg", g.SVG())
		if id == "two-ways" {
			golden(t, "testdata/"+id+".dot", g.DOT())
			golden(t, "testdata/"+id+".mmd", g.Mermaid())
		}
	}
}

// wellFormed reads a picture as XML, to its end.
func wellFormed(t testing.TB, svg []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v\n%s", err, svg)
		}
	}
}

// Every rule there is can be drawn: no node is left out, all stand inside of the picture, and every one can be reached.
func TestEveryRule(t *testing.T) {
	for id, r := range load(t, "../../rules/library/*.yaml", "../testdata/good/*.yaml", "../../test/conformance/cases/rules/*.yaml", "../../test/replay/rules/*.yaml") {
		g, err := graph.Of(r)
		if err != nil {
			t.Fatal(err)
		}
		wellFormed(t, g.SVG())
		text := string(g.DOT()) + string(g.Mermaid())
		for _, name := range r.Names {
			if !strings.Contains(text, name) {
				t.Errorf("%s: no %s in the graph", id, name)
			}
		}
		reached := map[int]bool{0: true}
		for _, e := range g.Edges {
			if !e.Back && e.From >= e.To {
				t.Errorf("%s: an edge leads up", id)
			}
			if reached[e.From] {
				reached[e.To] = true
			}
		}
		for i := range g.Nodes {
			if !reached[i] {
				t.Errorf("%s: nothing leads to %q", id, g.Nodes[i].Lines)
			}
		}
	}
}

func TestTooManyWays(t *testing.T) {
	text := "version: 1\nrules:\n- id: a\n  from: s\n  within: 1m\n  pattern: " + strings.Repeat("b? ", 300) + "a\n  steps: {a: {}, b: {where: x == 1}}\n"
	set, diagnostics := patterns.Load([]patterns.Source{{Name: "a.yaml", Data: []byte(text)}}, patterns.Options{})
	if set == nil {
		t.Fatal(diagnostics.Error())
	}
	if g, err := graph.Of(set.Rules[0]); err == nil {
		t.Errorf("drawn with %d edges", len(g.Edges))
	}
}

// Whatever users write stays text: no quote, bracket or control character of it reaches the language that it is printed in.
func TestHostileWords(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.StringOf(rapid.OneOf(rapid.SampledFrom([]rune("\"\\<>&|[](){}#;`'\n\t\x00\x1b%-")), rapid.Rune())).Draw(rt, "words")
		g := &graph.Graph{Name: words, Nodes: []graph.Node{
			{Kind: graph.Start, Lines: []string{words}, Full: words},
			{Kind: graph.Absent, Lines: []string{words, words}, Full: words},
			{Kind: graph.End, Lines: []string{words}, Full: words},
		}, Edges: []graph.Edge{{From: 0, To: 1, Label: words}, {From: 1, To: 1, Label: words, Back: true}, {From: 1, To: 2}, {From: 2, To: 0, Label: words, Back: true}}}
		wellFormed(t, g.SVG())
		for line := range strings.Lines(string(g.Mermaid())) {
			if n := strings.Count(line, `"`); n != 0 && n != 2 {
				rt.Fatalf("%d quotes: %s", n, line)
			}
		}
		if n := strings.Count(string(g.Mermaid()), "\n"); n != 8 {
			rt.Fatalf("%d lines", n)
		}
		dot := strings.ReplaceAll(strings.ReplaceAll(string(g.DOT()), `\\`, ""), `\"`, "")
		if n := strings.Count(dot, "\n"); n != 12 {
			rt.Fatalf("%d lines: %s", n, dot)
		}
		for line := range strings.Lines(dot) {
			if strings.Count(line, `"`)%2 != 0 {
				rt.Fatalf("open quotes: %s", line)
			}
		}
	})
}
