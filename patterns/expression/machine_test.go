package expression

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode"

	"github.com/expr-lang/expr"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
)

// TestMachine runs random expressions on the closures and on expr's own machine, over fields that are all there and have
// the types they should: then both must agree, in value and in type. Where the language differs by intent (a missing
// field, an overflow, a position outside of a list, a mean of nothing, NaN) nothing is generated.
func TestMachine(t *testing.T) { rapid.Check(t, machineProperty) }

// FuzzMachine is TestMachine driven by the fuzzer.
func FuzzMachine(f *testing.F) { f.Fuzz(rapid.MakeFuzz(machineProperty)) }

func machineProperty(t *rapid.T) {
	fields := object{
		"a": cep.Int(rapid.Int64Range(-5, 5).Draw(t, "a")), "b": cep.Int(rapid.Int64Range(0, 3).Draw(t, "b")),
		"x": cep.Float(float64(rapid.IntRange(-8, 8).Draw(t, "x")) / 4), "y": cep.Float(float64(rapid.IntRange(1, 9).Draw(t, "y")) / 2),
		"s": cep.String(rapid.SampledFrom(words).Draw(t, "s")), "u": cep.String(rapid.SampledFrom(words).Draw(t, "u")),
		"p": cep.Bool(rapid.Bool().Draw(t, "p")), "q": cep.Bool(rapid.Bool().Draw(t, "q")),
		"l": cep.List([]cep.Value{cep.Int(1), cep.Int(rapid.Int64Range(0, 3).Draw(t, "l")), cep.Int(3)}),
		"w": cep.List([]cep.Value{cep.String("x"), cep.String(rapid.SampledFrom(words).Draw(t, "w"))}),
		"o": cep.Object([]cep.Member{{Name: "i", Value: cep.Int(2)}, {Name: "s", Value: cep.String("Ab")}}),
	}
	g := generator{t: t}
	var text string
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		text = g.number(4)
	case 1:
		text = g.text(4)
	case 2:
		text = g.list(3)
	default:
		text = g.condition(4)
	}
	env := map[string]any{}
	for n, v := range fields {
		env[n] = toGo(v)
	}
	w := newWorld()
	w.current = fields
	x, problems := Compile(text, w.place)
	program, compileErr := expr.Compile(text, expr.AllowUndefinedVariables(), expr.Optimize(false))
	if x == nil {
		if compileErr == nil {
			if _, err := expr.Run(program, env); err == nil {
				t.Fatalf("%s: expr runs it, but %+v", text, problems)
			}
		}
		return
	}
	if compileErr != nil {
		// expr evaluates constant parts when it compiles, and counts an error in them even where they are not reached.
		return
	}
	got, err := x.Eval(w.set())
	out, wantErr := expr.Run(program, env)
	if wantErr != nil && strings.Contains(wantErr.Error(), "is float64, not int") {
		// expr takes max(1, 2.5) for an int when it compiles and then trips over its own instruction.
		return
	}
	if wantErr != nil || err != nil {
		if (wantErr == nil) != (err == nil) {
			t.Fatalf("%s: %v, %v; expr: %v, %v", text, got, err, out, wantErr)
		}
		return
	}
	want, ok := wanted(out)
	if !ok {
		t.Fatalf("%s: expr gives %T", text, out)
	}
	if !same(got, want) {
		t.Fatalf("%s (%s): %v, expr: %v", text, x.Canonical, got, want)
	}
	if want.Kind() == cep.KindBool {
		if ok, err := x.Test(w.set()); err != nil || ok != want.AsBool() {
			t.Fatalf("%s: Test gives %v, %v, expr: %v", text, ok, err, want)
		}
	}
	y, problems := Compile(x.Canonical, w.place)
	if y == nil {
		t.Fatalf("%s: printed as %s: %+v", text, x.Canonical, problems)
	}
	if again, err := y.Eval(w.set()); err != nil || !same(again, want) || y.Canonical != x.Canonical {
		t.Fatalf("%s: printed as %s (%s), which is %v, %v", text, x.Canonical, y.Canonical, again, err)
	}
}

var words = []string{"", "a", "ab", "Ab", "x", "xyz", "a b", "ä", "10", "a*b"}

