package expression

// lint warns of conditions that are true where their author may not expect it: a negated comparison holds for every
// event that lacks the field. What is asked for by name, field != nil, is known to be there.
func (r *resolver) lint(n *node) {
	present := map[string]bool{}
	n.walk(func(m *node) bool {
		if m.op == opCompare && m.name == "!=" && (m.args[0].isNil() || m.args[1].isNil()) {
			present[m.args[0].String()], present[m.args[1].String()] = true, true
		}
		return true
	})
	n.walk(func(m *node) bool {
		if m.op != opNot || m.args[0].op != opCompare {
			return true
		}
		c := m.args[0]
		if c.args[0].isNil() || c.args[1].isNil() || c.name == "!=" {
			return true
		}
		for _, a := range c.args {
			if a.op != opField && a.op != opTakenField || present[a.String()] {
				continue
			}
			hint := "add " + a.String() + " != nil and"
			if turned, ok := opposite[c.name]; ok && (c.args[0].op == opConst || c.args[1].op == opConst) {
				hint = "write " + c.args[0].String() + " " + turned + " " + c.args[1].String()
			}
			r.problems.warn(m.at, codeNot, hint, "this is also true for an event without %s", a)
			break
		}
		return true
	})
}

var opposite = map[string]string{"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
