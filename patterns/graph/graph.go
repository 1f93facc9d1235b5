package graph

import (
	"fmt"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
)

// Graph is a rule as nodes and edges. The first node is where a match begins, the last where it goes out.
type Graph struct {
	Name  string
	Nodes []Node
	Edges []Edge
}

// Kind says what a node stands for.
type Kind uint8

// The kinds of node.
const (
	Start    Kind = iota
	Step          // an event that is taken
	Excluded      // an event that is taken and not shown: {- a -}
	Absent        // an event that must not come
	Junction      // where ways part or meet
	End
)

// Node is a box with lines of text. Full is what the tooltip of a drawing says: the lines, uncut.
type Node struct {
	Kind  Kind
	Lines []string
	Full  string
}

// Edge leads from a node to another, by their indexes. Back says that it leads up again: a repetition.
type Edge struct {
	From, To int
	Label    string
	Dashed   bool
	Back     bool
}

// maxLine is the number of runes of a line in a box: three boxes of that width stand beside each other on a screen.
const maxLine = 44

// maxEdges bounds a drawing: with more nobody can follow them. A row pattern of many optional steps has an edge for each pair.
const maxEdges = 1_000

// Of makes the graph of a rule. The error says that it would have too many edges to be looked at.
func Of(r *patterns.Rule) (*Graph, error) {
	b := &builder{rule: r, graph: &Graph{Name: r.ID}}
	lines := []string{r.ID, "from " + strings.Join(r.Streams, ", ")}
	if len(r.Key) > 0 {
		lines = append(lines, "by "+strings.Join(r.Key, ", "))
	}
	if r.Where != nil {
		lines = append(lines, "where "+r.Where.Text)
	}
	if r.Within > 0 {
		lines = append(lines, "within "+cep.FormatDuration(r.Within))
	}
	for _, w := range r.Without {
		line := "without " + r.Names[w.Name]
		if w.Where != nil {
			line += ": " + w.Where.Text
		}
		lines = append(lines, line)
	}
	ends := []end{{node: b.add(Start, lines...)}}
	if r.Pattern != nil {
		ends = b.row(r.Pattern, ends, Step)
	} else {
		ends = b.elements(r.Elements, ends)
	}
	lines = []string{"alert: " + r.Severity}
	if r.Timeouts {
		lines = append(lines, "or timeout")
	}
	b.connect(ends, b.add(End, lines...), "")
	if b.full() {
		return nil, fmt.Errorf("the rule %s has more than %d ways from step to step: no drawing shows them", r.ID, maxEdges)
	}
	return b.graph, nil
}

// builder walks a rule. What it has built so far ends in some nodes, and each element goes on from these.
type builder struct {
	rule  *patterns.Rule
	graph *Graph
}

// end is a node that what follows is tied to. label says under which condition.
type end struct {
	node   int
	label  string
	dashed bool
}

func (b *builder) full() bool { return len(b.graph.Edges) > maxEdges }

func (b *builder) add(kind Kind, lines ...string) int {
	n := Node{Kind: kind, Full: strings.Join(lines, "\n")}
	for _, l := range lines {
		if runes := []rune(l); len(runes) > maxLine {
			l = string(runes[:maxLine-1]) + "…"
		}
		n.Lines = append(n.Lines, l)
	}
	b.graph.Nodes = append(b.graph.Nodes, n)
	return len(b.graph.Nodes) - 1
}

func (b *builder) connect(ends []end, to int, label string) {
	for _, e := range ends {
		text := e.label
		if text != "" && label != "" {
			text += ", "
		}
		b.graph.Edges = append(b.graph.Edges, Edge{From: e.node, To: to, Label: text + label, Dashed: e.dashed})
	}
}

// again leads back from some ends to a node.
func (b *builder) again(ends []end, to int, label string) {
	for i, e := range ends {
		if i > 0 {
			label = "" // said once is enough
		}
		b.graph.Edges = append(b.graph.Edges, Edge{From: e.node, To: to, Label: label, Back: true})
	}
}

// past are ends that do without what was drawn last.
func past(ends []end) []end {
	out := make([]end, len(ends))
	for i, e := range ends {
		out[i] = end{e.node, "without it", true}
	}
	return out
}

func (b *builder) elements(list []patterns.Element, ends []end) []end {
	for i := 0; i < len(list) && !b.full(); i++ {
		ends = b.element(&list[i], ends)
	}
	return ends
}

func (b *builder) element(e *patterns.Element, before []end) []end {
	link := ""
	if e.Link == nfa.Strict || e.Link == nfa.Any {
		link = e.Link.String()
	}
	ends := before
	switch e.Kind {
	case nfa.KindLeaf:
		kind := Step
		if e.Absent {
			kind = Absent
		}
		n := b.add(kind, b.lines(e)...)
		b.connect(before, n, link)
		if !e.Absent && e.Max != 1 {
			b.again([]end{{node: n}}, n, times(e.Min, e.Max))
		}
		ends = []end{{node: n}}
	case nfa.KindGroup:
		n := b.add(Junction, composite("group", e)...)
		b.connect(before, n, link)
		ends = b.elements(e.Elements, []end{{node: n}})
		if e.Max != 1 {
			b.again(ends, n, "again")
		}
	case nfa.KindAnyOf:
		n := b.add(Junction, composite("any of", e)...)
		b.connect(before, n, link)
		ends = nil
		for _, a := range e.Alternatives {
			ends = append(ends, b.elements(a, []end{{node: n}})...)
		}
		if e.Max != 1 {
			b.again(ends, n, "again")
		}
	case nfa.KindAllOf:
		word := "all of, in any order"
		if e.Need > 0 {
			word = fmt.Sprintf("any %d of", e.Need)
		}
		n := b.add(Junction, composite(word, e)...)
		b.connect(before, n, link)
		ends = b.together(len(e.Elements), n, func(i int, from []end) []end { return b.element(&e.Elements[i], from) })
	}
	if e.Optional {
		ends = append(ends, past(before)...)
	}
	return ends
}

