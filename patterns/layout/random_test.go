package layout_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/patterns/layout"
)

// author writes YAML as people do: with spaces, comments and breaks wherever these are allowed.
type author struct {
	*rapid.T
	b strings.Builder
	n int
}

func (a *author) pick(words ...string) string { return rapid.SampledFrom(words).Draw(a.T, "word") }
func (a *author) upTo(n int) int              { return rapid.IntRange(0, n).Draw(a.T, "n") }
func (a *author) pad() string                 { return strings.Repeat(" ", a.upTo(2)) }

// end ends a line, sometimes with comments and empty lines; own is what may stand before a comment of its own.
func (a *author) end(own int) {
	a.b.WriteString(a.pick("", "", "", " # behind", "  #x"))
	a.b.WriteString(a.pick("\n", "\n", "\n", "\n\n", "\n\n\n"))
	if a.upTo(5) == 0 {
		fmt.Fprintf(&a.b, "%s# own\n", strings.Repeat(" ", own+a.upTo(2)))
	}
}

func (a *author) word() string {
	return a.pick("a", "b", "'it''s'", `"a\"b"`, "7", "x == 1", "a ?? b", "5..", "''", "null", "~", "# no"[2:], "{{x}}"[2:3], "1h30m", `"#"`, "it's")
}

func (a *author) flow(depth int) string {
	switch kind := a.upTo(3); {
	case depth == 0 || kind < 2:
		return a.word()
	case kind == 2:
		var items []string
		for range a.upTo(3) {
			items = append(items, a.gap()+a.flow(depth-1)+a.gap())
		}
		return "[" + strings.Join(items, ",") + a.gap() + "]"
	default:
		var items []string
		for range a.upTo(3) {
			a.n++
			items = append(items, fmt.Sprintf("%sk%d:%s%s%s", a.gap(), a.n, a.pick(" ", "  "), a.flow(depth-1), a.gap()))
		}
		return "{" + strings.Join(items, ",") + a.gap() + "}"
	}
}

// gap is what may stand between the words of a flow collection.
func (a *author) gap() string {
	return a.pick("", "", "", " ", "  ", "\n              ", " # in\n              ", "\n\n                ")
}

func (a *author) value(column, depth int) {
	pad := strings.Repeat(" ", column)
	switch kind := a.upTo(7); {
	case depth == 0 || kind < 3:
		a.b.WriteString(" " + a.pad() + a.flow(2))
		a.end(column)
	case kind == 3:
		fmt.Fprintf(&a.b, " %s%s\n", a.pick("|", ">"), a.pick("", "-", "+"))
		for range 1 + a.upTo(2) {
			fmt.Fprintf(&a.b, "%s%s%s\n%s", pad, a.pick("  ", "  ", "    ")[:2], a.pick("text", "# text", "  deeper"), a.pick("", "", "\n"))
		}
	case kind == 4:
		fmt.Fprintf(&a.b, " plain\n%s  goes on\n\n%s   and on", pad, pad)
		a.end(column)
	case kind == 5:
		fmt.Fprintf(&a.b, " \"quoted\n%s  goes \\\n%s on\\\n\n\t  \"", pad, pad)
		a.end(column)
	case kind == 6:
		a.end(column)
		a.list(column+a.upTo(2), depth-1)
	default:
		a.end(column)
		a.mapping(column+1+a.upTo(3), depth-1, false)
	}
}

func (a *author) list(column, depth int) {
	for range 1 + a.upTo(2) {
		a.b.WriteString(strings.Repeat(" ", column) + "-")
		if depth > 0 && a.upTo(1) == 0 {
			n := 1 + a.upTo(2)
			a.b.WriteString(strings.Repeat(" ", n))
			a.mapping(column+1+n, depth-1, true)
		} else {
			a.value(column+1, 0)
		}
	}
}

func (a *author) mapping(column, depth int, started bool) {
	for i := range 1 + a.upTo(3) {
		if i > 0 || !started {
			a.b.WriteString(strings.Repeat(" ", column))
		}
		a.n++
		fmt.Fprintf(&a.b, "%s%d%s:", a.pick("k", "key"), a.n, a.pad())
		a.value(column, depth)
	}
}

// What people can write is never refused, means the same and has one form.
func TestWhateverIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &author{T: t}
		a.mapping(0, 4, false)
		text := []byte(a.b.String())
		before, problems := yamlnode.Parse("f.yaml", text)
		if len(problems) > 0 {
			return // one in twenty has a block of text whose first line is indented too far
		}
		out, err := layout.Format("f.yaml", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		after, _ := yamlnode.Parse("f.yaml", out)
		if diff := cmp.Diff(tree(before.Documents), tree(after.Documents)); diff != "" {
			t.Fatalf("%s\nof %s", diff, text)
		}
		again, err := layout.Format("f.yaml", out)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("%v: two forms: %s", err, cmp.Diff(string(out), string(again)))
		}
		if strings.Count(string(out), "#") != strings.Count(string(text), "#") {
			t.Fatalf("comments: %s\nto %s", text, out)
		}
	})
}

// tree is what the nodes say.
func tree(nodes []*yamlnode.Node) string {
	var b strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&b, "(%d %d %q %v %s)", n.Kind, yamlnode.Core(n), n.Value, yamlnode.IsNull(n), tree(n.Content))
	}
	return b.String()
}
