package expression

import (
	"fmt"
	"math"
	"strings"

	"github.com/cepd/cepd/cep"
)

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
