package nfa

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/cepd/cepd/cep"
)

// Compile makes a Program. The errors are limits of the machine and patterns that [Pattern] does not allow: who writes
// rules gets better words for the latter from package patterns.
func Compile(pattern Pattern) (*Program, error) {
	c := &compiler{Program: &Program{form: &form{pattern: pattern, flat: true}}, watch: map[*Pred]uint64{}}
	if err := c.compile(); err != nil {
		return nil, fmt.Errorf("compile %s: %w", pattern.Rule, err)
	}
	c.split()
	return c.Program, nil
}

// compiler writes a program.
type compiler struct {
	*Program
	watch map[*Pred]uint64 // the bits of conditions that are watched
	// lastMember makes reach take every member of an all_of for the last one.
	lastMember bool
}

func (c *compiler) compile() error {
	p := &c.pattern
	if len(p.Names) > maxElements {
		return fmt.Errorf("%d names: at most %d", len(p.Names), maxElements)
	}
	if p.Target < 0 || p.Target >= max(len(p.Names), 1) {
		return fmt.Errorf("unknown target %d of after_match", p.Target)
	}
	for _, n := range p.Names {
		c.layouts = append(c.layouts, newLayout(n.Keep))
	}
	if p.Rows != nil {
		if p.PrevReach == 0 {
			p.PrevReach = 24 * cep.Duration(cep.Hour)
		}
		c.flat = false
		rows, err := compileRows(p)
		c.rows = rows
		return err
	}
	// Instructions point into the elements, so these must not move; and an element is large, so there is no room to spare.
	c.elements = make([]element, 0, min(room(p.Elements)+len(p.Without), maxElements))
	if err := c.sequence(p.Elements, nil); err != nil {
		return err
	}
	c.code = append(c.code, instruction{op: opDone})
	for _, w := range p.Without {
		if w.Name < 0 || w.Name >= len(p.Names) {
			return fmt.Errorf("without has the unknown name %d", w.Name)
		}
		bit, err := c.watchFor(w.Where, w.Name)
		if err != nil {
			return err
		}
		c.without |= bit
	}
	if len(c.bars) > 64 {
		return errors.New("too many greedy loops")
	}
	c.count()
	if c.least[0] == 0 {
		return errors.New("the pattern can take nothing")
	}
	c.follow()
	if err := c.places(); err != nil {
		return err
	}
	c.measure()
	if err := c.remember(); err != nil {
		return err
	}
	for i := range c.elements {
		e := &c.elements[i]
		if e.role != takes {
			continue
		}
		c.taking |= e.bit
	}
	c.logging = c.taking | c.end
	c.led = c.leads()
	c.prunes = make([]bool, len(c.code))
	for pc, in := range c.code {
		c.prunes[pc] = in.op == opTake && c.prunable(pc)
		c.pruning = c.pruning || c.prunes[pc]
	}
	return nil
}

// room is how many elements a list needs at most: its leaves, and the untils that are watched.
func room(list []Element) (n int) {
	for i := range list {
		e := &list[i]
		if e.Kind == KindLeaf {
			n++
		}
		if e.Until != nil {
			n++
		}
		n += room(e.Elements)
		for _, a := range e.Alternatives {
			n += room(a)
		}
	}
	return n
}

// sequence writes elements, one after the other.
func (c *compiler) sequence(list []Element, inside []*element) error {
	for i := range list {
		e := list[i]
		e.leadsLink(inside, i == 0)
		if err := c.check(&e); err != nil {
			return err
		}
		if e.Optional && !e.Absent {
			c.code = append(c.code, instruction{op: opOptional})
		}
		optional := len(c.code) - 1
		x, err := c.element(e, inside, i == 0 && len(inside) > 0)
		if err != nil {
			return err
		}
		if e.Optional && !e.Absent {
			c.code[optional].element, c.code[optional].x = x, len(c.code)
		}
	}
	return nil
}

// leadsLink gives an element that has no link the default one.
func (e *Element) leadsLink(inside []*element, first bool) {
	if e.Link == NoLink && (e.Absent || !first) {
		e.Link = Relaxed
	}
	if e.Loop == NoLink {
		e.Loop = Relaxed
	}
	if e.Kind == KindAllOf {
		if e.Need == 0 {
			e.Need = len(e.Elements)
		}
		e.Min, e.Max = 1, 1
	}
}

