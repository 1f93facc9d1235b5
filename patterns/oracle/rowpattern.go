package oracle

import (
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
)

// scan gives the matches of a row pattern over one key's stream by trying all ways in the order of preference (S6), as they
// are known at each moment: with the events up to it, and the windows that are over.
//
// At a moment everything is done anew from the first event on. A match is certain if no way that is preferred to it, of its
// own start or of an earlier one, would have gone on with one more event.
type scan struct {
	rule   *patterns.Rule
	st     *stream
	places []*place // by name
	// known is how many events there are at the moment, now the moment.
	known int
	now   cep.Moment
	// hungry says that a way of the present start wanted an event that is not there yet.
	hungry bool
	end    cep.Moment // of the present start's window
}

// rowMatches lets the matches of a key out, each at the first moment at which it is certain, and says for the moments after
// which entries stand whether a start is open. moments are all moments of the input, those at which a window ends too.
func rowMatches(r *patterns.Rule, st *stream, leaves []*node, moments []cep.Moment) (out []cep.Match, open map[cep.Moment]bool) {
	places := make([]*place, len(leaves))
	for i, l := range leaves {
		places[i] = &place{node: l}
	}
	open = map[cep.Moment]bool{}
	sure := 0
	for _, now := range moments {
		s := &scan{rule: r, st: st, places: places, now: now}
		for s.known < len(st.events) && at(st.events[s.known]).Compare(now) <= 0 {
			s.known++
		}
		found, hungry := s.all()
		open[now] = hungry
		for _, took := range found[sure:] {
			last := took[len(took)-1].event
			out = append(out, cep.Match{
				Key: st.key, Moment: now, Completed: at(last), History: history{rule: r, took: took},
			})
		}
		sure = len(found)
	}
	return out, open
}

// rowMoments are the moments of entries and those at which a window can end, in order.
func rowMoments(r *patterns.Rule, st *stream, moments []cep.Moment) []cep.Moment {
	all := slices.Clone(moments)
	if r.Within > 0 {
		for _, ev := range st.events {
			if end := after(ev.Time.Add(r.Within)); end.Compare(moments[len(moments)-1]) <= 0 {
				all = append(all, end)
			}
		}
	}
	slices.SortFunc(all, cep.Moment.Compare)
	return slices.Compact(all)
}

// all gives the matches that are certain, from left to right, and whether it ended at a start that is not decided.
func (s *scan) all() (found [][]taken, hungry bool) {
	for start := 0; start < s.known; {
		s.hungry = false
		s.end = never
		if s.rule.Within > 0 {
			s.end = after(s.st.events[start].Time.Add(s.rule.Within))
		}
		took, ok := s.way(s.rule.Pattern, start, nil, func(took []taken) ([]taken, bool) { return took, true })
		if s.hungry {
			return found, true
		}
		if !ok || len(took) == 0 {
			start++ // no match, or an empty one, which is none and uses its start up (S6.2)
			continue
		}
		found = append(found, took)
		start += s.skip(took)
	}
	return found, false
}

// skip is S6.3.
func (s *scan) skip(took []taken) int {
	target := -1
	switch s.rule.After {
	case skipPast:
		return len(took)
	case skipToFirst:
		target = slices.IndexFunc(took, func(t taken) bool { return t.at.Name == s.rule.Target })
	case skipToLast:
		for i, t := range took {
			if t.at.Name == s.rule.Target {
				target = i
			}
		}
	default:
	}
	return max(target, 1)
}

// way tries the ways through a part, most preferred first, and for each what comes behind it. It gives the first that is
// complete. start is where the match begins, took what it has, so that the next event is at start + len(took).
//
// It stops at a way that wants an event which is not there, because nothing behind it in the order can be certain; unless
// the start's window is over, then the way is none.
func (s *scan) way(row *patterns.Row, start int, took []taken, then func([]taken) ([]taken, bool)) ([]taken, bool) {
	if s.hungry {
		return nil, false
	}
	switch row.Kind {
	case patterns.RowStep:
		return s.step(row.Name, start, took, then)
	case patterns.RowSequence:
		return s.sequence(pointers(row.Parts), start, took, then)
	case patterns.RowChoice:
		for i := range row.Parts {
			if w, ok := s.way(&row.Parts[i], start, took, then); ok || s.hungry {
				return w, ok
			}
		}
		return nil, false
	case patterns.RowPermute:
		return s.permute(pointers(row.Parts), nil, start, took, then)
	case patterns.RowExclude:
		return s.way(&row.Parts[0], start, took, then)
	default:
		return s.repeat(row, 0, start, took, then)
	}
}

func pointers(parts []patterns.Row) []*patterns.Row {
	var out []*patterns.Row
	for i := range parts {
		out = append(out, &parts[i])
	}
	return out
}

func (s *scan) sequence(parts []*patterns.Row, start int, took []taken, then func([]taken) ([]taken, bool)) ([]taken, bool) {
	if len(parts) == 0 {
		return then(took)
	}
	return s.way(parts[0], start, took, func(took []taken) ([]taken, bool) {
		return s.sequence(parts[1:], start, took, then)
	})
}

// permute tries the orders of parts as SQL lists them: each time the first written of those that are left.
func (s *scan) permute(left, chosen []*patterns.Row, start int, took []taken, then func([]taken) ([]taken, bool)) ([]taken, bool) {
	if len(left) == 0 {
		return s.sequence(chosen, start, took, then)
	}
	for i, p := range left {
		rest := slices.Delete(slices.Clone(left), i, i+1)
		if w, ok := s.permute(rest, append(slices.Clone(chosen), p), start, took, then); ok || s.hungry {
			return w, ok
		}
	}
	return nil, false
}

// repeat is a quantifier of which n iterations are behind.
func (s *scan) repeat(row *patterns.Row, n, start int, took []taken, then func([]taken) ([]taken, bool)) ([]taken, bool) {
	again := func() ([]taken, bool) {
		if row.Max >= 0 && n >= row.Max {
			return nil, false
		}
		return s.way(&row.Parts[0], start, took, func(now []taken) ([]taken, bool) {
			if len(now) == len(took) && row.Max < 0 {
				// An iteration without an event: allowed where it is required and as the very first, and then the loop is left.
				if n+1 < row.Min {
					return s.repeat(row, n+1, start, now, then)
				}
				if n == 0 || n < row.Min {
					return then(now)
				}
				return nil, false
			}
			return s.repeat(row, n+1, start, now, then)
		})
	}
	if n < row.Min {
		return again()
	}
	if row.Reluctant {
		if w, ok := then(took); ok || s.hungry {
			return w, ok
		}
		return again()
	}
	if w, ok := again(); ok || s.hungry {
		return w, ok
	}
	return then(took)
}

// step takes the next event, which must be the very next of the stream.
func (s *scan) step(name, start int, took []taken, then func([]taken) ([]taken, bool)) ([]taken, bool) {
	p := start + len(took)
	if p >= s.known {
		s.hungry = s.now.Compare(s.end) < 0 // there may be more inside the window
		return nil, false
	}
	ev := s.st.events[p]
	if limit := s.rule.Limits.EventsPerMatch; limit > 0 && len(took) >= limit {
		return nil, false
	}
	if at(ev).Compare(s.end) > 0 || !s.st.meets(s.places[name].node, p, took) {
		return nil, false
	}
	return then(append(slices.Clone(took), taken{event: ev, at: s.places[name], pos: p}))
}
