package nfa

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/cepd/cepd/cep"
)

// Restore makes a machine of a snapshot of the same program. intern returns the one Partition of a stream and name. The
// error wraps [ErrSnapshot]. Bytes that no machine has written are refused or give a machine that holds its invariants;
// they never allocate more than in proportion to their own length.
func Restore(p *Program, memo *Memo, data []byte, intern func(stream, partition string) *cep.Partition) (*Machine, error) {
	if len(data) < snapshotHead+checksumSize || string(data[:len(snapshotMagic)]) != snapshotMagic {
		return nil, fmt.Errorf("%w: no snapshot of runs", ErrSnapshot)
	}
	version := data[len(snapshotMagic)]
	if version == 0 || version > snapshotVersion {
		return nil, fmt.Errorf("%w: version %d, this program reads up to %d", ErrSnapshot, version, snapshotVersion)
	}
	body, sum := data[:len(data)-checksumSize], data[len(data)-checksumSize:]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(sum) {
		return nil, fmt.Errorf("%w: wrong checksum", ErrSnapshot)
	}
	if binary.BigEndian.Uint32(body[len(snapshotMagic)+1:]) != p.shape() {
		return nil, fmt.Errorf("%w: it belongs to another program than %s", ErrSnapshot, p.pattern.Rule)
	}
	r := &restorer{reader: reader{data: body[snapshotHead:]}, version: version, machine: NewMachine(p, memo), kept: map[keptKey]*kept{}}
	r.body(intern)
	r.check(len(r.data) == 0, "bytes behind the end")
	if r.err != nil {
		return nil, r.err
	}
	r.machine.reschedule()
	return r.machine, nil
}

// restorer reads the parts of a snapshot into a machine.
type restorer struct {
	reader
	version    byte
	machine    *Machine
	partitions []*cep.Partition
	// Of the present key:
	before seenEvent
	events []*node // their fields of the event only
	nodes  []*node
	kept   map[keptKey]*kept
	// remembered are the memories of all keys, by kind.
	remembered [][]*memory
}

func (r *restorer) body(intern func(stream, partition string) *cep.Partition) {
	m := r.machine
	m.now, m.firstTime = cep.Time(r.int()), cep.Time(r.int())
	r.counters(&m.counters)
	if m.rows != nil {
		r.rows(intern)
		return
	}
	for range r.count(2) {
		r.partitions = append(r.partitions, intern(r.string(), r.string()))
	}
	r.remembered = make([][]*memory, len(m.memories))
	last := ""
	keys := r.count(6)
	if keys > 0 {
		m.keys.reserve(keys)
	}
	for i := range keys { // a key takes at least that many bytes
		runs := r.key()
		if r.err != nil {
			return
		}
		r.check(i == 0 || runs.key > last, "keys out of order")
		last = runs.key
		if err := m.checkKey(runs); err != nil {
			r.fail("%v", err)
			return
		}
		m.keys.insert(runs)
		if m.brake != nil {
			m.brake.settle(runs.key, false, true, 0, runs.weigh)
		}
		m.open += int(runs.count)
	}
	for kind, list := range r.remembered {
		slices.SortFunc(list, func(a, b *memory) int { return cmp.Compare(a.time, b.time) })
		for _, x := range list {
			m.memories[kind].push(x)
		}
	}
}

func (r *restorer) counters(c *Counters) {
	list := func(to []uint64) {
		if n := r.count(1); n != len(to) {
			r.fail("%d counters of %d", n, len(to))
			return
		}
		for i := range to {
			to[i] = r.uint()
		}
	}
	c.Delivered = r.uint()
	list(c.Taken)
	c.Opened = r.uint()
	list(c.Ended[:])
	for _, n := range []*uint64{&c.Matched, &c.Timeouts, &c.Refused, &c.TooLong, &c.Errors} {
		*n = r.uint()
	}
	c.LastError = r.string()
}

