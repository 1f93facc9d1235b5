package layout

import (
	"strings"
	"unicode/utf8"
)

// row is a line of what is written.
type row struct {
	text    string
	comment string // behind the text
	column  int
}

// write writes tokens: lines end where they ended, but for what begins a line and belongs to the one before.
func write(tokens []*token) []byte {
	var rows []row
	for i, t := range tokens {
		var before *token
		if i > 0 {
			before = tokens[i-1]
		}
		breaks := t.breaks
		switch {
		case before == nil:
			breaks = 1
		case t.is(",") && i+1 < len(tokens) && tokens[i+1].closes() && before.kind != comment:
			continue // the comma behind the last entry
		case before.kind == comment, before.kind == line && t.kind == line:
			breaks = max(1, breaks)
		case t.closes(), t.is(","), t.is(":"):
			breaks = 0
		}
		if breaks == 0 && t.kind == comment {
			rows[len(rows)-1].comment = t.text
		} else if breaks == 0 {
			rows[len(rows)-1].text += space(before, t) + t.text
		} else {
			if breaks > 1 && len(rows) > 0 && rows[len(rows)-1].text != "" {
				rows = append(rows, row{})
			}
			rows = append(rows, row{text: t.text, column: t.column})
		}
		for _, l := range t.rest {
			rows = append(rows, row{text: l, column: t.restColumn})
		}
	}
	align(rows)
	var b strings.Builder
	for _, r := range rows {
		if r.text != "" {
			b.WriteString(strings.Repeat(" ", r.column))
		}
		b.WriteString(r.text)
		b.WriteString(r.comment)
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// space is what stands between two tokens of a line.
func space(before, t *token) string {
	switch {
	case before.opens(), t.is(":"), t.is(",") && !before.is(":"), t.closes() && !before.is(":"):
		return ""
	}
	return " "
}

// begins is the column in which the first word of a line stands.
func (r row) begins() int { return r.column + len(r.text) - len(strings.TrimLeft(r.text, "- ")) }

func (r row) width() int { return r.column + utf8.RuneCountInString(r.text) }

// align puts the comments behind lines that follow each other, and are indented alike, below each other.
func align(rows []row) {
	for i := 0; i < len(rows); {
		if rows[i].comment == "" {
			i++
			continue
		}
		to, width := i, 0
		for to < len(rows) && rows[to].comment != "" && rows[to].begins() == rows[i].begins() {
			width = max(width, rows[to].width())
			to++
		}
		for ; i < to; i++ {
			rows[i].comment = strings.Repeat(" ", width-rows[i].width()+1) + rows[i].comment
		}
	}
}
