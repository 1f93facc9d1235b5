package patterns

import (
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns/expression"
)

// MaxKeys is the number of keys that one event may belong to in a rule (S1.3). List values multiply; whoever needs more
// than 64 has a list where a key should be.
const MaxKeys = 64

// Delivery is an event's place in the stream of one key.
type Delivery struct {
	// Key is in the encoding of [cep.Key], valid until the next call of [Router.Route].
	Key []byte
	// Mask has the bit of each name that may take, or is forbidden, the event in this key. It may be 0: the event then
	// still counts for `strict` and `prev`.
	Mask uint64
}

// RouterCounters is the first part of a rule's funnel.
type RouterCounters struct {
	// Visible is the number of events that the rule's `where` and its exceptions without steps let through, Keyed the
	// number of those that can count for the rule and belong to at least one key.
	Visible, Keyed uint64
	// NoKey is the number of times that elements yielded no key from an event that can count, TooManyKeys how often because
	// there were more than MaxKeys.
	NoKey, TooManyKeys uint64
	// Hidden is the number of events that each exception hid, from the rule or from steps, in the order of
	// Rule.Exceptions.
	Hidden []uint64
	// Errors is the number of evaluation errors, LastError the newest.
	Errors    uint64
	LastError string
}

// Router decides which keys of a rule an event belongs to, and which elements may take it there (S1.2 to S1.4). It belongs
// to one goroutine.
type Router struct {
	rule     *Rule
	recipes  map[string][]recipe // by stream
	every    bool                // every visible event counts, also one that no element can take
	counters RouterCounters
	scope    cep.Scope
	// last is the partition of the last event, and current what its stream is routed by: most events are like the last.
	last    *cep.Partition
	current []recipe

	deliveries []Delivery
	buf        []byte // the keys of deliveries
	parts      []cep.Value
	lists      [][]cep.Value
	spare      []byte
}

// recipe is a way to make keys that some elements have in common.
type recipe struct {
	by   []*expression.Expr
	mask uint64
	// conditions are those of the elements, next to each other because each event asks them.
	conditions []condition
}

// condition is what an element asks of the event alone; nil where it asks nothing, or more than the event.
type condition struct {
	bit  uint64
	test func(*cep.Scope) (bool, error)
}

func conditionOf(e *Element) condition {
	c := condition{bit: 1 << e.Name}
	if e.Where != nil && e.Where.Unary {
		c.test = e.Where.Test
	}
	return c
}

// NewRouter returns a router for the rule.
func NewRouter(r *Rule) *Router {
	rt := &Router{
		rule:     r,
		recipes:  map[string][]recipe{},
		every:    everyEventCounts(r),
		counters: RouterCounters{Hidden: make([]uint64, len(r.Exceptions))},
		parts:    make([]cep.Value, len(r.Key)),
		lists:    make([][]cep.Value, len(r.Key)),
	}
	for i := range r.Elements {
		e := &r.Elements[i]
		for _, stream := range e.From {
			rt.recipes[stream] = addRecipe(rt.recipes[stream], e)
		}
	}
	return rt
}

func addRecipe(list []recipe, e *Element) []recipe {
	for i := range list {
		if slices.EqualFunc(list[i].by, e.By, func(a, b *expression.Expr) bool { return a.Canonical == b.Canonical }) {
			list[i].mask |= 1 << e.Name
			list[i].conditions = append(list[i].conditions, conditionOf(e))
			return list
		}
	}
	return append(list, recipe{by: e.By, mask: 1 << e.Name, conditions: []condition{conditionOf(e)}})
}

// Counters returns the counters, which go on counting.
func (rt *Router) Counters() *RouterCounters { return &rt.counters }

// Route returns the keys that the event belongs to, each once, as far as it can count there: an event for which the
// conditions of all elements are false from the start is left out, unless the rule uses `strict` or `prev`. The result is
// valid until the next call.
func (rt *Router) Route(ev *cep.Event) []Delivery {
	if p := ev.Position.Partition; p != rt.last {
		rt.last, rt.current = p, rt.recipes[p.Stream]
	}
	recipes := rt.current
	if len(recipes) == 0 {
		return nil
	}
	rt.scope.Event = ev
	if rt.rule.Where != nil && !rt.test(rt.rule.Where) {
		return nil
	}
	hidden, visible := rt.except(ev)
	if !visible {
		return nil
	}
	rt.counters.Visible++
	rt.deliveries, rt.buf = rt.deliveries[:0], rt.buf[:0]
	for i := range recipes {
		rec := &recipes[i]
		if !rt.every && !rt.fits(rec, hidden) {
			continue
		}
		if !rt.addKeys(rec, rec.mask&^hidden) {
			rt.counters.NoKey++
		}
	}
	if len(rt.deliveries) > 0 {
		rt.counters.Keyed++
	}
	return rt.deliveries
}

