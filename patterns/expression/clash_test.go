package expression

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
)

// compileKept compiles conditions at one place and keeps their trees.
func (w *world) compileKept(t testing.TB, texts ...string) (*Trees, []*Expr) {
	t.Helper()
	w.place.Trees = &Trees{}
	var all []*Expr
	for _, text := range texts {
		all = append(all, w.compile(t, text))
	}
	return w.place.Trees, all
}

// TestClash holds what is proved, and what is not: the parts of the clash, with ; between them, or "" where the conditions
// can hold.
func TestClash(t *testing.T) {
	for _, c := range []struct{ conditions, parts string }{
		// A value is one value.
		{`x == 1 and x == 2`, `x == 1; x == 2`},
		{`x == 1 and y == 3 and x == 2`, `x == 1; x == 2`},
		{`x == 1 | x == 2`, `x == 1; x == 2`},
		{`x == 1 and x == 1.0`, ``},
		{`x == 1 and x == "1"`, `x == 1; x == "1"`},
		{`x == 1 and x in [1, 2]`, ``},
		{`x == 3 and x in [1, 2]`, `x == 3; x in [1, 2]`},
		{`x in ["a", "b"] and x not in ["b", "a", "c"]`, `x in ["a", "b"]; not (x in ["b", "a", "c"])`},
		{`x in ["a", "b"] and x not in ["b"]`, ``},
		{`x in ["a", "b"] and x != "a" and x != "b"`, `x in ["a", "b"]; x != "a"; x != "b"`},
		{`x in ["a", "b"] and x != "a"`, ``},
		{`x in ["a", nil] and x != "a"`, ``},
		{`x in ["a", nil] and x != "a" and x != nil`, `x in ["a", nil]; x != "a"; x != nil`},
		{`x in [] and y == 1`, `x in []`},
		{`x == [1] and x == [2]`, ``},
		{`x == 3 and x + 1 > 10`, `x == 3; x + 1 > 10`},
		{`x == 1 and type(x) == "float"`, ``},
		{`x == 0 and 1 / x < 0`, ``},
		{`x == "a" and any(tags, # == x)`, ``},
		{`x == "root" and x startsWith "ad"`, `x == "root"; x startsWith "ad"`},
		{`x == "root" and like(x, "R*")`, ``},
		{`x == "root" and x matches "^a"`, `x == "root"; x matches "^a"`},
		{`x in $ports and x == 23`, `x in $ports; x == 23`},
		{`x in $ports and x == 22`, ``},
		{`x in $ports and x not in $ports`, `x in $ports; not (x in $ports)`},
		{`x in $filed and x == 23`, ``},
		{`x in $filed and x not in $filed`, `x in $filed; not (x in $filed)`},
		{`lookup($hosts, x) == "gate" and x == "10.0.0.2"`, ``},
		// Missing values.
		{`x == nil and x == 1`, `x == nil; x == 1`},
		{`x == nil and x != 1`, ``},
		{`x == nil and x > 1`, `x == nil; x > 1`},
		{`x == nil and not (x > 1)`, ``},
		{`x == nil and x != nil`, `x == nil; x != nil`},
		{`x == nil and lower(x) == "a"`, `x == nil; lower(x) == "a"`},
		{`ok == nil`, ``},
		{`ok == nil and ok != nil`, `ok == nil; ok != nil`},
		{`opt == nil and opt.x == 1`, ``},
		{`prev == nil`, ``},
		// Conditions by themselves.
		{`false`, `false`},
		{`x == 1 and false`, `false`},
		{`"a" == "b"`, `false`},
		{`true`, ``},
		{`flag and not flag`, `flag; not flag`},
		{`flag and flag == false`, `flag; flag == false`},
		{`flag and flag == 1`, `flag; flag == 1`},
		{`not flag and flag == nil`, ``},
		{`not flag and not (flag == false)`, ``},
		{`not flag and flag == 3`, `not flag; flag == 3`},
		{`(a ? b == 1 : b == 2) and b == 3`, `a ? b == 1 : b == 2; b == 3`},
		// Order.
		{`x > 5 and x < 3`, `x > 5; x < 3`},
		{`x > 5 and x < 6`, ``},
		{`x > 5 and x <= 5`, `x > 5; x <= 5`},
		{`x >= 5 and x <= 5`, ``},
		{`x >= 5 and x <= 5 and x != 5`, `x >= 5; x <= 5; x != 5`},
		{`5 < x and 3 > x`, `5 < x; 3 > x`},
		{`x > 5 and x == 5`, `x > 5; x == 5`},
		{`x > 5 and x in [1, 2, 3]`, `x > 5; x in [1, 2, 3]`},
		{`x > 5 and x < "a"`, `x > 5; x < "a"`},
		{`x > 5 and x startsWith "a"`, `x > 5; x startsWith "a"`},
		{`x > 5 and not (x > 3)`, `x > 5; not (x > 3)`},
		{`x > 5 and not (x < 7)`, ``},
		{`not (x > 5) and not (x <= 5)`, ``},
		{`x > 5 and not (x <= "a")`, ``},
		{`x > "b" and x < "a"`, `x > "b"; x < "a"`},
		{`x > 9223372036854775806 and x < 9223372036854775807`, ``},
		{`len(tags) > 2 and len(tags) < 3`, `len(tags) > 2; len(tags) < 3`},
		{`len(tags) < 0`, `len(tags) < 0`},
		{`not (len(tags) >= 0)`, ``},
		{`weekday(e) == 7`, `weekday(ts(e)) == 7`},
		{`weekday(e) in [6, 0]`, ``},
		{`hour(x) == nil`, ``},
		{`hour(e) >= 24`, `hour(ts(e)) >= 24`},
		{`hour(e) > 22 and hour(e) < 6`, `hour(ts(e)) > 22; hour(ts(e)) < 6`},
		{`hour(e) > 22 or hour(e) < 6`, ``},
		{`hour(x) == 1 and hour(x, "Europe/Zurich") == 2`, ``},
		{`x < y and x > y`, `x < y; x > y`},
		{`x < y and y < x`, `x < y; y < x`},
		{`x < y and y == x`, `x < y; y == x`},
		{`x <= y and y <= x`, ``},
		{`x <= y and y == x`, ``},
		{`x == y and x != y`, `x == y; x != y`},
		{`x == y and y != x`, `x == y; y != x`},
		{`x != y and not (x < y)`, ``},
		{`x == y and x == 1 and y == 2`, `x == y; x == 1; y == 2`},
		{`x == y and x == 1 and y in [1.0]`, ``},
		{`x == y and type(x) == "int" and type(y) == "float"`, ``},
		// Texts.
		{`x startsWith "ab" and x startsWith "ac"`, `x startsWith "ab"; x startsWith "ac"`},
		{`x startsWith "ab" and x startsWith "a"`, ``},
		{`x endsWith ".exe" and x endsWith ".dll"`, `x endsWith ".exe"; x endsWith ".dll"`},
		{`x contains "a" and x contains "b"`, ``},
		{`x startsWith "ab" and x not startsWith "a"`, `x startsWith "ab"; not (x startsWith "a")`},
		{`x startsWith "ab" and x not contains "b"`, `x startsWith "ab"; not (x contains "b")`},
		{`x startsWith "ab" and x not endsWith "b"`, ``},
		{`lower(x) == "Root"`, `lower(x) == "Root"`},
		{`lower(x) in ["Root", "root"]`, ``},
		{`upper(x) == "root"`, `upper(x) == "root"`},
		{`lower(x) contains "A"`, `lower(x) contains "A"`},
		{`not (lower(x) contains "A")`, ``},
		{`lower(x) != "A"`, ``},
		{`like(lower(x), "A*")`, ``},
		// Alternatives, and predicates.
		{`x == 1 and (x == 2 or x == 3)`, `x == 1; x == 2 or x == 3`},
		{`x == 1 and (x == 2 or y == 3)`, ``},
		{`x == 1 and not (x == 1 or y == 3)`, `x == 1; not (x == 1 or y == 3)`},
		{`x == 1 and not (x == 1 and y == 3)`, ``},
		{`x == 1 and y == 3 and not (x == 1 and y == 3)`, `x == 1; y == 3; not (x == 1 and y == 3)`},
		{`(x == 1 or x == 2) and (x == 3 or x == 4)`, `x == 1 or x == 2; x == 3 or x == 4`},
		{`any(fail, .x == 1 and .x == 2)`, `any(fail, .x == 1 and .x == 2)`},
		{`any(fail, .x == 1) and any(fail, .x == 2)`, ``},
		{`none(fail, .x == 1 and .x == 2)`, ``},
		{`any(fail, .x == x and .x == 1 and x == 2)`, `any(fail, .x == x and .x == 1 and x == 2)`},
		{`any(a, any(b, # == 1 and # == 2))`, `any(a, any(b, # == 1 and # == 2))`},
		{`len(filter(a, # == 1)) > 0 and len(filter(a, # == 2)) == 0`, ``},
		{`any(a, # == 1 and # == #index)`, ``},
		{`let y = x; y == 1 and y == 2`, ``},
		// Macros, and what reads more than the event.
		{`$login and action == "logout"`, `action == "login"; action == "logout"`},
		{`ok.user == "a" and ok.user == "b"`, `ok.user == "a"; ok.user == "b"`},
		{`ok.user == "a" and user == "b"`, ``},
		{`fail[0].x == 1 and fail[-1].x == 2`, ``},
		{`len(fail) > 5 and len(fail) < 3`, `len(fail) > 5; len(fail) < 3`},
		{`sum(fail, .amount) > 5 and sum(fail, .amount) < 3`, `sum(fail, .amount) > 5; sum(fail, .amount) < 3`},
		{`(x ?? 0) > 5 and (x ?? 0) < 3`, `(x ?? 0) > 5; (x ?? 0) < 3`},
		{`x + 1 > 5 and x + 1 < 5`, `x + 1 > 5; x + 1 < 5`},
	} {
		w := newWorld()
		w.place.Condition = true
		w.place.Lists["filed"] = NewList([]cep.Value{cep.Int(22)})
		w.place.Lists["filed"].Reloads = true
		trees, all := w.compileKept(t, strings.Split(c.conditions, " | ")...)
		clash, _ := trees.Clash(Given{}, all...)
		var parts []string
		for _, p := range clash.Parts {
			parts = append(parts, p.Text)
		}
		if got := strings.Join(parts, "; "); got != c.parts {
			t.Errorf("%s\n  clash %q\n  want  %q", c.conditions, got, c.parts)
		}
	}
}

