package patterns

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/internal/invariant"
)

// scale makes the hostile files smaller where the race detector makes everything slower.
func scale(n int) int {
	if invariant.Enabled {
		return n / 16
	}
	return n / 2
}

// repeat writes n pieces, each with its number.
func repeat(n int, format string) string {
	var b strings.Builder
	for i := range scale(n) {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// Files that are made to be slow are refused, or read, in a moment: each takes some 100 ms at most on an idle machine, half
// of it in the YAML library, and the times are logged. What fails here is what is quadratic in a file of this size: that
// takes minutes, on any machine.
func TestHostileFiles(t *testing.T) {
	const limit = time.Minute
	rule := "version: 1\nrules:\n- {id: r, from: s"
	for name, text := range map[string]string{
		"unknown keys":         rule + repeat(50_000, ", wherf%d: x") + "}\n",
		"unknown keys, lines":  "version: 1\n" + repeat(40_000, "rulez%d: x\n"),
		"torn value":           rule + ", where: f(x" + repeat(100_000, ", b%[1]d)"[:7]) + "}\n",
		"torn values":          rule + repeat(30_000, ", k%d: f(x, y)") + "}\n",
		"torn items":           rule + ", tags: [" + repeat(100_000, "f(%d, ") + "]}\n",
		"lines to mend":        "version: 1\nrules:\n" + repeat(10_000, "- {id: r%d, from: s, where: x in [1]}\n"),
		"a long line to mend":  "version: 1\nrules:\n- {id: r, from: s, where: x in [1]" + repeat(60_000, ", k%d: x") + "}\n",
		"a line of mendings":   rule + repeat(20_000, ", k%d: x in [1]") + "}\n",
		"a hopeless line":      rule + repeat(20, ", k%d: x in [1]") + ", l: }]\n",
		"hopeless lines":       "version: 1\nrules:\n" + repeat(10_000, "- {id: r%d, from: s, where: f([x, \"a\"], \"b\") or y in [1], l: x ]}\n"),
		"quoted, one line":     rule + ", tags: [" + repeat(80_000, `"%d", `) + "]}\n",
		"no ASCII, one line":   rule + ", tags: [" + repeat(60_000, `"é%d", `) + "]}\n",
		"misspelt fields":      rule + ", where: '" + repeat(700, "wherf%d == 1 or ") + "x', tests: [{name: t, events: [{at: 0s, event: {" + repeat(40_000, "wheref%d: 1, ") + "}}], expect: {count: 0}}]}\n",
		"alert fields":         rule + ", alert: {fields: {" + repeat(40_000, "f%d: 1, ") + "}}}\n",
		"expected fields":      rule + ", alert: {fields: {" + repeat(200, "f%d: 1, ") + "}}, tests: [{name: t, events: [], expect: {alerts: [{fields: {" + repeat(40_000, "ff%d: 1, ") + "}}]}}]}\n",
		"key parts":            rule + ", by: [" + repeat(60_000, "a%d, ") + "]}\n",
		"elements":             rule + ", by: [k], within: 1m, sequence: [" + repeat(20_000, "{step: s%d}, ") + "]}\n",
		"composites":           rule + ", by: [k], within: 1m, sequence: [" + repeat(8_000, "{group: [{any_of: [{step: a%d}, {absent: n%[1]d}]}], times: 2}, ") + "]}\n",
		"deep composites":      rule + ", by: [k], within: 1m, sequence: [" + strings.Repeat("{times: 2, group: [", 14) + "{step: a}" + strings.Repeat("]}", 14) + "]}\n",
		"without":              rule + ", by: [k], within: 1m, without: [" + repeat(10_000, "{name: w%d}, ") + "], sequence: [{step: a}, {step: b}]}\n",
		"overrides":            rule + "}\noverrides: [" + repeat(10_000, "{rule: r, set: {name: n%d}}, ") + "]\n",
		"a chain of rules":     "version: 1\nrules:\n" + repeat(4_000, "- {id: r%[1]d, from: alerts, where: rule == \"r%[1]d0\"}\n"),
		"exceptions":           rule + ", exceptions: [" + repeat(10_000, "{name: n%d, where: x == 1}, ") + "]}\n",
		"test events":          rule + ", tests: [{name: t, events: [" + repeat(20_000, "{at: 0s, event: {a: %d}}, ") + "], expect: {count: 0}}]}\n",
		"rules":                "version: 1\nrules:\n" + repeat(4_000, "- {id: r%d, from: s}\n"),
		"a key of a megabyte":  rule + ", " + strings.Repeat("k", scale(1<<19)) + ": x}\n",
		"an id of a megabyte":  "version: 1\nrules:\n- {from: s, id: " + strings.Repeat("k", scale(1<<19)) + "}\n",
		"brackets":             rule + ", where: '" + strings.Repeat("(", scale(1<<19)) + "'}\n",
		"brackets, not quoted": "version: 1\nrules:\n- id: r\n  from: s\n  where: " + strings.Repeat("(", scale(1<<19)) + "\n",
		"times":                rule + ", by: [k], within: 1m, sequence: [{step: a, times: " + strings.Repeat("9", scale(1<<19)) + "}]}\n",
		"duration":             rule + ", within: " + strings.Repeat("1s", scale(1<<18)) + "}\n",
		"template":             rule + ", alert: {title: '" + strings.Repeat("{{1}}", scale(1<<16)) + "'}}\n",
		"literal":              "version: 1\nrules:\n- id: r\n  from: s\n  where: |\n" + strings.Repeat("    x ==\n", scale(1<<16)) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, diagnostics := Load([]Source{{Name: "hostile.yaml", Data: []byte(text)}}, Options{})
			out := diagnostics.Error()
			took := time.Since(start)
			t.Logf("%v, %d diagnostics, %d bytes of them", took.Round(time.Millisecond), len(diagnostics), len(out))
			if took > limit {
				t.Errorf("%v for %d bytes", took, len(text))
			}
			if len(out) > 1<<20 {
				t.Errorf("%d bytes of diagnostics", len(out))
			}
		})
	}
}
