package expression

import (
	"maps"
	"regexp"
	"slices"
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

// identifier resolves a bare name.
func (r *resolver) identifier(name string, at span) *node {
	for i, v := range slices.Backward(r.variables) {
		if v.name == name {
			return &node{op: opVariable, kind: v.kind, at: at, name: name, index: i}
		}
	}
	p := r.place
	if strings.HasPrefix(name, "$") {
		return r.dollar(name, at)
	}
	if p.Own != "" && name == p.Own && p.Event {
		return &node{op: opEvent, kind: eventKind, at: at}
	}
	for i, f := range p.Fields {
		if f == name {
			return &node{op: opAlertField, at: at, name: name, index: i}
		}
	}
	for _, s := range p.Steps {
		if s.Name == name {
			return r.step(s, at)
		}
	}
	switch name {
	case "e":
		if !p.Event {
			return r.fail(at, codePlace, r.stepHint(""), "%s has no current event", r.eventless())
		}
		return &node{op: opEvent, kind: eventKind, at: at}
	case "prev":
		if !p.Prev {
			return r.fail(at, codePlace, r.fieldHint(name), "prev cannot be used here")
		}
		return &node{op: opPrev, kind: takenKind, at: at, name: name, origin: origin{prev: true}}
	case "taken":
		if !p.Taken {
			return r.fail(at, codePlace, r.fieldHint(name), "taken can be used only in the condition of a step: it is what this step has taken so far")
		}
		return r.takens(p.OwnIndex, name, at)
	case "match", "duration":
		if !p.Match {
			return r.fail(at, codePlace, r.fieldHint(name), "%s cannot be used here", name)
		}
		if name == "duration" {
			return &node{op: opDuration, kind: durationKind, at: at}
		}
		return &node{op: opMatch, kind: takensKind, at: at, name: name, origin: origin{all: true}}
	}
	if slices.Contains(p.Later, name) {
		return r.fail(at, codeLater, r.fieldHint(name), "step %q stands behind this place: it has taken nothing yet", name)
	}
	if slices.Contains(p.Hidden, name) {
		return r.fail(at, codePlace, r.fieldHint(name), "what %q took cannot be read here: only the current event can", name)
	}
	if !p.Event {
		return r.unknown(name, at)
	}
	if h, ok := foreignWords[name]; ok {
		return r.fail(at, codeName, h+"; e."+name+" is the field", "there is no constant %s", name)
	}
	return r.eventField([]string{name}, at)
}

// foreignWords are constants of other languages: as fields they would be missing in every event, and the rule silent.
var foreignWords = map[string]string{
	"null": "write nil", "None": "write nil", "undefined": "write nil", "NULL": "write nil",
	"True": "write true", "False": "write false", "TRUE": "write true", "FALSE": "write false",
}

// unknown reports a bare name in an alert, where there is no current event.
func (r *resolver) unknown(name string, at span) *node {
	var known []string
	for _, s := range r.place.Steps {
		known = append(known, s.Name)
	}
	known = append(known, r.place.Fields...)
	if hint := didYouMean(name, known); hint != "" {
		return r.fail(at, codeName, hint, "unknown name %q", name)
	}
	path := name + r.members(at)
	if len(r.scopes) > 0 {
		return r.fail(at, codePlace, "write ."+path+" for the field of the element", "%s has no current event, so there is no field %q", r.eventless(), name)
	}
	return r.fail(at, codePlace, r.stepHint(path), "%s has no current event, so there is no field %q", r.eventless(), name)
}

// members is what is written behind a name to reach into it: .address.city.
func (r *resolver) members(at span) string {
	if at.to > len(r.tree.runes) {
		return ""
	}
	return membersBehind.FindString(string(r.tree.runes[at.to:]))
}

var membersBehind = regexp.MustCompile(`^(\??\.[A-Za-z_]\w*|\["[^"\]]*"\])*`)

// eventless names the place without a current event.
func (r *resolver) eventless() string {
	if r.place.Having {
		return "having"
	}
	return "an alert"
}

// stepHint says how to write a field of an event that was taken: of the loop that having is about, else of the last
// single step.
func (r *resolver) stepHint(field string) string {
	if field == "" {
		field = "field"
	}
	for _, s := range slices.Backward(r.place.Steps) {
		if !s.List && !r.place.Having {
			return "write " + s.Name + "." + field
		}
	}
	for _, s := range slices.Backward(r.place.Steps) {
		return "write " + s.Name + "[-1]." + field
	}
	return ""
}

// fieldHint says how to read a field whose name has another meaning.
func (r *resolver) fieldHint(name string) string {
	if r.place.Event {
		return "e." + name + " is the field of the current event"
	}
	return ""
}

// dollar resolves $key, a list, a map or a macro.
func (r *resolver) dollar(name string, at span) *node {
	p, bare := r.place, name[1:]
	if bare == "key" {
		if len(p.Key) == 0 {
			return r.fail(at, codeConstant, "", "the rule has no key: there is no by")
		}
		return r.fail(at, codeConstant, "write $key."+p.Key[0], "$key is not a value itself, its parts are")
	}
	if l, ok := p.Lists[bare]; ok {
		return &node{op: opTable, kind: tableKind, at: at, name: name, list: l}
	}
	if m, ok := p.Maps[bare]; ok {
		return &node{op: opTable, kind: tableKind, at: at, name: name, mapping: m}
	}
	if text, ok := p.Macros[bare]; ok {
		return r.inline(bare, text, at)
	}
	known := slices.Collect(maps.Keys(p.Lists))
	known = slices.AppendSeq(known, maps.Keys(p.Maps))
	known = slices.AppendSeq(known, maps.Keys(p.Macros))
	slices.Sort(known)
	hint := ""
	if c := Nearest(bare, known); c != "" {
		hint = `did you mean "$` + c + `"?`
	} else if bare == p.Own || slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Name == bare }) {
		hint = "a step has no $: write " + bare
	} else if slices.Contains(p.Key, bare) {
		hint = "write $key." + bare
	}
	return r.fail(at, codeConstant, hint, "unknown name %q: no list, map or macro has it", name)
}

