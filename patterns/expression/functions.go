package expression

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // so that a calendar means the same on a machine without a zone database
	"unicode/utf8"

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
		list("count", "count(list, condition)", 1, 1, []kind{listKind}, numberKind, countTrue),
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

func inUnits(unit time.Duration) func(cep.Value) (cep.Value, error) {
	return func(v cep.Value) (cep.Value, error) {
		if v.Kind() != cep.KindDuration {
			return cep.Value{}, wrongType("hours, minutes or seconds", v)
		}
		d := v.AsInt()
		// In two parts, so that whole units are exact.
		return cep.Float(float64(d/int64(unit)) + float64(d%int64(unit))/float64(unit)), nil
	}
}

// timeOfValue reads a time: RFC 3339 or seconds since 1970.
func timeOfValue(v cep.Value) (cep.Value, error) {
	switch v.Kind() {
	case cep.KindTime:
		return v, nil
	case cep.KindString:
		t, err := time.Parse(time.RFC3339Nano, v.AsString())
		if err != nil {
			return cep.Value{}, fmt.Errorf("ts(%q): not a time as in 2006-01-02T15:04:05Z", v.AsString())
		}
		at, ok := cep.TimeOf(t)
		if !ok {
			return cep.Value{}, errTime
		}
		return cep.TimeValue(at), nil
	case cep.KindInt:
		i := v.AsInt()
		if i > math.MaxInt64/int64(time.Second) || i < math.MinInt64/int64(time.Second) {
			return cep.Value{}, errTime
		}
		return cep.TimeValue(cep.Time(i) * cep.Second), nil
	case cep.KindFloat:
		ns := math.Round(v.AsFloat() * float64(time.Second))
		if !(ns > math.MinInt64 && ns < math.MaxInt64) {
			return cep.Value{}, errTime
		}
		return cep.TimeValue(cep.Time(ns)), nil
	default:
		return cep.Value{}, wrongType("ts", v)
	}
}

func durationOf(v cep.Value) (cep.Value, error) {
	if v.Kind() != cep.KindString {
		return cep.Value{}, wrongType("duration", v)
	}
	d, err := parseDuration(v.AsString())
	return cep.DurationValue(d), err
}

// parseDuration reads Go's durations, and days and weeks of 24 hours and 7 days as the rule files write them.
func parseDuration(s string) (cep.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	var total cep.Duration
	rest := s
	for rest != "" {
		end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if end <= 0 {
			return 0, fmt.Errorf("malformed duration %q", s)
		}
		n, err := strconv.ParseInt(rest[:end], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("malformed duration %q", s)
		}
		rest = rest[end:]
		end = strings.IndexFunc(rest, func(r rune) bool { return r >= '0' && r <= '9' })
		if end < 0 {
			end = len(rest)
		}
		unit := durationUnits[rest[:end]]
		if unit == 0 || n > (math.MaxInt64-int64(total))/int64(unit) {
			return 0, fmt.Errorf("malformed duration %q", s)
		}
		total += cep.Duration(n) * unit
		rest = rest[end:]
	}
	if s == "" {
		return 0, errors.New(`malformed duration ""`)
	}
	return total, nil
}

var durationUnits = map[string]cep.Duration{
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
}

// calendarPart returns the number of a calendar in a zone. Weekdays count from Sunday, 0, as cron and SQL do.
func calendarPart(name string, t cep.Time, zone *time.Location) int64 {
	u := time.Unix(0, int64(t)).In(zone)
	switch name {
	case "minute":
		return int64(u.Minute())
	case "hour":
		return int64(u.Hour())
	case "day":
		return int64(u.Day())
	default:
		return int64(u.Weekday())
	}
}

func mapString(f func(string) string) func(cep.Value) (cep.Value, error) {
	return func(v cep.Value) (cep.Value, error) {
		if v.Kind() != cep.KindString {
			return cep.Value{}, wrongType("lower or upper", v)
		}
		return cep.String(f(v.AsString())), nil
	}
}

func testStrings(f func(a, b string) bool) func(a, b cep.Value) (cep.Value, error) {
	return func(a, b cep.Value) (cep.Value, error) {
		return cep.Bool(a.Kind() == cep.KindString && b.Kind() == cep.KindString && f(a.AsString(), b.AsString())), nil
	}
}

// needStrings checks that the first n arguments are strings.
func needStrings(function string, args []cep.Value, n int) error {
	for _, a := range args[:min(n, len(args))] {
		if a.Kind() != cep.KindString {
			return wrongType(function, a)
		}
	}
	return nil
}

func trim(args []cep.Value) (cep.Value, error) {
	if err := needStrings("trim", args, 2); err != nil {
		return cep.Value{}, err
	}
	if len(args) == 2 {
		return cep.String(strings.Trim(args[0].AsString(), args[1].AsString())), nil
	}
	return cep.String(strings.TrimSpace(args[0].AsString())), nil
}

