package oracle

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
)

// forever is the `for` that looks back without a bound.
const forever = cep.Duration(cep.AfterAll)

// start is an event that is the first of candidates (S3.1), with all that can come of it.
type start struct {
	pos    int // -1: a key that counts as present from the beginning (S4.4)
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
	// all says that all steps are taken, and absences at the end are waited for.
	all bool
}

// candidate is an assignment that the rule admits; took holds it in time order.
type candidate struct {
	took   []taken
	moment cep.Moment
}

// beginning is a candidate up to some event: the step that took last, how many it has taken in this pass, and the way that
// it will go on when it leaves the step.
type beginning struct {
	at   *place
	n    int
	took []taken
	next way
}

// search enumerates what begins with one start.
type search struct {
	*start
	*stream
	without []*node
}

// enumerate gives the start at position p: an event that fits the first step of a way to write the rule out (S3.1), where
// the absences before it hold. It is nil where p is no start.
func enumerate(st *stream, rule []item, without []*node, p int) *start {
	s := search{&start{pos: p, moment: at(st.events[p]), gone: never}, st, without}
	begun := false
	for _, w := range ways(rule, nil) {
		if w.step == nil || !st.fits(w.step, p, nil) || !s.quietBefore(w, p) {
			continue
		}
		if stops, _ := s.until(w.step, false, p, nil); stops || s.claimed(slices.Clone(w.bars), p, true, nil) {
			continue // S3.6: not taken as its first; S3.5: what a greedy loop could take is no start without it
		}
		begun = true
		s.grow(w.step, w.rest, []taken{st.take(w.step, p)})
	}
	if !begun {
		return nil
	}
	s.once()
	return s.start
}

// quietBefore: no forbidden event before the first one, as far back as `for` says; nothing matches before the rule has
// known its stream for that long, but with from_start (S4.3). The condition sees the first element's event.
func (s search) quietBefore(w way, p int) bool {
	t := s.events[p].Time
	first := []taken{s.take(w.step, p)}
	for _, a := range w.absences {
		if !a.FromStart && t < s.firstTime.Add(a.For) {
			return false
		}
		for q := range p {
			recent := a.For == forever || s.events[q].Time >= t.Add(-a.For)
			if recent && s.meets(a, q, first) {
				return false
			}
		}
	}
	return true
}

// grow writes down everything that can come of a beginning whose last event is the first that its step took.
func (s search) grow(at *place, rest []item, took []taken) {
	for _, w := range ways(rest, took) {
		s.extend(beginning{at, 1, took, w})
	}
}

// extend lets the loop take another event if it has room, and lets it be left if it may be, for the next step or for the
// end. Every admissible length is a candidate (S3.3).
func (s search) extend(b beginning) {
	if s.room(b) {
		s.again(b)
	}
	switch {
	case !s.leavable(b):
	case b.next.step != nil:
		s.next(b)
	default:
		s.full = true
		s.finish(b.took, b.next, s.bars(b))
	}
}

// count is what `times` bounds: events, or the different values of `distinct` (S3.4), of this pass.
func (s search) count(b beginning) int {
	if b.at.Distinct == nil {
		return b.n
	}
	var values []cep.Value
	for _, t := range b.took[len(b.took)-b.n:] {
		v, _ := b.at.Distinct.Eval(&cep.Scope{Event: t.event, Key: s.key})
		values = append(values, v)
	}
	return distinct(values)
}

func (s search) room(b beginning) bool { return b.at.Max < 0 || s.count(b) < b.at.Max }

// leavable: `times`, `distinct` and `having` hold; the own name in `having` means this pass (S3.3, S1.6).
func (s search) leavable(b beginning) bool {
	if s.count(b) < b.at.Min {
		return false
	}
	h := history{rule: s.rule, took: b.took, own: b.at.Name, from: len(b.took) - b.n}
	return b.at.Having == nil || holds(b.at.Having.Test, &cep.Scope{History: h, Key: s.key})
}

// bars are the greedy loops that may claim events once the beginning has left its step (S3.5).
func (s search) bars(b beginning) []bar {
	bars := slices.Clone(b.next.bars)
	if b.at.Greedy && s.room(b) {
		bars = append(bars, bar{b.at, true})
	}
	return bars
}

// claimed: a greedy loop could take the event at p. A strict one can take the very next event only; one that is past its
// `until` none (S3.5, S3.6). Bars that can claim nothing any more are cleared.
func (s search) claimed(bars []bar, p int, very bool, took []taken) bool {
	for i := range bars {
		b := &bars[i]
		if b.place == nil {
			continue
		}
		if b.strict() && !very {
			b.place = nil
			continue
		}
		fits := s.fits(b.place, p, took)
		switch stops, over := s.until(b.place, b.begun, p, took); {
		case stops && (over || fits && b.link != anyLink):
			b.place = nil
		case stops:
		case fits:
			return true
		}
	}
	return false
}

