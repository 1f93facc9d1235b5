package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/ruletest"
)

// Whatever events hold, the rule that is begun from them is a good one, and its tests pass.
func TestSkeletonOfAnything(t *testing.T) {
	folder := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(
			rapid.SampledFrom([]string{"user", "outcome", "@timestamp", "a.b", "e", "match", "null", "x y", "it's", `"`, "\\", "#", ": ", "\u0085", "\u2028", "😀", "rule", "true", "{{x}}", "\x7f", "- a", "%"}),
			rapid.StringN(1, 8, -1),
		)
		value := rapid.OneOf(
			rapid.Map(word, func(s string) any { return s }), rapid.Map(rapid.IntRange(-3, 3), func(n int) any { return n }),
			rapid.SampledFrom([]any{true, false, nil, 1.5, "", []any{"x", 1, nil}, map[string]any{"in": "y"}}),
		)
		names := rapid.SliceOfNDistinct(word, 1, 5, rapid.ID[string]).Draw(t, "names")
		values := rapid.SliceOfN(value, 1, 4).Draw(t, "values")
		s := &survey{fields: map[string]*surveyed{}}
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			event := map[string]any{}
			for _, name := range names {
				event[name] = rapid.SampledFrom(values).Draw(t, "value")
			}
			text, err := json.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			s.take(text, source.Format{}, text)
		}
		k := &skeleton{survey: s, stream: "s", files: []string{"a\nb.jsonl"}, id: "a", within: "10m", time: s.timeField()}
		if tells := s.tells(k.time); len(tells) > 0 {
			k.telling = tells[0]
			list := k.telling.frequent()
			k.first, k.then = list[0], list[len(list)-1]
		}
		if keys := s.keys(k.telling, k.time); len(keys) > 0 {
			k.by = keys[:1]
		}
		text, err := k.write()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(folder, "rule.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		set, diagnostics, err := rules.Load([]string{file})
		if err != nil || set == nil {
			t.Fatalf("%v %v\n%s", err, diagnostics, text)
		}
		results := ruletest.Run(set, nil)
		for _, r := range results {
			if !r.Passed() {
				t.Errorf("%s: %s\n%s", r.Name(), r.Failure, text)
			}
		}
	})
}
