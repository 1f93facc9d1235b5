package expression

import (
	"math"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
)

// A proof that conditions never hold together goes through the ways in which they could. A condition is taken apart into
// claims: tests that must be true, or false without an error. One way has one alternative of each or. It leads nowhere
// where two of its claims exclude each other:
//
//	P and not P         whatever P asks, for one event has one answer
//	x == 1, x in [2]    of the values that x can be, each is tried in all claims about x alone
//	x > 5, x < 3        a value has one kind, and its order
//	a < b, a == b       the same for two that are not constant
//	x startsWith "a", x startsWith "b"
//
// What is not understood is taken to be possible.

// claim is a test that is true or, with not, false.
type claim struct {
	n   *node
	not bool
}

// maxProof bounds the comparisons of one proof. A usual condition takes some ten of them, one with 200 parts and no
// alternatives 40,000, which is a millisecond.
const maxProof = 100_000

// proof is the search for one.
type proof struct{ left int }

// never reports whether conditions are proved never to hold together.
func never(conditions []conjunct) bool { return (&proof{left: maxProof}).never(conditions) }

func (p *proof) never(conditions []conjunct) bool {
	todo := make([]claim, len(conditions))
	for i, c := range conditions {
		todo[i].n = c.n
	}
	return p.impossible(todo)
}

// impossible takes conditions apart and follows each way.
func (p *proof) impossible(todo []claim) bool {
	var claims, choices []claim
	for len(todo) > 0 {
		l := todo[0]
		todo = todo[1:]
		n := l.n
		switch {
		case n.op == opNot:
			todo = append(todo, claim{n.args[0], !l.not})
		case n.op == opAnd && !l.not, n.op == opOr && l.not:
			for _, a := range n.args {
				todo = append(todo, claim{a, l.not})
			}
		case n.op == opAnd, n.op == opOr, n.op == opChoice:
			choices = append(choices, l)
		case n.op == opConst && n.kind == boolKind:
			if n.value.AsBool() == l.not {
				return true
			}
		case n.op == opCompare && n.name == "!=":
			equal := *n
			equal.name = "=="
			claims = append(claims, claim{&equal, !l.not})
		case n.op == opPredicate && !l.not && (n.name == "any" || n.name == "one") && p.impossible([]claim{{n: n.args[1]}}):
			return true
		default:
			claims = append(claims, l)
		}
	}
	if p.clash(claims) {
		return true
	}
	if len(choices) == 0 || p.left <= 0 {
		return false
	}
	rest := append(claims, choices[1:]...)
	with := func(more ...claim) bool { return p.impossible(append(slices.Clone(rest), more...)) }
	c := choices[0]
	if n := c.n; n.op == opChoice {
		return with(claim{n: n.args[0]}, claim{n.args[1], c.not}) && with(claim{n.args[0], true}, claim{n.args[2], c.not})
	}
	for _, a := range c.n.args {
		if !with(claim{a, c.not}) {
			return false
		}
	}
	return true
}

// clash reports whether claims exclude each other.
func (p *proof) clash(claims []claim) bool {
	if p.left -= len(claims) * len(claims); p.left <= 0 {
		return false
	}
	for i, a := range claims {
		for _, b := range claims[:i] {
			if a.not != b.not && sameNode(a.n, b.n) || disordered(a, b) {
				return true
			}
		}
	}
	claims = carried(claims)
	var subjects []*node
	for _, l := range claims {
		if s := l.subject(); s != nil && !slices.ContainsFunc(subjects, func(o *node) bool { return sameNode(s, o) }) {
			subjects = append(subjects, s)
		}
	}
	return slices.ContainsFunc(subjects, func(s *node) bool {
		if p.left -= len(claims); p.left <= 0 {
			return false
		}
		return valueless(s, claims)
	})
}

// disordered reports whether two claims want different orders of the same two things: a < b and a == b.
func disordered(a, b claim) bool {
	if a.not || b.not || a.n.op != opCompare || b.n.op != opCompare {
		return false
	}
	x, y := orders[a.n.name], orders[b.n.name]
	switch {
	case sameNode(a.n.args[0], b.n.args[0]) && sameNode(a.n.args[1], b.n.args[1]):
	case sameNode(a.n.args[0], b.n.args[1]) && sameNode(a.n.args[1], b.n.args[0]):
		y = y.mirrored()
	default:
		return false
	}
	return x&y == 0
}

