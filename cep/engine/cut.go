package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/rules"
)

// Cut is what one epoch adds: all that a Core has to say about it. It belongs to whoever is handed it.
type Cut struct {
	Epoch cep.Epoch
	// Alerts are those since the barrier before, in the order of S7.1.
	Alerts []Out
	// Records are the pieces of state that have changed since, each key once.
	Records []checkpoint.Record
	// State is everything else: clocks, partitions, versions of rules. docs/format/engine.md draws both.
	State json.RawMessage
	// Sources says from where each partition has to be read to go on from this epoch. Read is the offset of the last record
	// read, -1 where there is none.
	Sources []checkpoint.SourcePosition
	// Older are the sets of rules besides the present one of which versions drain.
	Older []*rules.Set
}

// Out is an alert on its way to the sinks.
type Out struct {
	Alert *cep.Alert
	Key   cep.Key
	// Rule is the version of the rule that made it: it says where its alerts go.
	Rule *rules.Rule
}

// barrier is what a packet asks for at its end.
type barrier struct {
	// idle is closed when shards and back have nothing to do any more, and nothing else is asked then.
	idle chan<- struct{}

	epoch     cep.Epoch
	done      func(*Cut)
	clocks    []*clock
	standing  *standing
	numbering *numbering
	routed    map[*version]routed // what the front's routers have counted, where that has changed
	unsaved   []checkpoint.Record
}

// Barrier releases what the watermarks allow and ends an epoch there: done is handed what it adds, before Barrier returns or,
// with [Options.Parallel], from the goroutine of the back. It wants [Options.PerClock], so that nothing waits for other clocks.
func (c *Core) Barrier(e cep.Epoch, done func(*Cut)) error {
	if !c.options.PerClock {
		return fmt.Errorf("barrier of epoch %d: alerts that wait for other clocks belong to no epoch", e)
	}
	c.Release()
	standing, err := c.stand()
	if err != nil {
		return fmt.Errorf("barrier of epoch %d: %w", e, err)
	}
	b := &barrier{
		epoch: e, done: done, clocks: c.clocks, standing: standing, numbering: c.numberPartitions(), routed: map[*version]routed{},
		unsaved: c.unsaved,
	}
	c.unsaved = nil
	for _, k := range c.clocks {
		k.readers.changed(k, b.routed)
	}
	c.flush(b)
	return nil
}

// changed notes what routers have counted since they were asked last.
func (r *readers) changed(k *clock, into map[*version]routed) {
	for i, touched := range r.touched {
		if touched {
			r.touched[i] = false
			into[k.versions[i]] = r.routed(k.versions[i])
		}
	}
}

// numbering are the numbers of partitions in records, as of a barrier. Alerts that rules take have none: each is a partition
// of its own.
type numbering struct {
	numbers map[*cep.Partition]uint64
	places  map[uint64]*cep.Partition
	mu      sync.Mutex
	names   map[partitionName]*cep.Partition // while a state is read, by several goroutines
}

// numberPartitions returns the numbers of all partitions. It changes when there is a new one.
func (c *Core) numberPartitions() *numbering {
	if c.numbering == nil {
		n := &numbering{numbers: make(map[*cep.Partition]uint64, len(c.partitions))}
		for id, p := range c.partitions {
			n.numbers[id] = p.number
		}
		c.numbering = n
	}
	return c.numbering
}

// Number is that of a partition, 0 for an alert.
func (n *numbering) Number(p *cep.Partition) uint64 { return n.numbers[p] }

// ByNumber is the partition with a number.
func (n *numbering) ByNumber(number uint64) *cep.Partition { return n.places[number] }

// ByName is the partition that an alert is.
func (n *numbering) ByName(stream, name string) *cep.Partition {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := partitionName{stream, name}
	if n.names[k] == nil {
		n.names[k] = &cep.Partition{Stream: stream, Name: name, Order: alertOrder}
	}
	return n.names[k]
}

// shardPart is a shard's part of a cut.
type shardPart struct {
	records []checkpoint.Record
	// globals are those of the machines that did anything, by version, empty for those that are gone; seq is the highest number
	// of an event.
	globals map[*version][]byte
	seq     uint64
}

