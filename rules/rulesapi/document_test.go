package rulesapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/internal/yamlnode"
)

func TestSetInPlace(t *testing.T) {
	for _, c := range []struct {
		name, before string
		s            setting
		after        string // "": refused
	}{
		{"block, there", "rules:\n- id: a\n  enabled: true # for now\n  from: s\n", setting{"enabled", "false"}, "rules:\n- id: a\n  enabled: false # for now\n  from: s\n"},
		{"block, not there", "rules:\n- id: a # x\n  from: s\n", setting{"enabled", "false"}, "rules:\n- id: a # x\n  enabled: false\n  from: s\n"},
		{"block, indented", "rules:\n    -   id: a\n        from: s\n", setting{"mode", "shadow"}, "rules:\n    -   id: a\n        mode: shadow\n        from: s\n"},
		{"block, taken away", "rules:\n- id: a\n  mode: shadow # quiet\n  from: s\n", setting{"mode", ""}, "rules:\n- id: a\n  from: s\n"},
		{"block, the first taken away", "rules:\n- mode: shadow\n  # who\n  id: a\n", setting{"mode", ""}, "rules:\n  # who\n- id: a\n"},
		{"block, the last taken away", "rules:\n- id: a\n  mode: shadow", setting{"mode", ""}, "rules:\n- id: a\n"},
		{"block, not there to take away", "rules:\n- id: a\n", setting{"mode", ""}, "rules:\n- id: a\n"},
		{"block, without a line end", "rules:\n- id: a", setting{"mode", "shadow"}, "rules:\n- id: a\n  mode: shadow"},
		{"block, CRLF", "rules:\r\n- id: a\r\n  severity: low\r\n", setting{"mode", "shadow"}, "rules:\r\n- id: a\r\n  mode: shadow\r\n  severity: low\r\n"},
		{"block, quoted", "rules:\n- id: a\n  name: 'it''s \"x\"'\n", setting{"name", `"y"`}, "rules:\n- id: a\n  name: \"y\"\n"},
		{"block, of several lines", "rules:\n- id: a\n  name: |\n    one\n    two\n  from: s\n", setting{"name", "y"}, ""},
		{"block, of several lines, taken away", "rules:\n- id: a\n  name: one\n    two\n  from: s\n", setting{"name", ""}, ""},
		{"block, empty", "rules:\n- id: a\n  name:\n  from: s\n", setting{"name", "y"}, ""},
		{"braces, there", "rules:\n- {id: a, enabled: true, from: s}\n", setting{"enabled", "false"}, "rules:\n- {id: a, enabled: false, from: s}\n"},
		{"braces, not there", "rules:\n- {id: a, from: s} # x\n", setting{"enabled", "false"}, "rules:\n- {enabled: false, id: a, from: s} # x\n"},
		{"braces, taken away", "rules:\n- {id: a, mode: shadow, from: s}\n", setting{"mode", ""}, "rules:\n- {id: a, from: s}\n"},
		{"braces, the last taken away", "rules:\n- {id: a, mode: shadow}\n", setting{"mode", ""}, "rules:\n- {id: a}\n"},
		{"braces, a brace in the value", "rules:\n- {id: a, name: \"{x, y}\"} # z\n", setting{"name", ""}, "rules:\n- {id: a} # z\n"},
		{"braces, the first taken away", "rules:\n- {mode: shadow, id: a}\n", setting{"mode", ""}, "rules:\n- {id: a}\n"},
		{"braces, alone in a line", "rules:\n- {id: a,\n   mode: shadow,\n   from: s}\n", setting{"mode", ""}, ""},
		{"JSON", `{"rules": [{"id": "a", "enabled": true}]}`, setting{"enabled", "false"}, `{"rules": [{"id": "a", "enabled": false}]}`},
		{"wide characters", "rules:\n- {id: a, name: 日本, mode: shadow}\n", setting{"name", "x"}, "rules:\n- {id: a, name: x, mode: shadow}\n"},
		{"the second document", "version: 1\n---\nrules:\n- id: a\n  from: s\n", setting{"mode", "alert"}, "version: 1\n---\nrules:\n- id: a\n  mode: alert\n  from: s\n"},
		{"a value that is none", "rules:\n- id: a\n", setting{"mode", "[1"}, ""},
		{"a value that is more", "rules:\n- id: a\n", setting{"mode", "x\n  from: y"}, ""},
	} {
		doc, ok := parse("", []byte(c.before))
		if !ok {
			t.Errorf("%s: no YAML", c.name)
			continue
		}
		after, err := doc.set("rules", "a", []setting{c.s})
		if (err != nil) != (c.after == "") || after != c.after {
			t.Errorf("%s: %v\n%s", c.name, err, cmp.Diff(c.after, after))
		}
	}
	doc, _ := parse("", []byte("rules:\n- id: a\n"))
	if _, err := doc.set("rules", "b", []setting{{"mode", "x"}}); err == nil {
		t.Error("a rule that is not there was changed")
	}
}

