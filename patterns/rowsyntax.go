package patterns

import (
	"fmt"
	"strconv"
	"unicode"

	"github.com/cepd/cepd/nfa"
)

// rowSyntax reads a row pattern, a regular expression over step names (S6):
//
//	pattern  = sequence { "|" sequence }
//	sequence = factor { factor }
//	factor   = primary [ quantifier [ "?" ] ]
//	primary  = NAME | "(" pattern ")" | "{-" pattern "-}" | "PERMUTE" "(" pattern "," pattern { "," pattern } ")"
//	quantifier = "*" | "+" | "?" | "{" n "}" | "{" n "," "}" | "{" "," m "}" | "{" n "," m "}"
type rowSyntax struct {
	runes []rune
	at    int
	// names gives the index of a step, and is asked once for each place where one stands.
	names func(name string, offset, length int) (int, bool)
	// problems are what is wrong, in the order of the text. After the first one nothing more is read but for names.
	problems []rowProblem
	nesting  int
}

// rowProblem is a mistake in a row pattern. Offset and Length count runes.
type rowProblem struct {
	Offset, Length int
	Message, Hint  string
}

// Limits of a row pattern; what repetitions written out may come to is bounded by nfa.
const (
	maxRowNesting  = 50
	maxRowTimes    = 1_000
	maxRowPermuted = 7
)

// parseRows reads a row pattern. The row is nil if and only if there are problems.
func parseRows(text string, names func(name string, offset, length int) (int, bool)) (*nfa.Row, []rowProblem) {
	s := &rowSyntax{runes: []rune(text), names: names}
	row := s.pattern()
	s.space()
	if len(s.problems) == 0 && s.at < len(s.runes) {
		switch c := s.runes[s.at]; c {
		case ')':
			s.fail(s.at, 1, "", "a bracket closes that was never opened")
		default:
			s.unexpected()
		}
	}
	if len(s.problems) > 0 {
		return nil, s.problems
	}
	return &row, nil
}

func (s *rowSyntax) fail(at, length int, hint, format string, args ...any) {
	if len(s.problems) > 0 && s.at >= len(s.runes) {
		return // what is missing at the end follows from the mistake before
	}
	s.problems = append(s.problems, rowProblem{at, max(length, 1), fmt.Sprintf(format, args...), hint})
	s.at = len(s.runes)
}

func (s *rowSyntax) unexpected() {
	switch c := s.runes[s.at]; c {
	case '^', '$':
		s.fail(s.at, 1, "a stream has no beginning and no end; leave it out", "there are no anchors")
	case '*', '+', '?', '{':
		s.fail(s.at, 1, "", "nothing stands before %q that could repeat", string(c))
	case '|', ')':
		s.fail(s.at, 1, "", "an alternative is missing before %q", string(c))
	case '<', '>', '=', '&', '!', '"', '\'', '.':
		s.fail(s.at, 1, "conditions stand in the steps: steps: {a: {where: …}}", "unexpected %q", string(c))
	default:
		s.fail(s.at, 1, "", "unexpected %q", string(c))
	}
}

func (s *rowSyntax) space() {
	for s.at < len(s.runes) && unicode.IsSpace(s.runes[s.at]) {
		s.at++
	}
}

// next skips space and says whether a text stands next; then it is passed.
func (s *rowSyntax) next(text string) bool {
	s.space()
	if !s.sees(text) {
		return false
	}
	s.at += len(text)
	return true
}

func (s *rowSyntax) sees(text string) bool {
	for i, c := range []rune(text) {
		if s.at+i >= len(s.runes) || s.runes[s.at+i] != c {
			return false
		}
	}
	return true
}