func (r *restorer) key() *Runs {
	r.before, r.events, r.nodes = seenEvent{}, r.events[:0], r.nodes[:0]
	clear(r.kept)
	key := r.string()
	runs := &Runs{key: key, hash: hashKey([]byte(key)), last: r.uint()}
	for range r.count(3) {
		r.node()
	}
	for range r.count(3) { // a parked one is that short
		if s := r.start(); s != nil {
			s.owner = runs
			for _, t := range s.runs() {
				runs.hears |= r.machine.program.hears(&t)
			}
			if s.state&startParked != 0 {
				runs.hears |= r.machine.program.logging
			}
			runs.push(s)
		}
	}
	for range r.count(3) {
		c := completion{node: r.ref(), at: cep.Moment{Time: cep.Time(r.int()), Seq: cep.ByTime}}
		if timed := r.bool(); !timed {
			c.at.Seq = r.uint()
		}
		if r.err != nil {
			break
		}
		c.first = c.node.root().seq
		runs.extra().held = append(runs.extra().held, c)
	}
	if r.bool() {
		runs.extra().memories = make([]*memory, len(r.machine.memories))
		for kind := range r.machine.memories {
			if r.bool() {
				x := &memory{owner: runs, kind: kind, time: cep.Time(r.int())}
				r.memory(x, r.machine.program.memories[kind].element)
				runs.rare.memories[kind] = x
				r.remembered[kind] = append(r.remembered[kind], x)
			}
		}
	}
	if r.version > 1 {
		r.log(runs)
	}
	return runs
}

func (r *restorer) log(runs *Runs) {
	p := r.machine.program
	n := r.count(6)
	if n == 0 || !p.led {
		r.check(n == 0, "a log of a program that has none")
		return
	}
	first := p.code[p.entries[0].pc].element
	for range n {
		l := logged{node: r.seen(&p.layouts[first.Name])}
		l.node.element, l.node.step = int16(first.index), int16(first.Name)
		l.heard = r.uint()
		for i := range p.elements {
			e := &p.elements[i]
			if !p.logs(e, l.heard) {
				continue
			}
			if l.kept == nil {
				l.kept = make([]*kept, len(p.layouts))
			}
			l.kept[e.Name] = r.keep(&p.layouts[e.Name])
		}
		runs.extra().log = append(runs.extra().log, l)
	}
}

// ref reads the number of a node.
func (r *restorer) ref() *node {
	i := r.index(len(r.nodes), "node")
	if r.err != nil {
		return nil
	}
	return r.nodes[i]
}

func (r *restorer) node() {
	p := r.machine.program
	n := &node{length: 1}
	if up := r.index(len(r.nodes)+1, "node"); up > 0 {
		n.up = r.nodes[up-1]
		n.length = n.up.length + 1
	}
	number := r.index(len(r.events)+1, "event")
	if r.err == nil && number == len(r.events) {
		e := &node{}
		r.event(e)
		r.events = append(r.events, e)
	}
	element := r.index(len(p.elements), "element")
	if r.err == nil && p.elements[element].role != takes {
		r.fail("an element took an event that takes none")
	}
	if r.err != nil {
		return
	}
	e := r.events[number]
	n.time, n.seq, n.partition, n.offset = e.time, e.seq, e.partition, e.offset
	n.element, n.step = int16(element), int16(p.elements[element].Name)
	k := keptKey{n.seq, n.step}
	if _, ok := r.kept[k]; !ok {
		r.kept[k] = r.keep(&p.layouts[n.step])
	}
	n.kept = r.kept[k]
	if err := p.checkNode(n); err != nil {
		r.fail("%v", err)
		return
	}
	if p.aggregated != 0 {
		p.aggregate(n)
	}
	r.nodes = append(r.nodes, n)
}

func (r *restorer) event(n *node) {
	n.time = r.before.time + cep.Time(r.int())
	n.seq = r.before.seq + r.uint()
	r.before = seenEvent{n.time, n.seq}
	if i := r.index(len(r.partitions), "partition"); r.err == nil {
		n.partition = r.partitions[i]
	}
	n.offset = r.int()
}

func (r *restorer) keep(l *layout) *kept {
	k := &kept{layout: l}
	for range l.slots {
		k.values = append(k.values, r.value(0))
	}
	if l.value != nil {
		k.value = r.value(0)
	}
	if n := r.count(1); n > 0 { // a byte more than there is may pass here, and not the next line
		k.raw = append([]byte{}, r.bytes(n-1)...)
	}
	if k.values == nil && k.raw == nil && k.value.IsMissing() {
		return nil
	}
	return k
}

