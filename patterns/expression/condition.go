package expression

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
)

// compileCondition makes a condition of a node. Missing is false.
func compileCondition(n *node) conditionFunc {
	switch n.op {
	case opNot:
		c := compileCondition(n.args[0])
		return func(s *cep.Scope, f *frame) (bool, error) {
			ok, err := c(s, f)
			return !ok && err == nil, err
		}
	case opAnd:
		return compileAnd(n.args)
	case opOr:
		return compileOr(n.args)
	case opCompare:
		return compileCompare(n)
	case opIn:
		return compileIn(n)
	case opText:
		return compileText(n)
	case opCall:
		switch n.function.name {
		case "cidr":
			return compileCIDR(n)
		case "like":
			return compileLike(n)
		}
	default:
	}
	if n.kind >= eventKind {
		return func(*cep.Scope, *frame) (bool, error) { return false, fmt.Errorf("%s is no condition", n) }
	}
	value, wrong := compileValue(n), fmt.Errorf("%s is neither true nor false", n)
	return func(s *cep.Scope, f *frame) (bool, error) {
		v, err := value(s, f)
		if err != nil {
			return false, err
		}
		if v.Kind() != cep.KindBool && !v.IsMissing() {
			return false, wrong
		}
		return v.AsBool(), nil
	}
}