func trimPrefix(args []cep.Value) (cep.Value, error) {
	if err := needStrings("trimPrefix", args, 2); err != nil {
		return cep.Value{}, err
	}
	return cep.String(strings.TrimPrefix(args[0].AsString(), args[1].AsString())), nil
}

func trimSuffix(args []cep.Value) (cep.Value, error) {
	if err := needStrings("trimSuffix", args, 2); err != nil {
		return cep.Value{}, err
	}
	return cep.String(strings.TrimSuffix(args[0].AsString(), args[1].AsString())), nil
}

func split(args []cep.Value) (cep.Value, error) {
	if err := needStrings("split", args, 2); err != nil {
		return cep.Value{}, err
	}
	n := -1
	if len(args) == 3 {
		i, err := wholeNumber("split", args[2])
		if err != nil {
			return cep.Value{}, err
		}
		n = i
	}
	if strings.Count(args[0].AsString(), args[1].AsString()) >= maxList {
		return cep.Value{}, errListSize
	}
	parts := strings.SplitN(args[0].AsString(), args[1].AsString(), n)
	out := make([]cep.Value, len(parts))
	for i, p := range parts {
		out[i] = cep.String(p)
	}
	return cep.List(out), nil
}

// wholeNumber reads an argument that counts something.
func wholeNumber(function string, v cep.Value) (int, error) {
	f := v.AsFloat()
	if !v.IsNumber() || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
		return 0, fmt.Errorf("%s: %s is no count", function, v)
	}
	return int(f), nil
}

func replace(args []cep.Value) (cep.Value, error) {
	if err := needStrings("replace", args, 3); err != nil {
		return cep.Value{}, err
	}
	n := -1
	if len(args) == 4 {
		i, err := wholeNumber("replace", args[3])
		if err != nil {
			return cep.Value{}, err
		}
		n = i
	}
	s, old, fresh := args[0].AsString(), args[1].AsString(), args[2].AsString()
	if grown := strings.Count(s, old) * (len(fresh) - len(old)); len(s)+grown > maxString {
		return cep.Value{}, errStringSize
	}
	return cep.String(strings.Replace(s, old, fresh, n)), nil
}

func repeat(args []cep.Value) (cep.Value, error) {
	if err := needStrings("repeat", args, 1); err != nil {
		return cep.Value{}, err
	}
	n, err := wholeNumber("repeat", args[1])
	if err != nil || n < 0 {
		return cep.Value{}, fmt.Errorf("repeat: %s is no count", args[1])
	}
	s := args[0].AsString()
	if s != "" && n > maxString/len(s) {
		return cep.Value{}, errStringSize
	}
	return cep.String(strings.Repeat(s, n)), nil
}

func join(args []cep.Value) (cep.Value, error) {
	if args[0].Kind() != cep.KindList {
		return cep.Value{}, wrongType("join", args[0])
	}
	glue := ""
	if len(args) == 2 {
		if err := needStrings("join", args[1:], 1); err != nil {
			return cep.Value{}, err
		}
		glue = args[1].AsString()
	}
	var b strings.Builder
	first := true
	for _, v := range args[0].AsList() {
		if v.IsMissing() {
			continue
		}
		if !first {
			b.WriteString(glue)
		}
		first = false
		b.WriteString(text(v))
		if b.Len() > maxString {
			return cep.Value{}, errStringSize
		}
	}
	return cep.String(b.String()), nil
}

// text gives a value as people read it: strings without quotes.
func text(v cep.Value) string {
	if v.Kind() == cep.KindString {
		return v.AsString()
	}
	return v.String()
}

