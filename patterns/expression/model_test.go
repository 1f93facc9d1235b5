package expression

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
)

// TestModel holds the closures to the rules for missing values, mixed kinds, overflow and errors, which expr's machine
// does not have: a second evaluator goes through the parser's tree in the plainest way, over events in which any field
// may be missing, null or of another kind.
func TestModel(t *testing.T) { rapid.Check(t, modelProperty) }

// FuzzModel is TestModel driven by the fuzzer.
func FuzzModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(modelProperty)) }

func modelProperty(t *rapid.T) {
	values := []cep.Value{
		{},
		{},
		cep.Null, cep.Int(0), cep.Int(3), cep.Int(-7), cep.Int(1<<63 - 1), cep.Int(-1 << 63), cep.Int(1<<53 + 1), cep.Float(3), cep.Float(2.5), cep.Float(1 << 53), cep.Float(nan()), cep.Float(1e308),
		cep.String(""), cep.String("ab"), cep.String("b"), cep.String("3"), cep.Bool(true), cep.Bool(false), cep.List(nil), cep.List([]cep.Value{cep.Int(3), cep.String("ab"), cep.Null}),
		cep.Object([]cep.Member{{Name: "ab", Value: cep.Int(3)}}),
	}
	fields := object{}
	for _, name := range []string{"a", "b", "c"} {
		if v := rapid.SampledFrom(values).Draw(t, name); v.Kind() != cep.KindMissing {
			fields[name] = v
		}
	}
	var write func(depth int) string
	condition := func(depth int) string {
		if rapid.Bool().Draw(t, "any") {
			// Of (x ?? c) no kind is known, so that nothing around it is refused for its kind.
			return "((" + write(depth) + ") ?? c)"
		}
		return "(" + write(depth) + ")"
	}
	write = func(depth int) string {
		leaf := func() string {
			return rapid.SampledFrom([]string{"a", "b", "c", "a", "b", "c", "a", "b", "c", "a", "b", "c", "3", "-1", "2.5", `"ab"`, `"b"`, "true", "nil", "9223372036854775807"}).Draw(t, "leaf")
		}
		if depth <= 0 {
			return leaf()
		}
		switch rapid.IntRange(0, 11).Draw(t, "form") {
		case 0:
			return condition(depth-1) + rapid.SampledFrom([]string{" and ", " or "}).Draw(t, "word") + condition(depth-1)
		case 1:
			return "not (" + write(depth-1) + ")"
		case 2:
			return condition(depth-1) + " ?? " + condition(depth-1)
		case 3:
			return condition(depth-1) + " ? " + condition(depth-1) + " : " + condition(depth-1)
		case 4, 5:
			return condition(depth-1) + rapid.SampledFrom([]string{" + ", " - ", " * ", " / ", " % "}).Draw(t, "sign") + condition(depth-1)
		case 6:
			return "-" + condition(depth-1)
		case 7:
			return condition(depth-1) + rapid.SampledFrom([]string{" in a", " in [3, b, nil]", ` in ["ab", 3, nil]`, " in [a, c]", ` in ["ab", "b"]`}).Draw(t, "list")
		case 8:
			return condition(depth-1) + rapid.SampledFrom([]string{" contains ", " startsWith ", " endsWith "}).Draw(t, "test") + condition(depth-1)
		default:
			return condition(depth-1) + rapid.SampledFrom([]string{" == ", " != ", " < ", " <= ", " > ", " >= "}).Draw(t, "comparison") + condition(depth-1)
		}
	}
	text := write(3)
	w := newWorld()
	w.current = fields
	x, _ := Compile(text, w.place)
	if x == nil {
		return // refused when it is loaded
	}
	parsed, err := parser.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want, wantErr := model(parsed.Node, fields)
	got, gotErr := x.Eval(w.set())
	if (wantErr == nil) != (gotErr == nil) || wantErr == nil && !same(got, want) && (!got.IsMissing() || !want.IsMissing()) {
		t.Fatalf("%s with %v: %v, %v, want %v, %v", text, fields, got, gotErr, want, wantErr)
	}
	wantOK, wantErr := modelCondition(parsed.Node, fields)
	ok, gotErr := x.Test(w.set())
	if ok != wantOK || (wantErr == nil) != (gotErr == nil) {
		t.Fatalf("%s with %v as a condition: %v, %v, want %v, %v", text, fields, ok, gotErr, wantOK, wantErr)
	}
}

var errModel = errors.New("an evaluation error")

// modelCondition is a value as a condition.
func modelCondition(n ast.Node, fields object) (bool, error) {
	v, err := model(n, fields)
	switch {
	case err != nil:
		return false, err
	case v.IsMissing():
		return false, nil
	case v.Kind() != cep.KindBool:
		return false, errModel
	}
	return v.AsBool(), nil
}

