package expression

import (
	"fmt"
	"slices"
	"strings"
)

// The codes of problems. They are stable: a code is never given a new meaning.
const (
	codeSyntax      = "CEP0201"
	codeFunction    = "CEP0202"
	codeConstant    = "CEP0203"
	codeLater       = "CEP0204"
	codePlace       = "CEP0205"
	codeListAsEvent = "CEP0206"
	codeEventAsList = "CEP0207"
	codeArguments   = "CEP0208"
	codeType        = "CEP0209"
	codeClock       = "CEP0210"
	codeNesting     = "CEP0211"
	codeRange       = "CEP0212"
	codeSize        = "CEP0213"
	codeLiteral     = "CEP0214"
	codeRefused     = "CEP0215"
	codeMacro       = "CEP0216"
	codeEvaluation  = "CEP0217"
	codeName        = "CEP0218"
	codeRegexp      = "CEP0251"
	codeNot         = "CEP0252"
	codeIdle        = "CEP0253"
	codeText        = "CEP0254"
)

// CodeDoc describes a code for the documentation.
type CodeDoc struct {
	Code  string
	Title string
	// Example is an expression that earns the code.
	Example string
	Warning bool
}

// Codes returns every code that [Compile] and [Template] give, in order.
func Codes() []CodeDoc {
	return []CodeDoc{
		{codeSyntax, "The expression cannot be parsed.", `type = "login"`, false},
		{codeFunction, "There is no function of this name.", `lowr(user) == "root"`, false},
		{codeConstant, "There is no list, map, macro or key part of this name.", `src_ip in $scanner`, false},
		{codeLater, "The step stands behind this place: nothing has been taken for it yet.", `user == later.user`, false},
		{codePlace, "The name or function cannot be used in this place.", `taken[0].user == user`, false},
		{codeListAsEvent, "A list of events is used as if it were one event.", `fail.user == user`, false},
		{codeEventAsList, "One event is used as if it were a list.", `len(ok) > 2`, false},
		{codeArguments, "The number of arguments is wrong.", `hours() > 2`, false},
		{codeType, "A value has a type that can never work here.", `hours("a") > 2`, false},
		{codeClock, "The function reads a clock; rules know event time only.", `now() > ts(e)`, false},
		{codeNesting, "Predicates are nested too deeply.", `any(a, any(#, any(#, any(#, # > 1))))`, false},
		{codeRange, "The range is too long.", `port in 0..65535`, false},
		{codeSize, "The expression is too long, too large or nested too deeply.", `((((((((…`, false},
		{codeLiteral, "A constant is malformed: a regular expression, network, duration, date or time zone.", `user matches "("`, false},
		{codeRefused, "This part of the expr language is not offered.", `user.lower() == "root"`, false},
		{codeMacro, "A macro uses itself.", `$loop`, false},
		{codeEvaluation, "The constant part of the expression has no value.", `9223372036854775807 + 1 > size`, false},
		{codeName, "The name means nothing in this place.", `usr`, false},
		{codeRegexp, "The regular expression is not constant: it is compiled for each event.", `user matches pattern`, true},
		{codeNot, "The negated comparison is also true for an event without the field.", `not (size > 10)`, true},
		{codeIdle, "A part of the expression does not depend on what it is asked of.", `sum(fail, amount) > 100`, true},
		{codeText, "A text is probably not what is meant.", `size > "100"`, true},
	}
}

// problems collects what is wrong with one expression.
type problems []Problem

func (p *problems) add(at span, code, hint, format string, args ...any) {
	*p = append(*p, Problem{
		Offset: at.from, Length: max(at.to-at.from, 1), Macro: at.macro,
		Code: code, Message: fmt.Sprintf(format, args...), Hint: hint,
	})
}

func (p *problems) warn(at span, code, hint, format string, args ...any) {
	p.add(at, code, hint, format, args...)
	(*p)[len(*p)-1].Warning = true
}

func (p problems) failed() bool {
	return slices.ContainsFunc(p, func(q Problem) bool { return !q.Warning })
}

// sort orders problems as they stand in the text and drops repeated ones: a macro used twice has its mistakes once.
func (p problems) sort() problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		if c := strings.Compare(a.Macro, b.Macro); c != 0 {
			return c
		}
		return a.Offset - b.Offset
	})
	return slices.Compact(p)
}

// span is a stretch of runes in the text of the expression or of a macro.
type span struct {
	macro    string
	from, to int
}

// Nearest returns the candidate that a writer of name most likely meant, "" where none is close: at most a third of the
// letters differ.
func Nearest(name string, candidates []string) string {
	best, distance := "", max(len(name)/3, 1)+1
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(name), strings.ToLower(c)); c != name && d < distance {
			best, distance = c, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions, changes and swaps of neighbours that turn a into b.
func editDistance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(t)]
}

// didYouMean formats the nearest candidate as a hint.
func didYouMean(name string, candidates []string) string {
	if c := Nearest(name, candidates); c != "" {
		return fmt.Sprintf("did you mean %q?", c)
	}
	return ""
}