func (r *restorer) start() *start {
	s := &start{}
	if r.version == 1 { // the node stood first
		s.first = r.ref()
	}
	s.state = startState(r.byte())
	r.check(s.state&^(startFull|startCompleted|startAwaited|startParked) == 0, "unknown state of a start")
	awaited := s.state&startAwaited != 0
	switch {
	case awaited:
		s.first = &node{time: cep.Time(r.int()), element: noElement, step: noElement}
	case r.version > 1:
		s.first = r.ref()
	}
	runs := make([]run, 0, r.count(4))
	for range cap(runs) {
		t := run{node: s.first}
		if !awaited {
			t.node = r.ref()
		}
		r.run(&t)
		runs = append(runs, t)
	}
	if r.err != nil {
		return nil
	}
	s.setRuns(0, runs)
	return s
}

func (r *restorer) run(t *run) {
	p := r.machine.program
	t.pc = int16(r.index(len(p.code), "instruction"))
	flags := r.byte()
	r.check(flags < 16, "unknown flags of a run")
	t.link, t.can = Link(flags&3), flags&4 != 0
	t.n = int32(r.index(math.MaxInt32, "event of a loop"))
	t.absent = r.uint()
	if flags&8 == 0 || r.err != nil {
		return
	}
	f := &frame{bars: r.uint(), count: int32(r.index(math.MaxInt32, "event of a loop"))}
	for range p.wholes {
		f.groups = append(f.groups, groupState{n: uint16(r.index(math.MaxUint16, "repetition")), took: r.bool(), first: cep.Time(r.int())})
	}
	t.frame = f
	r.check(len(p.bars) == 64 || f.bars>>len(p.bars) == 0, "unknown greedy loops")
	if r.err != nil || int(f.count) > int(t.node.length) {
		r.fail("a loop longer than the match")
		return
	}
	if e := p.code[t.pc].element; e != nil && e.Distinct != nil {
		values := make([]cep.Value, f.count)
		for i, n := len(values)-1, t.node; i >= 0; i, n = i-1, n.up {
			if n.kept != nil {
				values[i] = n.kept.value
			}
		}
		for _, v := range values {
			f.values, _ = f.values.with(v)
		}
	}
}

func (r *restorer) memory(x *memory, e *element) {
	p := r.machine.program
	switch {
	case e == nil:
		x.event = r.seen(&p.prevLayout)
	case e.FirstSeen != nil:
		x.met = newMet()
		for range r.count(2) {
			x.met.note(r.string(), cep.Time(r.int()))
		}
	case e.looksAround():
		for range r.count(6) {
			past := pastEvent{event: r.seen(&e.seen)}
			if r.bool() {
				past.prev = r.seen(&p.prevLayout)
			}
			x.past = append(x.past, past)
		}
	case e.Edge:
		x.held = r.bool()
	}
}

func (r *restorer) seen(l *layout) *node {
	n := &node{length: 1, element: noElement, step: noElement}
	r.event(n)
	n.kept = r.keep(l)
	return n
}

// reschedule queues the deadlines of all starts.
func (m *Machine) reschedule() {
	p := m.program
	queued := make([][]due, len(m.queues))
	add := func(gap int, from cep.Time, s *start) {
		if gap < 0 {
			return
		}
		if d := (due{from.Add(p.gaps[gap]), s}); d.at < cep.AfterAll {
			queued[gap] = append(queued[gap], d)
		}
	}
	for r := range m.keys.all() {
		for s := r.oldest; s != nil; s = s.next {
			if p.pattern.Within > 0 {
				add(0, s.first.time, s)
			}
			for _, t := range s.runs() {
				p.deadlines(&t, func(gap int, from cep.Time) { add(gap, from, s) })
			}
		}
	}
	for i, list := range queued {
		slices.SortFunc(list, func(a, b due) int { return cmp.Compare(a.at, b.at) })
		for _, d := range list {
			m.queues[i].push(d)
			m.soon = min(m.soon, d.at)
		}
	}
}
