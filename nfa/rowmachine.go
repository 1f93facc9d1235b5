package nfa

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"

	"github.com/cepd/cepd/cep"
)

// rowMachine runs a row pattern for all keys of a rule (S6).
//
// Starts are tried from left to right, and where the next one is depends on the match of the one before. So a key has one
// start at a time, with its ways in the order of preference, and the events since: when the start is decided, the next
// one is tried on what was kept. A start is decided when its most preferred way is a complete one.
type rowMachine struct {
	m    *Machine
	p    *rowProgram
	keys map[string]*rowKey
	dues rowDues
	// What follows is scratch space.
	event   cep.Event
	scope   cep.Scope
	view    history
	seen    map[rowState]struct{}
	reached []uint32 // by instruction: the round in which a way came there
	round   uint32
	next    []way
	key     *rowKey
	moment  cep.Moment
}

// rowState is where a walk has been: it depends on nothing else how it goes on.
type rowState struct {
	pc    int
	marks uint64
}

// way is one way to go on: it waits at a take, or is complete.
type way struct {
	pc   int
	node *node // nil: it has taken nothing
}

// rowKey is the state of one key.
type rowKey struct {
	key string
	// events are those from the present start on, before is the event before them, nil where there was none.
	events []rowEvent
	before *rowEvent
	ways   []way
	begun  bool // the present start has taken its first event
	// due is when the present start's window ends, or the key may be forgotten; cep.AfterAll: never.
	due   cep.Time
	place int  // among the dues, -1: it is not there
	fresh bool // no event of it has been settled
	marks uint8
}

// rowEvent is an event of a key's stream with what the rule reads of it.
type rowEvent struct {
	node *node // of no step
	mask uint64
}

func newRowMachine(m *Machine) *rowMachine {
	return &rowMachine{
		m: m, p: m.program.rows, keys: map[string]*rowKey{}, view: history{form: m.form},
		seen: map[rowState]struct{}{}, reached: make([]uint32, len(m.program.rows.code)),
	}
}

// look is [Machine.Event].
func (r *rowMachine) look(key []byte, ev *cep.Event, mask uint64) {
	r.m.counters.Delivered++
	k := r.keys[string(key)]
	if r.m.draining && (k == nil || len(k.events) == 0) {
		return
	}
	if k == nil && r.m.brake.crowded(key) || (k == nil || len(k.events) == 0) && r.m.brake.heavy(key) {
		r.m.counters.Braked++
		return
	}
	if k == nil {
		k = &rowKey{key: string(key), due: cep.AfterAll, place: -1, fresh: true}
		r.keys[k.key] = k
	}
	fresh := seen(ev, keep(&r.p.layout, ev, r.m.form.pattern.KeepRaw, cep.Value{}))
	r.key, r.moment = k, cep.Moment{Time: ev.Time, Seq: ev.Seq}
	k.events = append(k.events, rowEvent{fresh, mask})
	r.offer(len(k.events) - 1)
	r.settle()
	r.leave()
}

// offer shows the i-th event to the ways of the present start, most preferred first. For the first event the start begins.
func (r *rowMachine) offer(i int) {
	k := r.key
	r.round++
	r.next = r.next[:0]
	if i == 0 {
		k.ways = k.ways[:0]
		var entry []way
		r.walk(0, nil, &entry)
		k.ways = entry
		r.round++
	}
	r.load(i)
	for _, w := range k.ways {
		if r.p.code[w.pc].op == rowDone {
			r.next = append(r.next, w)
			break
		}
		if n := r.take(i, w); n != nil && r.walk(w.pc+1, n, &r.next) {
			break
		}
		if len(r.next) > maxRowWays {
			r.m.counters.TooLong += uint64(len(r.next) - maxRowWays)
			r.next = r.next[:maxRowWays]
			break
		}
	}
	k.ways, r.next = r.next, k.ways
	if i == 0 && len(k.ways) > 0 && k.ways[0].node != nil {
		k.begun = true
		r.m.counters.Opened++
		r.m.open++
	}
}

