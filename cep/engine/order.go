package engine

import (
	"cmp"

	"github.com/cepd/cepd/cep"
)

// entry is an event that waits for its release.
type entry struct {
	ev    cep.Event
	place place
	// arrival orders what the total order leaves equal: two events that claim one position.
	arrival uint64
	// shared says that ev.Values belongs to several entries, one for each clock.
	shared bool
	// alert is what the event is made of, where it is one.
	alert *cep.Alert
	// routes are the rules and keys that the event belongs to; keys holds their keys.
	routes []route
	keys   []byte
}

// place is what orders an event among those of its time.
type place struct {
	// tie is the value of the stream's tie-break field, missing where there is none.
	tie      cep.Value
	position cep.Position
	// origin is the order of the alert that the event is; nil for events that were read.
	origin *order
}

// route is an event's place in the stream of one key of a rule.
type route struct {
	rule       *running
	start, end int // of the key, in entry.keys
	mask       uint64
	// resolves says that the event ends the key's open alert.
	resolves bool
	// broken says that the rule panicked when it was asked for its keys: it stops when the event's turn comes.
	broken string
}

// before is the total order S1.1.
func (a *entry) before(b *entry) bool {
	if a.ev.Time != b.ev.Time {
		return a.ev.Time < b.ev.Time
	}
	if c := a.place.compare(&b.place); c != 0 {
		return c < 0
	}
	return a.arrival < b.arrival
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

// orderBuffer holds events until no earlier one can come. Events that come in order, nearly all in practice, pass through
// a queue; only the others pay for a heap.
type orderBuffer struct {
	queue []*entry // ascending, from head
	head  int
	heap  []*entry
}

func (b *orderBuffer) push(e *entry) {
	if b.head == len(b.queue) {
		b.queue, b.head = b.queue[:0], 0
	}
	if n := len(b.queue); n == b.head || b.queue[n-1].before(e) {
		if n == cap(b.queue) && b.head > n/2 {
			b.queue = b.queue[:copy(b.queue, b.queue[b.head:])]
			b.head = 0
		}
		b.queue = append(b.queue, e)
		return
	}
	b.heap = append(b.heap, e)
	i := len(b.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !b.heap[i].before(b.heap[up]) {
			break
		}
		b.heap[i], b.heap[up] = b.heap[up], b.heap[i]
		i = up
	}
}

// least returns the first event in order, nil where there is none.
func (b *orderBuffer) least() *entry {
	switch {
	case b.head == len(b.queue) && len(b.heap) == 0:
		return nil
	case b.head == len(b.queue):
		return b.heap[0]
	case len(b.heap) == 0 || b.queue[b.head].before(b.heap[0]):
		return b.queue[b.head]
	default:
		return b.heap[0]
	}
}

// pop removes what least returned.
func (b *orderBuffer) pop() {
	if b.head < len(b.queue) && (len(b.heap) == 0 || b.queue[b.head].before(b.heap[0])) {
		b.queue[b.head] = nil
		b.head++
		return
	}
	n := len(b.heap) - 1
	b.heap[0] = b.heap[n]
	b.heap[n] = nil
	b.heap = b.heap[:n]
	for i := 0; ; {
		least, left := i, 2*i+1
		for c := left; c < min(left+2, n); c++ {
			if b.heap[c].before(b.heap[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		b.heap[i], b.heap[least] = b.heap[least], b.heap[i]
		i = least
	}
}