func (c *compiler) check(e *Element) error {
	name := e.Kind.String()
	if e.Kind == KindLeaf {
		if e.Name < 0 || e.Name >= len(c.pattern.Names) {
			return fmt.Errorf("an element has the unknown name %d", e.Name)
		}
		name = c.pattern.Names[e.Name].Name
	}
	switch {
	case e.Absent:
	case e.Min < 1 || e.Max >= 0 && e.Max < e.Min:
		return fmt.Errorf("%s takes %d to %d events", name, e.Min, e.Max)
	case e.Min > 1<<15 || e.Kind != KindLeaf && e.Max > 1<<15:
		return fmt.Errorf("%s is repeated more than %d times", name, 1<<15)
	case e.Until != nil && e.Max >= 0:
		return fmt.Errorf("%s has an until and an upper bound", name)
	case e.Kind == KindAllOf && (len(e.Elements) > 16 || e.Need < 1 || e.Need > len(e.Elements)):
		return fmt.Errorf("all_of takes %d of %d", e.Need, len(e.Elements))
	case e.Kind == KindAnyOf && len(e.Alternatives) == 0:
		return errors.New("any_of of nothing")
	}
	return nil
}

// element writes one element without its optional.
func (c *compiler) element(e Element, inside []*element, leads bool) (*element, error) {
	x := &element{Element: e, inside: inside, leads: leads, gap: -1, loopGap: -1, forGap: -1, memory: -1}
	if e.Until != nil {
		bit, err := c.watchFor(e.Until, -1)
		if err != nil {
			return nil, err
		}
		x.until = bit
	}
	x.untils = x.until
	for _, w := range inside {
		x.untils |= w.until
	}
	if e.Kind != KindLeaf {
		return x, c.whole(x)
	}
	if err := c.addElement(x); err != nil {
		return nil, err
	}
	x = &c.elements[len(c.elements)-1]
	if e.Absent {
		c.code = append(c.code, instruction{op: opAbsent, element: x})
		return x, nil
	}
	if e.Greedy {
		c.flat = false
		if e.Min != e.Max {
			x.barLeft = c.bar(bar{x, e.Loop, false})
		}
		if e.Optional {
			for l := Strict; l <= Any; l++ {
				x.barOut[l] = c.bar(bar{x, l, true})
			}
			x.barOut[NoLink] = x.barOut[Relaxed]
		}
	}
	if e.Distinct != nil {
		c.layouts[e.Name].value = e.Distinct
	}
	c.flat = c.flat && e.Until == nil && e.Having == nil && e.Distinct == nil
	c.code = append(c.code, instruction{op: opTake, element: x})
	return x, nil
}

// whole writes a composite.
func (c *compiler) whole(x *element) error {
	if len(c.wholes) == maxWholes {
		return fmt.Errorf("more than %d composites", maxWholes)
	}
	c.flat = false
	x.index = len(c.wholes)
	c.wholes = append(c.wholes, x)
	inside := append(slices.Clip(x.inside), x)
	// The same events can be taken in two ways where a repetition, an alternative or leaving out can stand for another.
	if x.Kind != KindAllOf && (x.Max != 1 || x.Kind == KindAnyOf || x.Optional) {
		c.repeats = true
	}
	enter, body := len(c.code), len(c.code)+1
	c.code = append(c.code, instruction{op: opEnter, element: x})
	defer func() { c.code[enter].x = len(c.code) }()
	switch x.Kind {
	case KindGroup:
		if err := c.sequence(x.Elements, inside); err != nil {
			return err
		}
	case KindAnyOf:
		c.code = append(c.code, instruction{op: opChoice, element: x})
		var jumps []int
		for _, a := range x.Alternatives {
			c.code[body].xs = append(c.code[body].xs, len(c.code))
			if err := c.sequence(a, inside); err != nil {
				return err
			}
			jumps = append(jumps, len(c.code))
			c.code = append(c.code, instruction{op: opJump, element: x})
		}
		for _, j := range jumps {
			c.code[j].x = len(c.code)
		}
	case KindAllOf:
		c.code = append(c.code, instruction{op: opOrder, element: x})
		var members []int
		for i, e := range x.Elements {
			c.code[body].xs = append(c.code[body].xs, len(c.code))
			if err := c.sequence([]Element{e}, inside); err != nil {
				return err
			}
			members = append(members, len(c.code))
			c.code = append(c.code, instruction{op: opMember, element: x, x: body, bit: 1 << i})
		}
		for _, j := range members {
			c.code[j].xs = []int{len(c.code)}
		}
		return nil
	case KindLeaf:
	}
	c.code = append(c.code, instruction{op: opRepeat, element: x, x: body})
	return nil
}

