package main

import (
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/rules"
)

const (
	// ruleSeriesMax is the number of rules that have metrics of their own: some twenty series each, and one for each step. A
	// thousand are what a page can show and a server stores without being asked; the others are told together as otherRules.
	// A rule that has its own keeps them while it exists.
	ruleSeriesMax = 1_000
	otherRules    = "other"
)

// ruleTallies count for each rule since the process began. Versions of a rule begin to count anew, epochs take counts back, and
// rules come and go: what is told only grows.
type ruleTallies struct {
	*families
	of    map[string]*ruleTally
	named int
	// others are all rules without metrics of their own, those that are no more too.
	others ruleTally
	// round is that of the last count: a rule that has not been seen in it is gone.
	round uint64
	// fields are the counters that every rule has, in the order of ruleTally.counts.
	fields []ruleField
}

// ruleField is a counter of a rule: what it is told as, and where a summary has it.
type ruleField struct {
	family *family
	labels []string // behind that of the rule
	of     func(*engine.RuleSummary) uint64
}

type ruleTally struct {
	named  bool
	round  uint64
	counts []tally           // by field
	steps  map[string]*tally // only of rules that are named
	// took is in nanoseconds.
	took tally
}

func newRuleTallies(f *families) ruleTallies {
	r := ruleTallies{families: f, of: map[string]*ruleTally{}}
	field := func(x *family, of func(*engine.RuleSummary) uint64, labels ...string) {
		r.fields = append(r.fields, ruleField{x, labels, of})
	}
	field(f.visible, func(s *engine.RuleSummary) uint64 { return s.Visible })
	field(f.keyed, func(s *engine.RuleSummary) uint64 { return s.Keyed })
	field(f.starts, func(s *engine.RuleSummary) uint64 { return s.Opened })
	field(f.matches, func(s *engine.RuleSummary) uint64 { return s.Matched })
	field(f.timeouts, func(s *engine.RuleSummary) uint64 { return s.Timeouts })
	field(f.alerts, func(s *engine.RuleSummary) uint64 { return s.Alerts }, "sent")
	field(f.alerts, func(s *engine.RuleSummary) uint64 { return s.Silenced }, "silenced")
	field(f.alerts, func(s *engine.RuleSummary) uint64 { return s.Suppressed }, "suppressed")
	field(f.alerts, func(s *engine.RuleSummary) uint64 { return s.Counted }, "counted")
	field(f.errors, func(s *engine.RuleSummary) uint64 { return s.Errors })
	field(f.refusedStarts, func(s *engine.RuleSummary) uint64 { return s.Refused })
	field(f.tooLong, func(s *engine.RuleSummary) uint64 { return s.TooLong })
	field(f.braked, func(s *engine.RuleSummary) uint64 { return s.Braked })
	for i, reason := range []string{"completed", "expired", "killed", "pruned"} {
		field(f.ended, func(s *engine.RuleSummary) uint64 {
			if i < len(s.Ended) && s.Ended[i].Name == reason {
				return s.Ended[i].N
			}
			return 0 // a rule that does not run has none
		}, reason)
	}
	r.others.counts = make([]tally, len(r.fields))
	return r
}

// count takes what the rules have counted. With base nothing has grown: it is where they stood when the process began.
func (r *ruleTallies) count(list []engine.RuleSummary, base bool) {
	r.forget(list)
	for i := range list {
		s := &list[i]
		t := r.of[s.ID]
		if t == nil {
			t = &ruleTally{counts: make([]tally, len(r.fields))}
			if t.named = r.named < ruleSeriesMax; t.named {
				r.named++
				t.steps = map[string]*tally{}
			}
			r.of[s.ID] = t
		}
		for j := range r.fields {
			n := r.fields[j].of(s)
			if base {
				t.counts[j].last = n
				continue
			}
			if grown := t.counts[j].to(n); !t.named {
				r.others.counts[j].total += grown
			}
		}
		r.countTime(t, s, base)
		if !t.named {
			continue
		}
		for _, c := range s.Taken {
			x := t.steps[c.Name]
			if x == nil {
				x = &tally{}
				t.steps[c.Name] = x
			}
			if base {
				x.last = c.N
			} else {
				x.to(c.N)
			}
		}
	}
}

// forget makes room where rules are no more.
func (r *ruleTallies) forget(list []engine.RuleSummary) {
	r.round++
	for i := range list {
		if t := r.of[list[i].ID]; t != nil {
			t.round = r.round
		}
	}
	for id, t := range r.of {
		if t.round == r.round {
			continue
		}
		if t.named {
			r.named--
		}
		delete(r.of, id)
	}
}