// inline resolves a macro in its place.
func (r *resolver) inline(name, text string, at span) *node {
	if slices.Contains(r.macros, name) {
		return r.fail(at, codeMacro, "", "macro $%s uses itself: $%s", name, strings.Join(append(slices.Clone(r.macros), name), " > $"))
	}
	t, problem := parse(text, name)
	if problem != nil {
		r.problems = append(r.problems, *problem)
		return r.bad(at)
	}
	// A macro means the same wherever it stands: it sees no variables; # in it outside of a predicate does not parse.
	macro, variables := r.macro, r.variables
	r.macro, r.macros = name, append(r.macros, name)
	r.variables = make([]variable, len(variables))
	n := r.resolve(t)
	r.macro, r.macros, r.variables = macro, r.macros[:len(r.macros)-1], variables
	// What is wrong inside has been reported there; what does not fit outside is shown where the macro is used.
	n.at = at
	return n
}

// step resolves a step's name.
func (r *resolver) step(s Step, at span) *node {
	if s.List {
		return r.takens(s.Index, s.Name, at)
	}
	return &node{op: opStep, kind: takenKind, at: at, name: s.Name, index: s.Index, origin: origin{steps: []int{s.Index}}}
}

func (r *resolver) takens(step int, name string, at span) *node {
	return &node{op: opSteps, kind: takensKind, at: at, name: name, index: step, origin: origin{steps: []int{step}}}
}

func (r *resolver) stepNames() map[int]string {
	names := map[int]string{}
	for _, s := range r.place.Steps {
		names[s.Index] = s.Name
	}
	if r.place.Own != "" {
		names[r.place.OwnIndex] = r.place.Own
	}
	return names
}

// eventField is a field of the current event, the whole of it where the path is empty. Its slot is given out when the
// whole expression stands: user.name must not make the decoder read user.
func (r *resolver) eventField(path []string, at span) *node {
	n := &node{op: opField, at: at, names: path, name: r.fieldName(path)}
	if len(path) == 0 {
		n.kind = objectKind
	}
	return n
}

func (r *resolver) takenField(item *node, path []string, at span) *node {
	n := &node{op: opTakenField, at: at, args: []*node{item}, names: path}
	if len(path) == 0 {
		n.kind = objectKind
	}
	return n
}

// fieldName prints a path of the current event so that it cannot be taken for another name of the rule.
func (r *resolver) fieldName(path []string) string {
	if len(path) == 0 {
		return "e"
	}
	_, foreign := foreignWords[path[0]]
	if !isName(path[0]) || foreign || slices.Contains(reservedNames, path[0]) || path[0] == r.place.Own ||
		slices.Contains(r.place.Later, path[0]) || slices.Contains(r.place.Hidden, path[0]) ||
		slices.ContainsFunc(r.place.Steps, func(s Step) bool { return s.Name == path[0] }) {
		return printPath("e", path)
	}
	return printPath("", path)
}

// reservedNames have a meaning of their own in every place.
var reservedNames = []string{"e", "prev", "taken", "match", "duration", "true", "false", "nil"}

// pointer resolves #, .field's element, #index and #acc.
func (r *resolver) pointer(name string, at span) *node {
	if len(r.scopes) == 0 {
		return r.fail(at, codePlace, "", "# means the element of any, all, map and the like, and stands only inside them")
	}
	i := len(r.scopes) - 1
	s := r.scopes[i]
	at.to += len([]rune(name))
	switch name {
	case "":
		return &node{op: opPointer, kind: s.element, at: at, index: i, origin: s.origin}
	case "index":
		return &node{op: opPosition, kind: numberKind, at: at, index: i}
	case "acc":
		if !s.reduce {
			return r.fail(at, codePlace, "", "#acc stands only inside reduce")
		}
		return &node{op: opAccumulator, at: at, index: i}
	}
	return r.fail(at, codeName, didYouMean(name, []string{"index", "acc"}), "there is no #%s", name)
}

