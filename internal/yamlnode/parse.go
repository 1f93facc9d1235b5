package yamlnode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

const (
	// MaxBytes is the largest text: at 100 bytes a line some 10,000 lines, more than anybody reviews.
	MaxBytes = 1 << 20
	// MaxNodes bounds the marks that can begin a node. A file of 1,000 rules has some 60,000; a text of 1 MiB that is
	// nothing but marks would take the library a second.
	MaxNodes = 150_000
	// MaxDepth is the deepest nesting. The deepest rule has some 15 levels.
	MaxDepth = 64
)

// Kind says what is wrong with a text.
type Kind uint8

// The kinds of problem.
const (
	Syntax Kind = iota
	Encoding
	TooLarge
	Tag
	Alias // anchors and merge keys too
	DuplicateKey
)

// Problem is a mistake, with its place: lines and columns count from 1, columns and lengths in runes.
type Problem struct {
	Line, Column, Length int
	Kind                 Kind
	Message              string
	// Fatal says that the text could not be read on from here. Such a problem is the last one.
	Fatal bool
	// Since is the line where what the library was reading began, 0 where it does not say.
	Since int
	// Node is the node that a tag, anchor or alias stands on, and the second of two equal keys; otherwise nil.
	Node *Node
}

// Parse reads a text. The File is never nil: it holds the documents before the first mistake of syntax, and all lines.
func Parse(name string, data []byte) (*File, []Problem) {
	f := &File{Name: name}
	if len(data) > MaxBytes {
		return f, []Problem{{
			Line: 1, Column: 1, Length: 1, Kind: TooLarge,
			Message: fmt.Sprintf("the file has %d bytes, %d are allowed", len(data), MaxBytes),
		}}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	for text := range strings.SplitSeq(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n") {
		f.lines = append(f.lines, newLine(text))
	}
	if p, ok := f.strange(); ok {
		return f, []Problem{p}
	}
	if marks := countMarks(data); marks > MaxNodes {
		return f, []Problem{{
			Line: 1, Column: 1, Length: 1, Kind: TooLarge,
			Message: fmt.Sprintf("the file has some %d nodes, %d are allowed; long lists belong into a file of their own", marks, MaxNodes),
		}}
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithUniqueKeys(false),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(MaxDepth))))
	if err != nil {
		return f, []Problem{f.syntax(err)}
	}
	var problems []Problem
	for {
		var doc Node
		if err := loader.Load(&doc); errors.Is(err, io.EOF) {
			return f, problems
		} else if err != nil {
			return f, append(problems, f.syntax(err))
		}
		for _, root := range doc.Content {
			if IsNull(root) && root.Tag == "!!null" && root.Anchor == "" {
				continue
			}
			problems = f.check(root, problems)
			f.Documents = append(f.Documents, root)
		}
	}
}

// strange finds the first character that YAML does not allow, or counts as the end of a line where editors do not.
func (f *File) strange() (Problem, bool) {
	for i, line := range f.lines {
		column := 1
		for j, r := range line.text {
			switch {
			case r == utf8.RuneError && !strings.HasPrefix(line.text[j:], "\ufffd"):
				return Problem{
					Line: i + 1, Column: column, Length: 1, Kind: Encoding,
					Message: fmt.Sprintf("the file is not UTF-8: byte 0x%02X", line.text[j]),
				}, true
			case r == '\r', r == 0x85, r == 0x2028, r == 0x2029:
				return Problem{
					Line: i + 1, Column: column, Length: 1, Kind: Encoding,
					Message: fmt.Sprintf("the character %U ends a line in YAML but not in an editor", r),
				}, true
			case r < ' ' && r != '\t', r >= 0x7F && r < 0xA0, r == 0xFEFF, r == 0xFFFE, r == 0xFFFF:
				return Problem{
					Line: i + 1, Column: column, Length: 1, Kind: Encoding,
					Message: fmt.Sprintf("the character %U is not allowed in YAML", r),
				}, true
			}
			column++
		}
	}
	return Problem{}, false
}

// countMarks counts what can begin a node: an upper bound, for commas in texts count too.
func countMarks(data []byte) int {
	n := 0
	for i, c := range data {
		switch c {
		case ',', '[', '{', '\n':
			n++
		case '-', ':', '?':
			if i+1 == len(data) || data[i+1] == ' ' || data[i+1] == '\n' {
				n++
			}
		}
	}
	return n
}