func (c *compiler) addElement(x *element) error {
	if len(c.elements) == maxElements {
		return fmt.Errorf("more than %d elements, at most that many", maxElements)
	}
	x.judged()
	x.index = len(c.elements)
	x.bit = 1 << x.index
	c.elements = append(c.elements, *x)
	return nil
}

// watchFor gives a condition that is asked about every event a bit; name -1: no mask hides an event from it.
func (c *compiler) watchFor(where *Pred, name int) (uint64, error) {
	if name < 0 && c.watch[where] != 0 {
		return c.watch[where], nil
	}
	x := &element{Element: Element{Name: name, Where: where}, role: watched, gap: -1, loopGap: -1, forGap: -1, memory: -1}
	if err := c.addElement(x); err != nil {
		return 0, err
	}
	if name < 0 {
		c.watch[where] = x.bit
	}
	return x.bit, nil
}

func (c *compiler) bar(b bar) uint64 {
	c.bars = append(c.bars, b)
	return 1 << (len(c.bars) - 1)
}

// count finds the least number of events that lie before a run, judged without the repetitions that it has made.
func (c *compiler) count() {
	c.least = make([]int, len(c.code))
	for pc := len(c.code) - 2; pc >= 0; pc-- {
		in := &c.code[pc]
		c.least[pc] = c.least[pc+1]
		switch in.op {
		case opTake:
			c.least[pc] += in.element.Min
			c.most += in.element.weight()
		case opOptional:
			c.least[pc] = c.least[in.x]
		case opEnter:
			c.least[pc] = c.least[in.x] + in.element.Min*in.element.repetition()
		case opChoice, opOrder:
			c.least[pc] = c.least[in.xs[0]]
			for _, x := range in.xs {
				c.least[pc] = min(c.least[pc], c.least[x])
			}
		case opJump:
			c.least[pc] = c.least[in.x]
		case opMember:
			c.least[pc] = c.least[in.xs[0]]
		case opAbsent, opRepeat, opDone:
		}
	}
}

// weight is how many events a leaf takes at least when nothing is left out.
func (e *element) weight() int {
	n := e.Min
	for _, w := range e.inside {
		n *= w.Min
	}
	return n
}

// repetition is the least number of events of one repetition of a composite.
func (e *Element) repetition() int {
	switch e.Kind {
	case KindGroup:
		return e.least(e.Elements)
	case KindAnyOf:
		n := e.least(e.Alternatives[0])
		for _, a := range e.Alternatives {
			n = min(n, e.least(a))
		}
		return n
	case KindAllOf:
		if e.Need == 0 {
			return len(e.Elements)
		}
		return e.Need
	default:
		return 1
	}
}

// least is the least number of events of a sequence that is a repetition of e.
func (e *Element) least(list []Element) int {
	if e.Times {
		return someOf(list)
	}
	return leastOf(list)
}

func leastOf(list []Element) int {
	n := 0
	for i := range list {
		if e := &list[i]; !e.Absent && !e.Optional {
			n += max(e.Min, 1) * e.repetition()
		}
	}
	return n
}

// someOf is the least number of events of a sequence that takes any.
func someOf(list []Element) int {
	n := leastOf(list)
	if n > 0 {
		return n
	}
	for i := range list {
		if e := &list[i]; !e.Absent && (n == 0 || e.some() < n) {
			n = e.some()
		}
	}
	return n
}

// some is the least number of events of an element that takes any.
func (e *Element) some() int {
	if n := e.repetition(); n > 0 {
		return max(e.Min, 1) * n
	}
	lists := e.Alternatives
	if e.Kind == KindGroup {
		lists = [][]Element{e.Elements}
	}
	n := 0
	for _, list := range lists {
		if m := someOf(list); n == 0 || m < n {
			n = m
		}
	}
	return n
}

