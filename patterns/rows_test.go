package patterns

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cepd/cepd/nfa"
)

// rowNames knows the steps a to f.
func rowNames(name string, _, _ int) (int, bool) {
	i := strings.Index("abcdef", name)
	return i, i >= 0 && len(name) == 1
}

var rowLetters = []nfa.Name{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}, {Name: "f"}}

func TestParseRows(t *testing.T) {
	for text, want := range map[string]string{
		`a`:                         `a`,
		` a  b c `:                  `a b c`,
		`a|b c|d`:                   `a | b c | d`,
		`(a|b) c`:                   `(a | b) c`,
		`((a b)) c`:                 `a b c`,
		`a*b+c?d{2}e{2,}f{2,3}`:     `a* b+ c? d{2} e{2,} f{2,3}`,
		`a*?b+?c??d{2}?e{2,}?f{,3}`: `a*? b+? c?? d{2}? e{2,}? f{0,3}`,
		`(a b)+ (c|d)*?`:            `(a b)+ (c | d)*?`,
		`a {1} b{ 2 , 3 }`:          `a{1} b{2,3}`,
		`{- a -} b {- c {- d -} -}`: `{- a -} b {- c {- d -} -}`,
		`{-a-}+`:                    `{- a -}+`,
		`PERMUTE(a, b c, d*)`:       `PERMUTE(a, b c, d*)`,
		`PERMUTE (a,b){2}`:          `PERMUTE(a, b){2}`,
		`(a*)*`:                     `(a*)*`,
		"a\nb":                      `a b`,
	} {
		row, problems := parseRows(text, rowNames)
		if row == nil {
			t.Errorf("%q: %+v", text, problems)
			continue
		}
		if got := row.String(rowLetters); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		again, _ := parseRows(want, rowNames)
		if again == nil || again.String(rowLetters) != want {
			t.Errorf("%q does not read back", want)
		}
	}
}