// member resolves x.name and x[y].
func (r *resolver) member(n *ast.MemberNode) *node {
	at := r.span(n.Location())
	if id, ok := n.Node.(*ast.IdentifierNode); ok && id.Value == "$key" {
		return r.keyPart(n, at)
	}
	object := r.node(n.Node)
	at.from = min(at.from, object.at.from)
	name, named := n.Property.(*ast.StringNode)
	at.to = max(at.to, r.span(location(n.Property)).to)
	if !named {
		at.to++
	}
	switch object.kind {
	case takensKind:
		if named {
			hint := "write " + object.String() + "[-1]." + name.Value + ", or map(" + object.String() + ", ." + name.Value + ")"
			return r.fail(at, codeListAsEvent, hint, "%s is a list of events, it has no field %s", object, name.Value)
		}
		return r.at(object, n.Property, at)
	case takenKind:
		switch {
		case named && name.Value == "step" && object.origin.all:
			return &node{op: opTakenStep, kind: stringKind, at: at, args: []*node{object}, stepNames: r.stepNames()}
		case named:
			return r.takenField(object, []string{name.Value}, at)
		case notIndex(n.Property):
			return r.index(r.asValue(object), n.Property, at)
		}
		return r.fail(at, codeEventAsList, "write "+object.String()+".field", "%s is one event, not a list", object)
	case eventKind:
		switch {
		case named:
			return r.eventField([]string{name.Value}, at)
		case notIndex(n.Property):
			return r.index(r.asValue(object), n.Property, at)
		}
		return r.fail(at, codeEventAsList, "write e.field", "e is one event, not a list")
	case tableKind:
		return r.asValue(object)
	default:
	}
	if named && object.op == opField && len(object.names) > 0 {
		return r.eventField(append(slices.Clone(object.names), name.Value), at)
	}
	if named && object.op == opTakenField && len(object.names) > 0 {
		return r.takenField(object.args[0], append(slices.Clone(object.names), name.Value), at)
	}
	return r.index(object, n.Property, at)
}

// notIndex says that a property is not a number, so that it can be the name of a field.
func notIndex(n ast.Node) bool {
	if u, ok := n.(*ast.UnaryNode); ok {
		n = u.Node
	}
	_, number := n.(*ast.IntegerNode)
	return !number
}

func (r *resolver) keyPart(n *ast.MemberNode, at span) *node {
	at.from = min(at.from, r.span(n.Node.Location()).from)
	name, ok := n.Property.(*ast.StringNode)
	if !ok {
		return r.fail(at, codeConstant, "", "a part of the key is named: $key.user")
	}
	i := slices.Index(r.place.Key, name.Value)
	if i < 0 {
		hint := didYouMean(name.Value, r.place.Key)
		if hint == "" && len(r.place.Key) > 0 {
			hint = "the parts are " + strings.Join(r.place.Key, ", ")
		}
		return r.fail(at, codeConstant, hint, "the key has no part %q", name.Value)
	}
	return &node{op: opKey, at: at, name: name.Value, index: i}
}

// at resolves list[i] of taken events.
func (r *resolver) at(list *node, property ast.Node, at span) *node {
	i := r.value(property)
	if i.kind != anyKind && i.kind != numberKind {
		return r.fail(i.at, codeType, "", "a position in a list is a number, this is %s", i.kind)
	}
	return &node{op: opAt, kind: takenKind, at: at, args: []*node{list, i}, origin: list.origin}
}

// index resolves a member or element of a value.
func (r *resolver) index(object *node, property ast.Node, at span) *node {
	i := r.value(property)
	switch object.kind {
	case anyKind, listKind, objectKind:
	case stringKind:
		if i.kind == stringKind {
			return r.fail(at, codeType, "", "a string has no members")
		}
	default:
		return r.fail(at, codeType, "", "%s has no members", object.kind)
	}
	return r.fold(&node{op: opIndex, at: at, args: []*node{object, i}})
}

func (r *resolver) slice(n *ast.SliceNode) *node {
	at := r.span(n.Location())
	list := r.node(n.Node)
	at.from = min(at.from, list.at.from)
	s := &node{op: opSlice, kind: list.kind, at: at, args: []*node{list, nil, nil}, origin: list.origin}
	switch list.kind {
	case takensKind, anyKind, listKind, stringKind:
	case takenKind, eventKind:
		return r.fail(at, codeEventAsList, "", "%s is one event, not a list", list)
	default:
		return r.fail(at, codeType, "", "%s cannot be sliced", list.kind)
	}
	for i, bound := range []ast.Node{n.From, n.To} {
		if bound == nil {
			continue
		}
		b := r.value(bound)
		if b.kind != anyKind && b.kind != numberKind {
			return r.fail(b.at, codeType, "", "a position in a list is a number, this is %s", b.kind)
		}
		s.args[i+1] = b
		s.at.to = max(s.at.to, b.at.to+1)
	}
	return s
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
