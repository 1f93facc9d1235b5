package expression

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"

	"github.com/cepd/cepd/cep"
)

// resolver turns a parsed text into nodes: it finds out what names mean, inlines macros, checks types and arguments.
type resolver struct {
	place    *Place
	problems problems
	// tree and macro are the text that is being looked at, macros the names of those around it.
	tree   *tree
	macro  string
	macros []string
	// scopes are the predicates around, variables the let bindings around.
	scopes       []scope
	variables    []variable
	nodes, depth int
	overflow     bool
}

// scope is a predicate that is being resolved.
type scope struct {
	element kind
	origin  origin
	reduce  bool
}

type variable struct {
	name string
	kind kind
}

// resolve gives the node of a tree, opBad where there is a mistake in it.
func (r *resolver) resolve(t *tree) *node {
	outer := r.tree
	r.tree = t
	n := r.node(t.root)
	r.tree = outer
	return n
}

func (r *resolver) bad(at span) *node { return &node{op: opBad, at: at} }

func (r *resolver) fail(at span, code, hint, format string, args ...any) *node {
	r.problems.add(at, code, hint, format, args...)
	return r.bad(at)
}

func (r *resolver) span(l file.Location) span { return span{r.macro, l.From, l.To} }

// node resolves one node of the parser.
func (r *resolver) node(n ast.Node) *node {
	at := r.span(location(n))
	if r.overflow {
		return r.bad(at)
	}
	r.nodes++
	r.depth++
	defer func() { r.depth-- }()
	if r.nodes > maxNodes || r.depth > maxDepth {
		r.overflow = true
		if r.depth > maxDepth {
			return r.fail(at, codeSize, "split it into steps", "the expression is nested more than %d levels deep", maxDepth)
		}
		return r.fail(at, codeSize, "split it into steps", "the expression has more than %d parts, macros included", maxNodes)
	}
	switch n := n.(type) {
	case *ast.NilNode:
		return constant(at, cep.Null)
	case *ast.BoolNode:
		return constant(at, cep.Bool(n.Value))
	case *ast.IntegerNode:
		return constant(at, cep.Int(int64(n.Value)))
	case *ast.FloatNode:
		return constant(at, cep.Float(n.Value))
	case *ast.StringNode:
		r.escapes(n.Value, at)
		return constant(at, cep.String(n.Value))
	case *ast.BytesNode:
		return r.fail(at, codeRefused, "write a plain string", "byte strings are not offered")
	case *ast.IdentifierNode:
		return r.identifier(n.Value, at)
	case *ast.ChainNode:
		// x?.y is x.y: a member of a missing value is missing anyway.
		return r.node(n.Node)
	case *ast.MemberNode:
		return r.member(n)
	case *ast.SliceNode:
		return r.slice(n)
	case *ast.UnaryNode:
		return r.unary(n)
	case *ast.BinaryNode:
		return r.binary(n)
	case *ast.ConditionalNode:
		return r.choice(n)
	case *ast.BuiltinNode:
		name := n.Name
		if spelled, ok := r.tree.renamed[n.Location().From]; ok {
			name = spelled
		}
		return r.call(name, r.span(n.Location()), n.Arguments)
	case *ast.CallNode:
		switch callee := n.Callee.(type) {
		case *ast.IdentifierNode:
			return r.call(callee.Value, r.span(callee.Location()), n.Arguments)
		case *ast.MemberNode:
			return r.method(n, callee)
		}
		return r.fail(at, codeRefused, "", "only functions can be called")
	case *ast.PointerNode:
		return r.pointer(n.Name, at)
	case *ast.ArrayNode:
		a := &node{op: opArray, kind: listKind, at: at}
		for _, m := range n.Nodes {
			a.args = append(a.args, r.value(m))
			a.at.to = max(a.at.to, a.args[len(a.args)-1].at.to+1)
		}
		return r.fold(a)
	case *ast.MapNode:
		return r.object(n, at)
	case *ast.VariableDeclaratorNode:
		return r.let(n, at)
	case *ast.SequenceNode:
		return r.fail(at, codeRefused, "join conditions with and", "several expressions with ; are not offered")
	case *ast.PredicateNode:
		return r.node(n.Node)
	}
	return r.fail(at, codeRefused, "", "this kind of expression is not offered")
}

