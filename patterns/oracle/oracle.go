package oracle

import (
	"cmp"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
)

// Input is everything that one rule sees.
type Input struct {
	// Entries are events in total order (Seq ascending, S1.1) and watermarks between them. An event carries the watermark
	// just below its time.
	Entries []Entry
	// FirstTime is the rule's first time (S4.3): cep.BeforeAll where everything is known from the beginning.
	FirstTime cep.Time
}

// Entry is an event, or a watermark where Event is nil.
type Entry struct {
	Event     *cep.Event
	Watermark cep.Time
}

// Output is what a rule gives for an Input.
type Output struct {
	// Matches are what the rule let out up to the last entry, in the order of (moment, key), timeouts of a moment before
	// its matches, these in the order of S5.3 (S5.5 where matches were held back).
	Matches []cep.Match
	// Open is the number of open starts of all keys after each entry, Keys the number of keys that have one.
	Open, Keys []int
	// Refused is the number of starts that starts_per_key refused.
	Refused int
}

// Run gives what the rule lets out over a complete, finite input.
func Run(r *patterns.Rule, in Input) Output {
	events, moments := timeline(in.Entries)
	out := Output{Open: make([]int, len(moments)), Keys: make([]int, len(moments))}
	if len(moments) == 0 {
		return out
	}
	var leaves []*node
	rule := items(tree(r.Elements, &leaves), noLink, nil)
	var silence *node
	if len(r.Keys) > 0 {
		silence = leaves[len(leaves)-1] // such a rule is a step and an absence (S4.4)
	}
	entries := without(r, &leaves)
	for _, st := range streams(r, leaves, in, events) {
		if r.Pattern != nil { // S6
			matches, open := rowMatches(r, st, leaves, rowMoments(r, st, moments))
			out.Matches = append(out.Matches, matches...)
			for i, now := range moments {
				if open[now] {
					out.Open[i]++
					out.Keys[i]++
				}
			}
			continue
		}
		s := &selection{rule: r, stream: st, end: moments[len(moments)-1]}
		if slices.Contains(r.Keys, st.key) && in.FirstTime > cep.BeforeAll {
			s.starts = append(s.starts, present(st, silence))
		}
		for p := range st.events {
			if one := enumerate(st, rule, entries, p); one != nil {
				s.starts = append(s.starts, one)
			}
		}
		s.run()
		out.Matches = append(out.Matches, s.out...)
		out.Refused += s.refused
		for i, now := range moments {
			n := s.open(now)
			out.Open[i] += n
			out.Keys[i] += min(n, 1)
		}
	}
	slices.SortStableFunc(out.Matches, func(a, b cep.Match) int {
		return cmp.Or(a.Moment.Compare(b.Moment), cmp.Compare(a.Key, b.Key))
	})
	return out
}

// timeline gives the events, and the moment that each entry stands for: what is decided at or before it has been decided
// once the entry was looked at (S5.2).
func timeline(entries []Entry) (events []*cep.Event, moments []cep.Moment) {
	now := cep.Moment{Time: cep.BeforeAll}
	for _, e := range entries {
		next := cep.Moment{Time: e.Watermark, Seq: cep.ByTime}
		if e.Event != nil {
			next = at(e.Event)
			events = append(events, e.Event)
		}
		if next.Compare(now) > 0 {
			now = next
		}
		moments = append(moments, now)
	}
	return events, moments
}

// at is the moment of an event (S5.3).
func at(ev *cep.Event) cep.Moment { return cep.Moment{Time: ev.Time, Seq: ev.Seq} }

// after is the moment at which time alone decides that d is over (S5.2).
func after(d cep.Time) cep.Moment { return cep.Moment{Time: d, Seq: cep.ByTime} }

// never is after every moment: that of a deadline that does not exist.
var never = after(cep.AfterAll)

// least returns the earlier of two moments.
func least(a, b cep.Moment) cep.Moment {
	if b.Compare(a) < 0 {
		return b
	}
	return a
}

// latest returns the later of two moments.
func latest(a, b cep.Moment) cep.Moment {
	if b.Compare(a) > 0 {
		return b
	}
	return a
}