// together draws parts beside each other, which meet again.
func (b *builder) together(parts, from int, part func(i int, from []end) []end) []end {
	var ends []end
	for i := range parts {
		ends = append(ends, part(i, []end{{node: from}})...)
	}
	n := b.add(Junction, "together")
	b.connect(ends, n, "")
	return []end{{node: n}}
}

func composite(word string, e *patterns.Element) []string {
	lines := []string{word}
	if e.Max != 1 {
		lines = append(lines, times(e.Min, e.Max))
	}
	return append(lines, conditions(e)...)
}

// lines are what the box of a step or absence says.
func (b *builder) lines(e *patterns.Element) []string {
	name := b.rule.Names[e.Name]
	switch {
	case e.Absent:
		name = "not " + name
	case e.Edge:
		name += " begins"
	}
	lines := []string{name}
	if from := strings.Join(e.From, ", "); from != strings.Join(b.rule.Streams, ", ") {
		lines = append(lines, "from "+from)
	}
	return append(lines, conditions(e)...)
}

func conditions(e *patterns.Element) []string {
	var lines []string
	add := func(ok bool, format string, args ...any) {
		if ok {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
	}
	if e.Where != nil {
		add(true, "%s", e.Where.Text)
	}
	if e.Distinct != nil {
		add(true, "distinct %s", e.Distinct.Text)
	}
	if e.Having != nil {
		add(true, "having %s", e.Having.Text)
	}
	if e.Until != nil {
		add(true, "until %s", e.Until.Text)
	}
	if f := e.FirstSeen; f != nil {
		by := make([]string, len(f.By))
		for i, x := range f.By {
			by[i] = x.Text
		}
		add(true, "first seen by %s for %s", strings.Join(by, ", "), duration(f.For))
	}
	add(e.Greedy, "greedy")
	add(e.Within > 0, "within %s", cep.FormatDuration(e.Within))
	add(e.LoopWithin > 0 && e.LoopWithin != e.Within, "loop within %s", cep.FormatDuration(e.LoopWithin))
	add(e.For > 0, "for %s", duration(e.For))
	return lines
}

func duration(d cep.Duration) string {
	if d == nfa.Forever {
		return "ever"
	}
	return cep.FormatDuration(d)
}

// times says how often, as rules write it.
func times(least, most int) string {
	switch {
	case most < 0:
		return fmt.Sprintf("%d or more times", least)
	case least == most:
		return fmt.Sprintf("%d times", least)
	}
	return fmt.Sprintf("%d to %d times", least, most)
}

// row draws a row pattern. kind is what its steps are.
func (b *builder) row(r *nfa.Row, before []end, kind Kind) []end {
	ends := before
	switch r.Kind {
	case nfa.RowStep:
		e := &b.rule.Elements[r.Name]
		lines := []string{b.rule.Names[r.Name]}
		if e.Where != nil {
			lines = append(lines, e.Where.Text)
		}
		n := b.add(kind, lines...)
		b.connect(before, n, "")
		ends = []end{{node: n}}
	case nfa.RowSequence:
		for i := 0; i < len(r.Parts) && !b.full(); i++ {
			ends = b.row(&r.Parts[i], ends, kind)
		}
	case nfa.RowChoice:
		n := b.add(Junction, "the first that fits of")
		b.connect(before, n, "")
		ends = nil
		for i := range r.Parts {
			ends = append(ends, b.row(&r.Parts[i], []end{{node: n}}, kind)...)
		}
	case nfa.RowPermute:
		n := b.add(Junction, "all of, in any order")
		b.connect(before, n, "")
		ends = b.together(len(r.Parts), n, func(i int, from []end) []end { return b.row(&r.Parts[i], from, kind) })
	case nfa.RowExclude:
		for i := range r.Parts {
			ends = b.row(&r.Parts[i], ends, Excluded)
		}
	case nfa.RowRepeat:
		word := times(r.Min, r.Max)
		if r.Reluctant {
			word += ", as few as will do"
		}
		first := len(b.graph.Nodes)
		if part := &r.Parts[0]; part.Kind == nfa.RowStep {
			ends = b.row(part, before, kind)
			if r.Max != 1 {
				b.again(ends, first, word)
			}
		} else {
			n := b.add(Junction, word)
			b.connect(before, n, "")
			ends = b.row(part, []end{{node: n}}, kind)
			if r.Max != 1 {
				b.again(ends, n, "again")
			}
		}
		if r.Min == 0 {
			ends = append(ends, past(before)...)
		}
	}
	return ends
}
