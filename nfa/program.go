package nfa

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/cepd/cepd/cep"
)

// Program is a compiled pattern: a flat list of instructions. It is immutable and may be shared by goroutines.
//
// A run rests on a take or on done; what lies between is followed at once. Without groups these ways are always the
// same, so [Compile] follows them once and leaves the result as the exits of each take.
//
//	take      wait for an event of an element; behind it leave by the exits, or wait here again for the next of a loop
//	optional  the element behind may be left out: go on at x as well
//	absent    adds an absence to those that are pending
//	done      all elements have been taken; what is pending stands at the end of the rule
type Program struct {
	pattern  Pattern
	code     []instruction
	elements []element
	// entries are the ways to the first event. Their absences are those at the start.
	entries []exit
	// entry has the bits of the elements that can take the first event, lead those of the absences at the start, strict
	// those of the strict absences.
	entry, lead, strict uint64
	least               []int    // by pc: how many events a run that is there still takes at least
	layouts             []layout // by name: what is kept of the events it takes
	prevLayout          layout
	aggregated          uint64 // names that have aggregates
	gaps                []cep.Duration
	memories            []memoryKind
	looksAhead          bool // the condition of an absence at the start reads more than its own event
}

// maxElements leaves one bit of a word for alwaysHeard; names need a bit each in the mask of [Machine.Event].
const maxElements = 63

// alwaysHeard is in every set of elements that hear an event: runs that no event may pass by wait for it.
const alwaysHeard = uint64(1) << 63

type opcode uint8

const (
	opTake opcode = iota
	opOptional
	opAbsent
	opDone
)

type instruction struct {
	op      opcode
	element *element
	x       int // optional: behind the element
}

// element is an Element with what follows from its place.
type element struct {
	Element
	index int
	bit   uint64 // 1 << index
	role  role
	// exits are the ways from behind a take to where a run rests next, behind the absences that some exit to another take
	// makes pending: a loop under way looks out for them.
	exits  []exit
	behind uint64
	// Indexes into Program.gaps: of Within, LoopWithin, and For of an absence at the end; -1: none.
	gap, loopGap, forGap int
	// memory is the index into Program.memories of an absence at the start.
	memory int
	seen   layout // of such an absence: what its condition reads of the events it looks back at
}

// role is the place of an absence.
type role uint8

const (
	takes role = iota
	absentStart
	absentMiddle
	absentEnd
)

// exit is where a run rests next, with the absences passed on the way.
type exit struct {
	pc     int
	absent uint64
}