// countTime takes what a rule has taken.
func (r *ruleTallies) countTime(t *ruleTally, s *engine.RuleSummary, base bool) {
	took := uint64(max(s.Evaluation, 0))
	if base {
		t.took.last = took
		return
	}
	if grown := t.took.to(took); !t.named {
		r.others.took.total += grown
	}
}

// put tells of the rules as they were counted last.
func (r *ruleTallies) put(e *emitter, s *wholeStatus, set *rules.Set) {
	gauges := func(name string, x *engine.RuleSummary) {
		e.put(r.open, float64(x.Open), name)
		e.put(r.draining, float64(x.Draining), name)
		e.put(r.keys, float64(x.Keys), name)
		e.put(r.openAlerts, float64(x.OpenAlerts), name)
	}
	clocks := ruleClocks(set, s)
	states := map[string]int{"running": 0, "shadow": 0, "disabled": 0, "skipped": 0, "broken": 0}
	for _, x := range set.Rules {
		if !x.Enabled {
			states["disabled"]++
		}
	}
	var other engine.RuleSummary
	otherClock := cep.AfterAll
	unnamed := 0
	for i := range s.Rules {
		x := &s.Rules[i]
		states[stateOf(x)]++
		t := r.of[x.ID]
		if t.named {
			r.putCounts(e, x.ID, t)
			for _, c := range x.Taken {
				e.put(r.steps, float64(t.steps[c.Name].total), x.ID, c.Name)
			}
			gauges(x.ID, x)
			if clock, ok := clocks[x.ID]; ok {
				e.lag(r.ruleWatermark, clock, x.ID)
			}
			if x.LastMatch != cep.BeforeAll {
				e.time(r.lastMatch, x.LastMatch.Std(), x.ID)
			}
			continue
		}
		unnamed++
		other.Open += x.Open
		other.Draining += x.Draining
		other.Keys += x.Keys
		other.OpenAlerts += x.OpenAlerts
		if clock, ok := clocks[x.ID]; ok {
			otherClock = min(otherClock, clock)
		}
	}
	if unnamed > 0 || slices.ContainsFunc(r.others.counts, func(t tally) bool { return t.total > 0 }) {
		r.putCounts(e, otherRules, &r.others)
		gauges(otherRules, &other)
		e.lag(r.ruleWatermark, otherClock, otherRules)
	}
	for state, n := range states {
		e.put(r.rules, float64(n), state)
	}
	over := 0
	for _, x := range s.Silences {
		if x.Over {
			over++
		}
	}
	e.put(r.silences, float64(len(s.Silences)-over), "active")
	e.put(r.silences, float64(over), "over")
}

func (r *ruleTallies) putCounts(e *emitter, name string, t *ruleTally) {
	for i := range r.fields {
		f := &r.fields[i]
		e.put(f.family, float64(t.counts[i].total), append([]string{name}, f.labels...)...)
	}
	e.put(r.evaluation, float64(t.took.total)/1e9, name)
}

// stateOf is the word for how a rule is.
func stateOf(s *engine.RuleSummary) string {
	switch {
	case s.Skipped != "":
		return "skipped"
	case s.Disabled != "":
		return "broken"
	case s.Shadow:
		return "shadow"
	}
	return "running"
}

// ruleClocks are the clocks of the rules: the least watermark of the streams that each reads, those of the rules whose alerts it
// reads too.
func ruleClocks(set *rules.Set, s *wholeStatus) map[string]cep.Time {
	streams := make(map[string]cep.Time, len(s.Streams))
	for i := range s.Streams {
		streams[s.Streams[i].Name] = s.Streams[i].Watermark
	}
	byID := make(map[string]*rules.Rule, len(set.Rules))
	for _, r := range set.Rules {
		byID[r.ID] = r
	}
	clocks := make(map[string]cep.Time, len(set.Rules))
	var clock func(r *rules.Rule) cep.Time
	clock = func(r *rules.Rule) cep.Time {
		if t, ok := clocks[r.ID]; ok {
			return t
		}
		t := cep.AfterAll
		for _, name := range r.Inputs() {
			if w, ok := streams[name]; ok {
				t = min(t, w)
			}
		}
		for _, id := range r.Reads { // of layers below, so this ends
			if below := byID[id]; below != nil && below.Enabled {
				t = min(t, clock(below))
			}
		}
		clocks[r.ID] = t
		return t
	}
	for _, r := range set.Rules {
		if r.Enabled {
			clock(r)
		}
	}
	return clocks
}