// escapes warns of a text in which a backslash has made a character that nobody means: "C:\temp" has a tab, and "\bcmd" a
// backspace where a regular expression has the end of a word.
func (r *resolver) escapes(text string, at span) {
	i := strings.IndexAny(text, "\a\b\f\v")
	if i < 0 {
		if m := pathWithControl.FindStringIndex(text); m != nil {
			i = m[1] - 2
		}
	}
	if i < 0 {
		return
	}
	c := strings.Trim(strconv.Quote(text[i:i+1]), `"`)
	name := map[byte]string{'\a': "a bell", '\b': "a backspace", '\t': "a tab", '\n': "a new line", '\v': "a vertical tab", '\f': "a form feed", '\r': "a carriage return"}[text[i]]
	r.problems.warn(at, codeText, `write \`+c+` for a backslash`, "%s in a text is %s", c, name)
}

// pathWithControl is a path of Windows in which an escape has swallowed the beginning of a name.
var pathWithControl = regexp.MustCompile(`(?:^|\W)[A-Za-z]:[\w\\.]*[\t\n\r]\w`)

// location gives a node's place; some nodes of the parser have none or one behind them.
func location(n ast.Node) file.Location {
	switch n := n.(type) {
	case *ast.ConditionalNode:
		return location(n.Cond)
	case *ast.PredicateNode:
		return location(n.Node)
	case *ast.ChainNode:
		return location(n.Node)
	}
	return n.Location()
}

// value resolves a node that must be a value: events become objects, conditions stay what they are.
func (r *resolver) value(n ast.Node) *node { return r.asValue(r.node(n)) }

// asValue makes a value of a node: a whole event where it is an event.
func (r *resolver) asValue(n *node) *node {
	switch n.kind {
	case eventKind:
		return r.eventField(nil, n.at)
	case takenKind:
		return r.takenField(n, nil, n.at)
	case takensKind:
		return &node{op: opTakens, kind: listKind, at: n.at, args: []*node{n}}
	case tableKind:
		what, hint := "list", "x in "+n.name
		if n.mapping != nil {
			what, hint = "map", "lookup("+n.name+", x)"
		}
		return r.fail(n.at, codeType, "write "+hint, "the %s %s is no value", what, n.name)
	default:
		return n
	}
}

// source is what was written at a place of the text that is being looked at.
func (r *resolver) source(at span) string {
	runes := r.tree.runes
	if at.macro != r.macro || at.to > len(runes) {
		return ""
	}
	return string(runes[at.from:at.to])
}

// event reports an event where a value must stand: a step is named, and one of its fields is meant, or the field of the
// current event that has the name of the step. It is nil where n is none.
func (r *resolver) event(n *node) *node {
	if n.kind != eventKind && n.kind != takenKind {
		return nil
	}
	switch name := r.source(n.at); {
	case n.op == opEvent && name == r.place.Own:
		return r.fail(n.at, codeType, "write "+name+".field, or e."+name+" for the field of this name", "%s is the step itself, which is the whole event under test and no value", name)
	case n.op == opEvent:
		return r.fail(n.at, codeType, "write e.field", "e is the whole event and no value")
	case n.op == opStep:
		hint := "write " + n.name + ".field"
		if r.place.Event {
			hint += ", or e." + n.name + " for the field of the current event"
		}
		return r.fail(n.at, codeType, hint, "%s is the step, which is a whole event and no value", n.name)
	}
	return r.fail(n.at, codeType, "write "+n.String()+".field", "%s is a whole event and no value", n)
}

// namesake adds to a hint about what a step took how to read the field of the same name.
func (r *resolver) namesake(list *node, hint string) string {
	if list.op == opSteps && r.place.Event && list.name != "taken" {
		return hint + "; e." + list.name + " is the field of the current event"
	}
	return hint
}

// condition resolves a node that must be true or false.
func (r *resolver) condition(n ast.Node) *node { return r.asCondition(r.node(n)) }

func (r *resolver) asCondition(n *node) *node {
	switch n.kind {
	case anyKind, boolKind:
		return n
	case takenKind:
		return r.fail(n.at, codeType, n.String()+" != nil asks whether there is one", "%s is an event, not a condition", n)
	case takensKind:
		return r.fail(n.at, codeType, "len("+n.String()+") > 0 asks whether there are any", "%s is a list of events, not a condition", n)
	default:
	}
	hint := ""
	switch {
	case n.kind == nullKind:
		hint = "x == nil asks whether a field is missing"
	case n.kind == eventKind:
		return r.event(n)
	case n.op == opConst && n.kind == stringKind:
		hint = "what is compared stands before each: x == \"a\" or x == \"b\", or x in [\"a\", \"b\"]"
	}
	return r.fail(n.at, codeType, hint, "a condition must be true or false, this is %s", n.kind)
}

func (r *resolver) object(n *ast.MapNode, at span) *node {
	o := &node{op: opObject, kind: objectKind, at: at}
	for _, p := range n.Pairs {
		pair, ok := p.(*ast.PairNode)
		if !ok {
			continue
		}
		key, ok := pair.Key.(*ast.StringNode)
		if !ok {
			return r.fail(at, codeRefused, "", "the names in a map must be constant")
		}
		o.names = append(o.names, key.Value)
		v := r.value(pair.Value)
		o.args = append(o.args, v)
		o.at.to = max(o.at.to, v.at.to+1)
	}
	return o
}

func (r *resolver) let(n *ast.VariableDeclaratorNode, at span) *node {
	v := r.value(n.Value)
	r.variables = append(r.variables, variable{n.Name, v.kind})
	body := r.node(n.Expr)
	r.variables = r.variables[:len(r.variables)-1]
	body = r.asValue(body)
	return &node{op: opLet, kind: body.kind, at: at, args: []*node{v, body}, name: n.Name, index: len(r.variables)}
}

func (r *resolver) choice(n *ast.ConditionalNode) *node {
	c, a, b := r.condition(n.Cond), r.value(n.Exp1), r.value(n.Exp2)
	k := a.kind
	if b.kind != k {
		k = anyKind
	}
	return r.fold(&node{
		op: opChoice, kind: k, args: []*node{c, a, b},
		at: span{r.macro, min(c.at.from, a.at.from), max(b.at.to, c.at.to)},
	})
}

// method refuses x.f(y) and says how to write it.
func (r *resolver) method(n *ast.CallNode, callee *ast.MemberNode) *node {
	at := r.span(n.Location())
	name, ok := callee.Property.(*ast.StringNode)
	if !ok {
		return r.fail(at, codeRefused, "", "only functions can be called")
	}
	hint := functionHint(name.Value)
	if functions[name.Value] != nil {
		hint = "write " + name.Value + "(x)"
	}
	lower := strings.ToLower(name.Value)
	for word, h := range methodHints {
		if lower == word {
			hint = h
		}
	}
	return r.fail(at, codeRefused, hint, "values have no methods: there is no .%s()", name.Value)
}

var methodHints = map[string]string{
	"contains": `write x contains "y"`, "startswith": `write x startsWith "y"`, "endswith": `write x endsWith "y"`,
	"includes": `write "y" in x`, "length": "write len(x)", "tolowercase": "write lower(x)", "touppercase": "write upper(x)",
	"hours": "write hours(d)", "minutes": "write minutes(d)", "seconds": "write seconds(d)",
	"hour": "write hour(t)", "weekday": "write weekday(t)", "minute": "write minute(t)", "day": "write day(t)",
	"matches": `write x matches "y"`,
}
