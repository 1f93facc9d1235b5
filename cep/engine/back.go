package engine

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
)

// back is where the matches of all shards meet: it puts them in order, makes alerts of them, runs the rules over alerts, and
// hands the alerts out. It belongs to one goroutine, or to the caller.
type back struct {
	core      *Core // what never changes of it
	junctions []*junction
	issuers   map[*version]*issuer
	// shard has the lanes of the clocks that read alerts.
	shard  *shard
	spread *spread
	// arrivals is the number of alerts that came to be read, pending those that some rule has not read yet, or had not at
	// the last barrier.
	arrivals uint64
	pending  []*pendingAlert
	// shown is what the alert is made of that is shown to rules over alerts.
	shown *found
	lasts []bool       // shards that have told all of the present packet,
	parts []*shardPart // and what they say to its barrier
	// left are alerts that stood in no clock's order when another set took over; alerts are those of the epoch.
	left    outQueue
	alerts  []outgoing
	waiting atomic.Int64
}

// junction is where what the lanes of one clock found meets.
type junction struct {
	clock *clock
	// queues hold what was found behind released, by shard, and reached is how far each shard is.
	queues  [][]found
	reached []cep.Time
	// released is how far all are.
	released cep.Time
	issuers  []*issuer // by place
	// followers are those of whose alerts some stay open: time alone ends them.
	followers []*issuer
	// readers are those of alerts, for a clock that reads any; alerts is the number that came.
	readers   *readers
	alerts    uint64
	found     []found
	made, fed []made
	out       outQueue
}

// outgoing is an alert on its way out, or one that waits until no clock can still bring an earlier one.
type outgoing struct {
	alert *cep.Alert
	order order
	from  *version
}

// outQueue holds alerts in order until they go out.
type outQueue struct {
	list []outgoing
	head int
}

func (q *outQueue) push(o outgoing) {
	if q.head > len(q.list)/2 {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, o)
}

func (q *outQueue) rest() []outgoing { return q.list[q.head:] }

func newBack(c *Core) *back {
	n := c.options.Shards
	b := &back{
		core: c, issuers: map[*version]*issuer{}, lasts: make([]bool, n), parts: make([]*shardPart, n),
		shard: newShard(0, 1, c.set.Predicates, c.spare, c.options.Timer),
	}
	b.shard.upper = true
	b.spread = newSpread(1, b.shard.spare)
	return b
}

// join makes the junction of a clock.
func (b *back) join(k *clock) {
	n := b.core.options.Shards
	j := &junction{clock: k, released: cep.BeforeAll}
	for range n {
		j.queues = append(j.queues, nil)
		j.reached = append(j.reached, cep.BeforeAll)
	}
	for _, v := range k.versions {
		x := newIssuer(v, n)
		b.issuers[v] = x
		j.issuers = append(j.issuers, x)
		if v.heir == nil && v.rule.Alert.Resolve != nil {
			j.followers = append(j.followers, x)
		}
	}
	for _, x := range j.issuers {
		x.newest = x
		if heir := x.version.heir; heir != nil {
			x.newest = b.issuers[heir]
		}
	}
	if k.layer > 0 {
		j.readers = newReaders(k.versions)
	}
	b.junctions = append(b.junctions, j)
}

// connect lets rules over alerts read the alerts of those below.
func (b *back) connect() {
	for _, k := range b.core.clocks {
		for _, id := range k.reads {
			low := b.core.find(id)
			if low == nil || low.rule.Shadow {
				continue
			}
			raw := slices.ContainsFunc(k.versions, func(v *version) bool { return showsEvents(v.rule) })
			for _, v := range low.all() {
				b.feed(b.issuers[v], b.junctions[k.index], raw)
			}
		}
	}
}

// feed lets the rules of a junction read the alerts of an issuer.
func (b *back) feed(x *issuer, reader *junction, raw bool) {
	if x.feed == nil {
		names := make([]string, len(x.version.rule.Alert.Fields))
		for i, f := range x.version.rule.Alert.Fields {
			names[i] = f.Name
		}
		x.feed = newFeed(b.core.set.Schema, names)
		j := b.junctions[x.version.clock.index]
		x.maker.Feed(func(m *cep.Match, a *cep.Alert) {
			j.fed = append(j.fed, made{x, b.shown.order, alert.Out{Moment: m.Moment, Key: m.Key, Alert: a}})
		})
	}
	x.feed.readers = append(x.feed.readers, reader)
	x.feed.raw = x.feed.raw || raw
}

