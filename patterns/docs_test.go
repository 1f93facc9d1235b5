package patterns

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// The rules that docs/rules.md shows are loaded: what nobody runs rots.
func TestDocumentedRules(t *testing.T) {
	text, err := os.ReadFile("../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	if len(blocks) < 4 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for i, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		_, diagnostics := Load([]Source{{Name: fmt.Sprintf("block %d", i+1), Data: []byte(block)}}, Options{})
		if len(diagnostics) > 0 {
			t.Error(diagnostics.Error())
		}
	}
}

// The table "element x key" of docs/rules.md is made from the one that the reader goes by.
func TestElementTable(t *testing.T) {
	const file, begin, end = "../docs/rules.md", "<!-- elements: made by go test ./patterns -update -->\n", "<!-- end of elements -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, more := strings.Cut(rest, end)
	if !ok || !more {
		t.Fatal("docs/rules.md has no place for the table")
	}
	var b strings.Builder
	b.WriteString("| key |")
	for _, k := range elementKinds {
		fmt.Fprintf(&b, " `%s` |", k)
	}
	b.WriteString(" left out | refused with |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, key := range elementKeys {
		fmt.Fprintf(&b, "| `%s` |", key.name)
		for _, k := range elementKinds {
			fmt.Fprintf(&b, " %s |", either(slices.Contains(key.on, k), "yes", "-"))
		}
		fmt.Fprintf(&b, " %s | %s |\n", key.otherwise, strings.Join(key.codes, ", "))
	}
	golden(t, file, head+begin+b.String()+end+tail)
}

// What the table says is what Load does: a key is refused with a code of its row on every element that cannot have it.
func TestElementTableHolds(t *testing.T) {
	forms := map[elementKind]string{
		kindStep: "step: x", kindAbsent: "absent: x", kindHold: "hold: x, where: a == 1, for: 1m", kindAllOf: "all_of: [{step: y}, {step: z}]",
		kindAnyOf: "any_of: [{step: y}, {step: z}]", kindGroup: "group: [{step: y}, {step: z}]",
	}
	values := map[string]string{"first_seen": "{by: [a], for: 1h}", "by": "[k]", "times": "2..", "contiguity": "strict", "loop": "strict"}
	for _, key := range elementKeys {
		for _, kind := range elementKinds {
			if slices.Contains(key.on, kind) {
				continue
			}
			value := values[key.name]
			if value == "" {
				value = "true"
			}
			got := codes(t, "version: 1\nrules:\n- id: r\n  from: s\n  by: [k]\n  within: 1h\n  sequence:\n  - {step: first, where: a == 2}\n  - {"+forms[kind]+", "+key.name+": "+value+"}\n")
			if !slices.Contains(got, codeElementKey) {
				t.Errorf("%s on %s: %v", key.name, kind, got)
			}
		}
	}
}
