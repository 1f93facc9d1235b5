package expression

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/cepd/cepd/cep"
)

// Limits of what an evaluation may make.
const (
	// maxString is the longest string that an expression can make, in bytes: an event has 1 MiB at most, and a condition
	// has no use for more than one of its fields.
	maxString = 1 << 20
	// maxList is the longest list that an expression can make: ten matches of 10,000 events.
	maxList = 100_000
	// maxWork is the number of elements that one evaluation may visit: a list of 1,000 against one of 1,000, in about
	// 50 ms.
	maxWork = 1_000_000
	// manyArguments is the most that min, max and concat take.
	manyArguments = 100
)

var (
	errStringSize = fmt.Errorf("a string longer than %d bytes", maxString)
	errListSize   = fmt.Errorf("a list of more than %d elements", maxList)
	errWork       = fmt.Errorf("more than %d elements to visit", maxWork)
	errRange      = fmt.Errorf("a range of more than %d elements", maxRange)
	errOverflow   = errors.New("the result does not fit into 64 bits")
	errTime       = errors.New("a time outside the years 1678 to 2261")
)

// function is one that expressions can call. A missing argument makes the result missing, and a test false.
type function struct {
	name     string
	usage    string
	min, max int
	// kinds are those of the arguments, the last one counts for all that follow.
	kinds  []kind
	result kind
	// resolve checks a call that a list of kinds cannot describe; nil: plainCall.
	resolve func(*resolver, *function, []*node, span) *node
	// one, two or many computes the result; what has none of them is compiled by itself.
	one  func(a cep.Value) (cep.Value, error)
	two  func(a, b cep.Value) (cep.Value, error)
	many func(args []cep.Value) (cep.Value, error)
}

// functions are all functions that are no predicates, by name. It is filled by init because resolving a call looks
// functions up.
var functions map[string]*function

func init() {
	functions = map[string]*function{}
	for _, f := range functionList() {
		functions[f.name] = f
	}
}

