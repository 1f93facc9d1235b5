package patterns

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// Diagnostic is a mistake in a rule file, or a warning about something that is probably not meant.
type Diagnostic struct {
	Pos
	// Length is the number of runes to mark, at least 1.
	Length int
	// Code is stable: CEP01xx for files and rules, CEP02xx for expressions. docs/diagnostics.md explains each.
	Code    string
	Message string
	// Hint says what to write instead; it may be empty.
	Hint    string
	Warning bool
	// Rule is the id of the rule, as far as it is known.
	Rule string
	// Excerpt is the line of the file that Pos points into.
	Excerpt string
}

// Error formats the diagnostic in one line.
func (d Diagnostic) Error() string {
	severity := ""
	if d.Warning {
		severity = "warning: "
	}
	return fmt.Sprintf("%s: %s%s [%s]", d.Pos, severity, d.words(), d.Code)
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
			severity, c = paint(colourWarning, "warning:")+" ", colourWarning
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
	runes := []rune(d.Excerpt)
	at := min(d.Column-1, len(runes))
	before, after := "", ""
	if len(runes) > maxExcerpt {
		from := max(0, min(at-maxExcerpt/3, len(runes)-maxExcerpt))
		if from > 0 {
			before = "…"
		}
		if from+maxExcerpt < len(runes) {
			after = "…"
		}
		runes = runes[from:min(len(runes), from+maxExcerpt)]
		at -= from
	}
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
}

func newReport() *report { return &report{seen: map[Diagnostic]bool{}, hushed: map[Pos]bool{}} }

// hush ends the reports about a line that was not read as it stands.
func (r *report) hush(file string, line int) { r.hushed[Pos{File: file, Line: line}] = true }

// add takes a diagnostic. Defaults are checked once for each rule that they hold for, but reported once.
func (r *report) add(d Diagnostic) {
	d.Length, d.Message, d.Hint = max(1, d.Length), shorten(d.Message), shorten(d.Hint)
	same := d
	same.Rule = ""
	if r.seen[same] || r.hushed[Pos{File: d.File, Line: d.Line}] {
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
	return r.list
}
