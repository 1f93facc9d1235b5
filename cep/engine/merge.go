package engine

import (
	"cmp"

	"github.com/cepd/cepd/cep"
)

// order is where an alert stands among all alerts (S7.1, S8): by time; at one time by the layer of its rule, then by the
// place of the event that brought it, time alone last; then by rule and key. Sequence numbers of different clocks do not
// compare, places in the total order do.
type order struct {
	time  cep.Time
	layer int
	timed bool
	place place // of the event; nothing where timed
	rank  int   // of the rule, among all rules in the order of their ids
	key   cep.Key
}

// compare is 0 for alerts of one rule, key and moment: these stand in the order in which they were made.
func (a *order) compare(b *order) int {
	if c := cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.layer, b.layer)); c != 0 {
		return c
	}
	if a.timed != b.timed {
		if a.timed {
			return 1
		}
		return -1
	}
	if !a.timed {
		if c := a.place.compare(&b.place); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.key, b.key))
}

// outgoing is an alert that waits until no clock can still bring an earlier one.
type outgoing struct {
	alert *cep.Alert
	order order
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
			if k.outHead < len(k.out) && (least == nil || k.out[k.outHead].order.compare(&least.out[least.outHead].order) < 0) {
				least = k
			}
		}
		if least == nil || least.out[least.outHead].order.time > bound {
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
