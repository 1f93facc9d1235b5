package oracle

import (
	"cmp"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
)

// The words of package patterns for links, by number: this package reads no code of the machine's.
const (
	linkStrict = 1
	linkAny    = 3 // 2 is relaxed
)

// forever is the `for` of an absence at the start that looks back without a bound.
const forever = cep.Duration(cep.AfterAll)

// start is an event that is the first of candidates (S3.1), with all that can come of it.
type start struct {
	pos    int
	moment cep.Moment
	// waits are the beginnings of candidates, each while it can still complete.
	waits []wait
	// complete are the candidates, with their moments.
	complete []candidate
	// full says that some candidate has all its steps, whether or not it completed (S5.7).
	full bool
	// gone is when the start was pruned or refused; never where it was not.
	gone cep.Moment
}

// wait is a beginning of a candidate that can complete if the right event comes, or time passes. It stands from the
// moment of its last event until it is over: it was killed, or the one event it could take came, or its window ended.
type wait struct {
	took        []taken
	from, until cep.Moment
}

// candidate is an assignment that the rule admits; took holds it in time order.
type candidate struct {
	took   []taken
	moment cep.Moment
}

// beginning is a candidate up to some event, in one expansion: step is the last that took an event, and has taken n.
type beginning struct {
	*expansion
	step, n int
	took    []taken
}

// search enumerates what begins with one start.
type search struct {
	*start
	rule   *patterns.Rule
	stream *stream
}

// enumerate gives the start at position p: an event that fits the first element of an expansion (S3.1), where the
// absences before it hold. It is nil where p is no start.
func enumerate(r *patterns.Rule, st *stream, xs []*expansion, p int, firstTime cep.Time) *start {
	s := search{start: &start{pos: p, moment: at(st.events[p]), gone: never}, rule: r, stream: st}
	begun := false
	for _, x := range xs {
		if st.fits(x.steps[0], p, nil) && s.quietBefore(x, p, firstTime) {
			begun = true
			s.grow(beginning{expansion: x, n: 1, took: s.take(nil, x.steps[0], p)})
		}
	}
	if !begun {
		return nil
	}
	return s.start
}

// quietBefore: no forbidden event before the first one, as far back as `for` says; nothing matches before the rule has
// known its stream for that long, but with from_start (S4.3). The condition sees the first element's event.
func (s search) quietBefore(x *expansion, p int, firstTime cep.Time) bool {
	t := s.stream.events[p].Time
	first := s.take(nil, x.steps[0], p)
	for _, i := range x.before[0] {
		a := s.rule.Elements[i]
		if !a.FromStart && t < firstTime.Add(a.For) {
			return false
		}
		for q := range p {
			recent := a.For == forever || s.stream.events[q].Time >= t.Add(-a.For)
			if recent && s.stream.fits(i, q, first) {
				return false
			}
		}
	}
	return true
}

// take is the assignment with one more event.
func (s search) take(took []taken, element, p int) []taken {
	t := taken{event: s.stream.events[p], name: s.rule.Elements[element].Name, pos: p}
	return append(slices.Clip(took), t)
}

// grow writes down everything that can come of a beginning: the loop it is in takes another event, or it is left, for
// the next step or for the end. Every admissible length is a candidate (S3.3).
func (s search) grow(b beginning) {
	e := s.rule.Elements[b.steps[b.step]]
	if e.Max < 0 || b.n < e.Max {
		s.again(b, e)
	}
	switch {
	case b.n < e.Min:
	case b.step+1 < len(b.steps):
		s.next(b)
	default:
		s.full = true
		s.finish(b)
	}
}

// again lets the loop take one more event, by its inner link. Absences between the loop and the next step forbid events
// from the loop's first event on, the loop's own too, so that one of these ends every way on (S4.1).
func (s search) again(b beginning, e patterns.Element) {
	var absences []int
	if b.step+1 < len(b.steps) {
		absences = b.before[b.step+1]
	}
	s.await(b, max(e.Min-b.n, 1), e.LoopWithin, func(p int, very bool) bool {
		for _, i := range absences {
			if strict := s.rule.Elements[i].Link == linkStrict; strict && (!very || b.n < e.Min) {
				continue // only the very next event, after an event at which the loop could be left
			}
			if s.stream.fits(i, p, b.took) {
				return true
			}
		}
		fits := s.stream.fits(b.steps[b.step], p, b.took)
		if fits && (very || e.Loop != linkStrict) {
			s.grow(beginning{b.expansion, b.step, b.n + 1, s.take(b.took, b.steps[b.step], p)})
		}
		return e.Loop == linkStrict || fits && e.Loop != linkAny
	})
}