// carried adds what follows from two things being equal: where a == b, what is asked of one is true of the other. It is
// done for tests that do not tell equal values apart, as type(x) tells 1 from 1.0.
func carried(claims []claim) []claim {
	all := claims
	for _, equal := range claims {
		if equal.not || equal.n.op != opCompare || equal.n.name != "==" || equal.subject() != nil {
			continue
		}
		for i, from := range equal.n.args {
			to := equal.n.args[1-i]
			for _, l := range claims {
				if (l.n.op == opCompare || l.n.op == opIn) && l.subject() != nil && sameNode(l.subject(), from) {
					n := *l.n
					n.args = slices.Clone(n.args)
					n.args[slices.Index(l.n.args, l.subject())] = to
					all = append(all, claim{&n, l.not})
				}
			}
		}
	}
	return all
}

// subject is what a claim tests against constants; nil where that is not one thing.
func (l claim) subject() *node {
	n := l.n
	switch n.op {
	case opCompare:
		switch a, b := n.args[0], n.args[1]; {
		case a.op == opConst && b.op != opConst:
			return b
		case a.op != opConst && b.op == opConst:
			return a
		}
		return nil
	case opIn, opText:
		if n.args[0].op != opConst && (n.args[1].op == opConst || n.args[1].op == opTable) {
			return n.args[0]
		}
		return nil
	case opCall:
		if n.name == "like" || n.name == "cidr" {
			return n.args[0]
		}
	case opConst, opLet:
		return nil
	default:
	}
	return n
}

// order returns the comparison of a claim's subject with a constant; ok is false for another test.
func (l claim) order() (_ order, constant cep.Value, ok bool) {
	if l.n.op != opCompare {
		return 0, cep.Value{}, false
	}
	a, b, o := l.n.args[0], l.n.args[1], orders[l.n.name]
	if a.op == opConst {
		a, b, o = b, a, o.mirrored()
	}
	return o, b.value, a.op != opConst && b.op == opConst
}

// valueless reports whether a subject can have no value with which all claims hold.
func valueless(subject *node, claims []claim) bool {
	var about []claim
	for _, l := range claims {
		if s := l.subject(); s != nil && sameNode(s, subject) {
			about = append(about, l)
		}
	}
	r := rangeOfValues(subject)
	for _, l := range about {
		if values, ok := l.values(); ok {
			return !slices.ContainsFunc(values, func(v cep.Value) bool { return possible(subject, v) && fits(v, subject, claims) })
		}
	}
	for _, l := range about {
		if !l.not {
			r.narrow(l)
		}
	}
	for _, l := range about {
		if l.not {
			r.narrowNot(l)
		}
	}
	if v, ok := r.only(); ok {
		return !slices.ContainsFunc(variants(nil, v), func(v cep.Value) bool { return fits(v, subject, claims) })
	}
	return r.empty() || unspeakable(subject, about)
}

// values are all that a claim leaves its subject; ok is false where these are too many to be told.
func (l claim) values() (values []cep.Value, ok bool) {
	absent := []cep.Value{{}, cep.Null}
	all := func(constants []cep.Value) (values []cep.Value, ok bool) {
		for _, v := range constants {
			switch v.Kind() {
			case cep.KindList, cep.KindObject:
				return nil, false // their elements have variants too
			case cep.KindMissing, cep.KindNull:
				values = append(values, absent...)
			default:
				values = variants(values, v)
			}
		}
		return values, true
	}
	switch n := l.n; n.op {
	case opCompare:
		if o, v, is := l.order(); is && o == orders["=="] && !l.not {
			return all([]cep.Value{v})
		}
	case opIn:
		switch list := n.args[1]; {
		case l.not:
		case list.list != nil && !list.list.Reloads:
			return all(list.list.Values())
		case list.op == opConst && list.kind == listKind:
			return all(list.value.AsList())
		}
	case opText, opCall:
		if n.kind == boolKind && l.subject() != n || n.kind != boolKind && n.kind != anyKind {
			return nil, false
		}
		return conditionValues(l.not), true
	default:
		if n.kind == anyKind || n.kind == boolKind {
			return conditionValues(l.not), true
		}
	}
	return nil, false
}

// conditionValues are the values of a condition that is true, or false: what is missing is false.
func conditionValues(not bool) []cep.Value {
	if not {
		return []cep.Value{cep.Bool(false), {}, cep.Null}
	}
	return []cep.Value{cep.Bool(true)}
}

// variants adds the values that are equal to a scalar: functions can tell 1 from 1.0, and 0.0 from -0.0.
func variants(values []cep.Value, v cep.Value) []cep.Value {
	values = append(values, v)
	if !v.IsNumber() {
		return values
	}
	f := v.AsFloat()
	more := []cep.Value{cep.Float(f), cep.Float(math.Copysign(f, -1)), cep.Float(math.Abs(f))}
	if math.Abs(f) < 1<<63 {
		more = append(more, cep.Int(int64(f)))
	}
	for _, m := range more {
		if cep.Equal(m, v) {
			values = append(values, m)
		}
	}
	return values
}

