package expression

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/expr-lang/expr/ast"

	"github.com/cepd/cepd/cep"
)

// call resolves name(args).
func (r *resolver) call(name string, at span, args []ast.Node) *node {
	for _, a := range args {
		at.to = max(at.to, r.span(location(a)).to+1)
	}
	switch name {
	case "now":
		return r.fail(at, codeClock, "write ts(e), the time of the event", "now() reads a clock; rules know event time only")
	case "timezone":
		return r.fail(at, codeRefused, `write the zone's name where it is needed: hour(e, "Europe/Zurich")`, "time zones are no values")
	}
	if p := predicates[name]; p != nil && len(args) > 1 {
		if _, ok := args[1].(*ast.PredicateNode); ok {
			return r.predicate(name, p, at, args)
		}
	}
	f := functions[name]
	if f == nil {
		return r.unknownFunction(name, at)
	}
	if len(args) < f.min || len(args) > f.max {
		return r.fail(at, codeArguments, "write "+f.usage, "%s takes %s, not %d", name, f.arity(), len(args))
	}
	nodes := make([]*node, len(args))
	for i, a := range args {
		nodes[i] = r.node(a)
		at.to = max(at.to, nodes[i].at.to+1)
	}
	if f.resolve != nil {
		return f.resolve(r, f, nodes, at)
	}
	return r.plainCall(f, nodes, at)
}

func (r *resolver) unknownFunction(name string, at span) *node {
	at.to = at.from + len([]rune(name))
	known := slices.Sorted(maps.Keys(functions))
	known = slices.AppendSeq(known, maps.Keys(predicates))
	slices.Sort(known)
	hint := didYouMean(name, known)
	if h := functionHint(name); h != "" {
		hint = h
	}
	return r.fail(at, codeFunction, hint, "unknown function %q", name)
}

// plainCall makes the call of a function of values.
func (r *resolver) plainCall(f *function, nodes []*node, at span) *node {
	for i, a := range nodes {
		want := f.kinds[min(i, len(f.kinds)-1)]
		if a.kind == takensKind && want != anyKind && want != listKind {
			return r.fail(a.at, codeListAsEvent, r.namesake(a, "take one event, "+a.String()+"[-1].field"), "%s is a list of events", a)
		}
		if want != anyKind && want != listKind && want != objectKind {
			if bad := r.event(a); bad != nil {
				return bad
			}
		}
		a = r.asValue(a)
		nodes[i] = a
		if a.kind != anyKind && want != anyKind && a.kind != want && !a.isNil() {
			return r.fail(a.at, codeType, kindHint(want, a.kind), "%s takes %s here, not %s", f.name, want, a.kind)
		}
	}
	return r.fold(&node{op: opCall, kind: f.result, at: at, name: f.name, function: f, args: nodes})
}

func kindHint(want, got kind) string {
	switch {
	case want == stringKind:
		return "string(x) makes a string"
	case want == durationKind && got == timeKind:
		return "the difference of two times is a duration: ts(b) - ts(a)"
	case want == durationKind:
		return `a duration is duration("10s") or the difference of two times`
	}
	return ""
}

// isEvents says that a node stands for one or more events.
func (n *node) isEvents() bool {
	return n.kind == eventKind || n.kind == takenKind || n.kind == takensKind
}

// oneEvent reports one event where a list is needed.
func (r *resolver) oneEvent(f string, n *node) *node {
	hint := ""
	switch name := r.source(n.at); {
	case n.op == opStep:
		hint = "it takes one event at most; " + n.String() + " != nil asks whether it did"
	case n.op == opEvent && name == r.place.Own:
		if r.place.Taken {
			hint = "taken is the list of what the step has taken before"
		}
		return r.fail(n.at, codeEventAsList, hint, "%s needs a list, and in its own condition %s is the one event under test", f, name)
	}
	return r.fail(n.at, codeEventAsList, hint, "%s needs a list, %s is one event", f, n)
}

func resolveLen(r *resolver, f *function, args []*node, at span) *node {
	switch args[0].kind {
	case eventKind, takenKind:
		return r.oneEvent(f.name, args[0])
	case takensKind:
		return &node{op: opCall, kind: numberKind, at: at, name: f.name, function: f, args: args}
	case anyKind, listKind, stringKind, objectKind:
		return r.plainCall(f, args, at)
	default:
	}
	if args[0].list != nil {
		return constant(at, cep.Int(int64(args[0].list.Len())))
	}
	return r.fail(args[0].at, codeType, "", "%s has no length", args[0].kind)
}

