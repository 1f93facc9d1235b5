package filesink

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/cepd/cepd/sinks"
)

// Writer writes messages to what keeps no position, as standard output: at least once.
type Writer struct {
	w      io.Writer
	format sinks.Format
	source string
	buf    []byte
	closed atomic.Bool
}

var _ sinks.Sink = (*Writer)(nil)

var errClosed = errors.New("the sink is closed")

// NewWriter makes a sink of w, which Close leaves open.
func NewWriter(w io.Writer, format sinks.Format, source string) *Writer {
	return &Writer{w: w, format: format, source: source}
}

// Peek implements [sinks.Sink]: there is no position.
func (w *Writer) Peek(ctx context.Context) (sinks.Progress, error) {
	return sinks.Progress{}, ctx.Err()
}

// Open implements [sinks.Sink].
func (w *Writer) Open(ctx context.Context) (sinks.Progress, error) {
	return sinks.Progress{}, ctx.Err()
}

// Begin implements [sinks.Sink].
func (w *Writer) Begin(ctx context.Context, _ sinks.Progress) error { return ctx.Err() }

// Publish implements [sinks.Sink]. It writes whole lines where w takes them: after an error it says how many.
func (w *Writer) Publish(ctx context.Context, b sinks.Batch) (sinks.Ack, error) {
	at := b.Base
	if w.closed.Load() {
		return sinks.Ack{Published: at}, errClosed
	}
	if err := ctx.Err(); err != nil {
		return sinks.Ack{Published: at}, err
	}
	w.buf = w.buf[:0]
	ends := make([]int, len(b.Messages))
	for i := range b.Messages {
		w.buf = appendLine(w.buf, w.format, w.source, &b.Messages[i])
		ends[i] = len(w.buf)
	}
	n, err := w.w.Write(w.buf)
	for i, end := range ends {
		if end <= n {
			at.Sequence, at.Chain = b.Messages[i].Sequence, b.Messages[i].Chain
		}
	}
	return sinks.Ack{Published: at, Acknowledged: at.Sequence}, err
}

// Close implements [sinks.Sink].
func (w *Writer) Close() error {
	w.closed.Store(true)
	return nil
}

// appendLine appends a message as one line.
func appendLine(dst []byte, f sinks.Format, source string, m *sinks.Message) []byte {
	n := len(dst)
	dst = f.Append(dst, source, m)
	// A line end inside of JSON stands between its parts only, and means nothing there.
	for i := n; i < len(dst); {
		j := bytes.IndexAny(dst[i:], "\r\n")
		if j < 0 {
			break
		}
		dst[i+j] = ' '
		i += j + 1
	}
	return append(dst, '\n')
}
