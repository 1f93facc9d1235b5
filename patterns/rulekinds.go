package patterns

import (
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns/expression"
)

// newest checks that `keep: newest` has a meaning (S5.6).
func (c *ruleChecker) newest() {
	if !c.rule.Newest {
		return
	}
	for _, p := range c.parts {
		el := p.el
		if el.Kind == nfa.KindLeaf && !el.Absent && el.Max == 1 && !el.Optional && el.Link != nfa.Strict && el.Link != nfa.Any {
			continue
		}
		if c.own.keep == nil {
			c.rule.Newest = false // a default that has no meaning here
			return
		}
		c.fail(c.own.keep, codeNewest, "", "\"keep: newest\" is for relaxed single steps, and %q is something else", p.syntax.name.value)
		return
	}
}

// keys reads the keys that count as present from the beginning (S4.4).
func (c *ruleChecker) keys() {
	k := c.all.keys
	if k == nil {
		return
	}
	if !c.isAlone {
		if c.own.keys != nil {
			c.failAt(k.Pos, codeKeys, "", `"keys" is for a rule whose sequence is one absence`)
		}
		return
	}
	if k.list != nil {
		c.keysOfList(k.list)
		return
	}
	for _, parts := range k.keys {
		values := make([]cep.Value, len(parts))
		for i, t := range parts {
			values[i], _ = scalarValue(t.node)
		}
		if len(parts) == 0 || len(parts) != len(c.rule.Key) {
			c.fail(c.own.id, codeKeys, "", "a key of \"keys\" has %s, and the rule's key %s", count(len(parts), "part"), count(len(c.rule.Key), "part"))
			return
		}
		key, ok := cep.KeyOf(values...)
		if !ok {
			c.fail(parts[0], codeKeys, "", "%q cannot be part of a key", parts[0].value)
			continue
		}
		c.rule.Keys = append(c.rule.Keys, key)
	}
	c.sortKeys()
}

// keysOfList reads the keys of a list that is named.
func (c *ruleChecker) keysOfList(t *text) {
	name := t.value
	if len(name) > 0 && name[0] == '$' {
		name = name[1:]
	}
	values, ok := c.listValues[name]
	switch {
	case !ok:
		var names []string
		for n := range c.lists {
			names = append(names, n)
		}
		slices.Sort(names)
		c.fail(t, codeKeys, c.didYouMean(c.own.File, name, names), "there is no list %q", name)
		return
	case len(c.rule.Key) != 1:
		c.fail(t, codeKeys, `write the keys out: keys: [[a, b]]`, "a list gives keys of one part, and the rule's key has %s", count(len(c.rule.Key), "part"))
		return
	}
	for _, v := range values {
		if key, ok := cep.KeyOf(v); ok {
			c.rule.Keys = append(c.rule.Keys, key)
		}
	}
	c.sortKeys()
}

func (c *ruleChecker) sortKeys() {
	slices.Sort(c.rule.Keys)
	c.rule.Keys = slices.Compact(c.rule.Keys)
}

// openWords are the words of `while_open`, by [WhileOpen].
var openWords = []string{"count", "update", "new"}

// resolve checks the life of the alert (S7.3).
func (c *ruleChecker) resolve() {
	a := c.all.alert
	if a == nil {
		return
	}
	c.rule.Alert.WhileOpen = WhileOpen(slices.Index(openWords, c.word(a.whileOpen, "while_open", "count", openWords...)))
	c.rule.Alert.Repeat = c.duration(a.repeat, "repeat", false)
	s := a.resolve
	if s == nil {
		for key, t := range map[string]*text{"while_open": a.whileOpen, "repeat": a.repeat} {
			if t != nil {
				c.fail(t, codeResolve, `add "resolve"`, "%q has no meaning without \"resolve\": no alert is ever open", key)
			}
		}
		return
	}
	out := &Resolve{From: c.fromOf(s.from), By: c.common, Quiet: c.duration(s.quiet, "quiet", false)}
	if s.where == nil && s.quiet == nil {
		c.failAt(s.Pos, codeResolve, "", `"resolve" needs "where" or "quiet"`)
	}
	for _, t := range s.from {
		if !streamShape.MatchString(t.value) {
			c.fail(t, codeFrom, "letters, digits, _, - and ., at most 249", "%q cannot be the name of a stream", t.value)
		}
	}
	if s.where != nil {
		if len(out.From) == 0 {
			c.fail(s.where, codeFrom, `add "from: NAME" to "resolve"`, "\"resolve\" has no stream to read")
		}
		out.Where = c.compile(s.where, &expression.Place{Event: true, Condition: true})
		switch {
		case s.by != nil:
			name := &text{Pos: s.Pos, value: "resolve", width: 1, file: c.own.id.file, node: s.where.node}
			out.By = c.fit(name, s.by, c.keyParts(s.by))
		case len(c.rule.Key) > 0 && c.common == nil:
			c.fail(s.where, codeBy, `add "by" to "resolve"`, "the rule has no key of its own that \"resolve\" could use")
		}
	}
	c.rule.Alert.Resolve = out
}