// layout says which slots are kept of an event, and where.
type layout struct {
	slots []int
	index []int // by slot: index in slots, -1: not kept
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

// Compile makes a Program. The errors are limits of the machine and patterns that [Pattern] does not allow: who writes
// rules gets better words for the latter from package patterns.
func Compile(pattern Pattern) (*Program, error) {
	p := &Program{pattern: pattern}
	p.pattern.Elements = slices.Clone(pattern.Elements)
	if err := p.place(); err != nil {
		return nil, fmt.Errorf("compile %s: %w", pattern.Rule, err)
	}
	p.emit()
	if p.pattern.Within > 0 {
		p.gaps = append(p.gaps, p.pattern.Within)
	}
	for i := range p.elements {
		p.measure(&p.elements[i])
	}
	for _, n := range pattern.Names {
		p.layouts = append(p.layouts, newLayout(n.Keep))
	}
	if p.pattern.UsesPrev {
		p.prevLayout = newLayout(pattern.PrevSlots)
		if p.pattern.PrevReach == 0 {
			p.pattern.PrevReach = 24 * cep.Duration(cep.Hour) // S1.5
		}
		p.memories = append(p.memories, memoryKind{reach: p.pattern.PrevReach})
	}
	for i := range p.elements {
		if e := &p.elements[i]; e.role == absentStart {
			e.memory = len(p.memories)
			p.memories = append(p.memories, memoryKind{reach: e.For, element: e})
			if e.Where != nil {
				e.seen = newLayout(e.Where.Slots)
				p.looksAhead = p.looksAhead || e.looksAhead()
			}
		}
	}
	for i, a := range pattern.Aggregates {
		if a.Step < 0 || a.Step >= len(pattern.Names) {
			return nil, fmt.Errorf("compile %s: aggregate %d of the unknown name %d", pattern.Rule, i, a.Step)
		}
		p.aggregated |= 1 << a.Step
	}
	return p, nil
}

// plain refuses what this machine cannot run.
func (p *Pattern) plain() error {
	for _, e := range p.Elements {
		if e.Kind != KindLeaf || e.Greedy || e.Edge || e.Until != nil || e.Having != nil || e.Distinct != nil || e.FirstSeen != nil {
			return errors.New("a word that this version does not run")
		}
	}
	if p.Newest || len(p.Without) > 0 || p.Limits.DropOldest {
		return errors.New("a word that this version does not run")
	}
	return nil
}

// place checks the elements and finds out the role of each absence.
func (p *Program) place() error {
	elements := p.pattern.Elements
	if err := p.pattern.plain(); err != nil {
		return err
	}
	if len(elements) > maxElements || len(p.pattern.Names) > maxElements {
		return fmt.Errorf("%d elements and %d names: at most %d", len(elements), len(p.pattern.Names), maxElements)
	}
	if p.pattern.Target < 0 || p.pattern.Target >= max(len(p.pattern.Names), 1) {
		return fmt.Errorf("unknown target %d of after_match", p.pattern.Target)
	}
	p.elements = make([]element, len(elements))
	required := 0 // steps and loops that cannot be left out
	for i, e := range elements {
		if e.Name < 0 || e.Name >= len(p.pattern.Names) {
			return fmt.Errorf("element %d has the unknown name %d", i, e.Name)
		}
		p.elements[i] = element{Element: e, index: i, bit: 1 << i, gap: -1, loopGap: -1, forGap: -1, memory: -1}
		if !e.Absent && !e.Optional {
			required++
		}
	}
	if required == 0 {
		return errors.New("the pattern can take nothing")
	}
	steps, before := 0, 0
	for i := range p.elements {
		e := &p.elements[i]
		name := p.pattern.Names[e.Name].Name
		if !e.Absent {
			if e.Min < 1 || e.Max >= 0 && e.Max < e.Min {
				return fmt.Errorf("%s takes %d to %d events", name, e.Min, e.Max)
			}
			if e.Link == NoLink && steps > 0 {
				e.Link = Relaxed
			}
			if e.Loop == NoLink {
				e.Loop = Relaxed
			}
			steps++
			if !e.Optional {
				before++
			}
			continue
		}
		if e.Link == NoLink {
			e.Link = Relaxed
		}
		switch {
		case steps == 0:
			e.role = absentStart
			p.lead |= e.bit
			if e.For <= 0 || e.For == Forever && !e.FromStart {
				return fmt.Errorf("absence %s at the start without for", name)
			}
		case before == 0:
			return fmt.Errorf("absence %s can stand at the start or between two elements", name)
		case !slices.ContainsFunc(elements[i:], func(e Element) bool { return !e.Absent }):
			e.role = absentEnd
			if e.For <= 0 && p.pattern.Within <= 0 && e.Link != Strict {
				return fmt.Errorf("absence %s at the end without for or within", name)
			}
		case before == required:
			return fmt.Errorf("everything behind the absence %s is optional", name)
		default:
			e.role = absentMiddle
		}
		if e.Link == Strict && e.role != absentStart {
			p.strict |= e.bit
		}
	}
	return nil
}

// emit writes the instructions and follows them.
func (p *Program) emit() {
	for i := range p.elements {
		e := &p.elements[i]
		switch {
		case e.Absent:
			p.code = append(p.code, instruction{op: opAbsent, element: e})
		case e.Optional:
			p.code = append(p.code, instruction{op: opOptional, element: e, x: len(p.code) + 2})
			fallthrough
		default:
			p.code = append(p.code, instruction{op: opTake, element: e})
		}
	}
	p.code = append(p.code, instruction{op: opDone})
	p.least = make([]int, len(p.code))
	for pc := len(p.code) - 2; pc >= 0; pc-- {
		p.least[pc] = p.least[pc+1]
		switch in := p.code[pc]; in.op {
		case opTake:
			p.least[pc] += in.element.Min
		case opOptional:
			p.least[pc] = p.least[in.x]
		case opAbsent, opDone:
		}
	}
	p.entries = p.follow(0, 0, nil)
	for _, x := range p.entries {
		p.entry |= p.code[x.pc].element.bit
	}
	for pc, in := range p.code {
		if in.op != opTake {
			continue
		}
		in.element.exits = p.follow(pc+1, 0, nil)
		for _, x := range in.element.exits {
			if p.code[x.pc].op == opTake {
				in.element.behind |= x.absent
			}
		}
	}
}

// missing is how many events a run must still take to complete. ok is false where it cannot: inside a loop every way out
// may lead past a broken absence. At the end of the rule absences count from the last event only.
func (p *Program) missing(t *run) (least int, ok bool) {
	e := p.code[t.pc].element
	if e == nil {
		return 0, true
	}
	var broken uint64
	if t.n > 1 {
		broken = t.absent
	}
	for _, x := range e.exits {
		if p.code[x.pc].op == opTake && x.absent&broken != 0 {
			continue
		}
		if !ok || p.least[x.pc] < least {
			least, ok = p.least[x.pc], true
		}
	}
	return least + max(e.Min-int(t.n)+1, 1), ok
}

// follow appends the places where a run at pc comes to rest.
func (p *Program) follow(pc int, absent uint64, to []exit) []exit {
	in := &p.code[pc]
	switch in.op {
	case opOptional:
		return p.follow(in.x, absent, p.follow(pc+1, absent, to))
	case opAbsent:
		return p.follow(pc+1, absent|in.element.bit, to)
	default:
		return append(to, exit{pc, absent})
	}
}

// measure gives each constant that deadlines are measured with its index in gaps, one for equal constants. The window of
// the rule is not among them: it counts from the first event and has index 0 to itself.
func (p *Program) measure(e *element) {
	add := func(d cep.Duration) int {
		if d <= 0 {
			return -1
		}
		from := 0
		if p.pattern.Within > 0 {
			from = 1
		}
		if i := slices.Index(p.gaps[from:], d); i >= 0 {
			return from + i
		}
		p.gaps = append(p.gaps, d)
		return len(p.gaps) - 1
	}
	switch e.role {
	case takes:
		e.gap = add(e.Within)
		if e.Max != 1 {
			e.loopGap = add(e.LoopWithin)
		}
	case absentEnd:
		e.forGap = add(e.For)
	case absentStart, absentMiddle:
	}
}

// Pattern returns the pattern that the program was made from. It must not be changed.
func (p *Program) Pattern() *Pattern { return &p.pattern }

// Facts are what is known of a program without running it. Faster machines, the index and the documentation choose by
// facts alone.
type Facts struct {
	// Unary: no condition reads more than the event itself.
	Unary bool
	// Single: every element takes one event, or none where it is optional.
	Single bool
	// Strict: a link or an absence is strict, so that events which no element takes matter too.
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
	f := Facts{Unary: true, Single: true, Prev: p.pattern.UsesPrev, Timed: p.pattern.Within > 0}
	for i := range p.elements {
		e := &p.elements[i]
		f.Unary = f.Unary && (e.Where == nil || e.Where.Unary)
		switch e.role {
		case absentStart:
			f.AbsentAtStart = true
		case absentMiddle:
			f.AbsentBetween = true
		case absentEnd:
			f.AbsentAtEnd = true
		case takes:
			f.Single = f.Single && e.Max == 1
			first := p.entry&e.bit != 0 && bits.TrailingZeros64(p.entry) == e.index
			f.Strict = f.Strict || e.Max != 1 && e.Loop == Strict || !first && e.Link == Strict
			f.Any = f.Any || e.Max != 1 && e.Loop == Any || !first && e.Link == Any
			for _, x := range e.exits {
				if p.code[x.pc].op == opDone && (e.Max != e.Min || len(e.exits) > 1) {
					f.OpenEnd = true
				}
			}
		}
	}
	f.Strict = f.Strict || p.strict != 0
	return f
}
