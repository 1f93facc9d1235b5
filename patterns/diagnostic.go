package patterns

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cepd/cepd/patterns/expression"
)

// Diagnostic is a mistake in a rule file, or a warning about something that is probably not meant.
type Diagnostic struct {
	Pos
	// Length is the number of runes to mark in the line, at least 1.
	Length int
	// EndLine and EndColumn are where it ends, behind the last rune, if that is in a later line; else they are 0.
	EndLine, EndColumn int
	// Code is stable: CEP01xx for files and rules, CEP02xx for expressions, CEP03xx for row patterns. docs/diagnostics.md explains each.
	Code    string
	Message string
	// Hint says what to write instead; it may be empty.
	Hint    string
	Warning bool
	// Note says that the warning is only something to know: it may well be meant so.
	Note bool
	// Rule is the id of the rule, as far as it is known.
	Rule string
	// Excerpt is the line of the file that Pos points into.
	Excerpt string
}

// Severity is error, warning or note.
func (d Diagnostic) Severity() string {
	switch {
	case d.Note:
		return "note"
	case d.Warning:
		return "warning"
	}
	return "error"
}

// Error formats the diagnostic in one line.
func (d Diagnostic) Error() string {
	severity := ""
	if d.Warning {
		severity = d.Severity() + ": "
	}
	return fmt.Sprintf("%s: %s%s [%s]", d.Pos, severity, d.words(), d.Code)
}

// End returns where the marked runes end: the column is that behind the last of them.
func (d Diagnostic) End() (line, column int) {
	if d.EndLine > 0 {
		return d.EndLine, d.EndColumn
	}
	return d.Line, d.Column + d.Length
}

// words are the message, with the hint in it where that is but a word.
func (d Diagnostic) words() string {
	if d.isNearest() {
		return clean(d.Message + " (" + d.Hint + ")")
	}
	return clean(d.Message)
}

func (d Diagnostic) isNearest() bool { return strings.HasPrefix(d.Hint, "did you mean ") }

// Diagnostics are all that was found in a set of files, sorted by file, line and column.
type Diagnostics []Diagnostic

// Errors returns those that are no warnings.
func (ds Diagnostics) Errors() Diagnostics {
	return slices.DeleteFunc(slices.Clone(ds), func(d Diagnostic) bool { return d.Warning })
}

// Error formats the diagnostics as [Diagnostics.Format] does, without colours.
func (ds Diagnostics) Error() string {
	var b strings.Builder
	_ = ds.Format(&b, false) // a Builder never fails
	return b.String()
}

// Colours of terminals: red, yellow, cyan and bold.
const (
	colourError   = "\x1b[1;31m"
	colourWarning = "\x1b[1;33m"
	colourHint    = "\x1b[36m"
	colourBold    = "\x1b[1m"
	colourOff     = "\x1b[0m"
)

// Format writes each diagnostic with its line and a mark below it.
func (ds Diagnostics) Format(w io.Writer, colour bool) error {
	paint := func(c, s string) string {
		if !colour {
			return s
		}
		return c + s + colourOff
	}
	for _, d := range ds {
		severity, c := "", colourError
		if d.Warning {
			c = colourWarning
			if d.Note {
				c = colourHint
			}
			severity = paint(c, d.Severity()+":") + " "
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s: %s%s [%s]\n", paint(colourBold, fmt.Sprint(d.Pos)), severity, d.words(), d.Code)
		if d.Line > 0 {
			line, mark := d.marked()
			number := fmt.Sprintf("%3d", d.Line)
			fmt.Fprintf(&b, "%s | %s\n%s | %s\n", number, line, strings.Repeat(" ", len(number)), paint(c, mark))
		}
		if d.Hint != "" && !d.isNearest() {
			fmt.Fprintf(&b, "    %s %s\n", paint(colourHint, "hint:"), clean(d.Hint))
		}
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	return nil
}

// maxExcerpt is the number of runes of a line that are shown: two lines of a usual terminal.
const maxExcerpt = 160

// marked returns the line, or the part of it around the mistake, and the caret and tildes to print below it.
func (d Diagnostic) marked() (line, mark string) {
	at, all := d.Column-1, utf8.RuneCountInString(d.Excerpt)
	before, after := "", ""
	text := d.Excerpt
	if all > maxExcerpt {
		from := max(0, min(at-maxExcerpt/3, all-maxExcerpt))
		if from > 0 {
			before = "…"
		}
		if from+maxExcerpt < all {
			after = "…"
		}
		text = text[byteOffset(text, from):]
		text = text[:byteOffset(text, maxExcerpt)]
		at -= from
	}
	runes := []rune(text)
	at = min(at, len(runes))
	var l, m strings.Builder
	l.WriteString(before)
	m.WriteString(strings.Repeat(" ", len([]rune(before))))
	for i, r := range runes {
		// A tab is as wide below as above; all else that is not printed as one column would move the mark.
		space := ' '
		switch {
		case r == '\t':
			space = '\t'
		case !unicode.IsPrint(r):
			r = '\ufffd'
		}
		l.WriteRune(r)
		if i < at {
			m.WriteRune(space)
		}
	}
	l.WriteString(after)
	m.WriteByte('^')
	m.WriteString(strings.Repeat("~", max(0, min(d.Length-1, len(runes)-at-1))))
	return l.String(), m.String()
}

// byteOffset returns where the n-th rune of a text begins.
func byteOffset(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// clean makes a message safe for a terminal: words of users stand in it.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\ufffd'
	}, s)
}

