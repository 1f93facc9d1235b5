package nfa

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/internal/invariant"
)

// The snapshot of a machine. docs/format/snapshot.md draws it; the primitives are in encoder.go.
//
//	snapshot  = magic, version, shape, body, checksum
//	body      = int now, int firstTime, counters, uint count, (string stream, string name)s, uint count, keys
//	counters  = uint delivered, uint count, uint taken by name, uint opened, uint count, uint ended by reason,
//	            uint matched, timeouts, refused, tooLong, errors, string lastError
//	key       = string key, uint last, uint count, nodes, uint count, starts, uint count, held matches, memories, log
//	node      = uint up + 1, uint event, [event] if it is new, uint element, [kept] if it is the first of its event and name
//	event     = int time and uint seq (since the event before it in the key), uint partition, int offset
//	kept      = values by the slots of the name, [value of distinct], uint length of raw + 1, raw
//	start     = state byte, uint node or, without an event, int time, uint count, runs
//	run       = [uint node], uint pc, flags byte (link, 4: can, 8: frame), uint n, uint absent, [frame]
//	frame     = uint bars, uint count, for each composite: uint n, bool took, int first
//	held      = uint node, int time, bool timed, [uint seq] unless timed
//	memories  = bool there, by kind: bool there, [int time, memory]
//	memory    = prev: seen | first_seen: uint count, (string values, int time)s
//	            | condition that reads more than its event: uint count, (seen, bool, [seen before])s
//	            | other edges: bool held | other absences: nothing
//	seen      = event, kept
//	log       = uint count, (seen, uint heard, for each other element heard: kept)s
//
// Deadlines, the table and aggregates follow from the rest and are rebuilt.
const (
	snapshotMagic   = "cepd-nfa"
	snapshotVersion = 2
	checksumSize    = 4
	snapshotHead    = len(snapshotMagic) + 1 + checksumSize
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendSnapshot appends the whole state to dst: what [Restore] makes a machine of that goes on as this one would have.
// Matches that nobody has asked for yet are no state: call [Machine.Matches] first.
func (m *Machine) AppendSnapshot(dst []byte) []byte {
	invariant.Check(len(m.out) == 0, "a snapshot while %d matches wait to be taken", len(m.out))
	begin := len(dst)
	dst = append(dst, snapshotMagic...)
	dst = append(dst, snapshotVersion)
	dst = binary.BigEndian.AppendUint32(dst, m.program.shape())
	dst = appendInt(dst, int64(m.now))
	dst = appendInt(dst, int64(m.firstTime))
	dst = m.counters.append(dst)
	if m.rows != nil {
		dst = appendUint(dst, m.counters.Skips)
	}
	// Partitions are numbered as they are met, so the keys are written first and stand behind them.
	numbers, order := map[*cep.Partition]uint64{}, []*cep.Partition(nil)
	w := newWriter(m.program, func(dst []byte, p *cep.Partition) []byte {
		n, ok := numbers[p]
		if !ok {
			n = uint64(len(order))
			numbers[p] = n
			order = append(order, p)
		}
		return appendUint(dst, n)
	})
	if m.rows != nil {
		for _, k := range m.rows.sorted() {
			w.out = cep.AppendText(w.out, k.key)
			w.rowKey(k)
		}
	} else {
		for _, r := range m.keys.sorted() {
			w.out = cep.AppendText(w.out, r.key)
			w.key(r)
		}
	}
	dst = appendUint(dst, uint64(len(order)))
	for _, p := range order {
		dst = cep.AppendText(cep.AppendText(dst, p.Stream), p.Name)
	}
	dst = appendUint(dst, uint64(m.Keys()))
	dst = append(dst, w.out...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[begin:], castagnoli))
}

// shape is a checksum over what the encoding takes for granted of the program.
func (p *Program) shape() uint32 {
	if p.rows != nil {
		return p.rows.shape(&p.pattern)
	}
	var b []byte
	for i := range p.pattern.Names {
		b = appendSlots(b, p.layouts[i].slots)
	}
	for i := range p.elements {
		e := &p.elements[i]
		b = appendInt(appendUint(b, uint64(e.Name)), int64(e.role))
		b = cep.AppendFlag(cep.AppendFlag(append(b, byte(e.Link), byte(e.Loop)), e.Absent), e.Optional)
		b = appendInt(appendInt(b, int64(e.Min)), int64(e.Max))
		b = appendInt(appendInt(appendInt(b, int64(e.Within)), int64(e.LoopWithin)), int64(e.For))
		b = appendSlots(cep.AppendFlag(b, e.looksAround && e.role == absentStart), e.seen.slots)
	}
	b = cep.AppendFlag(appendInt(b, int64(p.pattern.Within)), p.pattern.UsesPrev)
	b = appendInt(appendSlots(b, p.prevLayout.slots), int64(p.pattern.PrevReach))
	b = cep.AppendFlag(b, p.pattern.Ordered)
	if !p.flat || p.constant|p.without != 0 {
		for pc, in := range p.code {
			b = appendInt(append(b, byte(in.op)), int64(in.x))
			for _, x := range in.xs {
				b = appendInt(b, int64(x))
			}
			if e := in.element; e != nil {
				b = append(b, byte(e.Kind))
				b = cep.AppendFlag(cep.AppendFlag(cep.AppendFlag(b, e.Times), e.Greedy), e.Edge)
				b = cep.AppendFlag(cep.AppendFlag(cep.AppendFlag(b, e.Distinct != nil), e.Having != nil), e.FirstSeen != nil)
				b = appendInt(appendInt(appendInt(b, int64(e.Min)), int64(e.Max)), int64(e.Need))
				b = appendInt(appendUint(b, e.untils), int64(e.Within))
			}
			b = appendUint(b, uint64(pc))
		}
		b = appendUint(b, p.without)
	}
	return crc32.Checksum(b, castagnoli)
}