// wanted converts a result of expr strictly: an int is an int, a float a float.
func wanted(x any) (cep.Value, bool) {
	switch x := x.(type) {
	case float64:
		return cep.Float(x), true
	case []any:
		l := make([]cep.Value, len(x))
		for i, e := range x {
			v, ok := wanted(e)
			if !ok {
				return cep.Value{}, false
			}
			l[i] = v
		}
		return cep.List(l), true
	case []int:
		l := make([]cep.Value, len(x))
		for i, e := range x {
			l[i] = cep.Int(int64(e))
		}
		return cep.List(l), true
	}
	v, err := fromGo(x)
	return v, err == nil
}

// same compares values and their types; NaN is NaN.
func same(a, b cep.Value) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case cep.KindFloat:
		return a.AsFloat() == b.AsFloat() || math.IsNaN(a.AsFloat()) && math.IsNaN(b.AsFloat())
	case cep.KindList:
		x, y := a.AsList(), b.AsList()
		if len(x) != len(y) {
			return false
		}
		for i := range x {
			if !same(x[i], y[i]) {
				return false
			}
		}
		return true
	default:
		return cep.Equal(a, b)
	}
}

// generator writes typed expressions. It leaves out findLast and findLastIndex, after which expr 1.17.8 has a value too
// many on its stack.
type generator struct {
	t *rapid.T
	// predicates is how many are around; element says what # is in the innermost: "" none, n a number, s a text.
	predicates int
	element    string
}

func (g *generator) pick(forms ...string) string {
	return forms[rapid.IntRange(0, len(forms)-1).Draw(g.t, "form")]
}

