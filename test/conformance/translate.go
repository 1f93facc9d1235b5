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
	t := translator{names: map[string]string{}}
	t.collect(v.Pattern.Steps)
	if t.missing != "" {
		return &Translation{Missing: t.missing}
	}
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
		t.line("  unbounded: true")
	}
	t.line("  sequence:")
	for i := range v.Pattern.Steps {
		t.step(&v.Pattern.Steps[i], i == 0)
	}
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
	steps   []*Step
	names   map[string]string // our step names by the peer's
	missing string
}

func (t *translator) line(format string, args ...any) {
	fmt.Fprintf(&t.text, format+"\n", args...)
}

// collect gives every step a name of ours. Names of peers may be reserved words here ("e") or hold odd characters
// ("not c"), so all get a prefix.
func (t *translator) collect(steps []Step) {
	used := map[string]bool{}
	for i := range steps {
		s := &steps[i]
		switch {
		case s.Group != nil:
			t.missing = "group"
			return
		case s.Greedy || slices.Contains(s.Quantifiers, "g"):
			t.missing = "greedy"
			return
		case s.Until != nil:
			t.missing = "until"
			return
		}
		t.steps = append(t.steps, s)
		if _, again := t.names[s.Name]; again {
			continue
		}
		name := "s_" + identifier(s.Name)
		for used[name] {
			name += "_"
		}
		used[name] = true
		t.names[s.Name] = name
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

// step writes one element of the sequence.
func (t *translator) step(s *Step, first bool) {
	word := "step"
	if s.negated() {
		word = "absent"
	}
	t.line("  - %s: %s", word, t.names[s.Name])
	if s.Where != "" {
		t.line("    where: %s", quote(t.condition(s)))
	}
	switch s.Contiguity {
	case "strict", "not_next":
		t.line("    contiguity: strict")
	case "any":
		t.line("    contiguity: any")
	}
	for _, q := range s.Quantifiers {
		t.quantifier(q)
	}
	if s.Min != nil {
		t.line("    times: %s", times(*s.Min, s.Max))
	}
	if s.Optional {
		t.line("    optional: true")
	}
	// A loop of exactly one event has no inside: its inner words mean nothing, and ours may not stand there.
	if s.Min == nil || s.loops() || len(s.Inner) > 1 {
		for _, w := range s.Inner {
			if w != "relaxed" || s.Min == nil || len(s.Inner) > 1 {
				t.line("    loop: %s", w)
			}
		}
		if s.LoopGapMS != nil && *s.LoopGapMS > 0 {
			t.line("    loop_within: %s", window(*s.LoopGapMS))
		}
	}
	if s.GapMS > 0 {
		if s.negated() {
			t.line("    for: %s", window(s.GapMS))
		} else {
			t.line("    within: %s", window(s.GapMS))
		}
	}
}

// quantifier writes one word of a definition that gives too many. Given twice, a word of ours is a duplicate key.
func (t *translator) quantifier(q string) {
	switch {
	case q == "?":
		t.line("    optional: true")
	case q == "1+":
		t.line("    times: 1..")
	case q == "strict" || q == "any":
		t.line("    loop: %s", q)
	case strings.HasPrefix(q, "{"):
		low, high, bounded := strings.Cut(strings.Trim(q, "{}"), ",")
		if bounded {
			low += ".." + high
		}
		t.line("    times: %s", low)
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
