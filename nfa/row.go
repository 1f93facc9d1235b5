package nfa

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// RowKind is what a [Row] is.
type RowKind uint8

// The kinds of a row pattern.
const (
	RowStep     RowKind = iota // one event of the step Name
	RowSequence                // Parts, one behind the other
	RowChoice                  // one of Parts; the first written is preferred
	RowPermute                 // Parts in any order, the written one is preferred
	RowRepeat                  // Parts[0] from Min to Max times; Max < 0: no bound
	RowExclude                 // Parts[0], whose events alerts do not list
)

// Row is a row pattern: a regular expression over steps, with the preferences of SQL:2016 (S6).
type Row struct {
	Kind  RowKind
	Name  int // of a step: its index in [Pattern.Names]
	Parts []Row
	// Min, Max and Reluctant are those of a repetition. A greedy one prefers one more time, a reluctant one to stop.
	Min, Max  int
	Reluctant bool
}

// String prints the pattern with the names.
func (r *Row) String(names []Name) string {
	var b strings.Builder
	r.print(&b, names, 0)
	return b.String()
}

// print writes r, in brackets where a part of what is around it must be one thing: 1 inside a sequence, 2 under a
// quantifier.
func (r *Row) print(b *strings.Builder, names []Name, around int) {
	list := func(sep string, inside int) {
		for i := range r.Parts {
			if i > 0 {
				b.WriteString(sep)
			}
			r.Parts[i].print(b, names, inside)
		}
	}
	own := map[RowKind]int{RowSequence: 1, RowRepeat: 1, RowStep: 2, RowPermute: 2, RowExclude: 2}[r.Kind]
	if own < around {
		b.WriteByte('(')
		defer b.WriteByte(')')
	}
	switch r.Kind {
	case RowStep:
		b.WriteString(names[r.Name].Name)
	case RowSequence:
		list(" ", 1)
	case RowChoice:
		list(" | ", 0)
	case RowPermute:
		b.WriteString("PERMUTE(")
		list(", ", 0)
		b.WriteByte(')')
	case RowExclude:
		b.WriteString("{- ")
		list("", 0)
		b.WriteString(" -}")
	case RowRepeat:
		r.Parts[0].print(b, names, 2)
		switch {
		case r.Min == 0 && r.Max < 0:
			b.WriteByte('*')
		case r.Min == 1 && r.Max < 0:
			b.WriteByte('+')
		case r.Min == 0 && r.Max == 1:
			b.WriteByte('?')
		case r.Min == r.Max:
			b.WriteString("{" + strconv.Itoa(r.Min) + "}")
		case r.Max < 0:
			b.WriteString("{" + strconv.Itoa(r.Min) + ",}")
		default:
			b.WriteString("{" + strconv.Itoa(r.Min) + "," + strconv.Itoa(r.Max) + "}")
		}
		if r.Reluctant {
			b.WriteByte('?')
		}
	}
}

// Limits of a row pattern. Repetitions and permutations are written out, so a bound on the code bounds both; a loop needs
// two bits of a word while ways are followed that take no event.
const (
	maxRowCode  = 20_000
	maxRowLoops = 32
	// maxRowWays bounds the ways of one start that are alive at once: where conditions look back every way is one of its own,
	// and a pattern such as (a | b)* has 2^n of them. The least preferred go, counted as too long.
	maxRowWays = 10_000
)

// rowOp is what an instruction of a row program does.
type rowOp uint8

const (
	rowTake  rowOp = iota // wait for an event of the step
	rowSplit              // go on at x, and if that does not lead to a match at y
	rowJump               // go on at x
	rowFirst              // the first iteration of a loop begins
	rowAgain              // a later iteration of a loop begins
	rowCheck              // an iteration ends: go on at x for another, at y where it was the first and took no event
	rowDone               // the way is complete
)

type rowInstruction struct {
	op       rowOp
	name     int
	excluded bool
	loop     int
	x, y     int
}

// rowProgram is a row pattern as instructions, in the order of preference.
type rowProgram struct {
	code  []rowInstruction
	loops int
	where []*Pred // by name
	// merges: no condition looks at what was taken, so that of two ways at one instruction the less preferred can never win.
	merges bool
	layout layout // what is kept of each event of a key
	slots  []int
}

var (
	errRowCode  = fmt.Errorf("the pattern is too large: written out it has more than %d parts", maxRowCode)
	errRowLoops = fmt.Errorf("the pattern has more than %d loops, repetitions written out", maxRowLoops)
)

// compileRows writes the program of a row pattern.
func compileRows(p *Pattern) (*rowProgram, error) {
	c := &rowProgram{where: make([]*Pred, len(p.Names)), merges: !p.RowsLookBack}
	if len(p.Aggregates) > 0 || p.Ordered || p.Timeouts || len(p.Without) > 0 || p.After == SkipNone {
		return nil, errors.New("a row pattern has no aggregates, ordered output, timeouts, without or after_match none")
	}
	c.slots = slices.Clone(p.PrevSlots)
	for i := range p.Elements {
		e := &p.Elements[i]
		c.where[e.Name] = e.Where
		if e.Where != nil {
			c.slots = append(c.slots, e.Where.Slots...)
		}
	}
	for _, n := range p.Names {
		c.slots = append(c.slots, n.Keep...)
	}
	slices.Sort(c.slots)
	c.slots = slices.Compact(c.slots)
	c.layout = newLayout(c.slots)
	if err := c.write(p.Rows, false); err != nil {
		return nil, err
	}
	c.add(rowInstruction{op: rowDone})
	return c, nil
}

