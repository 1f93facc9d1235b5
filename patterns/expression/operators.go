package expression

import (
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/cepd/cepd/cep"
)

func (r *resolver) unary(n *ast.UnaryNode) *node {
	at := r.span(n.Location())
	switch n.Operator {
	case "not", "!":
		c := r.condition(n.Node)
		at.to = max(at.to, c.at.to)
		return r.fold(&node{op: opNot, kind: boolKind, at: at, args: []*node{c}})
	}
	v := r.value(n.Node)
	at.to = max(at.to, v.at.to)
	switch v.kind {
	case anyKind, numberKind, durationKind:
	default:
		return r.fail(at, codeType, "", "%s%s: %s has no sign", n.Operator, v, v.kind)
	}
	if n.Operator == "+" {
		return v
	}
	return r.fold(&node{op: opNegate, kind: v.kind, at: at, args: []*node{v}})
}

func (r *resolver) binary(n *ast.BinaryNode) *node {
	switch n.Operator {
	case "and", "&&":
		return r.join(opAnd, n)
	case "or", "||":
		return r.join(opOr, n)
	}
	left := r.node(n.Left)
	right := r.node(n.Right)
	at := span{r.macro, min(left.at.from, n.Location().From), max(right.at.to, n.Location().To)}
	operator := r.span(n.Location())
	if _, negated := n.Left.(*ast.UnaryNode); negated && left.op == opNot && comparesTo(n.Operator) &&
		!r.closed(left.at.from, n.Location().From) {
		// `not a == b` is `(not a) == b` in the grammar of expr; nobody means that.
		return r.fail(at, codeType, "write not ("+left.args[0].within(comparePrecedence+1)+" "+n.Operator+" "+right.within(comparePrecedence+1)+")",
			"not binds more tightly than %s", n.Operator)
	}
	switch n.Operator {
	case "==", "!=":
		return r.equality(n.Operator, left, right, at)
	case "<", "<=", ">", ">=":
		return r.ordering(n.Operator, left, right, at)
	case "in":
		return r.in(left, right, at)
	case "matches", "contains", "startsWith", "endsWith":
		return r.textTest(n.Operator, left, right, at)
	case "+", "-", "*", "/", "%", "**", "^":
		if at := n.Location().From; n.Operator == "-" && at+1 < len(r.tree.runes) && r.tree.runes[at+1] == '-' {
			return r.fail(operator, codeRefused, "a comment stands behind # behind the whole value, or between /* and */; to subtract what is negative write a - -b", "-- is no comment")
		}
		return r.arithmetic(n.Operator, left, right, at, operator)
	case "..":
		return r.rangeOf(left, right, at)
	case "??":
		return r.coalesce(left, right, at)
	}
	return r.fail(operator, codeRefused, "", "the operator %s is not offered", n.Operator)
}

// closed says that more brackets are closed than opened between two places of the text: what begins at the first stands
// in brackets of its own.
func (r *resolver) closed(from, to int) bool {
	depth := 0
	for _, c := range r.tree.runes[from:max(from, to)] {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		}
	}
	return depth < 0
}

func comparesTo(operator string) bool {
	switch operator {
	case "==", "!=", "<", "<=", ">", ">=", "in", "matches", "contains", "startsWith", "endsWith":
		return true
	}
	return false
}

// join flattens a and b and c into one node, which tests its parts in their order.
func (r *resolver) join(o op, n *ast.BinaryNode) *node {
	j := &node{op: o, kind: boolKind, at: r.span(n.Location())}
	// A chain leans to the left; it is no nesting, so it is not followed by recursion.
	sides := []ast.Node{n.Right}
	left := n.Left
	for {
		b, ok := left.(*ast.BinaryNode)
		if !ok || b.Operator != n.Operator {
			break
		}
		sides, left = append(sides, b.Right), b.Left
	}
	for _, side := range slices.Backward(append(sides, left)) {
		c := r.condition(side)
		j.at.from, j.at.to = min(j.at.from, c.at.from), max(j.at.to, c.at.to)
		if c.op == o {
			j.args = append(j.args, c.args...)
		} else {
			j.args = append(j.args, c)
		}
	}
	return r.fold(j)
}

