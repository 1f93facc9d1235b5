package nfa

import (
	"math/bits"

	"github.com/cepd/cepd/cep"
)

// Program is a compiled pattern: a flat list of instructions for the whole rule. It is immutable and may be shared by
// goroutines.
//
// A run rests on a take or on done; what lies between is followed at once, by [Program.walk].
//
//	take      wait for an event of an element; behind it go on, or wait here again for the next of a loop
//	optional  the element behind may be left out: go on at x as well
//	absent    adds an absence to those that are pending
//	enter     a composite begins: its first repetition
//	repeat    a repetition of a composite ends: go on, or back to x for another
//	choice    any_of: go on at each of xs; jump goes to x where an alternative ends
//	order     all_of: go on at each of xs whose member was not taken yet; member behind each goes back to x, or on
//	done      all elements have been taken; what is pending stands at the end of the rule
//
// In a flat program, one without composites, the ways between two takes are always the same, so they are followed once and
// for all.
type Program struct {
	*form
	conditions []*Pred     // by element
	rows       *rowProgram // of a row pattern, which uses nothing of the form but the layouts
	source     Pattern
}

// maxElements leaves one bit of a word for alwaysHeard; names need a bit each in the mask of [Machine.Event].
const maxElements = 63

// maxWholes bounds what a walk carries; nobody nests deeper and few rules have more than three.
const maxWholes = 16

// alwaysHeard is in every set of elements that hear an event: runs that no event may pass by wait for it.
const alwaysHeard = uint64(1) << 63

type opcode uint8

const (
	opTake opcode = iota
	opOptional
	opAbsent
	opEnter
	opRepeat
	opChoice
	opJump
	opOrder
	opMember
	opDone
)

type instruction struct {
	op      opcode
	element *element
	x       int
	xs      []int
	bit     uint16 // member: its bit among the members
}

// element is an Element with what follows from its place.
type element struct {
	bit   uint64 // 1 << index; of a composite 0
	index int    // among the elements, or among the wholes
	// exits are the ways from behind a take to where a run rests next, in a flat program. behind are the absences that some
	// way to another take makes pending: a loop under way looks out for them.
	exits  []exit
	behind uint64
	// Indexes into Program.gaps: of Within, LoopWithin, and For of an absence at the end; -1: none.
	gap, loopGap, forGap int
	Element              // without its Where, if it is no composite: see Program.conditions
	role                 role
	// asks and looksAround: its condition reads the event alone, or may read more. Neither: there is none.
	asks, looksAround bool
	// inside are the composites around it, outermost first. leads: it is the first written element of the innermost, so
	// that its link is that of the composite.
	inside []*element
	leads  bool
	// until is the bit of the condition that ends it, untils those of what is around it too.
	until, untils uint64
	// greedy: the bars that the loop leaves behind when it is left, and when it is left out, by its link.
	barLeft uint64
	barOut  [4]uint64
	// memory is the index into Program.memories of an absence at the start, a step with first_seen, or an edge; -1: none.
	memory int
	seen   layout // what such a condition reads of the events it looks back at
}

// role is what an element with a bit is there for.
type role uint8

const (
	takes role = iota
	absentStart
	absentLater
	watched // an until or a without
)

// exit is where a run rests next, and with what.
type exit struct {
	pc     int
	link   Link
	absent uint64 // the absences passed on the way
	frame  *frame // nil in a flat program
}

// bar is what a greedy loop still claims once it was left, or left out.
type bar struct {
	element *element
	link    Link
	out     bool // it was left out
}

// layout says which slots are kept of an event, and where.
type layout struct {
	slots []int
	index []int // by slot: index in slots, -1: not kept
	// value is kept too: what a loop with distinct counts.
	value *Expr
}

func newLayout(slots []int) layout {
	l := layout{slots: slots}
	for i, slot := range slots {
		for len(l.index) <= slot {
			l.index = append(l.index, -1)
		}
		l.index[slot] = i
	}
	return l
}

// Pattern returns the pattern that the program was made from. It must not be changed.
func (p *Program) Pattern() *Pattern { return &p.source }

// registers are what a walk carries from one instruction to the next.
type registers struct {
	link   Link // of the composite just entered, for its first element
	absent uint64
	bars   uint64
	groups [maxWholes]groupState
}

// groupState is where a run is in a composite. In an all_of n is the set of members taken.
type groupState struct {
	n     uint16
	took  bool     // this repetition has taken an event
	first cep.Time // the first it took, where the composite has a window
}

