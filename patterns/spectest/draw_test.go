package spectest

import (
	"iter"
	"math"

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
	switch draw(16) {
	case 13:
		s.elements = drawNewest(draw)
		s.newest = true
	case 14: // an absence alone (S4.4)
		beat := shapeElement{letter: "abc."[draw(4)], loop: nfa.Relaxed, min: 1, max: 1}
		silence := beat
		silence.absent, silence.link, silence.span = true, nfa.Relaxed, 1+draw(4)
		s.elements = []shapeElement{beat, silence}
		s.present = s.keyed && draw.oneIn(2)
	case 15:
		s.elements = append(s.drawElements(draw, 1+draw(2), 1), shapeElement{
			letter: "abc"[draw(3)], hold: true, link: nfa.Relaxed, loop: nfa.Relaxed, min: 1, max: 1, span: 1 + draw(3),
		})
		if draw.oneIn(2) {
			s.elements = s.elements[len(s.elements)-1:]
			s.elements[0].link = nfa.NoLink
		}
	default:
		s.elements = s.drawElements(draw, 1+draw(4), 0)
	}
	s.repair(draw)
	if draw.oneIn(6) {
		s.without = []shapeElement{s.drawLeaf(draw)}
		s.without[0].absent, s.without[0].optional, s.without[0].link = false, false, nfa.Relaxed
	}
	s.drawConditions(draw)
	selectionOf(s, draw(10*len(s.leaves())))
	s.timeouts = draw.oneIn(2)
	if draw.oneIn(4) {
		s.limits.StartsPerKey = 1 + draw(3)
		s.limits.DropOldest = draw.oneIn(3)
	}
	if draw.oneIn(8) {
		s.limits.EventsPerMatch = 1 + draw(4)
	}
	if draw.oneIn(6) {
		s.hides = draw(len(s.leaves()))
	}
	return s
}

// drawNewest draws what `keep: newest` may stand with: single relaxed steps (S5.6).
func drawNewest(draw source) []shapeElement {
	var all []shapeElement
	for i := range 1 + draw(4) {
		e := shapeElement{letter: "abc."[draw(4)], link: nfa.Relaxed, loop: nfa.Relaxed, min: 1, max: 1, within: draw.among(0, 0, 3)}
		if i == 0 {
			e.link, e.within = nfa.NoLink, 0
		}
		all = append(all, e)
	}
	return all
}

var links = []nfa.Link{nfa.Relaxed, nfa.Strict, nfa.Any}

// drawElements draws a sequence; depth is the number of composites around it.
func (s *shape) drawElements(draw source, n, depth int) []shapeElement {
	var all []shapeElement
	for i := range n {
		var e shapeElement
		if depth < 2 && draw.oneIn(4) {
			e = s.drawComposite(draw, depth)
		} else {
			e = s.drawLeaf(draw)
		}
		if i == 0 {
			e.link = nfa.NoLink
		}
		all = append(all, e)
	}
	if last := &all[n-1]; !hasStep(all) { // absences alone are no sequence
		*last = shapeElement{letter: last.letter, link: last.link, loop: nfa.Relaxed, min: 1, max: 1}
	}
	return all
}

func (s *shape) drawLeaf(draw source) shapeElement {
	e := shapeElement{letter: "abc."[draw(4)], link: links[draw(3)], loop: links[draw(3)], min: 1, max: 1}
	if s.keyed {
		e.otherKey = draw.oneIn(4)
	}
	if draw.oneIn(8) {
		e.stream = 1
	}
	if e.absent = draw.oneIn(5); e.absent {
		if e.link == nfa.Any {
			e.link = nfa.Relaxed
		}
		e.span = draw.among(0, 1, 2, 4)
		return e
	}
	e.optional = draw.oneIn(4)
	if draw.oneIn(2) {
		e.min = 1 + draw(3)
		e.max = draw.among(-1, e.min, e.min+1, 3, 1)
		if e.max > 0 {
			e.max = max(e.max, e.min)
		}
		if draw.oneIn(5) {
			e.having = having(1 + draw(int(havings)-1))
		}
		e.distinct = draw.oneIn(6)
		if e.max < 0 && draw.oneIn(4) {
			e.until, e.untilTwo = "abc"[draw(3)], draw.oneIn(3)
		}
	}
	if e.optional || e.max != 1 {
		e.greedy = draw.oneIn(4)
	}
	e.within = draw.among(0, 0, 1, 3)
	e.loopGap = draw.among(e.within, 0, 2)
	if draw.oneIn(10) {
		e.seen = seen{word: true, fromStart: draw.oneIn(2)}
		e.seen.forever = e.seen.fromStart && draw.oneIn(2)
	}
	return e
}

