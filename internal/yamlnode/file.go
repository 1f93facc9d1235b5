package yamlnode

import (
	"iter"
	"strings"
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
	lines     []string
}

// Line returns the line with this number, from 1, without its end.
func (f *File) Line(number int) string {
	if number < 1 || number > len(f.lines) {
		return ""
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

// Place returns where the rune at an offset of a scalar's text stands in the file. Where the text is folded or escaped,
// so that it does not stand in the file as it is, that is the place of the scalar.
func (f *File) Place(n *Node, offset int) (line, column int) {
	if n.Style&yaml.LiteralStyle != 0 {
		return f.literalPlace(n, offset)
	}
	if n.Kind != Scalar || n.Style&block != 0 {
		return n.Line, n.Column
	}
	// The text is walked beside the source line, and the first difference that is no plain escape ends the walk.
	source := []rune(f.Line(n.Line))
	at := n.Column - 1
	if n.Style&quoted != 0 {
		at++
	}
	for i, r := range []rune(n.Value) {
		if i == offset {
			break
		}
		switch {
		case at >= len(source):
			return n.Line, n.Column
		case n.Style&yaml.SingleQuotedStyle != 0 && r == '\'':
			at++
		case n.Style&yaml.DoubleQuotedStyle != 0 && source[at] == '\\' && at+1 < len(source) &&
			(r == source[at+1] || r == '\n' && source[at+1] == 'n' || r == '\t' && source[at+1] == 't'):
			at += 2
			continue
		}
		if at >= len(source) || source[at] != r {
			return n.Line, n.Column
		}
		at++
	}
	return n.Line, at + 1
}

// literalPlace is [File.Place] in a block of text that began with |: its lines stand below the node, each behind the same
// indentation.
func (f *File) literalPlace(n *Node, offset int) (line, column int) {
	value := strings.TrimRight(n.Value, "\n")
	text := strings.Split(value, "\n")
	offset = min(offset, utf8.RuneCountInString(value))
	indent := -1
	for i, t := range text {
		if t == "" {
			continue
		}
		before, ok := strings.CutSuffix(f.Line(n.Line+1+i), t)
		if !ok {
			return n.Line, n.Column
		}
		indent = utf8.RuneCountInString(before)
		break
	}
	if indent < 0 {
		return n.Line, n.Column
	}
	for i, t := range text {
		if length := utf8.RuneCountInString(t); offset > length && i+1 < len(text) {
			offset -= length + 1
			continue
		}
		line = n.Line + 1 + i
		return line, min(indent+offset, utf8.RuneCountInString(f.Line(line))) + 1 // an empty line may have no indentation
	}
	return n.Line, n.Column
}

// Width is the number of runes that a scalar takes in its first line, for marking it: at least 1.
func (f *File) Width(n *Node) int {
	w := utf8.RuneCountInString(n.Value)
	switch {
	case n.Kind != Scalar, n.Style&block != 0:
		return 1
	case n.Style&quoted != 0:
		source := []rune(f.Line(n.Line))
		quote := '\''
		if n.Style&yaml.DoubleQuotedStyle != 0 {
			quote = '"'
		}
		for i := n.Column; i < len(source); i++ {
			switch {
			case source[i] == '\\' && quote == '"':
				i++
			case source[i] == quote && quote == '\'' && i+1 < len(source) && source[i+1] == quote:
				i++
			case source[i] == quote:
				return i - n.Column + 2
			}
		}
		w += 2
	}
	rest := utf8.RuneCountInString(f.Line(n.Line)) - n.Column + 1
	return max(1, min(w, rest))
}
