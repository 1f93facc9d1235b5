package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Translation is a vector's pattern as a rule file with one rule.
type Translation struct {
	Text string
	// Names are the peer's step names by ours.
	Names map[string]string
	// Missing names a construct that this part of the language lacks; then there is no rule.
	Missing string
}

// Translate writes the vector's pattern in our language. It is mechanical, as the semantics tell it for FlinkCEP: a window
// or gap of W ms becomes one of 2W - 1 ms, for the peer's limits exclude their end and ours do not, and a skip strategy
// comes with `emit: ordered`.
func (v *Vector) Translate() *Translation {
	t := translator{names: map[string]string{}, places: map[string]place{}, used: map[string]bool{}}
	t.collect(v.Pattern.Steps, place{})
	t.line("version: 1")
	t.line("rules:")
	t.line("- id: vector")
	t.line("  from: events")
	if v.PartitionBy != "" {
		t.line("  by: [%s]", v.PartitionBy)
	}
	if w := v.Pattern.WithinMS; w != nil && *w > 0 {
		t.line("  within: %s", window(*w))
	} else {
		t.unbounded = true
		t.line("  unbounded: true")
	}
	t.line("  sequence:")
	t.sequence(v)
	t.after(v.Pattern.After)
	if v.EmitTimeouts {
		t.line("  on_timeout: emit")
	}
	if t.missing != "" {
		return &Translation{Missing: t.missing}
	}
	out := &Translation{Text: t.text.String(), Names: map[string]string{}}
	for peer, name := range t.names {
		out.Names[name] = peer
	}
	return out
}

// translator writes the rule line by line.
type translator struct {
	text    bytes.Buffer
	names   map[string]string // our step names by the peer's
	used    map[string]bool
	places  map[string]place // by the peer's step name
	missing string
	// unbounded: the pattern has no window.
	unbounded bool
}

// place is what a step's name means in a condition.
type place struct {
	step *Step
	// list: the step may take more than one event, by its own quantifier or that of a group around it. maybe: it may take
	// none.
	list, maybe bool
}

func (t *translator) line(format string, args ...any) {
	fmt.Fprintf(&t.text, format+"\n", args...)
}

// collect gives every step a name of ours. Names of peers may be reserved words here ("e") or hold odd characters
// ("not c"), so all get a prefix.
func (t *translator) collect(steps []Step, around place) {
	for i := range steps {
		s := &steps[i]
		p := place{s, around.list || s.loops(), around.maybe || s.Optional || s.Min != nil && *s.Min == 0}
		if s.Group != nil {
			t.collect(s.Group, p)
			continue
		}
		if _, again := t.names[s.Name]; again {
			continue
		}
		name := "s_" + identifier(s.Name)
		for t.used[name] {
			name += "_"
		}
		t.used[name] = true
		t.names[s.Name] = name
		t.places[s.Name] = p
	}
}

func identifier(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}

// sequence writes the rule's elements. Three forms of pattern have no meaning as they stand, and one in other words:
//
// A pattern that may take nothing gives, in the peer, each assignment that takes something: a group that takes at least
// one event.
//
// A negation behind a group that may be empty has, in the peer, no meaning where the group is: the negation belongs to the
// group, and both may be left out.
//
// A not_followed_by before steps that may all be left out is tested, in the peer, only where one of them is taken: both are
// a group that may be left out. A not_next cannot begin a group.
func (t *translator) sequence(v *Vector) {
	steps := v.Pattern.Steps
	switch flat := flatten(steps); {
	case v.mayTakeNothing():
		t.line("  - group:")
		t.elements(steps, "    ", true)
		t.line("    times: 1")
	case headEmpty(steps) > 0:
		behind := headEmpty(steps)
		t.line("  - group:")
		t.line("    - group:")
		t.elements(steps[0].Group, "      ", true)
		t.line("      times: 1")
		t.elements(steps[1:behind], "    ", false)
		t.line("    optional: true")
		t.tail(steps[behind:], "  ")
	case hasTail(flat) && !hasTail(steps):
		// The steps that may be left out begin in a group: without a quantifier it is just its elements.
		t.tail(flat, "  ")
	default:
		t.tail(steps, "  ")
	}
}

// tail writes elements up to the end of the rule.
func (t *translator) tail(steps []Step, indent string) {
	end := len(steps)
	if t.unbounded {
		// Nothing says how long a negation holds that comes to stand at the end, beside one that has a gap.
		for end > 0 && steps[end-1].negated() {
			end--
		}
	}
	first := len(indent) == 2 && steps[0].Contiguity == ""
	begin, rest := tailBegin(steps[:end])
	if begin == rest {
		t.elements(steps, indent, first)
		return
	}
	t.elements(steps[:begin], indent, first)
	t.line("%s- group:", indent)
	t.elements(steps[begin:rest], indent+"  ", false)
	t.line("%s  - group:", indent)
	t.inside(steps[rest:end], indent+"    ")
	t.line("%s    contiguity: %s", indent, link(steps[rest].Contiguity))
	t.line("%s    times: 1", indent)
	t.line("%s  optional: true", indent)
	t.elements(steps[end:], indent, false)
}

// inside writes the end of the rule as the elements of a group, whose own word links the first of them.
func (t *translator) inside(steps []Step, indent string) {
	steps = slices.Clone(steps)
	steps[0].Contiguity = ""
	t.tail(steps, indent)
}

func link(contiguity string) string {
	if contiguity == "" {
		return "relaxed"
	}
	return contiguity
}

// headEmpty returns the index behind the negations that follow a first group which may be empty, 0 where it is not so.
func headEmpty(steps []Step) int {
	behind := 1
	for behind < len(steps) && steps[behind].negated() {
		behind++
	}
	if s := &steps[0]; behind > 1 && s.Group != nil && s.Min == nil && !s.Optional && s.empty() {
		return behind
	}
	return 0
}