// follow finds the ways that do not depend on a run.
func (c *compiler) follow() {
	c.walk(0, registers{}, func(pc int, r *registers) {
		if c.code[pc].op == opDone {
			return
		}
		x := exit{pc: pc, link: r.linkOf(c.code[pc].element), absent: r.absent}
		if !c.flat {
			x.frame = newFrame(c.form, r)
		}
		c.entries = append(c.entries, x)
		c.entry |= c.code[pc].element.bit
		c.around |= c.code[pc].element.untils | c.barsHear(r.bars)&^alwaysHeard
		c.lead |= r.absent
	})
	for pc := range c.code {
		in := &c.code[pc]
		if in.op != opTake {
			continue
		}
		in.element.behind, _ = c.reach(place{pc: pc + 1}, 0, opTake, map[place]uint64{})
		c.between |= in.element.behind
		end, ends := c.reach(place{pc: pc + 1}, 0, opDone, map[place]uint64{})
		c.end |= end
		c.lastMember = true
		_, goesOn := c.reach(place{pc: pc + 1}, 0, opTake, map[place]uint64{})
		c.lastMember = false
		if ends {
			c.final |= in.element.bit
		}
		c.openEnd = c.openEnd || ends && (goesOn || in.element.Max != in.element.Min)
		if c.flat {
			c.walk(pc+1, registers{}, func(pc int, r *registers) {
				x := exit{pc: pc, absent: r.absent}
				if c.code[pc].op == opTake {
					x.link = r.linkOf(c.code[pc].element)
				}
				in.element.exits = append(in.element.exits, x)
			})
		}
	}
}

// place is where reach is: at an instruction, in repetitions of composites that it has entered and that took nothing.
type place struct {
	pc    int
	empty uint16
}

// reach returns the absences that some way from a place passes before it comes to a take, or else to the end, whatever the
// counts of repetitions, and whether there is such a way.
func (c *compiler) reach(at place, absent uint64, to opcode, been map[place]uint64) (_ uint64, found bool) {
	if old, ok := been[at]; ok && old&absent == absent {
		return 0, false
	}
	been[at] |= absent
	in := &c.code[at.pc]
	var next []place
	on := func(pc int) { next = append(next, place{pc, at.empty}) }
	switch in.op {
	case opTake, opDone:
		return absent, in.op == to
	case opAbsent:
		absent |= in.element.bit
		on(at.pc + 1)
	case opEnter:
		at.empty |= 1 << in.element.index
		on(at.pc + 1)
	case opOptional:
		on(at.pc + 1)
		on(in.x)
	case opRepeat:
		bit := uint16(1) << in.element.index
		if in.element.Times && at.empty&bit != 0 {
			return 0, false // S2.4: a repetition takes something
		}
		if in.element.Max != 1 {
			next = append(next, place{in.x, at.empty | bit})
		}
		at.empty &^= bit
		on(at.pc + 1)
	case opJump:
		on(in.x)
	case opMember:
		if !c.lastMember {
			on(in.x)
		}
		on(in.xs[0])
	case opChoice, opOrder:
		for _, x := range in.xs {
			on(x)
		}
	}
	var all uint64
	for _, x := range next {
		if passed, ok := c.reach(x, absent, to, been); ok {
			all |= passed
			found = true
		}
	}
	return all, found
}

// places checks where absences stand.
func (c *compiler) places() error {
	for i := range c.elements {
		e := &c.elements[i]
		if !e.Absent {
			continue
		}
		name := c.pattern.Names[e.Name].Name
		e.role = absentLater
		if c.lead&e.bit != 0 {
			e.role = absentStart
			if c.between&e.bit != 0 {
				return fmt.Errorf("absence %s can stand at the start or between two elements", name)
			}
			if e.For <= 0 || e.For == Forever && !e.FromStart {
				return fmt.Errorf("absence %s at the start without for", name)
			}
			continue
		}
		if e.Link == Strict {
			c.strict |= e.bit
		}
		if c.end&e.bit == 0 {
			continue
		}
		if e.For <= 0 && c.pattern.Within <= 0 && e.Link != Strict {
			return fmt.Errorf("absence %s at the end without for or within", name)
		}
	}
	return nil
}

