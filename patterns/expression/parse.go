package expression

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/parser/lexer"
)

// Limits of one expression. The longest condition among 1,207 published detections has about 9,000 characters and 700
// nodes; the parser recurses for each bracket, so the length also bounds its stack.
const (
	maxText       = 16 << 10 // bytes of an expression or a macro
	maxNodes      = 4_000    // nodes with macros inlined
	maxDepth      = 100      // nesting of anything
	maxPredicates = 2        // nesting of any, all, map and the like
	maxRange      = 1_000    // elements of a..b
)

// tree is a parsed text.
type tree struct {
	root ast.Node
	// renamed gives the function that stands at an offset, where it was spelled differently for the parser.
	renamed map[int]string
	runes   []rune
}

// parse reads an expression with expr's parser; the problem is nil where there is none.
func parse(text, macro string) (*tree, *Problem) {
	fail := func(from, to int, code, hint, message string) *Problem {
		return &Problem{Offset: from, Length: max(to-from, 1), Code: code, Message: message, Hint: hint, Macro: macro}
	}
	if len(text) > maxText {
		return nil, fail(0, 1, codeSize, "split it into macros", "the expression is longer than 16,384 bytes")
	}
	if !utf8.ValidString(text) {
		return nil, fail(0, 1, codeSyntax, "", "the expression is not valid UTF-8")
	}
	t := &tree{runes: []rune(text)}
	end := len(t.runes)
	if blank(text) {
		return nil, fail(0, end, codeSyntax, "", "the expression is empty")
	}
	tokens, err := lexer.Lex(file.NewSource(text))
	if err == nil {
		var spelled string
		spelled, t.renamed = spell(text, tokens)
		var parsed *parser.Tree
		if parsed, err = parser.Parse(spelled); err == nil {
			t.root = parsed.Node
			return t, nil
		}
	}
	var syntax *file.Error
	if !errors.As(err, &syntax) {
		return nil, fail(0, end, codeSyntax, "", err.Error())
	}
	from, to := syntax.From, max(syntax.To, syntax.From+1)
	message, hint := explain(syntax.Message)
	if word, h, ok := misplaced(tokens, from); ok && unexpected.MatchString(syntax.Message) {
		from, to, message, hint = word.From, word.To, "unexpected "+quoteToken("", word.Value), h
	}
	if h := foreign(tokens, from); h != "" {
		hint = h
	} else if tokens == nil {
		message, hint = unread(t.runes, from, message, hint)
	}
	if strings.HasPrefix(message, "the expression ends") {
		from, to = end, end+1
	}
	return nil, fail(min(from, end), min(to, end+1), codeSyntax, hint, message)
}

// explain puts the parser's words into those of a rule's author, with a hint where the mistake is a usual one.
func explain(message string) (_, hint string) {
	if m := unexpected.FindStringSubmatch(message); m != nil {
		if m[1] == "EOF" {
			return "the expression ends too early", "a bracket or an operand is missing"
		}
		word := m[2]
		if h, ok := usualMistakes[word]; ok {
			hint = h
		} else if h, ok := usualMistakes[strings.ToLower(word)]; ok {
			hint = h
		} else if m[1] == "String" || m[1] == "Number" || m[1] == "Identifier" {
			hint = "an operator is missing before it"
		}
		return "unexpected " + quoteToken(m[1], word), hint
	}
	if m := wrongKey.FindStringSubmatch(message); m != nil {
		return "a key of a map is a name, a text or a number, not " + quoteToken("", m[1]), "put it in quotes: " + `"` + m[1] + `"`
	}
	switch {
	case strings.Contains(message, "maximum allowed nodes"):
		return "the expression is too large", ""
	case strings.HasPrefix(message, "Operator (") && strings.Contains(message, "cannot be mixed"):
		return "?? and another operator stand side by side", "put brackets around one of them: (a ?? b) == c"
	case message == "literal not terminated":
		return "the string has no end", "close it with the quote that opened it"
	case strings.HasPrefix(message, "expected at least"):
		return strings.Replace(message, "expected", "the function takes", 1), "any, all, map and the like take a list and what is asked of each element: count(fail, .code == 4)"
	}
	return message, ""
}

func quoteToken(kind, word string) string {
	if kind == "String" {
		return `string "` + word + `"`
	}
	return `"` + word + `"`
}

var unexpected = regexp.MustCompile(`^unexpected token (\w+)(?:\("(.*)"\))?$`)

// wrongKey is what the parser says of a word of the language that is the key of a map.
var wrongKey = regexp.MustCompile(`^a map key must be .*\(unexpected token Operator\("(\w+)"\)\)$`)

// foldable are functions that may take a predicate as sum does, max(fail, .amount), though expr's parser knows them
// without one. For the parser they are spelled as a function of the same length that has one, so that no offset moves.
var foldable = map[string]string{"max": "sum", "min": "sum", "mean": "find", "median": "filter"}

// spell does that; it returns the text for the parser and the functions by their offsets. A function is meant so if #
// or a leading dot stands behind its first comma. Inside another predicate, max(1, #) is the plain function, so there
// nothing is spelled differently.
func spell(text string, tokens []lexer.Token) (string, map[int]string) {
	var (
		runes   []rune
		renamed map[int]string
		open    []bracket
	)
	for i, t := range tokens {
		switch {
		case t.Kind == lexer.Bracket && strings.Contains("([{", t.Value):
			b := bracket{function: -1}
			if t.Value == "(" && i > 0 && tokens[i-1].Kind == lexer.Identifier {
				name := tokens[i-1].Value
				b.predicate = foldable[name] == "" && predicates[name] != nil
				if foldable[name] != "" && !slices.ContainsFunc(open, func(b bracket) bool { return b.predicate }) {
					b.function = i - 1
				}
			}
			open = append(open, b)
		case t.Kind == lexer.Bracket && len(open) > 0:
			open = open[:len(open)-1]
		case t.Is(lexer.Operator, ",") && len(open) > 0:
			open[len(open)-1].comma = true
		case t.Is(lexer.Operator, "#"), t.Is(lexer.Operator, ".") && i > 0 && leads(tokens[i-1]):
			for j := len(open) - 1; j >= 0 && !open[j].predicate; j-- {
				b := &open[j]
				if b.function < 0 || !b.comma {
					continue
				}
				function := tokens[b.function]
				if renamed == nil {
					runes, renamed = []rune(text), map[int]string{}
				}
				renamed[function.From] = function.Value
				copy(runes[function.From:function.To], []rune(foldable[function.Value]))
				b.predicate = true
				break
			}
		}
	}
	if renamed == nil {
		return text, nil
	}
	return string(runes), renamed
}

// leads says that a dot behind a token begins an element and is no member of what stands before.
func leads(t lexer.Token) bool {
	return t.Kind == lexer.Operator || t.Kind == lexer.Bracket && strings.Contains("([{", t.Value)
}

// bracket is an open bracket: whether it belongs to a predicate, or to the token of a foldable function, and whether
// a comma has been seen in it.
type bracket struct {
	predicate, comma bool
	function         int
}
