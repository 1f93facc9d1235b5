package expression

import (
	"fmt"

	"github.com/cepd/cepd/cep"
)

// compileTaken makes the reference to one taken event: nil where there is none.
func compileTaken(n *node) takenFunc {
	switch n.op {
	case opPrev:
		return func(s *cep.Scope, _ *frame) (cep.Taken, error) { return s.Prev, nil }
	case opStep:
		step := n.index
		return func(s *cep.Scope, _ *frame) (cep.Taken, error) {
			if s.History == nil || s.History.Len(step) == 0 {
				return nil, nil
			}
			return s.History.At(step, 0), nil
		}
	case opAggregateTaken:
		i := n.index
		return func(s *cep.Scope, _ *frame) (cep.Taken, error) {
			if s.History == nil {
				return nil, nil
			}
			return s.History.AggregateEvent(i), nil
		}
	case opAt:
		return compileAt(n)
	case opPointer:
		i := n.index
		return func(_ *cep.Scope, f *frame) (cep.Taken, error) { return f.elements[i].taken, nil }
	case opPredicate:
		return compileFind(n)
	default:
		return func(*cep.Scope, *frame) (cep.Taken, error) { return nil, fmt.Errorf("%s is no event", n) }
	}
}

// compileAt is list[i]: counted from the end where i is negative, nil where there is no such event.
func compileAt(n *node) takenFunc {
	position := compileValue(n.args[1])
	at := func(s *cep.Scope, f *frame, length int) (int, bool, error) {
		v, err := position(s, f)
		if err != nil || v.IsMissing() {
			return 0, false, err
		}
		i, err := wholeNumber("a position", v)
		if err != nil {
			return 0, false, err
		}
		if i < 0 {
			i += length
		}
		return i, i >= 0 && i < length, nil
	}
	switch list := n.args[0]; list.op {
	case opSteps:
		step := list.index
		return func(s *cep.Scope, f *frame) (cep.Taken, error) {
			if s.History == nil {
				return nil, nil
			}
			i, ok, err := at(s, f, s.History.Len(step))
			if !ok || err != nil {
				return nil, err
			}
			return s.History.At(step, i), nil
		}
	case opMatch:
		return func(s *cep.Scope, f *frame) (cep.Taken, error) {
			if s.History == nil {
				return nil, nil
			}
			i, ok, err := at(s, f, s.History.Total())
			if !ok || err != nil {
				return nil, err
			}
			return s.History.Nth(i), nil
		}
	default:
		takens := compileTakens(list)
		return func(s *cep.Scope, f *frame) (cep.Taken, error) {
			mark := len(f.takens)
			l, err := takens(s, f)
			if err != nil {
				return nil, err
			}
			i, ok, err := at(s, f, len(l))
			if !ok || err != nil {
				f.pop(mark)
				return nil, err
			}
			found := l[i]
			f.pop(mark)
			return found, nil
		}
	}
}

// compileTakens makes a list of taken events, on the frame's stack.
func compileTakens(n *node) takensFunc {
	switch n.op {
	case opSteps:
		step := n.index
		return func(s *cep.Scope, f *frame) ([]cep.Taken, error) {
			if s.History == nil {
				return nil, nil
			}
			length, at := s.History.Len(step), len(f.takens)
			if err := f.spend(length); err != nil {
				return nil, err
			}
			for i := range length {
				f.takens = append(f.takens, s.History.At(step, i))
			}
			return f.takens[at:len(f.takens):len(f.takens)], nil
		}
	case opMatch:
		return func(s *cep.Scope, f *frame) ([]cep.Taken, error) {
			if s.History == nil {
				return nil, nil
			}
			length, at := s.History.Total(), len(f.takens)
			if err := f.spend(length); err != nil {
				return nil, err
			}
			for i := range length {
				f.takens = append(f.takens, s.History.Nth(i))
			}
			return f.takens[at:len(f.takens):len(f.takens)], nil
		}
	case opSlice:
		list, ends := compileTakens(n.args[0]), compileBounds(n)
		return func(s *cep.Scope, f *frame) ([]cep.Taken, error) {
			l, err := list(s, f)
			if err != nil {
				return nil, err
			}
			from, to, ok, err := ends(s, f)
			if !ok || err != nil {
				return nil, err
			}
			from, to = cut(from, to, len(l))
			return l[from:to:to], nil
		}
	case opPredicate:
		if n.name == "sortBy" {
			return compileSortTakens(n)
		}
		return compileFilterTakens(n)
	default:
		return func(*cep.Scope, *frame) ([]cep.Taken, error) { return nil, fmt.Errorf("%s is no list of events", n) }
	}
}