// entropy is Shannon's, in bits per byte.
func entropy(v cep.Value) (cep.Value, error) {
	if v.Kind() != cep.KindString {
		return cep.Value{}, wrongType("entropy", v)
	}
	s := v.AsString()
	var counts [256]int
	for i := range len(s) {
		counts[s[i]]++
	}
	bits := 0.0
	for _, c := range counts {
		if c > 0 {
			p := float64(c) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return cep.Float(bits), nil
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

func length(v cep.Value) (cep.Value, error) {
	switch v.Kind() {
	case cep.KindString:
		return cep.Int(int64(utf8.RuneCountInString(v.AsString()))), nil
	case cep.KindList:
		return cep.Int(int64(len(v.AsList()))), nil
	case cep.KindObject:
		return cep.Int(int64(len(v.AsObject()))), nil
	default:
		return cep.Value{}, wrongType("len", v)
	}
}

func take(list, n cep.Value) (cep.Value, error) {
	i, err := wholeNumber("take", n)
	if err != nil || i < 0 {
		return cep.Value{}, fmt.Errorf("take: %s is no count", n)
	}
	if list.Kind() != cep.KindList {
		return cep.Value{}, wrongType("take", list)
	}
	l := list.AsList()
	return cep.List(l[:min(i, len(l))]), nil
}

// needLists checks that all arguments are lists.
func needLists(function string, args []cep.Value) error {
	for _, a := range args {
		if a.Kind() != cep.KindList {
			return wrongType(function, a)
		}
	}
	return nil
}

func reverse(args []cep.Value) (cep.Value, error) {
	if err := needLists("reverse", args); err != nil {
		return cep.Value{}, err
	}
	l := slices.Clone(args[0].AsList())
	slices.Reverse(l)
	return cep.List(l), nil
}

// unique keeps the first of equal values; missing and null ones are no values.
func unique(args []cep.Value) (cep.Value, error) {
	if err := needLists("uniq", args); err != nil {
		return cep.Value{}, err
	}
	l := args[0].AsList()
	out := make([]cep.Value, 0, len(l))
	seen := map[cep.Key]struct{}{}
	var odd []cep.Value // what is no key part is compared one by one
	for _, v := range l {
		if v.IsMissing() {
			continue
		}
		if k, ok := cep.KeyOf(v); ok {
			if _, ok := seen[k]; ok {
				continue
			}
			seen[k] = struct{}{}
		} else {
			if slices.ContainsFunc(odd, func(o cep.Value) bool { return cep.Equal(o, v) }) {
				continue
			}
			if len(odd) == maxRange {
				return cep.Value{}, errWork
			}
			odd = append(odd, v)
		}
		out = append(out, v)
	}
	return cep.List(out), nil
}

func concat(args []cep.Value) (cep.Value, error) {
	if err := needLists("concat", args); err != nil {
		return cep.Value{}, err
	}
	var out []cep.Value
	for _, a := range args {
		if len(out)+len(a.AsList()) > maxList {
			return cep.Value{}, errListSize
		}
		out = append(out, a.AsList()...)
	}
	return cep.List(out), nil
}

func flatten(args []cep.Value) (cep.Value, error) {
	if err := needLists("flatten", args); err != nil {
		return cep.Value{}, err
	}
	var out []cep.Value
	var add func(l []cep.Value) error
	add = func(l []cep.Value) error {
		for _, v := range l {
			if v.Kind() == cep.KindList {
				if err := add(v.AsList()); err != nil {
					return err
				}
				continue
			}
			if len(out) == maxList {
				return errListSize
			}
			out = append(out, v)
		}
		return nil
	}
	err := add(args[0].AsList())
	return cep.List(out), err
}

func sortValues(args []cep.Value) (cep.Value, error) {
	if err := needLists("sort", args[:1]); err != nil {
		return cep.Value{}, err
	}
	down := false
	if len(args) == 2 {
		switch args[1].AsString() {
		case "asc":
		case "desc":
			down = true
		default:
			return cep.Value{}, errors.New(`sort: the order is "asc" or "desc"`)
		}
	}
	l := slices.Clone(args[0].AsList())
	if err := sortBy(l, l, down); err != nil {
		return cep.Value{}, err
	}
	return cep.List(l), nil
}

// sortBy sorts elements by their keys, stably.
func sortBy[T any](elements []T, by []cep.Value, down bool) error {
	order := make([]int, len(elements))
	for i := range order {
		order[i] = i
	}
	var err error
	slices.SortStableFunc(order, func(i, j int) int {
		c, ok := cep.Compare(by[i], by[j])
		if !ok && err == nil {
			err = fmt.Errorf("sort: %s and %s have no order", kindOf(by[i]), kindOf(by[j]))
		}
		if down {
			return -c
		}
		return c
	})
	sorted := make([]T, len(elements))
	for i, j := range order {
		sorted[i] = elements[j]
	}
	copy(elements, sorted)
	return err
}

func countTrue(args []cep.Value) (cep.Value, error) {
	if err := needLists("count", args); err != nil {
		return cep.Value{}, err
	}
	n := int64(0)
	for _, v := range args[0].AsList() {
		if v.AsBool() {
			n++
		}
	}
	return cep.Int(n), nil
}

func keys(v cep.Value) (cep.Value, error) {
	if v.Kind() != cep.KindObject {
		return cep.Value{}, wrongType("keys", v)
	}
	var out []cep.Value
	for _, m := range v.AsObject() {
		out = append(out, cep.String(m.Name))
	}
	return cep.List(out), nil
}

func memberValues(v cep.Value) (cep.Value, error) {
	if v.Kind() != cep.KindObject {
		return cep.Value{}, wrongType("values", v)
	}
	var out []cep.Value
	for _, m := range v.AsObject() {
		out = append(out, m.Value)
	}
	return cep.List(out), nil
}