// fits reports whether all claims that read nothing but the subject hold where it has a value.
func fits(v cep.Value, subject *node, claims []claim) bool {
	scope := &cep.Scope{Event: &cep.Event{Values: []cep.Value{v}}}
	for _, l := range claims {
		n, closed := l.n.with(subject, nil)
		if !closed {
			continue
		}
		if ok, err := compileCondition(n)(scope, newFrame()); err != nil || ok == l.not {
			return false
		}
	}
	return true
}

// with copies a node with the first field of an event in the place of a subject. closed is false where something else is
// read that is not constant. open are the predicates around.
func (n *node) with(subject *node, open []int) (_ *node, closed bool) {
	if n == nil {
		return nil, true
	}
	if sameNode(n, subject) {
		return &node{op: opField, at: n.at}, true
	}
	switch n.op {
	case opBad, opField, opEvent, opPrev, opStep, opSteps, opMatch, opTakenField, opTakenStep, opTakens, opDuration, opKey, opAlertField,
		opAggregate, opAggregateTaken:
		return nil, false
	case opTable:
		return n, n.list != nil && !n.list.Reloads
	case opPointer, opPosition, opAccumulator:
		return n, slices.Contains(open, n.index)
	case opPredicate:
		open = append(slices.Clone(open), n.index)
	default:
	}
	c := *n
	c.args = make([]*node, len(n.args))
	for i, a := range n.args {
		if c.args[i], closed = a.with(subject, open); !closed {
			return nil, false
		}
	}
	return &c, true
}

// ends is a range of values of one kind. All numbers are one kind.
type ends struct {
	low, high end
	// kind is the only one that a present value can have; known says that it is present, and no NaN.
	kind  kind
	known bool
	// whole says that the values are ints.
	whole bool
	none  bool
}

// end is one of them; the zero end is open.
type end struct {
	value    cep.Value
	excluded bool
}

// wholes are the ints that functions can give.
var wholes = map[string]ends{
	"minute": wholesTo(0, 59), "hour": wholesTo(0, 23), "day": wholesTo(1, 31), "weekday": wholesTo(0, 6),
	"len": {kind: numberKind, whole: true, low: end{value: cep.Int(0)}},
}

func wholesTo(low, high int64) ends {
	return ends{kind: numberKind, whole: true, low: end{value: cep.Int(low)}, high: end{value: cep.Int(high)}}
}

// written is what was written for a subject that is kept up to date as an aggregate.
func (n *node) written() *node {
	if n.op == opAggregate {
		return n.args[0]
	}
	return n
}

// rangeOfValues is what a subject can be whatever is asked of it.
func rangeOfValues(subject *node) ends {
	if n := subject.written(); n.op == opCall {
		return wholes[n.name]
	}
	return ends{}
}

// eitherOf writes the condition that asks for one of the values that two conditions ask for; "" where they do not.
func eitherOf(a, b *node) string {
	x, y := claim{n: a}, claim{n: b}
	s, t := x.subject(), y.subject()
	v, w := x.listed(), y.listed()
	if s == nil || t == nil || !sameNode(s, t) || len(v) == 0 || len(w) == 0 || len(v)+len(w) > maxListed {
		return ""
	}
	return s.within(comparePrecedence+1) + " in " + literal(cep.List(slices.Concat(v, w)))
}

// maxListed bounds the values that are put into a hint.
const maxListed = 6

// listed are the constants that a claim allows.
func (l claim) listed() []cep.Value {
	if o, v, ok := l.order(); ok && o == orders["=="] && !v.IsMissing() {
		return []cep.Value{v}
	}
	if l.n.op == opIn && l.n.args[1].op == opConst {
		return l.n.args[1].value.AsList()
	}
	return nil
}

// possible reports whether a subject can have a value whatever is asked of it.
func possible(subject *node, v cep.Value) bool {
	if v.IsMissing() {
		return true
	}
	r := rangeOfValues(subject)
	if r.whole {
		r.be(kindOf(v))
		r.tighten(orders["=="], v)
		return !r.empty() && v.AsFloat() == math.Trunc(v.AsFloat())
	}
	return v.Kind() != cep.KindString || !miscased(subject, v.AsString())
}

// miscased reports whether a text holds letters that lower or upper never leave.
func miscased(subject *node, text string) bool {
	if subject.op != opCall {
		return false
	}
	switch subject.name {
	case "lower":
		return strings.ContainsFunc(text, func(r rune) bool { return 'A' <= r && r <= 'Z' })
	case "upper":
		return strings.ContainsFunc(text, func(r rune) bool { return 'a' <= r && r <= 'z' })
	}
	return false
}

