package patterns

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/patterns/expression"
)

// Expressions in YAML need quotes where they hold a comma, a bracket or a colon inside { } or [ ], or begin with a
// character that means something to YAML. Without quotes YAML reads something else: two keys, a tag, or nothing at all.
// This file finds those places and shows the line as it should be.

const (
	putInQuotes    = "put the expression in quotes: "
	putAllInQuotes = "put the expressions in quotes: "
)

// torn finds an expression that YAML has torn into several entries of a flow mapping: {having: sum(tx, .amount) > 9} has
// the keys `having` and `.amount) > 9`. It looks at the entry at index i of n.Content, and returns the number of entries
// behind it that belong to the same expression, or -1.
func (r *reader) torn(n *yamlnode.Node, i int) int {
	if n.Style&yamlnode.Flow == 0 {
		return -1
	}
	k, v := n.Content[i], n.Content[i+1]
	if k.Kind != yamlnode.Scalar || v.Kind != yamlnode.Scalar || yamlnode.IsQuoted(v) {
		return -1
	}
	start, count := v, 0
	if yamlnode.IsNull(v) {
		// A key that is no word and has no value is the rest of something, though nothing was left open.
		if i == 0 || yamlnode.IsQuoted(k) || word.MatchString(k.Value) {
			return -1
		}
		start = n.Content[i-1]
		if start.Kind != yamlnode.Scalar || yamlnode.IsQuoted(start) {
			start = k
		}
	} else {
		var b brackets
		b.read(v.Value)
		for j := i + 2; b.open() && count < maxTorn && j+1 < len(n.Content) && isRest(n.Content[j], n.Content[j+1]); j += 2 {
			b.read(n.Content[j].Value)
			count++
		}
		if count == 0 {
			return -1
		}
	}
	mended, _ := r.mended(start)
	r.at(start, codeQuotes, mended, "the comma ends this value, so the rest of the expression became a key")
	return count
}

// isRest reports whether an entry of a flow mapping can be the rest of an expression: it has no value, or its key is no
// word.
func isRest(k, v *yamlnode.Node) bool {
	return k.Kind == yamlnode.Scalar && v.Kind == yamlnode.Scalar && (yamlnode.IsNull(v) || !word.MatchString(k.Value))
}

// tornItem is [reader.torn] for the items of a flow list: [coalesce(a, b)] has two.
func (r *reader) tornItem(n *yamlnode.Node, i int) int {
	item := n.Content[i]
	if n.Style&yamlnode.Flow == 0 || item.Kind != yamlnode.Scalar || yamlnode.IsQuoted(item) {
		return -1
	}
	var b brackets
	b.read(item.Value)
	count := 0
	for j := i + 1; b.open() && count < maxTorn && j < len(n.Content) && n.Content[j].Kind == yamlnode.Scalar; j++ {
		b.read(n.Content[j].Value)
		count++
	}
	if count == 0 || b.open() {
		return -1
	}
	mended, _ := r.mended(item)
	r.at(item, codeQuotes, mended, "the comma ends this entry, so the rest of the expression became another")
	return count
}

// word is what keys look like.
var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// maxTorn bounds the pieces that an expression is looked for in: a call has a few arguments.
const maxTorn = 64

// brackets follows the brackets and strings of an expression.
type brackets struct {
	depth int
	quote rune
}

func (b *brackets) read(expr string) {
	for _, c := range expr {
		b.next(c)
	}
}

func (b *brackets) next(c rune) {
	switch {
	case b.quote != 0:
		if c == b.quote {
			b.quote = 0
		}
	case c == '"' || c == '\'':
		b.quote = c
	case c == '(' || c == '[' || c == '{':
		b.depth++
	case c == ')' || c == ']' || c == '}':
		b.depth--
	}
}

// open reports whether a bracket or a string is still open.
func (b *brackets) open() bool { return b.depth > 0 || b.quote != 0 }

// mended returns the line of a node with the expression that begins there in quotes, as a hint. An expression of several
// lines is not shown.
func (r *reader) mended(n *yamlnode.Node) (hint string, ok bool) {
	if r.full(r.file.Name) {
		return "", false
	}
	line := r.file.Line(n.Line)
	if n.Kind == yamlnode.Scalar && !strings.Contains(line, n.Value) {
		return strings.TrimSuffix(putInQuotes, ": "), true
	}
	line, _, ok = quoteAt([]rune(line), n.Column-1)
	if !ok {
		return strings.TrimSuffix(putInQuotes, ": "), false
	}
	r.note(Pos{File: r.file.Name, Line: n.Line}, line)
	return putInQuotes + strings.TrimSpace(line), true
}

// maxMendings bounds how often a file is read again to put what stands torn in it into quotes: one reading mends one
// expression in each line, and no line that people write has more than a few.
const maxMendings = 16

