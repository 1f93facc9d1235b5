package expression

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/cepd/cepd/cep"
)

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