// be notes that the value is of a kind.
func (r *ends) be(k kind) {
	r.none = r.none || r.kind != anyKind && r.kind != k
	r.kind, r.known = k, true
}

// tighten notes how the value compares with a constant of its kind.
func (r *ends) tighten(o order, c cep.Value) {
	low, high := end{c, !o.holds(0)}, end{c, !o.holds(0)}
	if f := c.AsFloat(); r.whole && math.Abs(f) < exactInts {
		low, high = end{value: cep.Float(math.Ceil(f))}, end{value: cep.Float(math.Floor(f))}
		if !o.holds(0) {
			low.value, high.value = cep.Float(math.Floor(f)+1), cep.Float(math.Ceil(f)-1)
		}
	}
	if d, bounded := cep.Compare(low.value, r.low.value); !o.holds(-1) && (!bounded || d > 0 || d == 0 && low.excluded) {
		r.low = low
	}
	if d, bounded := cep.Compare(high.value, r.high.value); !o.holds(1) && (!bounded || d < 0 || d == 0 && high.excluded) {
		r.high = high
	}
}

// narrow notes a claim that must be true.
func (r *ends) narrow(l claim) {
	if o, c, ok := l.order(); ok {
		r.be(kindOf(c))
		if o != orders["=="] && !r.none {
			r.tighten(o, c)
		}
		return
	}
	if l.n.op == opText || l.n.op == opCall && (l.n.name == "like" || l.n.name == "cidr") {
		r.be(stringKind)
	}
}

// narrowNot notes a comparison that must be false. It says something only of a value that can be compared.
func (r *ends) narrowNot(l claim) {
	if o, c, ok := l.order(); ok && r.known && !r.none && kindOf(c) == r.kind && o != orders["=="] {
		r.tighten(^o&7, c)
	}
}

func (r *ends) empty() bool {
	d, bounded := cep.Compare(r.low.value, r.high.value)
	return r.none || bounded && (d > 0 || d == 0 && (r.low.excluded || r.high.excluded))
}

// only returns the value where there is but one.
func (r *ends) only() (_ cep.Value, ok bool) {
	d, bounded := cep.Compare(r.low.value, r.high.value)
	return r.low.value, r.known && !r.empty() && bounded && d == 0
}

// unspeakable reports whether no text can pass the tests of texts among some claims.
func unspeakable(subject *node, about []claim) bool {
	texts := slices.DeleteFunc(slices.Clone(about), func(l claim) bool {
		return l.n.op != opText || l.n.name == "matches" || l.n.args[1].op != opConst
	})
	for _, a := range texts {
		p := a.n.args[1].value.AsString()
		if !a.not && miscased(subject, p) {
			return true
		}
		for _, b := range texts {
			q := b.n.args[1].value.AsString()
			both := a.n.name == b.n.name && !a.not && !b.not
			switch {
			case a.not && !b.not && implies(b.n.name, q, a.n.name, p),
				both && a.n.name == "startsWith" && !strings.HasPrefix(p, q) && !strings.HasPrefix(q, p),
				both && a.n.name == "endsWith" && !strings.HasSuffix(p, q) && !strings.HasSuffix(q, p):
				return true
			}
		}
	}
	return false
}

// implies reports whether every text that passes one test passes another one: what starts with ab starts with a.
func implies(test, text, other, part string) bool {
	switch other {
	case "contains":
		return strings.Contains(text, part)
	case "startsWith":
		return test == other && strings.HasPrefix(text, part)
	default:
		return test == other && strings.HasSuffix(text, part)
	}
}

// sameNode reports whether two nodes have the same value, whatever is read. Names of fields are printed as their place needs
// it, so their slots are compared.
func sameNode(a, b *node) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a == b {
		return true
	}
	if a.op == opCompare && b.op == opCompare && a.name == "==" && b.name == "==" &&
		sameNode(a.args[0], b.args[1]) && sameNode(a.args[1], b.args[0]) {
		return true
	}
	if a.op != b.op || a.index != b.index || a.slot != b.slot || len(a.args) != len(b.args) || a.list != b.list || a.mapping != b.mapping {
		return false
	}
	switch a.op {
	case opConst:
		return a.value.Kind() == b.value.Kind() && literal(a.value) == literal(b.value)
	case opField, opTakenField:
	case opAggregate, opAggregateTaken:
		return true // the index says all
	default:
		if a.name != b.name || !slices.Equal(a.names, b.names) {
			return false
		}
	}
	for i := range a.args {
		if !sameNode(a.args[i], b.args[i]) {
			return false
		}
	}
	return true
}
