package graph

import (
	"fmt"
	"strings"
	"unicode"
)

// DOT prints the graph for Graphviz.
func (g *Graph) DOT() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\", fontsize=10];\n  edge [fontname=\"monospace\", fontsize=9];\n", dotText(g.Name))
	for i, n := range g.Nodes {
		style := map[Kind]string{
			Start: ", style=rounded", Excluded: ", style=dashed", Absent: ", shape=octagon, style=dashed, color=firebrick",
			Junction: ", shape=ellipse, color=gray", End: ", style=rounded, peripheries=2",
		}[n.Kind]
		fmt.Fprintf(&b, "  n%d [label=%s%s];\n", i, dotText(strings.Join(n.Lines, "\n")), style)
	}
	for _, e := range g.Edges {
		var words []string
		if e.Label != "" {
			words = append(words, "label="+dotText(e.Label))
		}
		if e.Dashed {
			words = append(words, "style=dashed")
		}
		if e.Back {
			words = append(words, "constraint=false")
		}
		fmt.Fprintf(&b, "  n%d -> n%d", e.From, e.To)
		if len(words) > 0 {
			fmt.Fprintf(&b, " [%s]", strings.Join(words, ", "))
		}
		b.WriteString(";\n")
	}
	b.WriteString("}\n")
	return []byte(b.String())
}

// dotText is a text in the quotes of DOT. Words of users stand in it, whatever they hold.
func dotText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '&':
			b.WriteString("&amp;") // Graphviz reads entities
		case !unicode.IsPrint(r):
			b.WriteRune(unicode.ReplacementChar)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Mermaid prints the graph as a flowchart of Mermaid.
func (g *Graph) Mermaid() []byte {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for i, n := range g.Nodes {
		shape := map[Kind][2]string{Start: {"([", "])"}, Absent: {"{{", "}}"}, Junction: {"(", ")"}, End: {"([", "])"}}[n.Kind]
		if shape[0] == "" {
			shape = [2]string{"[", "]"}
		}
		lines := make([]string, len(n.Lines))
		for j, l := range n.Lines {
			lines[j] = mermaidText(l)
		}
		fmt.Fprintf(&b, "  n%d%s\"%s\"%s\n", i, shape[0], strings.Join(lines, "<br/>"), shape[1])
	}
	for _, e := range g.Edges {
		arrow := "-->"
		if e.Dashed {
			arrow = "-.->"
		}
		if e.Label != "" {
			arrow += `|"` + mermaidText(e.Label) + `"|`
		}
		fmt.Fprintf(&b, "  n%d %s n%d\n", e.From, arrow, e.To)
	}
	return []byte(b.String())
}

// mermaidText writes all that could mean something to Mermaid, to Markdown or to HTML as the number of its character.
func mermaidText(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == ' ', r == ',', r == '.', r == '=', r == '_':
			b.WriteRune(r)
		case !unicode.IsPrint(r):
			b.WriteRune(unicode.ReplacementChar)
		default:
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}