func TestParseRowsProblems(t *testing.T) {
	for text, want := range map[string]string{
		``:                               `0+1 a step is missing at the end`,
		`a b |`:                          `5+1 a step is missing at the end`,
		`| a`:                            `0+1 an alternative is missing before "|"`,
		`a || b`:                         `3+1 an alternative is missing before "|"`,
		`a ()`:                           `3+1 there is nothing between the brackets`,
		`(a`:                             `0+1 the bracket has no end`,
		`a)`:                             `1+1 a bracket closes that was never opened`,
		`{- a`:                           `0+2 the exclusion has no end`,
		`{- a )`:                         `0+2 the exclusion has no end`,
		`^a`:                             `0+1 there are no anchors`,
		`a$`:                             `1+1 there are no anchors`,
		`* a`:                            `0+1 nothing stands before "*" that could repeat`,
		`{2}`:                            `0+1 nothing stands before "{" that could repeat`,
		`a**`:                            `1+2 two quantifiers stand side by side`,
		`a*??`:                           `1+3 two quantifiers stand side by side`,
		`a{2}{3}`:                        `1+4 two quantifiers stand side by side`,
		`a{0}`:                           `1+3 a part that never occurs`,
		`a{0,0}`:                         `1+5 a part that never occurs`,
		`a{3,2}`:                         `1+5 the least number is above the greatest`,
		`a{1001}`:                        `1+6 a part may repeat 1000 times at most`,
		`a{99999999999999999999}`:        `1+22 a part may repeat 1000 times at most`,
		`a{x}`:                           `1+1 malformed quantifier`,
		`a{,}`:                           `1+3 malformed quantifier`,
		`a{2`:                            `1+2 malformed quantifier`,
		`PERMUTE(a)`:                     `0+10 PERMUTE needs two parts or more`,
		`PERMUTE(a, b`:                   `0+7 PERMUTE has no end`,
		`PERMUTE(a,a,a,a,a,a,a,a)`:       `0+24 PERMUTE takes 7 parts at most: they have more than 5,000 orders`,
		`a, b`:                           `1+1 unexpected ","`,
		`a > 5`:                          `2+1 unexpected ">"`,
		`a ä`:                            `2+1 unexpected "ä"`,
		`(((` + strings.Repeat("(", 100): `50+1 brackets are nested more than 50 deep`,
	} {
		row, problems := parseRows(text, rowNames)
		if row != nil || len(problems) == 0 {
			t.Errorf("%q is read as %v", text, row)
			continue
		}
		p := problems[0]
		if got := fmt.Sprintf("%d+%d %s", p.Offset, p.Length, p.Message); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestRowFacts(t *testing.T) {
	for text, want := range map[string]string{
		`a b`:           `[1 1] blank=false,false first=[true false]`,
		`a+ b`:          `[2 1] blank=false,false first=[false false]`,
		`a? b`:          `[1 1] blank=false,false first=[true false]`,
		`a b a`:         `[2 1] blank=false,false first=[false false]`,
		`a | b`:         `[1 1] blank=false,false first=[true true]`,
		`a* b*`:         `[2 2] blank=true,false first=[false false]`,
		`a*? b??`:       `[2 1] blank=true,true first=[false false]`,
		`PERMUTE(a, b)`: `[1 1] blank=false,false first=[false false]`,
		`(a b){2}`:      `[2 2] blank=false,false first=[false false]`,
		`(a b)?`:        `[1 1] blank=true,false first=[true false]`,
		`{- a -} b`:     `[1 1] blank=false,false first=[true false]`,
		`(a | b??) a`:   `[2 1] blank=false,false first=[false true]`,
	} {
		row, problems := parseRows(text, rowNames)
		if row == nil {
			t.Fatalf("%q: %+v", text, problems)
		}
		f := factsOfRows(row, 2)
		if got := fmt.Sprintf("%v blank=%v,%v first=%v", f.most, f.blank, f.prefersBlank, f.first); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// FuzzRowPattern: any text is a pattern or has problems inside of it; a pattern prints as itself, and compiles or is too
// large.
func FuzzRowPattern(f *testing.F) {
	for _, s := range []string{
		"a b+ (c | d)*? {- e -} PERMUTE(a, b c){2,}", "((a?)*)+ b{,3}", "a | a b", "PERMUTE(a, PERMUTE(b, c), d)", "^a$", "a{0}", "()", "((((", "a**",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		row, problems := parseRows(text, rowNames)
		if (row == nil) != (len(problems) > 0) {
			t.Fatalf("%v with %+v", row, problems)
		}
		for _, p := range problems {
			if p.Offset < 0 || p.Length < 1 || p.Offset > len([]rune(text)) || p.Message == "" {
				t.Fatalf("%+v", p)
			}
		}
		if row == nil {
			return
		}
		printed := row.String(rowLetters)
		again, problems := parseRows(printed, rowNames)
		if again == nil || again.String(rowLetters) != printed {
			t.Fatalf("%q is printed as %q: %+v", text, printed, problems)
		}
		factsOfRows(row, 6)
		p := nfa.Pattern{Rule: "r", Names: rowLetters, Rows: row, After: nfa.SkipPastLast}
		if program, err := nfa.Compile(p); err == nil && program.String() == "" {
			t.Fatal("nothing printed")
		}
	})
}

// A pattern with mistakes is no rule of one step, and the first step of a pattern has its own key.
func TestRowPatternKeys(t *testing.T) {
	const head = "version: 1\nrules:\n- id: v\n  from: ticks\n  within: 1h\n"
	for _, text := range []string{
		"  by: [symbol]\n  pattern: ^a b+  steps: {a: {}, b: {}}\n",
		"  by: [symbol]\n  pattern:\n  steps: {a: {}, b: {}}\n",
		"  pattern: a b\n  steps: {a: {by: [symbol]}, b: {}}\n",
	} {
		if set, problems := Load([]Source{{Name: "v.yaml", Data: []byte(head + text)}}, Options{}); set != nil || len(problems) == 0 {
			t.Errorf("%q loads", text)
		}
	}
	for _, text := range []string{
		"  pattern: a b\n  steps: {a: {by: [symbol]}, b: {by: [name]}}\n",
		"  by: [other]\n  pattern: a b\n  steps: {a: {by: [symbol]}, b: {by: [name]}}\n",
	} {
		set, problems := Load([]Source{{Name: "v.yaml", Data: []byte(head + text)}}, Options{})
		if set == nil {
			t.Fatalf("%q: %v", text, problems)
		}
		e := set.Rules[0].Elements
		if got := canonical(e[0].By) + canonical(e[1].By); got != "(symbol)(name)" {
			t.Errorf("%q: keys %s", text, got)
		}
	}
}
