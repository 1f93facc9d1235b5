package filesource

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
)

const (
	// headSize is how much of a file's content tells it from all others: logs carry times, so a line or two would do.
	headSize = 1 << 10
	// nameSize is the length in bytes of a partition's name, in hex twice that: 64 bits, so that a million files have a
	// chance of 1 in 40 million that two of them are taken for one (and then refused).
	nameSize = 8
	// readSize is how much is read from a file at once: more gains nothing measurable.
	readSize = 64 << 10
)

var errEmpty = errors.New("no content")

var bom = []byte("\xef\xbb\xbf")

// nameOf is the name of the partition that begins so.
func nameOf(head []byte) string {
	sum := sha256.Sum256(head)
	return hex.EncodeToString(sum[:nameSize])
}

// reader reads one content from its start to its end.
type reader struct {
	content   content
	partition *cep.Partition
	head      []byte // the first headSize bytes, or all
	// body is where the records begin: behind a byte order mark and the header.
	body int64

	read, total atomic.Int64

	stream *stream
	cut    cutter
	// from is the offset from which records count.
	from int64
	// atEnd says that the stream has no more.
	atEnd bool
	// end is what Next returns from now on: io.EOF or what broke the content.
	end error
}

// newReader reads the head of a content. What can be read once only stays open from here on.
func newReader(c content, o Config) (*reader, error) {
	r := &reader{content: c, cut: newCutter(source.Format{}, o.MaxRecord)}
	r.total.Store(-1)
	if err := r.readHead(o.Form); err != nil {
		return nil, errors.Join(err, r.release())
	}
	if r.partition = o.Partitions.Get(o.Stream, nameOf(r.head)); r.partition == nil {
		return nil, errors.Join(fmt.Errorf("stream %q is not configured", o.Stream), r.release())
	}
	if c.once != nil {
		return r, nil
	}
	err := r.release()
	r.read.Store(0)
	return r, err
}

// readHead opens the content and finds what it is and where its records begin.
func (r *reader) readHead(form Form) error {
	if err := r.open(); err != nil {
		return err
	}
	for r.cut.w < headSize && !r.atEnd {
		if err := r.fill(); err != nil {
			return err
		}
	}
	r.head = bytes.Clone(r.cut.buf[:min(r.cut.w, headSize)])
	if len(r.head) == 0 {
		return errEmpty
	}
	if bytes.HasPrefix(r.head, bom) {
		r.cut.take(len(bom))
	}
	if comma, ok := form.comma(r.content.name()); ok {
		r.cut.format.Comma, r.cut.format.Columns = comma, []string{}
		row, _, err := r.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("header: %w", err)
		}
		c := csv.NewReader(bytes.NewReader(row))
		c.Comma = rune(comma)
		c.LazyQuotes = true
		names, err := c.Read()
		if err != nil {
			return fmt.Errorf("header: %w", err)
		}
		r.cut.format.Columns = names
	}
	r.body = r.cut.at
	return nil
}

// Partition implements [source.Reader].
func (r *reader) Partition() *cep.Partition { return r.partition }

// Name implements [source.Reader].
func (r *reader) Name() string { return r.content.name() }

// Format implements [source.Reader].
func (r *reader) Format() source.Format { return r.cut.format }

// Progress implements [source.Reader].
func (r *reader) Progress() (read, total int64) { return r.read.Load(), r.total.Load() }

// Next implements [source.Reader].
func (r *reader) Next(ctx context.Context) (source.Record, error) {
	if err := ctx.Err(); err != nil {
		return source.Record{}, err
	}
	if r.end != nil {
		return source.Record{}, r.end
	}
	if r.stream == nil {
		if err := r.SeekTo(0); err != nil {
			return source.Record{}, r.fail(err)
		}
	}
	data, start, err := r.next()
	switch {
	case errors.Is(err, source.ErrTooLarge):
		return source.Record{}, tooLarge(r.partition, start, r.cut.max)
	case err != nil:
		return source.Record{}, r.fail(err)
	}
	return source.Record{Data: data, Offset: start}, nil
}

// tooLarge is the error of a record that is above the limit.
func tooLarge(p *cep.Partition, offset int64, limit int) *source.RecordError {
	return &source.RecordError{
		Position: cep.Position{Partition: p, Offset: offset},
		Err:      fmt.Errorf("%w: more than %d bytes", source.ErrTooLarge, limit),
	}
}

// next cuts the next record, reading what it takes.
func (r *reader) next() (data []byte, start int64, err error) {
	for {
		data, start, err = r.cut.next(r.atEnd)
		if start < r.from && (err == nil || errors.Is(err, source.ErrTooLarge)) {
			continue
		}
		if !errors.Is(err, errMore) {
			return data, start, err
		}
		if err := r.fill(); err != nil {
			return nil, start, err
		}
	}
}

// fill reads on.
func (r *reader) fill() error {
	n, err := r.stream.Read(r.cut.space())
	r.cut.put(n)
	if errors.Is(err, io.EOF) {
		r.atEnd = true
		return nil
	}
	if n > 0 {
		return nil // what was read stands; the error comes again
	}
	return err
}

// fail makes err the end of the partition.
func (r *reader) fail(err error) error {
	if r.end = io.EOF; !errors.Is(err, io.EOF) {
		r.end = fmt.Errorf("read %s at byte %d: %w", r.content.name(), r.cut.at, err)
	}
	if r.content.once == nil {
		_ = r.release() // it was only read
	}
	return r.end
}

// SeekTo implements [source.Reader].
func (r *reader) SeekTo(offset int64) error {
	offset = max(offset, r.body)
	near := offset
	if offset > r.body {
		near-- // a line that begins before the offset is dropped, and the end of one is nothing
	}
	if r.stream != nil && near >= r.cut.at {
		r.end = nil
		r.cut.dropped, r.cut.rowAt = noOffset, noOffset
		r.from = offset
		return r.discard(near - r.cut.at)
	}
	if r.content.once != nil && offset != r.cut.at {
		return fmt.Errorf("seek to %d in %s: %w", offset, r.content.name(), source.ErrNotSeekable)
	}
	r.end, r.from = nil, offset
	if r.content.once != nil {
		return nil
	}
	if err := errors.Join(r.release(), r.open()); err != nil {
		return err
	}
	return r.skipTo(near)
}

// skipTo goes from the start of an open content to an offset.
func (r *reader) skipTo(offset int64) error {
	if r.stream.file == nil {
		return r.discard(offset)
	}
	if _, err := r.stream.file.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	r.stream.Reader = &counter{r.stream.file, &r.read}
	r.read.Store(offset)
	r.cut.reset(offset)
	return nil
}

// discard goes on by n bytes; behind the end there is nothing, which the next Next will say.
func (r *reader) discard(n int64) error {
	for {
		if n -= r.cut.skip(n); n == 0 || r.atEnd {
			return nil
		}
		if err := r.fill(); err != nil {
			return err
		}
	}
}

func (r *reader) open() (err error) {
	if r.stream, err = r.content.open(&r.read, &r.total); err != nil {
		return err
	}
	r.atEnd = false
	r.cut.reset(0)
	return nil
}

// release closes the content. What was learnt about it stays.
func (r *reader) release() error {
	if r.stream == nil {
		return nil
	}
	err := r.stream.close()
	r.stream, r.cut.buf, r.cut.row = nil, nil, nil
	r.cut.forget()
	return err
}

// Close implements [source.Reader].
func (r *reader) Close() error {
	r.end = errClosed
	return r.release()
}

var errClosed = errors.New("reader is closed")
