package patterns

import (
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
)

const (
	// maxNames is the number of steps, absences, entries of `without` and different `until`s of a rule: each is a bit of a
	// word, and the machine keeps one.
	maxNames = 63
	// maxComposites is the number of composites of a rule: the machine keeps a register for each.
	maxComposites = 16
	// minMembers and maxMembers bound an all_of (S2.3): it means each order of its members, and 8 have 40,320.
	minMembers, maxMembers = 2, 8
)

// streams checks which streams the rule and its elements read (S1.2).
func (c *ruleChecker) streams() {
	read := map[string]bool{}
	check := func(list []*text) []string {
		if list != nil && len(list) == 0 {
			c.fail(c.own.id, codeFrom, "", `"from" of rule %q is empty`, c.rule.ID)
		}
		for _, t := range list {
			if !streamShape.MatchString(t.value) {
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
	if len(common) == 0 && c.all.sequence == nil && c.all.pattern == nil {
		c.fail(c.own.id, codeFrom, `add "from: NAME" with the name of a stream`, `rule %q does not say which stream it reads`, c.rule.ID)
	}
	one := func(from []*text, name *text) {
		if from != nil {
			check(from)
		} else if len(common) == 0 {
			c.fail(name, codeFrom, `add "from: NAME" to the rule`, "%q has no stream to read: neither it nor the rule has \"from\"", name.value)
		}
	}
	for _, p := range c.leaves {
		one(p.syntax.from, p.syntax.name)
	}
	for _, w := range c.all.without {
		one(w.from, w.name)
	}
	for name := range read {
		c.rule.Streams = append(c.rule.Streams, name)
	}
	slices.Sort(c.rule.Streams)
}

// fromOf returns the streams of an element: its own or the rule's.
func (c *ruleChecker) fromOf(own []*text) []string {
	if own == nil {
		own = c.all.from
	}
	return values(own)
}

// stepless says that the rule has neither a sequence nor a pattern, not even one with mistakes: it is the one step `event`.
func (c *ruleChecker) stepless() bool {
	return c.all.sequence == nil && c.all.pattern == nil && !c.own.given["pattern"]
}

// shape checks the elements of the sequence, each alone and where it stands among the others. Conditions and keys come
// later.
func (c *ruleChecker) shape() {
	r := c.rule
	if c.all.pattern != nil || c.own.given["pattern"] {
		c.rowShape()
		c.without()
		return
	}
	if c.stepless() {
		c.failed = c.failed || c.own.given["sequence"]
		r.Names = []string{"event"}
		c.names["event"] = 0
		r.Elements = []Element{{From: values(c.all.from), Link: nfa.NoLink, Loop: nfa.NoLink, Min: 1, Max: 1}}
		c.without()
		return
	}
	c.failed = c.failed || len(c.all.sequence.elements) == 0
	r.Elements, c.parts = c.build(c.all.sequence.elements, nil)
	c.leaves = leavesOf(nil, c.parts)
	c.without()
	if len(r.Names) > maxNames || c.composites > maxComposites {
		c.fail(c.own.id, codeTooMany, "", "rule %q has %d names and %d composites; %d and %d are allowed", r.ID, len(r.Names), c.composites, maxNames, maxComposites)
		return
	}
	c.places()
}

// without names the entries of `without`.
func (c *ruleChecker) without() {
	for _, w := range c.all.without {
		c.rule.Without = append(c.rule.Without, Without{Name: c.name(w.name), From: c.fromOf(w.from)})
	}
}

// build makes elements of the elements of a sequence that could be read.
func (c *ruleChecker) build(list []*elementSyntax, parent *part) ([]Element, []*part) {
	list = slices.DeleteFunc(slices.Clone(list), func(e *elementSyntax) bool {
		if e == nil {
			c.failed = true // reported when it was read
		}
		return e == nil
	})
	last := len(list) - 1
	for i, e := range list {
		if e.kind == kindHold && (parent != nil || i != last) {
			c.fail(e.name, codeHoldPlace, "", "the hold %q does not stand last in the rule", e.name.value)
		}
	}
	endsInHold := last >= 0 && parent == nil && list[last].kind == kindHold
	if endsInHold {
		list = append(list, list[last]) // its step, and its absence
	}
	elements, parts := make([]Element, len(list)), make([]*part, len(list))
	for i, e := range list {
		elements[i] = Element{Min: 1, Max: 1, Link: nfa.NoLink, Loop: nfa.NoLink}
		parts[i] = &part{syntax: e, el: &elements[i], parent: parent, sequence: parts, index: i}
		if endsInHold && i == len(list)-1 {
			c.holdAbsence(parts[i], &elements[i-1])
			continue
		}
		if e.kind.isComposite() {
			c.composite(parts[i])
			continue
		}
		elements[i].Name = c.name(e.name)
		elements[i].From = c.fromOf(e.from)
		if e.kind == kindAbsent {
			elements[i].Absent, elements[i].Min, elements[i].Max = true, 0, 0
			c.absence(parts[i])
		} else {
			c.step(parts[i])
		}
	}
	return elements, parts
}

// name checks the name of a step, an absence or an entry of `without`, and returns its index.
func (c *ruleChecker) name(t *text) int {
	_, twice := c.names[t.value]
	switch {
	case slices.Contains(reservedNames, t.value):
		c.fail(t, codeName, "", "%q means something else in every condition, so no step can have this name", t.value)
	case slices.Contains(operatorNames, t.value):
		c.fail(t, codeName, "", "%q is a word of the expression language, so no step can have this name", t.value)
	case !nameShape.MatchString(t.value):
		c.fail(t, codeName, "letters, digits and _, not beginning with a digit", "%q cannot be the name of a step", t.value)
	case twice:
		c.fail(t, codeDuplicate, "", "the name %q is taken: it stands in line %d", t.value, c.nameTexts[t.value].Line)
	default:
		c.names[t.value], c.nameTexts[t.value] = len(c.rule.Names), t
	}
	c.rule.Names = append(c.rule.Names, t.value)
	return len(c.rule.Names) - 1
}

// times reads how often a step or composite is taken.
func (c *ruleChecker) times(e *elementSyntax, el *Element) {
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
	if el.Max == 1 {
		for key, t := range map[string]*text{"loop": e.loop, "loop_within": e.loopWithin, "having": e.having, "distinct": e.distinct} {
			if t != nil {
				c.fail(t, codeElementKey, `add "times" to make it a loop`, "%q is taken once, so %q has no meaning", e.name.value, key)
			}
		}
		return
	}
	loop := e.loop
	if loop == nil {
		loop = c.all.loop
	}
	el.Loop = c.link(loop, "loop")
}

// step checks the keys of a step or loop that do not depend on its neighbours.
func (c *ruleChecker) step(p *part) {
	e, el := p.syntax, p.el
	c.times(e, el)
	el.Within = c.duration(e.within, "within", false)
	el.LoopWithin = c.duration(e.loopWithin, "loop_within", false)
	if el.Max != 1 && el.LoopWithin == 0 {
		el.LoopWithin = el.Within
	}
	el.Greedy = c.bool(e.greedy, "greedy", false)
	if el.Greedy && e.times == nil && !el.Optional {
		c.fail(e.greedy, codeElementKey, `add "times"`, "%q is taken once, so \"greedy\" has no meaning", e.name.value)
	}
	if e.until != nil && el.Max >= 0 {
		c.fail(e.until, codeUntil, "", "%q has an upper bound: \"until\" is for loops that have none", e.name.value)
	}
	if f := e.firstSeen; f != nil {
		el.FirstSeen = &FirstSeen{FromStart: c.bool(f.fromStart, "from_start", false)}
		el.FirstSeen.For = c.reach(f.hold, el.FirstSeen.FromStart)
		if len(f.by) == 0 {
			c.fail(f.hold, codeMissing, "", `"by" of "first_seen" is empty`)
		}
	}
	el.Edge = e.kind == kindHold
	if el.Edge && e.where == nil {
		c.fail(e.name, codeMissing, "", "the hold %q needs the key \"where\": what is to hold", e.name.value)
	}
	if el.Edge && e.hold == nil {
		c.fail(e.name, codeMissing, "", "the hold %q needs the key \"for\": how long", e.name.value)
	}
}

// reach reads how far something looks back: a duration, or forever where the time before the rule counts as empty.
func (c *ruleChecker) reach(t *text, fromStart bool) cep.Duration {
	if t == nil || t.value != "forever" {
		return c.duration(t, "for", false)
	}
	if !fromStart {
		c.fail(t, codeHold, "add from_start: true", `"for: forever" looks back before everything that is known, so it needs "from_start: true"`)
	}
	return nfa.Forever
}

// absence checks the keys of an absence that do not depend on its neighbours.
func (c *ruleChecker) absence(p *part) {
	p.el.FromStart = c.bool(p.syntax.fromStart, "from_start", false)
	p.el.For = c.reach(p.syntax.hold, p.el.FromStart)
}

// holdAbsence makes the second half of a hold (S2.5): no event for which the condition does not hold, for its time.
func (c *ruleChecker) holdAbsence(p *part, step *Element) {
	*p.el = Element{
		Name: step.Name, From: step.From, Absent: true, Link: nfa.Relaxed, Loop: nfa.NoLink,
		For: c.duration(p.syntax.hold, "for", false),
	}
}

// composite checks an all_of, any_of or group, and what is inside.
func (c *ruleChecker) composite(p *part) {
	e, el := p.syntax, p.el
	c.composites++
	c.times(e, el)
	el.Times = e.times != nil
	el.Within = c.duration(e.within, "within", false)
	if e.until != nil && el.Max >= 0 {
		c.fail(e.until, codeUntil, "", "the group has an upper bound: \"until\" is for groups that have none")
	}
	switch e.kind {
	case kindAnyOf:
		el.Kind = nfa.KindAnyOf
		if len(e.alternatives) < 2 {
			c.fail(e.name, codeMembers, "", "an any_of needs two alternatives or more")
		}
		for _, a := range e.alternatives {
			elements, parts := c.build(a, p)
			el.Alternatives, p.inner = append(el.Alternatives, elements), append(p.inner, parts)
		}
	case kindAllOf:
		el.Kind = nfa.KindAllOf
		elements, parts := c.build(e.elements, p)
		el.Elements, p.inner = elements, [][]*part{parts}
		c.members(p)
	default:
		el.Kind = nfa.KindGroup
		elements, parts := c.build(e.elements, p)
		el.Elements, p.inner = elements, [][]*part{parts}
		if len(e.elements) == 0 {
			c.fail(e.name, codeEmpty, "", "the group is empty")
		}
	}
	if !c.failed && el.Times && !takes(el) {
		c.fail(e.times, codeNothing, "", "nothing in it takes an event, so it cannot be repeated")
	}
}

// members checks those of an all_of (S2.3).
func (c *ruleChecker) members(p *part) {
	e := p.syntax
	if n := len(e.elements); n < minMembers || n > maxMembers {
		c.fail(e.name, codeMembers, "", "an all_of has %d to %d members, not %d", minMembers, maxMembers, n)
	}
	if e.atLeast != nil {
		n := c.number(e.atLeast, "at_least", 0, 1)
		switch {
		case n > int64(len(e.elements)):
			c.fail(e.atLeast, codeMembers, "", "\"at_least\" is %d, and the all_of has %d members", n, len(e.elements))
		case n < int64(len(e.elements)):
			p.el.Need = int(n)
		}
	}
	single := func(q *part) {
		s := q.syntax
		if s.kind != kindStep {
			c.fail(s.name, codeMembers, "counts in any order are a rule over alerts", "a member of an all_of is a step, or an any_of of steps, not %s", s.kind.article())
			return
		}
		for key, t := range map[string]*text{
			"times": s.times, "loop": s.loop, "optional": s.optional, "within": s.within, "loop_within": s.loopWithin,
			"greedy": s.greedy, "until": s.until, "having": s.having, "distinct": s.distinct, "contiguity": s.contiguity,
		} {
			if t != nil {
				c.fail(t, codeMembers, "", "a member of an all_of has \"where\", \"from\", \"by\" and \"first_seen\", not %q", key)
			}
		}
	}
	for _, q := range p.inner[0] {
		if q.syntax.kind != kindAnyOf {
			single(q)
			continue
		}
		s := q.syntax
		for key, t := range map[string]*text{"times": s.times, "loop": s.loop, "optional": s.optional, "within": s.within, "contiguity": s.contiguity} {
			if t != nil {
				c.fail(t, codeMembers, "", "an any_of that is a member of an all_of has no %q", key)
			}
		}
		for i, a := range q.inner {
			if len(a) != 1 {
				c.fail(s.name, codeMembers, "", "alternative %d is not one step: an any_of in an all_of chooses between single steps", i+1)
				continue
			}
			single(a[0])
		}
	}
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
