package patterns

import (
	"slices"

	"github.com/cepd/cepd/cep"
)

// Routers are the routers of many rules, for one goroutine: what Narrow returns is valid until its next call for any of them.
// They share what they work with, and what decides about most events stands for all rules next to each other, so that it is
// in the cache when the next event belongs to another rule.
type Routers struct {
	list  []Router
	short []shortcut
	*scratch
}

// shortcut routes the events of a rule that reads one stream, whose key is one field, and that has nothing but conditions of
// its elements, where [Index] is sure of these.
type shortcut struct {
	// alone are the names whose conditions speak for them, see condition; none: there is no shortcut.
	alone, told uint64
	field       int
	counted     uint64 // events that were visible and had a key, beside those that the router has counted
}

// NewRouters returns routers for rules, which are known by their places in the list.
func NewRouters(list []*Rule) *Routers {
	rs := &Routers{list: make([]Router, len(list)), short: make([]shortcut, len(list)), scratch: &scratch{}}
	for i, r := range list {
		if n := len(r.Key); n > len(rs.parts) {
			rs.parts, rs.lists = make([]cep.Value, n), make([][]cep.Value, n)
		}
		rs.list[i].init(r, rs.scratch)
		rs.short[i] = rs.list[i].shortcut()
	}
	return rs
}

func (rt *Router) shortcut() shortcut {
	if rt.where != nil || rt.excepted || rt.every || len(rt.recipes) != 1 {
		return shortcut{}
	}
	for _, rs := range rt.recipes {
		if rs.over != nil || len(rs.takers) != 1 || rs.takers[0].field < 0 {
			return shortcut{}
		}
		s := shortcut{told: rs.takers[0].told, field: rs.takers[0].field}
		for _, c := range rs.takers[0].conditions {
			if c.alone && c.test != nil {
				s.alone |= c.bit
			}
		}
		return s
	}
	return shortcut{}
}

// Narrow is [Router.Narrow] of the i-th rule.
func (rs *Routers) Narrow(i int, ev *cep.Event, may, sure uint64) []Delivery {
	s := &rs.short[i]
	if may == 0 || may&sure&s.alone != may {
		return rs.list[i].Narrow(ev, may, sure)
	}
	key, ok := cep.AppendKeyPart(rs.buf[:0], ev.Value(s.field))
	if !ok { // no key, or a list of them
		return rs.list[i].Narrow(ev, may, sure)
	}
	rs.buf = key
	s.counted++
	rs.deliveries = append(rs.deliveries[:0], Delivery{Key: slices.Clip(key), Mask: may | s.told, Holds: may})
	return rs.deliveries
}

// Counters returns the counters of the i-th rule. They stand still until the next call.
func (rs *Routers) Counters(i int) *RouterCounters {
	c, s := rs.list[i].Counters(), &rs.short[i]
	c.Visible += s.counted
	c.Keyed += s.counted
	s.counted = 0
	return c
}