// handle does what a packet says, with what the shards make of theirs.
func (b *back) handle(p *packet) {
	for _, k := range p.clocks {
		b.join(k)
	}
	for _, e := range p.entries {
		b.shard.lane(e.clock).buffer.push(e)
	}
	clear(b.lasts)
	waiting := len(b.alerts)
	for i := range p.releases {
		b.release(&p.releases[i])
	}
	for i := range b.lasts {
		for !b.lasts[i] {
			b.pull(i)
		}
	}
	if !b.core.options.PerClock {
		b.emit()
	}
	if p.barrier == nil && len(b.alerts) > waiting && b.core.options.Ready != nil {
		b.core.options.Ready()
	}
	if p.barrier != nil {
		b.answer(p.barrier)
	}
}

// release moves a junction to where the clock is, piece by piece, so that what waits for the slowest shard stays small.
func (b *back) release(r *release) {
	j := b.junctions[r.clock.index]
	if r.clock.layer == 0 {
		for b.collect(j, slices.Min(j.reached)); j.released < r.to; b.collect(j, slices.Min(j.reached)) {
			b.pull(j.slowest())
		}
		return
	}
	l := b.shard.lane(r.clock)
	for j.released < r.to {
		_, upTo := l.step(r.to, r.first)
		j.queues[0] = append(j.queues[0], l.found...)
		b.drain(l.drained, 1)
		clear(l.found)
		l.found, l.drained = l.found[:0], nil
		b.collect(j, upTo)
	}
}

// slowest is the shard that is furthest behind.
func (j *junction) slowest() int {
	least := 0
	for i, t := range j.reached {
		if t < j.reached[least] {
			least = i
		}
	}
	return least
}

// pull takes the next thing that a shard has to tell.
func (b *back) pull(shard int) {
	y := b.core.next(shard)
	for i := range y.chunks {
		c := &y.chunks[i]
		j := b.junctions[c.clock.index]
		if len(j.queues[shard]) == 0 {
			j.queues[shard] = c.found
		} else {
			j.queues[shard] = append(j.queues[shard], c.found...)
		}
		j.reached[shard] = c.upTo
		b.drain(c.drained, b.core.options.Shards)
	}
	if y.last {
		b.lasts[shard], b.parts[shard] = true, y.part
	}
}

// drain notes where older versions have no start open any more.
func (b *back) drain(list []*version, lanes int) {
	for _, v := range list {
		x := b.issuers[v]
		if x.drained++; x.drained == lanes {
			v.over.Store(true)
		}
	}
}

// collect makes the alerts of what was found up to a time, in the order of S7.1, and lets them out.
func (b *back) collect(j *junction, upTo cep.Time) {
	if upTo <= j.released {
		return
	}
	list, only := j.due(upTo)
	j.released = upTo
	if len(list) > 0 {
		b.make(j, list)
		if only >= 0 {
			b.giveBack(j, only)
		}
	}
	for _, x := range j.followers {
		if x.maker.NextDue() <= upTo {
			j.made = x.pass(cep.Moment{Time: upTo.Add(1)}, j.made)
		}
	}
	if len(j.fed) > 0 {
		b.deliverFed(j)
	}
	if len(j.made) > 0 {
		b.send(j)
	}
}

// due takes what was found up to a time out of the queues. Where that is all there is, and of one shard, it is that shard's
// queue itself, which only names.
func (j *junction) due(upTo cep.Time) (list []found, only int) {
	isDue := func(f *found) bool { return f.order.time <= upTo }
	if only = j.single(); only >= 0 && !slices.ContainsFunc(j.queues[only], func(f found) bool { return !isDue(&f) }) {
		return j.queues[only], only
	}
	j.found = j.found[:0]
	for i, q := range j.queues {
		// What a lane finds in one step stands rule by rule: later times may stand before earlier ones.
		j.queues[i] = slices.DeleteFunc(q, func(f found) bool {
			if isDue(&f) {
				j.found = append(j.found, f)
			}
			return isDue(&f)
		})
	}
	return j.found, -1
}

// single is the only shard whose queue holds anything, -1 where there is none or more.
func (j *junction) single() int {
	only := -1
	for i, q := range j.queues {
		if len(q) > 0 {
			if only >= 0 {
				return -1
			}
			only = i
		}
	}
	return only
}

// giveBack lets the lane use the memory of a queue again, where it is of the same goroutine.
func (b *back) giveBack(j *junction, shard int) {
	q := j.queues[shard]
	j.queues[shard] = nil
	if b.core.lines == nil && j.clock.layer == 0 {
		b.core.shards[shard].lanes[j.clock.index].found = q[:0]
	}
}

