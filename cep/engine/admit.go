package engine

import (
	"fmt"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
)

// Open announces a partition: from now on its stream waits for it. Push opens partitions by itself, but what comes late in
// one that nobody announced may lie below what was released. One that had ended may bring more, and so may one that was idle
// when the state of the Core was taken, which is what Open reports: its stream waits for it again.
func (c *Core) Open(id *cep.Partition) (idle bool) {
	p := c.partition(id)
	if p == nil || p.holds() {
		return false
	}
	p.stream.refresh()
	idle = p.idle
	p.idle, p.ended = false, false
	return idle
}

// partition returns the clock of a partition, nil for one of a stream that nothing reads.
func (c *Core) partition(id *cep.Partition) *partition {
	if c.last != nil && c.last.id == id {
		return c.last
	}
	p := c.partitions[id]
	if p == nil {
		s := c.byName[id.Stream]
		if s == nil {
			return nil
		}
		s.refresh()
		p = newPartition(id, s)
		p.number = c.number()
		c.enter(p)
	}
	c.last = p
	return p
}

func (c *Core) enter(p *partition) {
	p.stream.partitions = append(p.stream.partitions, p)
	c.partitions[p.id] = p
	c.numbering = nil
	c.addLocal(p)
}

// Push takes the next event of the partition that is being read. Its position may name another partition, the one that a
// recording was made from: that one's clock then judges it.
//
// keep is asked to keep what the event borrows, if and only if the event may touch a rule; nil: nothing is borrowed. The
// event itself may be reused by the caller afterwards.
//
// An event at or below the watermark of its own partition is late: counted, and dropped. So is one that lies at or below
// what its stream has released although its own partition lags behind, as one does that returns from idle.
//
// An event more than MaxAhead above its arrival is from the future: counted, and dropped. Where nobody knows when it came in,
// an event more than MaxAhead above the highest time of its partition is doubted, and so is the first of a partition. It
// waits for the next 100 of the partition: if all are there and at or below that line, its clock was broken and it is
// dropped as `future`; if not, time has moved on. For the first event the line is MaxAhead above the highest of those 100.
func (c *Core) Push(from *cep.Partition, ev *cep.Event, keep Keeper) {
	c.PushRecord(from, ev, keep, nil)
}

// PushRecord is Push with the record that the event was decoded from, for [Options.Reject] and for the sizes that
// [Core.Buffered] tells. The record is borrowed.
func (c *Core) PushRecord(from *cep.Partition, ev *cep.Event, keep Keeper, record []byte) {
	p := c.partition(from)
	if p == nil {
		return
	}
	if id := ev.Position.Partition; id != from {
		if id == nil {
			ev.Position.Partition = from
		} else if p = c.carriedBy(p, ev); p == nil {
			return
		}
	}
	s := p.stream
	p.note(ev.Position.Offset)
	if ev.Position.Offset > p.again {
		s.summary.Events++
		if p.idle || p.ended {
			s.refresh()
			p.idle, p.ended = false, false
		}
	}
	switch line := c.line(p); {
	case ev.Position.Offset <= p.believed:
		c.admit(p, ev, keep, record, len(record))
	case c.arrived != cep.BeforeAll:
		c.decide(p, true)
		if line > cep.BeforeAll && ev.Time > line {
			c.refuse(p, ReasonFuture, ev, record, line)
			break
		}
		c.admit(p, ev, keep, record, len(record))
	case len(p.doubted) > 0 || p.suspicious(ev.Time):
		c.doubt(p, ev, keep, record)
	default:
		c.admit(p, ev, keep, record, len(record))
	}
	c.read(p)
	if c.waiting++; c.waiting >= c.options.Batch {
		c.Release()
	}
}

// line is the furthest time that is believed of an event that comes in now; BeforeAll: any is.
func (c *Core) line(p *partition) cep.Time {
	if c.arrived == cep.BeforeAll || p.stream.MaxAhead <= 0 {
		return cep.BeforeAll
	}
	return c.arrived.Add(p.stream.MaxAhead)
}

