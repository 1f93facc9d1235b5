package engine

import (
	"cmp"

	"github.com/cepd/cepd/cep"
)

// place is what orders an event among those of its time.
type place struct {
	// tie is the value of the stream's tie-break field, missing where there is none.
	tie      cep.Value
	position cep.Position
	// origin is the order of the alert that the event is; nil for events that were read.
	origin *order
}

// compare orders events of one time: those that were read by tie-break, then by position; then alerts, in their own order.
func (a *place) compare(b *place) int {
	switch {
	case a.origin != nil && b.origin != nil:
		return a.origin.compare(b.origin)
	case a.origin != nil:
		return 1
	case b.origin != nil:
		return -1
	}
	if c := compareTies(a.tie, b.tie); c != 0 {
		return c
	}
	return a.position.Compare(b.position)
}

// compareTies orders values of any kind, so that a field that is a number here and a string there still gives one order:
// numbers, strings, bools, times, durations, then what has no order, like a missing field.
func compareTies(a, b cep.Value) int {
	ra, rb := tieRank(a), tieRank(b)
	if c := cmp.Compare(ra, rb); c != 0 || ra == tieNone {
		return c
	}
	c, _ := cep.Compare(a, b)
	return c
}

const tieNone = 9

func tieRank(v cep.Value) int {
	switch v.Kind() {
	case cep.KindInt:
		return 0
	case cep.KindFloat:
		if f := v.AsFloat(); f != f {
			return tieNone
		}
		return 0
	case cep.KindString:
		return 1
	case cep.KindBool:
		return 2
	case cep.KindTime:
		return 3
	case cep.KindDuration:
		return 4
	default:
		return tieNone
	}
}

// order is where an alert stands among all alerts (S7.1, S8): by time; at one time by the layer of its rule, then by the
// place of the event that brought it, time alone last; then by rule and key. Sequence numbers of different clocks do not
// compare, places in the total order do.
type order struct {
	time  cep.Time
	layer int
	timed bool
	place place // of the event; nothing where timed
	rule  string
	key   cep.Key
}

// compare is 0 for alerts of one rule, key and moment: these stand in the order in which they were made.
func (a *order) compare(b *order) int {
	if c := cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.layer, b.layer)); c != 0 {
		return c
	}
	if c := a.compareMoments(b); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.key, b.key))
}

// compareMoments compares when two things of one layer happen.
func (a *order) compareMoments(b *order) int {
	switch {
	case a.time != b.time:
		return cmp.Compare(a.time, b.time)
	case a.timed != b.timed:
		if a.timed {
			return 1
		}
		return -1
	case a.timed:
		return 0
	default:
		return a.place.compare(&b.place)
	}
}