// report collects diagnostics while files are read and checked.
type report struct {
	list Diagnostics
	seen map[Diagnostic]bool
	// hushed are lines of which nothing more is reported; only their File and Line are set.
	hushed map[Pos]bool
	// errors and warnings count those of each file, also the ones that are not kept.
	errors, warnings map[string]int
	// mended are lines with the quotes that they need, by File and Line; nil where nobody asks.
	mended map[Pos]string
	// asked is told which keys a map may have, whenever one is read; nil where nobody compares.
	asked func(what string, known keys)
}

// maxReports is the number of errors, and that of warnings, that are kept of one file: nobody reads more before mending some, and a file
// that is nothing but mistakes must not cost a line of its text for each.
const maxReports = 200

func newReport() *report {
	return &report{
		seen: map[Diagnostic]bool{}, hushed: map[Pos]bool{}, errors: map[string]int{}, warnings: map[string]int{},
	}
}

// full reports whether no more errors of a file are kept, so that nobody needs to look for hints.
func (r *report) full(file string) bool { return r.errors[file] >= maxReports }

// mute reports whether an error in a line would not be kept.
func (r *report) mute(file string, line int) bool {
	return r.full(file) || r.hushed[Pos{File: file, Line: line}]
}

// didYouMean formats the nearest word as a hint.
func (r *report) didYouMean(file, word string, words []string) string {
	if r.full(file) {
		return ""
	}
	if n := expression.Nearest(word, words); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	return ""
}

// hush ends the reports about a line that was not read as it stands.
func (r *report) hush(file string, line int) { r.hushed[Pos{File: file, Line: line}] = true }

// add takes a diagnostic. Defaults are checked once for each rule that they hold for, but reported once.
func (r *report) add(d Diagnostic) {
	if r.hushed[Pos{File: d.File, Line: d.Line}] {
		return
	}
	d.Length, d.Message, d.Hint = max(1, d.Length), shorten(d.Message), shorten(d.Hint)
	same := d
	same.Rule, same.Excerpt = "", "" // a line can be a megabyte, too long for a key
	if r.seen[same] {
		return
	}
	counts := r.errors
	if d.Warning {
		counts = r.warnings
	}
	counts[d.File]++
	if counts[d.File] > maxReports {
		return
	}
	r.seen[same] = true
	r.list = append(r.list, d)
}

// sorted returns what was found in the order of places; equal places keep the order in which they were found.
func (r *report) sorted() Diagnostics {
	slices.SortStableFunc(r.list, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	var all Diagnostics
	for i, d := range r.list {
		all = append(all, d)
		if i+1 < len(r.list) && r.list[i+1].File == d.File {
			continue
		}
		if more := max(0, r.errors[d.File]-maxReports) + max(0, r.warnings[d.File]-maxReports); more > 0 {
			d.Code, d.Message, d.Hint = codeMore, fmt.Sprintf("%d more mistakes of this file are not shown", more), "mend these first"
			d.Length, d.EndLine, d.EndColumn = 1, 0, 0
			d.Warning, d.Rule = r.errors[d.File] <= maxReports, ""
			all = append(all, d)
		}
	}
	return all
}
