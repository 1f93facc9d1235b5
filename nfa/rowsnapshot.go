package nfa

import (
	"bytes"
	"hash/crc32"
	"slices"

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

// append writes the keys, in order.
func (r *rowMachine) append(dst []byte) []byte {
	partitions := map[*cep.Partition]uint64{}
	var order []*cep.Partition
	var body []byte
	event := func(e *rowEvent) {
		n := e.node
		i, ok := partitions[n.partition]
		if !ok {
			i = uint64(len(order))
			partitions[n.partition] = i
			order = append(order, n.partition)
		}
		body = appendUint(appendInt(body, int64(n.time)), n.seq)
		body = appendInt(appendUint(body, i), n.offset)
		for _, slot := range r.p.slots {
			body = appendValue(body, n.Value(slot))
		}
		if raw := n.Raw(); raw == nil {
			body = appendUint(body, 0)
		} else {
			body = append(appendUint(body, uint64(len(raw))+1), raw...)
		}
		body = appendUint(body, e.mask)
	}
	keys := r.sorted()
	for _, k := range keys {
		body = appendBool(appendString(body, k.key), k.before != nil)
		if k.before != nil {
			event(k.before)
		}
		body = appendUint(body, uint64(len(k.events)))
		for i := range k.events {
			event(&k.events[i])
		}
	}
	dst = appendUint(appendUint(dst, r.m.counters.Skips), uint64(len(order)))
	for _, p := range order {
		dst = appendString(appendString(dst, p.Stream), p.Name)
	}
	return append(appendUint(dst, uint64(len(keys))), body...)
}

// rows reads the keys of a row pattern's machine.
func (r *restorer) rows(intern func(stream, partition string) *cep.Partition) {
	m := r.machine
	counters := m.counters
	counters.Taken, counters.Skips = slices.Clone(m.counters.Taken), r.uint()
	for range r.count(2) {
		r.partitions = append(r.partitions, intern(r.string(), r.string()))
	}
	last := ""
	for i := range r.count(3) { // a key takes at least that many bytes
		k := &rowKey{key: r.string(), due: cep.AfterAll, place: -1}
		r.check(i == 0 || k.key > last, "keys out of order")
		last = k.key
		if r.bool() {
			e := r.rowEvent()
			k.before = &e
		}
		for range r.count(6 + len(m.rows.p.slots)) {
			k.events = append(k.events, r.rowEvent())
		}
		if r.err != nil {
			return
		}
		m.rows.restore(r, k)
		if r.err != nil {
			return
		}
	}
	m.counters = counters
}

func (r *restorer) rowEvent() rowEvent {
	p := r.machine.program.rows
	n := &node{length: 1, element: noElement, step: noElement}
	n.time, n.seq = cep.Time(r.int()), r.uint()
	if i := r.index(len(r.partitions), "partition"); r.err == nil {
		n.partition = r.partitions[i]
	}
	n.offset = r.int()
	k := &kept{layout: &p.layout}
	for range p.slots {
		k.values = append(k.values, r.value(0))
	}
	if size := r.count(1); size > 0 && r.err == nil {
		k.raw = bytes.Clone(r.bytes(size - 1))
	}
	if len(k.values) > 0 || k.raw != nil {
		n.kept = k
	}
	return rowEvent{n, r.uint()}
}

// restore finds the ways of a key again. A start that is decided would have been over before the snapshot.
func (r *rowMachine) restore(from *restorer, k *rowKey) {
	for i := range k.events {
		t := k.events[i].node.time
		from.check(i == 0 || t >= k.events[i-1].node.time, "events out of order")
		from.check(t <= r.m.now.Add(1), "an event above the watermark")
	}
	from.check(len(k.events) > 0 || k.before != nil, "a key without state")
	if from.err != nil {
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
			from.fail("a start that is decided")
			return
		}
	}
	r.leave()
}
