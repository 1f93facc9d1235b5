package conformance

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// SiddhiVector is a case of Siddhi: a tree of streams, what a query selects from it, and the rows that came out.
type SiddhiVector struct {
	Pattern  Node          `json:"pattern"`
	Select   []string      `json:"select"` // EXPRESSION as NAME
	Input    []SiddhiEntry `json:"input"`
	Expected struct {
		Count int     `json:"count"`
		Rows  [][]any `json:"rows"`
	} `json:"expected"`
}

// SiddhiEntry is an event, or the end of the wait.
type SiddhiEntry struct {
	T      int64          `json:"t"` // ms
	Stream string         `json:"stream"`
	Data   map[string]any `json:"data"`
	End    bool           `json:"end"`
}

// Node is a node of Siddhi's pattern; one of its pointers or lists is set.
type Node struct {
	Atom       *Atom  `json:"atom"`
	Seq        []Node `json:"seq"`
	Contiguity string `json:"contiguity"`
	Every      *Node  `json:"every"`
	And        []Node `json:"and"`
	Or         []Node `json:"or"`
	Not        *Node  `json:"not"`
	ForMS      int64  `json:"for_ms"`
	Repeat     *Node  `json:"repeat"`
	Min        int    `json:"min"`
	Max        *int   `json:"max"`
	Of         *Node  `json:"of"`
	WithinMS   int64  `json:"within_ms"`
}

// Atom is an event of a stream.
type Atom struct {
	As     string `json:"as"`
	Stream string `json:"stream"`
	Where  string `json:"where"`
}

// Siddhi returns the vector as one of Siddhi's.
func (v *Vector) Siddhi() (*SiddhiVector, error) {
	s := &SiddhiVector{}
	if err := json.Unmarshal(v.Text, s); err != nil {
		return nil, fmt.Errorf("vector of Siddhi: %w", err)
	}
	return s, nil
}

// Translate writes the pattern in our language. Without `every` a query of Siddhi matches once, which is ours to compare
// by its first match: Once says so.
func (s *SiddhiVector) Translate() *SiddhiTranslation {
	t := &siddhiTranslator{names: map[string]bool{}, streams: s.streams()}
	root := &s.Pattern
	out := &SiddhiTranslation{Once: true}
	window := "unbounded: true"
	for root.Of != nil || root.Every != nil {
		if root.Of != nil {
			// The window includes its end in Siddhi as it does here.
			window = fmt.Sprintf("within: %dms", root.WithinMS)
			root = root.Of
			continue
		}
		// All of it again, when it has matched: one match at a time.
		out.Once, t.after = false, "past_last"
		root = root.Every
	}
	elements := root.Seq
	if elements == nil {
		elements = []Node{*root}
	}
	if e := elements[0].Every; e != nil {
		// Each event that begins one matches once.
		out.Once, t.after = false, "to_next"
		if e.Seq != nil || e.And != nil && len(e.must()) > 1 {
			t.after = "past_last"
		}
		switch {
		case e.timed():
			t.lacks("an absence that repeats")
		case len(e.must()) > 1 && len(elements) > 1:
			t.lacks("every around some of the events")
		}
		elements = append([]Node{*e}, elements[1:]...)
	}
	t.strict = root.Contiguity == "strict"
	t.line("version: 1")
	t.line("rules:")
	t.line("- id: vector")
	t.line("  from: [%s]", strings.Join(s.streams(), ", "))
	t.line("  %s", window)
	t.line("  sequence:")
	if a := elements[0].Atom; a != nil && out.Once {
		// Only the first event that fits ever begins it.
		t.line("  - absent: earlier")
		t.atom(a, "  ")
		t.line("    for: forever")
		t.line("    from_start: true")
	}
	for i := range elements {
		t.element(&elements[i], "  ", i == 0, i == len(elements)-1)
	}
	if t.after == "" || t.many {
		t.after = "none"
	}
	if a := elements[len(elements)-1].Atom; t.strict && !out.Once && a != nil {
		// The last event may begin the next one.
		t.after = "{to_last: s_" + a.As + "}"
	}
	t.line("  after_match: %s", t.after)
	t.line("  alert:")
	t.line("    fields:")
	for i, item := range s.Select {
		expression, _, _ := strings.Cut(item, " as ")
		if expression == "*" {
			t.lacks("all columns")
			continue
		}
		t.line("      f%d: %s", i, quote(t.expression("", expression)))
	}
	out.Text, out.Missing = t.text.String(), t.missing
	return out
}

// SiddhiTranslation is a rule for a vector of Siddhi. Its alert's fields are the columns of a row.
type SiddhiTranslation struct {
	Text    string
	Once    bool
	Missing string
}

// streams are the streams that the pattern reads.
func (s *SiddhiVector) streams() []string {
	var out []string
	s.Pattern.each(func(n *Node) {
		if n.Atom != nil && !slices.Contains(out, n.Atom.Stream) {
			out = append(out, n.Atom.Stream)
		}
	})
	slices.Sort(out)
	return out
}

