package patterns

import (
	"regexp"
	"strings"

	"github.com/cepd/cepd/internal/yamlnode"
)

// Expressions in YAML need quotes where they hold a comma, a bracket or a colon inside { } or [ ], or begin with a
// character that means something to YAML. Without quotes YAML reads something else: two keys, a tag, or nothing at all.
// This file finds those places and shows the line as it should be.

const putInQuotes = "put the expression in quotes: "

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

// mended returns the line of a node with the expression that begins there in quotes, as a hint.
func (r *reader) mended(n *yamlnode.Node) (hint string, ok bool) {
	if r.full(r.file.Name) {
		return "", false
	}
	line, ok := quoteAt([]rune(r.file.Line(n.Line)), n.Column-1)
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

// keyAhead matches what is not an expression, but a key with its value.
var keyAhead = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*:\s`)

// quoteAt puts the expression that begins at an index of a line in quotes. ok is false where no whole one stands there.
func quoteAt(line []rune, from int) (_ string, ok bool) {
	if from >= len(line) {
		return string(line), false
	}
	before := strings.TrimRight(string(line[:from]), " \t")
	inList := strings.HasSuffix(before, "[") || strings.HasSuffix(before, ",")
	var b brackets
	to := from
	for ; to < len(line); to++ {
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
	if expr == "" || b.open() || b.depth < 0 || keyAhead.MatchString(expr) {
		return string(line), false
	}
	quoted := "'" + strings.ReplaceAll(expr, "'", "''") + "'"
	if strings.Contains(expr, "'") && !strings.ContainsAny(expr, `"\`) {
		quoted = `"` + expr + `"`
	}
	return string(line[:from]) + quoted + string(line[from+len([]rune(expr)):]), true
}

// valueStart matches what can stand before a value.
var valueStart = regexp.MustCompile(`(^|[\[{,]|- |[A-Za-z0-9_]:[ \t])[ \t]*`)

// maxMended bounds the bytes that are parsed again while a file is mended, so that a large file of such mistakes costs
// little more than to read it: a usual file of 10 kB has a hundred tries.
const maxMended = yamlnode.MaxBytes

// parse reads a file. Where the only mistake of a line is an expression that needs quotes, it says so and reads on as if
// the quotes were there, so that the other mistakes of the file are found too. Nothing else is reported of such a line:
// places in it are off.
func parse(source Source, d *report) (*yamlnode.File, []yamlnode.Problem) {
	file, problems := yamlnode.Parse(source.Name, source.Data)
	for budget := maxMended; len(problems) > 0 && problems[len(problems)-1].Fatal; {
		last := problems[len(problems)-1]
		m, ok := mend(source, file, last, &budget)
		if !ok {
			break
		}
		if last.Kind == yamlnode.Syntax {
			d.add(Diagnostic{
				Pos: Pos{File: source.Name, Line: last.Line, Column: last.Column}, Length: last.Length, Code: codeQuotes,
				Message: "YAML cannot read this line: " + last.Message,
				Hint:    putInQuotes + strings.TrimSpace(m.line), Excerpt: file.Line(last.Line),
			})
		} else {
			(&reader{file: file, report: d}).problem(last)
		}
		d.note(Pos{File: source.Name, Line: last.Line}, m.line)
		d.hush(source.Name, last.Line)
		source, file, problems = m.source, m.file, m.problems
	}
	return file, problems
}

// mending is a file in which one line has been mended.
type mending struct {
	line     string
	source   Source
	file     *yamlnode.File
	problems []yamlnode.Problem
}

// mend looks for the value that made a line unreadable: the nearest place before the mistake from which, put in quotes,
// the line can be read.
func mend(source Source, file *yamlnode.File, p yamlnode.Problem, budget *int) (mending, bool) {
	old := []rune(file.Line(p.Line))
	if len(old) > 0 && old[0] == '%' {
		return mending{}, false // a directive of YAML, no value
	}
	head := string(old[:min(p.Column, len(old))])
	starts := valueStart.FindAllStringIndex(head, -1)
	for tried := 0; tried < 4 && len(starts) > 0 && *budget > len(source.Data); tried++ {
		*budget -= len(source.Data)
		end := starts[len(starts)-1][1]
		starts = starts[:len(starts)-1]
		line, ok := quoteAt(old, len([]rune(head[:end])))
		if !ok {
			continue
		}
		lines := strings.Split(strings.ReplaceAll(string(source.Data), "\r\n", "\n"), "\n")
		lines[p.Line-1] = line
		m := mending{line: line, source: Source{Name: source.Name, Data: []byte(strings.Join(lines, "\n"))}}
		m.file, m.problems = yamlnode.Parse(source.Name, m.source.Data)
		n := len(m.problems)
		if n == 0 || !m.problems[n-1].Fatal || m.problems[n-1].Line > p.Line && m.problems[n-1].Since != p.Line {
			return m, true
		}
	}
	return mending{}, false
}
