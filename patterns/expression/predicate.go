package expression

import (
	"fmt"
	"slices"

	"github.com/cepd/cepd/cep"
)

// elements are what a predicate goes through: taken events or values.
type elements struct {
	takens []cep.Taken
	values []cep.Value
	// mark is where the taken events begin on the frame's stack.
	mark int
}

func (e *elements) len() int { return len(e.takens) + len(e.values) }

// enter makes the i-th element that of a scope.
func (e *elements) enter(f *frame, scope, i int) error {
	if err := f.spend(1); err != nil {
		return err
	}
	at := &f.elements[scope]
	at.index = i
	if e.takens != nil {
		at.taken = e.takens[i]
	} else {
		at.value = e.values[i]
	}
	return nil
}

// leave gives the frame's stack back.
func (e *elements) leave(f *frame) { f.pop(e.mark) }

// current is the element of a scope as a value: the whole event where it is one.
func (e *elements) current(f *frame, scope, slot int) cep.Value {
	if e.takens != nil {
		return f.elements[scope].taken.Value(slot)
	}
	return f.elements[scope].value
}

// compileElements makes the list of a predicate; ok is false where it is missing.
func compileElements(n *node) func(s *cep.Scope, f *frame) (_ elements, ok bool, _ error) {
	if list := n.args[0]; list.kind == takensKind {
		takens := compileTakens(list)
		return func(s *cep.Scope, f *frame) (elements, bool, error) {
			mark := len(f.takens)
			l, err := takens(s, f)
			return elements{takens: l, mark: mark}, err == nil, err
		}
	}
	list, wrong := compileValue(n.args[0]), fmt.Errorf("%s: %s is no list", n, n.args[0])
	return func(s *cep.Scope, f *frame) (elements, bool, error) {
		v, err := list(s, f)
		if err != nil || v.IsMissing() {
			return elements{mark: len(f.takens)}, false, err
		}
		if v.Kind() != cep.KindList {
			return elements{mark: len(f.takens)}, false, wrong
		}
		return elements{values: v.AsList(), mark: len(f.takens)}, true, nil
	}
}

// compilePredicate makes the value of any, map, sum and the like.
func compilePredicate(n *node) valueFunc {
	switch n.name {
	case "any", "all", "none", "one":
		return compileTest(n)
	case "count", "findIndex", "findLastIndex", "find", "findLast", "filter":
		return compileSelect(n)
	case "sum", "mean", "min", "max", "median":
		return compileFold(n)
	case "map", "sortBy":
		return compileMap(n)
	case "groupBy":
		return compileGroup(n)
	default:
		return compileReduce(n)
	}
}

// compileTest is any, all, none and one. Over a missing list they are false, and none, a negation, is true.
func compileTest(n *node) valueFunc {
	list, body, name, scope := compileElements(n), compileCondition(n.args[1]), n.name, n.index
	return func(s *cep.Scope, f *frame) (cep.Value, error) {
		l, ok, err := list(s, f)
		if err != nil {
			return cep.Value{}, err
		}
		hits, misses := 0, 0
		for i := range l.len() {
			if err := l.enter(f, scope, i); err != nil {
				return cep.Value{}, err
			}
			hit, err := body(s, f)
			if err != nil {
				return cep.Value{}, err
			}
			if hit {
				hits++
			} else {
				misses++
			}
			if name == "all" && misses > 0 || name == "one" && hits > 1 || name != "all" && name != "one" && hits > 0 {
				break
			}
		}
		l.leave(f)
		switch name {
		case "any":
			return cep.Bool(hits > 0), nil
		case "all":
			return cep.Bool(ok && misses == 0), nil
		case "none":
			return cep.Bool(hits == 0), nil
		default:
			return cep.Bool(hits == 1), nil
		}
	}
}

