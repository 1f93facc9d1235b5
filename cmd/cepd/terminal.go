package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether somebody looks at what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// inColour reports whether colours may be written to w: a terminal that knows them, and nobody asked for none
// (https://no-color.org).
func inColour(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// style is a way to mark text on a terminal.
type style string

const (
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// palette marks text, or leaves it alone where colours are off.
type palette struct{ on bool }

func (p palette) paint(s style, text string) string {
	if !p.on || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// printer writes text to one of the standard streams, in its colours. The first error stops it: done returns it.
type printer struct {
	palette
	w   io.Writer
	err error
}

func newPrinter(w io.Writer) *printer { return &printer{palette: palette{inColour(w)}, w: w} }

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// done ends a command: with the error of writing, if there was one.
func (p *printer) done() error {
	if p.err != nil {
		return failed(fmt.Errorf("write output: %w", p.err))
	}
	return nil
}