// next lets the next step take its first event, by its link (S3.2), if no absence between the two is broken (S4.1).
func (s search) next(b beginning) {
	i := b.steps[b.step+1]
	e := s.rule.Elements[i]
	s.await(b, 0, e.Within, func(p int, very bool) bool {
		forbidden := false
		for _, j := range b.before[b.step+1] {
			fits := s.stream.fits(j, p, b.took)
			if s.rule.Elements[j].Link == linkStrict {
				if fits && very {
					return true // it kills even if the next step would take it
				}
				continue
			}
			forbidden = forbidden || fits
		}
		fits := s.stream.fits(i, p, b.took)
		if fits && (very || e.Link != linkStrict) { // forbidden and next: taken
			s.grow(beginning{b.expansion, b.step + 1, 1, s.take(b.took, i, p)})
		}
		return e.Link == linkStrict || forbidden || fits && e.Link != linkAny
	})
}

// await offers a beginning the events after its last one, as long as its windows are open (S5.1): that of the step
// waited for, from the event before, and that of the rule, from the first. offer says whether the wait is over; very
// marks the very next event. A candidate that takes more than events_per_match does not exist (S5.8), so nothing begins
// it: more is what the loop still needs, each step behind needs at least its Min.
func (s search) await(b beginning, more int, within cep.Duration, offer func(p int, very bool) bool) {
	for _, i := range b.steps[b.step+1:] {
		more += s.rule.Elements[i].Min
	}
	if most := s.rule.Limits.EventsPerMatch; most > 0 && len(b.took)+more > most {
		return
	}
	first, last := b.took[0], b.took[len(b.took)-1]
	end := cep.AfterAll
	if within > 0 {
		end = min(end, last.event.Time.Add(within))
	}
	if s.rule.Within > 0 {
		end = min(end, first.event.Time.Add(s.rule.Within))
	}
	until := after(end)
	for p := last.pos + 1; p < len(s.stream.events) && s.stream.events[p].Time <= end; p++ {
		if offer(p, p == last.pos+1) {
			until = at(s.stream.events[p])
			break
		}
	}
	s.waits = append(s.waits, wait{b.took, at(last.event), until})
}

// finish completes a candidate that has all its steps: at once, or when its absences at the end are decided, the last
// of them (S4.2). A forbidden event after its last one, not above the deadline, kills it.
func (s search) finish(b beginning) {
	first, last := b.took[0].event, b.took[len(b.took)-1]
	moment, killed := at(last.event), never
	for _, i := range b.end {
		a := s.rule.Elements[i]
		deadline := cep.AfterAll
		switch {
		case a.For > 0:
			deadline = last.event.Time.Add(a.For)
		case s.rule.Within > 0:
			deadline = first.Time.Add(s.rule.Within)
		}
		decided := after(deadline)
		for p := last.pos + 1; p < len(s.stream.events) && s.stream.events[p].Time <= deadline; p++ {
			if s.stream.fits(i, p, b.took) {
				killed = least(killed, at(s.stream.events[p]))
				break
			}
			if a.Link == linkStrict { // the very next event decides
				decided = at(s.stream.events[p])
				break
			}
		}
		if decided.Compare(moment) > 0 {
			moment = decided
		}
	}
	if len(b.end) > 0 {
		s.waits = append(s.waits, wait{b.took, at(last.event), least(moment, killed)})
	}
	if killed == never && moment != never {
		s.complete = append(s.complete, candidate{b.took, moment})
	}
}

// open: some candidate that begins with this start can still complete after the moment.
func (s *start) open(now cep.Moment) bool {
	if now.Compare(s.gone) >= 0 && s.gone != never {
		return false
	}
	return slices.ContainsFunc(s.waits, func(w wait) bool {
		return w.from.Compare(now) <= 0 && (w.until == never || now.Compare(w.until) < 0)
	})
}

// compare orders assignments of one moment (S5.3): the earliest first event; name by name, the one that took more; the
// earlier position, over all events in time order.
func compare(r *patterns.Rule, a, b []taken) int {
	if c := cmp.Compare(a[0].pos, b[0].pos); c != 0 {
		return c
	}
	for name := range r.Names {
		if c := cmp.Compare(took(b, name), took(a, name)); c != 0 {
			return c
		}
	}
	return slices.CompareFunc(a, b, func(x, y taken) int { return cmp.Compare(x.pos, y.pos) })
}

// took is the number of events that a name took.
func took(all []taken, name int) int {
	n := 0
	for _, t := range all {
		if t.name == name {
			n++
		}
	}
	return n
}
