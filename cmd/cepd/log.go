package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cepd/cepd/cmd/cepd/config"
)

// newLogger returns the log of a job: lines for people, coloured on a terminal, or JSON.
func newLogger(w io.Writer, c config.Log) *slog.Logger {
	if c.Format == config.LogJSON {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: c.Level.Slog()}))
	}
	return slog.New(&logHandler{
		out: &lockedWriter{w: w}, level: c.Level.Slog(), palette: palette{inColour(w)}, terminal: isTerminal(w),
	})
}

// lockedWriter writes lines whole, whoever logs them.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// logHandler writes `TIME LEVEL message key=value ...`. What comes from outside stands in quotes as soon as it has a space or
// anything that is not printed, so that no event and no file name can fake a line.
type logHandler struct {
	palette
	out      *lockedWriter
	level    slog.Level
	terminal bool
	attrs    string // those of With, as they are written
	group    string // what stands before the keys: "a.b."
}

// Enabled implements [slog.Handler].
func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// Handle implements [slog.Handler].
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	layout := "2006-01-02T15:04:05.000Z07:00"
	at := r.Time.UTC()
	if h.terminal { // somebody looks at it now
		layout, at = "15:04:05.000", r.Time.Local()
	}
	b.WriteString(h.paint(faint, at.Format(layout)))
	b.WriteByte(' ')
	b.WriteString(h.paint(levelStyle(r.Level), fmt.Sprintf("%-5s", r.Level)))
	b.WriteByte(' ')
	b.WriteString(printable(r.Message))
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		h.attr(&b, h.group, a)
		return true
	})
	b.WriteByte('\n')
	_, err := io.WriteString(h.out, b.String())
	return err
}

func levelStyle(l slog.Level) style {
	switch {
	case l >= slog.LevelError:
		return red
	case l >= slog.LevelWarn:
		return yellow
	case l >= slog.LevelInfo:
		return green
	}
	return faint
}

// attr writes ` key=value`.
func (h *logHandler) attr(b *strings.Builder, group string, a slog.Attr) {
	v := a.Value.Resolve()
	if a.Equal(slog.Attr{}) {
		return
	}
	if v.Kind() == slog.KindGroup {
		inner := group
		if a.Key != "" {
			inner += a.Key + "."
		}
		for _, g := range v.Group() {
			h.attr(b, inner, g)
		}
		return
	}
	var text string
	switch v.Kind() {
	case slog.KindTime:
		text = v.Time().UTC().Format(time.RFC3339Nano)
	case slog.KindDuration:
		text = v.Duration().Round(time.Microsecond).String()
	default:
		text = v.String()
	}
	b.WriteByte(' ')
	b.WriteString(h.paint(faint, quotedIfNeeded(group+a.Key)+"="))
	b.WriteString(quotedIfNeeded(text))
}

// quotedIfNeeded puts quotes around what is not one plain word.
func quotedIfNeeded(s string) string {
	if s == "" || strings.ContainsAny(s, " =\"") || printable(s) != s {
		return strconv.Quote(s)
	}
	return s
}

// printable is s with everything escaped that is not printed.
func printable(s string) string {
	for _, r := range s {
		if !strconv.IsPrint(r) {
			q := strconv.Quote(s)
			return q[1 : len(q)-1]
		}
	}
	return s
}

// WithAttrs implements [slog.Handler].
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.attrs)
	for _, a := range attrs {
		h.attr(&b, h.group, a)
	}
	n := *h
	n.attrs = b.String()
	return &n
}

// WithGroup implements [slog.Handler].
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	n := *h
	n.group += name + "."
	return &n
}
