package spectest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
)

// shape is a rule without YAML, small enough to be enumerated, drawn at random, and printed on a line. Spans are whole
// seconds; 0 is none.
type shape struct {
	elements []shapeElement
	without  []shapeElement
	within   int
	after    nfa.AfterMatch
	target   int
	ordered  bool
	timeouts bool
	newest   bool
	limits   nfa.Limits
	keyed    bool // the key is field k, or field j for elements that say so
	present  bool // the key "x" counts as present from the beginning
	// where hides events with n == 9, the exception without steps those with n == 8, that with steps those with n == 7
	// from the name hides.
	where, except bool
	hides         int // -1: none
}

// shapeElement is an element of a shape. Leaves are named by their number in written order; a hold is one element here,
// and two in the rule.
type shapeElement struct {
	kind             nfa.ElementKind
	letter           byte // what field l must be; '.' is anything
	condition        condition
	ref              int // the leaf that the condition reads
	absent, optional bool
	hold             bool
	link, loop       nfa.Link
	min, max         int
	within, loopGap  int
	span             int // for
	forever          bool
	fromStart        bool
	otherKey         bool // by field j
	stream           int  // 0: s, 1: t
	greedy           bool
	until            byte // a letter that ends the loop; 0: none
	untilTwo         bool // only when two events were taken
	having           having
	distinct         bool
	seen             seen

	// parts are the elements of a group or all_of, or the alternatives of an any_of.
	parts [][]shapeElement
	times bool
	need  int
	// related is all_of's own condition: the n of its members are different.
	related bool
}

// seen is first_seen, by n.
type seen struct{ word, forever, fromStart bool }

// condition is what an element asks beside its letter.
type condition uint8

const (
	plain     condition = iota
	rising              // n > the last n that ref took
	counted             // ref took less than 2 events
	summed              // sum of n over ref + n <= 6
	differs             // n is not the first n that ref took
	afterSame           // prev.l == l
	afterLess           // prev.n < n, or no prev
	aboveMax            // n > the greatest n of ref, or it took none
	belowMin            // n < the least n of ref, or it took none
	distinct            // less than 2 different n in ref
	asFirst             // n is that of the first event of ref, or it took nothing
	notLast             // n is not that of the last event of ref
	few                 // less than 3 events were taken
	inKey               // n is even, or the key is "x"
	conditions
)

var conditionNames = [...]string{
	"", "rising", "counted", "summed", "differs", "afterSame", "afterLess", "aboveMax", "belowMin", "distinct", "asFirst",
	"notLast", "few", "inKey",
}

// having is the condition under which a loop may be left.
type having uint8

const (
	always  having = iota
	notTwo         // this pass took not 2 events
	above          // the sum of n in this pass is above 4
	varied         // the first and last n of this pass differ
	matched        // the match has at least 3 events
	havings
)

var havingNames = [...]string{"", "notTwo", "above", "varied", "matched"}

// The slots of a shape's events.
const (
	slotL = iota
	slotN
	slotK
	slotJ
	slots
)

const second = cep.Duration(cep.Second)

// spanOf turns seconds into a duration.
func spanOf(seconds int) cep.Duration { return cep.Duration(seconds) * second }

// String writes the shape in the shorthand of the semantics: > strict, >> relaxed, >>> any, !> and !>> absences, !< an
// absence at the start.
func (s *shape) String() string {
	var sb strings.Builder
	writeElements(&sb, s.elements, " ")
	if len(s.without) > 0 {
		sb.WriteString(", without ")
		writeElements(&sb, s.without, ", ")
	}
	fmt.Fprintf(&sb, ", W=%d after=%d target=%d ordered=%v timeouts=%v newest=%v limits=%v keyed=%v present=%v where=%v except=%v hides=%d",
		s.within, s.after, s.target, s.ordered, s.timeouts, s.newest, s.limits, s.keyed, s.present, s.where, s.except, s.hides)
	return sb.String()
}

func writeElements(sb *strings.Builder, elements []shapeElement, separator string) {
	for i, e := range elements {
		if i > 0 {
			sb.WriteString(separator)
		}
		e.write(sb)
	}
}

func (e shapeElement) write(sb *strings.Builder) {
	if e.absent {
		sb.WriteByte('!')
	}
	sb.WriteString([...]string{"", ">", ">>", ">>>"}[e.link])
	if e.absent && e.link == nfa.NoLink {
		sb.WriteByte('<')
	}
	switch {
	case e.hold:
		fmt.Fprintf(sb, "hold(%c)", e.letter)
	case e.kind == nfa.KindLeaf:
		sb.WriteByte(e.letter)
	default:
		sb.WriteString([...]string{"", "", "any", "all"}[e.kind] + "(")
		for i, p := range e.parts {
			if i > 0 {
				sb.WriteString(" | ")
			}
			writeElements(sb, p, " ")
		}
		sb.WriteString(")")
	}
	switch {
	case e.min <= 1 && e.max == 1 && !e.times:
	case e.max < 0:
		fmt.Fprintf(sb, "{%d,}", e.min)
	default:
		fmt.Fprintf(sb, "{%d,%d}", e.min, e.max)
	}
	if e.optional {
		sb.WriteByte('?')
	}
	if e.max != 1 && e.loop != nfa.Relaxed {
		sb.WriteString([...]string{"/none", "/strict", "", "/any"}[e.loop])
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"gap", e.within}, {"loopgap", e.loopGap}, {"for", e.span}, {"stream", e.stream}, {"need", e.need}} {
		if f.value != 0 {
			fmt.Fprintf(sb, "/%s=%d", f.name, f.value)
		}
	}
	if e.condition != plain {
		fmt.Fprintf(sb, "/%s(%d)", conditionNames[e.condition], e.ref)
	}
	if e.until != 0 {
		fmt.Fprintf(sb, "/until=%c", e.until)
	}
	if e.having != always {
		sb.WriteString("/having=" + havingNames[e.having])
	}
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"forever", e.forever},
		{"from_start", e.fromStart},
		{"by=j", e.otherKey},
		{"greedy", e.greedy},
		{"two", e.untilTwo},
		{"distinct", e.distinct},
		{"first_seen", e.seen.word},
		{"seen_forever", e.seen.forever},
		{"seen_from_start", e.seen.fromStart},
		{"related", e.related},
	} {
		if f.is {
			sb.WriteString("/" + f.name)
		}
	}
}