// Mend returns a file with the quotes that its expressions need, where YAML has torn them apart for want of these, and
// what keeps YAML from reading it even so. Whether its rules are good is not looked at.
func Mend(source Source) (Source, Diagnostics) {
	for range maxMendings {
		d := newReport()
		d.mended = map[Pos]string{}
		readFile(source, d)
		if len(d.mended) == 0 {
			break
		}
		lines := strings.Split(strings.ReplaceAll(string(source.Data), "\r\n", "\n"), "\n")
		for at, line := range d.mended {
			lines[at.Line-1] = line
		}
		source.Data = []byte(strings.Join(lines, "\n"))
	}
	file, problems := yamlnode.Parse(source.Name, source.Data)
	d := newReport()
	r := &reader{file: file, report: d, refused: map[*yamlnode.Node]bool{}}
	for _, p := range problems {
		r.problem(p)
	}
	return source, d.sorted()
}

// note remembers a mended line: the first of each, for behind it the places in the line are others.
func (r *report) note(at Pos, line string) {
	if _, is := r.mended[at]; r.mended != nil && !is {
		r.mended[at] = line
	}
}

// maxWords is the number of runes of a message or hint: words of users stand in them, of any length.
const maxWords = 2 * maxExcerpt

// shorten keeps messages and hints readable.
func shorten(s string) string {
	if len(s) <= maxWords {
		return s
	}
	if r := []rune(s); len(r) > maxWords {
		return string(r[:maxWords]) + "…"
	}
	return s
}

// entryBehind matches what follows an expression in a flow mapping: a comma and the next key.
var entryBehind = regexp.MustCompile(`^,\s*[A-Za-z_][A-Za-z0-9_]*:(\s|$)`)

// keyAhead matches what is not an expression, but a key with its value, or a map or a list that begins with one.
var keyAhead = regexp.MustCompile(`^[\[{ \t]*[A-Za-z_][A-Za-z0-9_]*:\s`)