func (c *rowProgram) add(i rowInstruction) int {
	c.code = append(c.code, i)
	return len(c.code) - 1
}

// split adds a split whose ways are set later: body is what greedy prefers.
func (c *rowProgram) split() int { return c.add(rowInstruction{op: rowSplit}) }

func (c *rowProgram) set(split, body, exit int, reluctant bool) {
	c.code[split].x, c.code[split].y = body, exit
	if reluctant {
		c.code[split].x, c.code[split].y = exit, body
	}
}

func (c *rowProgram) write(r *Row, excluded bool) error {
	if len(c.code) > maxRowCode {
		return errRowCode
	}
	switch r.Kind {
	case RowStep:
		c.add(rowInstruction{op: rowTake, name: r.Name, excluded: excluded})
	case RowSequence:
		for i := range r.Parts {
			if err := c.write(&r.Parts[i], excluded); err != nil {
				return err
			}
		}
	case RowChoice:
		return c.choice(len(r.Parts), func(i int) error { return c.write(&r.Parts[i], excluded) })
	case RowPermute:
		var orders [][]int
		permutations(len(r.Parts), nil, &orders)
		if orders == nil {
			return errRowCode
		}
		return c.choice(len(orders), func(i int) error {
			for _, part := range orders[i] {
				if err := c.write(&r.Parts[part], excluded); err != nil {
					return err
				}
			}
			return nil
		})
	case RowExclude:
		return c.write(&r.Parts[0], true)
	case RowRepeat:
		return c.repeat(r, excluded)
	}
	return nil
}

// choice writes n ways, the first preferred.
func (c *rowProgram) choice(n int, write func(int) error) error {
	var ends []int
	for i := range n {
		split := -1
		if i < n-1 {
			split = c.split()
		}
		begin := len(c.code)
		if err := write(i); err != nil {
			return err
		}
		if split >= 0 {
			ends = append(ends, c.add(rowInstruction{op: rowJump}))
			c.set(split, begin, len(c.code), false)
		}
	}
	for _, e := range ends {
		c.code[e].x = len(c.code)
	}
	return nil
}

// permutations lists the orders of n things, in the order of SQL: the written one first. More than 7 things have more orders
// than a program has room for.
func permutations(n int, before []int, out *[][]int) {
	if n > 7 {
		return
	}
	if len(before) == n {
		*out = append(*out, slices.Clone(before))
		return
	}
	for i := range n {
		if !slices.Contains(before, i) {
			permutations(n, append(before, i), out)
		}
	}
}

// repeat writes a repetition out: what is required, then what may follow.
//
// Which iterations may take no event is S6.2: the required ones, all of {n,m}, and the very first of *; behind such a one
// an unbounded loop is left. Any other is not made.
func (c *rowProgram) repeat(r *Row, excluded bool) error {
	body := &r.Parts[0]
	required := r.Min
	if r.Max < 0 {
		required = max(r.Min-1, 0) // the last one is the loop's first
	}
	for range required {
		if err := c.write(body, excluded); err != nil {
			return err
		}
	}
	if r.Max >= 0 {
		var splits []int
		for range r.Max - r.Min {
			splits = append(splits, c.split())
			if err := c.write(body, excluded); err != nil {
				return err
			}
		}
		for _, s := range splits {
			c.set(s, s+1, len(c.code), r.Reluctant)
		}
		return nil
	}
	if c.loops == maxRowLoops {
		return errRowLoops
	}
	loop := c.loops
	c.loops++
	enter := -1
	if r.Min == 0 {
		enter = c.split()
	}
	first := c.add(rowInstruction{op: rowFirst, loop: loop})
	begin := len(c.code)
	if err := c.write(body, excluded); err != nil {
		return err
	}
	check := c.add(rowInstruction{op: rowCheck, loop: loop})
	again := c.split()
	c.add(rowInstruction{op: rowAgain, loop: loop})
	c.add(rowInstruction{op: rowJump, x: begin})
	exit := len(c.code)
	c.code[check].x, c.code[check].y = again, exit
	c.set(again, again+1, exit, r.Reluctant)
	if enter >= 0 {
		c.set(enter, first, exit, r.Reluctant)
	}
	return nil
}

// print writes the pattern and the instructions.
func (c *rowProgram) print(b *strings.Builder, p *Pattern) {
	fmt.Fprintf(b, "rows %s\n", p.Rows.String(p.Names))
	for pc, in := range c.code {
		fmt.Fprintf(b, "%3d  ", pc)
		switch in.op {
		case rowTake:
			fmt.Fprintf(b, "take %s", p.Names[in.name].Name)
			if in.excluded {
				b.WriteString(", not listed")
			}
		case rowSplit:
			fmt.Fprintf(b, "split %d, %d", in.x, in.y)
		case rowJump:
			fmt.Fprintf(b, "jump %d", in.x)
		case rowFirst:
			fmt.Fprintf(b, "first of loop %d", in.loop)
		case rowAgain:
			fmt.Fprintf(b, "again loop %d", in.loop)
		case rowCheck:
			fmt.Fprintf(b, "check loop %d, on at %d or out at %d", in.loop, in.x, in.y)
		case rowDone:
			b.WriteString("done")
		}
		b.WriteByte('\n')
	}
	for name, where := range c.where {
		if where != nil {
			fmt.Fprintf(b, "where %s %s\n", p.Names[name].Name, where.Text)
		}
	}
	fmt.Fprintf(b, "keep %v\n", c.slots)
	if c.merges {
		b.WriteString("facts ways merge\n")
	}
}
