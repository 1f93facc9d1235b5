package ruletest

import (
	"fmt"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
)

// hints says what the engine's counters know about why things are not as expected. missing says that alerts are missing.
func (b *bench) hints(missing bool) []string {
	summary := b.core.Summary()
	var hints []string
	if b.foreign > 0 {
		hints = append(hints, fmt.Sprintf("%d events were on streams that the rule does not read", b.foreign))
	}
	for _, s := range summary.Streams {
		if s.Late > 0 {
			hints = append(hints, fmt.Sprintf("%d events of %s went back in time and were late: give the test a lateness", s.Late, s.Name))
		}
		if s.Future > 0 {
			hints = append(hints, fmt.Sprintf("%d events of %s lie so far ahead of the others that they were refused", s.Future, s.Name))
		}
	}
	for i := range summary.Rules {
		r := &summary.Rules[i]
		if r.Disabled != "" {
			hints = append(hints, "the rule was stopped: "+r.Disabled)
		}
		if r.Errors > 0 {
			hints = append(hints, fmt.Sprintf("%d conditions or fields had no value, which counts as false: %s", r.Errors, r.LastError))
		}
		if missing {
			hints = append(hints, b.furthest(r))
			if r.Suppressed > 0 {
				hints = append(hints, fmt.Sprintf("%d matches were held back by suppress", r.Suppressed))
			}
		}
	}
	return hints
}

// furthest says how far the rule got, and what it waited for.
func (b *bench) furthest(r *engine.RuleSummary) string {
	switch {
	case r.Seen == 0:
		return "no event was on a stream of the rule"
	case r.Visible == 0:
		return fmt.Sprintf("none of %d events passed the rule's where and exceptions, or could fit a step", r.Seen)
	case r.Keyed == 0:
		return fmt.Sprintf("none of %d visible events has a key: is a field of by missing?", r.Visible)
	case r.Opened == 0:
		return "no event fitted the first step, " + b.rule.Names[b.firstStep()]
	}
	elements := b.rule.Elements
	last := -1
	for i := range elements {
		if !elements[i].Absent && count(r, elements[i].Name) > 0 {
			last = i
		}
	}
	if last < 0 {
		return "the furthest run took nothing"
	}
	took := b.rule.Names[elements[last].Name]
	for i := last + 1; i < len(elements); i++ {
		e := &elements[i]
		if e.Absent {
			if n := count(r, e.Name); n > 0 {
				return fmt.Sprintf("the furthest run took %s; %s, which must be absent, was seen", took, b.rule.Names[e.Name])
			}
			continue
		}
		if e.Optional {
			continue
		}
		return fmt.Sprintf("the furthest run took %s and waited for %s%s", b.more(&elements[last], took), b.rule.Names[e.Name], ended(r))
	}
	if e := &elements[len(elements)-1]; e.Absent && r.Open > 0 {
		return fmt.Sprintf("the furthest run took %s and waited for time to pass without %s: end the test with {advance: %s}",
			took, b.rule.Names[e.Name], cep.FormatDuration(b.wait(e)))
	}
	return fmt.Sprintf("the furthest run took %s%s", b.more(&elements[last], took), ended(r))
}

// firstStep is the index of the first element that takes an event.
func (b *bench) firstStep() int {
	for i := range b.rule.Elements {
		if !b.rule.Elements[i].Absent {
			return b.rule.Elements[i].Name
		}
	}
	return 0
}

// more adds how many events a loop needs, since the counters do not say how many one run took.
func (b *bench) more(e *patterns.Element, name string) string {
	if e.Min > 1 {
		return fmt.Sprintf("some of %s (of which it needs %d)", name, e.Min)
	}
	return name
}

func (b *bench) wait(e *patterns.Element) cep.Duration {
	if e.For > 0 {
		return e.For
	}
	return b.rule.Within
}

// ended says how starts ended that did not become matches.
func ended(r *engine.RuleSummary) string {
	var b strings.Builder
	for _, c := range r.Ended {
		if c.N > 0 && c.Name != nfa.EndCompleted.String() {
			fmt.Fprintf(&b, "; %d %s", c.N, c.Name)
		}
	}
	return b.String()
}

// count is what a name of the rule has taken.
func count(r *engine.RuleSummary, name int) uint64 {
	if name < len(r.Taken) {
		return r.Taken[name].N
	}
	return 0
}
