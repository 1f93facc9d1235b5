package ruletest

import (
	"fmt"
	"strconv"
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
		if r.ID != b.rule.ID {
			continue
		}
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
	}
	p, ok := b.core.Furthest(r.ID)
	if !ok || p.Name < 0 {
		if r.Opened == 0 {
			return "no event fitted the first step, " + b.rule.Names[b.firstStep()]
		}
		return "of what began (" + strconv.FormatUint(r.Opened, 10) + " starts) nothing became a match" + ended(r)
	}
	return "the furthest run " + b.progress(p, r) + ended(r)
}

// progress says what a run took, and what it waited for.
func (b *bench) progress(p nfa.Progress, r *engine.RuleSummary) string {
	name := b.rule.Names[p.Name]
	e := b.element(p.Name)
	switch {
	case e == nil:
		return fmt.Sprintf("took %s and waited for %s", events(p.Total), name)
	case e.Edge && count(r, p.Name) > 0:
		return fmt.Sprintf("took %s and waited for %s to hold: end the test with {advance: %s}", events(p.Total), name,
			cep.FormatDuration(b.rule.Elements[len(b.rule.Elements)-1].For))
	case e.Absent:
		if n := count(r, p.Name); n > 0 {
			return fmt.Sprintf("took %s, and then came %s, which must be absent", events(p.Total), name)
		}
		return fmt.Sprintf("took %s and waited for time to pass without %s: end the test with {advance: %s}",
			events(p.Total), name, cep.FormatDuration(b.wait(e)))
	case e.Min > 1:
		return fmt.Sprintf("took %d of %s, which needs %d", p.Taken, name, e.Min)
	}
	return fmt.Sprintf("took %s and waited for %s", b.before(e, p.Total), name)
}

// element returns the element of a name.
func (b *bench) element(name int) *patterns.Element {
	for _, e := range b.rule.Leaves() {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// before says what was taken before an element: by name where it can have been nothing else.
func (b *bench) before(e *patterns.Element, total int) string {
	for i := range b.rule.Elements {
		if &b.rule.Elements[i] == e && i > 0 && !b.rule.Elements[i-1].Optional {
			if last := &b.rule.Elements[i-1]; !last.Absent && last.Kind == nfa.KindLeaf {
				return events(total) + " up to " + b.rule.Names[last.Name]
			}
		}
	}
	return events(total)
}

func events(n int) string {
	if n == 1 {
		return "1 event"
	}
	return fmt.Sprintf("%d events", n)
}

// firstStep is the index of the first element that takes an event.
func (b *bench) firstStep() int {
	for _, e := range b.rule.Leaves() {
		if !e.Absent {
			return e.Name
		}
	}
	return 0
}

func (b *bench) wait(e *patterns.Element) cep.Duration {
	if e.For > 0 {
		return e.For
	}
	return b.rule.Within
}

// ended says how starts ended that did not become matches.
func ended(r *engine.RuleSummary) string {
	var parts []string
	for _, c := range r.Ended {
		if c.N > 0 && c.Name != nfa.EndCompleted.String() {
			parts = append(parts, fmt.Sprintf("%d %s", c.N, c.Name))
		}
	}
	if parts == nil {
		return ""
	}
	return "; starts: " + strings.Join(parts, ", ")
}

// count is what a name of the rule has taken.
func count(r *engine.RuleSummary, name int) uint64 {
	if name < len(r.Taken) {
		return r.Taken[name].N
	}
	return 0
}
