package layout

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/patterns"
)

// indent is what a level is indented by. Items of lists stand below the first letter of their key.
const indent = 2

// scanner cuts a text into tokens. The tree of nodes says what has to come next, so that no grammar is needed here: between
// two scalars stand marks, spaces and comments, and nothing else.
type scanner struct {
	file  *yamlnode.File
	lines [][]rune
	// row and column are where the scanner stands, from 0.
	row, column int
	tokens      []*token
	// end is the row in which the last token ended, -1 before the first.
	end int
	// levels are the block collections that are open, and before what they were at the last token: a comment on a line of its
	// own belongs to one of these, or to what follows it.
	levels, before []level
	// waiting are comments on lines of their own whose column depends on the token that follows, each with the column in
	// which it was written.
	waiting []waiting
	// inside is the column of what a flow collection holds; 0 outside of any.
	inside int
	// joins says that the next token belongs into the line of the last one, wherever it was written: an item and its dash.
	joins bool
}

// spot says where a node belongs.
type spot struct {
	// parent is the column of the block collection that it stands in, -indent outside of any.
	parent int
	// own is where it begins if it is the first of its line, list where the dashes stand if it is a block list.
	own, list int
	// in is where what it holds begins if it is a flow collection.
	in int
}

// level is a block collection: where it was written, and where it will be.
type level struct{ was, will int }

type waiting struct {
	comment *token
	was     int
}

