package patterns

import "github.com/cepd/cepd/nfa"

// rowFacts are what the check of a rule wants to know of a row pattern.
type rowFacts struct {
	// most is how many events each step may take, 2 for more than one; 0 for a step that is not in the pattern.
	most []int
	// blank says that the pattern can match nothing at all, prefersBlank that it would rather do so: then it never matches.
	blank, prefersBlank bool
	// first are the steps that can take the first event only.
	first []bool
}

// factsOfRows finds them. n is the number of steps.
func factsOfRows(row *nfa.Row, n int) rowFacts {
	f := rowFacts{most: make([]int, n), first: make([]bool, n)}
	f.count(row, 1)
	f.blank = isBlank(row)
	f.prefersBlank = prefersBlank(row)
	heads, rest := make([]bool, n), make([]bool, n)
	rowPlaces(row, true, false, heads, rest)
	for i := range f.first {
		f.first[i] = heads[i] && !rest[i]
	}
	return f
}

// count adds up in how many events each step may be; times is 2 where what is around may repeat.
func (f *rowFacts) count(row *nfa.Row, times int) {
	switch row.Kind {
	case nfa.RowStep:
		f.most[row.Name] = min(f.most[row.Name]+times, 2)
	case nfa.RowRepeat:
		if row.Max < 0 || row.Max > 1 {
			times = 2
		}
		f.count(&row.Parts[0], times)
	case nfa.RowChoice:
		// Of the alternatives only one is gone, but a step in two of them is a list: nobody counts on which one it was.
		for i := range row.Parts {
			f.count(&row.Parts[i], times)
		}
	default:
		for i := range row.Parts {
			f.count(&row.Parts[i], times)
		}
	}
}

// isBlank says that a part can be gone through without an event.
func isBlank(row *nfa.Row) bool {
	switch row.Kind {
	case nfa.RowStep:
		return false
	case nfa.RowRepeat:
		return row.Min == 0 || isBlank(&row.Parts[0])
	case nfa.RowChoice:
		for i := range row.Parts {
			if isBlank(&row.Parts[i]) {
				return true
			}
		}
		return false
	default:
		for i := range row.Parts {
			if !isBlank(&row.Parts[i]) {
				return false
			}
		}
		return true
	}
}

// prefersBlank says that the very first way through a part takes no event.
func prefersBlank(row *nfa.Row) bool {
	switch row.Kind {
	case nfa.RowStep:
		return false
	case nfa.RowRepeat:
		return row.Min == 0 && row.Reluctant || prefersBlank(&row.Parts[0])
	case nfa.RowChoice:
		return prefersBlank(&row.Parts[0])
	default:
		for i := range row.Parts {
			if !prefersBlank(&row.Parts[i]) {
				return false
			}
		}
		return true
	}
}

// rowPlaces notes which steps can take the first event of a match, and which another one. It reports whether the part can
// be gone through without an event while it is at the head.
func rowPlaces(row *nfa.Row, head, repeated bool, heads, rest []bool) bool {
	switch row.Kind {
	case nfa.RowStep:
		heads[row.Name] = heads[row.Name] || head
		rest[row.Name] = rest[row.Name] || !head || repeated
		return false
	case nfa.RowRepeat:
		again := repeated || row.Max < 0 || row.Max > 1
		return rowPlaces(&row.Parts[0], head, again, heads, rest) || row.Min == 0 && head
	case nfa.RowChoice:
		blank := false
		for i := range row.Parts {
			blank = rowPlaces(&row.Parts[i], head, repeated, heads, rest) || blank
		}
		return blank
	case nfa.RowPermute:
		blank := true
		for i := range row.Parts {
			b := rowPlaces(&row.Parts[i], head, repeated, heads, rest)
			rowPlaces(&row.Parts[i], false, repeated, heads, rest)
			blank = blank && b
		}
		return blank
	default:
		at := head
		for i := range row.Parts {
			blank := rowPlaces(&row.Parts[i], at, repeated, heads, rest)
			if i > 0 { // what stands before it may have taken something
				rowPlaces(&row.Parts[i], false, repeated, heads, rest)
			}
			at = at && blank
		}
		return at
	}
}