// compileSelect is count and the functions that give a position, and filter and find over values.
func compileSelect(n *node) valueFunc {
	list, body, name, scope := compileElements(n), compileCondition(n.args[1]), n.name, n.index
	return func(s *cep.Scope, f *frame) (cep.Value, error) {
		l, ok, err := list(s, f)
		if err != nil || !ok {
			return cep.Value{}, err
		}
		count, index := 0, -1
		var chosen []cep.Value
		for i := range l.len() {
			if err := l.enter(f, scope, i); err != nil {
				return cep.Value{}, err
			}
			hit, err := body(s, f)
			if err != nil {
				return cep.Value{}, err
			}
			if !hit {
				continue
			}
			count, index = count+1, i
			if name == "filter" {
				chosen = append(chosen, l.values[i])
			}
			if name == "find" || name == "findIndex" {
				break
			}
		}
		l.leave(f)
		switch {
		case name == "count":
			return cep.Int(int64(count)), nil
		case name == "filter":
			return cep.List(chosen), nil
		case index < 0:
			return cep.Value{}, nil
		case name == "find" || name == "findLast":
			return l.values[index], nil
		}
		return cep.Int(int64(index)), nil
	}
}

// compileFold is sum, mean, min, max and median of an expression.
func compileFold(n *node) valueFunc {
	list, body, name, scope := compileElements(n), compileValue(n.args[1]), n.name, n.index
	sign := 1
	if name == "min" {
		sign = -1
	}
	return func(s *cep.Scope, f *frame) (cep.Value, error) {
		l, ok, err := list(s, f)
		if err != nil || !ok {
			return cep.Value{}, err
		}
		t, e, mark := total{}, extreme{sign: sign}, len(f.values)
		for i := range l.len() {
			if err := l.enter(f, scope, i); err != nil {
				return cep.Value{}, err
			}
			v, err := body(s, f)
			switch {
			case err != nil || v.IsMissing():
			case name == "sum" || name == "mean":
				err = t.add(v)
			case name == "median":
				f.values = append(f.values, v)
			default:
				err = e.add(v)
			}
			if err != nil {
				return cep.Value{}, err
			}
		}
		l.leave(f)
		switch name {
		case "sum":
			return t.value(), nil
		case "mean":
			return t.mean()
		case "median":
			v, err := median(f.values[mark:])
			f.values = f.values[:mark]
			return v, err
		}
		return e.best, nil
	}
}

// compileMap is map, and sortBy of values.
func compileMap(n *node) valueFunc {
	list, body, scope := compileElements(n), compileValue(n.args[1]), n.index
	sorted, down := n.name == "sortBy", n.descending()
	return func(s *cep.Scope, f *frame) (cep.Value, error) {
		l, ok, err := list(s, f)
		if err != nil || !ok {
			return cep.Value{}, err
		}
		results := make([]cep.Value, l.len())
		for i := range results {
			if err := l.enter(f, scope, i); err != nil {
				return cep.Value{}, err
			}
			if results[i], err = body(s, f); err != nil {
				return cep.Value{}, err
			}
		}
		l.leave(f)
		if !sorted {
			return cep.List(results), f.weigh(cep.List(results))
		}
		elements := slices.Clone(l.values)
		return cep.List(elements), sortBy(elements, results, down)
	}
}

func (n *node) descending() bool { return n.args[2] != nil && n.args[2].value.AsString() == "desc" }

