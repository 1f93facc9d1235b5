package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// writeJSON writes v as indented JSON.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return failed(fmt.Errorf("write output: %w", err))
	}
	return nil
}

// plural returns "1 rule", "2 rules".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(int64(n)) + " " + noun + "s"
}

// thousands writes n with commas.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// table lays out rows in columns. Columns whose cells are numbers are set flush right.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write writes the table, each line behind the indent, the head faint.
func (t *table) write(p *printer, indent string) {
	widths := make([]int, len(t.head))
	left := make([]bool, len(t.head))
	for i, h := range t.head {
		widths[i] = utf8.RuneCountInString(h)
	}
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			left[i] = left[i] || strings.Trim(cell, "0123456789,.-% ") != ""
		}
	}
	line := func(cells []string) string {
		var b strings.Builder
		b.WriteString(indent)
		for i, cell := range cells {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				b.WriteString("  ")
			}
			if left[i] {
				b.WriteString(cell + pad)
			} else {
				b.WriteString(pad + cell)
			}
		}
		return strings.TrimRight(b.String(), " ")
	}
	p.printf("%s\n", p.paint(faint, line(t.head)))
	for _, row := range t.rows {
		p.printf("%s\n", line(row))
	}
}