func (r *resolver) equality(operator string, left, right *node, at span) *node {
	n := &node{op: opCompare, kind: boolKind, at: at, name: operator, args: []*node{left, right}}
	if left.isNil() || right.isNil() {
		// Whether a step took an event is asked of the step itself, not of the whole event as a value.
		for i, a := range n.args {
			switch a.kind {
			case takensKind:
				return r.fail(at, codeListAsEvent, "write len("+a.String()+") == 0", "%s is a list of events, which is never nil", a)
			case takenKind:
			default:
				n.args[i] = r.asValue(a)
			}
		}
		return r.fold(n)
	}
	if bad := r.lists(operator, left, right, at); bad != nil {
		return bad
	}
	if (left.kind == eventKind || left.kind == takenKind) != (right.kind == eventKind || right.kind == takenKind) {
		for _, a := range n.args {
			if bad := r.event(a); bad != nil {
				return bad
			}
		}
	}
	left, right = r.asValue(left), r.asValue(right)
	n.args = []*node{left, right}
	for i, a := range n.args {
		b := n.args[1-i]
		if a.op == opArithmetic && a.name != "+" && a.kind == anyKind && b.kind == stringKind {
			return r.fail(at, codeType, r.oddName(r.source(a.at)), "what %s calculates never equals a string", a.name)
		}
	}
	if left.kind != anyKind && right.kind != anyKind && left.kind != right.kind {
		return r.fail(at, codeType, unitHint(left, right), "%s never equals %s", left.kind, right.kind)
	}
	if left.op == opConst && right.op == opConst && left.kind == stringKind && r.macro == "" {
		r.problems.warn(at, codeIdle, r.oddName(left.value.AsString()), "both sides are texts, so this is the same for every event")
	}
	return r.fold(n)
}