func (n *Node) each(visit func(*Node)) {
	visit(n)
	for _, list := range [][]Node{n.Seq, n.And, n.Or} {
		for i := range list {
			list[i].each(visit)
		}
	}
	for _, child := range []*Node{n.Every, n.Not, n.Repeat, n.Of} {
		if child != nil {
			child.each(visit)
		}
	}
}

// timed reports whether an absence with a time stands in the node.
func (n *Node) timed() bool {
	found := false
	n.each(func(n *Node) { found = found || n.Not != nil && n.ForMS > 0 })
	return found
}

// must are the members of an `and` that are no absences.
func (n *Node) must() []Node {
	return slices.DeleteFunc(slices.Clone(n.And), func(m Node) bool { return m.Not != nil })
}

// reasons are what may explain that a query differs, by its shape.
func (s *SiddhiVector) reasons() []string {
	var out []string
	s.Pattern.each(func(n *Node) {
		for i := range n.Seq {
			if i > 0 && n.Seq[i-1].Repeat != nil && (n.Seq[i].Not != nil || len(n.Seq[i].must()) < len(n.Seq[i].And)) {
				out = append(out, "siddhi_loop_then_absence")
			}
		}
		if n.Contiguity == "strict" && n.Seq[0].Not != nil {
			out = append(out, "siddhi_start_broken")
		}
		if len(n.And) == 2 && n.And[0].Atom != nil && n.And[1].Atom != nil && n.And[0].Atom.Stream == n.And[1].Atom.Stream {
			out = append(out, "siddhi_one_event_twice")
		}
		if n.Every != nil && len(n.Every.must()) < len(n.Every.And) {
			out = append(out, "siddhi_start_again")
		}
	})
	slices.Sort(out)
	return slices.Compact(out)
}

type siddhiTranslator struct {
	text    strings.Builder
	strict  bool
	after   string
	names   map[string]bool // steps so far; true: a list
	before  string          // the event taken before, as expressions say it; "" where there is none
	wait    int64           // ms that an absence takes between two events
	streams []string
	absents int
	many    bool // one start may match more than once
	missing string
}

func (t *siddhiTranslator) line(format string, args ...any) {
	fmt.Fprintf(&t.text, format+"\n", args...)
}

// lacks notes a construct that our language has no word for.
func (t *siddhiTranslator) lacks(what string) {
	if t.missing == "" {
		t.missing = what
	}
}

func (t *siddhiTranslator) element(n *Node, indent string, first, last bool) {
	link := ""
	if t.strict && !first && t.before != "" {
		link = "strict"
	}
	switch {
	case n.Every != nil:
		if n.Every.Atom == nil || t.strict {
			t.lacks("every inside a pattern, but for one event")
			return
		}
		// Each event that fits, and go on waiting.
		t.many = true
		t.step(n.Every.Atom, indent, "any", "")
	case n.Atom != nil:
		t.step(n.Atom, indent, link, "")
	case n.Repeat != nil:
		high := ""
		if n.Max != nil {
			high = fmt.Sprint(*n.Max)
		}
		times := fmt.Sprintf("%d..%s", n.Min, high)
		if high == fmt.Sprint(n.Min) {
			times = high
		}
		t.step(n.Repeat.Atom, indent, link, times)
	case n.Not != nil:
		t.absence(n, indent, first, last)
	case n.And != nil:
		t.all(n.And, indent, link, 0, first, last)
	case n.Or != nil:
		t.choice(n.Or, indent, link, 0, first, last)
	case n.Of != nil && n.Of.And != nil:
		t.all(n.Of.And, indent, link, n.WithinMS, first, last)
	case n.Of != nil && n.Of.Or != nil:
		t.choice(n.Of.Or, indent, link, n.WithinMS, first, last)
	default:
		t.lacks("a pattern inside a pattern")
	}
}

// atom writes which events an element takes.
func (t *siddhiTranslator) atom(a *Atom, indent string) {
	t.line("%s  from: %s", indent, a.Stream)
	if a.Where != "" {
		t.line("%s  where: %s", indent, quote(t.expression(a.As, a.Where)))
	}
}

func (t *siddhiTranslator) step(a *Atom, indent, link, times string) {
	if _, again := t.names[a.As]; again {
		t.lacks("a name that two events share")
	}
	t.line("%s- step: s_%s", indent, a.As)
	t.names[a.As] = times != "" && times != "0..1"
	if wait := t.wait; wait > 0 {
		// The absence before it had a time of its own: this step was not waited for until that was over.
		t.wait = 0
		if link == "strict" {
			link = "" // what came in between is over
		}
		after := Atom{As: a.As, Stream: a.Stream, Where: t.later(wait)}
		if a.Where != "" {
			after.Where = "(" + a.Where + ") and " + after.Where
		}
		a = &after
	}
	t.atom(a, indent)
	t.before = "s_" + a.As
	if t.names[a.As] {
		t.before += "[-1]"
	}
	if link != "" {
		t.line("%s  contiguity: %s", indent, link)
	}
	if times != "" {
		t.line("%s  times: %s", indent, times)
		if t.strict && t.names[a.As] {
			t.line("%s  loop: strict", indent)
		}
	}
}

