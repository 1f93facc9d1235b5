package cep

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unsafe"
)

// Kind says what a Value holds.
type Kind uint8

// The kinds. Missing is the zero Kind: a field that the event does not have.
const (
	KindMissing Kind = iota
	KindNull
	KindBool
	KindInt
	KindFloat
	KindString
	KindTime     // made by ts(x)
	KindDuration // the difference of two times
	KindList
	KindObject
)

var kindNames = [...]string{"missing", "null", "bool", "int", "float", "string", "time", "duration", "list", "object"}

// String returns the kind as messages to users name it.
func (k Kind) String() string { return kindNames[k] }

// Value is one value of an event or an expression. The zero Value is missing. Integers inside int64 are ints, all other
// numbers are floats. A Value is immutable; a string or list inside it is shared, never copied.
type Value struct {
	ref  unsafe.Pointer // String: its bytes; List: *[]Value; Object: *[]Member; else nil
	num  uint64         // Bool, Int, Float (bits), Time, Duration; String: its length
	kind Kind
}

// Member is one name and value of an object, in the order of the source.
type Member struct {
	Name  string
	Value Value
}

// Null is JSON's null: present, but nothing.
var Null = Value{kind: KindNull}

// Bool returns b as a Value.
func Bool(b bool) Value {
	if b {
		return Value{kind: KindBool, num: 1}
	}
	return Value{kind: KindBool}
}

// Int returns i as a Value.
func Int(i int64) Value { return Value{kind: KindInt, num: uint64(i)} }

// Float returns f as a Value; a NaN stays a NaN.
func Float(f float64) Value { return Value{kind: KindFloat, num: math.Float64bits(f)} }

// String returns s as a Value without copying it.
func String(s string) Value {
	return Value{kind: KindString, ref: unsafe.Pointer(unsafe.StringData(s)), num: uint64(len(s))}
}

// TimeValue returns t as a Value.
func TimeValue(t Time) Value { return Value{kind: KindTime, num: uint64(t)} }

// DurationValue returns d as a Value.
func DurationValue(d Duration) Value { return Value{kind: KindDuration, num: uint64(d)} }

// List returns l as a Value without copying it.
func List(l []Value) Value { return Value{kind: KindList, ref: unsafe.Pointer(&l)} }

// Object returns members as a Value without copying them.
func Object(members []Member) Value { return Value{kind: KindObject, ref: unsafe.Pointer(&members)} }

// Kind returns what v holds.
func (v Value) Kind() Kind { return v.kind }

// IsMissing reports whether v is missing or null: conditions treat both alike.
func (v Value) IsMissing() bool { return v.kind <= KindNull }

// AsBool returns the bool in v, and false for every other kind.
func (v Value) AsBool() bool { return v.kind == KindBool && v.num != 0 }

// AsInt returns the int, time or duration in v, and 0 for every other kind.
func (v Value) AsInt() int64 {
	switch v.kind {
	case KindInt, KindTime, KindDuration:
		return int64(v.num)
	default:
		return 0
	}
}

// AsFloat returns the number in v as a float, and 0 for every other kind.
func (v Value) AsFloat() float64 {
	switch v.kind {
	case KindFloat:
		return math.Float64frombits(v.num)
	case KindInt:
		return float64(int64(v.num))
	default:
		return 0
	}
}

// AsString returns the string in v, and "" for every other kind.
func (v Value) AsString() string {
	if v.kind != KindString || v.num == 0 {
		return ""
	}
	return unsafe.String((*byte)(v.ref), int(v.num))
}

// AsTime returns the time in v.
func (v Value) AsTime() Time { return Time(v.AsInt()) }

// AsList returns the list in v, and nil for every other kind. It must not be changed.
func (v Value) AsList() []Value {
	if v.kind != KindList {
		return nil
	}
	return *(*[]Value)(v.ref)
}

// AsObject returns the members of the object in v, and nil for every other kind. They must not be changed.
func (v Value) AsObject() []Member {
	if v.kind != KindObject {
		return nil
	}
	return *(*[]Member)(v.ref)
}

// IsNumber reports whether v is an int or a float.
func (v Value) IsNumber() bool { return v.kind == KindInt || v.kind == KindFloat }

// Member returns the value of the named member of an object, the last one where the name stands twice; missing where v
// is no object or has no such member.
func (v Value) Member(name string) Value {
	for _, m := range slices.Backward(v.AsObject()) {
		if m.Name == name {
			return m.Value
		}
	}
	return Value{}
}

// Equal reports whether two values are the same value: 1 equals 1.0 but not "1", NaN equals nothing, missing equals
// missing and null equals null (conditions decide what a comparison with a missing value means before they ask).
func Equal(a, b Value) bool {
	if a.kind != b.kind {
		if a.IsNumber() && b.IsNumber() {
			c, ok := Compare(a, b)
			return ok && c == 0
		}
		return false
	}
	switch a.kind {
	case KindMissing, KindNull:
		return true
	case KindString:
		return a.AsString() == b.AsString()
	case KindFloat:
		return a.AsFloat() == b.AsFloat()
	case KindList:
		x, y := a.AsList(), b.AsList()
		if len(x) != len(y) {
			return false
		}
		for i := range x {
			if !Equal(x[i], y[i]) {
				return false
			}
		}
		return true
	case KindObject:
		x, y := a.AsObject(), b.AsObject()
		if len(x) != len(y) {
			return false
		}
		for _, m := range x {
			if o := b.Member(m.Name); o.kind == KindMissing || !Equal(m.Value, o) {
				return false
			}
		}
		return true
	default:
		return a.num == b.num
	}
}

// Compare orders two numbers, two strings, two times, two durations or two bools (false first). ok is false for every
// other pair and where a NaN is involved. An int and a float compare by their exact values.
func Compare(a, b Value) (c int, ok bool) {
	if a.kind != b.kind {
		switch {
		case a.kind == KindInt && b.kind == KindFloat:
			return compareIntFloat(int64(a.num), b.AsFloat())
		case a.kind == KindFloat && b.kind == KindInt:
			c, ok = compareIntFloat(int64(b.num), a.AsFloat())
			return -c, ok
		}
		return 0, false
	}
	switch a.kind {
	case KindInt, KindTime, KindDuration:
		return cmp.Compare(int64(a.num), int64(b.num)), true
	case KindFloat:
		x, y := a.AsFloat(), b.AsFloat()
		if x != x || y != y {
			return 0, false
		}
		return cmp.Compare(x, y), true
	case KindString:
		return strings.Compare(a.AsString(), b.AsString()), true
	case KindBool:
		return cmp.Compare(a.num, b.num), true
	default:
		return 0, false
	}
}

// compareIntFloat is exact: a conversion of i to float64 would round above 2^53.
func compareIntFloat(i int64, f float64) (int, bool) {
	switch {
	case f != f:
		return 0, false
	case f >= 1<<63:
		return -1, true
	case f < -1<<63:
		return 1, true
	}
	t := math.Trunc(f)
	if c := cmp.Compare(i, int64(t)); c != 0 {
		return c, true
	}
	return cmp.Compare(t, f), true
}