// tailBegin returns where the not_followed_by begin behind which nothing must come, but something may, and where that is;
// twice the same where there are none, or where another negation ends the pattern.
func tailBegin(steps []Step) (begin, rest int) {
	if n := len(steps); n == 0 || steps[n-1].negated() {
		return 0, 0
	}
	for i := range steps {
		if !steps[i].negated() || slices.ContainsFunc(steps[i+1:], func(s Step) bool { return !s.empty() }) {
			continue
		}
		for begin, rest = i, i; steps[rest].negated(); rest++ {
			if steps[rest].Contiguity == "not_next" {
				begin = rest + 1
			}
		}
		return begin, rest
	}
	return 0, 0
}

func hasTail(steps []Step) bool {
	begin, rest := tailBegin(steps)
	return begin < rest
}

// flatten puts the elements of groups without a quantifier in their place.
func flatten(steps []Step) []Step {
	var out []Step
	for _, s := range steps {
		if s.Group == nil || s.Min != nil || s.Optional {
			out = append(out, s)
			continue
		}
		inner := flatten(s.Group)
		inner[0].Contiguity = s.Contiguity
		out = append(out, inner...)
	}
	return out
}

// elements writes a sequence, that of the rule or of a group.
func (t *translator) elements(steps []Step, indent string, first bool) {
	for i := range steps {
		s := &steps[i]
		switch {
		case s.Group != nil:
			t.line("%s- group:", indent)
			t.elements(s.Group, indent+"  ", first && i == 0)
		case s.negated():
			t.line("%s- absent: %s", indent, t.names[s.Name])
		default:
			t.line("%s- step: %s", indent, t.names[s.Name])
		}
		t.words(s, indent+"  ", first && i == 0)
	}
}

// words writes the keys of an element.
func (t *translator) words(s *Step, indent string, first bool) {
	word := func(name, value string) { t.line("%s%s: %s", indent, name, value) }
	if s.Where != "" {
		word("where", quote(t.condition(s, s.Where)))
	}
	switch s.Contiguity {
	case "strict", "not_next":
		word("contiguity", "strict")
	case "any":
		word("contiguity", "any")
	}
	for _, q := range s.Quantifiers {
		t.quantifier(q, word)
	}
	if s.Min != nil {
		word("times", times(*s.Min, s.Max))
	}
	if s.Optional {
		word("optional", "true")
	}
	// On exactly one event greedy says only that the step may not be left out where it could take the event.
	if s.Greedy && (s.Min == nil || s.loops() || s.Optional || *s.Min == 0) {
		word("greedy", "true")
	}
	for _, u := range s.Until {
		word("until", quote(t.condition(s, u)))
	}
	// A loop of exactly one event has no inside: its inner words mean nothing, and ours may not stand there.
	if s.Min == nil || s.loops() || len(s.Inner) > 1 {
		for _, w := range s.Inner {
			if w != "relaxed" || s.Min == nil || len(s.Inner) > 1 {
				word("loop", w)
			}
		}
	}
	if s.Group != nil {
		return // gaps have no effect on a group in the peer
	}
	if s.loops() && s.LoopGapMS != nil && *s.LoopGapMS > 0 {
		word("loop_within", window(*s.LoopGapMS))
	}
	switch {
	case s.GapMS == 0:
	case s.negated():
		word("for", window(s.GapMS))
	case !first:
		word("within", window(s.GapMS))
	case s.loops() && s.LoopGapMS == nil:
		// Before the first element there is no event that a gap could count from; between its own events it holds.
		word("loop_within", window(s.GapMS))
	}
}

// quantifier writes one word of a definition that gives too many. Given twice, a word of ours is a duplicate key.
func (t *translator) quantifier(q string, word func(name, value string)) {
	switch {
	case q == "?":
		word("optional", "true")
	case q == "1+":
		word("times", "1..")
	case q == "g":
		word("greedy", "true")
	case q == "strict" || q == "any":
		word("loop", q)
	case strings.HasPrefix(q, "{"):
		low, high, bounded := strings.Cut(strings.Trim(q, "{}"), ",")
		if bounded {
			low += ".." + high
		}
		word("times", low)
	default:
		t.missing = "quantifier " + q
	}
}

func (t *translator) after(a AfterMatch) {
	switch a.Strategy {
	case "no_skip", "":
		t.line("  after_match: none")
		return
	case "skip_past_last":
		t.line("  after_match: past_last")
	case "skip_to_next":
		t.line("  after_match: to_next")
	case "skip_to_first", "skip_to_last":
		name, known := t.names[a.Step]
		if !known {
			name = "s_" + identifier(a.Step)
		}
		t.line("  after_match: {%s: %s}", strings.TrimPrefix(a.Strategy, "skip_"), name)
	default:
		t.missing = "after_match " + a.Strategy
	}
	t.line("  emit: ordered")
}

// loops reports whether the step may take more than one event, which makes its name a list.
func (s *Step) loops() bool {
	return s.Min != nil && times(*s.Min, s.Max) != "1" && times(*s.Min, s.Max) != "0..1"
}

func times(low int, high json.RawMessage) string {
	switch {
	case high == nil || string(high) == strconv.Itoa(low):
		return strconv.Itoa(low)
	case string(high) == "null":
		return fmt.Sprintf("%d..", low)
	}
	return fmt.Sprintf("%d..%s", low, high)
}

// window turns a limit that excludes its end into one that includes it, in doubled time.
func window(ms int64) string { return fmt.Sprintf("%dms", 2*ms-1) }

// quote writes a scalar that YAML reads back as it is, whatever stands in it.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always has a JSON form
	}
	return strings.TrimSpace(b.String())
}