// TestItems finds the lines of entries.
func TestItems(t *testing.T) {
	text := "version: 1\nrules:\n# first\n- id: a\n  from: s\n\n# second\n- id: b\n  tests:\n  - {name: x}\n\n# what follows\nlists: {}\n---\nrules:\n- {id: c, from: s}\n- {id: d}\n---\nrules: []\n---\nversion: 1\n"
	doc, ok := parse("", []byte(text))
	if !ok {
		t.Fatal("no YAML")
	}
	got := map[string]string{}
	for _, it := range doc.items("rules") {
		got[it.id] = doc.text(it)
	}
	want := map[string]string{"a": "- id: a\n  from: s\n", "b": "- id: b\n  tests:\n  - {name: x}\n", "c": "- {id: c, from: s}\n", "d": "- {id: d}\n"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestSetKeepsAllElse changes keys of random texts: all else says what it said, and comments stay.
func TestSetKeepsAllElse(t *testing.T) {
	keys := []string{"enabled", "mode", "severity", "name", "from"}
	values := []string{"true", "shadow", `"a: b, {c}"`, "7", "'it''s'", "日本"}
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		b.WriteString("# head\nrules:\n")
		var ids []string
		for i := range rapid.IntRange(1, 3).Draw(t, "rules") {
			id := fmt.Sprintf("r%d", i)
			ids = append(ids, id)
			list := append([]string{"id"}, rapid.SliceOfDistinct(rapid.SampledFrom(keys), rapid.ID).Draw(t, "keys")...)
			list = rapid.Permutation(list).Draw(t, "order")
			braces := rapid.Bool().Draw(t, "braces")
			for j, k := range list {
				v := rapid.SampledFrom(values).Draw(t, "value")
				if k == "id" {
					v = id
				}
				switch {
				case braces && j == 0:
					b.WriteString("- {" + k + ": " + v)
				case braces:
					b.WriteString(", " + k + ": " + v)
				case j == 0:
					b.WriteString("- " + k + ": " + v + " # c\n")
				default:
					b.WriteString("  " + k + ": " + v + "\n  # between\n")
				}
			}
			if braces {
				b.WriteString("} # c\n")
			}
		}
		b.WriteString("# tail\n")
		before, ok := parse("", []byte(b.String()))
		if !ok {
			t.Fatal("no YAML: ", b.String())
		}
		id := rapid.SampledFrom(ids).Draw(t, "id")
		s := setting{rapid.SampledFrom(keys).Draw(t, "key"), rapid.SampledFrom(append(values, "")).Draw(t, "to")}
		text, err := before.set("rules", id, []setting{s})
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		for _, comment := range []string{"# head\n", "# tail\n"} {
			if !strings.Contains(text, comment) {
				t.Errorf("%s is gone from\n%s", comment, text)
			}
		}
		if n, m := strings.Count(b.String(), "# between"), strings.Count(text, "# between"); n != m {
			t.Errorf("%d comments between keys, and %d were\n%s\n%s", m, n, b.String(), text)
		}
		after, ok := parse("", []byte(text))
		if !ok {
			t.Fatal("no YAML behind it: ", text)
		}
		// Told by itself: each rule as a map, one key of one rule changed.
		want, got := said(before), said(after)
		if s.value == "" {
			delete(want[id], s.key)
		} else {
			f, _ := yamlnode.Parse("", []byte("v: "+s.value))
			want[id][s.key] = member(f.Documents[0], "v").Value
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s\n%s\n%s", d, b.String(), text)
		}
	})
}