func (s *rowSyntax) pattern() nfa.Row {
	s.nesting++
	defer func() { s.nesting-- }()
	if s.nesting > maxRowNesting {
		s.fail(s.at, 1, "", "brackets are nested more than %d deep", maxRowNesting)
		return nfa.Row{}
	}
	parts := []nfa.Row{s.sequence()}
	for s.next("|") {
		parts = append(parts, s.sequence())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return nfa.Row{Kind: nfa.RowChoice, Parts: parts}
}

func (s *rowSyntax) sequence() nfa.Row {
	var parts []nfa.Row
	for {
		s.space()
		if s.at >= len(s.runes) || s.sees("|") || s.sees(")") || s.sees(",") || s.sees("-}") {
			break
		}
		parts = append(parts, s.factor())
	}
	switch len(parts) {
	case 0:
		if len(s.problems) == 0 {
			if s.at >= len(s.runes) {
				s.fail(s.at, 1, "", "a step is missing at the end")
			} else if s.sees(")") {
				s.fail(s.at, 1, "write x? or x* for something that may be left out", "there is nothing between the brackets")
			} else {
				s.unexpected()
			}
		}
		return nfa.Row{}
	case 1:
		return parts[0]
	}
	return nfa.Row{Kind: nfa.RowSequence, Parts: parts}
}

func (s *rowSyntax) factor() nfa.Row {
	row := s.primary()
	if len(s.problems) > 0 {
		return row
	}
	s.space()
	begin := s.at
	low, high, ok := s.quantifier()
	if !ok || len(s.problems) > 0 {
		return row
	}
	row = nfa.Row{Kind: nfa.RowRepeat, Parts: []nfa.Row{row}, Min: low, Max: high}
	switch {
	case high == 0:
		s.fail(begin, s.at-begin, "leave it out", "a part that never occurs")
	case high >= 0 && high < low:
		s.fail(begin, s.at-begin, fmt.Sprintf("write {%d,%d}", high, low), "the least number is above the greatest")
	case max(low, high) > maxRowTimes:
		s.fail(begin, s.at-begin, "", "a part may repeat %d times at most", maxRowTimes)
	}
	if len(s.problems) > 0 {
		return row
	}
	row.Reluctant = s.next("?")
	s.space()
	if s.at < len(s.runes) && (s.sees("*") || s.sees("+") || s.sees("?") || s.sees("{") && !s.sees("{-")) {
		s.fail(begin, s.at-begin+1, "put brackets around the part: (a*)*", "two quantifiers stand side by side")
	}
	return row
}

// quantifier reads how often a part occurs; high is -1 without a bound.
func (s *rowSyntax) quantifier() (low, high int, ok bool) {
	switch {
	case s.at >= len(s.runes):
		return 0, 0, false
	case s.next("*"):
		return 0, -1, true
	case s.next("+"):
		return 1, -1, true
	case s.next("?"):
		return 0, 1, true
	case s.sees("{-") || !s.sees("{"):
		return 0, 0, false
	}
	begin := s.at
	s.at++
	low, hasLow := s.number()
	switch {
	case s.next("}") && hasLow:
		return low, low, true
	case s.next(","):
		high, hasHigh := s.number()
		if s.next("}") && (hasLow || hasHigh) {
			if !hasHigh {
				high = -1
			}
			return low, high, true
		}
	}
	s.fail(begin, s.at-begin, "write {2}, {2,}, {2,5} or {,5}", "malformed quantifier")
	return 0, 0, false
}

func (s *rowSyntax) number() (int, bool) {
	s.space()
	begin := s.at
	for s.at < len(s.runes) && s.runes[s.at] >= '0' && s.runes[s.at] <= '9' {
		s.at++
	}
	if s.at == begin {
		return 0, false
	}
	n, err := strconv.Atoi(string(s.runes[begin:s.at]))
	if err != nil {
		n = maxRowTimes + 1
	}
	return n, true
}

func (s *rowSyntax) primary() nfa.Row {
	s.space()
	begin := s.at
	switch {
	case s.next("{-"):
		inner := s.pattern()
		if len(s.problems) == 0 && !s.next("-}") {
			s.fail(begin, 2, "close it with -}", "the exclusion has no end")
		}
		return nfa.Row{Kind: nfa.RowExclude, Parts: []nfa.Row{inner}}
	case s.next("("):
		inner := s.pattern()
		if len(s.problems) == 0 && !s.next(")") {
			s.fail(begin, 1, "close it with )", "the bracket has no end")
		}
		return inner
	}
	for s.at < len(s.runes) && isRowLetter(s.runes[s.at], s.at > begin) {
		s.at++
	}
	if s.at == begin {
		s.unexpected()
		return nfa.Row{}
	}
	name := string(s.runes[begin:s.at])
	if name == "PERMUTE" && s.next("(") {
		return s.permute(begin)
	}
	i, ok := s.names(name, begin, s.at-begin)
	if !ok {
		i = 0 // reported; the other names are looked at too
	}
	return nfa.Row{Kind: nfa.RowStep, Name: i}
}

func isRowLetter(r rune, digit bool) bool {
	return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || digit && r >= '0' && r <= '9'
}

func (s *rowSyntax) permute(begin int) nfa.Row {
	row := nfa.Row{Kind: nfa.RowPermute}
	for {
		row.Parts = append(row.Parts, s.pattern())
		if len(s.problems) > 0 {
			return row
		}
		if s.next(",") {
			continue
		}
		break
	}
	switch {
	case !s.next(")"):
		s.fail(begin, len("PERMUTE"), "close it with )", "PERMUTE has no end")
	case len(row.Parts) < 2:
		s.fail(begin, s.at-begin, "write the part alone", "PERMUTE needs two parts or more")
	case len(row.Parts) > maxRowPermuted:
		s.fail(begin, s.at-begin, "", "PERMUTE takes %d parts at most: they have more than 5,000 orders", maxRowPermuted)
	}
	return row
}
