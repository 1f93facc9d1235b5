package patterns

import (
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
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
	// Resolves says that the event ends an open alert of the key (S7.3), and nothing else: no element sees it by this.
	Resolves bool
}

// taker is what may take an event, or be broken by it: a step, loop, absence or entry of `without`.
type taker struct {
	name  int
	from  []string
	by    []*expression.Expr
	where *expression.Expr
}

// takers returns the takers of a rule.
func takers(r *Rule) []taker {
	var list []taker
	for _, e := range r.Leaves() {
		list = append(list, taker{e.Name, e.From, e.By, e.Where})
	}
	for i := range r.Without {
		w := &r.Without[i]
		list = append(list, taker{w.Name, w.From, w.By, w.Where})
	}
	return list
}

// everyEventCounts reports whether an event that nothing takes can still change what the rule does.
func everyEventCounts(r *Rule) bool {
	return slices.ContainsFunc(takers(r), func(t taker) bool { return t.where != nil && t.where.UsesPrev }) || anyCounts(r.Elements)
}

func anyCounts(elements []Element) bool {
	return slices.ContainsFunc(elements, func(e Element) bool {
		return e.Link == nfa.Strict || e.Loop == nfa.Strict || e.Until != nil || (e.Where != nil && e.Where.UsesPrev) ||
			anyCounts(e.Elements) || slices.ContainsFunc(e.Alternatives, anyCounts)
	})
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
	recipes  map[string]recipes // by stream
	every    bool               // every visible event counts, also one that no element can take
	counters RouterCounters
	scope    cep.Scope
	// last is the partition of the last event, and current what its stream is routed by: most events are like the last.
	last    *cep.Partition
	current recipes

	deliveries []Delivery
	buf        []byte // the keys of deliveries
	parts      []cep.Value
	lists      [][]cep.Value
	spare      []byte
}

// recipes are the ways to make keys from the events of a stream.
type recipes struct {
	takers []recipe
	// over is what ends open alerts; its condition is the only one.
	over *recipe
}

// recipe is a way to make keys that some takers have in common.
type recipe struct {
	by   []*expression.Expr
	mask uint64
	// conditions are those of the elements, next to each other because each event asks them.
	conditions []condition
}

// condition is what a taker asks of the event alone; nil where it asks nothing, or more than the event.
type condition struct {
	bit  uint64
	test func(*cep.Scope) (bool, error)
}

func conditionOf(name int, where *expression.Expr) condition {
	c := condition{bit: 1 << name}
	if where != nil && where.Unary {
		c.test = where.Test
	}
	return c
}

// NewRouter returns a router for the rule.
func NewRouter(r *Rule) *Router {
	rt := &Router{
		rule:     r,
		recipes:  map[string]recipes{},
		every:    everyEventCounts(r),
		counters: RouterCounters{Hidden: make([]uint64, len(r.Exceptions))},
		parts:    make([]cep.Value, len(r.Key)),
		lists:    make([][]cep.Value, len(r.Key)),
	}
	for _, t := range takers(r) {
		for _, stream := range t.from {
			rs := rt.recipes[stream]
			rs.takers = addRecipe(rs.takers, t)
			rt.recipes[stream] = rs
		}
	}
	if over := r.Alert.Resolve; over != nil && over.Where != nil {
		for _, stream := range over.From {
			rs := rt.recipes[stream]
			rs.over = &recipe{by: over.By, conditions: []condition{{test: over.Where.Test}}}
			rt.recipes[stream] = rs
		}
	}
	return rt
}

func addRecipe(list []recipe, t taker) []recipe {
	c := conditionOf(t.name, t.where)
	for i := range list {
		if slices.EqualFunc(list[i].by, t.by, func(a, b *expression.Expr) bool { return a.Canonical == b.Canonical }) {
			list[i].mask |= c.bit
			list[i].conditions = append(list[i].conditions, c)
			return list
		}
	}
	return append(list, recipe{by: t.by, mask: c.bit, conditions: []condition{c}})
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
	rt.scope.Event = ev
	rt.deliveries, rt.buf = rt.deliveries[:0], rt.buf[:0]
	if len(rt.current.takers) > 0 {
		rt.routeTakers(ev)
	}
	if over := rt.current.over; over != nil && rt.fits(over, 0) {
		n := len(rt.deliveries)
		rt.addKeys(over, 0, n)
		for i := range rt.deliveries[n:] {
			rt.deliveries[n+i].Resolves = true
		}
	}
	return rt.deliveries
}

func (rt *Router) routeTakers(ev *cep.Event) {
	if rt.rule.Where != nil && !rt.test(rt.rule.Where) {
		return
	}
	hidden, visible := rt.except(ev)
	if !visible {
		return
	}
	rt.counters.Visible++
	for i := range rt.current.takers {
		rec := &rt.current.takers[i]
		if !rt.every && !rt.fits(rec, hidden) {
			continue
		}
		if !rt.addKeys(rec, rec.mask&^hidden, 0) {
			rt.counters.NoKey++
		}
	}
	if len(rt.deliveries) > 0 {
		rt.counters.Keyed++
	}
}

// fits reports whether a taker of the recipe may take the event, as far as conditions on the event alone can tell. The
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

// addKeys adds the keys that a recipe yields, joined with equal ones from delivery n on; false where it yields none.
func (rt *Router) addKeys(rec *recipe, mask uint64, n int) bool {
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
		return rt.addProduct(rec, mask, n)
	}
	start := len(rt.buf)
	for _, v := range rt.parts[:len(rec.by)] {
		var ok bool
		if rt.buf, ok = cep.AppendKeyPart(rt.buf, v); !ok {
			rt.buf = rt.buf[:start]
			return false
		}
	}
	rt.add(start, mask, n)
	return true
}

// add makes the key at the end of buf a delivery, or joins it with the one from n on that has this key.
func (rt *Router) add(start int, mask uint64, n int) {
	// The buffer may move while it grows; keys of earlier deliveries keep the old memory, whose content stays.
	key := rt.buf[start:len(rt.buf):len(rt.buf)]
	for i := n; i < len(rt.deliveries); i++ {
		if string(rt.deliveries[i].Key) == string(key) {
			rt.deliveries[i].Mask |= mask
			rt.buf = rt.buf[:start]
			return
		}
	}
	rt.deliveries = append(rt.deliveries, Delivery{Key: key, Mask: mask})
}

// addProduct adds every combination of the different elements of list parts.
func (rt *Router) addProduct(rec *recipe, mask uint64, n int) bool {
	combinations := 1
	for i := range rec.by {
		v := rt.parts[i]
		rt.lists[i] = append(rt.lists[i][:0], v)
		if v.Kind() == cep.KindList {
			rt.lists[i] = rt.distinct(rt.lists[i][:0], v.AsList())
		}
		if combinations *= len(rt.lists[i]); combinations > MaxKeys {
			rt.counters.TooManyKeys++
			return false
		}
	}
	some := false
	for c := range combinations {
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
		rt.add(start, mask, n)
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