// save gathers what has changed in the shard since the last barrier.
func (s *shard) save(b *barrier) *shardPart {
	if b.idle != nil {
		return nil
	}
	w := &shardPart{globals: map[*version][]byte{}, records: make([]checkpoint.Record, 0, s.changed(b))}
	block := &arena{}
	for _, k := range b.clocks {
		if s.upper != (k.layer > 0) {
			continue
		}
		l := s.lane(k)
		w.seq = max(w.seq, l.seq)
		for _, p := range l.parts {
			p.save(w, b.numbering, block)
		}
	}
	return w
}

// changed is about how many records save will gather, so that their list is made once.
func (s *shard) changed(b *barrier) int {
	n := 0
	for _, k := range b.clocks {
		if s.upper != (k.layer > 0) {
			continue
		}
		for _, p := range s.lane(k).parts {
			if p.touched && p.machine != nil {
				n += p.machine.Changed()
			}
		}
	}
	return n
}

// save gathers what has changed in a machine. That of a version which is over goes, with all its records.
func (p *part) save(w *shardPart, n *numbering, block *arena) {
	v := p.version
	if p.gone {
		return
	}
	if p.stopped || v.over.Load() {
		p.machine.StoredKeys(func(key string) {
			w.records = append(w.records, checkpoint.Record{Slot: v.slot([]byte(key)), Key: block.key(v.number, kindState, key)})
		})
		p.counters = *p.machine.Counters()
		p.counters.Taken = slices.Clone(p.counters.Taken)
		p.stopped, p.gone, p.machine = true, true, nil
		w.globals[v] = []byte{}
		return
	}
	if !p.touched {
		return
	}
	p.touched = false
	p.machine.Changes(n, func(key string, value []byte) {
		r := checkpoint.Record{Slot: v.slot([]byte(key)), Key: block.key(v.number, kindState, key)}
		if value != nil {
			r.Value = block.add(value)
		}
		w.records = append(w.records, r)
	})
	w.globals[v] = p.machine.AppendGlobals(nil)
}

// answer puts a cut together of what the shards say and hands it out.
func (b *back) answer(ask *barrier) {
	if ask.idle != nil {
		close(ask.idle)
		return
	}
	s := ask.standing
	cut := &Cut{Epoch: ask.epoch, Sources: s.sources()}
	parts := append(slices.Clone(b.parts), b.shard.save(ask))
	records := 0
	for _, p := range parts {
		records += len(p.records)
	}
	cut.Records = make([]checkpoint.Record, 0, records)
	for _, p := range parts {
		cut.Records = append(cut.Records, p.records...)
		s.Seq = max(s.Seq, p.seq)
	}
	s.Alerts = b.arrivals
	block := &arena{}
	for i, j := range b.junctions {
		s.Clocks[i].Alerts = j.alerts
		shown := map[*version]routed{}
		if j.readers != nil {
			j.readers.changed(j.clock, shown)
		}
		for _, x := range j.issuers {
			x.save(ask.routed, shown, parts, cut, block)
			if state, ok := x.stand(); ok {
				s.Rules = append(s.Rules, state)
			}
			if v := x.version; v.heir != nil && !x.gone && !slices.Contains(cut.Older, v.set) {
				cut.Older = append(cut.Older, v.set)
			}
		}
	}
	b.savePending(cut, ask.numbering, block)
	cut.addOlder(ask.unsaved)
	slices.SortStableFunc(b.alerts, func(x, y outgoing) int { return x.order.compare(&y.order) })
	for _, o := range b.alerts {
		cut.Alerts = append(cut.Alerts, Out{Alert: o.alert, Key: o.order.key, Rule: o.from.rule})
	}
	b.waiting.Add(-int64(len(b.alerts)))
	clear(b.alerts)
	b.alerts = b.alerts[:0]
	state, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("the state of the engine is no JSON: %v", err)) // it holds nothing that can fail
	}
	cut.State = state
	ask.done(cut)
}