func scan(name string, data []byte) (*scanner, error) {
	file, problems := yamlnode.Parse(name, data)
	s := &scanner{file: file, end: -1}
	if len(problems) > 0 {
		p := problems[0]
		return s, s.refuse(p.Line, p.Column, "%s", p.Message)
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	for l := range strings.SplitSeq(text, "\n") {
		s.lines = append(s.lines, []rune(l))
	}
	for _, root := range file.Documents {
		if err := s.between(); err != nil {
			return s, err
		}
		if err := s.node(root, spot{-indent, 0, 0, indent}); err != nil {
			return s, err
		}
	}
	if err := s.between(); err != nil {
		return s, err
	}
	if s.row < len(s.lines) {
		return s, s.refusedHere("this cannot be laid out")
	}
	s.settle(nil)
	return s, nil
}

func (s *scanner) refuse(row, column int, format string, args ...any) *Refusal {
	return &Refusal{Pos: patterns.Pos{File: s.file.Name, Line: row, Column: column}, Reason: fmt.Sprintf(format, args...)}
}

func (s *scanner) refusedHere(format string, args ...any) *Refusal {
	return s.refuse(s.row+1, s.column+1, format, args...)
}

// comments are the texts of all comments, in order.
func (s *scanner) comments() []string {
	var list []string
	for _, t := range s.tokens {
		if t.kind == comment {
			list = append(list, t.text)
		}
	}
	return list
}

// at returns the rune some columns ahead in the line; 0 behind its end.
func (s *scanner) at(ahead int) rune {
	if s.row < len(s.lines) && s.column+ahead < len(s.lines[s.row]) {
		return s.lines[s.row][s.column+ahead]
	}
	return 0
}

func isBlank(r rune) bool { return r == ' ' || r == '\t' }

// skip moves over spaces and comments to the next token.
func (s *scanner) skip() {
	for s.row < len(s.lines) {
		rest := s.lines[s.row][s.column:]
		blank := 0
		for blank < len(rest) && isBlank(rest[blank]) {
			blank++
		}
		s.column += blank
		switch {
		case blank == len(rest):
			s.row, s.column = s.row+1, 0
		case rest[blank] == '#' && (blank > 0 || s.column == 0):
			t := &token{kind: comment, text: strings.TrimRightFunc(string(rest[blank:]), unicode.IsSpace), column: s.inside}
			own := s.row != s.end
			s.add(t)
			if own && s.inside == 0 {
				s.waiting = append(s.waiting, waiting{t, s.column})
			}
			s.row, s.column = s.row+1, 0
		default:
			return
		}
	}
}

// add appends a token that begins where the scanner stands and ends in this line.
func (s *scanner) add(t *token) {
	t.breaks = min(2, s.row-s.end)
	if s.end < 0 || s.joins && t.kind != comment {
		t.breaks = 0
	}
	s.joins = false
	s.end = s.row
	s.tokens = append(s.tokens, t)
	if t.kind != comment {
		var next *level
		if t.breaks > 0 && s.inside == 0 {
			next = &level{s.column, t.column}
		}
		s.settle(next)
		s.before = append(s.before[:0], s.levels...)
	}
}

// settle gives the comments that wait the column of the level to which they were written: the innermost that begins no
// further right. next is the level of the token behind them.
func (s *scanner) settle(next *level) {
	for _, w := range s.waiting {
		levels := slices.Clone(s.before)
		if next != nil {
			levels = append(levels, *next)
		}
		best := level{-1, 0}
		for _, l := range levels {
			if l.was <= w.was && l.was > best.was {
				best = l
			}
		}
		if best.was < 0 && len(levels) > 0 {
			best = slices.MinFunc(levels, func(a, b level) int { return a.was - b.was })
		}
		w.comment.column = best.will
	}
	s.waiting = s.waiting[:0]
}

// mark takes the mark that has to come next.
func (s *scanner) mark(text string, column int) error {
	s.skip()
	if s.at(0) != rune(text[0]) {
		if s.at(0) == '?' {
			return s.refusedHere("a key that begins with ? cannot be laid out: write \"key: value\"")
		}
		return s.refusedHere("this cannot be laid out: %q is expected here", text)
	}
	s.add(&token{kind: mark, text: text, column: column})
	s.column++
	return nil
}

// has takes a mark if it comes next.
func (s *scanner) has(text string, column int) bool {
	s.skip()
	return s.at(0) == rune(text[0]) && s.mark(text, column) == nil
}

// between takes what stands around documents.
func (s *scanner) between() error {
	s.levels = s.levels[:0]
	for {
		s.skip()
		if s.row >= len(s.lines) || s.column > 0 {
			return nil
		}
		l := string(s.lines[s.row])
		switch {
		case strings.HasPrefix(l, "%"):
			s.add(&token{kind: line, text: strings.TrimRightFunc(l, unicode.IsSpace)})
			s.row++
		case (strings.HasPrefix(l, "---") || strings.HasPrefix(l, "...")) && (len(l) == 3 || isBlank(rune(l[3]))):
			s.add(&token{kind: line, text: l[:3]})
			s.column = 3
		default:
			return nil
		}
	}
}

func (s *scanner) node(n *yamlnode.Node, at spot) error {
	switch {
	case n.Kind == yamlnode.Scalar:
		return s.scalar(n, at)
	case n.Style&yamlnode.Flow != 0:
		return s.flow(n, at)
	case n.Kind == yamlnode.Map:
		return s.blockMap(n, at.own)
	default:
		return s.blockList(n, at.list)
	}
}

func (s *scanner) blockMap(n *yamlnode.Node, column int) error {
	depth := len(s.levels)
	s.levels = append(s.levels, level{n.Column - 1, column})
	for k, v := range yamlnode.Pairs(n) {
		if err := s.key(k, column); err != nil {
			return err
		}
		if err := s.mark(":", column); err != nil {
			return err
		}
		if err := s.node(v, spot{column, column + indent, column, column + indent}); err != nil {
			return err
		}
	}
	s.levels = s.levels[:depth]
	return nil
}

func (s *scanner) blockList(n *yamlnode.Node, column int) error {
	depth := len(s.levels)
	for i, item := range n.Content {
		s.skip()
		if i == 0 {
			s.levels = append(s.levels, level{s.column, column})
		}
		if err := s.mark("-", column); err != nil {
			return err
		}
		s.joins = !yamlnode.IsNull(item) || item.Value != ""
		if err := s.node(item, spot{column, column + indent, column + indent, column + 2*indent}); err != nil {
			return err
		}
	}
	s.levels = s.levels[:depth]
	return nil
}

// key takes the key of a map.
func (s *scanner) key(k *yamlnode.Node, column int) error {
	s.skip()
	if s.at(0) == '?' && (s.at(1) == 0 || isBlank(s.at(1))) {
		return s.refusedHere("a key that begins with ? cannot be laid out: write \"key: value\"")
	}
	if k.Kind != yamlnode.Scalar || k.Value == "" && !yamlnode.IsQuoted(k) {
		return s.refusedHere("a key that is no word cannot be laid out")
	}
	return s.scalar(k, spot{parent: column, own: column})
}

// flow takes {...} and [...], and a pair without braces in a list.
func (s *scanner) flow(n *yamlnode.Node, at spot) error {
	s.skip()
	open, end := "[", "]"
	if n.Kind == yamlnode.Map {
		open, end = "{", "}"
	}
	bare := s.at(0) != rune(open[0])
	if bare && (s.inside == 0 || n.Kind != yamlnode.Map) {
		return s.refusedHere("this cannot be laid out: %q is expected here", open)
	}
	outside := s.inside
	if !bare {
		in := at.in
		if s.row != s.end && s.end >= 0 && !s.joins {
			in = at.own + indent // it begins a line, and what it holds stands further right
		}
		if err := s.mark(open, at.own); err != nil {
			return err
		}
		s.inside = in
	}
	step := 1
	if n.Kind == yamlnode.Map {
		step = 2
	}
	for i := 0; i < len(n.Content); i += step {
		if i > 0 {
			if err := s.mark(",", s.inside); err != nil {
				return err
			}
		}
		if step == 2 {
			if err := s.key(n.Content[i], s.inside); err != nil {
				return err
			}
			if !s.has(":", s.inside) {
				continue // {a} has the key a without a value
			}
		}
		if err := s.node(n.Content[i+step-1], spot{own: s.inside + (step-1)*indent, in: s.inside + indent}); err != nil {
			return err
		}
	}
	if bare {
		return nil
	}
	s.has(",", s.inside)
	if err := s.mark(end, s.inside); err != nil {
		return err
	}
	s.inside = outside
	return nil
}
