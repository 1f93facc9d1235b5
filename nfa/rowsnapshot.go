package nfa

import (
	"bytes"
	"hash/crc32"

	"github.com/cepd/cepd/cep"
)

// The snapshot of a row pattern's machine, behind the counters:
//
//	rows   = uint skips, uint count, (string stream, string name)s, uint count, keys
//	key    = string key, bool there, [event before], uint count, events
//	event  = int time, uint seq, uint partition, int offset, values by the slots of the program, uint length of raw + 1, raw,
//	         uint mask
//
// The ways of a start follow from its events: they are found again by looking at these once more.

// shape is a checksum over what the encoding takes for granted.
func (p *rowProgram) shape(pattern *Pattern) uint32 {
	b := appendSlots([]byte("rows"), p.slots)
	for _, in := range p.code {
		b = appendInt(appendInt(append(b, byte(in.op)), int64(in.x)), int64(in.y))
		b = appendInt(appendInt(b, int64(in.name)), int64(in.loop))
	}
	b = appendInt(appendInt(b, int64(pattern.Within)), int64(pattern.PrevReach))
	b = appendInt(append(b, byte(pattern.After)), int64(pattern.Target))
	return crc32.Checksum(b, castagnoli)
}

// rowKey appends the state of a key of a row pattern.
func (w *writer) rowKey(k *rowKey) {
	w.out = cep.AppendFlag(w.out, k.before != nil)
	if k.before != nil {
		w.rowEvent(k.before)
	}
	w.out = appendUint(w.out, uint64(len(k.events)))
	for i := range k.events {
		w.rowEvent(&k.events[i])
	}
}

func (w *writer) rowEvent(e *rowEvent) {
	n := e.node
	b := appendUint(appendInt(w.out, int64(n.time)), n.seq)
	b = appendInt(w.partition(b, n.partition), n.offset)
	for _, slot := range w.program.rows.slots {
		b = cep.AppendValue(b, n.Value(slot))
	}
	if raw := n.Raw(); raw == nil {
		b = appendUint(b, 0)
	} else {
		b = append(appendUint(b, uint64(len(raw))+1), raw...)
	}
	w.out = appendUint(b, e.mask)
}

// rowKey reads the state of a key. Finding its ways again counts nothing.
func (r *restorer) rowKey(key string) {
	m := r.machine
	counters := m.counters
	m.counters = r.uncounted
	defer func() { m.counters = counters }()
	k := &rowKey{key: key, due: cep.AfterAll, place: -1}
	if r.Flag() {
		e := r.rowEvent()
		k.before = &e
	}
	for range r.Count(6 + len(m.rows.p.slots)) {
		k.events = append(k.events, r.rowEvent())
	}
	if r.Err() == nil {
		m.rows.restore(r, k)
	}
}

func (r *restorer) rowEvent() rowEvent {
	p := r.machine.program.rows
	n := &node{length: 1, element: noElement, step: noElement}
	n.time, n.seq = cep.Time(r.Int()), r.Uint()
	n.partition = r.place()
	n.offset = r.Int()
	k := &kept{layout: &p.layout}
	for range p.slots {
		k.values = append(k.values, r.Value())
	}
	if size := r.Count(1); size > 0 && r.Err() == nil {
		k.raw = bytes.Clone(r.Bytes(size - 1))
	}
	if len(k.values) > 0 || k.raw != nil {
		n.kept = k
	}
	return rowEvent{n, r.Uint()}
}

// restore finds the ways of a key again. A start that is decided would have been over before the snapshot.
func (r *rowMachine) restore(from *restorer, k *rowKey) {
	for i := range k.events {
		t := k.events[i].node.time
		from.Check(i == 0 || t >= k.events[i-1].node.time, "events out of order")
		from.newest = max(from.newest, t)
	}
	from.Check(len(k.events) > 0 || k.before != nil, "a key without state")
	from.Check(r.keys[k.key] == nil, "it is there twice")
	if from.Err() != nil {
		return
	}
	r.keys[k.key] = k
	if r.m.brake != nil {
		r.m.brake.settle(k.key, false, true, 0, k.weigh)
	}
	r.key, r.moment = k, cep.Moment{Time: r.m.now}
	for i := range k.events {
		r.offer(i)
		if len(k.ways) == 0 || r.p.code[k.ways[0].pc].op == rowDone {
			from.Fail("a start that is decided")
			return
		}
	}
	r.leave()
}
