package expression

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"github.com/cepd/cepd/cep"
)

// machineFunctions are the rare builtins of expr: they run on its own virtual machine, with the values converted to and
// fro. None of them reads a clock.
func machineFunctions() []*function {
	var fs []*function
	for _, f := range []struct {
		name     string
		min, max int
		kinds    []kind
		result   kind
	}{
		{"splitAfter", 2, 3, []kind{stringKind, stringKind, numberKind}, listKind},
		{"indexOf", 2, 2, []kind{stringKind}, numberKind},
		{"lastIndexOf", 2, 2, []kind{stringKind}, numberKind},
		{"toJSON", 1, 1, []kind{anyKind}, stringKind},
		{"fromJSON", 1, 1, []kind{stringKind}, anyKind},
		{"toBase64", 1, 1, []kind{stringKind}, stringKind},
		{"fromBase64", 1, 1, []kind{stringKind}, stringKind},
		{"date", 1, 3, []kind{stringKind}, timeKind},
		{"toPairs", 1, 1, []kind{objectKind}, listKind},
		{"fromPairs", 1, 1, []kind{listKind}, objectKind},
		{"bitand", 2, 2, []kind{numberKind}, numberKind},
		{"bitor", 2, 2, []kind{numberKind}, numberKind},
		{"bitxor", 2, 2, []kind{numberKind}, numberKind},
		{"bitnand", 2, 2, []kind{numberKind}, numberKind},
		{"bitnot", 1, 1, []kind{numberKind}, numberKind},
		{"bitshl", 2, 2, []kind{numberKind}, numberKind},
		{"bitshr", 2, 2, []kind{numberKind}, numberKind},
		{"bitushr", 2, 2, []kind{numberKind}, numberKind},
	} {
		programs := make([]*vm.Program, f.max+1)
		for n := f.min; n <= f.max; n++ {
			programs[n] = machineProgram(f.name, n)
		}
		fs = append(fs, &function{
			name: f.name, usage: f.name + "(" + strings.Join(argumentNames(f.min), ", ") + ")", min: f.min, max: f.max,
			kinds: f.kinds, result: f.result,
			many: func(args []cep.Value) (cep.Value, error) { return runMachine(f.name, programs[len(args)], args) },
		})
	}
	return fs
}

func argumentNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = string(rune('a' + i))
	}
	return names
}

// machineProgram compiles name(a, b, …). That it compiles does not depend on any rule, so a failure is a bug.
func machineProgram(name string, n int) *vm.Program {
	args := argumentNames(n)
	p, err := expr.Compile(name+"("+strings.Join(args, ", ")+")", expr.AllowUndefinedVariables())
	if err != nil {
		panic(fmt.Sprintf("expression: %s with %d arguments: %v", name, n, err))
	}
	return p
}

func runMachine(name string, program *vm.Program, args []cep.Value) (cep.Value, error) {
	env := map[string]any{}
	for i, a := range args {
		env[string(rune('a'+i))] = toGo(a)
	}
	out, err := expr.Run(program, env)
	if err != nil {
		return cep.Value{}, fmt.Errorf("%s: %s", name, firstLine(err))
	}
	return fromGo(out)
}

// firstLine drops the excerpt that expr's errors carry: it shows a text that no user wrote.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	if i := strings.LastIndex(line, " ("); i > 0 && strings.HasSuffix(line, ")") {
		line = line[:i]
	}
	return line
}

// toGo converts a value to what expr works with.
func toGo(v cep.Value) any {
	switch v.Kind() {
	case cep.KindBool:
		return v.AsBool()
	case cep.KindInt:
		return int(v.AsInt())
	case cep.KindFloat:
		return v.AsFloat()
	case cep.KindString:
		return v.AsString()
	case cep.KindTime:
		return v.AsTime().Std()
	case cep.KindDuration:
		return cep.Duration(v.AsInt())
	case cep.KindList:
		l := make([]any, len(v.AsList()))
		for i, e := range v.AsList() {
			l[i] = toGo(e)
		}
		return l
	case cep.KindObject:
		m := map[string]any{}
		for _, e := range v.AsObject() {
			m[e.Name] = toGo(e.Value)
		}
		return m
	default:
		return nil
	}
}

// fromGo converts a result of expr. Maps have no order, so their members are sorted.
func fromGo(x any) (cep.Value, error) {
	switch x := x.(type) {
	case nil:
		return cep.Null, nil
	case bool:
		return cep.Bool(x), nil
	case int:
		return cep.Int(int64(x)), nil
	case float64:
		// JSON has one kind of number: what is whole and fits is an int, as in events.
		if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			return cep.Int(int64(x)), nil
		}
		return cep.Float(x), nil
	case string:
		if len(x) > maxString {
			return cep.Value{}, errStringSize
		}
		return cep.String(x), nil
	case time.Time:
		t, ok := cep.TimeOf(x)
		if !ok {
			return cep.Value{}, errTime
		}
		return cep.TimeValue(t), nil
	case time.Duration:
		return cep.DurationValue(x), nil
	case []string:
		l := make([]cep.Value, len(x))
		for i, e := range x {
			l[i] = cep.String(e)
		}
		return cep.List(l), nil
	case []any:
		return listFromGo(x)
	case [][2]any:
		l := make([]cep.Value, len(x))
		for i, pair := range x {
			v, err := listFromGo(pair[:])
			if err != nil {
				return cep.Value{}, err
			}
			l[i] = v
		}
		slices.SortFunc(l, func(a, b cep.Value) int { return strings.Compare(text(a.AsList()[0]), text(b.AsList()[0])) })
		return cep.List(l), nil
	case map[string]any:
		return objectFromGo(x)
	case map[any]any:
		named := map[string]any{}
		for k, v := range x {
			named[keyName(k)] = v
		}
		return objectFromGo(named)
	}
	return cep.Value{}, fmt.Errorf("a result of type %T", x)
}

func keyName(k any) string {
	switch k := k.(type) {
	case string:
		return k
	case int:
		return strconv.Itoa(k)
	}
	return fmt.Sprint(k)
}

func listFromGo(x []any) (cep.Value, error) {
	l := make([]cep.Value, len(x))
	for i, e := range x {
		v, err := fromGo(e)
		if err != nil {
			return cep.Value{}, err
		}
		l[i] = v
	}
	return cep.List(l), nil
}

func objectFromGo(x map[string]any) (cep.Value, error) {
	members := make([]cep.Member, 0, len(x))
	for _, name := range slices.Sorted(maps.Keys(x)) {
		v, err := fromGo(x[name])
		if err != nil {
			return cep.Value{}, err
		}
		members = append(members, cep.Member{Name: name, Value: v})
	}
	return cep.Object(members), nil
}
