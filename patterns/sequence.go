package patterns

import (
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
)

// maxElements is the number of names a rule can have: each is a bit of a word, and the machine keeps one.
const maxElements = 63

// streams checks which streams the rule and its elements read (S1.2).
func (c *ruleChecker) streams() {
	read := map[string]bool{}
	check := func(list []*text) []string {
		if list != nil && len(list) == 0 {
			c.fail(c.own.id, codeFrom, "", `"from" of rule %q is empty`, c.rule.ID)
		}
		for _, t := range list {
			switch {
			case t.value == "alerts":
				c.fail(t, codeLater, "", "not supported by this version yet: rules over alerts")
			case !streamShape.MatchString(t.value):
				c.fail(t, codeFrom, "letters, digits, _, - and ., at most 249", "%q cannot be the name of a stream", t.value)
			}
			read[t.value] = true
		}
		return values(list)
	}
	common := check(c.all.from)
	if len(common) == 0 && c.own.given["from"] {
		c.failed = true // it was written, and what is wrong with it has been said
		return
	}
	elements := c.sequence()
	if len(common) == 0 && c.all.sequence == nil {
		c.fail(c.own.id, codeFrom, `add "from: NAME" with the name of a stream`, `rule %q does not say which stream it reads`, c.rule.ID)
	}
	for _, e := range elements {
		if e.from != nil {
			check(e.from)
		} else if len(common) == 0 {
			c.fail(e.name, codeFrom, `add "from: NAME" to the rule`, "%q has no stream to read: neither it nor the rule has \"from\"", e.name.value)
		}
	}
	for name := range read {
		c.rule.Streams = append(c.rule.Streams, name)
	}
	slices.Sort(c.rule.Streams)
}

// sequence returns the elements that could be read.
func (c *ruleChecker) sequence() []*elementSyntax {
	if c.all.sequence == nil {
		c.failed = c.failed || c.own.given["sequence"]
		return nil
	}
	c.failed = c.failed || len(c.all.sequence.elements) == 0
	return slices.DeleteFunc(slices.Clone(c.all.sequence.elements), func(e *elementSyntax) bool {
		if e == nil {
			c.failed = true // reported when it was read
		}
		return e == nil
	})
}

// shape checks the elements of the sequence, each alone and where it stands among the others. Conditions and keys come
// later.
func (c *ruleChecker) shape() {
	r := c.rule
	c.elements = c.sequence()
	if c.all.sequence == nil {
		r.Names = []string{"event"}
		c.names["event"] = 0
		r.Elements = []Element{{From: values(c.all.from), Link: nfa.NoLink, Loop: nfa.NoLink, Min: 1, Max: 1}}
		return
	}
	if len(c.elements) > maxElements {
		c.fail(c.elements[maxElements].name, codeTooMany, "", "a rule has at most %d steps and absences", maxElements)
		return
	}
	for i, e := range c.elements {
		c.name(e.name)
		r.Names = append(r.Names, e.name.value)
		from := e.from
		if from == nil {
			from = c.all.from
		}
		el := Element{Name: i, Absent: e.isAbsent, From: values(from), Min: 1, Max: 1}
		if e.isAbsent {
			el.Min, el.Max = 0, 0
			c.absence(e, &el)
		} else {
			c.step(e, &el)
		}
		r.Elements = append(r.Elements, el)
	}
	c.places()
}

// name checks the name of a step or absence.
func (c *ruleChecker) name(t *text) {
	first, twice := c.names[t.value]
	switch {
	case slices.Contains(reservedNames, t.value):
		c.fail(t, codeName, "", "%q means something else in every condition, so no step can have this name", t.value)
	case slices.Contains(operatorNames, t.value):
		c.fail(t, codeName, "", "%q is a word of the expression language, so no step can have this name", t.value)
	case !nameShape.MatchString(t.value):
		c.fail(t, codeName, "letters, digits and _, not beginning with a digit", "%q cannot be the name of a step", t.value)
	case twice:
		c.fail(t, codeDuplicate, "", "the name %q is taken: it stands in line %d", t.value, c.elements[first].name.Line)
		return
	}
	c.names[t.value] = len(c.rule.Names)
}

// step checks the keys of a step or loop that do not depend on its neighbours.
func (c *ruleChecker) step(e *elementSyntax, el *Element) {
	if e.times != nil {
		least, most, err := parseTimes(e.times.value)
		if err != nil {
			c.fail(e.times, codeTimes, "5 is exactly five, 5.. five or more, 3..10 three to ten, 0.. any number", "%q: %v", e.times.value, err)
			least, most = 1, -1 // what most people mean, so that the keys of a loop are not refused as well
		}
		el.Optional = least == 0
		el.Min, el.Max = max(least, 1), most
	}
	if c.bool(e.optional, "optional", false) {
		el.Optional = true
	}
	el.Within = c.duration(e.within, "within", false)
	el.LoopWithin = c.duration(e.loopWithin, "loop_within", false)
	el.Loop = nfa.NoLink
	if el.Max == 1 {
		for _, t := range []*text{e.loop, e.loopWithin} {
			if t != nil {
				c.fail(t, codeElementKey, `add "times" to make it a loop`, "%q is taken once, so nothing lies between its events", e.name.value)
			}
		}
		return
	}
	loop := e.loop
	if loop == nil {
		loop = c.all.loop
	}
	el.Loop = c.link(loop, "loop")
	if el.LoopWithin == 0 {
		el.LoopWithin = el.Within
	}
}