func compileAnd(parts []*node) conditionFunc {
	cs := make([]conditionFunc, len(parts))
	for i, p := range parts {
		cs[i] = compileCondition(p)
	}
	switch len(cs) {
	case 2:
		a, b := cs[0], cs[1]
		return func(s *cep.Scope, f *frame) (bool, error) {
			if ok, err := a(s, f); !ok || err != nil {
				return false, err
			}
			return b(s, f)
		}
	case 3:
		a, b, c := cs[0], cs[1], cs[2]
		return func(s *cep.Scope, f *frame) (bool, error) {
			if ok, err := a(s, f); !ok || err != nil {
				return false, err
			}
			if ok, err := b(s, f); !ok || err != nil {
				return false, err
			}
			return c(s, f)
		}
	}
	return func(s *cep.Scope, f *frame) (bool, error) {
		for _, c := range cs {
			if ok, err := c(s, f); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	}
}

func compileOr(parts []*node) conditionFunc {
	cs := make([]conditionFunc, len(parts))
	for i, p := range parts {
		cs[i] = compileCondition(p)
	}
	if len(cs) == 2 {
		a, b := cs[0], cs[1]
		return func(s *cep.Scope, f *frame) (bool, error) {
			if ok, err := a(s, f); ok || err != nil {
				return ok && err == nil, err
			}
			return b(s, f)
		}
	}
	return func(s *cep.Scope, f *frame) (bool, error) {
		for _, c := range cs {
			if ok, err := c(s, f); ok || err != nil {
				return ok && err == nil, err
			}
		}
		return false, nil
	}
}

// order says which results of a comparison make an operator true: bit 0 for less, 1 for equal, 2 for greater.
type order uint8

var orders = map[string]order{"<": 1, "==": 2, "<=": 3, ">": 4, "!=": 5, ">=": 6}

func (o order) holds(c int) bool { return o>>(c+1)&1 != 0 }

// mirrored is the operator with its sides exchanged.
func (o order) mirrored() order { return o&2 | o&1<<2 | o>>2 }

func compileCompare(n *node) conditionFunc {
	a, b, o := n.args[0], n.args[1], orders[n.name]
	if a.isNil() && !b.isNil() {
		a, b = b, a
	}
	if b.isNil() {
		return compileAbsence(a, n.name == "!=")
	}
	if a.op == opConst && b.op != opConst {
		a, b, o = b, a, o.mirrored()
	}
	if b.op == opConst && a.op == opField {
		if c := compileFieldCompare(a.slot, o, b.value); c != nil {
			return c
		}
	}
	x, y := compileValue(a), compileValue(b)
	if n.name == "==" || n.name == "!=" {
		unequal := n.name == "!="
		return func(s *cep.Scope, f *frame) (bool, error) {
			v, err := x(s, f)
			if err != nil {
				return false, err
			}
			w, err := y(s, f)
			if err != nil {
				return false, err
			}
			return equal(v, w) != unequal, nil
		}
	}
	return func(s *cep.Scope, f *frame) (bool, error) {
		v, err := x(s, f)
		if err != nil {
			return false, err
		}
		w, err := y(s, f)
		if err != nil {
			return false, err
		}
		c, ok := cep.Compare(v, w)
		return ok && o.holds(c), nil
	}
}

// equal is the == of the language: a missing value equals nothing, not even another missing one.
func equal(v, w cep.Value) bool { return !v.IsMissing() && !w.IsMissing() && cep.Equal(v, w) }

// compileAbsence is x == nil and x != nil: the questions whether there is an x.
func compileAbsence(n *node, present bool) conditionFunc {
	if n.kind == takenKind {
		item := compileTaken(n)
		return func(s *cep.Scope, f *frame) (bool, error) {
			t, err := item(s, f)
			return err == nil && (t != nil) == present, err
		}
	}
	value := compileValue(n)
	return func(s *cep.Scope, f *frame) (bool, error) {
		v, err := value(s, f)
		return err == nil && !v.IsMissing() == present, err
	}
}

// field returns the place of a field in an event, so that what is looked at is not copied first.
func field(s *cep.Scope, slot int) *cep.Value {
	if values := s.Event.Values; slot < len(values) {
		return &values[slot]
	}
	return &noValue
}

// noValue is the field that an event does not have. It is never written.
var noValue cep.Value

// exactInts bounds the ints that are floats as well: with them an int and a float compare as floats.
const exactInts = 1 << 53

// compileFieldCompare is the comparison that rules consist of: a field with a constant. It is nil for constants that
// need the general way.
func compileFieldCompare(slot int, o order, constant cep.Value) conditionFunc {
	unequal := o == orders["!="]
	switch constant.Kind() {
	case cep.KindString:
		text := constant.AsString()
		switch o {
		case orders["=="]:
			return func(s *cep.Scope, _ *frame) (bool, error) {
				v := field(s, slot)
				return v.Kind() == cep.KindString && v.AsString() == text, nil
			}
		case orders["!="]:
			return func(s *cep.Scope, _ *frame) (bool, error) {
				v := field(s, slot)
				return v.Kind() != cep.KindString || v.AsString() != text, nil
			}
		}
	case cep.KindInt, cep.KindFloat:
		number, float := constant.AsInt(), constant.AsFloat()
		if constant.Kind() == cep.KindFloat {
			if float != math.Trunc(float) || math.Abs(float) >= exactInts {
				return nil
			}
			number = int64(float)
		} else if number <= -exactInts || number >= exactInts {
			return nil
		}
		return func(s *cep.Scope, _ *frame) (bool, error) {
			switch v := field(s, slot); v.Kind() {
			case cep.KindInt:
				return o.holds(cmp.Compare(v.AsInt(), number)), nil
			case cep.KindFloat:
				switch f := v.AsFloat(); {
				case f < float:
					return o.holds(-1), nil
				case f > float:
					return o.holds(1), nil
				case f == float:
					return o.holds(0), nil
				}
			default:
			}
			return unequal, nil
		}
	case cep.KindBool:
		if o == orders["=="] {
			want := constant.AsBool()
			return func(s *cep.Scope, _ *frame) (bool, error) {
				v := field(s, slot)
				return v.Kind() == cep.KindBool && v.AsBool() == want, nil
			}
		}
	default:
	}
	return nil
}

// maxScan is the length up to which a list of strings is searched from its beginning: a comparison costs about 1.5 ns,
// a look-up in a table 15.
const maxScan = 8

func compileIn(n *node) conditionFunc {
	needle, list := n.args[0], n.args[1]
	x := compileValue(needle)
	contains := func(cep.Value) bool { return false }
	switch {
	case list.list != nil:
		contains = list.list.Contains
	case list.op == opConst && list.kind == listKind:
		if texts := constantTexts(list.value.AsList()); texts != nil && needle.op == opField {
			return compileFieldIn(needle.slot, texts)
		}
		contains = constantContains(list.value.AsList())
	default:
		absent := list.op == opArray && slices.ContainsFunc(list.args, (*node).isNil)
		return compileInValue(x, compileValue(list), absent)
	}
	return func(s *cep.Scope, f *frame) (bool, error) {
		v, err := x(s, f)
		return err == nil && contains(v), err
	}
}

// constantTexts returns a short list of strings, nil for every other list.
func constantTexts(l []cep.Value) []string {
	if len(l) > maxScan {
		return nil
	}
	texts := []string{}
	for _, v := range l {
		if v.Kind() != cep.KindString {
			return nil
		}
		texts = append(texts, v.AsString())
	}
	return texts
}

func compileFieldIn(slot int, texts []string) conditionFunc {
	return func(s *cep.Scope, _ *frame) (bool, error) {
		v := field(s, slot)
		if v.Kind() != cep.KindString {
			return false, nil
		}
		return slices.Contains(texts, v.AsString()), nil
	}
}

// constantContains makes the test for a constant list. A nil in it asks for absence, as x == nil does.
func constantContains(l []cep.Value) func(cep.Value) bool {
	table, absent := NewList(l), false
	var odd []cep.Value // what tables do not hold: "", lists, objects
	for _, v := range l {
		if v.IsMissing() {
			absent = true
		} else if _, ok := cep.KeyOf(v); !ok {
			odd = append(odd, v)
		}
	}
	return func(v cep.Value) bool {
		if v.IsMissing() {
			return absent
		}
		if table.Contains(v) {
			return true
		}
		for _, o := range odd {
			if cep.Equal(o, v) {
				return true
			}
		}
		return false
	}
}

// compileInValue looks into a list or, for names, an object that is not constant. Anything else has no elements. absent
// says that a nil was written into the list.
func compileInValue(x, y valueFunc, absent bool) conditionFunc {
	return func(s *cep.Scope, f *frame) (bool, error) {
		v, err := x(s, f)
		if err != nil {
			return false, err
		}
		list, err := y(s, f)
		if err != nil || v.IsMissing() {
			return err == nil && absent, err
		}
		if list.Kind() == cep.KindObject {
			return v.Kind() == cep.KindString && list.Member(v.AsString()).Kind() != cep.KindMissing, nil
		}
		for _, e := range list.AsList() {
			if equal(v, e) {
				return true, nil
			}
		}
		return false, nil
	}
}

// compileText is contains, startsWith, endsWith and matches: false for what is no string.
func compileText(n *node) conditionFunc {
	if n.name == "matches" {
		re, ok := n.text.(*regexp.Regexp)
		if !ok {
			return compileMatches(n)
		}
		x := compileValue(n.args[0])
		return func(s *cep.Scope, f *frame) (bool, error) {
			v, err := x(s, f)
			return err == nil && v.Kind() == cep.KindString && re.MatchString(v.AsString()), err
		}
	}
	test := strings.Contains
	switch n.name {
	case "startsWith":
		test = strings.HasPrefix
	case "endsWith":
		test = strings.HasSuffix
	}
	x, y := compileValue(n.args[0]), compileValue(n.args[1])
	return func(s *cep.Scope, f *frame) (bool, error) {
		v, err := x(s, f)
		if err != nil {
			return false, err
		}
		w, err := y(s, f)
		if err != nil {
			return false, err
		}
		return v.Kind() == cep.KindString && w.Kind() == cep.KindString && test(v.AsString(), w.AsString()), nil
	}
}

func compileCIDR(n *node) conditionFunc {
	x, nets := compileValue(n.args[0]), n.text.(*networks)
	return func(s *cep.Scope, f *frame) (bool, error) {
		v, err := x(s, f)
		if err != nil || v.Kind() != cep.KindString {
			return false, err
		}
		a, ok := parseAddress(v.AsString())
		return ok && nets.contain(a), nil
	}
}

func compileLike(n *node) conditionFunc {
	x := compileValue(n.args[0])
	if patterns, ok := n.text.([]string); ok {
		return func(s *cep.Scope, f *frame) (bool, error) {
			v, err := x(s, f)
			if err != nil || v.Kind() != cep.KindString {
				return false, err
			}
			for _, p := range patterns {
				if like(v.AsString(), p) {
					return true, nil
				}
			}
			return false, nil
		}
	}
	y := compileValue(n.args[1])
	return func(s *cep.Scope, f *frame) (bool, error) {
		v, err := x(s, f)
		if err != nil {
			return false, err
		}
		p, err := y(s, f)
		if err != nil || v.Kind() != cep.KindString {
			return false, err
		}
		if p.Kind() == cep.KindList {
			for _, e := range p.AsList() {
				if e.Kind() == cep.KindString && like(v.AsString(), e.AsString()) {
					return true, nil
				}
			}
			return false, nil
		}
		return p.Kind() == cep.KindString && like(v.AsString(), p.AsString()), nil
	}
}