// fits reports whether an element of the recipe may take the event, as far as conditions on the event alone can tell. The
// machine asks them again where it hears the event; where it does not, errors are counted here.
func (rt *Router) fits(rec *recipe, hidden uint64) bool {
	var failed error
	for i := range rec.conditions {
		c := &rec.conditions[i]
		if hidden&c.bit != 0 {
			continue
		}
		if c.test == nil {
			return true
		}
		ok, err := c.test(&rt.scope)
		if err != nil {
			failed = err
		} else if ok {
			return true
		}
	}
	if failed != nil {
		rt.fail(failed)
	}
	return false
}

// except returns the names that exceptions hide the event from, and false where one hides it from all.
func (rt *Router) except(ev *cep.Event) (hidden uint64, visible bool) {
	for i := range rt.rule.Exceptions {
		x := &rt.rule.Exceptions[i]
		if ev.Time >= x.Expires || !rt.test(x.Where) {
			continue
		}
		rt.counters.Hidden[i]++
		if x.Steps == nil {
			return 0, false
		}
		for _, name := range x.Steps {
			hidden |= 1 << name
		}
	}
	return hidden, true
}

func (rt *Router) test(x *expression.Expr) bool {
	ok, err := x.Test(&rt.scope)
	if err != nil {
		rt.fail(err)
		return false
	}
	return ok
}

func (rt *Router) fail(err error) {
	rt.counters.Errors++
	rt.counters.LastError = err.Error()
}

// addKeys adds the keys that a recipe yields; false where it yields none.
func (rt *Router) addKeys(rec *recipe, mask uint64) bool {
	single := true
	for i, by := range rec.by {
		v, err := by.Eval(&rt.scope)
		if err != nil {
			rt.fail(err)
			return false
		}
		rt.parts[i] = v
		single = single && v.Kind() != cep.KindList
	}
	if !single {
		return rt.addProduct(rec, mask)
	}
	start := len(rt.buf)
	for _, v := range rt.parts[:len(rec.by)] {
		var ok bool
		if rt.buf, ok = cep.AppendKeyPart(rt.buf, v); !ok {
			rt.buf = rt.buf[:start]
			return false
		}
	}
	rt.add(start, mask)
	return true
}

// add makes the key at the end of buf a delivery, or joins it with the one that has this key.
func (rt *Router) add(start int, mask uint64) {
	// The buffer may move while it grows; keys of earlier deliveries keep the old memory, whose content stays.
	key := rt.buf[start:len(rt.buf):len(rt.buf)]
	for i := range rt.deliveries {
		if string(rt.deliveries[i].Key) == string(key) {
			rt.deliveries[i].Mask |= mask
			rt.buf = rt.buf[:start]
			return
		}
	}
	rt.deliveries = append(rt.deliveries, Delivery{Key: key, Mask: mask})
}

// addProduct adds every combination of the different elements of list parts.
func (rt *Router) addProduct(rec *recipe, mask uint64) bool {
	n := 1
	for i := range rec.by {
		v := rt.parts[i]
		rt.lists[i] = append(rt.lists[i][:0], v)
		if v.Kind() == cep.KindList {
			rt.lists[i] = rt.distinct(rt.lists[i][:0], v.AsList())
		}
		if n *= len(rt.lists[i]); n > MaxKeys {
			rt.counters.TooManyKeys++
			return false
		}
	}
	some := false
	for c := range n {
		start, ok := len(rt.buf), true
		for i := range rec.by {
			l := rt.lists[i]
			if rt.buf, ok = cep.AppendKeyPart(rt.buf, l[c%len(l)]); !ok {
				break
			}
			c /= len(l)
		}
		if !ok {
			rt.buf = rt.buf[:start]
			continue
		}
		rt.add(start, mask)
		some = true
	}
	return some
}

// distinct appends the different elements that can be key parts. It stops behind MaxKeys, which is too many already.
func (rt *Router) distinct(dst, list []cep.Value) []cep.Value {
	for _, v := range list {
		var ok bool
		if rt.spare, ok = cep.AppendKeyPart(rt.spare[:0], v); !ok {
			continue
		}
		if slices.ContainsFunc(dst, func(w cep.Value) bool { return cep.Equal(v, w) }) {
			continue
		}
		if dst = append(dst, v); len(dst) > MaxKeys {
			break
		}
	}
	return dst
}