// read says that another record of a partition has been read.
func (c *Core) read(p *partition) {
	if p.rereading && p.readTo >= p.again {
		c.reread(p)
	}
}

// carriedBy returns the clock of an event that came inside another partition, whose own clock moves along: it must neither
// stand still nor run ahead of what it carries.
func (c *Core) carriedBy(carrier *partition, ev *cep.Event) *partition {
	p := c.partition(ev.Position.Partition)
	if p == nil {
		return nil
	}
	if !slices.Contains(carrier.carried, p) {
		carrier.carried = append(carrier.carried, p)
	}
	carrier.see(ev.Time)
	return p
}

// doubt makes an event wait for what follows it.
func (c *Core) doubt(p *partition, ev *cep.Event, keep Keeper, record []byte) {
	d := &doubted{ev: *ev, size: len(record)}
	if p.touches(ev) {
		if keep != nil {
			keep.Keep(ev)
		}
		d.ev = *ev
		d.ev.Values = slices.Clone(ev.Values)
	} else {
		d.ev.Values, d.ev.Raw = nil, nil
	}
	if c.options.Reject != nil {
		d.record = slices.Clone(record)
	}
	p.doubted = append(p.doubted, d)
	c.decide(p, false)
}

// decide admits or refuses doubted events as far as it is known what becomes of them.
func (c *Core) decide(p *partition, final bool) {
	n := 0
	for len(p.doubted) > 0 {
		v := p.judge(final)
		if v == undecided {
			break
		}
		d := p.doubted[0]
		p.doubted = p.doubted[1:]
		n++
		if v == future {
			line := cep.BeforeAll
			if p.highest != cep.BeforeAll {
				line = p.line()
			}
			c.refuse(p, ReasonFuture, &d.ev, d.record, line)
			continue
		}
		c.admit(p, &d.ev, nil, d.record, d.size)
	}
	if len(p.doubted) == 0 {
		p.doubted = nil
	} else if n > 0 {
		p.doubted = slices.Clone(p.doubted) // what was decided must not stay for the queue's sake
	}
}

// admit judges an event by its partition's clock and puts it in order where a rule may want it.
func (c *Core) admit(p *partition, ev *cep.Event, keep Keeper, record []byte, size int) {
	s, t, again := p.stream, ev.Time, ev.Position.Offset <= p.believed
	if again && p.isRefused(ev.Position.Offset) {
		p.settled = max(p.settled, ev.Position.Offset)
		return
	}
	if t < p.highest {
		s.summary.Behind = max(s.summary.Behind, p.highest.Sub(t))
	}
	if !again && t > p.watermark && t <= s.released {
		c.refuse(p, ReasonReturned, ev, record, s.released)
		return
	}
	p.settled = max(p.settled, ev.Position.Offset)
	if t <= p.watermark {
		if !again {
			s.summary.Late++
			c.reject(ReasonLate, ev, record, p.watermark)
		}
		return
	}
	p.take(ev.Position.Offset, t)
	s.highest, s.first = max(s.highest, t), min(s.first, t)
	if !again {
		s.summary.Taken++
	}
	c.hand(p, ev, again, keep, size)
}

// hand puts an event on its way to the lanes that have a use for it.
func (c *Core) hand(p *partition, ev *cep.Event, again bool, keep Keeper, size int) {
	s := p.stream
	c.wanted = c.wanted[:0]
	for _, k := range s.clocks {
		c.want(k, ev, again)
	}
	if p.local != nil {
		c.want(p.local, ev, again)
	}
	if len(c.wanted) == 0 {
		return
	}
	if keep != nil {
		keep.Keep(ev)
	}
	c.arrivals++
	at := place{position: ev.Position}
	if s.tieSlot >= 0 {
		at.tie = ev.Value(s.tieSlot)
	}
	values, shared := ev.Values, len(c.wanted) > 1
	if shared {
		values = slices.Clone(values)
	}
	for _, w := range c.wanted {
		e := w.entry
		own := e.ev.Values
		e.ev, e.clock, e.place, e.arrival, e.shared = *ev, w.clock, at, c.arrivals, shared
		e.ev.Values = values
		if !shared {
			e.ev.Values = append(own[:0], values...)
		}
		e.stream, e.size = w.clock.streamAt(s), int64(size)
		s.entered.add(e.size)
		to := c.packets[w.target]
		to.entries = append(to.entries, e)
	}
}