// until: the event at p is one that the loop of a step, or a group around it, does not take because of its `until`; over:
// the loop had begun, so that it ends, and a repetition of the group that is under way (S3.6).
func (s search) until(at *place, begun bool, p int, took []taken) (stops, over bool) {
	ask := func(n *node, begun bool) {
		if n.Until != nil && holds(n.Until.Test, s.scope(p, took)) {
			stops, over = true, over || begun
		}
	}
	ask(at.node, begun)
	for _, f := range at.frames {
		ask(f.of, slices.ContainsFunc(took, func(t taken) bool {
			return slices.ContainsFunc(t.at.frames, func(g *frame) bool { return g.first == f.first })
		}))
	}
	return stops, over
}

// killed: an entry of `without` fits the event at p, which the candidate has not taken (S4.5).
func (s search) killed(p int, took []taken) bool {
	return slices.ContainsFunc(s.without, func(w *node) bool { return s.meets(w, p, took) })
}

// again lets the loop take one more event, by its inner link. Absences between the loop and the next step forbid events
// from the loop's first event on, the loop's own too, so that one of these ends every way on (S4.1).
func (s search) again(b beginning) {
	e := b.at.node
	s.await(b, b.at, max(e.Min-s.count(b), 1), e.LoopWithin, func(p int, very bool) bool {
		if b.next.step != nil {
			for _, a := range b.next.absences {
				if link(a.Link) == strict && (!very || !s.leavable(b)) {
					continue // only the very next event, after an event at which the loop could be left
				}
				if s.meets(a, p, b.took) {
					return true
				}
			}
		}
		if stops, _ := s.until(b.at, true, p, b.took); stops {
			return true
		}
		fits := s.fits(b.at, p, b.took)
		if fits && (very || link(e.Loop) != strict) {
			s.extend(beginning{b.at, b.n + 1, append(slices.Clip(b.took), s.take(b.at, p)), b.next})
		}
		return link(e.Loop) == strict || fits && link(e.Loop) != anyLink || s.killed(p, b.took)
	})
}

// next lets the next step take its first event, by its link (S3.2), if no absence between the two is broken (S4.1).
func (s search) next(b beginning) {
	to, bars := b.next.step, s.bars(b)
	s.await(b, to, 0, to.Within, func(p int, very bool) bool {
		if s.claimed(bars, p, very, b.took) {
			return true
		}
		forbidden := s.killed(p, b.took)
		for _, a := range b.next.absences {
			fits := s.meets(a, p, b.took)
			if link(a.Link) != strict {
				forbidden = forbidden || fits
			} else if fits && very {
				return true // it kills even if the next step would take it
			}
		}
		fits := s.fits(to, p, b.took)
		stops, over := s.until(to, false, p, b.took)
		if fits && !stops && (very || to.link != strict) { // forbidden and next: taken
			s.grow(to, b.next.rest, append(slices.Clip(b.took), s.take(to, p)))
		}
		return to.link == strict || forbidden || over || fits && to.link != anyLink
	})
}

// await offers a beginning the events after its last one, as long as its windows are open (S5.1): that of the step
// waited for, from the event before, those of the composites around it, each from the first event of its repetition, and
// that of the rule, from the first of all. offer says whether the wait is over; very marks the very next event. A
// candidate that takes more than events_per_match does not exist (S5.8), so nothing begins it; the loop still needs more.
func (s search) await(b beginning, to *place, more int, within cep.Duration, offer func(p int, very bool) bool) {
	if most := s.rule.Limits.EventsPerMatch; most > 0 && !completes(b.next, b.took, most-len(b.took)-more) {
		return
	}
	first, last := b.took[0], b.took[len(b.took)-1]
	end := cep.AfterAll
	window := func(since cep.Time, w cep.Duration) {
		if w > 0 {
			end = min(end, since.Add(w))
		}
	}
	window(last.event.Time, within)
	window(first.event.Time, s.rule.Within)
	for _, f := range to.frames {
		if i := slices.IndexFunc(b.took, func(t taken) bool { return slices.Contains(t.at.frames, f) }); i >= 0 {
			window(b.took[i].event.Time, f.of.Within)
		}
	}
	until := after(end)
	for p := last.pos + 1; p < len(s.events) && s.events[p].Time <= end; p++ {
		if offer(p, p == last.pos+1) {
			until = at(s.events[p])
			break
		}
	}
	s.waits = append(s.waits, wait{took: b.took, from: at(last.event), until: until})
}

