package engine

import (
	"cmp"

	"github.com/cepd/cepd/cep"
)

// outgoing is an alert that waits until no clock can still bring an earlier one.
type outgoing struct {
	alert  *cep.Alert
	moment cep.Moment
	place  place
	rank   int
}

// before is the order S7.1 between alerts of different clocks. Sequence numbers of different clocks do not compare, places
// in the total order do.
func (a *outgoing) before(b *outgoing) bool {
	if c := cmp.Compare(a.moment.Time, b.moment.Time); c != 0 {
		return c < 0
	}
	if a.moment.Timed() != b.moment.Timed() {
		return b.moment.Timed()
	}
	if !a.moment.Timed() {
		if c := comparePlaces(a.place.tie, a.place.position, b.place.tie, b.place.position); c != 0 {
			return c < 0
		}
	}
	return a.rank < b.rank
}

// emit hands out the alerts that every clock has passed.
func (c *Core) emit() {
	bound := cep.AfterAll
	for _, k := range c.clocks {
		bound = min(bound, k.released)
	}
	for {
		var least *clock
		for _, k := range c.clocks {
			if k.outHead < len(k.out) && (least == nil || k.out[k.outHead].before(&least.out[least.outHead])) {
				least = k
			}
		}
		if least == nil || least.out[least.outHead].moment.Time > bound {
			break
		}
		c.alert(least.out[least.outHead].alert)
		least.out[least.outHead] = outgoing{}
		least.outHead++
	}
	for _, k := range c.clocks {
		switch {
		case k.outHead == len(k.out):
			k.out, k.outHead = k.out[:0], 0
		case k.outHead > len(k.out)/2:
			n := copy(k.out, k.out[k.outHead:])
			clear(k.out[n:])
			k.out, k.outHead = k.out[:n], 0
		}
	}
}
