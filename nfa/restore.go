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
		return nil, fmt.Errorf("%w: it belongs to another program than %s", ErrSnapshot, p.source.Rule)
	}
	r := newRestorer(NewMachine(p, memo), version)
	r.Reader = cep.NewReader(body[snapshotHead:])
	r.body(intern)
	r.Check(r.Left() == 0, "bytes behind the end")
	r.finish()
	if err := r.Err(); err != nil {
		return nil, unreadable(err)
	}
	return r.machine, nil
}

// restorer reads the parts of a snapshot into a machine.
type restorer struct {
	cep.Reader
	version byte
	machine *Machine
	// partition reads what stands for a partition, nil where there is none.
	partition func() *cep.Partition
	// Of the present key:
	before seenEvent
	events []readEvent
	nodes  []*node
	kept   []readKept
	scrap  []run
	// remembered are the memories of all keys, by kind.
	remembered [][]*memory
	// dues are the deadlines of all keys, by queue.
	dues [][]due
	// newest is the time of the newest event of all keys of a row pattern, until when something of a key is over.
	newest, until cep.Time
	// uncounted takes the place of the machine's counters while events are looked at once more.
	uncounted Counters
}

// readEvent is an event of the present key.
type readEvent struct {
	node node // its fields of the event only
	kept int  // the first of what is kept of it: index + 1
}

// readKept is what is kept of an event for a name.
type readKept struct {
	step int16
	next int // index + 1 of what is kept of the event for another name
	kept *kept
}

func newRestorer(m *Machine, version byte) *restorer {
	return &restorer{
		version: version, machine: m, remembered: make([][]*memory, len(m.memories)), dues: make([][]due, len(m.queues)),
		newest: cep.BeforeAll, until: cep.AfterAll,
		uncounted: Counters{Taken: make([]uint64, len(m.counters.Taken))},
	}
}

func (r *restorer) body(intern func(stream, partition string) *cep.Partition) {
	m := r.machine
	m.now, m.firstTime = cep.Time(r.Int()), cep.Time(r.Int())
	readCounters(&r.Reader, &m.counters)
	r.Check(len(m.counters.Taken) == len(m.form.pattern.Names), "counters of another program")
	if m.rows != nil {
		m.counters.Skips = r.Uint()
	}
	var partitions []*cep.Partition
	for range r.Count(2) {
		partitions = append(partitions, intern(r.Text(), r.Text()))
	}
	r.partition = func() *cep.Partition {
		if n := r.Uint(); n < uint64(len(partitions)) {
			return partitions[n]
		}
		return nil
	}
	last := ""
	keys := r.Count(3) // a key takes at least that many bytes
	if keys > 0 && m.rows == nil {
		m.keys.reserve(keys)
	}
	for i := range keys {
		key := r.Text()
		r.Check(i == 0 || key > last, "keys out of order")
		last = key
		if r.key(key); r.Err() != nil {
			return
		}
	}
}

// key reads the state of a key into the machine.
func (r *restorer) key(key string) {
	m := r.machine
	if m.rows != nil {
		r.rowKey(key)
		return
	}
	runs := r.runs(key)
	if r.Err() != nil {
		return
	}
	until, err := m.inspect(runs)
	if err != nil {
		r.Fail("%v", err)
		return
	}
	r.until = min(r.until, until)
	if !m.keys.insert(runs) {
		r.Fail("it is there twice")
		return
	}
	if m.brake != nil {
		m.brake.settle(runs.key, false, true, 0, runs.weigh)
	}
	m.open += runs.count
	if runs.rare == nil {
		return
	}
	for kind, x := range runs.rare.memories {
		if x != nil {
			r.remembered[kind] = append(r.remembered[kind], x)
		}
	}
}

// finish puts what stands in the order of time over all keys in that order, and holds it against the watermark.
func (r *restorer) finish() {
	if r.Err() != nil {
		return
	}
	m := r.machine
	for kind, list := range r.remembered {
		slices.SortFunc(list, func(a, b *memory) int {
			return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.owner.key, b.owner.key))
		})
		for _, x := range list {
			m.memories[kind].push(x)
		}
	}
	r.queue()
	if m.rows != nil {
		r.until = m.rows.deadline()
	}
	r.Check(r.newest <= m.now.Add(1), "an event above the watermark")
	r.Check(r.until > m.now || r.until == cep.AfterAll, "something is kept that is over")
}

