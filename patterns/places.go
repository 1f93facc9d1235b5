package patterns

import (
	"slices"

	"github.com/cepd/cepd/nfa"
)

// places checks what depends on where an element stands: S2.6 and S4.
func (c *ruleChecker) places() {
	r := c.rule
	if c.failed && len(r.Elements) == 0 {
		return // none could be read
	}
	if len(r.Elements) == 1 && r.Elements[0].Absent {
		c.alone()
		return
	}
	if !slices.ContainsFunc(r.Elements, func(e Element) bool { return takes(&e) }) {
		c.fail(c.parts[0].syntax.name, codeNothing, "a sequence of one absence is a rule about silence", "the rule has absences only: there is no event that it could begin with")
		return
	}
	if !slices.ContainsFunc(r.Elements, func(e Element) bool { return !nullable(&e) }) {
		c.fail(c.parts[0].syntax.name, codeNothing, "", "everything in the rule may be left out, so it could match no event at all")
		return
	}
	c.placesOf(c.parts)
}

func (c *ruleChecker) placesOf(parts []*part) {
	for i, p := range parts {
		switch {
		case p.syntax.kind == kindHold && i > 0 && parts[i-1].syntax == p.syntax:
			// the absence of a hold: it stands at the end, and all is said about it
		case p.el.Absent:
			c.absencePlace(p)
		default:
			c.linkPlace(p)
		}
		for _, inner := range p.inner {
			c.placesOf(inner)
		}
	}
}

// contiguity is the word that ties a part to what was taken before, its own or a default.
func (c *ruleChecker) contiguity(p *part) *text {
	if p.syntax.contiguity != nil {
		return p.syntax.contiguity
	}
	return c.all.contiguity
}

// linkPlace ties a step or composite to what stands before it.
func (c *ruleChecker) linkPlace(p *part) {
	e, el := p.syntax, p.el
	may, _ := p.before()
	isMember := p.parent != nil && p.parent.el.Kind == nfa.KindAllOf
	switch {
	case isMember: // checked with the all_of
	case p.parent != nil && p.index == 0:
		if e.contiguity != nil {
			c.fail(e.contiguity, codeContiguity, "", "%q is the first in its %s, whose own contiguity counts", e.name.value, p.parent.syntax.kind)
		}
	case !may:
		if e.contiguity != nil {
			c.fail(e.contiguity, codeContiguity, "", "%q is the first step: there is nothing before it to be tied to", e.name.value)
		}
	default:
		el.Link = c.link(c.contiguity(p), "contiguity")
	}
	if p.leaf() && !may && e.within != nil && !isMember {
		if el.Max == 1 {
			c.fail(e.within, codeFirstWithin, `the window of the whole rule is "within" beside "sequence"`, "%q is the first step: no event is taken before it", e.name.value)
		}
		el.Within = 0 // it bounds the loop's own gaps, and LoopWithin has it
	}
}

// absencePlace finds out whether an absence stands at the start, at the end or between steps, and checks what it says
// (S4.1 to S4.3).
func (c *ruleChecker) absencePlace(p *part) {
	e := p.syntax
	mayBefore, mustBefore := p.before()
	mayAfter, mustAfter := p.after()
	switch {
	case !mayBefore:
		if e.contiguity != nil {
			c.fail(e.contiguity, codeContiguity, "", "%q stands at the start: there is nothing before it to be tied to", e.name.value)
		}
		if e.hold == nil {
			c.fail(e.name, codeHoldMissing, `add "for: 10m", the time before the next step that must be empty`, "the absence %q at the start does not say how long", e.name.value)
		}
		return
	case !mustBefore:
		c.fail(e.name, codeAbsencePlace, "", "everything before the absence %q may be left out: without it the absence would stand at the start", e.name.value)
	}
	if e.fromStart != nil {
		c.fail(e.fromStart, codeHold, "", `"from_start" belongs to an absence at the start of the rule, and something stands before %q`, e.name.value)
	}
	c.absentLink(p)
	switch {
	case !mayAfter && p.repeats():
		if e.hold != nil {
			c.fail(e.hold, codeHold, "", "the absence %q stands in something that may be repeated, and cannot have a \"for\"", e.name.value)
		}
	case !mayAfter:
		if p.el.For == nfa.Forever && e.fromStart == nil {
			c.fail(e.hold, codeHold, "", `"for: forever" belongs to an absence at the start: at the end the rule would never fire`)
		}
	case !mustAfter && p.closed():
		// An absence at the end behind the optional part keeps the match from being complete before this one is judged.
		if e.hold != nil {
			c.fail(e.hold, codeHold, "", "the absence %q stands between two steps in some matches, and cannot have a \"for\"", e.name.value)
		}
	case !mustAfter:
		c.fail(e.name, codeAbsenceTail, "", "everything behind the absence %q may be left out: the match would be complete before the absence is judged", e.name.value)
	case e.hold != nil:
		c.fail(e.hold, codeHold, `leave "for" out: it holds until the next step is taken; to bound that time give the next step a "within"`, "the absence %q stands between two steps", e.name.value)
	}
}

// absentLink is the contiguity of an absence behind a step: relaxed or strict.
func (c *ruleChecker) absentLink(p *part) {
	own := p.syntax.contiguity
	switch word := c.contiguity(p); {
	case p.parent != nil && p.index == 0:
		if own != nil {
			c.fail(own, codeContiguity, "", "%q is the first in its %s, whose own contiguity counts", p.syntax.name.value, p.parent.syntax.kind)
		}
	case word != nil && word.value == "any":
		p.el.Link = nfa.Relaxed
		if own != nil {
			c.fail(own, codeContiguity, "", `an absence is relaxed or strict: it takes no event to go on from`)
		}
	default:
		p.el.Link = c.link(word, "contiguity")
	}
}

// noBeat is the name of the absence that a rule about silence is rewritten to. It cannot clash: names have no spaces.
func noBeat(name string) string { return "no " + name }

// alone is S4.4: an absence alone is a step of that name, then an absence of the same.
func (c *ruleChecker) alone() {
	e, el := c.parts[0].syntax, c.rule.Elements[0]
	if e.contiguity != nil {
		c.fail(e.contiguity, codeContiguity, "", "%q stands alone: there is nothing before it to be tied to", e.name.value)
	}
	if e.fromStart != nil {
		c.fail(e.fromStart, codeHold, "", `"from_start" belongs to an absence in front of a step; %q stands alone and begins with an event`, e.name.value)
	} else if el.For == nfa.Forever {
		c.fail(e.hold, codeHold, "", `"for: forever" belongs to an absence at the start: here the rule would never fire`)
	}
	step := el
	step.Absent, step.For, step.FromStart, step.Min, step.Max, step.Link = false, 0, false, 1, 1, nfa.NoLink
	el.Name, el.Link, el.FromStart = len(c.rule.Names), nfa.Relaxed, false
	c.rule.Names = append(c.rule.Names, noBeat(e.name.value))
	c.rule.Elements = []Element{step, el}
	c.parts = make([]*part, 2)
	for i := range c.parts {
		c.parts[i] = &part{syntax: e, el: &c.rule.Elements[i], sequence: c.parts, index: i}
	}
	c.leaves = c.parts
	c.isAlone = true
}
