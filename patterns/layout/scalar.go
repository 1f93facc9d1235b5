package layout

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/cepd/cepd/internal/yamlnode"
)

func (s *scanner) scalar(n *yamlnode.Node, at spot) error {
	if n.Value == "" && !yamlnode.IsQuoted(n) {
		return nil // nothing is written there
	}
	s.skip()
	if s.row != n.Line-1 || s.column != n.Column-1 {
		return s.refuse(n.Line, n.Column, "this cannot be laid out")
	}
	t := &token{kind: scalar, column: at.own, restColumn: at.own}
	if s.inside > 0 {
		t.restColumn = s.inside + indent
	}
	first := s.at(0)
	switch {
	case yamlnode.IsQuoted(n) && (first == '|' || first == '>'):
		t.restColumn = max(at.parent, 0) + indent
		s.block(n, t)
		return nil
	case yamlnode.IsQuoted(n):
		s.take(t, s.endOfQuoted(first))
	default:
		to, ok := s.endOfPlain(n.Value)
		if !ok {
			return s.refusedHere("this value cannot be laid out")
		}
		s.take(t, to)
		if s.inside > 0 && len(t.rest) == 0 && risky.MatchString(t.text) {
			t.text = quote(t.text)
		}
	}
	return nil
}

// risky matches what YAML readers understand differently inside of { } and [ ], though ours reads it as one text.
var risky = regexp.MustCompile(`\?\?`)

// quote puts a text in the quotes that leave the most of it as it is.
func quote(text string) string {
	if strings.ContainsAny(text, "\"\\") {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	return `"` + text + `"`
}

// place is a place in the text, from 0.
type place struct{ row, column int }

// take makes a token of the text up to a place.
func (s *scanner) take(t *token, to place) {
	pieces := make([]string, 0, to.row-s.row+1)
	for row := s.row; row <= to.row; row++ {
		l := s.lines[row]
		if row == to.row {
			l = l[:to.column]
		}
		if row == s.row {
			pieces = append(pieces, string(l[s.column:]))
		} else {
			pieces = append(pieces, strings.TrimLeft(string(l), " \t"))
		}
		if last := len(pieces) - 1; row < to.row {
			pieces[last] = trimRight(pieces[last])
		}
	}
	t.text, t.rest = pieces[0], pieces[1:]
	s.add(t)
	s.row, s.column, s.end = to.row, to.column, to.row
}

// trimRight cuts blanks from the end of a line, but for one that a backslash stands before.
func trimRight(l string) string {
	short := strings.TrimRight(l, " \t")
	if strings.HasSuffix(short, `\`) && len(short) < len(l) {
		return l[:len(short)+1]
	}
	return short
}

// endOfQuoted returns the place behind the quote that closes the one where the scanner stands.
func (s *scanner) endOfQuoted(quote rune) place {
	for row, column := s.row, s.column+1; row < len(s.lines); row, column = row+1, 0 {
		for l := s.lines[row]; column < len(l); column++ {
			switch {
			case l[column] == '\\' && quote == '"':
				column++
			case l[column] == quote && quote == '\'' && column+1 < len(l) && l[column+1] == quote:
				column++
			case l[column] == quote:
				return place{row, column + 1}
			}
		}
	}
	return place{s.row, len(s.lines[s.row])} // not in a text that was read
}

// endOfPlain walks a value beside the text: the end of a line with the blanks around it stands for a space, and each empty
// line for an end of line.
func (s *scanner) endOfPlain(value string) (place, bool) {
	row, column := s.row, s.column
	runes := []rune(value)
	for i := 0; i < len(runes); {
		l := s.lines[row]
		to := column
		for to < len(l) && isBlank(l[to]) {
			to++
		}
		if to < len(l) {
			if l[column] != runes[i] {
				return place{}, false
			}
			column++
			i++
			continue
		}
		folds := 0
		for to == len(l) {
			row++
			folds++
			if row == len(s.lines) {
				return place{}, false
			}
			l, to = s.lines[row], 0
			for to < len(l) && isBlank(l[to]) {
				to++
			}
		}
		column = to
		want := strings.Repeat("\n", folds-1)
		if folds == 1 {
			want = " "
		}
		if !strings.HasPrefix(string(runes[i:]), want) {
			return place{}, false
		}
		i += len(want)
	}
	return place{row, column}, true
}

// header matches what begins a block of text.
var header = regexp.MustCompile(`^([|>])([-+]?)([1-9]?)([-+]?)[ \t]*(#.*)?$`)

// block takes a block of text that begins with | or >.
func (s *scanner) block(n *yamlnode.Node, t *token) {
	m := header.FindStringSubmatch(strings.TrimRightFunc(string(s.lines[s.row][s.column:]), unicode.IsSpace))
	if m == nil {
		m = []string{"", string(s.at(0)), "", "", "", ""} // not in a text that was read
	}
	chomp := m[2] + m[4]
	from := s.row + 1
	width := 0
	if m[3] != "" {
		width = int(m[3][0] - '0')
		if len(s.levels) > 0 {
			width += s.levels[len(s.levels)-1].was
		}
	} else {
		least := 1
		if len(s.levels) > 0 {
			least = s.levels[len(s.levels)-1].was + 1
		}
		for row := from; row < len(s.lines); row++ {
			spaces := leading(s.lines[row])
			width = max(width, spaces)
			if spaces < len(s.lines[row]) {
				break
			}
		}
		width = max(width, least)
	}
	row, last := from, from // last is behind the last line that is not empty
	for ; row < len(s.lines); row++ {
		l := s.lines[row]
		spaces := leading(l)
		if spaces < len(l) && spaces < width {
			break
		}
		l = l[min(width, len(l)):]
		t.rest = append(t.rest, string(l))
		if len(l) > 0 {
			last = row + 1
		}
	}
	if chomp == "+" {
		last = row
		if n := len(t.rest); row == len(s.lines) && n > 0 && t.rest[n-1] == "" {
			last-- // what stands behind the last end of a line is no line
		}
	}
	t.rest = t.rest[:last-from]
	if n.Value != "" && !strings.HasSuffix(n.Value, "\n") {
		chomp = "-" // the text may end without an end of line, what is written here does not
	}
	t.text = m[1]
	if m[3] != "" {
		t.text += "2"
	}
	t.text += chomp
	if m[5] != "" {
		t.text += " " + m[5]
	}
	s.add(t)
	s.row, s.column = from+len(t.rest), 0
	s.end = s.row - 1
}

// leading counts the spaces that a line begins with.
func leading(l []rune) int {
	n := 0
	for n < len(l) && l[n] == ' ' {
		n++
	}
	return n
}
