package engine

import (
	"cmp"
	"slices"

	"github.com/cepd/cepd/cep"
)

// Stream is how the events of a stream are timed.
type Stream struct {
	Name string
	// Lateness is how far behind the highest time of its partition an event may come.
	Lateness cep.Duration
	// MaxAhead is how far above the highest time of its partition an event may lie before it is doubted: see
	// [Core.Push]. 0: as far as it likes.
	MaxAhead cep.Duration
	// Tiebreak is the path of the field that orders events of one time; nil: their positions do.
	Tiebreak []string
	// KeyLocal are the paths of fields whose values never cross from one partition to another, where a device always writes to
	// the same. A rule that keeps such values apart in everything it does runs on a clock for each partition: see
	// [Core.ClockOf].
	KeyLocal [][]string
}

// doubtMax is the number of following events that decide whether an event far ahead of its partition is from a broken
// clock or whether time has really moved on.
const doubtMax = 100

// stream is a stream that some rule reads.
type stream struct {
	Stream
	tieSlot    int // -1: none
	partitions []*partition
	clocks     []*clock
	// released is the stream's watermark, the highest that it ever was: what a rule may have seen.
	released cep.Time
	// floor is what Advance promised.
	floor cep.Time
	// highest is the highest time of an event that was taken, first the lowest; AfterAll before there is one. first is
	// final once released has passed it.
	highest, first cep.Time
	summary        StreamSummary
	// locals are the rules that run on a clock for each partition.
	locals []*enrolled
	// closed says that no partition will come any more which is not there.
	closed bool
	// entered is what has been handed to lanes, left what these have released of it.
	entered amount
	left    level
}

// partition is the clock of one partition.
type partition struct {
	id     *cep.Partition
	stream *stream
	number uint64 // that it has in records
	// highest is the highest time seen, watermark what follows from it; BeforeAll before the first event.
	highest, watermark cep.Time
	idle, ended        bool
	// local is the clock of the rules that run on that of the partition; nil where there are none.
	local *clock
	// doubted are events that wait for what follows them: the first of them lies too far ahead.
	doubted []*doubted
	// carried are partitions whose events came inside this one: a recording keeps the positions it was made from.
	carried []*partition
	// marks are places to read again from: what lies before the first has all been released.
	marks []mark
	// readTo is the highest offset read, settled that of the last event that was judged. again and believed are those of the
	// Core before: what is read again is not counted, or judged, a second time; -1: none. refused are events that came back
	// too late or from the future, as far as they may be read again, in order.
	readTo, settled int64
	again, believed int64
	refused         []stretch
	// rereading says that the partition has not reached again yet.
	rereading bool
}

// stretch is all events of a partition from an offset to another one: a clock that is wrong is so for many.
type stretch [2]int64

// doubted is an event that waits for what follows it, with its record where somebody wants to know of refusals.
type doubted struct {
	ev     cep.Event
	record []byte
	size   int // of the record
}

func newPartition(id *cep.Partition, s *stream) *partition {
	return &partition{id: id, stream: s, highest: cep.BeforeAll, watermark: s.floor, readTo: -1, settled: -1, again: -1, believed: -1}
}

// mark is a place in a partition, with its clock there.
type mark struct {
	offset             int64
	highest, watermark cep.Time
	// newest is the highest time taken behind the mark and before the next one, records the number of records there.
	newest  cep.Time
	records int
}

// markEvery is the number of records between two marks: so many are read again at most beside those that wait.
const markEvery = 256

// note remembers a record that is about to be judged; offsets do not go back.
func (p *partition) note(offset int64) {
	n := len(p.marks)
	// A doubted event has not been judged, so the clock at the events behind it is not known yet.
	if n == 0 || p.marks[n-1].records >= markEvery && len(p.doubted) == 0 {
		if n > 0 && p.marks[n-1].newest == cep.BeforeAll { // nothing of it is needed
			p.marks = p.marks[:n-1]
		}
		p.forget()
		p.marks = append(p.marks, mark{offset: offset, highest: p.highest, watermark: p.watermark, newest: cep.BeforeAll})
		n = len(p.marks)
	}
	p.marks[n-1].records++
	p.readTo = max(p.readTo, offset)
}

// take moves the clock to an event that takes its place in the order.
func (p *partition) take(offset int64, t cep.Time) {
	p.see(t)
	i := len(p.marks) - 1
	for i > 0 && p.marks[i].offset > offset { // an event that was doubted for long
		i--
	}
	p.marks[i].newest = max(p.marks[i].newest, t)
}