// finish completes a candidate that has all its steps: at once, or when its absences at the end are decided, the last
// of them (S4.2). A forbidden event after its last one, not above the deadline, kills it, and so does one of `without`,
// or one that a greedy loop claims.
func (s search) finish(took []taken, w way, bars []bar) {
	first, last := took[0].event, took[len(took)-1]
	moment, killed := at(last.event), never
	for _, a := range w.absences {
		deadline := cep.AfterAll
		switch {
		case a.For > 0:
			deadline = last.event.Time.Add(a.For)
		case s.rule.Within > 0:
			deadline = first.Time.Add(s.rule.Within)
		}
		decided, broken := s.silence(a, last.pos+1, deadline, took)
		moment, killed = latest(moment, decided), least(killed, broken)
	}
	for p := last.pos + 1; p < len(s.events) && at(s.events[p]).Compare(least(moment, killed)) <= 0; p++ {
		if s.killed(p, took) || s.claimed(bars, p, p == last.pos+1, took) {
			killed = least(killed, at(s.events[p]))
		}
	}
	if len(w.absences) > 0 {
		s.waits = append(s.waits, wait{took: took, from: at(last.event), until: least(moment, killed), all: true})
	}
	if killed == never && moment != never {
		s.complete = append(s.complete, candidate{took, moment})
	}
}

// silence gives the moment at which an absence at the end is decided, and that of the event that breaks it, looking at
// events from a position up to and at the deadline. A strict one is decided by the first of them.
func (s search) silence(a *node, from int, deadline cep.Time, took []taken) (decided, broken cep.Moment) {
	for p := from; p < len(s.events) && s.events[p].Time <= deadline; p++ {
		switch {
		case s.meets(a, p, took):
			return never, at(s.events[p])
		case link(a.Link) == strict:
			return at(s.events[p]), never
		}
	}
	return after(deadline), never
}

// present gives the start of a key that counts as present from the beginning: the absence is waited for from the rule's
// first time on, before all events of that time (S4.4).
func present(st *stream, absence *node) *start {
	from := cep.Moment{Time: st.firstTime}
	s := search{start: &start{pos: -1, moment: from, gone: never, full: true}, stream: st}
	decided, broken := s.silence(absence, 0, st.firstTime.Add(absence.For), nil)
	s.waits = []wait{{from: from, until: least(decided, broken), all: true}}
	if broken == never {
		s.complete = []candidate{{moment: decided}}
	}
	return s.start
}

// once: the same assignment reached twice counts once, at its earliest moment, and holds nothing open from then on (S2).
func (s *start) once() {
	earliest := map[string]cep.Moment{}
	for _, c := range s.complete {
		id := identity(c.took)
		if m, ok := earliest[id]; !ok || c.moment.Compare(m) < 0 {
			earliest[id] = c.moment
		}
	}
	for i := range s.waits {
		w := &s.waits[i]
		if m, ok := earliest[identity(w.took)]; ok && w.all {
			w.until = least(w.until, m)
		}
	}
	s.complete = slices.DeleteFunc(s.complete, func(c candidate) bool {
		id := identity(c.took)
		m, ok := earliest[id]
		if ok && m == c.moment {
			delete(earliest, id)
			return false
		}
		return true
	})
}

// identity says which element took which positions.
func identity(all []taken) string {
	var id []byte
	for _, t := range all {
		id = binary.AppendUvarint(binary.AppendUvarint(id, uint64(t.at.index)), uint64(t.pos))
	}
	return string(id)
}

// open: some candidate that begins with this start can still complete after the moment.
func (s *start) open(now cep.Moment) bool { return s.waiting(now) != nil }

// waiting gives a beginning that waits after the moment.
func (s *start) waiting(now cep.Moment) *wait {
	if s.isGone(now) {
		return nil
	}
	i := slices.IndexFunc(s.waits, func(w wait) bool {
		return w.from.Compare(now) <= 0 && (w.until == never || now.Compare(w.until) < 0)
	})
	if i < 0 {
		return nil
	}
	return &s.waits[i]
}

func (s *start) isGone(now cep.Moment) bool { return s.gone != never && now.Compare(s.gone) >= 0 }

// compare orders assignments of one moment (S5.3): the earliest first event; name by name, the one that took more; the
// earlier position, over all events in time order; the element written first.
func compare(r *patterns.Rule, a, b []taken) int {
	if len(a) == 0 || len(b) == 0 {
		return cmp.Compare(len(a), len(b))
	}
	if c := cmp.Compare(a[0].pos, b[0].pos); c != 0 {
		return c
	}
	for name := range r.Names {
		if c := cmp.Compare(took(b, name), took(a, name)); c != 0 {
			return c
		}
	}
	return cmp.Or(
		slices.CompareFunc(a, b, func(x, y taken) int { return cmp.Compare(x.pos, y.pos) }),
		slices.CompareFunc(a, b, func(x, y taken) int { return cmp.Compare(x.at.index, y.at.index) }),
	)
}

// took is the number of events that a name took.
func took(all []taken, name int) int {
	n := 0
	for _, t := range all {
		if t.at.Name == name {
			n++
		}
	}
	return n
}