// linkOf is the link of an element that was just reached.
func (r *registers) linkOf(e *element) Link {
	if e.leads && e.Link == NoLink {
		return r.link
	}
	return e.Link
}

// next counts a repetition. Without an upper bound the count stops where nothing depends on it, so that states are
// finite.
func (e *element) next(n int) int {
	if e.Max < 0 && n > e.Min {
		return n
	}
	return n + 1
}

// walk follows the ways from pc to where a run rests.
func (p *form) walk(pc int, r registers, rest func(pc int, r *registers)) {
	for {
		in := &p.code[pc]
		e := in.element
		switch in.op {
		case opTake, opDone:
			rest(pc, &r)
			return
		case opAbsent:
			r.absent |= e.bit
			pc++
		case opOptional:
			p.walk(pc+1, r, rest)
			r.bars |= e.barOut[r.linkOf(e)]
			pc = in.x
		case opEnter:
			r.link = r.linkOf(e)
			r.groups[e.index] = groupState{n: 1}
			if e.Kind == KindAllOf {
				r.groups[e.index].n = 0
			}
			pc++
		case opRepeat:
			g := r.groups[e.index]
			if e.Times && !g.took {
				return
			}
			if e.Max < 0 || int(g.n) < e.Max {
				again := r
				again.groups[e.index] = groupState{n: uint16(e.next(int(g.n)))}
				again.link = e.Loop
				p.walk(in.x, again, rest)
			}
			if int(g.n) < e.Min {
				return
			}
			r.groups[e.index] = groupState{}
			pc++
		case opChoice:
			for _, x := range in.xs {
				p.walk(x, r, rest)
			}
			return
		case opJump:
			pc = in.x
		case opOrder:
			for i, x := range in.xs {
				if r.groups[e.index].n>>i&1 == 0 {
					p.walk(x, r, rest)
				}
			}
			return
		case opMember:
			g := &r.groups[e.index]
			g.n |= in.bit
			if bits.OnesCount16(g.n) == e.Need {
				*g = groupState{}
				pc = in.xs[0]
			} else {
				r.link = Relaxed
				pc = in.x
			}
		}
	}
}

// Facts are what is known of a program without running it. Faster machines, the index and the documentation choose by
// facts alone.
type Facts struct {
	// Flat: no composite, nothing greedy, no until, having or distinct.
	Flat bool
	// Unary: no condition reads more than the event itself.
	Unary bool
	// Single: every element takes one event, or none where it is optional.
	Single bool
	// Strict: a link or an absence is strict, or an until or without is there, so that events which no element takes matter
	// too.
	Strict bool
	// Any: a link is any, so that runs multiply.
	Any bool
	// Prev: a condition reads the event before.
	Prev bool
	// AbsentAtStart, AbsentBetween, AbsentAtEnd: such an absence is there.
	AbsentAtStart, AbsentBetween, AbsentAtEnd bool
	// OpenEnd: the last element is a loop that may go on, or may be left out, so that a start can match more than once.
	OpenEnd bool
	// Timed: the rule has a window, so that every start ends by time.
	Timed bool
}

// Facts returns the facts of the program.
func (p *Program) Facts() Facts {
	if p.rows != nil {
		return Facts{Strict: true, Prev: p.pattern.UsesPrev, OpenEnd: true, Timed: p.pattern.Within > 0}
	}
	f := Facts{
		Flat: p.flat, Unary: true, Single: true, Prev: p.pattern.UsesPrev, Timed: p.pattern.Within > 0,
		Strict: p.strict != 0 || p.without != 0, OpenEnd: p.openEnd,
		AbsentAtStart: p.lead != 0, AbsentBetween: p.between != 0, AbsentAtEnd: p.end != 0,
	}
	first := true
	for _, e := range p.wholes {
		f.Single = f.Single && e.Max == 1
		f.Unary = f.Unary && (e.Where == nil || e.Where.Unary)
		f.addLinks(e, true)
	}
	for i := range p.elements {
		e := &p.elements[i]
		f.Unary = f.Unary && !e.looksAround && e.Having == nil
		switch e.role {
		case takes:
			f.Single = f.Single && e.Max == 1
			f.Strict = f.Strict || e.Edge || e.FirstSeen != nil
			f.addLinks(e, !first)
			first = false
		case watched:
			f.Strict = true
		case absentStart, absentLater:
		}
	}
	return f
}

func (f *Facts) addLinks(e *element, linked bool) {
	f.Strict = f.Strict || e.Max != 1 && e.Loop == Strict || linked && e.Link == Strict
	f.Any = f.Any || e.Max != 1 && e.Loop == Any || linked && e.Link == Any
}