func functionList() []*function {
	one := func(name, usage string, arg, result kind, call func(cep.Value) (cep.Value, error)) *function {
		return &function{name: name, usage: usage, min: 1, max: 1, kinds: []kind{arg}, result: result, one: call}
	}
	two := func(name, usage string, first, second, result kind, call func(a, b cep.Value) (cep.Value, error)) *function {
		return &function{name: name, usage: usage, min: 2, max: 2, kinds: []kind{first, second}, result: result, two: call}
	}
	special := func(name, usage string, low, high int, resolve func(*resolver, *function, []*node, span) *node) *function {
		return &function{name: name, usage: usage, min: low, max: high, resolve: resolve, kinds: []kind{anyKind}}
	}
	numbers := func(name, usage string, call func([]cep.Value) (cep.Value, error)) *function {
		return &function{
			name: name, usage: usage, min: 1, max: manyArguments, kinds: []kind{anyKind},
			resolve: resolveNumbers, many: call,
		}
	}
	list := func(name, usage string, low, high int, kinds []kind, result kind, call func([]cep.Value) (cep.Value, error)) *function {
		return &function{
			name: name, usage: usage, min: low, max: high, kinds: kinds, result: result, resolve: resolveList, many: call,
		}
	}
	texts := func(name, usage string, low, high int, result kind, call func([]cep.Value) (cep.Value, error), kinds ...kind) *function {
		return &function{name: name, usage: usage, min: low, max: high, kinds: kinds, result: result, many: call}
	}
	fs := []*function{
		// Time.
		{name: "ts", usage: "ts(e)", min: 1, max: 1, result: timeKind, resolve: resolveTime, one: timeOfValue},
		one("hours", "hours(d)", durationKind, numberKind, inUnits(time.Hour)),
		one("minutes", "minutes(d)", durationKind, numberKind, inUnits(time.Minute)),
		one("seconds", "seconds(d)", durationKind, numberKind, inUnits(time.Second)),
		{
			name: "duration", usage: `duration("1h30m")`, min: 1, max: 1, kinds: []kind{stringKind}, result: durationKind,
			resolve: resolveDuration, one: durationOf,
		},
		special("minute", `minute(t, "Europe/Zurich")`, 1, 2, resolveCalendar),
		special("hour", `hour(t, "Europe/Zurich")`, 1, 2, resolveCalendar),
		special("day", `day(t, "Europe/Zurich")`, 1, 2, resolveCalendar),
		special("weekday", `weekday(t, "Europe/Zurich")`, 1, 2, resolveCalendar),
		// Networks, places, tables.
		special("cidr", `cidr(ip, "10.0.0.0/8")`, 2, 2, resolveCIDR),
		special("like", `like(s, "*.exe")`, 2, 2, resolveLike),
		special("lookup", "lookup($map, x)", 2, 2, resolveLookup),
		{name: "geo_km", usage: "geo_km(a, b)", min: 2, max: 4, kinds: []kind{anyKind}, result: numberKind, many: geoKilometres},
		// Strings.
		one("lower", "lower(s)", stringKind, stringKind, mapString(strings.ToLower)),
		one("upper", "upper(s)", stringKind, stringKind, mapString(strings.ToUpper)),
		one("entropy", "entropy(s)", stringKind, numberKind, entropy),
		texts("trim", "trim(s)", 1, 2, stringKind, trim, stringKind),
		texts("trimPrefix", "trimPrefix(s, prefix)", 2, 2, stringKind, trimPrefix, stringKind),
		texts("trimSuffix", "trimSuffix(s, suffix)", 2, 2, stringKind, trimSuffix, stringKind),
		texts("split", `split(s, ",")`, 2, 3, listKind, split, stringKind, stringKind, numberKind),
		texts("replace", "replace(s, old, new)", 3, 4, stringKind, replace, stringKind, stringKind, stringKind, numberKind),
		texts("repeat", "repeat(s, n)", 2, 2, stringKind, repeat, stringKind, numberKind),
		list("join", `join(list, ", ")`, 1, 2, []kind{listKind, stringKind}, stringKind, join),
		two("hasPrefix", "hasPrefix(s, prefix)", stringKind, stringKind, boolKind, testStrings(strings.HasPrefix)),
		two("hasSuffix", "hasSuffix(s, suffix)", stringKind, stringKind, boolKind, testStrings(strings.HasSuffix)),
		// Numbers and conversions.
		one("abs", "abs(x)", anyKind, anyKind, absolute),
		one("ceil", "ceil(x)", numberKind, numberKind, mapNumber("ceil", math.Ceil)),
		one("floor", "floor(x)", numberKind, numberKind, mapNumber("floor", math.Floor)),
		one("round", "round(x)", numberKind, numberKind, mapNumber("round", math.Round)),
		one("int", "int(x)", anyKind, numberKind, toInt),
		one("float", "float(x)", anyKind, numberKind, toFloat),
		one("string", "string(x)", anyKind, stringKind, toString),
		one("type", "type(x)", anyKind, stringKind, typeName),
		// Lists and objects.
		{name: "len", usage: "len(list)", min: 1, max: 1, kinds: []kind{anyKind}, result: numberKind, resolve: resolveLen, one: length},
		special("first", "first(list)", 1, 1, resolveEnd),
		special("last", "last(list)", 1, 1, resolveEnd),
		special("get", "get(list, i)", 2, 2, resolveGet),
		{
			name: "take", usage: "take(list, n)", min: 2, max: 2, kinds: []kind{listKind, numberKind}, result: listKind,
			resolve: resolveTake, two: take,
		},
		list("reverse", "reverse(list)", 1, 1, []kind{listKind}, listKind, reverse),
		list("uniq", "uniq(list)", 1, 1, []kind{listKind}, listKind, unique),
		list("concat", "concat(a, b)", 1, manyArguments, []kind{listKind}, listKind, concat),
		list("flatten", "flatten(list)", 1, 1, []kind{listKind}, listKind, flatten),
		list("sort", "sort(list)", 1, 2, []kind{listKind, stringKind}, listKind, sortValues),
		{
			name: "count", usage: "count(list, condition)", min: 1, max: 1, kinds: []kind{listKind}, result: numberKind,
			resolve: resolveCount, many: countTrue,
		},
		one("keys", "keys(object)", objectKind, listKind, keys),
		one("values", "values(object)", objectKind, listKind, memberValues),
		numbers("sum", "sum(list, .field)", sum),
		numbers("min", "min(list, .field)", smallest),
		numbers("max", "max(list, .field)", largest),
		numbers("mean", "mean(list, .field)", mean),
		numbers("median", "median(list, .field)", median),
	}
	return append(fs, machineFunctions()...)
}