// plainNumber is a text that is a number, and not of a kind that is written with a fixed length to be compared as a text,
// as 20270630 and 0800 are.
var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,6})(\.[0-9]+)?$`)

// oddName says how to write a field whose name is no plain word.
func (r *resolver) oddName(name string) string {
	if !r.place.Event || name == "" {
		return ""
	}
	return "e[" + literal(cep.String(name)) + "] is the field of this name"
}

// lists reports a comparison with a list of events.
func (r *resolver) lists(operator string, left, right *node, at span) *node {
	for i, a := range []*node{left, right} {
		if a.kind != takensKind {
			continue
		}
		other := right
		if i == 1 {
			other = left
		}
		hint := "take one event, " + a.String() + "[-1].field"
		if other.kind == numberKind {
			hint = "write len(" + a.String() + ") " + operator + " " + other.String()
		}
		return r.fail(at, codeListAsEvent, r.namesake(a, hint), "%s is a list of events and cannot be compared", a)
	}
	return nil
}

// unitHint helps where a time or duration meets a bare number or text.
func unitHint(left, right *node) string {
	for _, pair := range [][2]*node{{left, right}, {right, left}} {
		a, b := pair[0], pair[1]
		switch {
		case a.op == opConst && b.op == opConst && a.kind == stringKind:
			return "e[" + literal(a.value) + "] is the field of this name"
		case a.kind == durationKind && b.kind == numberKind:
			return "write seconds(" + a.String() + "), or a duration: duration(\"10s\")"
		case a.kind == durationKind && b.kind == stringKind:
			return "write duration(" + b.String() + ")"
		case a.kind == timeKind && b.kind == stringKind, a.kind == timeKind && b.kind == numberKind:
			return "write ts(" + b.String() + ")"
		case a.op == opCall && a.name == "weekday":
			return "the days are 0 for Sunday to 6 for Saturday"
		case a.op == opCall && a.name == "concat":
			return "a + b joins strings, concat lists"
		case a.kind == numberKind && b.kind == stringKind && b.op == opConst:
			return "write the number without quotes"
		}
	}
	return ""
}

func (r *resolver) ordering(operator string, left, right *node, at span) *node {
	if bad := r.lists(operator, left, right, at); bad != nil {
		return bad
	}
	for _, a := range []*node{left, right} {
		if bad := r.event(a); bad != nil {
			return bad
		}
	}
	left, right = r.asValue(left), r.asValue(right)
	for _, a := range []*node{left, right} {
		switch a.kind {
		case anyKind, numberKind, stringKind, timeKind, durationKind, boolKind:
		default:
			return r.fail(a.at, codeType, "", "%s has no order", a.kind)
		}
	}
	if left.kind != anyKind && right.kind != anyKind && left.kind != right.kind {
		return r.fail(at, codeType, unitHint(left, right), "%s and %s have no order", left.kind, right.kind)
	}
	for i, a := range []*node{right, left} {
		other := left
		if i == 1 {
			other = right
		}
		if a.op != opConst || a.kind != stringKind || other.op == opConst || other.kind == stringKind {
			continue
		}
		if plainNumber.MatchString(a.value.AsString()) {
			r.problems.warn(a.at, codeText, "write the number without quotes", "texts are compared letter by letter, and a number is neither less nor greater than a text")
		}
	}
	return r.fold(&node{op: opCompare, kind: boolKind, at: at, name: operator, args: []*node{left, right}})
}

func (r *resolver) in(left, right *node, at span) *node {
	if left.kind == takensKind {
		return r.fail(left.at, codeListAsEvent, r.namesake(left, "any("+left.String()+", .field in …) asks whether one of them is"), "%s is a list of events", left)
	}
	if bad := r.event(left); bad != nil {
		return bad
	}
	left = r.asValue(left)
	n := &node{op: opIn, kind: boolKind, at: at, args: []*node{left, right}}
	switch right.kind {
	case tableKind:
		if right.mapping != nil {
			return r.fail(right.at, codeType, "lookup("+right.name+", x) != nil asks whether the map has x", "%s is a map, not a list", right.name)
		}
		return n
	case takensKind:
		return r.fail(right.at, codeListAsEvent, r.namesake(right, "write "+left.String()+" in map("+right.String()+", .field)"), "%s is a list of events, not of values", right)
	case takenKind:
		if left.op != opConst { // "name" in ok asks whether the event has the field
			return r.event(right)
		}
	default:
	}
	right = r.asValue(right)
	n.args[1] = right
	switch right.kind {
	case anyKind, listKind, objectKind:
	case stringKind:
		hint := "write " + right.String() + " contains " + left.String()
		if right.op == opConst && left.op != opConst {
			hint = "a list stands in square brackets: " + left.within(comparePrecedence+1) + " in [" + right.String() + "]"
		}
		return r.fail(at, codeType, hint, "in asks for an element of a list, not for a part of a string")
	default:
		return r.fail(right.at, codeType, "in needs a list: [a, b] or $list", "%s is not a list", right.kind)
	}
	return r.fold(n)
}

func (r *resolver) textTest(operator string, left, right *node, at span) *node {
	for _, a := range []*node{left, right} {
		if a.kind == takensKind {
			return r.fail(a.at, codeListAsEvent, r.namesake(a, "any("+a.String()+", .field "+operator+" …) asks whether one of them does"), "%s is a list of events", a)
		}
		if bad := r.event(a); bad != nil {
			return bad
		}
	}
	left, right = r.asValue(left), r.asValue(right)
	for _, a := range []*node{left, right} {
		switch a.kind {
		case anyKind, stringKind:
		case listKind:
			hint := "any(list, # " + operator + " …) asks whether one of them does"
			if operator == "contains" && a == left {
				hint = "write x in list"
			}
			return r.fail(a.at, codeType, hint, "%s is a test of strings, this is %s", operator, a.kind)
		default:
			return r.fail(a.at, codeType, "string(x) makes one", "%s is a test of strings, this is %s", operator, a.kind)
		}
	}
	n := &node{op: opText, kind: boolKind, at: at, name: operator, args: []*node{left, right}}
	if operator == "matches" {
		if right.op != opConst {
			if right.op != opBad {
				r.problems.warn(right.at, codeRegexp, "write it into the rule, or use like", "the regular expression is not constant: it is compiled anew when it changes")
			}
			return n
		}
		re, err := regexp.Compile(right.value.AsString())
		if err != nil {
			return r.fail(right.at, codeLiteral, "the syntax is RE2: no look-around, no back references", "malformed regular expression: %s",
				strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
		n.text = re
	}
	return r.fold(n)
}

func (r *resolver) rangeOf(left, right *node, at span) *node {
	left, right = r.asValue(left), r.asValue(right)
	for _, a := range []*node{left, right} {
		if a.kind != anyKind && a.kind != numberKind {
			return r.fail(a.at, codeType, "", "a range runs from a number to a number, this is %s", a.kind)
		}
	}
	if left.op == opConst && right.op == opConst {
		from, to := left.value.AsInt(), right.value.AsInt()
		if to-from >= maxRange || to-from < 0 && to > from {
			return r.fail(at, codeRange, "write "+left.String()+" <= x and x <= "+right.String(), "a range has at most %d elements", maxRange)
		}
	}
	return r.fold(&node{op: opRange, kind: listKind, at: at, args: []*node{left, right}})
}

func (r *resolver) coalesce(left, right *node, at span) *node {
	left, right = r.asValue(left), r.asValue(right)
	k := left.kind
	if right.kind != k {
		k = anyKind
	}
	return r.fold(&node{op: opCoalesce, kind: k, at: at, args: []*node{left, right}})
}

// arithmetic checks what can be calculated with what: numbers, times and durations, and + joins strings.
func (r *resolver) arithmetic(operator string, left, right *node, at, sign span) *node {
	for _, a := range []*node{left, right} {
		if a.kind == takensKind {
			return r.fail(a.at, codeListAsEvent, r.namesake(a, "sum("+a.String()+", .field) adds up"), "%s is a list of events, not a number", a)
		}
		if bad := r.event(a); bad != nil {
			return bad
		}
	}
	left, right = r.asValue(left), r.asValue(right)
	if operator == "^" {
		operator = "**"
	}
	if left.isNil() || right.isNil() {
		return r.fail(at, codeType, "x ?? 0 gives a number in its place", "nil is no number")
	}
	k, ok := arithmeticKind(operator, left.kind, right.kind)
	if !ok {
		hint := ""
		switch {
		case operator == "+" && (left.kind == stringKind || right.kind == stringKind):
			hint = "string(x) makes a string"
		case left.kind == timeKind && right.kind == numberKind:
			hint = `write a duration: ts(e) ` + operator + ` duration("10s")`
		}
		return r.fail(sign, codeType, hint, "%s %s %s cannot be calculated", left.kind, operator, right.kind)
	}
	return r.fold(&node{op: opArithmetic, kind: k, at: at, name: operator, args: []*node{left, right}})
}

// arithmeticKind gives the kind of a result, and ok false for operands that can never be calculated with.
func arithmeticKind(operator string, left, right kind) (_ kind, ok bool) {
	calculable := func(k kind) bool {
		switch k {
		case anyKind, numberKind, timeKind, durationKind:
			return true
		case stringKind:
			return operator == "+"
		default:
			return false
		}
	}
	if !calculable(left) || !calculable(right) {
		return anyKind, false
	}
	if left == anyKind || right == anyKind {
		if operator == "%" || operator == "**" {
			known := max(left, right)
			return numberKind, known == anyKind || known == numberKind
		}
		return anyKind, true
	}
	switch {
	case left == numberKind && right == numberKind:
		return numberKind, true
	case left == stringKind && right == stringKind:
		return stringKind, true
	case left == timeKind && right == timeKind && operator == "-":
		return durationKind, true
	case left == timeKind && right == durationKind && (operator == "+" || operator == "-"):
		return timeKind, true
	case left == durationKind && right == timeKind && operator == "+":
		return timeKind, true
	case left == durationKind && right == durationKind && (operator == "+" || operator == "-"):
		return durationKind, true
	case left == durationKind && right == durationKind && operator == "/":
		return numberKind, true
	case left == durationKind && right == numberKind && (operator == "*" || operator == "/"),
		left == numberKind && right == durationKind && operator == "*":
		return durationKind, true
	}
	return anyKind, false
}

// fold replaces a constant node by its value.
func (r *resolver) fold(n *node) *node {
	for _, a := range n.args {
		if a == nil || a.op != opConst {
			return n
		}
	}
	if len(n.args) == 0 && n.op != opArray {
		return n
	}
	v, err := compileValue(n)(&cep.Scope{}, newFrame())
	if err != nil {
		return r.fail(n.at, codeEvaluation, "", "%s", err)
	}
	if v.IsMissing() || !writable(v) {
		return n
	}
	return constant(n.at, v)
}

// writable says that a value can be written as a literal: it holds nothing missing and no infinity. A result that is null
// stays a calculation too: x == nil asks for absence, x == [nil][0] is false.
func writable(v cep.Value) bool {
	switch v.Kind() {
	case cep.KindFloat:
		f := v.AsFloat()
		return f-f == 0
	case cep.KindList:
		return !slices.ContainsFunc(v.AsList(), func(e cep.Value) bool { return !writable(e) })
	case cep.KindObject:
		return !slices.ContainsFunc(v.AsObject(), func(m cep.Member) bool { return !writable(m.Value) })
	default:
		return v.Kind() != cep.KindMissing
	}
}