// measure gives each constant that deadlines are measured with its index in gaps, one for equal constants. The window of
// the rule is not among them: it counts from the first event and has index 0 to itself.
func (c *compiler) measure() {
	from := 0
	if c.pattern.Within > 0 {
		c.gaps = append(c.gaps, c.pattern.Within)
		from = 1
	}
	add := func(d cep.Duration) int {
		if d <= 0 {
			return -1
		}
		if i := slices.Index(c.gaps[from:], d); i >= 0 {
			return from + i
		}
		c.gaps = append(c.gaps, d)
		return len(c.gaps) - 1
	}
	for i := range c.elements {
		switch e := &c.elements[i]; e.role {
		case takes:
			e.gap = add(e.Within)
			if e.Max != 1 {
				e.loopGap = add(e.LoopWithin)
			}
		case absentLater:
			e.forGap = add(e.For)
		case absentStart, watched:
		}
	}
	for _, e := range c.wholes {
		e.gap = add(e.Within)
	}
}

// remember finds out what a key must remember of its stream.
func (c *compiler) remember() error {
	p := &c.pattern
	edges := slices.ContainsFunc(c.elements, func(e element) bool { return e.Edge })
	if p.PrevReach == 0 && (p.UsesPrev || edges) {
		p.PrevReach = 24 * cep.Duration(cep.Hour) // S1.5
	}
	if p.UsesPrev {
		c.prevLayout = newLayout(p.PrevSlots)
		c.memories = append(c.memories, memoryKind{reach: p.PrevReach})
	}
	kinds := []struct {
		of    func(*element) bool
		reach func(*element) cep.Duration
	}{
		{func(e *element) bool { return e.role == absentStart }, func(e *element) cep.Duration { return e.For }},
		{func(e *element) bool { return e.FirstSeen != nil }, func(e *element) cep.Duration { return e.FirstSeen.For }},
		{func(e *element) bool { return e.Edge }, func(*element) cep.Duration { return p.PrevReach }},
	}
	for _, k := range kinds {
		for i := range c.elements {
			e := &c.elements[i]
			if !k.of(e) {
				continue
			}
			if e.memory >= 0 {
				return errors.New("first_seen and hold on one step")
			}
			e.memory = len(c.memories)
			c.memories = append(c.memories, memoryKind{reach: k.reach(e), element: e})
			if e.FirstSeen != nil || e.Edge {
				c.constant |= e.bit
			}
			if e.FirstSeen == nil && e.looksAround {
				e.seen = newLayout(e.Where.Slots)
				c.looksBack = true
			}
		}
	}
	for i, a := range p.Aggregates {
		if a.Step < 0 || a.Step >= len(p.Names) {
			return fmt.Errorf("aggregate %d of the unknown name %d", i, a.Step)
		}
		c.aggregated |= 1 << a.Step
	}
	if p.Newest && !c.oneByOne() {
		return errors.New("keep: newest needs single relaxed steps")
	}
	return nil
}

// oneByOne says that the pattern is a chain of single relaxed steps.
func (c *compiler) oneByOne() bool {
	for pc := range c.code {
		in := &c.code[pc]
		if in.op != opDone && (in.op != opTake || in.element.Max != 1 || pc > 0 && in.element.Link != Relaxed) {
			return false
		}
	}
	return true
}

// missing is how many events a run must still take to complete; ok is false where it cannot: inside a loop every way out
// may lead past a broken absence. At the end of the rule absences count from the last event only.
func (p *form) missing(t *run) (least int, ok bool) {
	e := p.code[t.pc].element
	if e == nil {
		return 0, true
	}
	var broken uint64
	if t.n > 1 {
		broken = t.absent
	}
	consider := func(pc int, absent uint64, groups *[maxWholes]groupState) {
		if p.code[pc].op == opTake && absent&broken != 0 {
			return
		}
		n := p.least[pc]
		if x := p.code[pc].element; x != nil {
			for _, w := range x.inside {
				n += w.lacks(groups[w.index].n)
			}
		}
		if !ok || n < least {
			least, ok = n, true
		}
	}
	if p.flat {
		for _, x := range e.exits {
			consider(x.pc, x.absent, nil)
		}
	} else {
		r := t.frame.registers(e)
		p.walk(int(t.pc)+1, r, func(pc int, r *registers) { consider(pc, r.absent, &r.groups) })
	}
	return least + max(e.Min-int(t.n)+1, 1), ok
}

// lacks is how many events are missing behind the present repetition of a composite, but for what follows it.
func (e *element) lacks(n uint16) int {
	if e.Kind == KindAllOf {
		return max(e.Need-bits.OnesCount16(n)-1, 0)
	}
	return max(e.Min-int(n), 0) * e.repetition()
}