// quoteAt puts the expression that begins at an index of a line in quotes, and returns the index behind them. ok is false
// where no whole one stands there.
func quoteAt(line []rune, from int) (_ string, end int, ok bool) {
	if from >= len(line) {
		return string(line), from, false
	}
	before := strings.TrimRight(string(line[:from]), " \t")
	inList := strings.HasSuffix(before, "[") || strings.HasSuffix(before, ",")
	var b brackets
	to := from
	for ; to < len(line) && b.depth >= 0; to++ {
		c := line[to]
		if b.quote == 0 {
			isEnd := (c == ']' || c == '}') && b.depth == 0
			isNext := c == ',' && b.depth <= 0 && (inList || entryBehind.MatchString(string(line[to:min(to+2*maxName, len(line))])))
			isComment := c == '#' && to > from && (line[to-1] == ' ' || line[to-1] == '\t')
			if isEnd || isNext || isComment {
				break
			}
		}
		b.next(c)
	}
	expr := strings.TrimRight(string(line[from:to]), " \t")
	if expr == "" || b.open() || b.depth < 0 || beginsWithKey(before, expr) {
		return string(line), from, false
	}
	meant, _ := expression.Spelled(expr)
	quoted := "'" + strings.ReplaceAll(meant, "'", "''") + "'"
	if strings.Contains(meant, "'") && !strings.ContainsAny(meant, `"\`) {
		quoted = `"` + meant + `"`
	}
	return string(line[:from]) + quoted + string(line[from+len([]rune(expr)):]), from + len([]rune(quoted)), true
}

// beginsWithKey reports whether what follows in a line is a key with its value. Behind the colon of another key that can
// only be a word of the language in a wrong place; title: Alert: {{user}} is a text.
func beginsWithKey(before, text string) bool {
	if !keyAhead.MatchString(text) {
		return false
	}
	key, _, _ := strings.Cut(text, ":")
	return !strings.HasSuffix(before, ":") || !word.MatchString(key) || isLanguageKey(key)
}

// valueStart matches what can stand before a value.
var valueStart = regexp.MustCompile(`(^|[\[{,]|- |[A-Za-z0-9_]:[ \t])[ \t]*`)

// maxMended bounds the bytes that are parsed again while a file is mended, so that a large file of such mistakes costs
// little more than to read it: a usual file of 10 kB has a hundred tries.
const maxMended = yamlnode.MaxBytes

// parse reads a file. Where the only mistakes of a line are expressions that need quotes, it says so and reads on as if
// the quotes were there, so that the other mistakes of the file are found too. Nothing else is reported of such a line:
// places in it are off.
func parse(source Source, d *report) (*yamlnode.File, []yamlnode.Problem) {
	budget := maxMended
	m := mending{source: source, budget: &budget}
	m.file, m.problems = yamlnode.Parse(source.Name, source.Data)
	var unread []Diagnostic // one of each line that YAML could not read, in the order of lines
	quoted := map[int]int{} // the expressions that were put in quotes, by their line
	for p, fatal := m.fatal(); fatal; p, fatal = m.fatal() {
		file := m.file
		next, ok := m.mend(p, 0)
		if !ok {
			break
		}
		quoted[p.Line] = next.count
		m, m.count = next, 0
		if p.Kind == yamlnode.Syntax {
			unread = append(unread, Diagnostic{
				Pos: Pos{File: source.Name, Line: p.Line, Column: p.Column}, Length: p.Length, Code: codeQuotes,
				Message: "YAML cannot read this line: " + p.Message, Excerpt: file.Line(p.Line),
			})
		} else {
			(&reader{file: file, report: d}).problem(p)
		}
	}
	m = m.mendTorn(quoted)
	for _, u := range unread {
		u.Hint = putInQuotes
		if quoted[u.Line] > 1 {
			u.Hint = putAllInQuotes
		}
		u.Hint += strings.TrimSpace(m.file.Line(u.Line))
		d.add(u)
	}
	for line := range quoted {
		d.note(Pos{File: source.Name, Line: line}, m.file.Line(line))
		d.hush(source.Name, line)
	}
	return m.file, m.problems
}

// mending is a file in which lines have been mended.
type mending struct {
	source   Source
	file     *yamlnode.File
	problems []yamlnode.Problem
	count    int  // the expressions that were put in quotes in the line at hand
	budget   *int // the bytes that may still be parsed
}

// fatal returns the problem that keeps the file from being read on.
func (m mending) fatal() (_ yamlnode.Problem, ok bool) {
	n := len(m.problems)
	if n == 0 || !m.problems[n-1].Fatal {
		return yamlnode.Problem{}, false
	}
	return m.problems[n-1], true
}

// with reads the file again, with other lines in the place of some.
func (m mending) with(mended map[int]string) mending {
	*m.budget -= len(m.source.Data)
	lines := strings.Split(strings.ReplaceAll(string(m.source.Data), "\r\n", "\n"), "\n")
	for number, line := range mended {
		lines[number-1] = line
	}
	m.source.Data = []byte(strings.Join(lines, "\n"))
	m.file, m.problems = yamlnode.Parse(m.source.Name, m.source.Data)
	return m
}

// mend looks for the values that made a line unreadable: the nearest place before the mistake from which, put in quotes,
// the line can be read, or can be read further, to where another value needs quotes. It looks at an index of the line and
// behind it: what stands before is in quotes already.
func (m mending) mend(p yamlnode.Problem, from int) (mending, bool) {
	old := []rune(m.file.Line(p.Line))
	if len(old) > 0 && old[0] == '%' {
		return mending{}, false // a directive of YAML, no value
	}
	head := old[:min(p.Column, len(old))]
	starts := valueStarts(head)
	for tried := 0; tried < 4 && len(starts) > 0 && *m.budget > len(m.source.Data); tried++ {
		start := starts[len(starts)-1]
		starts = starts[:len(starts)-1]
		if start < from {
			break
		}
		line, end, ok := quoteAt(old, start)
		if !ok {
			continue
		}
		next := m.with(map[int]string{p.Line: line})
		next.count++
		q, fatal := next.fatal()
		if !fatal || q.Line > p.Line && q.Since != p.Line {
			return next, true
		}
		if q.Line == p.Line && q.Column > end && q.Kind == p.Kind {
			if next, ok := next.mend(q, end); ok {
				return next, true
			}
		}
	}
	return mending{}, false
}

// valueStarts returns the indices of a line where values can begin, but those inside of a call: what a comma divides there
// are its arguments, and the whole of it needs quotes.
func valueStarts(head []rune) []int {
	inCall := make([]bool, len(head)+1)
	var b brackets
	for i, c := range head {
		if b.quote != 0 || !strings.ContainsRune("[]{}", c) {
			b.next(c)
		}
		inCall[i+1] = b.depth > 0
	}
	var starts []int
	text, bytes, runes := string(head), 0, 0
	for _, at := range valueStart.FindAllStringIndex(text, -1) {
		runes += utf8.RuneCountInString(text[bytes:at[1]])
		bytes = at[1]
		if !inCall[runes] {
			starts = append(starts, runes)
		}
	}
	return starts
}

// mendTorn puts the expressions in quotes that YAML tears in lines where it could not read another one, and counts them.
func (m mending) mendTorn(quoted map[int]int) mending {
	for range maxMendings {
		r := &reader{file: m.file, report: newReport(), refused: map[*yamlnode.Node]bool{}}
		r.report.mended = map[Pos]string{}
		for _, root := range m.file.Documents {
			r.findTorn(root, quoted)
		}
		if len(r.report.mended) == 0 || *m.budget < len(m.source.Data) {
			break
		}
		mended := map[int]string{}
		for at, line := range r.report.mended {
			mended[at.Line] = line
		}
		next := m.with(mended)
		if len(next.problems) > len(m.problems) {
			break
		}
		for line := range mended {
			quoted[line]++
		}
		m = next
	}
	return m
}

// findTorn finds what is torn in some lines, whatever it may mean.
func (r *reader) findTorn(n *yamlnode.Node, lines map[int]int) {
	for i := 0; i < len(n.Content); i++ {
		torn := -1
		switch {
		case lines[n.Content[i].Line] == 0:
		case n.Kind == yamlnode.List:
			torn = r.tornItem(n, i)
		case n.Kind == yamlnode.Map && i%2 == 0:
			if torn = r.torn(n, i); torn >= 0 {
				torn = 2*torn + 1
			}
		}
		if torn >= 0 {
			i += torn
			continue
		}
		r.findTorn(n.Content[i], lines)
	}
}