// resolveEnd makes list[0] of first(list) and list[-1] of last(list).
func resolveEnd(r *resolver, f *function, args []*node, at span) *node {
	i := constant(at, cep.Int(0))
	if f.name == "last" {
		i = constant(at, cep.Int(-1))
	}
	switch args[0].kind {
	case takensKind:
		return &node{op: opAt, kind: takenKind, at: at, args: []*node{args[0], i}, origin: args[0].origin}
	case eventKind, takenKind:
		return r.oneEvent(f.name, args[0])
	case anyKind, listKind:
		return r.fold(&node{op: opIndex, at: at, args: []*node{args[0], i}})
	default:
		return r.fail(args[0].at, codeType, "", "%s needs a list, this is %s", f.name, args[0].kind)
	}
}

func resolveGet(r *resolver, f *function, args []*node, at span) *node {
	i := r.asValue(args[1])
	switch args[0].kind {
	case takensKind:
		return &node{op: opAt, kind: takenKind, at: at, args: []*node{args[0], i}, origin: args[0].origin}
	case anyKind, listKind, objectKind, eventKind, takenKind:
		return r.fold(&node{op: opIndex, at: at, args: []*node{r.asValue(args[0]), i}})
	default:
		return r.fail(args[0].at, codeType, "", "%s needs a list or an object, this is %s", f.name, args[0].kind)
	}
}

func resolveTake(r *resolver, f *function, args []*node, at span) *node {
	if args[0].kind == takensKind {
		return &node{op: opSlice, kind: takensKind, at: at, args: []*node{args[0], nil, r.asValue(args[1])}, origin: args[0].origin}
	}
	if args[0].isEvents() {
		return r.oneEvent(f.name, args[0])
	}
	return r.plainCall(f, args, at)
}

// resolveNumbers is sum, min, max, mean and median without a predicate.
func resolveNumbers(r *resolver, f *function, args []*node, at span) *node {
	for _, a := range args {
		switch a.kind {
		case takensKind:
			field := ".field"
			if b := args[len(args)-1]; len(args) == 2 && b.op == opField && len(b.names) > 0 {
				field = printPath(".", b.names)[1:]
			}
			return r.fail(a.at, codeListAsEvent, "write "+f.name+"("+a.String()+", "+field+")", "%s is a list of events, not of numbers", a)
		case eventKind, takenKind:
			return r.fail(a.at, codeEventAsList, "write "+a.String()+".field", "%s is an event, not a number", a)
		case stringKind, boolKind, objectKind:
			return r.fail(a.at, codeType, "", "%s takes numbers, not %s", f.name, a.kind)
		default:
		}
	}
	return r.plainCall(f, args, at)
}

// resolveList is a function of a list of values; whole events are turned into objects.
func resolveList(r *resolver, f *function, args []*node, at span) *node {
	for _, a := range args {
		if a.kind == eventKind || a.kind == takenKind {
			return r.oneEvent(f.name, a)
		}
	}
	return r.plainCall(f, args, at)
}

// timeOf makes the time of an event, of a text in RFC 3339, or of seconds since 1970.
func (r *resolver) timeOf(n *node, at span) *node {
	switch n.kind {
	case takensKind:
		return r.fail(n.at, codeListAsEvent, "write ts("+n.String()+"[-1])", "%s is a list of events", n)
	case timeKind:
		return n
	case anyKind, stringKind, numberKind, eventKind, takenKind:
		return r.fold(&node{op: opCall, kind: timeKind, at: at, name: "ts", function: functions["ts"], args: []*node{n}})
	default:
		return r.fail(n.at, codeType, "", "%s has no time", n.kind)
	}
}

func resolveTime(r *resolver, _ *function, args []*node, at span) *node { return r.timeOf(args[0], at) }

// resolveCalendar is minute, hour, day and weekday of a time, in a constant time zone.
func resolveCalendar(r *resolver, f *function, args []*node, at span) *node {
	t := r.timeOf(args[0], args[0].at)
	if t.op == opBad {
		return t
	}
	n := &node{op: opCall, kind: numberKind, at: at, name: f.name, function: f, args: []*node{t}, text: time.UTC}
	if len(args) == 1 {
		return r.fold(n)
	}
	zone := args[1]
	if zone.op != opConst || zone.kind != stringKind {
		return r.fail(zone.at, codeType, `write the name of the zone: "Europe/Zurich"`, "a time zone must be a constant string")
	}
	if name := zone.value.AsString(); name == "Local" {
		return r.fail(zone.at, codeLiteral, "name a place", "the zone Local would be that of the machine")
	}
	l, err := time.LoadLocation(zone.value.AsString())
	if err != nil {
		return r.fail(zone.at, codeLiteral, `zones have the names of the IANA list: "Europe/Zurich", "UTC"`, "unknown time zone %q", zone.value.AsString())
	}
	n.text = l
	n.args = append(n.args, zone)
	return r.fold(n)
}

