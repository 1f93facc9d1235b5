package expression

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cepd/cepd/cep"
)

// String prints the node in the normal form: macros inlined, words instead of signs, brackets only where needed.
func (n *node) String() string { return n.within(0) }

// within prints the node as the operand of an operator.
func (n *node) within(around int) string {
	var b strings.Builder
	n.print(&b, around)
	return b.String()
}

// Precedences, those of expr's parser.
const (
	letPrecedence        = 1
	choicePrecedence     = 2
	coalescePrecedence   = 3
	orPrecedence         = 10
	andPrecedence        = 15
	comparePrecedence    = 20
	rangePrecedence      = 25
	addPrecedence        = 30
	notPrecedence        = 50
	multiplyPrecedence   = 60
	negatePrecedence     = 90
	powerPrecedence      = 100
	memberPrecedence     = 600
	noOperatorPrecedence = 1000
)

func (n *node) precedence() int {
	switch n.op {
	case opLet:
		return letPrecedence
	case opChoice:
		return choicePrecedence
	case opOr:
		return orPrecedence
	case opAnd:
		return andPrecedence
	case opCompare, opIn, opText:
		return comparePrecedence
	case opRange:
		return rangePrecedence
	case opArithmetic:
		switch n.name {
		case "+", "-":
			return addPrecedence
		case "**":
			return powerPrecedence
		}
		return multiplyPrecedence
	case opNot:
		return notPrecedence
	case opNegate:
		return negatePrecedence
	case opConst:
		if strings.HasPrefix(literal(n.value), "-") {
			return negatePrecedence
		}
	case opCoalesce:
		return coalescePrecedence
	default:
	}
	return noOperatorPrecedence
}

// print writes n, in brackets where it binds less tightly than what stands around it.
func (n *node) print(b *strings.Builder, around int) {
	own := n.precedence()
	if own < around {
		b.WriteByte('(')
		defer b.WriteByte(')')
	}
	list := func(args []*node) {
		for i, a := range args {
			if i > 0 {
				b.WriteString(", ")
			}
			a.print(b, 0)
		}
	}
	infix := func(word string, left, right int) {
		if n.args[0].op == opNot {
			// (not a) == b keeps its brackets, without them it is refused.
			left = noOperatorPrecedence
		}
		n.args[0].print(b, left)
		b.WriteString(word)
		n.args[1].print(b, right)
	}
	switch n.op {
	case opBad:
		b.WriteString("?")
	case opConst:
		b.WriteString(literal(n.value))
	case opEvent:
		b.WriteByte('e')
	case opField, opPrev, opStep, opSteps, opMatch, opTable, opVariable, opAlertField:
		b.WriteString(n.name)
	case opTakenField:
		if len(n.names) == 0 {
			n.args[0].print(b, memberPrecedence)
			return
		}
		if n.args[0].op != opPointer || !isName(n.names[0]) {
			n.args[0].print(b, memberPrecedence)
		}
		b.WriteString(printPath(".", n.names)[1:])
	case opTakenStep:
		if n.args[0].op != opPointer {
			n.args[0].print(b, memberPrecedence)
		}
		b.WriteString(".step")
	case opTakens, opAggregate, opAggregateTaken:
		n.args[0].print(b, around)
	case opAt:
		n.args[0].print(b, memberPrecedence)
		b.WriteByte('[')
		n.args[1].print(b, 0)
		b.WriteByte(']')
	case opIndex:
		n.printIndex(b)
	case opSlice:
		n.args[0].print(b, memberPrecedence)
		b.WriteByte('[')
		if n.args[1] != nil {
			n.args[1].print(b, 0)
		}
		b.WriteByte(':')
		if n.args[2] != nil {
			n.args[2].print(b, 0)
		}
		b.WriteByte(']')
	case opDuration:
		b.WriteString("duration")
	case opKey:
		b.WriteString(printPath("$key", []string{n.name}))
	case opNot:
		b.WriteString("not ")
		n.args[0].print(b, notPrecedence+1)
	case opNegate:
		b.WriteByte('-')
		n.args[0].print(b, negatePrecedence+1)
	case opAnd, opOr:
		word := " and "
		if n.op == opOr {
			word = " or "
		}
		for i, a := range n.args {
			if i > 0 {
				b.WriteString(word)
			}
			a.print(b, own+1)
		}
	case opCompare, opText:
		infix(" "+n.name+" ", own+1, own+1)
	case opIn:
		infix(" in ", own+1, own+1)
	case opRange:
		infix("..", own+1, own+1)
	case opArithmetic:
		if n.name == "**" {
			infix(" ** ", own+1, own)
		} else {
			infix(" "+n.name+" ", own, own+1)
		}
	case opCoalesce:
		// expr wants brackets around ?? beside any other operator.
		left := memberPrecedence
		if n.args[0].op == opCoalesce {
			left = own
		}
		infix(" ?? ", left, memberPrecedence)
	case opChoice:
		n.args[0].print(b, own+1)
		b.WriteString(" ? ")
		n.args[1].print(b, own+1)
		b.WriteString(" : ")
		n.args[2].print(b, own+1)
	case opArray:
		b.WriteByte('[')
		list(n.args)
		b.WriteByte(']')
	case opObject:
		b.WriteByte('{')
		for i, a := range n.args {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(strconv.Quote(n.names[i]))
			b.WriteString(": ")
			a.print(b, 0)
		}
		b.WriteByte('}')
	case opCall:
		b.WriteString(n.name)
		b.WriteByte('(')
		list(n.args)
		b.WriteByte(')')
	case opPredicate:
		b.WriteString(n.name)
		b.WriteByte('(')
		list(slices.DeleteFunc(slices.Clone(n.args), func(a *node) bool { return a == nil }))
		b.WriteByte(')')
	case opPointer:
		b.WriteByte('#')
	case opPosition:
		b.WriteString("#index")
	case opAccumulator:
		b.WriteString("#acc")
	case opLet:
		b.WriteString("let ")
		b.WriteString(n.name)
		b.WriteString(" = ")
		n.args[0].print(b, choicePrecedence)
		b.WriteString("; ")
		n.args[1].print(b, 0)
	}
}

