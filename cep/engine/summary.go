package engine

import (
	"maps"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
)

// Summary is what a Core has done so far.
type Summary struct {
	Streams []StreamSummary `json:"streams"`
	Rules   []RuleSummary   `json:"rules"`
	// Silences stand in the order of their ids.
	Silences []SilenceSummary `json:"silences,omitempty"`
}

// SilenceSummary is how a silence is.
type SilenceSummary struct {
	ID string `json:"id"`
	// Over says that event time has passed its end: it can go.
	Over bool `json:"over,omitempty"`
}

// StreamSummary is what became of the events of a stream.
type StreamSummary struct {
	Name string `json:"name"`
	// Events is the number of events read, Taken that of those which took their place in the order. The rest is Late
	// (behind their own partition), Returned (below what the stream had released, from a partition that came back) or
	// Future (too far ahead to be true).
	Events   uint64 `json:"events"`
	Taken    uint64 `json:"taken"`
	Late     uint64 `json:"late"`
	Returned uint64 `json:"returned"`
	Future   uint64 `json:"future"`
	// Bad is the number of records that are no events, by kind, and FirstBad what was wrong with the first.
	Bad      map[string]uint64 `json:"bad"`
	FirstBad string            `json:"first_bad,omitempty"`
	// Behind is the furthest that an event came behind the highest time of its partition, late ones too: the lateness that
	// would have been enough.
	Behind cep.Duration `json:"behind_ns"`
	// Highest is the highest time taken; [cep.BeforeAll] without events.
	Highest cep.Time `json:"highest_ns"`
}

// clone returns a summary that does not change any more.
func (s *StreamSummary) clone() StreamSummary {
	c := *s
	c.Bad = maps.Clone(s.Bad)
	if c.Bad == nil {
		c.Bad = map[string]uint64{}
	}
	return c
}

