package patterns

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever elements stand in whatever order with whatever keys: the checker refuses in words what the machine would, so
// that lowering, which panics, never does; and what it accepts means the same when it is read again.
func TestRandomRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		b.WriteString("version: 1\nrules:\n- id: r\n  from: s\n  by: [k]\n")
		add := func(name, format string, values ...string) {
			if v := rapid.SampledFrom(append(values, "", "")).Draw(t, name); v != "" {
				fmt.Fprintf(&b, format, v)
			}
		}
		add("within", "  within: %s\n", "10m", "1h")
		add("unbounded", "  unbounded: %s\n", "true", "false")
		add("emit", "  emit: %s\n", "ordered")
		add("timeout", "  on_timeout: %s\n", "emit")
		add("after", "  after_match: %s\n", "none", "to_next", "{to_first: n0}", "{to_last: n1}")
		b.WriteString("  sequence:\n")
		conditions := []string{"x == 1", "x == n0.x", "prev.x < x", "len(taken) < 3", "sum(match, .x) > 2", "x == n2.x", "n1.x == 1 or len(n1) > 2"}
		for i := range rapid.IntRange(1, 5).Draw(t, "elements") {
			if rapid.IntRange(0, 3).Draw(t, "absent") == 0 {
				fmt.Fprintf(&b, "  - {absent: n%d", i)
				add("for", ", for: %s", "1m", "forever")
				add("from_start", ", from_start: %s", "true")
				add("contiguity", ", contiguity: %s", "strict", "relaxed", "any")
			} else {
				fmt.Fprintf(&b, "  - {step: n%d", i)
				add("times", ", times: %s", "2", "2..", "0..", "0..1", "1..3")
				add("optional", ", optional: %s", "true")
				add("contiguity", ", contiguity: %s", "strict", "relaxed", "any")
				add("loop", ", loop: %s", "strict", "any")
				add("within", ", within: %s", "1m", "20m")
				add("loop_within", ", loop_within: %s", "1m")
				add("by", ", by: %s", "[j]", "{k: j}")
			}
			add("where", ", where: '%s'", conditions...)
			b.WriteString("}\n")
		}
		sources := []Source{{Name: "random.yaml", Data: []byte(b.String())}}
		set, diagnostics := Load(sources, Options{})
		if (set == nil) != (len(diagnostics.Errors()) > 0) {
			t.Fatalf("set %v with %s", set, diagnostics.Error())
		}
		if set == nil {
			return
		}
		again, _ := Load(sources, Options{})
		if set.Rules[0].String() != again.Rules[0].String() || set.Rules[0].Program.String() != again.Rules[0].Program.String() {
			t.Fatalf("%s\n%s", set.Rules[0], again.Rules[0])
		}
	})
}
