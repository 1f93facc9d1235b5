package expression

// Bare is a field of the current event that stands where something else is usual: its name may be a slip.
type Bare struct {
	Name string
	// Offset is where it stands in the text of the expression, in runes.
	Offset int
	Role   Role
}

// Role says what is usual in a place.
type Role uint8

// The roles.
const (
	// Events is the place of what a step took: len(x), any(x, …), x[-1].
	Events Role = iota
	// Values is the place of a list: user in x.
	Values
	// Test is the place of a condition: x and y.
	Test
)

// Bare returns the fields of an expression, in no macro, that stand where a step, a list or a macro is usual.
func (t *Trees) Bare(x *Expr) []Bare {
	var all []Bare
	add := func(n *node, role Role) {
		if n.op == opField && len(n.names) == 1 && n.at.macro == "" {
			all = append(all, Bare{n.names[0], n.at.from, role})
		}
	}
	root := t.roots[x]
	if root == nil {
		return nil
	}
	add(root, Test)
	root.walk(func(n *node) bool {
		switch n.op {
		case opPredicate:
			add(n.args[0], Events)
		case opCall:
			if n.name == "len" {
				add(n.args[0], Events)
			}
		case opIndex:
			if i := n.args[1]; i.op == opConst && i.kind == numberKind {
				add(n.args[0], Events)
			}
		case opIn:
			add(n.args[1], Values)
		case opAnd, opOr, opNot:
			for _, a := range n.args {
				add(a, Test)
			}
		default:
		}
		return true
	})
	return all
}