// TestClashGiven holds what follows from the key and from the number of events that a loop takes.
func TestClashGiven(t *testing.T) {
	for _, c := range []struct{ condition, parts, key string }{
		{`user == nil`, `user == nil; user != nil`, ""},
		{`user == ""`, `user == ""; user != ""`, ""},
		{`user != "" and host == 1`, ``, ""},
		{`other == nil`, ``, ""},
		{`user != ok.user`, `user != ok.user; user == ok.user`, "user"},
		{`ok.user != user and x == 1`, `ok.user != user; user == ok.user`, "user"},
		{`user == ok.user`, ``, ""},
		{`user != opt.user`, ``, ""}, // it need not have taken anything
		{`user != prev.user`, ``, ""},
		{`user != fail[-1].user`, `user != fail[-1].user; user == fail[-1].user`, "user"},
		{`user != fail[1].user`, ``, ""}, // there may be one only
		{`user != $key.user`, `user != $key.user; user == $key.user`, "user"},
		{`host != ok.host`, ``, ""}, // the key of ok has another field
		{`host != ok.machine`, `host != ok.machine; host == ok.machine`, "host"},
		{`user == "a" and ok.user == "b"`, `user == "a"; ok.user == "b"; user == ok.user`, "user"},
		{`len(fail) > 5`, `len(fail) > 5; len(fail) <= 5`, ""},
		{`len(fail) >= 5`, ``, ""},
		{`len(fail) == 1`, `len(fail) == 1; len(fail) >= 2`, ""},
		{`len(fail) == 1 or x == 1`, ``, ""},
		{`len(taken) > 50`, ``, ""},
		{`not (len(fail) > 1)`, `not (len(fail) > 1); len(fail) >= 2`, ""},
	} {
		w := newWorld()
		w.place.Condition = true
		trees, all := w.compileKept(t, c.condition)
		part := func(text string) *Expr {
			place := &Place{Schema: w.schema, Event: true, Trees: trees}
			x, problems := Compile(text, place)
			if x == nil {
				t.Fatal(problems)
			}
			return x
		}
		clash, _ := trees.Clash(Given{
			By:     []*Expr{part("user"), part("host")},
			StepBy: map[int][]*Expr{0: {part("user"), part("host")}, 1: {part("user"), part("machine")}},
			Counts: map[int]Count{0: {2, 5}, 3: {0, -1}},
		}, all...)
		var parts []string
		for _, p := range clash.Parts {
			parts = append(parts, p.Text)
		}
		if got := strings.Join(parts, "; "); got != c.parts || clash.Key != c.key {
			t.Errorf("%s\n  clash %q by %q\n  want  %q by %q", c.condition, got, clash.Key, c.parts, c.key)
		}
	}
}