func readCounters(r *cep.Reader, c *Counters) {
	c.Delivered = r.Uint()
	c.Taken = make([]uint64, r.Count(1))
	for i := range c.Taken {
		c.Taken[i] = r.Uint()
	}
	c.Opened = r.Uint()
	if n := r.Count(1); n != len(c.Ended) {
		r.Fail("%d counters of %d", n, len(c.Ended))
	}
	for i := range c.Ended {
		c.Ended[i] = r.Uint()
	}
	for _, n := range []*uint64{&c.Matched, &c.Timeouts, &c.Refused, &c.TooLong, &c.Errors} {
		*n = r.Uint()
	}
	c.LastError = r.Text()
}

func (r *restorer) runs(key string) *Runs {
	r.before = seenEvent{}
	r.events, r.nodes, r.kept = r.events[:0], r.nodes[:0], r.kept[:0]
	runs := &Runs{key: key, hash: hashText(key), last: r.Uint()}
	for range r.Count(3) {
		r.node()
	}
	for range r.Count(3) { // a parked one is that short
		if s := r.start(); s != nil {
			s.owner = runs
			for _, t := range s.runs() {
				runs.hears |= r.machine.program.hears(&t)
			}
			if s.state&startParked != 0 {
				runs.hears |= r.machine.program.logging
			}
			runs.push(s)
			r.schedule(s)
		}
	}
	for range r.Count(3) {
		c := completion{node: r.ref(), at: cep.Moment{Time: cep.Time(r.Int()), Seq: cep.ByTime}}
		if timed := r.Flag(); !timed {
			c.at.Seq = r.Uint()
		}
		if r.Err() != nil {
			break
		}
		c.first = c.node.root().seq
		runs.extra().held = append(runs.extra().held, c)
	}
	if r.Flag() {
		runs.extra().memories = make([]*memory, len(r.machine.memories))
		for kind := range r.machine.memories {
			if r.Flag() {
				x := &memory{owner: runs, kind: kind, time: cep.Time(r.Int())}
				r.memory(x, r.machine.program.memories[kind].element)
				runs.rare.memories[kind] = x
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
	n := r.Count(6)
	if n == 0 || !p.led {
		r.Check(n == 0, "a log of a program that has none")
		return
	}
	first := p.code[p.entries[0].pc].element
	for range n {
		l := logged{node: r.seen(&p.layouts[first.Name])}
		l.node.element, l.node.step = int16(first.index), int16(first.Name)
		l.heard = r.Uint()
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
	i := r.Index(len(r.nodes), "node")
	if r.Err() != nil {
		return nil
	}
	return r.nodes[i]
}

func (r *restorer) node() {
	p := r.machine.program
	n := &node{length: 1}
	if up := r.Index(len(r.nodes)+1, "node"); up > 0 {
		n.up = r.nodes[up-1]
		n.length = n.up.length + 1
	}
	number := r.Index(len(r.events)+1, "event")
	if r.Err() == nil && number == len(r.events) {
		r.events = append(r.events, readEvent{})
		r.event(&r.events[number].node)
	}
	element := r.Index(len(p.elements), "element")
	if r.Err() == nil && p.elements[element].role != takes {
		r.Fail("an element took an event that takes none")
	}
	if r.Err() != nil {
		return
	}
	e := &r.events[number]
	n.time, n.seq, n.partition, n.offset = e.node.time, e.node.seq, e.node.partition, e.node.offset
	n.element, n.step = int16(element), int16(p.elements[element].Name)
	k := e.kept
	for k > 0 && r.kept[k-1].step != n.step {
		k = r.kept[k-1].next
	}
	if k == 0 {
		r.kept = append(r.kept, readKept{n.step, e.kept, r.keep(&p.layouts[n.step])})
		k = len(r.kept)
		e.kept = k
	}
	n.kept = r.kept[k-1].kept
	if err := p.checkNode(n); err != nil {
		r.Fail("%v", err)
		return
	}
	if p.aggregated != 0 {
		p.aggregate(n)
	}
	r.nodes = append(r.nodes, n)
}

func (r *restorer) event(n *node) {
	n.time = r.before.time + cep.Time(r.Int())
	n.seq = r.before.seq + r.Uint()
	r.before = seenEvent{n.time, n.seq}
	n.partition = r.place()
	n.offset = r.Int()
}

func (r *restorer) place() *cep.Partition {
	p := r.partition()
	if p == nil {
		r.Fail("unknown partition")
	}
	return p
}

func (r *restorer) keep(l *layout) *kept {
	k := kept{layout: l}
	if len(l.slots) > 0 {
		k.values = make([]cep.Value, len(l.slots))
		for i := range k.values {
			k.values[i] = r.Value()
		}
	}
	if l.value != nil {
		k.value = r.Value()
	}
	if n := r.Count(1); n > 0 { // a byte more than there is may pass here, and not the next line
		k.raw = append([]byte{}, r.Bytes(n-1)...)
	}
	if k.values == nil && k.raw == nil && k.value.IsMissing() {
		return nil
	}
	return &k
}

func (r *restorer) start() *start {
	s := &start{}
	if r.version == 1 { // the node stood first
		s.first = r.ref()
	}
	s.state = startState(r.Byte())
	r.Check(s.state&^(startFull|startCompleted|startAwaited|startParked) == 0, "unknown state of a start")
	awaited := s.state&startAwaited != 0
	switch {
	case awaited:
		s.first = &node{time: cep.Time(r.Int()), element: noElement, step: noElement}
	case r.version > 1:
		s.first = r.ref()
	}
	runs := r.scrap[:0]
	for range r.Count(4) {
		t := run{node: s.first}
		if !awaited {
			t.node = r.ref()
		}
		r.run(&t)
		runs = append(runs, t)
	}
	if r.Err() != nil {
		return nil
	}
	s.setRuns(0, runs)
	r.scrap = runs
	return s
}

func (r *restorer) run(t *run) {
	p := r.machine.program
	t.pc = int16(r.Index(len(p.code), "instruction"))
	flags := r.Byte()
	r.Check(flags < 16, "unknown flags of a run")
	t.link, t.can = Link(flags&3), flags&4 != 0
	t.n = int32(r.Index(math.MaxInt32, "event of a loop"))
	t.absent = r.Uint()
	if flags&8 == 0 || r.Err() != nil {
		return
	}
	f := &frame{bars: r.Uint(), count: int32(r.Index(math.MaxInt32, "event of a loop"))}
	for range p.wholes {
		f.groups = append(f.groups, groupState{n: uint16(r.Index(math.MaxUint16, "repetition")), took: r.Flag(), first: cep.Time(r.Int())})
	}
	t.frame = f
	r.Check(len(p.bars) == 64 || f.bars>>len(p.bars) == 0, "unknown greedy loops")
	if r.Err() != nil || int(f.count) > int(t.node.length) {
		r.Fail("a loop longer than the match")
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
		for range r.Count(2) {
			x.met.note(r.Text(), cep.Time(r.Int()))
		}
	case e.looksAround:
		for range r.Count(6) {
			past := pastEvent{event: r.seen(&e.seen)}
			if r.Flag() {
				past.prev = r.seen(&p.prevLayout)
			}
			x.past = append(x.past, past)
		}
	case e.Edge:
		x.held = r.Flag()
	}
}

func (r *restorer) seen(l *layout) *node {
	n := &node{length: 1, element: noElement, step: noElement}
	r.event(n)
	n.kept = r.keep(l)
	return n
}

// schedule notes the deadlines of a start.
func (r *restorer) schedule(s *start) {
	p := r.machine.program
	add := func(gap int, from cep.Time) {
		if gap < 0 {
			return
		}
		if d := (due{from.Add(p.gaps[gap]), s}); d.at < cep.AfterAll {
			r.dues[gap] = append(r.dues[gap], d)
		}
	}
	if p.pattern.Within > 0 {
		add(0, s.first.time)
	}
	runs := s.runs()
	for i := range runs {
		p.deadlines(&runs[i], add)
	}
}

// queue puts the deadlines of all keys into the queues.
func (r *restorer) queue() {
	m := r.machine
	for gap, list := range r.dues {
		sortDues(list)
		for _, d := range list {
			m.queues[gap].push(d)
			m.soon = min(m.soon, d.at)
		}
	}
}