// compileGroup is groupBy: an object of lists, the groups in the order of their first elements. Elements for which the
// body is missing are in no group.
func compileGroup(n *node) valueFunc {
	list, body, scope, slot := compileElements(n), compileValue(n.args[1]), n.index, n.slot
	return func(s *cep.Scope, f *frame) (cep.Value, error) {
		l, ok, err := list(s, f)
		if err != nil || !ok {
			return cep.Value{}, err
		}
		at := map[string]int{}
		var groups []cep.Member
		var members [][]cep.Value
		for i := range l.len() {
			if err := l.enter(f, scope, i); err != nil {
				return cep.Value{}, err
			}
			v, err := body(s, f)
			if err != nil {
				return cep.Value{}, err
			}
			if v.IsMissing() {
				continue
			}
			name := text(v)
			g, known := at[name]
			if !known {
				g = len(groups)
				at[name] = g
				groups, members = append(groups, cep.Member{Name: name}), append(members, nil)
			}
			members[g] = append(members[g], l.current(f, scope, slot))
		}
		l.leave(f)
		for i := range groups {
			groups[i].Value = cep.List(members[i])
		}
		return cep.Object(groups), nil
	}
}

// compileReduce is reduce(list, expression with #acc, start). Without a start the first element is it.
func compileReduce(n *node) valueFunc {
	list, body, scope, slot := compileElements(n), compileValue(n.args[1]), n.index, n.slot
	var start valueFunc
	if n.args[2] != nil {
		start = compileValue(n.args[2])
	}
	return func(s *cep.Scope, f *frame) (cep.Value, error) {
		l, ok, err := list(s, f)
		if err != nil || !ok {
			return cep.Value{}, err
		}
		var accumulator cep.Value
		if start != nil {
			if accumulator, err = start(s, f); err != nil {
				return cep.Value{}, err
			}
		}
		for i := range l.len() {
			if err := l.enter(f, scope, i); err != nil {
				return cep.Value{}, err
			}
			if i == 0 && start == nil {
				accumulator = l.current(f, scope, slot)
				continue
			}
			f.elements[scope].accumulator = accumulator
			if accumulator, err = body(s, f); err == nil {
				err = f.weigh(accumulator)
			}
			if err != nil {
				return cep.Value{}, err
			}
		}
		l.leave(f)
		return accumulator, nil
	}
}

// compileFind is find and findLast over taken events.
func compileFind(n *node) takenFunc {
	list, body, name, scope := compileElements(n), compileCondition(n.args[1]), n.name, n.index
	return func(s *cep.Scope, f *frame) (cep.Taken, error) {
		l, _, err := list(s, f)
		if err != nil {
			return nil, err
		}
		var found cep.Taken
		for i, t := range l.takens {
			if err := l.enter(f, scope, i); err != nil {
				return nil, err
			}
			hit, err := body(s, f)
			if err != nil {
				return nil, err
			}
			if hit {
				found = t
				if name == "find" {
					break
				}
			}
		}
		l.leave(f)
		return found, nil
	}
}

// compileFilterTakens keeps the events for which the body holds, in place on the frame's stack.
func compileFilterTakens(n *node) takensFunc {
	takens, body, scope := compileTakens(n.args[0]), compileCondition(n.args[1]), n.index
	return func(s *cep.Scope, f *frame) ([]cep.Taken, error) {
		e, err := takens(s, f)
		if err != nil {
			return nil, err
		}
		l := elements{takens: e}
		kept := e[:0]
		for i, t := range e {
			if err := l.enter(f, scope, i); err != nil {
				return nil, err
			}
			hit, err := body(s, f)
			if err != nil {
				return nil, err
			}
			if hit {
				kept = append(kept, t)
			}
		}
		return slices.Clip(kept), nil
	}
}

func compileSortTakens(n *node) takensFunc {
	takens, body, scope, down := compileTakens(n.args[0]), compileValue(n.args[1]), n.index, n.descending()
	return func(s *cep.Scope, f *frame) ([]cep.Taken, error) {
		l, err := takens(s, f)
		if err != nil {
			return nil, err
		}
		by, e := make([]cep.Value, len(l)), elements{takens: l}
		for i := range l {
			if err := e.enter(f, scope, i); err != nil {
				return nil, err
			}
			if by[i], err = body(s, f); err != nil {
				return nil, fmt.Errorf("%s: %w", n, err)
			}
		}
		return l, sortBy(l, by, down)
	}
}