func appendSlots(dst []byte, slots []int) []byte {
	dst = appendUint(dst, uint64(len(slots)))
	for _, s := range slots {
		dst = appendUint(dst, uint64(s))
	}
	return dst
}

func (c *Counters) append(dst []byte) []byte {
	list := func(ns []uint64) {
		dst = appendUint(dst, uint64(len(ns)))
		for _, n := range ns {
			dst = appendUint(dst, n)
		}
	}
	dst = appendUint(dst, c.Delivered)
	list(c.Taken)
	dst = appendUint(dst, c.Opened)
	list(c.Ended[:])
	for _, n := range []uint64{c.Matched, c.Timeouts, c.Refused, c.TooLong, c.Errors} {
		dst = appendUint(dst, n)
	}
	return cep.AppendText(dst, c.LastError)
}

// writer writes keys, one after the other.
type writer struct {
	program *Program
	out     []byte
	// partition appends what stands for a partition.
	partition func(dst []byte, p *cep.Partition) []byte
	// Of the present key:
	before seenEvent         // the event that was written last
	events numbering[uint64] // by Seq
	nodes  numbering[*node]
	kept   numbering[keptKey]
	list   []byte // the nodes, which stand before what refers to them
	refs   []byte // what refers to nodes
	chain  []*node
}

func newWriter(p *Program, partition func(dst []byte, p *cep.Partition) []byte) *writer {
	return &writer{program: p, partition: partition}
}

// numbering numbers things from 0, in the order in which they are added.
type numbering[K comparable] struct {
	list  []K
	index map[K]int // once there are too many to look through
}

// numberingMax is where looking through a list costs as much as a map does. Most keys have fewer nodes.
const numberingMax = 16

func (n *numbering[K]) reset() {
	clear(n.list)
	n.list = n.list[:0]
	clear(n.index)
}

// add returns the number of k; fresh: it had none yet.
func (n *numbering[K]) add(k K) (number int, fresh bool) {
	if number, ok := n.find(k); ok {
		return number, false
	}
	n.list = append(n.list, k)
	switch number = len(n.list) - 1; {
	case number == numberingMax:
		if n.index == nil {
			n.index = map[K]int{}
		}
		for i, x := range n.list {
			n.index[x] = i
		}
	case number > numberingMax:
		n.index[k] = number
	}
	return number, true
}

func (n *numbering[K]) find(k K) (int, bool) {
	if len(n.list) <= numberingMax {
		i := slices.Index(n.list, k)
		return i, i >= 0
	}
	i, ok := n.index[k]
	return i, ok
}

type keptKey struct {
	seq  uint64
	step int16
}

// seenEvent is what the next event is written against.
type seenEvent struct {
	time cep.Time
	seq  uint64
}

// key appends the state of a key, without its name.
func (w *writer) key(r *Runs) {
	w.before, w.list = seenEvent{}, w.list[:0]
	w.events.reset()
	w.nodes.reset()
	w.kept.reset()
	b := appendUint(w.refs[:0], uint64(r.count))
	for s := r.oldest; s != nil; s = s.next {
		b = append(b, byte(s.state))
		awaited := s.state&startAwaited != 0
		if awaited {
			b = appendInt(b, int64(s.first.time))
		} else {
			b = appendUint(b, w.node(s.first))
		}
		runs := s.runs()
		b = appendUint(b, uint64(len(runs)))
		for i := range runs {
			t := &runs[i]
			if !awaited {
				b = appendUint(b, w.node(t.node))
			}
			b = appendRun(b, t)
		}
	}
	var held []completion
	var memories []*memory
	if r.rare != nil {
		held, memories = r.rare.held, r.rare.memories
	}
	b = appendUint(b, uint64(len(held)))
	for _, c := range held {
		b = appendUint(b, w.node(c.node))
		b = cep.AppendFlag(appendInt(b, int64(c.at.Time)), c.at.Timed())
		if !c.at.Timed() {
			b = appendUint(b, c.at.Seq)
		}
	}
	w.out = appendUint(w.out, r.last)
	w.out = appendUint(w.out, uint64(len(w.nodes.list)))
	w.out = append(append(w.out, w.list...), b...)
	w.refs = b
	w.out = cep.AppendFlag(w.out, memories != nil)
	for kind, x := range memories {
		w.out = cep.AppendFlag(w.out, x != nil)
		if x != nil {
			w.memory(x, w.program.memories[kind].element)
		}
	}
	w.log(r)
}