// TestImplied holds when one condition follows from others.
func TestImplied(t *testing.T) {
	for _, c := range []struct {
		condition, by string
		want          bool
	}{
		{`x == 1`, `x == 1 and y == 2`, true},
		{`y == 2 and x == 1`, `x == 1 and y == 2`, true},
		{`x in [1, 2]`, `x == 1`, true},
		{`x in [1, 2]`, `x in [2, 3]`, false},
		{`x > 3`, `x > 5`, true},
		{`x > 5`, `x > 3`, false},
		{`x != 2`, `x == 1`, true},
		{`x + 1 > 0`, `x == 1`, false}, // it may err: that is not looked into
		{`x + 1 > 0`, `x + 1 > 0`, true},
		{`x == 1 or y == 2`, `y == 2`, true},
		{`flag`, `flag`, true},
		{`flag`, `flag == true`, false},
		{`ip in $filed`, `ip in $filed and x == 1`, true},
		{`ip in $filed`, `ip == 22`, false},
		{`ip in $ports`, `ip == 22`, true},
		{`x startsWith "a"`, `x startsWith "ab"`, true},
		{`true`, `x == 1`, true},
	} {
		w := newWorld()
		w.place.Condition = true
		w.place.Lists["filed"] = NewList([]cep.Value{cep.Int(22)})
		w.place.Lists["filed"].Reloads = true
		trees, all := w.compileKept(t, c.condition, c.by)
		if got := trees.Implied(all[0], all[1]); got != c.want {
			t.Errorf("%s by %s: %t", c.condition, c.by, got)
		}
	}
}

