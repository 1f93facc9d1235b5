package oracle

import (
	"cmp"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
)

// stream is k's stream: the events that exist for one key, in total order. Positions are indexes into events.
type stream struct {
	rule      *patterns.Rule
	key       cep.Key
	firstTime cep.Time
	events    []*cep.Event
	// admits[p][i] says that leaf i may take, forbid or see the event at p: it is of the leaf's stream, the leaf yields k
	// from it, and no exception hides it from the leaf.
	admits [][]bool
}

// keysMax bounds the keys that one element yields from one event (S1.3).
const keysMax = 64

// streams gives each key its stream (S1.4), in the order of the keys. A key that counts as present from the beginning has
// one without an event (S4.4).
func streams(r *patterns.Rule, leaves []*node, in Input, events []*cep.Event) []*stream {
	byKey := map[cep.Key]*stream{}
	of := func(k cep.Key) *stream {
		if byKey[k] == nil {
			byKey[k] = &stream{rule: r, key: k, firstTime: in.FirstTime}
		}
		return byKey[k]
	}
	for _, k := range r.Keys {
		of(k)
	}
	for _, ev := range events {
		if !visible(r, ev) {
			continue
		}
		admits := map[cep.Key][]bool{}
		for i, e := range leaves {
			if !slices.Contains(e.From, ev.Position.Partition.Stream) {
				continue
			}
			for _, k := range keysOf(e, ev) {
				if admits[k] == nil {
					admits[k] = make([]bool, len(leaves))
				}
				admits[k][i] = !hidden(r, e.Name, ev)
			}
		}
		for k, a := range admits {
			s := of(k)
			s.events, s.admits = append(s.events, ev), append(s.admits, a)
		}
	}
	all := make([]*stream, 0, len(byKey))
	for _, s := range byKey {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *stream) int { return cmp.Compare(a.key, b.key) })
	return all
}

// visible: the event is of one of the rule's streams, rule `where` holds, and no exception without steps is true (S1.4).
func visible(r *patterns.Rule, ev *cep.Event) bool {
	if !slices.Contains(r.Streams, ev.Position.Partition.Stream) {
		return false
	}
	sc := &cep.Scope{Event: ev}
	if r.Where != nil && !holds(r.Where.Test, sc) {
		return false
	}
	for _, x := range r.Exceptions {
		if x.Steps == nil && ev.Time < x.Expires && holds(x.Where.Test, sc) {
			return false
		}
	}
	return true
}

// hidden: an exception with steps hides the event from this name (S1.4).
func hidden(r *patterns.Rule, name int, ev *cep.Event) bool {
	for _, x := range r.Exceptions {
		if slices.Contains(x.Steps, name) && ev.Time < x.Expires && holds(x.Where.Test, &cep.Scope{Event: ev}) {
			return true
		}
	}
	return false
}

// holds: a condition that errs is false (S1.6).
func holds(test func(*cep.Scope) (bool, error), sc *cep.Scope) bool {
	ok, err := test(sc)
	return ok && err == nil
}

// keysOf gives the keys that an element yields from an event: every combination of its parts; none where a part is no
// key part or there are too many (S1.3).
func keysOf(e *node, ev *cep.Event) []cep.Key {
	keys := []cep.Key{""}
	for _, by := range e.By {
		v, err := by.Eval(&cep.Scope{Event: ev})
		if err != nil {
			return nil
		}
		values := []cep.Value{v}
		if v.Kind() == cep.KindList {
			values = v.AsList()
		}
		var longer []cep.Key
		for _, k := range keys {
			for _, v := range values {
				part, ok := cep.KeyOf(v)
				if ok && !slices.Contains(longer, k+part) {
					longer = append(longer, k+part)
				}
			}
		}
		keys = longer
	}
	if len(keys) > keysMax {
		return nil
	}
	return keys
}

// dayWithoutWindow is how far `prev` reaches in a rule without `within` (S1.5).
const dayWithoutWindow = 24 * 60 * 60 * cep.Duration(cep.Second)

// reach is how far `prev` looks back (S1.5).
func (s *stream) reach() cep.Duration {
	if s.rule.Within > 0 {
		return s.rule.Within
	}
	return dayWithoutWindow
}

// scope is what a condition at position p sees: the event, the one before, even from before the start, if it is within
// reach (S1.5), and what was taken (S1.6).
func (s *stream) scope(p int, took []taken) *cep.Scope {
	sc := &cep.Scope{Event: s.events[p], History: history{rule: s.rule, took: took}, Key: s.key}
	if p > 0 && s.events[p].Time.Sub(s.events[p-1].Time) <= s.reach() {
		sc.Prev = taken{event: s.events[p-1]}
	}
	return sc
}

// meets: the leaf admits the event at p and its own condition holds.
func (s *stream) meets(e *node, p int, took []taken) bool {
	return s.admits[p][e.index] && (e.Where == nil || holds(e.Where.Test, s.scope(p, took)))
}

// fits: the step may take the event at p, time and order aside.
func (s *stream) fits(at *place, p int, took []taken) bool {
	e := at.node
	if !s.meets(e, p, took) {
		return false
	}
	if e.Distinct != nil { // S3.4: missing x is not taken
		if v, err := e.Distinct.Eval(s.scope(p, took)); err != nil || v.IsMissing() {
			return false
		}
	}
	if e.Edge && !s.rises(e, p, took) || e.FirstSeen != nil && !s.unseen(e, p) {
		return false
	}
	if at.all == nil || at.all.Where == nil {
		return true
	}
	with := append(slices.Clip(took), s.take(at, p)) // S2.3: it names siblings, this step too
	sc := s.scope(p, with)
	return holds(at.all.Where.Test, sc)
}

// rises: the condition of a hold did not hold for the event before among those of its own, or there is none within reach
// (S2.5).
func (s *stream) rises(e *node, p int, took []taken) bool {
	for q := p - 1; q >= 0; q-- {
		if s.admits[q][e.index] {
			return s.events[p].Time.Sub(s.events[q].Time) > s.reach() || !s.meets(e, q, took)
		}
	}
	return true
}

// unseen: no event before that the step could take but for this word had equal values, as far back as `for` says (S3.7).
func (s *stream) unseen(e *node, p int) bool {
	f, t := e.FirstSeen, s.events[p].Time
	if !f.FromStart && t < s.firstTime.Add(f.For) {
		return false
	}
	values := func(q int) (all []cep.Value) {
		for _, by := range f.By {
			v, err := by.Eval(s.scope(q, nil))
			if err != nil || v.IsMissing() {
				return nil
			}
			all = append(all, v)
		}
		return all
	}
	own := values(p)
	if own == nil && len(f.By) > 0 {
		return false
	}
	for q := range p {
		recent := f.For == forever || s.events[q].Time >= t.Add(-f.For)
		if recent && s.meets(e, q, nil) && slices.EqualFunc(own, values(q), cep.Equal) {
			return false
		}
	}
	return true
}

// take is the event at p, taken by a step.
func (s *stream) take(at *place, p int) taken {
	return taken{event: s.events[p], at: at, pos: p}
}