// forget drops marks behind which everything has been released by all clocks of the stream, but for the last.
func (p *partition) forget() {
	n := 0
	for n < len(p.marks)-1 && p.marks[n].newest <= p.released() && (len(p.doubted) == 0 || p.doubted[0].ev.Position.Offset >= p.marks[n+1].offset) {
		n++
	}
	if n > 0 {
		p.marks = append(p.marks[:0], p.marks[n:]...)
	}
	if len(p.refused) > 0 && len(p.marks) > 0 {
		first := p.stretchAt(p.marks[0].offset)
		p.refused = slices.Delete(p.refused, 0, first)
	}
}

// released is the time up to which no clock of the stream needs anything again.
func (p *partition) released() cep.Time {
	t := p.stream.released
	for _, k := range p.stream.clocks {
		t = min(t, k.released)
	}
	if p.local != nil {
		t = min(t, p.local.released)
	}
	return t
}

// done reports whether all that was read has been released, so that nothing has to be read again.
func (p *partition) done() bool {
	if len(p.doubted) > 0 {
		return false
	}
	released := p.released()
	return !slices.ContainsFunc(p.marks, func(m mark) bool { return m.newest > released })
}

// refuse notes an event that must be refused when it is read again.
func (p *partition) refuse(offset int64) {
	if n := len(p.refused); n > 0 && p.refused[n-1][1] == p.settled { // the event judged last was refused, too
		p.refused[n-1][1] = offset
		return
	}
	p.refused = append(p.refused, stretch{offset, offset})
}

// stretchAt is the first stretch that ends at an offset or behind it.
func (p *partition) stretchAt(offset int64) int {
	i, _ := slices.BinarySearchFunc(p.refused, offset, func(s stretch, o int64) int { return cmp.Compare(s[1], o) })
	return i
}

// isRefused reports whether an event that is read again was refused for what is not known any more.
func (p *partition) isRefused(offset int64) bool {
	i := p.stretchAt(offset)
	return i < len(p.refused) && p.refused[i][0] <= offset
}

// holds reports whether the partition keeps the stream's watermark back.
func (p *partition) holds() bool { return !p.idle && !p.ended }

// see moves the clock to an event of time t.
func (p *partition) see(t cep.Time) {
	if t > p.highest {
		p.highest = t
		p.watermark = max(p.watermark, t.Add(-p.stream.Lateness).Add(-1))
	}
}

// refresh brings the stream's watermark up to its partitions. It must run before a partition begins or ceases to hold it
// back, so that it does not depend on how often releases happen.
func (s *stream) refresh() {
	least, holding := cep.AfterAll, false
	for _, p := range s.partitions {
		if p.holds() {
			holding = true
			least = min(least, p.watermark)
		}
	}
	switch {
	case holding:
		s.released = max(s.released, least, s.floor)
	case s.ended():
		// Nothing more can come: what was read is released, and time stands where it ended.
		s.released = max(s.released, s.highest, s.floor)
	default:
		// All are idle, or have ended while others may come, or none is there yet. Where they fell silent, each by itself or all at
		// once, must not matter: it is as if the slowest had gone first, and the clock of the fastest is left. From there only Tick
		// and Advance move time.
		s.released = max(s.released, s.floor)
		for _, p := range s.partitions {
			s.released = max(s.released, p.watermark)
		}
	}
}

// ended reports whether nothing more can come.
func (s *stream) ended() bool {
	return s.closed && !slices.ContainsFunc(s.partitions, func(p *partition) bool { return !p.ended })
}

// suspicious reports whether an event of time t lies too far ahead to be believed at once. The first event of a partition
// has nothing to be held against but what follows it.
func (p *partition) suspicious(t cep.Time) bool {
	if p.stream.MaxAhead <= 0 {
		return false
	}
	return p.highest == cep.BeforeAll || t > p.line()
}

func (p *partition) line() cep.Time { return p.highest.Add(p.stream.MaxAhead) }

// verdict is what becomes of a doubted event.
type verdict uint8

const (
	undecided verdict = iota
	believed
	future
)

// judge decides about the first doubted event. final says that no more events will follow before time moves.
func (p *partition) judge(final bool) verdict {
	first, rest := p.doubted[0], p.doubted[1:]
	if !p.suspicious(first.ev.Time) {
		return believed
	}
	line := p.line()
	if p.highest == cep.BeforeAll {
		line = cep.BeforeAll
		for _, e := range rest {
			line = max(line, e.ev.Time.Add(p.stream.MaxAhead))
		}
		if first.ev.Time <= line && len(rest) > 0 {
			return believed
		}
	}
	for _, e := range rest {
		if e.ev.Time > line {
			return believed
		}
	}
	switch {
	case len(rest) >= doubtMax:
		return future
	case final:
		return believed
	}
	return undecided
}