// want finds the lanes of a clock that have a use for an event.
func (c *Core) want(k *clock, ev *cep.Event, again bool) {
	if ev.Time <= k.released { // read again
		return
	}
	list := k.readers.index.Lookup(ev)
	if len(list) == 0 {
		return
	}
	to := c.spread
	if k.layer > 0 {
		to = c.upper
	}
	k.route(k.readers, list, ev, again, to)
	for _, i := range to.used {
		target := i
		if k.layer > 0 {
			target = len(c.shards)
		}
		c.wanted = append(c.wanted, wanted{k, target, to.open[i]})
	}
	to.clear()
}

// wanted is an event on its way to a lane: the target is the index of its shard, or that of the back behind them.
type wanted struct {
	clock  *clock
	target int
	entry  *entry
}

// touches reports whether a rule may have a use for the event.
func (p *partition) touches(ev *cep.Event) bool {
	if p.local != nil && len(p.local.readers.index.Lookup(ev)) > 0 {
		return true
	}
	return slices.ContainsFunc(p.stream.clocks, func(k *clock) bool { return len(k.readers.index.Lookup(ev)) > 0 })
}

// Pass notes an offset of the partition at which there is no record, nor will be: it is read, and changes nothing else.
func (c *Core) Pass(from *cep.Partition, offset int64) {
	if p := c.partition(from); p != nil {
		p.note(offset)
		c.read(p)
	}
}

// Refuse counts a record of the partition that is no event. The record is borrowed, for [Options.Reject].
func (c *Core) Refuse(from *cep.Partition, offset int64, kind codec.ErrorKind, err error, record []byte) {
	p := c.partition(from)
	if p == nil {
		return
	}
	p.note(offset)
	if offset > p.again {
		s := &p.stream.summary
		s.Bad[kind.String()]++
		if s.FirstBad == "" {
			s.FirstBad = err.Error()
		}
		if c.options.Reject != nil {
			c.options.Reject(&Reject{
				Reason: kind.String(), Position: cep.Position{Partition: from, Offset: offset}, Time: cep.BeforeAll,
				Data: record, Detail: err.Error(),
			})
		}
	}
	c.read(p)
}

// refuse drops an event that must be dropped again when it is read again, whatever the clocks say then.
func (c *Core) refuse(p *partition, reason string, ev *cep.Event, record []byte, line cep.Time) {
	if reason == ReasonFuture {
		p.stream.summary.Future++
	} else {
		p.stream.summary.Returned++
	}
	p.refuse(ev.Position.Offset)
	p.settled = max(p.settled, ev.Position.Offset)
	c.reject(reason, ev, record, line)
}

// reject tells of an event that takes no part, because of a line that it lies beyond.
func (c *Core) reject(reason string, ev *cep.Event, record []byte, line cep.Time) {
	if c.options.Reject == nil {
		return
	}
	var detail string
	switch {
	case reason == ReasonLate:
		detail = fmt.Sprintf("it is not above %s, up to which its partition has been read", line)
	case reason == ReasonReturned:
		detail = fmt.Sprintf("it is not above %s, up to which its stream went on while the partition was away", line)
	case line == cep.BeforeAll:
		detail = "it is too far above all that follows it"
	default:
		detail = fmt.Sprintf("it is above %s, the furthest that is believed", line)
	}
	c.options.Reject(&Reject{Reason: reason, Position: ev.Position, Time: ev.Time, Data: record, Detail: detail})
}

// Arrive says when what is pushed from now on came in, by the clock of whoever took it: what lies further above that than
// [Stream.MaxAhead] is from the future. [cep.BeforeAll]: nobody knows; then what follows decides, see [Core.Push].
func (c *Core) Arrive(t cep.Time) { c.arrived = t }