// layers resolves which rules read which rules' alerts (S8), and reports circles.
func (c *checker) layers(rules []*Rule, at map[*Rule]*text) {
	byID := map[string]*Rule{}
	var plain []string // rules that read no alerts
	for _, r := range rules {
		byID[r.ID] = r
		if !readsAlerts(r) && !r.Shadow {
			plain = append(plain, r.ID)
		}
	}
	slices.Sort(plain)
	for _, r := range rules {
		if !readsAlerts(r) {
			continue
		}
		names, all := c.named(r)
		if all {
			r.Reads = append(r.Reads, plain...)
		}
		for _, name := range names {
			switch other := byID[name]; {
			case other == nil, other.Shadow:
				t := at[r]
				hint := ""
				if other == nil {
					hint = c.didYouMean(r.Pos.File, name, plain)
				}
				c.add(Diagnostic{
					Pos: t.Pos, Length: t.width, Code: codeNoRule, Rule: r.ID, Warning: true, Hint: hint, Excerpt: t.file.Line(t.Line),
					Message: "rule " + quoted(r.ID) + " reads the alerts of " + quoted(name) + ", and there are none",
				})
			default:
				r.Reads = append(r.Reads, name)
			}
		}
		slices.Sort(r.Reads)
		r.Reads = slices.Compact(r.Reads)
	}
	state := map[string]int{} // 1: under way, 2: done
	var path []string
	var visit func(r *Rule) bool
	visit = func(r *Rule) bool {
		switch state[r.ID] {
		case 1:
			t := at[r]
			circle := append(slices.Clone(path[slices.Index(path, r.ID):]), r.ID)
			c.mark(r.ID, t, codeCycle, "", "rules read each other's alerts in a circle: %s", joined(circle, " reads "))
			return false
		case 2:
			return true
		}
		state[r.ID] = 1
		path = append(path, r.ID)
		ok := true
		for _, name := range r.Reads {
			other := byID[name]
			ok = visit(other) && ok
			r.Layer = max(r.Layer, other.Layer+1)
		}
		path = path[:len(path)-1]
		state[r.ID] = 2
		return ok
	}
	for _, r := range rules {
		if !visit(r) {
			return // one circle at a time
		}
	}
}

// alerts is the stream of other rules' alerts.
const alerts = "alerts"

// readsAlerts reports whether a rule reads other rules' alerts, be it only to end its own.
func readsAlerts(r *Rule) bool {
	over := r.Alert.Resolve
	return slices.Contains(r.Streams, alerts) || over != nil && over.Where != nil && slices.Contains(over.From, alerts)
}

// named returns the rules that the conditions of a rule on the stream of alerts name; all says that some condition names
// none, so that it reads every rule that reads no alerts.
func (c *checker) named(r *Rule) (names []string, all bool) {
	of := func(from []string, where *expression.Expr) {
		if !slices.Contains(from, alerts) {
			return
		}
		found, ok := c.rulesIn(r.Where)
		own, okOwn := c.rulesIn(where)
		switch {
		case ok && okOwn:
			found = slices.DeleteFunc(found, func(s string) bool { return !slices.Contains(own, s) })
		case okOwn:
			found = own
		case !ok:
			all = true
		}
		names = append(names, found...)
	}
	for _, e := range r.Leaves() {
		of(e.From, e.Where)
	}
	for _, w := range r.Without {
		of(w.From, w.Where)
	}
	if s := r.Alert.Resolve; s != nil && s.Where != nil {
		if found, ok := c.rulesIn(s.Where); slices.Contains(s.From, alerts) && ok {
			names = append(names, found...)
		} else if slices.Contains(s.From, alerts) {
			all = true
		}
	}
	slices.Sort(names)
	return slices.Compact(names), all
}

// rulesIn returns the rules that a condition names by rule == "x" or rule in [..].
func (c *checker) rulesIn(e *expression.Expr) (names []string, ok bool) {
	if e == nil {
		return nil, false
	}
	for _, q := range e.Equalities {
		if path := c.schema.Path(q.Slot); len(path) != 1 || path[0] != "rule" {
			continue
		}
		for _, v := range q.Values {
			if v.Kind() == cep.KindString {
				names = append(names, v.AsString())
			}
		}
		return names, true
	}
	return nil, false
}