// resolveDuration reads a constant duration when the rule is compiled.
func resolveDuration(r *resolver, f *function, args []*node, at span) *node {
	if a := args[0]; a.op == opConst && a.kind == stringKind {
		if _, err := parseDuration(a.value.AsString()); err != nil {
			return r.fail(a.at, codeLiteral, `a duration is 90s, 1h30m or 2d`, "malformed duration %q", a.value.AsString())
		}
	}
	return r.plainCall(f, args, at)
}

// resolveCIDR makes the set of networks ready: they are constant.
func resolveCIDR(r *resolver, f *function, args []*node, at span) *node {
	if bad := r.event(args[0]); bad != nil {
		return bad
	}
	address := r.asValue(args[0])
	if address.kind != anyKind && address.kind != stringKind {
		return r.fail(address.at, codeType, "", "an address is a string, this is %s", address.kind)
	}
	set := args[1]
	n := &node{op: opCall, kind: boolKind, at: at, name: f.name, function: f, args: []*node{address, set}}
	var texts []cep.Value
	switch {
	case set.list != nil:
		n.text = &set.list.networks
		return n
	case set.op == opConst && set.kind == stringKind:
		texts = []cep.Value{set.value}
	case set.op == opConst && set.kind == listKind:
		texts = set.value.AsList()
	default:
		return r.fail(set.at, codeType, `write "10.0.0.0/8", a list of networks, or $list`, "networks must be constant")
	}
	var nets networks
	for _, t := range texts {
		p, ok := parseNetwork(t.AsString())
		if !ok {
			return r.fail(set.at, codeLiteral, "a network is 10.0.0.0/8 or 2001:db8::/32", "malformed network %s", literal(t))
		}
		nets.add(p)
	}
	n.text = &nets
	return r.fold(n)
}

// resolveLike makes constant wildcards ready.
func resolveLike(r *resolver, f *function, args []*node, at span) *node {
	if bad := r.event(args[0]); bad != nil {
		return bad
	}
	s, pattern := r.asValue(args[0]), r.asValue(args[1])
	if s.kind != anyKind && s.kind != stringKind {
		return r.fail(s.at, codeType, "string(x) makes a string", "like tests strings, this is %s", s.kind)
	}
	n := &node{op: opCall, kind: boolKind, at: at, name: f.name, function: f, args: []*node{s, pattern}}
	if pattern.op != opConst {
		if pattern.kind != anyKind && pattern.kind != stringKind && pattern.kind != listKind {
			return r.fail(pattern.at, codeType, "", "a wildcard pattern is a string, this is %s", pattern.kind)
		}
		return n
	}
	texts := []cep.Value{pattern.value}
	if pattern.kind == listKind {
		texts = pattern.value.AsList()
	}
	var patterns []string
	for _, t := range texts {
		if t.Kind() != cep.KindString {
			return r.fail(pattern.at, codeType, "", "a wildcard pattern is a string, this is %s", kindOf(t))
		}
		patterns = append(patterns, t.AsString())
	}
	n.text = patterns
	return r.fold(n)
}

func resolveLookup(r *resolver, f *function, args []*node, at span) *node {
	if args[0].mapping == nil {
		hint := "write lookup($map, x)"
		if a := args[0]; a.op == opField && len(a.names) == 1 && r.place.Maps[a.names[0]] != nil {
			hint = "write lookup($" + a.names[0] + ", x)"
		}
		return r.fail(args[0].at, codeType, hint, "the first argument of lookup is a map of the rule files, by its name")
	}
	key := r.asValue(args[1])
	return &node{op: opCall, at: at, name: f.name, function: f, args: []*node{args[0], key}}
}

// predicateForm is any, all, map and the like: a function with an expression over each element.
type predicateForm struct {
	condition bool // the body is true or false
	result    kind
	extra     int // arguments behind the body
}

var predicates = map[string]*predicateForm{
	"all":           {condition: true, result: boolKind},
	"none":          {condition: true, result: boolKind},
	"any":           {condition: true, result: boolKind},
	"one":           {condition: true, result: boolKind},
	"filter":        {condition: true, result: listKind},
	"count":         {condition: true, result: numberKind},
	"find":          {condition: true},
	"findLast":      {condition: true},
	"findIndex":     {condition: true, result: numberKind},
	"findLastIndex": {condition: true, result: numberKind},
	"map":           {result: listKind},
	"sum":           {},
	"min":           {},
	"max":           {},
	"mean":          {result: numberKind},
	"median":        {result: numberKind},
	"groupBy":       {result: objectKind},
	"sortBy":        {result: listKind, extra: 1},
	"reduce":        {extra: 1},
}