// load makes the i-th event the current one.
func (r *rowMachine) load(i int) {
	n := r.key.events[i].node
	r.event.Time, r.event.Seq, r.event.Position = n.time, n.seq, n.Position()
	if size := len(r.p.layout.index); len(r.event.Values) < size {
		r.event.Values = make([]cep.Value, size)
	}
	for _, slot := range r.p.slots {
		r.event.Values[slot] = n.Value(slot)
	}
	s := &r.scope
	*s = cep.Scope{Event: &r.event, Key: cep.Key(r.key.key)}
	before := r.key.before
	if i > 0 {
		before = &r.key.events[i-1]
	}
	if before != nil && r.event.Time.Sub(before.node.time) <= r.m.form.pattern.PrevReach {
		s.Prev = before.node
	}
}

// take asks whether a way can take the current event; it gives the node of it.
func (r *rowMachine) take(i int, w way) *node {
	in := r.p.code[w.pc]
	e := r.key.events[i]
	if e.mask>>in.name&1 == 0 {
		return nil
	}
	if where := r.p.where[in.name]; where != nil {
		s := &r.scope
		r.view.reset(w.node)
		s.History = &r.view
		ok, err := where.Test(s)
		if err != nil {
			r.m.counters.fail(err, r.event.Time)
			return nil
		}
		if !ok {
			return nil
		}
	}
	n := *e.node
	n.up, n.step, n.length, n.element = w.node, int16(in.name), 1, 0
	if in.excluded {
		n.element = excludedElement
	}
	if w.node != nil {
		n.length = w.node.length + 1
	}
	if limit := r.m.form.pattern.Limits.EventsPerMatch; limit > 0 && int(n.length) > limit {
		r.m.counters.TooLong++
		return nil
	}
	r.m.counters.Taken[in.name]++
	return &n
}

// excludedElement marks a node whose event stands in {- -}.
const excludedElement = 1

// Excluded says that an event of a match stands in {- -}: alerts do not list it.
func Excluded(t cep.Taken) bool {
	n, ok := t.(*node)
	return ok && n.element == excludedElement
}

// walk follows the instructions from pc to the takes that can be next, in the order of preference. It reports whether a
// complete way was met: what comes behind it is never preferred.
func (r *rowMachine) walk(pc int, n *node, out *[]way) bool {
	clear(r.seen)
	if !r.p.merges {
		r.round++
	}
	return r.follow(rowState{pc: pc}, n, out)
}

// Marks of a loop, two bits: no iteration is under way that has taken nothing; the first, or a later one is.
const (
	markFirst = 1
	markAgain = 2
)

func (r *rowMachine) follow(s rowState, n *node, out *[]way) bool {
	for {
		in := &r.p.code[s.pc]
		switch in.op {
		case rowTake:
			// Two ways at one take with one history, or with histories that nobody looks at: the preferred one stays.
			if r.reached[s.pc] != r.round {
				r.reached[s.pc] = r.round
				*out = append(*out, way{s.pc, n})
			}
			return false
		case rowDone:
			*out = append(*out, way{s.pc, n})
			return true
		case rowJump:
			s.pc = in.x
		case rowSplit:
			if _, ok := r.seen[s]; ok {
				return false
			}
			r.seen[s] = struct{}{}
			if r.follow(rowState{in.x, s.marks}, n, out) {
				return true
			}
			s.pc = in.y
		case rowFirst, rowAgain:
			mark := uint64(markFirst)
			if in.op == rowAgain {
				mark = markAgain
			}
			s.marks = s.marks&^(3<<(2*in.loop)) | mark<<(2*in.loop)
			s.pc++
		case rowCheck:
			mark := s.marks >> (2 * in.loop) & 3
			s.marks &^= 3 << (2 * in.loop)
			switch mark {
			case 0:
				s.pc = in.x
			case markFirst:
				s.pc = in.y
			default:
				return false
			}
		}
	}
}

// settle decides starts as long as it can: one whose most preferred way is complete has its match, one without ways has
// none.
func (r *rowMachine) settle() {
	k := r.key
	for len(k.events) > 0 {
		switch {
		case len(k.ways) == 0:
			r.end(nil, EndKilled)
		case r.p.code[k.ways[0].pc].op == rowDone:
			r.end(k.ways[0].node, EndCompleted)
		default:
			return
		}
	}
}

