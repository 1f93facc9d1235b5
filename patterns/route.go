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
	// Holds has the bits of names whose condition is known to hold: nobody need ask it again.
	Holds uint64
	// Resolves says that the event ends an open alert of the key (S7.3), and nothing else: no element sees it by this.
	Resolves bool
}

// taker is what may take an event, or be broken by it: a step, loop, absence or entry of `without`.
type taker struct {
	name  int
	from  []string
	by    []*expression.Expr
	where *expression.Expr
	edge  bool // it also looks at whether the condition held for the event before
}

// takers returns the takers of a rule.
func takers(r *Rule) []taker {
	var list []taker
	for _, e := range r.Leaves() {
		list = append(list, taker{e.Name, e.From, e.By, e.Where, e.Edge})
	}
	for i := range r.Without {
		w := &r.Without[i]
		list = append(list, taker{w.Name, w.From, w.By, w.Where, false})
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
	// Errors is the number of evaluation errors, LastError the newest, and ErrorAt the time of its event.
	Errors    uint64
	LastError string
	ErrorAt   cep.Time
}

// Router decides which keys of a rule an event belongs to, and which elements may take it there (S1.2 to S1.4). It belongs
// to one goroutine.
type Router struct {
	// What most events ask for stands first, next to each other.

	// last is the partition of the last event, and current what its stream is routed by: most events are like the last.
	last     *cep.Partition
	current  recipes
	where    *expression.Expr // the rule's
	excepted bool
	every    bool // every visible event counts, also one that no element can take
	*scratch
	counters RouterCounters

	rule    *Rule
	recipes map[string]recipes // by stream
}

// scratch is what a router works with while it routes an event. Routers of one goroutine share it, so that it is in the
// cache when the next event belongs to another rule.
type scratch struct {
	scope      cep.Scope
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
	by []*expression.Expr
	// field is the slot of the only part of the key, where that is a field of the event; else -1.
	field int
	mask  uint64
	// told are the names that must be told of the event whether their condition holds or not: those of steps that look at
	// what the condition was for the event before.
	told uint64
	// conditions are those of the elements, next to each other because each event asks them.
	conditions []condition
}

// condition is what a taker asks of the event alone; nil where it asks nothing, or more than the event.
type condition struct {
	bit  uint64
	test func(*cep.Scope) (bool, error)
	// alone says that no other taker has the name, nor is it told of all events: the condition speaks for the name.
	alone bool
}

func conditionOf(t *taker) condition {
	c := condition{bit: 1 << t.name}
	if t.where != nil && t.where.Unary {
		c.test = t.where.Test
	}
	return c
}

// NewRouter returns a router for the rule.
func NewRouter(r *Rule) *Router { return &NewRouters([]*Rule{r}).list[0] }

func (rt *Router) init(r *Rule, shared *scratch) {
	*rt = Router{
		rule:     r,
		where:    r.Where,
		excepted: len(r.Exceptions) > 0,
		recipes:  map[string]recipes{},
		every:    everyEventCounts(r),
		counters: RouterCounters{Hidden: make([]uint64, len(r.Exceptions))},
		scratch:  shared,
	}
	list := takers(r)
	for i := range list {
		t := &list[i]
		alone := !t.edge && !slices.ContainsFunc(append(slices.Clone(list[:i]), list[i+1:]...), func(o taker) bool { return o.name == t.name })
		for _, stream := range t.from {
			rs := rt.recipes[stream]
			rs.takers = addRecipe(rs.takers, t, alone)
			rt.recipes[stream] = rs
		}
	}
	if over := r.Alert.Resolve; over != nil && over.Where != nil {
		for _, stream := range over.From {
			rs := rt.recipes[stream]
			rs.over = &recipe{by: over.By, field: onlyField(over.By), conditions: []condition{{test: over.Where.Test}}}
			rt.recipes[stream] = rs
		}
	}
}

// onlyField returns the slot of a key that is one field of the event, else -1.
func onlyField(by []*expression.Expr) int {
	if len(by) == 1 && by[0].Path != nil && len(by[0].Slots) == 1 {
		return by[0].Slots[0]
	}
	return -1
}

func addRecipe(list []recipe, t *taker, alone bool) []recipe {
	c := conditionOf(t)
	c.alone = alone
	told := uint64(0)
	if t.edge {
		told = c.bit
	}
	for i := range list {
		if slices.EqualFunc(list[i].by, t.by, func(a, b *expression.Expr) bool { return a.Canonical == b.Canonical }) {
			list[i].mask |= c.bit
			list[i].told |= told
			list[i].conditions = append(list[i].conditions, c)
			return list
		}
	}
	return append(list, recipe{by: t.by, field: onlyField(t.by), mask: c.bit, told: told, conditions: []condition{c}})
}

// Counters returns the counters, which go on counting.
func (rt *Router) Counters() *RouterCounters { return &rt.counters }

// Route returns the keys that the event belongs to, each once, as far as it can count there: an event for which the
// conditions of all elements are false from the start is left out, unless the rule uses `strict` or `prev`. The result is
// valid until the next call.
func (rt *Router) Route(ev *cep.Event) []Delivery { return rt.Narrow(ev, everyName, 0) }

// Narrow is Route where it is known that the conditions of only some names may hold, and that those of some of them do, as
// [Index.May] says: only what is open is asked.
func (rt *Router) Narrow(ev *cep.Event, may, sure uint64) []Delivery {
	if p := ev.Position.Partition; p != rt.last {
		rt.last, rt.current = p, rt.recipes[p.Stream]
	}
	rt.scope.Event = ev
	rt.deliveries, rt.buf = rt.deliveries[:0], rt.buf[:0]
	if len(rt.current.takers) > 0 {
		rt.routeTakers(ev, may, sure)
	}
	if over := rt.current.over; over != nil && rt.holds(over) {
		n := len(rt.deliveries)
		rt.addKeys(over, Delivery{}, n)
		for i := range rt.deliveries[n:] {
			rt.deliveries[n+i].Resolves = true
		}
	}
	return rt.deliveries
}

func (rt *Router) routeTakers(ev *cep.Event, may, sure uint64) {
	if rt.where != nil && !rt.test(rt.where) {
		return
	}
	hidden := uint64(0)
	if rt.excepted {
		var visible bool
		if hidden, visible = rt.except(ev); !visible {
			return
		}
	}
	rt.counters.Visible++
	for i := range rt.current.takers {
		rec := &rt.current.takers[i]
		d := Delivery{Mask: rec.mask &^ hidden}
		if !rt.every && !rt.fits(rec, may&^hidden, sure, &d) {
			continue
		}
		if !rt.addKeys(rec, d, 0) {
			rt.counters.NoKey++
		}
	}
	if len(rt.deliveries) > 0 {
		rt.counters.Keyed++
	}
}

// fits reports whether a taker of the recipe may take the event, as far as conditions on the event alone can tell, and takes
// names out of the mask whose condition does not hold. It stops asking at the first that does: of the others the machine
// asks those that it hears. An error is counted here where nothing fits, else by the machine, if it asks again.
func (rt *Router) fits(rec *recipe, may, sure uint64, d *Delivery) bool {
	var failed error
	fits, mask := false, rec.told
	for i := range rec.conditions {
		c := &rec.conditions[i]
		switch {
		case may&c.bit == 0:
			continue
		case c.test == nil:
			fits = true
		case !fits:
			if !c.alone || sure&c.bit == 0 {
				ok, err := c.test(&rt.scope)
				if err != nil {
					failed = err
					break
				}
				if !ok {
					continue
				}
			}
			fits = true
			if c.alone {
				d.Holds |= c.bit
			}
		}
		mask |= c.bit
	}
	d.Mask &= mask
	if !fits && failed != nil {
		rt.fail(failed)
	}
	return fits
}

// holds asks the only condition of a recipe.
func (rt *Router) holds(rec *recipe) bool {
	ok, err := rec.conditions[0].test(&rt.scope)
	if err != nil {
		rt.fail(err)
	}
	return ok && err == nil
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
	rt.counters.LastError, rt.counters.ErrorAt = err.Error(), rt.scope.Event.Time
}

// addKeys adds the keys that a recipe yields, joined with equal ones from delivery n on; false where it yields none.
func (rt *Router) addKeys(rec *recipe, d Delivery, n int) bool {
	if rec.field >= 0 {
		if v := rt.scope.Event.Value(rec.field); v.Kind() != cep.KindList {
			start := len(rt.buf)
			var ok bool
			if rt.buf, ok = cep.AppendKeyPart(rt.buf, v); !ok {
				rt.buf = rt.buf[:start]
				return false
			}
			rt.add(start, d, n)
			return true
		}
	}
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
		return rt.addProduct(rec, d, n)
	}
	start := len(rt.buf)
	for _, v := range rt.parts[:len(rec.by)] {
		var ok bool
		if rt.buf, ok = cep.AppendKeyPart(rt.buf, v); !ok {
			rt.buf = rt.buf[:start]
			return false
		}
	}
	rt.add(start, d, n)
	return true
}

// add makes the key at the end of buf a delivery, or joins it with the one from n on that has this key.
func (rt *Router) add(start int, d Delivery, n int) {
	// The buffer may move while it grows; keys of earlier deliveries keep the old memory, whose content stays.
	key := rt.buf[start:len(rt.buf):len(rt.buf)]
	for i := n; i < len(rt.deliveries); i++ {
		if string(rt.deliveries[i].Key) == string(key) {
			rt.deliveries[i].Mask |= d.Mask
			rt.deliveries[i].Holds |= d.Holds
			rt.buf = rt.buf[:start]
			return
		}
	}
	d.Key = key
	rt.deliveries = append(rt.deliveries, d)
}

// addProduct adds every combination of the different elements of list parts.
func (rt *Router) addProduct(rec *recipe, d Delivery, n int) bool {
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
		rt.add(start, d, n)
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
