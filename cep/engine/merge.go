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

// outQueue holds alerts in order until they go out.
type outQueue struct {
	list []outgoing
	head int
}

func (q *outQueue) push(o outgoing) {
	if q.head > len(q.list)/2 {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, o)
}

func (q *outQueue) rest() []outgoing { return q.list[q.head:] }

// emit hands out the alerts that every clock has passed.
func (c *Core) emit() {
	bound := cep.AfterAll
	for _, k := range c.clocks {
		bound = min(bound, k.released)
	}
	for {
		least := &c.left
		for _, k := range c.clocks {
			if q := &k.out; len(q.rest()) > 0 && (len(least.rest()) == 0 || q.rest()[0].order.compare(&least.rest()[0].order) < 0) {
				least = q
			}
		}
		if len(least.rest()) == 0 || least.rest()[0].order.time > bound {
			return
		}
		a := least.rest()[0].alert
		least.list[least.head] = outgoing{}
		least.head++
		c.alert(a)
	}
}