// end ends the present start, with a match or without, and begins the next one with the events that are there.
func (r *rowMachine) end(match *node, reason EndReason) {
	k := r.key
	skip := 1
	if match != nil {
		r.m.counters.Matched++
		h := &history{form: r.m.form, node: match}
		h.list()
		r.m.let(cep.Match{
			Key: cep.Key(k.key), Moment: r.moment, Completed: cep.Moment{Time: match.time, Seq: match.seq}, History: h,
		})
		skip = r.skip(h)
	}
	if k.begun {
		r.m.open--
		r.m.counters.Ended[reason]++
	}
	last := k.events[skip-1]
	k.before = &last
	k.events = slices.Delete(k.events, 0, skip)
	k.ways, k.begun = k.ways[:0], false
	if r.m.draining {
		k.events = nil
	}
	for i := range k.events {
		r.offer(i)
		if len(k.ways) == 0 || r.p.code[k.ways[0].pc].op == rowDone {
			return // settle goes on with it
		}
	}
}

// skip is the number of events from the start of a match to the next start (S6.3).
func (r *rowMachine) skip(h *history) int {
	p := &r.m.form.pattern
	total := h.Total()
	switch p.After {
	case SkipPastLast:
		return total
	case SkipToFirst, SkipToLast:
		at := -1
		for i, n := range h.all {
			if int(n.step) == p.Target && (at < 0 || p.After == SkipToLast) {
				at = i
			}
		}
		if at <= 0 {
			r.m.counters.Skips++
			return 1
		}
		return at
	default:
		return 1
	}
}

// leave ends the work on a key: its deadline is set, and a key without state goes.
func (r *rowMachine) leave() {
	k := r.key
	due := cep.AfterAll
	p := &r.m.form.pattern
	switch {
	case len(k.events) > 0 && p.Within > 0:
		due = k.events[0].node.time.Add(p.Within)
	case len(k.events) > 0:
	case p.UsesPrev && k.before != nil && k.before.node.time.Add(p.PrevReach) > r.moment.Time:
		due = k.before.node.time.Add(p.PrevReach)
	default:
		delete(r.keys, k.key)
	}
	if b := r.m.brake; b != nil {
		_, is := r.keys[k.key]
		b.settle(k.key, !k.fresh, is, 1, k.weigh)
	}
	if c := r.m.changes; c != nil {
		_, is := r.keys[k.key]
		c.noteRow(k, !is)
	}
	k.due, k.fresh = due, false
	switch {
	case due == cep.AfterAll && k.place >= 0:
		heap.Remove(&r.dues, k.place)
	case due == cep.AfterAll:
	case k.place >= 0:
		heap.Fix(&r.dues, k.place)
	default:
		heap.Push(&r.dues, k)
	}
	r.scope, r.key = cep.Scope{}, nil
}

// advance is [Machine.Advance].
func (r *rowMachine) advance(w cep.Time) {
	for len(r.dues) > 0 && r.dues[0].due <= w {
		k := r.dues[0]
		r.key, r.moment = k, cep.Moment{Time: k.due, Seq: cep.ByTime}
		if len(k.events) > 0 {
			r.expire()
			r.settle()
		}
		r.leave()
	}
}

// expire ends a start whose window is over: of its complete ways the preferred one is the match.
func (r *rowMachine) expire() {
	for _, w := range r.key.ways {
		if r.p.code[w.pc].op == rowDone {
			r.end(w.node, EndCompleted)
			return
		}
	}
	r.end(nil, EndExpired)
}

// deadline is [Machine.NextDeadline].
func (r *rowMachine) deadline() cep.Time {
	if len(r.dues) == 0 {
		return cep.AfterAll
	}
	return r.dues[0].due
}

// sorted gives the keys in order.
func (r *rowMachine) sorted() []*rowKey {
	return slices.SortedFunc(maps.Values(r.keys), func(a, b *rowKey) int { return cmp.Compare(a.key, b.key) })
}

// rowDues is a heap of keys by when something of them is over, then by key. The first event of a later start can be older
// than that of another key's earlier one, so no queue is in order by itself.
type rowDues []*rowKey

func (d rowDues) Len() int { return len(d) }

func (d rowDues) Less(i, j int) bool {
	return d[i].due < d[j].due || d[i].due == d[j].due && d[i].key < d[j].key
}

func (d rowDues) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

func (d *rowDues) Push(x any) {
	k := x.(*rowKey)
	k.place = len(*d)
	*d = append(*d, k)
}

func (d *rowDues) Pop() any {
	last := len(*d) - 1
	k := (*d)[last]
	(*d)[last] = nil
	k.place = -1
	*d = (*d)[:last]
	return k
}