// save gathers what has changed in an issuer, and in what the shards counted for it. An older version that is over goes, with
// all its records.
func (x *issuer) save(read, shown map[*version]routed, parts []*shardPart, cut *Cut, block *arena) {
	v := x.version
	if x.gone {
		return
	}
	put := func(key string, kind recordKind, number uint64, value []byte) {
		r := checkpoint.Record{Slot: v.slot([]byte(key)), Key: block.key(number, kind, key)}
		if value != nil {
			r.Value = block.add(value)
		}
		cut.Records = append(cut.Records, r)
	}
	if v.over.Load() {
		if x.merged != nil {
			put("", kindGlobals, v.number, nil)
			x.merged = nil
		}
		if v.heir != nil {
			x.gone = true
			x.forget(put)
			return
		}
	} else if x.merge(parts) {
		put("", kindGlobals, v.number, x.merged)
	}
	x.maker.Changes(func(key, value []byte) { put(string(key), kindMaker, v.book, value) })
	changed := x.recount
	x.recount = false
	if n, ok := read[v]; ok {
		x.read, changed = n, true
	}
	if n, ok := shown[v]; ok {
		x.shown, changed = n, true
	}
	if made := *x.maker.Counters(); changed || made != x.made {
		x.made = made
		if counters := x.appendCounters(nil); !bytes.Equal(counters, x.counters) {
			x.counters = counters
			put("", kindCounters, v.number, counters)
		}
	}
}

// merge brings the globals of a version up to what the shards say; false where nothing has changed.
func (x *issuer) merge(parts []*shardPart) bool {
	changed := false
	for i, p := range parts {
		if g := p.globals[x.version]; g != nil && !bytes.Equal(g, x.globals[i]) {
			x.globals[i], changed = g, true
		}
	}
	if !changed {
		return false
	}
	known := slices.DeleteFunc(slices.Clone(x.globals), func(g []byte) bool { return len(g) == 0 })
	if len(known) == 0 {
		return false // the version is over as soon as the back hears of it
	}
	merged, err := nfa.MergeGlobals(known...)
	if err != nil {
		panic(fmt.Sprintf("rule %s: %v", x.version.rule.ID, err)) // they are of one program
	}
	if bytes.Equal(merged, x.merged) {
		return false
	}
	x.merged = merged
	return true
}

// forget takes the records of the issuer back.
func (x *issuer) forget(put func(key string, kind recordKind, number uint64, value []byte)) {
	if x.counters != nil {
		put("", kindCounters, x.version.number, nil)
	}
	x.maker.StoredKeys(func(key []byte) { put(string(key), kindMaker, x.version.book, nil) })
}

// stand says what a state has to know of the version; false where it is over and gone.
func (x *issuer) stand() (versionState, bool) {
	v := x.version
	s := versionState{
		Rule: v.rule.ID, Fingerprint: v.rule.Fingerprint, Number: v.number, Book: v.book, After: v.after, Clock: v.clock.name,
		Disabled: x.disabled, Mute: x.mute,
	}
	if v.heir != nil {
		s.Set, s.Until = v.set.ID(), v.until
	}
	return s, !x.gone
}

// savePending gathers the alerts that came to be read, and takes back those that have been.
func (b *back) savePending(cut *Cut, n *numbering, block *arena) {
	b.pending = slices.DeleteFunc(b.pending, func(p *pendingAlert) bool {
		switch {
		case p.readers == 0 && p.stored:
			cut.Records = append(cut.Records, pendingRecord(p.number, nil, block))
		case p.readers > 0 && !p.stored:
			p.stored = true
			cut.Records = append(cut.Records, pendingRecord(p.number, p.append(nil, n), block))
		}
		return p.readers == 0
	})
}

// addOlder adds records from before, in their order, as far as nothing newer is there.
func (c *Cut) addOlder(list []checkpoint.Record) {
	if len(list) == 0 {
		return
	}
	newer := make(map[string]bool, len(c.Records))
	for _, r := range c.Records {
		newer[string(r.Key)] = true // the slot follows from the key
	}
	for _, r := range slices.Backward(list) {
		if !newer[string(r.Key)] {
			newer[string(r.Key)] = true
			c.Records = append(c.Records, r)
		}
	}
}

// Waiting is the number of alerts that wait for the next barrier. It may be called from any goroutine.
func (c *Core) Waiting() int { return int(c.back.waiting.Load()) }
