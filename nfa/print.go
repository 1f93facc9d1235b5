package nfa

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/cepd/cepd/cep"
)

// String prints the program: the rule's words, an instruction a line, what is kept, the facts. Equal programs print alike.
func (p *Program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "program %s%s\n", p.source.Rule, p.source.words())
	if p.rows != nil {
		p.rows.print(&b, &p.source)
		return b.String()
	}
	for pc, in := range p.code {
		fmt.Fprintf(&b, "%3d  ", pc)
		switch e := in.element; in.op {
		case opTake:
			fmt.Fprintf(&b, "take %s%s", p.name(e), p.words(e))
			if p.flat {
				fmt.Fprintf(&b, " -> %s", p.exits(e.exits))
			}
		case opOptional:
			fmt.Fprintf(&b, "optional %d", in.x)
		case opAbsent:
			fmt.Fprintf(&b, "absent %s%s", p.name(e), p.words(e))
		case opEnter:
			fmt.Fprintf(&b, "enter %d %s%s", e.index, e.Kind, p.words(e))
		case opRepeat:
			fmt.Fprintf(&b, "repeat %d at %d", e.index, in.x)
		case opChoice, opOrder:
			fmt.Fprintf(&b, "%s %v", opNames[in.op], in.xs)
		case opJump:
			fmt.Fprintf(&b, "jump %d", in.x)
		case opMember:
			fmt.Fprintf(&b, "member %d of %d, back to %d or on at %d", bits.TrailingZeros16(in.bit), e.index, in.x, in.xs[0])
		case opDone:
			b.WriteString("done")
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "entry %s\n", p.exits(p.entries))
	for _, w := range p.source.Without {
		fmt.Fprintf(&b, "without %s%s\n", p.source.Names[w.Name].Name, w.Where.words())
	}
	for i, n := range p.source.Names {
		if len(n.Keep) > 0 {
			fmt.Fprintf(&b, "keep %s %v\n", n.Name, p.layouts[i].slots)
		}
	}
	if p.source.UsesPrev {
		fmt.Fprintf(&b, "prev %v reach %s\n", p.source.PrevSlots, cep.FormatDuration(p.source.PrevReach))
	}
	for i, a := range p.source.Aggregates {
		fmt.Fprintf(&b, "aggregate %d %s %s", i, aggregateNames[a.Kind], p.source.Names[a.Step].Name)
		if a.Slot >= 0 {
			fmt.Fprintf(&b, " slot %d", a.Slot)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "facts %s\n", p.Facts().words())
	return b.String()
}

var (
	linkNames      = [...]string{"none", "strict", "relaxed", "any"}
	afterNames     = [...]string{"none", "past_last", "to_next", "to_first", "to_last"}
	opNames        = map[opcode]string{opChoice: "choice", opOrder: "order"}
	aggregateNames = [...]string{"count", "sum", "min", "max", "distinct", "first", "last"}
)

// String returns the word that rules use.
func (l Link) String() string { return linkNames[l] }

// String returns the word that rules use.
func (a AfterMatch) String() string { return afterNames[a] }

func (p *Pattern) words() string {
	s := ", after_match " + p.After.String()
	if p.After == SkipToFirst || p.After == SkipToLast {
		s += " " + p.Names[p.Target].Name
	}
	if p.Within > 0 {
		s += ", within " + cep.FormatDuration(p.Within)
	}
	if p.Newest {
		s += ", newest"
	}
	if p.Ordered {
		s += ", ordered"
	}
	if p.Timeouts {
		s += ", timeouts"
	}
	if p.KeepRaw {
		s += ", raw"
	}
	if p.Limits.StartsPerKey > 0 {
		s += fmt.Sprintf(", at most %d starts", p.Limits.StartsPerKey)
		if p.Limits.DropOldest {
			s += ", the oldest goes"
		}
	}
	if p.Limits.EventsPerMatch > 0 {
		s += fmt.Sprintf(", at most %d events", p.Limits.EventsPerMatch)
	}
	return s
}

func (p *Program) name(e *element) string { return p.source.Names[e.Name].Name }

func (p *Program) words(e *element) string {
	s := ""
	if e.Link != NoLink {
		s += " " + e.Link.String()
	}
	if !e.Absent && e.Kind != KindAllOf && (e.Min != 1 || e.Max != 1) {
		s += fmt.Sprintf(" %d..", e.Min)
		if e.Max >= 0 {
			s += fmt.Sprint(e.Max)
		}
		s += " loop " + e.Loop.String()
	}
	if e.Kind == KindAllOf && e.Need < len(e.Elements) {
		s += fmt.Sprintf(" at_least %d", e.Need)
	}
	if e.Times {
		s += " times"
	}
	if e.Greedy {
		s += " greedy"
	}
	if e.Edge {
		s += " edge"
	}
	if e.Within > 0 {
		s += " within " + cep.FormatDuration(e.Within)
	}
	if e.LoopWithin > 0 && e.Max != 1 {
		s += " loop_within " + cep.FormatDuration(e.LoopWithin)
	}
	switch {
	case e.For == Forever:
		s += " forever"
	case e.For > 0:
		s += " for " + cep.FormatDuration(e.For)
	}
	if e.FromStart {
		s += " from_start"
	}
	s += p.condition(e).words()
	if e.Distinct != nil {
		s += " distinct " + e.Distinct.Text
	}
	if e.Having != nil {
		s += " having " + e.Having.Text
	}
	if e.Until != nil {
		s += " until " + e.Until.Text
	}
	if f := e.FirstSeen; f != nil {
		var by []string
		for _, x := range f.By {
			by = append(by, x.Text)
		}
		s += " first_seen " + strings.Join(by, ", ")
		if f.For == Forever {
			s += " forever"
		} else {
			s += " for " + cep.FormatDuration(f.For)
		}
		if f.FromStart {
			s += " from_start"
		}
	}
	return s
}

func (p *Pred) words() string {
	if p == nil {
		return ""
	}
	return " where " + p.Text
}

// exits prints where runs rest: the number of the instruction, and the absences that are pending there.
func (p *Program) exits(exits []exit) string {
	var words []string
	for _, x := range exits {
		way := []string{fmt.Sprint(x.pc)}
		for a := x.absent; a != 0; a &= a - 1 {
			way = append(way, p.name(&p.elements[bits.TrailingZeros64(a)]))
		}
		words = append(words, strings.Join(way, " without "))
	}
	return strings.Join(words, ", ")
}

func (f Facts) words() string {
	var words []string
	for _, x := range []struct {
		holds bool
		word  string
	}{
		{f.Flat, "flat"},
		{f.Unary, "unary"},
		{f.Single, "single"},
		{f.Strict, "strict"},
		{f.Any, "any"},
		{f.Prev, "prev"},
		{f.AbsentAtStart, "absent_at_start"},
		{f.AbsentBetween, "absent_between"},
		{f.AbsentAtEnd, "absent_at_end"},
		{f.OpenEnd, "open_end"},
		{f.Timed, "timed"},
	} {
		if x.holds {
			words = append(words, x.word)
		}
	}
	return strings.Join(words, " ")
}
