package oracle

import (
	"cmp"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
)

// The strategies of package patterns, by number, as the links.
const (
	skipNone    = 0
	skipPast    = 1
	skipToNext  = 2
	skipToFirst = 3
	skipToLast  = 4
)

// selection decides which candidates of one key are matches, and when they are let out.
type selection struct {
	rule   *patterns.Rule
	stream *stream
	// starts stand by position; end is the moment of the last entry.
	starts []*start
	end    cep.Moment

	held    []held
	out     []cep.Match
	refused int
}

// held is a completed candidate that waits for an earlier start (S5.5).
type held struct {
	start *start
	candidate
}

// run walks the moments of the key in their order. At each: the limit for a new start, timeouts, then what completes.
func (s *selection) run() {
	for _, now := range s.moments() {
		s.limit(now)
		if s.rule.Newest {
			s.newest(now)
		}
		if s.rule.Timeouts {
			s.timeouts(now)
		}
		s.complete(now)
		s.release(now)
	}
}

// moments are all at which something may happen: an event, the end of a wait, the completion of a candidate.
func (s *selection) moments() []cep.Moment {
	var all []cep.Moment
	for _, ev := range s.stream.events {
		all = append(all, at(ev))
	}
	for _, st := range s.starts {
		for _, w := range st.waits {
			all = append(all, w.until)
		}
		for _, c := range st.complete {
			all = append(all, c.moment)
		}
	}
	slices.SortFunc(all, cep.Moment.Compare)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(m cep.Moment) bool { return m == never || m.Compare(s.end) > 0 })
}

// limit refuses the start of this moment if there are too many others. Those count that were open before the event was
// looked at, after everything with a deadline below its time (S5.8).
func (s *selection) limit(now cep.Moment) {
	most := s.rule.Limits.StartsPerKey
	if most == 0 || now.Timed() {
		return
	}
	before := cep.Moment{Time: now.Time, Seq: now.Seq - 1}
	var open []*start
	for _, st := range s.starts {
		switch {
		case st.moment == now && len(open) >= most:
			s.refused++
			if s.rule.Limits.DropOldest {
				st = open[0] // it does not see the event
			}
			st.gone = now
		case st.moment.Compare(now) < 0 && st.open(before):
			open = append(open, st)
		}
	}
}

// newest drops, of two starts that have taken equally many steps, the one that got there earlier (S5.6). Steps are single
// and relaxed, so that a start has one beginning at a time.
func (s *selection) newest(now cep.Moment) {
	for _, a := range s.starts {
		for _, b := range s.starts {
			x, y := a.waiting(now), b.waiting(now)
			if x != nil && y != nil && len(x.took) == len(y.took) && x.from.Compare(y.from) < 0 {
				a.gone = now
			}
		}
	}
}

// timeouts lets out what expired at this moment (S5.7): of each start that stops being open because a window ended, and
// of which no candidate has all its steps, the largest assignment of those that still waited.
func (s *selection) timeouts(now cep.Moment) {
	if !now.Timed() {
		return
	}
	for _, st := range s.starts {
		if st.full || st.open(now) || st.isGone(now) {
			continue
		}
		var best []taken
		for _, w := range st.waits {
			if w.until != now {
				continue
			}
			if c := cmp.Compare(len(best), len(w.took)); c < 0 || c == 0 && compare(s.rule, w.took, best) < 0 {
				best = w.took
			}
		}
		if best != nil {
			s.emit(cep.MatchTimeout, now, candidate{best, now})
		}
	}
}

// complete holds the candidates of this moment whose start is still there, in the order in which they are to be let
// out: with `emit: ordered` by first event, then moment, then as in S5.3; else by S5.3, in which the first event is
// first.
func (s *selection) complete(now cep.Moment) {
	for _, st := range s.starts {
		if st.isGone(now) {
			continue
		}
		for _, c := range st.complete {
			if c.moment == now {
				s.held = append(s.held, held{st, c})
			}
		}
	}
	slices.SortStableFunc(s.held, func(a, b held) int {
		return cmp.Or(cmp.Compare(a.start.pos, b.start.pos), a.moment.Compare(b.moment), compare(s.rule, a.took, b.took))
	})
}

// release lets out what waits, one after the other: all of it (S5.4), or with `emit: ordered` until one is reached that
// has an earlier start open (S5.5). after_match is applied after each.
func (s *selection) release(now cep.Moment) {
	for len(s.held) > 0 {
		h := s.held[0]
		if s.rule.Ordered && slices.ContainsFunc(s.starts, func(st *start) bool { return st.pos < h.start.pos && st.open(now) }) {
			return
		}
		s.held = s.held[1:]
		s.emit(cep.MatchComplete, now, h.candidate)
		s.skip(now, h.candidate)
	}
}

// skip applies after_match (S5.4): starts that have begun, up to a position, are gone with all their candidates.
func (s *selection) skip(now cep.Moment, c candidate) {
	first, last := -1, -1 // a match without events: it began with the rule
	if len(c.took) > 0 {
		first, last = c.took[0].pos, c.took[len(c.took)-1].pos
	}
	target := slices.DeleteFunc(slices.Clone(c.took), func(t taken) bool { return t.at.Name != s.rule.Target })
	var prune func(pos int) bool
	switch s.rule.After {
	case skipNone:
		return
	case skipPast:
		prune = func(pos int) bool { return pos <= last }
	case skipToNext:
		prune = func(pos int) bool { return pos == first }
	case skipToFirst:
		prune = func(pos int) bool { return len(target) > 0 && pos < target[0].pos }
	case skipToLast:
		prune = func(pos int) bool { return len(target) > 0 && pos < target[len(target)-1].pos }
	}
	for _, st := range s.starts {
		if prune(st.pos) && st.gone == never {
			st.gone = now
		}
	}
	s.held = slices.DeleteFunc(s.held, func(h held) bool { return prune(h.start.pos) })
}

func (s *selection) emit(kind cep.MatchKind, now cep.Moment, c candidate) {
	s.out = append(s.out, cep.Match{
		Kind:      kind,
		Key:       s.stream.key,
		Moment:    now,
		Completed: c.moment,
		History:   history{rule: s.rule, took: c.took},
	})
}

// open is the number of open starts after the moment.
func (s *selection) open(now cep.Moment) int {
	n := 0
	for _, st := range s.starts {
		if st.open(now) {
			n++
		}
	}
	return n
}
