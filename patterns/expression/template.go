package expression

import "unicode/utf8"

// Piece is a part of a template: text to copy, or an expression.
type Piece struct {
	Text string
	Expr bool
	// Offset is where the piece begins in the template, in runes.
	Offset int
}

// Template splits a title such as "{{user}} in from {{src_ip}}" into its pieces. Braces inside the strings, maps and
// predicates of an expression do not end it; {{"{{"}} writes two braces.
func Template(text string) ([]Piece, []Problem) {
	var (
		pieces []Piece
		found  problems
		start  int // of the text piece, in bytes
		offset int // of start, in runes
	)
	flush := func(end int) {
		if end > start {
			pieces = append(pieces, Piece{Text: text[start:end], Offset: offset})
		}
	}
	for i := 0; i < len(text)-1; {
		switch text[i : i+2] {
		case "{{":
			flush(i)
			at := offset + utf8.RuneCountInString(text[start:i])
			end := templateEnd(text, i+2)
			if end < 0 {
				found.add(span{from: at, to: at + 2}, codeSyntax, "close it with }}", "the expression that begins here has no end")
				return pieces, found
			}
			inner := text[i+2 : end]
			if blank(inner) {
				found.add(span{from: at, to: at + 4 + utf8.RuneCountInString(inner)}, codeSyntax, "", "there is no expression between the braces")
			}
			pieces = append(pieces, Piece{Text: inner, Expr: true, Offset: at + 2})
			offset = at + 4 + utf8.RuneCountInString(inner)
			start, i = end+2, end+2
		case "}}":
			at := offset + utf8.RuneCountInString(text[start:i])
			found.add(span{from: at, to: at + 2}, codeSyntax, `begin the expression with {{, or write {{"}}"}} for two braces`, "braces close without having been opened")
			i += 2
		default:
			i++
		}
	}
	flush(len(text))
	return pieces, found
}

// templateEnd returns the index of the }} that ends the expression at i, -1 where there is none.
func templateEnd(text string, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch c := text[i]; c {
		case '"', '\'', '`':
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' && c != '`' {
					i++
				}
			}
		case '{':
			depth++
		case '}':
			if depth > 0 {
				depth--
			} else if i+1 < len(text) && text[i+1] == '}' {
				return i
			}
		}
	}
	return -1
}

func blank(s string) bool {
	for _, r := range s {
		if r != ' ' && r != '\t' && r != '\n' {
			return false
		}
	}
	return true
}
