package yamlnode

import (
	"iter"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Node is a node of a document: Kind, Style, Value, Content, Line and Column say all. Columns count runes from 1.
type Node = yaml.Node

// The kinds of node that a parsed document consists of.
const (
	Map    = yaml.MappingNode
	List   = yaml.SequenceNode
	Scalar = yaml.ScalarNode
)

// Flow is the style of `{a: 1}` and `[a]`.
const Flow = yaml.FlowStyle

const (
	quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle
	block  = yaml.LiteralStyle | yaml.FoldedStyle
)

// File is a parsed text.
type File struct {
	// Name is the name that the caller knows the text by.
	Name string
	// Documents are the roots of the documents, in order; empty documents are left out.
	Documents []*Node
	lines     []line
}

// line is a line of the text. Files of one line of a megabyte exist (JSON is YAML), so runes are found without walking
// the line each time.
type line struct {
	text string
	// runes are those of a text that is not ASCII; otherwise a rune is a byte.
	runes []rune
}

func newLine(text string) line {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return line{text, []rune(text)}
		}
	}
	return line{text: text}
}

func (l line) len() int {
	if l.runes != nil {
		return len(l.runes)
	}
	return len(l.text)
}

func (l line) at(i int) rune {
	if l.runes != nil {
		return l.runes[i]
	}
	return rune(l.text[i])
}

// Line returns the line with this number, from 1, without its end.
func (f *File) Line(number int) string { return f.line(number).text }

func (f *File) line(number int) line {
	if number < 1 || number > len(f.lines) {
		return line{}
	}
	return f.lines[number-1]
}

// Pairs gives the keys and values of a mapping in written order.
func Pairs(n *Node) iter.Seq2[*Node, *Node] {
	return func(yield func(k, v *Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// IsQuoted reports whether a scalar is quoted or a block of text, so that its text is meant as it stands.
func IsQuoted(n *Node) bool { return n.Style&(quoted|block) != 0 }

// IsNull reports whether a scalar says nothing: empty, ~ or null, unquoted.
func IsNull(n *Node) bool {
	if n.Kind != Scalar || IsQuoted(n) {
		return false
	}
	switch n.Value {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

// Width is the number of runes that a scalar takes in its first line, for marking it: at least 1.
func (f *File) Width(n *Node) int {
	w := utf8.RuneCountInString(n.Value)
	switch {
	case n.Kind != Scalar, n.Style&block != 0:
		return 1
	case n.Style&quoted != 0:
		source := f.line(n.Line)
		quote := '\''
		if n.Style&yaml.DoubleQuotedStyle != 0 {
			quote = '"'
		}
		for i := n.Column; i < source.len(); i++ {
			switch c := source.at(i); {
			case c == '\\' && quote == '"':
				i++
			case c == quote && quote == '\'' && i+1 < source.len() && source.at(i+1) == quote:
				i++
			case c == quote:
				return i - n.Column + 2
			}
		}
		w += 2
	}
	rest := f.line(n.Line).len() - n.Column + 1
	return max(1, min(w, rest))
}