// fill puts expressions into a form: N number, S text, C condition, L list of numbers, W list of texts.
func (g *generator) fill(form string, depth int) string {
	var b strings.Builder
	runes := []rune(form)
	for i, r := range runes {
		// A capital letter inside a word is none of the signs.
		if i > 0 && unicode.IsLetter(runes[i-1]) || i+1 < len(runes) && unicode.IsLetter(runes[i+1]) {
			b.WriteRune(r)
			continue
		}
		switch r {
		case 'N':
			b.WriteString(g.number(depth - 1))
		case 'S':
			b.WriteString(g.text(depth - 1))
		case 'C':
			b.WriteString(g.condition(depth - 1))
		case 'L':
			b.WriteString(g.list(depth - 1))
		case 'W':
			b.WriteString(g.pick("w", `["x", "ab"]`, `split("a,b", ",")`))
		case '§':
			b.WriteString(g.inside("n", depth, g.condition))
		case '¶':
			b.WriteString(g.inside("n", depth, g.number))
		case '$':
			b.WriteString(g.inside("s", depth, g.condition))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// inside writes the body of a predicate.
func (g *generator) inside(element string, depth int, write func(int) string) string {
	outer := g.element
	g.predicates++
	g.element = element
	s := write(depth - 1)
	g.predicates--
	g.element = outer
	return s
}

func (g *generator) number(depth int) string {
	leaves := []string{"a", "b", "x", "y", "o.i", "l[0]", "l[-1]", "3", "0", "1.5", `o["i"]`, "len(s)", "len(l)"}
	if g.element == "n" {
		leaves = append(leaves, "#", "#", "#index")
	}
	if depth <= 0 {
		return g.pick(leaves...)
	}
	forms := []string{
		"(N + N)", "(N - N)", "(N * N)", "N / y", "(a % b)", "-(N)", "+(N)", "(C ? N : N)", "abs(N)", "floor(N)", "ceil(N)", "round(N)", "max(N, N)", "min(N, N)", "len(S)",
		"(N) ** 2", "sum(L)", "len(L)", "(nil ?? N)", "(N ?? N)", "float(N)", "int(a)", "int(x)", "let v = N; v + v", `int("12")`, "indexOf(S, S)", "if C { N } else { N }",
		"bitand(a, b)", "bitxor(a, 3)", "bitnot(b)", "lastIndexOf(S, S)",
	}
	if g.predicates < maxPredicates {
		forms = append(forms, "count(L, §)", "sum(L, ¶)", "reduce(L, #acc + #, 0)", "len(filter(L, §))", "count(W, $)")
	}
	return "(" + g.fill(g.pick(forms...), depth) + ")"
}

func (g *generator) text(depth int) string {
	leaves := []string{"s", "u", "o.s", `"ab"`, `'x'`, `""`, "w[0]", "w[-1]", "`raw`", `"ä\n"`}
	if g.element == "s" {
		leaves = append(leaves, "#", "#")
	}
	if depth <= 0 {
		return g.pick(leaves...)
	}
	return g.fill(g.pick(
		"(S + S)", "lower(S)", "upper(S)", "trim(S)", `trim(S, "ax")`, "(C ? S : S)", "replace(S, S, S)", `replace(S, "a", S, 1)`, "repeat(S, b)", `join(W, S)`, `join(W)`, "(S ?? S)",
		"trimPrefix(S, S)", "trimSuffix(S, S)", `split("a-b", "-")[1]`, "toBase64(S)", "fromBase64(toBase64(S))", "type(N)", "type(S)", "type(C)", "first(W)", "last(W)",
		"string(a)", "string(S)", "(let v = S; v + v)", `splitAfter("a,b", ",")[0]`,
	), depth)
}

func (g *generator) condition(depth int) string {
	leaves := []string{"p", "q", "true", "false", "a == 1", `s == "ab"`}
	if depth <= 0 {
		return "(" + g.pick(leaves...) + ")"
	}
	forms := []string{
		"C and C", "C && C", "C or C", "C || C", "not (C)", "!(C)", "N == N", "N != N", "N < N", "N <= N", "N > N", "N >= N", "N < N < N", "N <= N and N > N", "S == S", "S != S", "S < S", "S >= S",
		"N in L", "N not in L", "S in W", "S not in W", "S contains S", "S startsWith S", "S endsWith S", "S not contains S", `S matches "^a.*b?$"`, `S not matches "x|y"`, "C ? C : C", "L == L", "C == C",
		"a in 0..3", "S in o", "hasPrefix(S, S)", "hasSuffix(S, S)", "(S ?? S) == S", "N == nil", "S != nil", "3 == N", `"a" == S`, "N in [1, 2, 3, 4.5]", `S in ["a", "", "x"]`, "a in [b, 2]",
	}
	if g.predicates < maxPredicates {
		forms = append(forms, "any(L, §)", "all(L, §)", "none(L, §)", "one(L, §)", "any(W, $)", "all(W, $)", "find(L, §) == nil", "(findIndex(L, §) ?? -1) == 0")
	}
	return "(" + g.fill(g.pick(forms...), depth) + ")"
}

func (g *generator) list(depth int) string {
	if depth <= 0 {
		return g.pick("l", "[1, 2]", "1..3", "[a, x]", "l[1:]")
	}
	forms := []string{"concat(L, L)", "reverse(L)", "(C ? L : L)", "take(L, b)", "[N, N]", "flatten([L, L])", "sort(L)", `sort(L, "desc")`, "uniq(L)", "(L)[0:2]", "(L)[:-1]"}
	if g.predicates < maxPredicates {
		forms = append(forms, "map(L, ¶)", "filter(L, §)", "sortBy(L, ¶)", `sortBy(L, ¶, "desc")`)
	}
	return g.fill(g.pick(forms...), depth)
}

// TestMachineFunctions: a result of expr's machine comes back as the value it is.
func TestMachineFunctions(t *testing.T) {
	w := populated()
	for text, want := range map[string]string{
		`toPairs({"b": 1, "a": 2})`:                 `[["a",2],["b",1]]`,
		`fromPairs([["k", 1]])`:                     `{"k":1}`,
		`fromJSON("[1, 2.5, null, {\"x\": true}]")`: `[1,2.5,null,{"x":true}]`,
		`toJSON(tags)`:                              `"[\n  \"a\",\n  \"b\",\n  3\n]"`,
		`date("2026-01-02")`:                        `"2026-01-02T00:00:00Z"`,
		`date("2026-01-02 01:00", "2006-01-02 15:04", "Europe/Zurich")`: `"2026-01-02T00:00:00Z"`,
		`splitAfter("a,b", ",")`: `["a,","b"]`,
		`bitshl(1, 4)`:           `16`,
		`indexOf(missing, "x")`:  `missing`,
	} {
		v, err := w.compile(t, text).Eval(w.set())
		if got := fmt.Sprint(v); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{`date(type)`, `fromJSON(type)`, `fromBase64("?" + type)`, `bitshl(1, -count)`, `fromPairs(tags)`} {
		x := w.compile(t, text)
		if v, err := x.Eval(w.set()); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v, want a short error", text, v, err)
		}
	}
}