// TestClashModel draws conditions and events: what is said never to hold never does, and what is said to follow does. The
// terms and constants are few, so that many conditions clash.
func TestClashModel(t *testing.T) {
	clashes, implied := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			clashProperty(t, &clashes, &implied)
		}
	})
	if clashes == 0 || implied == 0 {
		t.Errorf("%d clashes, %d implied", clashes, implied)
	}
}

// FuzzClash is TestClashModel driven by the fuzzer.
func FuzzClash(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { clashProperty(t, new(int), new(int)) }))
}

func clashProperty(t *rapid.T, clashes, implied *int) {
	pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "pick") }
	term := func() string {
		return pick("a", "a", "a", "b", "b", "lower(a)", "len(a)", "ok.a", "(a ?? b)", "a + 1", "prev.a", "type(a)", "weekday(a)", "len(fail)", "fail[-1].a", "$key.user")
	}
	scalar := func() string {
		return pick("0", "1", "1.0", "2", "-1", "3", "7", `"a"`, `"ab"`, `"A"`, `"b"`, `""`, "true", "false", "nil", "9007199254740993", `"int"`, `"float"`)
	}
	var condition func(depth int) string
	condition = func(depth int) string {
		switch rapid.IntRange(0, 13).Draw(t, "form") {
		case 0:
			if depth > 0 {
				return "(" + condition(depth-1) + " or " + condition(depth-1) + ")"
			}
		case 1, 2:
			if depth > 0 {
				return "not (" + condition(depth-1) + ")"
			}
		case 3:
			if depth > 0 {
				return "(" + condition(depth-1) + " and " + condition(depth-1) + ")"
			}
		case 4:
			if depth > 0 {
				return "((" + condition(depth-1) + ") ? " + condition(depth-1) + " : " + condition(depth-1) + ")"
			}
		case 5:
			if depth > 0 {
				return "any(c, # " + pick("==", ">", "<", "!=") + " " + scalar() + " and # " + pick("==", ">", "<", "!=") + " " + scalar() + ")"
			}
		case 6:
			return "(" + term() + " ?? " + pick("true", "false", "b") + ")"
		case 7:
			return pick("a", "b", "ok.a")
		case 8:
			return term() + pick(" == ", " == ", " != ", " < ", " <= ", " > ", " >= ") + term()
		case 9:
			return term() + pick(" in ", " not in ") + "[" + scalar() + ", " + scalar() + "]"
		case 10:
			return term() + pick(" startsWith ", " endsWith ", " contains ", " not contains ", " not startsWith ") + pick(`"a"`, `"ab"`, `"b"`, `"A"`, `""`)
		}
		return term() + pick(" == ", " == ", " != ", " < ", " <= ", " > ", " >= ") + scalar()
	}
	w := newWorld()
	w.place.Condition = true
	w.place.Trees = &Trees{}
	texts := []string{condition(2)}
	for range rapid.IntRange(0, 2).Draw(t, "more") {
		texts = append(texts, condition(2))
	}
	if rapid.Bool().Draw(t, "weaker") {
		texts = []string{texts[0] + " or " + condition(1), strings.Join(texts, " and ")}
	}
	var conditions []*Expr
	for _, text := range texts {
		x, _ := Compile(text, w.place)
		if x == nil {
			return // refused when it is loaded
		}
		conditions = append(conditions, x)
	}
	var given Given
	keyed := rapid.Bool().Draw(t, "keyed")
	if keyed {
		key, _ := Compile("a", &Place{Schema: w.schema, Event: true, Trees: w.place.Trees})
		by := []*Expr{key}
		given = Given{By: by, StepBy: map[int][]*Expr{0: by, 1: by}, Counts: map[int]Count{0: {1, 3}}}
	}
	_, isClash := w.place.Trees.Clash(given, conditions...)
	isImplied := w.place.Trees.Implied(conditions[0], conditions[1:]...)
	if isClash {
		*clashes++
	}
	if isImplied && !isClash {
		*implied++
	}
	if !isClash && !isImplied {
		return
	}
	values := []cep.Value{
		{},
		cep.Null, cep.Int(0), cep.Float(0), cep.Float(negativeZero()), cep.Int(1), cep.Float(1), cep.Int(2), cep.Float(1.5), cep.Int(-1), cep.Int(3), cep.Int(7), cep.Float(nan()),
		cep.Int(1<<53 + 1), cep.Float(1 << 53), cep.String(""), cep.String("a"), cep.String("ab"), cep.String("A"), cep.String("b"), cep.String("int"), cep.String("float"), cep.Bool(true), cep.Bool(false),
		cep.List(nil), cep.List([]cep.Value{cep.Int(1), cep.String("a"), cep.Null}), cep.Object([]cep.Member{{Name: "a", Value: cep.Int(1)}}),
	}
	for _, a := range values {
		for range 20 {
			draw := func() cep.Value { return rapid.SampledFrom(values).Draw(t, "value") }
			w.current = object{"a": a, "b": draw(), "c": cep.List([]cep.Value{draw(), draw()})}
			w.prev = object{"a": draw()}
			w.taken = nil
			// Where there is a key, all events have the same, as an int or as a float.
			same := draw
			if _, ok := cep.KeyOf(a); keyed && ok {
				same = func() cep.Value { return rapid.SampledFrom(variants(nil, a)).Draw(t, "same") }
			} else if keyed {
				continue
			}
			for i := range rapid.IntRange(1, 3).Draw(t, "fail") {
				w.take(0, cep.Time(i)*cep.Second, object{"a": same()})
			}
			w.take(1, 10*cep.Second, object{"a": same()})
			scope, all, first := w.set(), true, false
			if k, ok := cep.KeyOf(a); ok {
				scope.Key = k
			}
			for i, x := range conditions {
				ok, _ := x.Test(scope)
				if i == 0 {
					first = ok
				} else {
					all = all && ok
				}
			}
			if isClash && all && first {
				t.Fatalf("%s hold together for %v, %v, %v", strings.Join(texts, " | "), w.current, w.prev, w.taken)
			}
			if isImplied && all && !first {
				t.Fatalf("%s do not imply %s for %v, %v, %v", strings.Join(texts[1:], " | "), texts[0], w.current, w.prev, w.taken)
			}
		}
	}
}

func negativeZero() float64 { z := 0.0; return -1 * z }
