package oracle

import (
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
)

// stream is k's stream: the events that exist for one key, in total order. Positions are indexes into events.
type stream struct {
	rule   *patterns.Rule
	key    cep.Key
	events []*cep.Event
	// admits[p][e] says that element e may take, or forbid, the event at p: it is of the element's stream, the element
	// yields k from it, and no exception hides it from the element.
	admits [][]bool
}

// keysMax bounds the keys that one element yields from one event (S1.3).
const keysMax = 64

// streams gives each key its stream (S1.4), in the order of the keys.
func streams(r *patterns.Rule, events []*cep.Event) []*stream {
	byKey := map[cep.Key]*stream{}
	for _, ev := range events {
		if !visible(r, ev) {
			continue
		}
		admits := map[cep.Key][]bool{}
		for i, e := range r.Elements {
			if !slices.Contains(e.From, ev.Position.Partition.Stream) {
				continue
			}
			for _, k := range keysOf(r, e, ev) {
				if admits[k] == nil {
					admits[k] = make([]bool, len(r.Elements))
				}
				admits[k][i] = !hidden(r, e.Name, ev)
			}
		}
		for k, a := range admits {
			if byKey[k] == nil {
				byKey[k] = &stream{rule: r, key: k}
			}
			byKey[k].events = append(byKey[k].events, ev)
			byKey[k].admits = append(byKey[k].admits, a)
		}
	}
	all := make([]*stream, 0, len(byKey))
	for _, s := range byKey {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *stream) int { return cmpKey(a.key, b.key) })
	return all
}

func cmpKey(a, b cep.Key) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
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
func keysOf(r *patterns.Rule, e patterns.Element, ev *cep.Event) []cep.Key {
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

// prev is the event before the one at p, even from before the start, within reach (S1.5).
func (s *stream) prev(p int) cep.Taken {
	reach := s.rule.Within
	if reach == 0 {
		reach = dayWithoutWindow
	}
	if p == 0 || s.events[p].Time.Sub(s.events[p-1].Time) > reach {
		return nil
	}
	return taken{event: s.events[p-1], name: -1}
}

// fits: the element admits the event at p and its condition holds, seeing the event, prev, and what was taken (S1.6).
func (s *stream) fits(e int, p int, took []taken) bool {
	if !s.admits[p][e] {
		return false
	}
	where := s.rule.Elements[e].Where
	return where == nil || holds(where.Test, &cep.Scope{
		Event:   s.events[p],
		Prev:    s.prev(p),
		History: history{rule: s.rule, took: took},
		Key:     s.key,
	})
}