// said are the rules of a document by id.
func said(d *document) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, it := range d.items("rules") {
		m := map[string]string{}
		for k, v := range yamlnode.Pairs(it.node) {
			m[k.Value] = v.Value
		}
		all[it.id] = m
	}
	return all
}

// TestYAMLOfJSON holds the YAML that JSON becomes against the JSON.
func TestYAMLOfJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var value func(depth int) any
		name := rapid.OneOf(rapid.SampledFrom([]string{"id", "true", "no", "~", "1", "- a", "a: b", "#", "é\u2028", "\x7f", "\U0001f600", ""}), rapid.String())
		value = func(depth int) any {
			kind := rapid.IntRange(0, 6).Draw(t, "kind")
			if depth > 4 {
				kind %= 4
			}
			switch kind {
			case 0:
				return name.Draw(t, "text")
			case 1:
				return json.Number(strconv.FormatInt(rapid.Int64().Draw(t, "int"), 10))
			case 2:
				return rapid.Bool().Draw(t, "bool")
			case 3:
				return nil
			case 4, 5:
				m := map[string]any{}
				for range rapid.IntRange(0, 3).Draw(t, "members") {
					m[name.Draw(t, "name")] = value(depth + 1)
				}
				return m
			default:
				l := []any{}
				for range rapid.IntRange(0, 3).Draw(t, "items") {
					l = append(l, value(depth+1))
				}
				return l
			}
		}
		want := map[string]any{"v": value(0)}
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		text, err := yamlOf(b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		f, problems := yamlnode.Parse("", text)
		if len(problems) > 0 {
			t.Fatalf("%s became\n%s\n%v", b, text, problems)
		}
		// Compare as JSON reads it again: texts with halves of surrogates and the like are mended there.
		var again map[string]any
		d := json.NewDecoder(strings.NewReader(string(b)))
		d.UseNumber()
		if err := d.Decode(&again); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(again, plainOf(f.Documents[0])); d != "" {
			t.Errorf("%s became\n%s\n%s", b, text, d)
		}
	})
}

// plainOf reads a node as JSON values.
func plainOf(n *yamlnode.Node) any {
	switch n.Kind {
	case yamlnode.Map:
		m := map[string]any{}
		for k, v := range yamlnode.Pairs(n) {
			m[k.Value] = plainOf(v)
		}
		return m
	case yamlnode.List:
		l := []any{}
		for _, v := range n.Content {
			l = append(l, plainOf(v))
		}
		return l
	default:
	}
	switch yamlnode.Core(n) {
	case yamlnode.CoreNull:
		return nil
	case yamlnode.CoreTrue, yamlnode.CoreFalse:
		return yamlnode.Core(n) == yamlnode.CoreTrue
	case yamlnode.CoreInt:
		return json.Number(n.Value)
	case yamlnode.CoreString:
		return n.Value
	default:
		return "not what JSON has: " + n.Value
	}
}

func FuzzSet(f *testing.F) {
	f.Add("rules:\n- id: a\n  mode: shadow # x\n", "mode", "alert")
	f.Add("rules:\n- {id: a, b: [1, {c: d}], mode: x}\n", "mode", "")
	f.Add("rules: [{id: a}]\n---\nrules:\n- mode: |\n    x\n  id: a\n", "name", `"y"`)
	f.Fuzz(func(t *testing.T, text, key, value string) {
		before, ok := parse("", []byte(text))
		if !ok || !validID(key) || key == "id" {
			return
		}
		after, err := before.set("rules", "a", []setting{{key, value}})
		if err != nil {
			return
		}
		doc, ok := parse("", []byte(after))
		if !ok {
			t.Fatalf("no YAML: %q", after)
		}
		was, is := said(before), said(doc)
		delete(was["a"], key)
		delete(is["a"], key)
		if !slices.Equal(slices.Sorted(maps.Keys(was)), slices.Sorted(maps.Keys(is))) {
			t.Errorf("%q became %q", text, after)
		}
	})
}