func (n *node) printIndex(b *strings.Builder) {
	object, property := n.args[0], n.args[1]
	if property.op == opConst && property.kind == stringKind && isName(property.value.AsString()) {
		if object.op != opPointer {
			object.print(b, memberPrecedence)
		}
		b.WriteByte('.')
		b.WriteString(property.value.AsString())
		return
	}
	object.print(b, memberPrecedence)
	b.WriteByte('[')
	property.print(b, 0)
	b.WriteByte(']')
}

// printPath writes the names behind a root: user.name, e["@timestamp"].
func printPath(root string, path []string) string {
	var b strings.Builder
	b.WriteString(root)
	for i, p := range path {
		if !isName(p) {
			b.WriteByte('[')
			b.WriteString(strconv.Quote(p))
			b.WriteByte(']')
			continue
		}
		if root != "" || i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(p)
	}
	return b.String()
}

// isName says that a text can be written as a bare name.
func isName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != "" && !slices.Contains(operatorWords, s)
}

// operatorWords are operators of the language: as names of fields they need e["in"].
var operatorWords = []string{
	"not", "in", "or", "and", "matches", "contains", "startsWith", "endsWith", "let", "if", "else",
}

// literal prints a constant so that it reads back as the same value.
func literal(v cep.Value) string {
	switch v.Kind() {
	case cep.KindMissing, cep.KindNull:
		return "nil"
	case cep.KindBool:
		return strconv.FormatBool(v.AsBool())
	case cep.KindInt:
		return strconv.FormatInt(v.AsInt(), 10)
	case cep.KindFloat:
		s := strconv.FormatFloat(v.AsFloat(), 'g', -1, 64)
		if !strings.ContainsAny(s, ".eIN") {
			s += ".0"
		}
		return s
	case cep.KindString:
		return strconv.Quote(v.AsString())
	case cep.KindTime:
		return "ts(" + strconv.Quote(v.AsTime().String()) + ")"
	case cep.KindDuration:
		return "duration(" + strconv.Quote(cep.Duration(v.AsInt()).String()) + ")"
	case cep.KindList:
		parts := make([]string, len(v.AsList()))
		for i, e := range v.AsList() {
			parts[i] = literal(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	default:
		parts := make([]string, len(v.AsObject()))
		for i, m := range v.AsObject() {
			parts[i] = strconv.Quote(m.Name) + ": " + literal(m.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
}