func model(n ast.Node, fields object) (cep.Value, error) {
	switch n := n.(type) {
	case *ast.NilNode:
		return cep.Null, nil
	case *ast.BoolNode:
		return cep.Bool(n.Value), nil
	case *ast.IntegerNode:
		return cep.Int(int64(n.Value)), nil
	case *ast.FloatNode:
		return cep.Float(n.Value), nil
	case *ast.StringNode:
		return cep.String(n.Value), nil
	case *ast.IdentifierNode:
		return fields[n.Value], nil
	case *ast.ArrayNode:
		var l []cep.Value
		for _, e := range n.Nodes {
			v, err := model(e, fields)
			if err != nil {
				return v, err
			}
			l = append(l, v)
		}
		return cep.List(l), nil
	case *ast.ConditionalNode:
		ok, err := modelCondition(n.Cond, fields)
		if err != nil {
			return cep.Value{}, err
		}
		if ok {
			return model(n.Exp1, fields)
		}
		return model(n.Exp2, fields)
	case *ast.UnaryNode:
		if n.Operator == "not" {
			ok, err := modelCondition(n.Node, fields)
			return cep.Bool(!ok), err
		}
		v, err := model(n.Node, fields)
		if err != nil {
			return v, err
		}
		return modelArithmetic("-", cep.Int(0), v)
	case *ast.BinaryNode:
		return modelBinary(n, fields)
	}
	panic("not in the model")
}

func modelBinary(n *ast.BinaryNode, fields object) (cep.Value, error) {
	if n.Operator == "and" || n.Operator == "or" {
		ok, err := modelCondition(n.Left, fields)
		if err != nil || ok == (n.Operator == "or") {
			return cep.Bool(ok), err
		}
		ok, err = modelCondition(n.Right, fields)
		return cep.Bool(ok), err
	}
	a, err := model(n.Left, fields)
	if err != nil {
		return a, err
	}
	if n.Operator == "??" {
		if !a.IsMissing() {
			return a, nil
		}
		return model(n.Right, fields)
	}
	b, err := model(n.Right, fields)
	if err != nil {
		return b, err
	}
	_, leftNil := n.Left.(*ast.NilNode)
	_, rightNil := n.Right.(*ast.NilNode)
	modelEqual := func(a, b cep.Value) bool { return !a.IsMissing() && !b.IsMissing() && cep.Equal(a, b) }
	switch n.Operator {
	case "==", "!=":
		equal := modelEqual(a, b)
		if leftNil || rightNil {
			equal = a.IsMissing() && b.IsMissing()
		}
		return cep.Bool(equal == (n.Operator == "==")), nil
	case "<", "<=", ">", ">=":
		c, ok := cep.Compare(a, b)
		return cep.Bool(ok && map[string]bool{"<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}[n.Operator]), nil
	case "contains", "startsWith", "endsWith":
		test := map[string]func(a, b string) bool{"contains": strings.Contains, "startsWith": strings.HasPrefix, "endsWith": strings.HasSuffix}[n.Operator]
		return cep.Bool(a.Kind() == cep.KindString && b.Kind() == cep.KindString && test(a.AsString(), b.AsString())), nil
	case "in":
		if list, ok := n.Right.(*ast.ArrayNode); ok {
			for _, e := range list.Nodes {
				if _, isNil := e.(*ast.NilNode); isNil && a.IsMissing() {
					return cep.Bool(true), nil
				}
			}
		}
		for _, e := range b.AsList() {
			if modelEqual(a, e) {
				return cep.Bool(true), nil
			}
		}
		return cep.Bool(a.Kind() == cep.KindString && b.Member(a.AsString()).Kind() != cep.KindMissing), nil
	}
	return modelArithmetic(n.Operator, a, b)
}

// modelArithmetic calculates ints without a limit and then asks whether the result fits.
func modelArithmetic(operator string, a, b cep.Value) (cep.Value, error) {
	if operator == "+" && a.Kind() == cep.KindString && b.Kind() == cep.KindString {
		return cep.String(a.AsString() + b.AsString()), nil
	}
	if !a.IsNumber() || !b.IsNumber() {
		return cep.Value{}, errModel
	}
	ints := a.Kind() == cep.KindInt && b.Kind() == cep.KindInt
	if operator == "/" {
		return cep.Float(a.AsFloat() / b.AsFloat()), nil
	}
	if !ints {
		x, y := a.AsFloat(), b.AsFloat()
		switch operator {
		case "+":
			return cep.Float(x + y), nil
		case "-":
			return cep.Float(x - y), nil
		case "*":
			return cep.Float(x * y), nil
		}
		return cep.Value{}, errModel
	}
	x, y, r := big.NewInt(a.AsInt()), big.NewInt(b.AsInt()), new(big.Int)
	switch operator {
	case "+":
		r.Add(x, y)
	case "-":
		r.Sub(x, y)
	case "*":
		r.Mul(x, y)
	case "%":
		if y.Sign() == 0 {
			return cep.Value{}, errModel
		}
		r.Rem(x, y)
	}
	if !r.IsInt64() {
		return cep.Value{}, errModel
	}
	return cep.Int(r.Int64()), nil
}
