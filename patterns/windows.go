package patterns

import (
	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
)

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
	for _, p := range c.leaves {
		mayAfter, mustAfter := p.after()
		isEnd := !mayAfter || !mustAfter && p.closed()
		if mayBefore, _ := p.before(); p.el.Absent && mayBefore && isEnd && p.syntax.hold == nil && p.el.Link != nfa.Strict && (c.all.within == nil || unbounded && r.Within == 0) {
			c.fail(p.syntax.name, codeHoldMissing, `add "for: 1m", or a "within" to the rule`, "the absence %q at the end does not say how long", p.syntax.name.value)
		}
	}
	if c.own.within != nil && r.Within > 0 {
		c.gaps(c.parts)
	}
	if r.Within == 0 && !unbounded && !c.own.given["within"] && !c.failed && c.parts != nil && open(c.parts, true, false) {
		c.fail(c.own.id, codeNoWindow, `add "within: 10m", or "unbounded: true" if starts may wait for ever`, "rule %q has no window", r.ID)
	}
}

// gaps refuses bounds that the rule's window makes meaningless.
func (c *ruleChecker) gaps(parts []*part) {
	for _, p := range parts {
		e := p.syntax
		for _, gap := range []struct {
			t    *text
			name string
		}{{e.within, "within"}, {e.loopWithin, "loop_within"}} {
			if gap.t == nil {
				continue
			}
			if d, err := ParseDuration(gap.t.value); err == nil && d > c.rule.Within {
				c.fail(gap.t, codeGap, "", "%q of %q is longer than the rule's window of %s, so it means nothing", gap.name, e.name.value, cep.FormatDuration(c.rule.Within))
			}
		}
		for _, inner := range p.inner {
			c.gaps(inner)
		}
	}
}

// open reports whether some time between two events of a sequence, or up to the end of the rule, has no bound. first says
// that nothing can have been taken before the sequence, so that the way to its first event needs no bound; spanned that
// a composite around it bounds the time between its events.
func open(sequence []*part, first, spanned bool) bool {
	some, must := false, false // taken in this sequence
	for _, p := range sequence {
		e := p.el
		if p.leaf() && e.Absent {
			mayBefore, _ := p.before()
			mayAfter, _ := p.after()
			if mayBefore && !mayAfter && e.For == 0 {
				return true // strict without a deadline: the next event decides whenever it comes
			}
			continue
		}
		needs := some && !spanned || !must && !first
		if p.leaf() {
			if needs && e.Within == 0 || e.Max != 1 && e.LoopWithin == 0 && !spanned {
				return true
			}
		} else {
			firstInside := !needs && (e.Max == 1 || spanned)
			spannedInside := spanned || e.Within > 0
			for _, inner := range p.inner {
				if e.Kind != nfa.KindAllOf {
					if open(inner, firstInside, spannedInside) {
						return true
					}
				} else if needs || !spannedInside {
					return true // its members have no bounds of their own
				}
			}
		}
		some = some || takes(e)
		must = must || !nullable(e)
	}
	return false
}