// later says that an event comes more than so many ms after the event taken before.
func (t *siddhiTranslator) later(ms int64) string {
	return fmt.Sprintf("ts(e) - ts(%s) > duration('%dms')", t.before, ms)
}

func (t *siddhiTranslator) absence(n *Node, indent string, first, last bool) {
	a := n.Not.Atom
	switch {
	case a == nil:
		t.lacks("an absence of more than an event")
		return
	case !first && !last:
		// It ends at its time, and only then the next element is waited for.
		timed := Atom{Stream: a.Stream, Where: "not (" + t.later(n.ForMS) + ")"}
		if a.Where != "" {
			timed.Where = "(" + a.Where + ") and " + timed.Where
		}
		a, t.wait = &timed, n.ForMS
	case t.strict && last:
		// Any event ends a sequence.
		a = &Atom{Stream: "[" + strings.Join(t.streams, ", ") + "]"}
	}
	t.absents++
	t.line("%s- absent: n_%d", indent, t.absents)
	t.atom(a, indent)
	switch {
	case t.wait > 0:
	case n.ForMS > 0:
		t.line("%s  for: %dms", indent, n.ForMS)
	case first:
		t.line("%s  for: forever", indent)
		t.line("%s  from_start: true", indent)
	}
}

// all writes events in any order. What must not come before the one that must is an absence; absences alone are several
// in a row.
func (t *siddhiTranslator) all(members []Node, indent, link string, within int64, first, last bool) {
	must := (&Node{And: members}).must()
	if len(must) < len(members) {
		t.none(members, must, indent, link, within, first, last)
		return
	}
	t.line("%s- all_of:", indent)
	for i := range members {
		t.step(members[i].Atom, indent+"  ", "", "")
	}
	t.composite(indent, link, within)
}

func (t *siddhiTranslator) none(members, must []Node, indent, link string, within int64, first, last bool) {
	for _, n := range members {
		if n.Not == nil {
			continue
		}
		switch {
		case len(must) > 0 && n.ForMS > 0:
			t.lacks("an absence with a time of its own among events in any order")
			return
		case len(must) > 1 || len(must) == 1 && within > 0 || len(must) == 0 && !first && !last || within > 0 && within < n.ForMS:
			t.lacks("an absence among events in any order")
			return
		}
		t.absence(&n, indent, first, !first && len(must) == 1 || last)
	}
	if len(must) == 1 {
		t.step(must[0].Atom, indent, link, "")
	}
}

// choice writes alternatives. One that is an absence stands at the start or the end of the rule, or cannot be said.
func (t *siddhiTranslator) choice(members []Node, indent, link string, within int64, first, last bool) {
	absent := slices.ContainsFunc(members, func(n Node) bool { return n.Not != nil })
	if absent && !first && !last || absent && within > 0 && within < members[0].ForMS {
		t.lacks("an absence among alternatives in the middle")
		return
	}
	if absent {
		within = 0 // the absences are shorter, and decided by then
	}
	t.line("%s- any_of:", indent)
	for i := range members {
		if n := &members[i]; n.Not != nil {
			t.line("%s  -", indent)
			t.absence(n, indent+"    ", first, last)
			continue
		}
		t.step(members[i].Atom, indent+"  ", "", "")
	}
	t.composite(indent, link, within)
}

func (t *siddhiTranslator) composite(indent, link string, within int64) {
	if link != "" {
		t.line("%s  contiguity: %s", indent, link)
	}
	if within > 0 {
		t.lacks("a window from the element before to the end of another")
	}
}

var (
	// As in e1.price, e2[0].price, e2[last].price, e2[last - 1].price.
	reference = regexp.MustCompile(`\b(e\d+)(?:\[(last)?\s*(-?)\s*(\d*)\])?\.(\w+)`)
	isNull    = regexp.MustCompile(`\s+is\s+null\b`)
	branch    = regexp.MustCompile(`^ifThenElse\(([^,]*),([^,]*),([^,]*)\)$`)
	floating  = regexp.MustCompile(`\b(\d+\.\d+)f\b`)
)

// expression writes a condition or a column of Siddhi. own is the step whose condition it is.
func (t *siddhiTranslator) expression(own, text string) string {
	text = strings.TrimSpace(text)
	if m := branch.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("(%s ? %s : %s)", t.expression(own, m[1]), t.expression(own, m[2]), t.expression(own, m[3]))
	}
	text = floating.ReplaceAllString(text, "$1")
	text = reference.ReplaceAllStringFunc(text, func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		step, last, minus, index, field := m[1], m[2], m[3], m[4], m[5]
		name := "s_" + step
		list := t.names[step]
		if step == own && step != "" {
			name, list = "taken", true
		}
		switch {
		case !list:
			return name + "." + field
		case last != "" && minus != "":
			n, err := strconv.Atoi(index)
			if err != nil {
				t.lacks("index " + ref)
			}
			return fmt.Sprintf("%s[-%d].%s", name, n+1, field)
		case last != "" || index == "":
			return name + "[-1]." + field
		}
		return name + "[" + index + "]." + field
	})
	return isNull.ReplaceAllString(text, " == nil")
}