// syntax turns an error of the library into a problem. It knows the library's words only to tell aliases from the rest;
// where they change, the problem is still reported, as one of syntax.
func (f *File) syntax(err error) Problem {
	p := Problem{Line: 1, Column: 1, Length: 1, Fatal: true, Message: err.Error()}
	var le *yaml.LoadError
	if !errors.As(err, &le) {
		return p
	}
	p.Message, p.Since = le.Message, le.ContextMark.Line
	mark := le.Mark
	if mark.Line == 0 {
		mark = le.ContextMark
	}
	if mark.Line > 0 {
		p.Line, p.Column = mark.Line, max(1, mark.Column)
	}
	switch {
	case strings.HasPrefix(le.Message, "exceeded max depth"):
		p.Kind, p.Message = TooLarge, fmt.Sprintf("nested deeper than %d levels", MaxDepth)
	case strings.HasPrefix(le.Message, "unknown anchor"), strings.HasSuffix(le.ContextMsg, "an alias"):
		p.Kind, p.Message = Alias, "YAML aliases are not allowed"
		if le.ContextMark.Line == p.Line && le.ContextMark.Column > 0 {
			p.Column = le.ContextMark.Column
		}
	case strings.HasSuffix(le.ContextMsg, "an anchor"):
		p.Kind, p.Message = Alias, "YAML anchors are not allowed"
	case strings.HasPrefix(le.Message, "found character that cannot start"):
		p.Message = "no value can begin with this character"
		if line := f.line(p.Line); p.Column <= line.len() && line.at(p.Column-1) == '\t' {
			p.Message = "a tab cannot indent"
		}
	case le.ContextMsg != "" && le.ContextMark.Line > 0 && le.ContextMark.Line < p.Line:
		// What was left open began lines above; the line where the library gave up says little.
		p.Message = fmt.Sprintf("%s, %s that began in line %d", le.Message, le.ContextMsg, le.ContextMark.Line)
	}
	return p
}

// check finds what YAML allows and we do not: tags, anchors, aliases, merge keys, equal keys.
func (f *File) check(n *Node, problems []Problem) []Problem {
	if n.Style&yaml.TaggedStyle != 0 || n.Tag == "!" { // a mark alone is a tag too, though the library gives it no style
		problems = append(problems, Problem{
			Line: n.Line, Column: n.Column, Length: max(1, len(n.Tag)), Kind: Tag, Node: n,
			Message: fmt.Sprintf("YAML tags are not allowed: %s", n.Tag),
		})
	}
	if n.Anchor != "" && n.Kind != yaml.AliasNode {
		problems = append(problems, Problem{
			Line: n.Line, Column: n.Column, Length: 1, Kind: Alias, Node: n,
			Message: fmt.Sprintf("YAML anchors are not allowed: &%s", n.Anchor),
		})
	}
	if n.Kind == yaml.AliasNode {
		problems = append(problems, Problem{
			Line: n.Line, Column: n.Column, Length: 1 + utf8.RuneCountInString(n.Value), Kind: Alias, Node: n,
			Message: fmt.Sprintf("YAML aliases are not allowed: *%s", n.Value),
		})
	}
	if n.Kind == Map {
		problems = f.checkKeys(n, problems)
	}
	for _, c := range n.Content {
		problems = f.check(c, problems)
	}
	return problems
}

// checkKeys finds merge keys and equal keys. Whoever reads the mapping says which keys it knows.
func (f *File) checkKeys(n *Node, problems []Problem) []Problem {
	seen := make(map[string]*Node, len(n.Content)/2)
	for k := range Pairs(n) {
		if k.Kind != Scalar {
			continue
		}
		first, twice := seen[k.Value]
		switch {
		case k.Value == "<<" && !IsQuoted(k):
			problems = append(problems, Problem{
				Line: k.Line, Column: k.Column, Length: 2, Kind: Alias, Node: k,
				Message: "YAML merge keys are not allowed",
			})
		case twice:
			problems = append(problems, Problem{
				Line: k.Line, Column: k.Column, Length: f.Width(k), Kind: DuplicateKey, Node: k,
				Message: fmt.Sprintf("the key %q stands here already, in line %d", k.Value, first.Line),
			})
		default:
			seen[k.Value] = k
		}
	}
	return problems
}
