package patterns

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever elements stand in whatever order with whatever keys: the checker refuses in words what the machine would, so
// that lowering, which panics, never does; and what it accepts means the same when it is read again.
func TestRandomRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &ruleGenerator{t: t}
		g.WriteString("version: 1\nrules:\n- id: r\n  from: s\n  by: [k]\n")
		g.maybe("\n  within: %s", "10m", "1h")
		g.maybe("\n  unbounded: %s", "true", "false")
		g.maybe("\n  emit: %s", "ordered")
		g.maybe("\n  on_timeout: %s", "emit")
		g.maybe("\n  keep: %s", "newest")
		g.maybe("\n  limits: {on_limit: %s}", "drop_oldest")
		g.maybe("\n  without: [{name: never, where: '%s'}]", g.conditions()...)
		g.maybe("\n  after_match: %s", "none", "to_next", "{to_first: n0}", "{to_last: n1}")
		g.WriteString("\n  sequence: ")
		g.sequence(2, rapid.IntRange(1, 5).Draw(t, "elements"))
		g.WriteString("\n")
		sources := []Source{{Name: "random.yaml", Data: []byte(g.String())}}
		set, diagnostics := Load(sources, Options{})
		if (set == nil) != (len(diagnostics.Errors()) > 0) {
			t.Fatalf("set %v with %s", set, diagnostics.Error())
		}
		for _, d := range diagnostics {
			if d.Code == codeTooMuch || d.Code == codeSyntax {
				t.Fatalf("%s\n%s", g, diagnostics.Error())
			}
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

// ruleGenerator writes rules of all elements with all their words, right and wrong.
type ruleGenerator struct {
	strings.Builder
	t    *rapid.T
	next int // name
}

// maybe writes a word with one of its values, or nothing.
func (g *ruleGenerator) maybe(format string, values ...string) {
	if v := rapid.SampledFrom(append(values, "", "", "")).Draw(g.t, format); v != "" {
		fmt.Fprintf(&g.Builder, format, v)
	}
}

func (g *ruleGenerator) conditions() []string {
	return []string{
		"x == 1", "x == n0.x", "prev.x < x", "len(taken) < 3", "sum(match, .x) > 2", "x == n2.x", "n1.x == 1 or len(n1) > 2", "n1[-1].x == n0[0].x",
	}
}

func (g *ruleGenerator) sequence(depth, n int) {
	g.WriteString("[")
	for i := range n {
		if i > 0 {
			g.WriteString(", ")
		}
		g.element(depth)
	}
	g.WriteString("]")
}

func (g *ruleGenerator) element(depth int) {
	kind := rapid.SampledFrom(elementKinds).Draw(g.t, "kind")
	if depth == 0 && kind.isComposite() || rapid.IntRange(0, 2).Draw(g.t, "plain") > 0 {
		kind = kindStep
	}
	fmt.Fprintf(&g.Builder, "{%s: ", kind)
	switch kind {
	case kindAllOf, kindGroup:
		g.sequence(depth-1, rapid.IntRange(1, 3).Draw(g.t, "members"))
	case kindAnyOf:
		g.WriteString("[")
		for range rapid.IntRange(1, 2).Draw(g.t, "alternatives") {
			g.sequence(depth-1, rapid.IntRange(1, 2).Draw(g.t, "length"))
			g.WriteString(", ")
		}
		g.element(depth - 1)
		g.WriteString("]")
	default:
		fmt.Fprintf(&g.Builder, "n%d", g.next)
		g.next++
	}
	values := map[string][]string{
		"where": g.conditions(), "until": {"x == 0", "len(n0) > 2"}, "having": {"len(n0) > 1", "n1.x > 2"}, "distinct": {"user", "n0.x"},
		"times": {"2", "2..", "0..", "0..1", "1..3", "1"}, "contiguity": {"strict", "relaxed", "any"}, "loop": {"strict", "any"},
		"within": {"1m", "20m"}, "loop_within": {"1m"}, "for": {"1m", "forever"}, "from": {"t"}, "by": {"[j]", "{k: j}"},
		"first_seen": {"{by: [user], for: 1d}", "{by: [user, x], for: forever, from_start: true}"}, "at_least": {"1", "2"},
	}
	for _, key := range elementKeys {
		list := values[key.name]
		if list == nil {
			list = []string{"true"}
		}
		if !slices.Contains(key.on, kind) && rapid.IntRange(0, 9).Draw(g.t, "wrong") > 0 {
			continue
		}
		format := ", " + key.name + ": %s"
		if key.name == "where" || key.name == "until" || key.name == "having" || key.name == "distinct" {
			format = ", " + key.name + ": '%s'"
		}
		g.maybe(format, list...)
	}
	g.WriteString("}")
}