func (w *writer) log(r *Runs) {
	if r.rare == nil || r.rare.log == nil {
		w.out = appendUint(w.out, 0)
		return
	}
	p := w.program
	w.out = appendUint(w.out, uint64(len(r.rare.log)))
	for i := range r.rare.log {
		l := &r.rare.log[i]
		w.seen(l.node, &p.layouts[l.node.step])
		w.out = appendUint(w.out, l.heard)
		for i := range p.elements {
			if e := &p.elements[i]; p.logs(e, l.heard) {
				var k *kept
				if l.kept != nil {
					k = l.kept[e.Name]
				}
				w.out = appendKept(w.out, k, &p.layouts[e.Name])
			}
		}
	}
}

func appendRun(dst []byte, t *run) []byte {
	flags := byte(t.link)
	if t.can {
		flags |= 4
	}
	if t.frame != nil {
		flags |= 8
	}
	dst = appendUint(append(appendUint(dst, uint64(t.pc)), flags), uint64(t.n))
	dst = appendUint(dst, t.absent)
	if f := t.frame; f != nil {
		dst = appendUint(appendUint(dst, f.bars), uint64(f.count))
		for _, g := range f.groups {
			dst = appendInt(cep.AppendFlag(appendUint(dst, uint64(g.n)), g.took), int64(g.first))
		}
	}
	return dst
}

// node writes the chain of n as far as it is new, and returns its number. It does not recurse: a chain may be long.
func (w *writer) node(n *node) uint64 {
	w.chain = w.chain[:0]
	number, known := 0, false
	for ; n != nil; n = n.up {
		if number, known = w.nodes.find(n); known {
			break
		}
		w.chain = append(w.chain, n)
	}
	up := 0 // number + 1
	if known {
		up = number + 1
	}
	for _, n := range slices.Backward(w.chain) {
		w.list = appendUint(w.list, uint64(up))
		number, _ = w.nodes.add(n)
		up = number + 1
		event, fresh := w.events.add(n.seq)
		w.list = appendUint(w.list, uint64(event))
		if fresh {
			w.list = w.event(w.list, n)
		}
		w.list = appendUint(w.list, uint64(n.element))
		if _, fresh := w.kept.add(keptKey{n.seq, n.step}); fresh {
			w.list = appendKept(w.list, n.kept, &w.program.layouts[n.step])
		}
	}
	return uint64(number)
}

func (w *writer) event(dst []byte, n *node) []byte {
	dst = appendInt(dst, int64(n.time-w.before.time)) // may wrap; so does reading it
	dst = appendUint(dst, n.seq-w.before.seq)
	w.before = seenEvent{n.time, n.seq}
	return appendInt(w.partition(dst, n.partition), n.offset)
}

func appendKept(dst []byte, k *kept, l *layout) []byte {
	if k == nil {
		k = &kept{}
	}
	for i := range l.slots {
		dst = cep.AppendValue(dst, k.values[i])
	}
	if l.value != nil {
		dst = cep.AppendValue(dst, k.value)
	}
	if k.raw == nil {
		return appendUint(dst, 0)
	}
	return append(appendUint(dst, uint64(len(k.raw))+1), k.raw...)
}

func (w *writer) memory(x *memory, e *element) {
	w.out = appendInt(w.out, int64(x.time))
	switch {
	case e == nil:
		w.seen(x.event, &w.program.prevLayout)
	case e.FirstSeen != nil:
		w.out = appendUint(w.out, uint64(len(x.met.values)))
		for y := x.met.oldest; y != nil; y = y.newer {
			w.out = appendInt(cep.AppendText(w.out, y.values), int64(y.time))
		}
	case e.looksAround:
		w.out = appendUint(w.out, uint64(len(x.past)))
		for _, p := range x.past {
			w.seen(p.event, &e.seen)
			w.out = cep.AppendFlag(w.out, p.prev != nil)
			if p.prev != nil {
				w.seen(p.prev, &w.program.prevLayout)
			}
		}
	case e.Edge:
		w.out = cep.AppendFlag(w.out, x.held)
	}
}

func (w *writer) seen(n *node, l *layout) {
	w.out = appendKept(w.event(w.out, n), n.kept, l)
}
