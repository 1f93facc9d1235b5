package spectest

import (
	"math"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns/oracle"
)

// source chooses one of n, 0 <= x < n: the choices of a test case, from rapid or from a fuzzer's bytes. 0 is the simplest.
type source func(n int) int

// oneIn is true once in n times.
func (draw source) oneIn(n int) bool { return draw(n) == n-1 }

// among picks one of some numbers.
func (draw source) among(all ...int) int { return all[draw(len(all))] }

// bytesSource reads choices from bytes; behind their end every choice is 0.
func bytesSource(data []byte) source {
	return func(n int) int {
		if len(data) == 0 {
			return 0
		}
		x := int(data[0]) % n
		data = data[1:]
		return x
	}
}

// drawShape draws a rule: every element, window, strategy and limit that shapes have.
func drawShape(draw source) *shape {
	s := &shape{hides: -1, keyed: draw.oneIn(2), where: draw.oneIn(8), except: draw.oneIn(8)}
	if draw.oneIn(2) {
		s.within = 1 + draw(6)
	}
	for range 1 + draw(4) {
		e := shapeElement{
			letter: "abc."[draw(4)],
			link:   []nfa.Link{nfa.Relaxed, nfa.Strict, nfa.Any}[draw(3)],
			loop:   []nfa.Link{nfa.Relaxed, nfa.Strict, nfa.Any}[draw(3)],
			min:    1,
			max:    1,
		}
		if s.keyed {
			e.otherKey = draw.oneIn(4)
		}
		if draw.oneIn(8) {
			e.stream = 1
		}
		if e.absent = draw.oneIn(4); e.absent {
			if e.link == nfa.Any {
				e.link = nfa.Relaxed
			}
			e.span = draw.among(0, 1, 2, 4)
		} else {
			e.optional = draw.oneIn(4)
			if draw.oneIn(2) {
				e.min = 1 + draw(3)
				e.max = draw.among(-1, e.min, e.min+1, 3, 1)
				if e.max > 0 {
					e.max = max(e.max, e.min)
				}
			}
			e.within = draw.among(0, 0, 1, 3)
			e.loopGap = draw.among(e.within, 0, 2)
		}
		s.elements = append(s.elements, e)
	}
	s.repair(draw)
	for i := range s.elements {
		e := &s.elements[i]
		if draw.oneIn(4) {
			e.condition = condition(draw(int(conditions)))
		}
		// A condition reads a step before it, or its own; an absence at the start the one behind it.
		var steps []int
		for j := range s.elements {
			if !s.elements[j].absent && (j <= i || s.leading(i) && j == i+1) {
				steps = append(steps, j)
			}
		}
		if len(steps) == 0 {
			e.condition = plain
			continue
		}
		e.ref = steps[draw(len(steps))]
	}
	selectionOf(s, draw(10*len(s.elements)))
	s.timeouts = draw.oneIn(2)
	if draw.oneIn(4) {
		s.limits.StartsPerKey = 1 + draw(3)
	}
	if draw.oneIn(8) {
		s.limits.EventsPerMatch = 1 + draw(4)
	}
	if draw.oneIn(6) {
		s.hides = draw(len(s.elements))
	}
	return s
}

// leading says that element i is an absence at the start.
func (s *shape) leading(i int) bool {
	return s.elements[i].absent && !slices.ContainsFunc(s.elements[:i], func(e shapeElement) bool { return !e.absent })
}

// repair makes a drawn shape one that the semantics admits: it fits spans and links to the places of absences, and turns
// what cannot stand into a step that must be taken.
func (s *shape) repair(draw source) {
	last := len(s.elements) - 1
	for last >= 0 && s.elements[last].absent {
		last--
	}
	for i := range s.elements {
		e := &s.elements[i]
		switch {
		case s.leading(i):
			e.link = nfa.NoLink
			e.fromStart = draw.oneIn(3)
			if e.forever = e.fromStart && draw.oneIn(3); e.forever {
				e.span = 0
			} else {
				e.span = max(e.span, 1)
			}
		case i == 0:
			e.link = nfa.NoLink
		case e.absent && i < last:
			e.span = 0
		case e.absent && e.span == 0 && s.within == 0 && e.link != nfa.Strict:
			e.span = 2
		}
	}
	for i := len(s.elements) - 1; i >= 0 && !s.admitted(); i-- {
		e := &s.elements[i]
		e.optional = false
		if !s.admitted() && e.absent {
			*e = shapeElement{letter: e.letter, link: e.link, loop: nfa.Relaxed, min: 1, max: 1, otherKey: e.otherKey, stream: e.stream}
		}
	}
}

// drawInput draws what happens: up to n events of all streams and keys, and time that passes, in steps of a second.
func drawInput(draw source, n int) oracle.Input {
	in := oracle.Input{FirstTime: cep.Time(draw.among(-1, 0, 2, 3)) * cep.Second}
	if in.FirstTime < 0 {
		in.FirstTime = cep.BeforeAll
	}
	streams := []*cep.Partition{{Stream: "s", Name: "0"}, {Stream: "t", Name: "0", Order: 1}}
	key := func() cep.Value {
		switch draw(12) {
		case 9:
			return cep.Value{}
		case 10:
			return cep.String("")
		case 11:
			return cep.List([]cep.Value{cep.String("x"), cep.String("y"), cep.Null, cep.String("x")})
		default:
			return cep.String([]string{"x", "x", "y"}[draw(3)])
		}
	}
	number := func() cep.Value {
		switch n := draw(16); n {
		case 10:
			return cep.Value{}
		case 11:
			return cep.Float(1.5)
		case 12:
			return cep.String("many")
		case 13:
			return cep.Int(math.MaxInt64)
		default:
			return cep.Int(int64(n % 10))
		}
	}
	now, seq := cep.Second, uint64(0)
	for range n {
		now += cep.Time(draw.among(0, 1, 1, 2)) * cep.Second
		if draw.oneIn(6) {
			in.Entries = append(in.Entries, oracle.Entry{Watermark: now})
			now += cep.Second // nothing at or below a watermark comes
			continue
		}
		seq++
		p := streams[0]
		if draw.oneIn(6) {
			p = streams[1]
		}
		in.Entries = append(in.Entries, oracle.Entry{Event: &cep.Event{
			Time: now, Seq: seq, Position: cep.Position{Partition: p, Offset: int64(seq)},
			Values: []cep.Value{cep.String("abc"[draw(3):][:1]), number(), key(), key()},
		}})
	}
	for range draw(8) {
		in.Entries = append(in.Entries, oracle.Entry{Watermark: now})
		now += cep.Second
	}
	if draw.oneIn(2) {
		in.Entries = append(in.Entries, oracle.Entry{Watermark: now + cep.Minute})
	}
	return in
}
