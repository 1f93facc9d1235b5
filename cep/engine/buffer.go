package engine

import "github.com/cepd/cepd/cep"

// entry is an event on its way through one lane: to its order buffer, and to the machines of the keys that it belongs to
// there.
type entry struct {
	ev    cep.Event
	clock *clock
	place place
	// arrival orders what the total order leaves equal: two events that claim one position.
	arrival uint64
	// stream is the place, among those of the clock, of the one that it was read from, or noStream; size is what it counts
	// for in [Core.Buffered].
	stream int
	size   int64
	// shared says that ev.Values belongs to several entries, one for each lane.
	shared bool
	// alert is what the event is made of, where it is one.
	alert *pendingAlert
	// routes are the versions and keys that the event belongs to; keys holds their keys.
	routes []route
	keys   []byte
}

// noStream is where alerts come from.
const noStream = -1

// reset empties an entry for reuse: what is not forgotten here is overwritten then. Machines copied what they keep.
func (e *entry) reset() {
	if e.shared {
		e.ev.Values = nil
	}
	clear(e.ev.Values) // strings must not stay for an entry's sake
	e.ev.Values, e.routes, e.keys = e.ev.Values[:0], e.routes[:0], e.keys[:0]
	if e.ev.Raw != nil {
		e.ev.Raw = nil
	}
	if e.alert != nil || e.place.tie != (cep.Value{}) {
		e.alert, e.place = nil, place{}
	}
}

// pool holds entries that are to be used again. It belongs to one goroutine.
type pool struct {
	list []*entry
	// returned takes those that a shard has done with back to the front; nil where both are one goroutine.
	returned chan []*entry
}

// returnAt is the number of entries that go back together: those of a usual packet.
const returnAt = 256

func (p *pool) put(e *entry) {
	e.reset()
	p.list = append(p.list, e)
	if p.returned == nil || len(p.list) < returnAt {
		return
	}
	select {
	case p.returned <- p.list:
	default: // the front has plenty
	}
	p.list = nil
}

func (p *pool) get() *entry {
	if len(p.list) == 0 && p.returned != nil {
		select {
		case p.list = <-p.returned:
		default:
		}
	}
	n := len(p.list)
	if n == 0 {
		return &entry{}
	}
	e := p.list[n-1]
	p.list = p.list[:n-1]
	return e
}

// route is an event's place in the stream of one key of a rule.
type route struct {
	version    int // its place among those of the clock
	start, end int // of the key, in entry.keys
	// mask has the names that may take the event, holds those of them whose condition is known to hold.
	mask, holds uint64
	// resolves says that the event ends the key's open alert.
	resolves bool
	// broken says that the rule panicked when it was asked for its keys: it stops when the event's turn comes.
	broken string
}

// spread makes the entries of one event for one clock: one for each shard that has a use for it.
type spread struct {
	shards int
	spare  *pool
	open   []*entry // by shard
	used   []int    // those of them that are there
}

func newSpread(shards int, spare *pool) *spread {
	return &spread{shards: shards, spare: spare, open: make([]*entry, shards)}
}

func (s *spread) entry(i int) *entry {
	if s.open[i] == nil {
		s.open[i] = s.spare.get()
		s.used = append(s.used, i)
	}
	return s.open[i]
}

// add returns the place of the event in the stream of a key, to be filled in.
func (s *spread) add(v *version, key []byte) *route {
	i := 0
	if s.shards > 1 {
		i = shardOf(v.slot(key), s.shards)
	}
	e := s.entry(i)
	start := len(e.keys)
	e.keys = append(e.keys, key...)
	e.routes = append(e.routes, route{version: v.place, start: start, end: len(e.keys)})
	return &e.routes[len(e.routes)-1]
}

// addBroken lets the version stop at the event: in the shard where a rule for all keys would be.
func (s *spread) addBroken(v *version, cause string) {
	e := s.entry(shardOf(v.slot(nil), s.shards))
	e.routes = append(e.routes, route{version: v.place, broken: cause})
}

// clear forgets the entries, which are on their way.
func (s *spread) clear() {
	for _, i := range s.used {
		s.open[i] = nil
	}
	s.used = s.used[:0]
}

// before is the total order S1.1.
func (e *entry) before(o *entry) bool {
	if e.ev.Time != o.ev.Time {
		return e.ev.Time < o.ev.Time
	}
	if c := e.place.compare(&o.place); c != 0 {
		return c < 0
	}
	return e.arrival < o.arrival
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