// predicate resolves name(list, body, extra).
func (r *resolver) predicate(name string, p *predicateForm, at span, args []ast.Node) *node {
	list := r.node(args[0])
	switch list.kind {
	case eventKind, takenKind:
		return r.oneEvent(name, list)
	case anyKind, listKind, takensKind:
	case tableKind:
		return r.fail(list.at, codeType, "x in "+list.name+" asks whether x is one of its values", "%s cannot be gone through", list.name)
	default:
		return r.fail(list.at, codeType, "", "%s needs a list, this is %s", name, list.kind)
	}
	if len(r.scopes) == maxPredicates {
		return r.fail(at, codeNesting, "use a step, or a macro with less inside", "any, all, map and the like are nested more than %d deep", maxPredicates)
	}
	n := &node{op: opPredicate, kind: p.result, at: at, name: name, index: len(r.scopes), args: []*node{list, nil, nil}}
	s := scope{reduce: name == "reduce"}
	if list.kind == takensKind {
		s.element, s.origin = takenKind, list.origin
	}
	r.scopes = append(r.scopes, s)
	if p.condition {
		n.args[1] = r.condition(args[1])
	} else {
		n.args[1] = r.value(args[1])
	}
	r.scopes = r.scopes[:len(r.scopes)-1]
	r.idle(n)
	if len(args) > 2 {
		n.args[2] = r.value(args[2])
		if name == "sortBy" && (n.args[2].op != opConst || !slices.Contains([]string{"asc", "desc"}, n.args[2].value.AsString())) {
			return r.fail(n.args[2].at, codeType, `write "asc" or "desc"`, "the order of sortBy is one of the constants asc and desc")
		}
	}
	for _, a := range n.args {
		if a != nil {
			n.at.to = max(n.at.to, a.at.to+1)
		}
	}
	if list.kind == takensKind {
		switch name {
		case "filter", "sortBy":
			n.kind, n.origin = takensKind, list.origin
		case "find", "findLast":
			n.kind, n.origin = takenKind, list.origin
		}
	}
	body := n.args[1].kind
	switch {
	case name == "sum" || name == "mean" || name == "median" || name == "min" || name == "max":
		if body == stringKind || body == boolKind || body == listKind || body == objectKind {
			return r.fail(n.args[1].at, codeType, "", "%s takes numbers, not %s", name, body)
		}
		if n.kind == anyKind && body != nullKind {
			n.kind = body
		}
	case name == "groupBy" && body == objectKind:
		return r.fail(n.args[1].at, codeType, "group by a field", "objects cannot be compared")
	}
	return n
}

// idle warns of a predicate that asks the same of each element: sum(fail, amount) adds up a field of the current event.
func (r *resolver) idle(n *node) {
	body, depends := n.args[1], false
	body.walk(func(m *node) bool {
		depends = depends || m.op == opBad || (m.op == opPointer || m.op == opPosition || m.op == opAccumulator) && m.index == n.index
		return !depends
	})
	if depends {
		return
	}
	hint := "# is the element, .field a field of it"
	if body.op == opField && len(body.names) > 0 {
		hint = "write " + printPath(".", body.names)[1:] + " for the field of the element"
	}
	r.problems.warn(body.at, codeIdle, hint, "%s is the same for each element of the list", body)
}

// resolveCount is count without a predicate, which counts what is true.
func resolveCount(r *resolver, f *function, args []*node, at span) *node {
	switch list := args[0]; {
	case list.kind == takensKind:
		hint := "write len(" + list.String() + "), or count(" + list.String() + ", .field == …)"
		return r.fail(list.at, codeType, hint, "count of a list alone counts the elements that are true, and an event is not")
	case list.op != opPredicate && list.op != opBad:
		r.problems.warn(at, codeIdle, "len("+list.String()+") is the number of all", "count of a list alone counts the elements that are true")
	}
	return resolveList(r, f, args, at)
}

// arity says how many arguments a function takes.
func (f *function) arity() string {
	count := func(n int) string {
		if n == 1 {
			return "1 argument"
		}
		return fmt.Sprintf("%d arguments", n)
	}
	switch {
	case f.min == f.max:
		return count(f.min)
	case f.max == manyArguments:
		return "at least " + count(f.min)
	}
	return fmt.Sprintf("%d to %s", f.min, count(f.max))
}