// leaves are the steps and absences in written order.
func (s *shape) leaves() []*shapeElement { return leavesOf(nil, s.elements) }

func leavesOf(list []*shapeElement, elements []shapeElement) []*shapeElement {
	for i := range elements {
		if e := &elements[i]; e.kind == nfa.KindLeaf {
			list = append(list, e)
		} else {
			for _, p := range e.parts {
				list = leavesOf(list, p)
			}
		}
	}
	return list
}

// blank says that elements may take nothing (S2.6).
func blank(elements []shapeElement) bool {
	return !slices.ContainsFunc(elements, func(e shapeElement) bool { return !e.absent && !e.blank() })
}

func (e shapeElement) blank() bool {
	switch {
	case e.optional:
		return true
	case e.kind == nfa.KindLeaf || e.kind == nfa.KindAllOf || e.times:
		return e.absent
	default:
		return slices.ContainsFunc(e.parts, blank)
	}
}

// hasStep says that elements can take something.
func hasStep(elements []shapeElement) bool {
	return slices.ContainsFunc(elements, func(e shapeElement) bool {
		return !e.absent && (e.kind == nfa.KindLeaf || slices.ContainsFunc(e.parts, hasStep))
	})
}

// spot is where an absence stands in a rule that is written out.
type spot uint8

const (
	atStart spot = 1 << iota
	between
	atEnd
)

// around is what can stand before or behind an element, where the rule is written out: nothing, or some step.
type around struct{ nothingBefore, someBefore, nothingBehind, someBehind bool }

// spots says for each absence where ways to write the rule out put it.
func (s *shape) spots() map[*shapeElement]spot {
	all := map[*shapeElement]spot{}
	collectSpots(all, s.elements, around{nothingBefore: true, nothingBehind: true})
	return all
}

func collectSpots(all map[*shapeElement]spot, elements []shapeElement, outer around) {
	for i := range elements {
		e, before, behind := &elements[i], elements[:i], elements[i+1:]
		here := around{
			nothingBefore: outer.nothingBefore && blank(before),
			someBefore:    outer.someBefore || hasStep(before),
			nothingBehind: outer.nothingBehind && blank(behind),
			someBehind:    outer.someBehind || hasStep(behind),
		}
		if e.absent {
			all[e] = here.spot()
		}
		if e.repeats() {
			here.someBefore, here.someBehind = true, true
		}
		for _, p := range e.parts {
			collectSpots(all, p, here)
		}
	}
}

func (a around) spot() spot {
	var at spot
	if a.nothingBefore && a.someBehind {
		at |= atStart
	}
	if a.someBefore && a.someBehind {
		at |= between
	}
	if a.someBefore && a.nothingBehind {
		at |= atEnd
	}
	return at
}

// admitted reports whether the semantics admits the shape: what patterns.Load refuses is not worth a run.
func (s *shape) admitted() bool {
	if blank(s.elements) { // S2.6
		return false
	}
	for e, at := range s.spots() {
		switch {
		case at&atStart != 0 && at != atStart: // S4.1: at the start in one expansion, behind an element in another
			return false
		case at == atStart:
			if (e.span == 0) == !e.forever || e.forever && !e.fromStart || e.link == nfa.Strict { // S4.3
				return false
			}
		case e.forever || e.fromStart:
			return false
		case at&between != 0 && e.span > 0: // S4.1: for between two elements
			return false
		case at&atEnd != 0 && e.span == 0 && s.within == 0 && e.link != nfa.Strict: // S4.2
			return false
		}
	}
	return testable(s.elements, true)
}

// testable: what stands behind an absence is not all optional, later repetitions of its group aside (S4.1). last says that
// only optional elements follow.
func testable(elements []shapeElement, last bool) bool {
	for i := range elements {
		e, behind := &elements[i], elements[i+1:]
		optional := last && allOptional(behind)
		if e.absent && i > 0 && optional && hasStep(behind) {
			return false
		}
		for _, p := range e.parts {
			if !testable(p, optional) {
				return false
			}
			// An absence at the end of the composite stands before what follows it.
			if n := len(p); n > 0 && p[n-1].absent && optional && hasStep(behind) {
				return false
			}
		}
		if e.repeats() && e.hasSpan() { // S2.4
			return false
		}
	}
	return true
}

// allOptional is blank, but a group of optional members counts as optional even where a repetition takes something.
func allOptional(elements []shapeElement) bool {
	return !slices.ContainsFunc(elements, func(e shapeElement) bool {
		switch {
		case e.absent || e.optional:
			return false
		case e.kind == nfa.KindLeaf || e.kind == nfa.KindAllOf:
			return true
		default:
			return !slices.ContainsFunc(e.parts, allOptional)
		}
	})
}

func (e shapeElement) repeats() bool { return e.kind != nfa.KindLeaf && e.times && e.max != 1 }

func (e shapeElement) hasSpan() bool {
	return slices.ContainsFunc(e.parts, func(p []shapeElement) bool {
		return slices.ContainsFunc(p, func(e shapeElement) bool { return e.absent && (e.span > 0 || e.forever) || e.hasSpan() })
	})
}
