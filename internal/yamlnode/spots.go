package yamlnode

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Spot is where a rune of a scalar's text stands in the file. Line and Column count from 1, Column and Width in runes.
// Width is 1, more where the rune is escaped, and 0 for the end of a line, in whose place a space or an end of line
// stands in the text.
type Spot struct{ Line, Column, Width int }

// End is the column behind it.
func (s Spot) End() int { return s.Column + s.Width }

// Spots returns the place of each rune of a scalar's text, and that of its end: the text is folded and unescaped, and
// this is the way back. Where it is not known, as behind a tag, all places are that of the scalar.
func (f *File) Spots(n *Node) []Spot {
	w := walker{file: f, line: n.Line, at: n.Column - 1, text: []rune(n.Value)}
	w.spots = make([]Spot, 0, len(w.text)+1)
	ok := false
	switch {
	case n.Kind != Scalar:
	case n.Style&block != 0:
		ok = w.block(n.Style&yaml.FoldedStyle != 0)
	case n.Style&yaml.DoubleQuotedStyle != 0:
		ok = w.quoted('"')
	case n.Style&yaml.SingleQuotedStyle != 0:
		ok = w.quoted('\'')
	default:
		ok = w.plain()
	}
	if !ok {
		return slices.Repeat([]Spot{{n.Line, n.Column, 0}}, len(w.text)+1)
	}
	return append(w.spots, Spot{w.line, w.at + 1, 0})
}

// walker walks the text of a scalar and the file side by side.
type walker struct {
	file *File
	// line counts from 1, and at is the index in it.
	line, at int
	text     []rune
	spots    []Spot
}

// put notes that runes of the file stand for the next one of the text. It is false where they do not.
func (w *walker) put(r rune, line, at, width int) bool {
	if w.done() || w.text[len(w.spots)] != r {
		return false
	}
	w.spots = append(w.spots, Spot{line, at + 1, width})
	return true
}

func (w *walker) done() bool { return len(w.spots) == len(w.text) }

// next returns the next rune of the text.
func (w *walker) next() rune {
	if w.done() {
		return -1
	}
	return w.text[len(w.spots)]
}

// take takes a rune that stands for itself, or for another one with those behind it.
func (w *walker) take(r rune, width int) bool {
	ok := w.put(r, w.line, w.at, width)
	w.at += width
	return ok
}

// takeTo takes runes that stand for themselves, up to an index of the line.
func (w *walker) takeTo(to int) bool {
	for line := w.file.line(w.line); w.at < to; {
		if !w.take(line.at(w.at), 1) {
			return false
		}
	}
	return true
}

// end notes that the end of a line stands for a rune.
func (w *walker) end(r rune, line int) bool { return w.put(r, line, w.file.line(line).len(), 0) }

func isBlank(r rune) bool { return r == ' ' || r == '\t' }

// blanks returns the index behind the blanks where the walker stands, and whether the line ends there.
func (w *walker) blanks() (to int, isEnd bool) {
	line := w.file.line(w.line)
	to = w.at
	for to < line.len() && isBlank(line.at(to)) {
		to++
	}
	return to, to == line.len()
}

// fold goes to what stands in a further line: one end of line stands for a space, or for nothing where it is escaped;
// of more than one each but the first stands for itself.
func (w *walker) fold(escaped bool) bool {
	first := w.line
	for isEnd := true; isEnd; {
		if w.line == len(w.file.lines) {
			return false
		}
		w.line, w.at = w.line+1, 0
		w.at, isEnd = w.blanks()
	}
	for line := first + 1; line < w.line; line++ {
		if !w.end('\n', line) {
			return false
		}
	}
	return escaped || w.line > first+1 || w.end(' ', first)
}

// plain walks a text without quotes. Only the text says where it ends.
func (w *walker) plain() bool {
	for !w.done() {
		ok := false
		if to, isEnd := w.blanks(); isEnd {
			ok = w.fold(false)
		} else {
			ok = w.takeTo(to + 1)
		}
		if !ok {
			return false
		}
	}
	return true
}