// absence checks the keys of an absence that do not depend on its neighbours.
func (c *ruleChecker) absence(e *elementSyntax, el *Element) {
	el.FromStart = c.bool(e.fromStart, "from_start", false)
	if e.hold == nil {
		return
	}
	if e.hold.value == "forever" {
		el.For = nfa.Forever
		if !el.FromStart {
			c.fail(e.hold, codeHold, "add from_start: true", `"for: forever" looks back before everything that is known, so it needs "from_start: true"`)
		}
		return
	}
	el.For = c.duration(e.hold, "for", false)
}

// link reads relaxed, strict or any.
func (c *ruleChecker) link(t *text, key string) nfa.Link {
	switch c.word(t, key, "relaxed", "relaxed", "strict", "any") {
	case "strict":
		return nfa.Strict
	case "any":
		return nfa.Any
	default:
		return nfa.Relaxed
	}
}

// places checks what depends on where an element stands: S2.6 and S4.
func (c *ruleChecker) places() {
	els := c.rule.Elements
	first, last := -1, -1 // steps
	optional := true      // all steps are
	for i, e := range els {
		if e.Absent {
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
		optional = optional && e.Optional
	}
	switch {
	case len(els) == 1 && first < 0:
		c.alone()
		return
	case len(els) > 0 && first < 0:
		c.fail(c.elements[0].name, codeNothing, "a sequence of one absence is a rule about silence", "the rule has absences only: there is no event that it could begin with")
		return
	case optional && len(els) > 0:
		c.fail(c.elements[first].name, codeNothing, "", "every step is optional, so the rule could match no event at all")
		return
	}
	for i := range els {
		switch {
		case !els[i].Absent:
			c.stepPlace(i, first)
		case i < first:
			c.absentAtStart(i)
		case i > last:
			c.absentAtEnd(i)
		default:
			c.absentBetween(i)
		}
	}
}

// stepPlace links a step to what stands before it.
func (c *ruleChecker) stepPlace(i, first int) {
	e, el := c.elements[i], &c.rule.Elements[i]
	if i > first {
		contiguity := e.contiguity
		if contiguity == nil {
			contiguity = c.all.contiguity
		}
		el.Link = c.link(contiguity, "contiguity")
		return
	}
	el.Link = nfa.NoLink
	if e.contiguity != nil {
		c.fail(e.contiguity, codeContiguity, "", "%q is the first step: there is nothing before it to be tied to", e.name.value)
	}
	if e.within != nil {
		if el.Max == 1 {
			c.fail(e.within, codeFirstWithin, `the window of the whole rule is "within" beside "sequence"`, "%q is the first step: no event is taken before it", e.name.value)
		}
		el.Within = 0 // it bounds the loop's own gaps, and LoopWithin has it
	}
}

// absentLink is the contiguity of an absence behind a step.
func (c *ruleChecker) absentLink(i int) {
	e, el := c.elements[i], &c.rule.Elements[i]
	contiguity := e.contiguity
	if contiguity == nil {
		contiguity = c.all.contiguity
	}
	if contiguity != nil && contiguity.value == "any" {
		el.Link = nfa.Relaxed
		if e.contiguity != nil {
			c.fail(e.contiguity, codeContiguity, "", `an absence is relaxed or strict: it takes no event to go on from`)
		}
		return
	}
	el.Link = c.link(contiguity, "contiguity")
}

// absentAtStart is S4.3.
func (c *ruleChecker) absentAtStart(i int) {
	e := c.elements[i]
	c.rule.Elements[i].Link = nfa.NoLink
	if e.contiguity != nil {
		c.fail(e.contiguity, codeContiguity, "", "%q stands at the start: there is nothing before it to be tied to", e.name.value)
	}
	if e.hold == nil {
		c.fail(e.name, codeHoldMissing, `add "for: 10m", the time before the next step that must be empty`, "the absence %q at the start does not say how long", e.name.value)
	}
}

// absentBetween is S4.1.
func (c *ruleChecker) absentBetween(i int) {
	e, els := c.elements[i], c.rule.Elements
	if e.hold != nil {
		c.fail(e.hold, codeHold, `leave "for" out: it holds until the next step is taken; to bound that time give the next step a "within"`, "the absence %q stands between two steps", e.name.value)
	}
	if e.fromStart != nil {
		c.fail(e.fromStart, codeHold, "", `"from_start" belongs to an absence at the start, %q stands between two steps`, e.name.value)
	}
	optional := func(e Element) bool { return e.Absent || e.Optional }
	if !slices.ContainsFunc(els[:i], func(e Element) bool { return !optional(e) }) {
		c.fail(e.name, codeAbsencePlace, "", "everything before the absence %q is optional: without it the absence would stand at the start", e.name.value)
	}
	if !slices.ContainsFunc(els[i+1:], func(e Element) bool { return !optional(e) }) {
		c.fail(e.name, codeAbsenceTail, "", "everything behind the absence %q is optional: the match would be complete before the absence is judged", e.name.value)
	}
	c.absentLink(i)
}

// absentAtEnd is S4.2. The window of the rule is checked with the others.
func (c *ruleChecker) absentAtEnd(i int) {
	e, el := c.elements[i], &c.rule.Elements[i]
	if e.fromStart != nil {
		c.fail(e.fromStart, codeHold, "", `"from_start" belongs to an absence at the start, %q stands at the end`, e.name.value)
		return
	}
	if el.For == nfa.Forever {
		c.fail(e.hold, codeHold, "", `"for: forever" belongs to an absence at the start: at the end the rule would never fire`)
	}
	c.absentLink(i)
}

// noBeat is the name of the absence that a rule about silence is rewritten to. It cannot clash: names have no spaces.
func noBeat(name string) string { return "no " + name }

// alone is S4.4: an absence alone is a step of that name, then an absence of the same.
func (c *ruleChecker) alone() {
	e, el := c.elements[0], c.rule.Elements[0]
	if e.contiguity != nil {
		c.fail(e.contiguity, codeContiguity, "", "%q stands alone: there is nothing before it to be tied to", e.name.value)
	}
	if e.fromStart != nil {
		c.fail(e.fromStart, codeHold, "", `"from_start" belongs to an absence in front of a step; %q stands alone and begins with an event`, e.name.value)
		return
	}
	if el.For == nfa.Forever {
		c.fail(e.hold, codeHold, "", `"for: forever" belongs to an absence at the start: here the rule would never fire`)
	}
	step := el
	step.Absent, step.For, step.Min, step.Max, step.Link = false, 0, 1, 1, nfa.NoLink
	el.Name, el.Link = 1, nfa.Relaxed
	c.rule.Names = append(c.rule.Names, noBeat(e.name.value))
	c.rule.Elements = []Element{step, el}
	c.elements = []*elementSyntax{e, e}
}

// windows checks that every start ends (LANGUAGE, `within`) and that no gap is longer than the rule's window.
func (c *ruleChecker) windows() {
	r := c.rule
	r.Within = c.duration(c.all.within, "within", false)
	unbounded := c.bool(c.all.unbounded, "unbounded", false)
	if unbounded && c.own.within != nil && c.own.unbounded != nil {
		c.fail(c.own.unbounded, codeUnbounded, "", `"unbounded: true" says that the rule has no window, and "within" is one`)
	}
	if unbounded && c.own.within == nil {
		r.Within = 0
	}
	if c.failed && len(r.Elements) != len(c.elements) {
		return // a one-step rule, or elements that could not be read
	}
	for i, el := range r.Elements {
		if i >= len(c.elements) {
			return // a rule without a sequence is a lone step
		}
		e := c.elements[i]
		isLast := el.Absent && i > 0 && !c.stepBehind(i)
		if isLast && e.hold == nil && el.Link == nfa.Relaxed && (c.all.within == nil || unbounded && r.Within == 0) {
			c.fail(e.name, codeHoldMissing, `add "for: 1m", or a "within" to the rule`, "the absence %q at the end does not say how long", e.name.value)
		}
		if c.own.within == nil || r.Within == 0 {
			continue
		}
		for _, gap := range []struct {
			t    *text
			d    cep.Duration
			name string
		}{{e.within, el.Within, "within"}, {e.loopWithin, el.LoopWithin, "loop_within"}} {
			if gap.t != nil && !el.Absent && gap.d > r.Within {
				c.fail(gap.t, codeGap, "", "%q of %q is longer than the rule's window of %s, so it means nothing", gap.name, e.name.value, cep.FormatDuration(r.Within))
			}
		}
	}
	if r.Within == 0 && !unbounded && !c.own.given["within"] && !c.failed && c.openGap() {
		c.fail(c.own.id, codeNoWindow, `add "within: 10m", or "unbounded: true" if starts may wait for ever`, "rule %q has no window", c.rule.ID)
	}
}

// stepBehind reports whether a step stands behind an element.
func (c *ruleChecker) stepBehind(i int) bool {
	return slices.ContainsFunc(c.rule.Elements[i+1:], func(e Element) bool { return !e.Absent })
}

// openGap reports whether some time between two events, or up to the end, has no bound.
func (c *ruleChecker) openGap() bool {
	steps := 0
	for i, e := range c.rule.Elements {
		switch {
		case e.Absent && i > 0 && !c.stepBehind(i):
			if e.For == 0 {
				return true // strict without a deadline: the next event decides whenever it comes
			}
		case e.Absent:
		default:
			if steps > 0 && e.Within == 0 || e.Max != 1 && e.LoopWithin == 0 {
				return true
			}
			steps++
		}
	}
	return false
}