// RuleSummary is the funnel of a rule: where events, starts and matches went.
type RuleSummary struct {
	ID string `json:"id"`
	// Revision and Fingerprint are those of the rule; older versions may drain beside it.
	Revision    int64  `json:"revision,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	// Skipped says why the rule was not run, Disabled why it stopped.
	Skipped  string `json:"skipped,omitempty"`
	Disabled string `json:"disabled,omitempty"`
	// Shadow rules run and count, and deliver nothing.
	Shadow bool `json:"shadow,omitempty"`
	// Seen is the number of events of the rule's streams, alerts that it reads included. Visible are those which the rule's `where` and exceptions let
	// through, of those that one of its steps could take by the constants it compares with; Keyed belong to a key.
	Seen    uint64 `json:"seen"`
	Visible uint64 `json:"visible"`
	Keyed   uint64 `json:"keyed"`
	// NoKey is how often an element found no key in a visible event, TooManyKeys how often because there were too many.
	NoKey       uint64 `json:"no_key"`
	TooManyKeys uint64 `json:"too_many_keys"`
	// Hidden is the number of events that each exception hid.
	Hidden []Count `json:"hidden"`
	// Taken counts by name: the candidates that a step took an event for, or that an absence killed.
	Taken []Count `json:"taken"`
	// Opened is the number of starts, Ended that of starts that are no longer open, by reason; Open are those that still
	// are, in Keys keys.
	Opened uint64  `json:"opened"`
	Ended  []Count `json:"ended"`
	Open   int     `json:"open"`
	Keys   int     `json:"keys"`
	// Draining is the number of starts that are open under older versions of the rule.
	Draining int `json:"draining,omitempty"`
	// Matched and Timeouts are what was let out; Alerts went out (reminders and the like too), Silenced and Suppressed were
	// held back, Counted changed nothing because an alert was open. OpenAlerts are open now.
	Matched    uint64 `json:"matched"`
	Timeouts   uint64 `json:"timeouts"`
	Alerts     uint64 `json:"alerts"`
	Silenced   uint64 `json:"silenced,omitempty"`
	Suppressed uint64 `json:"suppressed"`
	Counted    uint64 `json:"counted"`
	OpenAlerts int    `json:"open_alerts"`
	// LastMatch is the time of the newest match; [cep.BeforeAll] before the first.
	LastMatch cep.Time `json:"last_match_ns"`
	// Refused is the number of starts beyond `starts_per_key`, TooLong that of candidates beyond `events_per_match`.
	Refused uint64 `json:"refused"`
	TooLong uint64 `json:"too_long"`
	// Braked is the number of events that the brakes `keys_max` and `state_bytes` kept from beginning anything.
	Braked uint64 `json:"braked,omitempty"`
	// Skips is the number of matches of a row pattern after which it went on at the next event, because the step that
	// after_match names took nothing or only the first event (S6.3).
	Skips uint64 `json:"skips,omitempty"`
	// Evaluation is what the rule's machines took for events, an estimate from those that were timed ([Options.Timer]); a
	// change of the rules begins it anew.
	Evaluation cep.Duration `json:"evaluation_ns,omitempty"`
	// Errors is the number of evaluation errors, LastError the newest of them, ErrorAt the time of its event; 0 where nobody
	// knows, as after a restart.
	Errors    uint64   `json:"errors"`
	LastError string   `json:"last_error,omitempty"`
	ErrorAt   cep.Time `json:"error_at_ns,omitempty"`
}

// Count is a number with its name.
type Count struct {
	Name string `json:"name"`
	N    uint64 `json:"n"`
}

// Summary returns what has been done so far, streams in their order and rules by id. It looks at counters only, once all that
// was pushed has been worked off.
func (c *Core) Summary() Summary {
	c.pause()
	s := Summary{Streams: c.Streams()}
	for _, r := range c.skipped {
		r.LastMatch = cep.BeforeAll
		s.Rules = append(s.Rules, r)
	}
	for _, e := range c.rules {
		s.Rules = append(s.Rules, c.summaryOf(e))
	}
	slices.SortFunc(s.Rules, func(a, b RuleSummary) int { return strings.Compare(a.ID, b.ID) })
	for _, x := range c.set.Silences {
		s.Silences = append(s.Silences, SilenceSummary{ID: x.ID, Over: x.Over(c.seen())})
	}
	return s
}

// Streams is what [Core.Summary] says of streams; it waits for nothing.
func (c *Core) Streams() []StreamSummary {
	var list []StreamSummary
	for _, st := range c.streams {
		sum := st.summary.clone()
		sum.Highest = st.highest
		list = append(list, sum)
	}
	return list
}

// seen is the time that events have shown to be behind all clocks: time that was only moved on, at the end of a recording, does
// not count.
func (c *Core) seen() cep.Time {
	now := cep.BeforeAll
	for _, st := range c.streams {
		now = max(now, st.highest)
	}
	for _, j := range c.back.junctions {
		now = min(now, j.released)
	}
	return now
}

func (c *Core) summaryOf(e *enrolled) RuleSummary {
	s := RuleSummary{ID: e.rule.ID, Revision: e.rule.Revision, Fingerprint: e.rule.Fingerprint, Shadow: e.rule.Shadow, LastMatch: cep.BeforeAll}
	in, run := routed{hidden: make([]uint64, len(e.rule.Exceptions))}, nfa.Counters{Taken: make([]uint64, len(e.rule.Names))}
	for _, v := range e.versions {
		x, j := c.back.issuers[v], c.back.junctions[v.clock.index]
		if s.Disabled == "" {
			s.Disabled = x.disabled
		}
		s.Seen = j.alerts
		for _, st := range v.clock.streams {
			s.Seen += st.summary.Taken
		}
		in.add(c.routed(v))
		c.addCounters(&run, v)
		for _, x := range v.all() {
			for _, p := range c.parts(x) {
				s.Evaluation += p.took * timedMean
			}
		}
		open, keys := c.open(v)
		s.Open += open
		s.Keys += keys
		for _, old := range v.drains {
			n, _ := c.open(old)
			s.Draining += n
		}
		out := x.maker.Counters()
		s.Alerts += out.Alerts
		s.Silenced += out.Silenced
		s.Suppressed += out.Suppressed
		s.Counted += out.Counted
		s.OpenAlerts += x.maker.Open()
		s.LastMatch = max(s.LastMatch, out.LastMatch)
		s.Errors += out.Errors
		s.fail(out.LastError, out.ErrorAt)
	}
	s.Visible, s.Keyed, s.NoKey, s.TooManyKeys = in.visible, in.keyed, in.noKey, in.tooManyKeys
	s.Opened, s.Matched, s.Timeouts = run.Opened, run.Matched, run.Timeouts
	s.Refused, s.TooLong, s.Braked, s.Skips = run.Refused, run.TooLong, run.Braked, run.Skips
	s.Errors += in.errors + run.Errors
	for i, n := range in.hidden {
		s.Hidden = append(s.Hidden, Count{e.rule.Exceptions[i].Name, n})
	}
	for i, n := range run.Taken {
		s.Taken = append(s.Taken, Count{e.rule.Names[i], n})
	}
	for reason, n := range run.Ended {
		s.Ended = append(s.Ended, Count{nfa.EndReason(reason).String(), n})
	}
	s.fail(run.LastError, run.ErrorAt)
	s.fail(in.lastError, in.errorAt)
	return s
}

// fail takes note of an error, where it is newer than the one that is known.
func (s *RuleSummary) fail(text string, at cep.Time) {
	if text != "" && (s.LastError == "" || at > s.ErrorAt) {
		s.LastError, s.ErrorAt = text, at
	}
}

// addCounters adds those of a version's machines.
func (c *Core) addCounters(sum *nfa.Counters, v *version) {
	for _, p := range c.parts(v) {
		if p.gone {
			sum.Add(&p.counters)
		} else {
			sum.Add(p.machine.Counters())
		}
	}
}

// open is the number of open starts of a version, and that of its keys.
func (c *Core) open(v *version) (starts, keys int) {
	for _, p := range c.parts(v) {
		if !p.gone {
			starts += p.machine.OpenStarts()
			keys += p.machine.Keys()
		}
	}
	return starts, keys
}

// routed counts what the routers of a version saw.
func (c *Core) routed(v *version) routed {
	sum := v.clock.readers.routed(v)
	if r := c.back.junctions[v.clock.index].readers; r != nil {
		sum.add(r.routed(v))
	}
	return sum
}
