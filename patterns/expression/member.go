package expression

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

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
			return &node{op: opTakenStep, kind: stringKind, at: at, args: []*node{object}, stepNames: r.place.stepNames()}
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