// make hands what was found to the issuers, in order.
func (b *back) make(j *junction, list []found) {
	sortFound(list)
	for i := range list {
		f := &list[i]
		j.made = j.issuers[f.version.place].take(f, b, j.made)
	}
	b.shown = nil
	clear(list)
}

// sortFound puts what was found in order; nearly always it is.
func sortFound(list []found) {
	for i := 1; i < len(list); i++ {
		if compareFound(&list[i-1], &list[i]) > 0 {
			slices.SortStableFunc(list, func(a, b found) int { return compareFound(&a, &b) })
			return
		}
	}
}

// compareFound orders what was found as it has to be looked at: by moment; at one moment a version that breaks goes first, then
// an open alert ends, because the event that ends it may complete the match of a new one; then by key, and of the versions of
// a rule the one with the older starts comes first, as in S5.3. What stays equal is in the order of its machine.
func compareFound(a, b *found) int {
	if c := a.order.compareMoments(&b.order); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.order.rule, b.order.rule), cmp.Compare(a.kind, b.kind), cmp.Compare(a.order.key, b.order.key),
		cmp.Compare(a.version.number, b.version.number))
}

// sortMade puts alerts in the order of S7.1. What a rule makes at one moment for one key is in order already.
func sortMade(list []made) {
	for i := 1; i < len(list); i++ {
		if list[i-1].order.compare(&list[i].order) > 0 {
			slices.SortStableFunc(list, func(a, b made) int { return a.order.compare(&b.order) })
			return
		}
	}
}

// send hands out the alerts of a junction, or puts them where they wait for those of other clocks.
func (b *back) send(j *junction) {
	sortMade(j.made)
	for i := range j.made {
		m := &j.made[i]
		o := outgoing{m.Alert, m.order, m.issuer.version}
		if !b.core.options.PerClock && (len(b.junctions) > 1 || len(b.left.rest()) > 0) {
			j.out.push(o)
			continue
		}
		b.let(o)
	}
	clear(j.made)
	j.made = j.made[:0]
}

// deliverFed gives the matches of a release to the rules over alerts (S8).
func (b *back) deliverFed(j *junction) {
	sortMade(j.fed)
	for i := range j.fed {
		m := &j.fed[i]
		b.deliver(m.issuer.feed, m.Alert, &m.order, false)
	}
	clear(j.fed)
	j.fed = j.fed[:0]
}

// pendingAlert is an alert that rules over alerts have to read.
type pendingAlert struct {
	alert   *cep.Alert
	order   order
	number  uint64 // of its record
	stored  bool   // the record is out there
	readers int    // clocks that have not read it yet
}

// deliver gives an alert to the rules that read it. again says that it has been counted.
func (b *back) deliver(f *feed, a *cep.Alert, at *order, again bool) {
	b.arrivals++
	b.offer(f, &pendingAlert{alert: a, order: *at, number: b.arrivals}, b.arrivals, again)
}

// offer is deliver for an alert that came at some time.
func (b *back) offer(f *feed, p *pendingAlert, arrival uint64, again bool) {
	ev := f.event(p.alert)
	for _, up := range f.readers {
		if p.alert.Time <= up.released {
			continue
		}
		if !again {
			up.alerts++
		}
		up.clock.route(up.readers, up.readers.index.Lookup(&ev), &ev, again, b.spread)
		for _, i := range b.spread.used {
			e := b.spread.open[i]
			e.ev, e.clock, e.place, e.arrival = ev, up.clock, place{origin: &p.order}, arrival
			e.shared, e.stream, e.alert = true, noStream, p
			p.readers++
			b.shard.lane(up.clock).buffer.push(e)
		}
		b.spread.clear()
	}
	if p.readers > 0 {
		b.pending = append(b.pending, p)
	}
}

// let lets an alert out.
func (b *back) let(o outgoing) {
	switch {
	case b.core.options.Alert != nil:
		b.core.options.Alert(o.alert)
	case b.core.options.PerClock:
		b.alerts = append(b.alerts, o)
		b.waiting.Add(1)
	}
}

// emit lets out the alerts that every clock has passed.
func (b *back) emit() {
	bound := cep.AfterAll
	for _, j := range b.junctions {
		bound = min(bound, j.released)
	}
	for {
		least := &b.left
		for _, j := range b.junctions {
			if q := &j.out; len(q.rest()) > 0 && (len(least.rest()) == 0 || q.rest()[0].order.compare(&least.rest()[0].order) < 0) {
				least = q
			}
		}
		if len(least.rest()) == 0 || least.rest()[0].order.time > bound {
			return
		}
		o := least.rest()[0]
		least.list[least.head] = outgoing{}
		least.head++
		b.let(o)
	}
}