// wrongType is the error of a function that got a value it cannot work with.
func wrongType(function string, v cep.Value) error {
	return fmt.Errorf("%s of a value that is %s", function, kindOf(v))
}

// wholeNumber reads an argument that counts something.
func wholeNumber(function string, v cep.Value) (int, error) {
	f := v.AsFloat()
	if !v.IsNumber() || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
		return 0, fmt.Errorf("%s: %s is no count", function, v)
	}
	return int(f), nil
}

func absolute(v cep.Value) (cep.Value, error) {
	switch v.Kind() {
	case cep.KindInt, cep.KindDuration:
		if v.AsInt() == math.MinInt64 {
			return cep.Value{}, errOverflow
		}
		if v.AsInt() >= 0 {
			return v, nil
		}
		if v.Kind() == cep.KindDuration {
			return cep.DurationValue(cep.Duration(-v.AsInt())), nil
		}
		return cep.Int(-v.AsInt()), nil
	case cep.KindFloat:
		return cep.Float(math.Abs(v.AsFloat())), nil
	default:
		return cep.Value{}, wrongType("abs", v)
	}
}

func mapNumber(name string, f func(float64) float64) func(cep.Value) (cep.Value, error) {
	return func(v cep.Value) (cep.Value, error) {
		if !v.IsNumber() {
			return cep.Value{}, wrongType(name, v)
		}
		return cep.Float(f(v.AsFloat())), nil
	}
}

func toInt(v cep.Value) (cep.Value, error) {
	switch v.Kind() {
	case cep.KindInt:
		return v, nil
	case cep.KindFloat:
		f := math.Trunc(v.AsFloat())
		if !(f >= -1<<63 && f < 1<<63) {
			return cep.Value{}, errOverflow
		}
		return cep.Int(int64(f)), nil
	case cep.KindString:
		i, err := strconv.ParseInt(v.AsString(), 10, 64)
		if err != nil {
			return cep.Value{}, fmt.Errorf("int(%q): not a whole number", v.AsString())
		}
		return cep.Int(i), nil
	default:
		return cep.Value{}, wrongType("int", v)
	}
}

func toFloat(v cep.Value) (cep.Value, error) {
	switch v.Kind() {
	case cep.KindInt, cep.KindFloat:
		return cep.Float(v.AsFloat()), nil
	case cep.KindString:
		f, err := strconv.ParseFloat(v.AsString(), 64)
		if err != nil {
			return cep.Value{}, fmt.Errorf("float(%q): not a number", v.AsString())
		}
		return cep.Float(f), nil
	default:
		return cep.Value{}, wrongType("float", v)
	}
}

func toString(v cep.Value) (cep.Value, error) { return cep.String(text(v)), nil }

// typeName uses the names of expr.
func typeName(v cep.Value) (cep.Value, error) {
	switch v.Kind() {
	case cep.KindList:
		return cep.String("array"), nil
	case cep.KindObject:
		return cep.String("map"), nil
	default:
		return cep.String(v.Kind().String()), nil
	}
}