func (s *shape) drawComposite(draw source, depth int) shapeElement {
	e := shapeElement{
		kind: []nfa.ElementKind{nfa.KindGroup, nfa.KindAnyOf, nfa.KindAllOf}[draw(3)],
		link: links[draw(3)], loop: links[draw(3)], min: 1, max: 1, optional: draw.oneIn(4), within: draw.among(0, 0, 2, 4),
	}
	if e.kind == nfa.KindAllOf {
		e.loop = nfa.Relaxed
		var members []shapeElement
		for range 2 + draw(2) {
			m := s.drawMember(draw)
			if draw.oneIn(6) {
				m = shapeElement{
					kind: nfa.KindAnyOf, loop: nfa.Relaxed, min: 1, max: 1,
					parts: [][]shapeElement{{s.drawMember(draw)}, {s.drawMember(draw)}},
				}
			}
			members = append(members, m)
		}
		e.parts = [][]shapeElement{members}
		if draw.oneIn(3) {
			e.need = 1 + draw(len(members))
		}
		e.related = draw.oneIn(4)
		return e
	}
	if e.times = draw.oneIn(2); e.times {
		e.min = 1 + draw(2)
		e.max = draw.among(-1, e.min, e.min+1)
		if e.kind == nfa.KindGroup && e.max < 0 && draw.oneIn(3) {
			e.until, e.untilTwo = "abc"[draw(3)], draw.oneIn(3)
		}
	}
	e.parts = [][]shapeElement{s.drawElements(draw, 1+draw(3), depth+1)}
	if e.kind == nfa.KindAnyOf {
		e.parts = append(e.parts, s.drawElements(draw, 1+draw(2), depth+1))
	}
	return e
}

// drawMember draws a member of an all_of: a single step with where, from, by and first_seen only.
func (s *shape) drawMember(draw source) shapeElement {
	e := s.drawLeaf(draw)
	return shapeElement{
		letter: e.letter, loop: nfa.Relaxed, min: 1, max: 1, stream: e.stream, otherKey: e.otherKey, seen: e.seen,
	}
}

// drawConditions gives leaves conditions that read a step before them, or their own; an absence at the start the one
// behind it. The condition of a step with first_seen reads nothing that was taken (S3.7).
func (s *shape) drawConditions(draw source) {
	leaves, spots := s.leaves(), s.spots()
	for i, e := range append(leaves, pointers(s.without)...) {
		if draw.oneIn(4) {
			e.condition = condition(draw(int(conditions)))
		}
		if e.seen.word || e.hold || s.newest && i == 0 {
			e.condition = []condition{plain, afterSame, inKey}[draw(3)]
		}
		var steps []int
		for j, f := range leaves {
			if !f.absent && (j <= i || spots[e] == atStart && j == i+1) {
				steps = append(steps, j)
			}
		}
		if len(steps) == 0 {
			e.condition = plain
			continue
		}
		e.ref = steps[draw(len(steps))]
	}
}

// repair makes a drawn shape one that the semantics admits: it fits spans and links to the places of absences, and turns
// what cannot stand into a step that must be taken.
func (s *shape) repair(draw source) {
	if blank(s.elements) {
		s.elements[len(s.elements)-1] = shapeElement{letter: 'a', link: s.elements[len(s.elements)-1].link, loop: nfa.Relaxed, min: 1, max: 1}
	}
	for e, at := range s.inOrder() {
		switch {
		case at == atStart:
			if e.link == nfa.Strict {
				e.link = nfa.Relaxed
			}
			e.fromStart = draw.oneIn(3)
			if e.forever = e.fromStart && draw.oneIn(3); e.forever {
				e.span = 0
			} else {
				e.span = max(e.span, 1)
			}
		case at&between != 0:
			e.span = 0
		case e.span == 0 && s.within == 0 && e.link != nfa.Strict:
			e.span = 2
		}
	}
	leaves := s.leaves()
	for i := len(leaves) - 1; i >= 0 && !s.admitted(); i-- {
		if e := leaves[i]; e.absent {
			*e = shapeElement{letter: e.letter, link: e.link, loop: nfa.Relaxed, min: 1, max: 1, otherKey: e.otherKey, stream: e.stream}
		}
	}
}

// inOrder is spots in the order of the leaves: choices may not depend on the order of a map.
func (s *shape) inOrder() iter.Seq2[*shapeElement, spot] {
	return func(yield func(*shapeElement, spot) bool) {
		spots := s.spots()
		for _, e := range s.leaves() {
			if at, ok := spots[e]; ok && !yield(e, at) {
				return
			}
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
	now, seq := max(cep.Second, in.FirstTime), uint64(0) // nothing comes before the first time
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