// quoted walks a text in quotes.
func (w *walker) quoted(quote rune) bool {
	if line := w.file.line(w.line); w.at >= line.len() || line.at(w.at) != quote {
		return false
	}
	w.at++
	for {
		ok := false
		line := w.file.line(w.line)
		to, isEnd := w.blanks()
		switch {
		case isEnd:
			ok = w.fold(false)
		case to > w.at:
			ok = w.takeTo(to)
		case quote == '\'' && line.has(w.at, "''"):
			ok = w.take('\'', 2)
		case line.at(w.at) == quote:
			return w.done()
		case quote == '"' && line.at(w.at) == '\\' && w.at+1 == line.len():
			ok = w.fold(true)
		case quote == '"' && line.at(w.at) == '\\':
			r, width := line.escape(w.at)
			ok = w.take(r, width)
		default:
			ok = w.takeTo(w.at + 1)
		}
		if !ok {
			return false
		}
	}
}

// has reports whether a text of ASCII stands at an index.
func (l line) has(at int, text string) bool {
	for i := range len(text) {
		if at+i >= l.len() || l.at(at+i) != rune(text[i]) {
			return false
		}
	}
	return true
}

// escaped are the runes that stand behind a backslash, and what they mean; further ones have their number behind them.
const (
	escaped = "0abt\tnvfre \"/\\N_LP"
	meant   = "\x00\a\b\t\t\n\v\f\r\x1b \"/\\\u0085\u00a0\u2028\u2029"
)

// escape reads what a backslash begins. The width is that of the whole.
func (l line) escape(at int) (r rune, width int) {
	letter := l.at(at + 1)
	if i := strings.IndexRune(escaped, letter); i >= 0 {
		return []rune(meant)[i], 2
	}
	digits := map[rune]int{'x': 2, 'u': 4, 'U': 8}[letter]
	var number strings.Builder
	for i := at + 2; i < min(at+2+digits, l.len()); i++ {
		number.WriteRune(l.at(i))
	}
	n, err := strconv.ParseUint(number.String(), 16, 32)
	if err != nil {
		return -1, 1
	}
	return rune(n), 2 + digits
}

// block walks a block of text. All its lines are behind the same indentation, which nothing but the first of them tells.
func (w *walker) block(folded bool) bool {
	if w.done() {
		return false // nothing stands below the mark
	}
	for w.next() == '\n' {
		if w.line++; w.line > len(w.file.lines) || !w.end('\n', w.line) {
			return false
		}
	}
	w.at = w.file.line(w.line).len()
	if w.done() {
		return true
	}
	w.line++
	rest := w.text[len(w.spots):]
	spaces := slices.IndexFunc(rest, func(r rune) bool { return r != ' ' })
	if spaces < 0 {
		spaces = len(rest)
	}
	indent := w.file.line(w.line).spaces() - spaces
	for {
		line := w.file.line(w.line)
		if line.spaces() < indent {
			return false
		}
		if w.at = indent; !w.takeTo(line.len()) {
			return false
		}
		if w.done() {
			return true
		}
		// The lines behind it that are empty, and the next one that is not.
		last, next := w.line, w.line+1
		for next <= len(w.file.lines) && w.file.line(next).isEmpty(indent) {
			next++
		}
		more := w.file.line(next)
		isOne := next <= len(w.file.lines) && more.spaces() >= indent
		if !folded || !isOne || isBlank(line.at(indent)) || isBlank(more.at(indent)) {
			if !w.end('\n', last) {
				return false
			}
		} else if next == last+1 && !w.end(' ', last) {
			return false
		}
		for w.line++; w.line < next; w.line++ {
			if w.done() && !isOne {
				break
			}
			if !w.end('\n', w.line) {
				return false
			}
		}
		if !isOne {
			w.line--
			w.at = w.file.line(w.line).len()
			return w.done()
		}
	}
}

// spaces counts the spaces that a line begins with.
func (l line) spaces() int {
	n := 0
	for n < l.len() && l.at(n) == ' ' {
		n++
	}
	return n
}

// isEmpty reports whether a line has nothing but spaces, and no more than an indentation.
func (l line) isEmpty(indent int) bool { return l.len() <= indent && l.spaces() == l.len() }
