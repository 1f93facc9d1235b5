package filesource

import (
	"bufio"
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

// reader reads one content.
type reader struct {
	content   content
	partition *cep.Partition
	format    source.Format
	maxRecord int
	// body is where the records begin: behind a byte order mark and the header.
	body int64

	read, total atomic.Int64

	stream *stream
	lines  *bufio.Reader
	// at is the offset of what lines gives next.
	at   int64
	long []byte // records that are not in one piece in the buffer of lines
	// end is what Next returns from now on: io.EOF or what broke the content.
	end error
}

// newReader reads the head of a content. What can be read once only stays open from here on.
func newReader(c content, o Config) (*reader, error) {
	r := &reader{content: c, maxRecord: o.MaxRecord}
	r.total.Store(-1)
	if err := r.open(); err != nil {
		return nil, err
	}
	head, err := r.lines.Peek(headSize)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, errors.Join(err, r.release())
	case len(head) == 0:
		return nil, errors.Join(errEmpty, r.release())
	}
	sum := sha256.Sum256(head)
	if r.partition = o.Partitions.Get(o.Stream, hex.EncodeToString(sum[:nameSize])); r.partition == nil {
		return nil, errors.Join(fmt.Errorf("stream %q is not configured", o.Stream), r.release())
	}
	if err := r.readHeader(o.Form); err != nil {
		return nil, errors.Join(err, r.release())
	}
	if c.once != nil {
		return r, nil
	}
	err = r.release()
	r.read.Store(0)
	return r, err
}

// readHeader finds where the records begin.
func (r *reader) readHeader(form Form) error {
	if err := r.skipMark(); err != nil {
		return err
	}
	if comma, ok := form.comma(r.content.name()); ok {
		row, _, err := r.row(comma)
		if err != nil {
			return fmt.Errorf("header: %w", err)
		}
		c := csv.NewReader(bytes.NewReader(row))
		c.Comma = rune(comma)
		c.LazyQuotes = true
		names, err := c.Read()
		if err != nil {
			return fmt.Errorf("header: %w", err)
		}
		r.format = source.Format{Columns: names, Comma: comma}
	}
	r.body = r.at
	return nil
}

func (r *reader) skipMark() error {
	head, err := r.lines.Peek(len(bom))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.Equal(head, bom) {
		return r.discard(int64(len(bom)))
	}
	return nil
}

// Partition implements [source.Reader].
func (r *reader) Partition() *cep.Partition { return r.partition }

// Name implements [source.Reader].
func (r *reader) Name() string { return r.content.name() }

// Format implements [source.Reader].
func (r *reader) Format() source.Format { return r.format }

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
	for {
		start := r.at
		var data []byte
		var err error
		if r.format.Delimited() {
			data, start, err = r.row(r.format.Comma)
		} else {
			data, err = r.line()
		}
		switch {
		case errors.Is(err, source.ErrTooLarge):
			return source.Record{}, &source.RecordError{
				Position: cep.Position{Partition: r.partition, Offset: start},
				Err:      fmt.Errorf("%w: more than %d bytes", err, r.maxRecord),
			}
		case err != nil:
			return source.Record{}, r.fail(err)
		case len(bytes.TrimSpace(data)) > 0:
			return source.Record{Data: data, Offset: start}, nil
		}
	}
}

// fail makes err the end of the partition.
func (r *reader) fail(err error) error {
	if r.end = io.EOF; !errors.Is(err, io.EOF) {
		r.end = fmt.Errorf("read %s at byte %d: %w", r.content.name(), r.at, err)
	}
	if r.content.once == nil {
		_ = r.release() // it was only read
	}
	return r.end
}

// line returns the next line without its end; io.EOF only where nothing is left. A last line without an end is a line.
func (r *reader) line() ([]byte, error) {
	b, err := r.lines.ReadSlice('\n')
	r.at += int64(len(b))
	if errors.Is(err, bufio.ErrBufferFull) {
		b, err = r.longLine(b)
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(b) == 0) {
		return nil, err
	}
	b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte{'\n'}), []byte{'\r'})
	if len(b) > r.maxRecord {
		return nil, source.ErrTooLarge
	}
	return b, nil
}

// longLine goes on with a line that does not fit into the buffer. What is above the limit is read and forgotten.
func (r *reader) longLine(b []byte) ([]byte, error) {
	r.long = append(r.long[:0], b...)
	tooLarge := false
	for {
		b, err := r.lines.ReadSlice('\n')
		r.at += int64(len(b))
		if len(r.long)+len(b) > r.maxRecord+2 { // with its end
			tooLarge = true
		}
		if !tooLarge {
			r.long = append(r.long, b...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case tooLarge && (err == nil || errors.Is(err, io.EOF)):
			return nil, source.ErrTooLarge
		default:
			return r.long, err
		}
	}
}

// row returns the next row of delimited fields and where it begins: a line, and those after it while a quote is open.
// Blank lines in front are skipped.
func (r *reader) row(comma byte) (data []byte, start int64, err error) {
	for {
		start = r.at
		if data, err = r.line(); err != nil || len(data) > 0 {
			break
		}
	}
	if err != nil || !quoteOpen(data, comma, false) {
		return data, start, err
	}
	row := append([]byte(nil), data...)
	for {
		data, err = r.line()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return row, start, nil // the decoder says what is wrong with it
			}
			return nil, start, err
		}
		if len(row)+len(data) >= r.maxRecord {
			return nil, start, source.ErrTooLarge
		}
		row = append(append(row, '\n'), data...)
		if !quoteOpen(data, comma, true) {
			return row, start, nil
		}
	}
}

// quoteOpen reports whether a line ends inside a quoted field; quoted says that it also begins inside one. A quote opens
// a field only as its first byte.
func quoteOpen(line []byte, comma byte, quoted bool) bool {
	if bytes.IndexByte(line, '"') < 0 {
		return quoted
	}
	first := !quoted
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '"':
			if i+1 < len(line) && line[i+1] == '"' {
				i++
			} else {
				quoted = false
			}
		case quoted:
		case c == '"' && first:
			quoted, first = true, false
		default:
			first = c == comma
		}
	}
	return quoted
}

// SeekTo implements [source.Reader].
func (r *reader) SeekTo(offset int64) error {
	offset = max(offset, r.body)
	if r.stream != nil && offset >= r.at {
		r.end = nil
		return r.discard(offset - r.at)
	}
	if r.content.once != nil {
		return fmt.Errorf("seek to %d in %s: %w", offset, r.content.name(), source.ErrNotSeekable)
	}
	r.end = nil
	if err := errors.Join(r.release(), r.open()); err != nil {
		return err
	}
	return r.skipTo(offset)
}

// skipTo goes from the start of an open content to an offset.
func (r *reader) skipTo(offset int64) error {
	if r.stream.file == nil {
		return r.discard(offset)
	}
	if _, err := r.stream.file.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	r.lines.Reset(&counter{r.stream.file, &r.read})
	r.read.Store(offset)
	r.at = offset
	return nil
}

// discard goes on by n bytes; behind the end there is nothing, which the next Next will say.
func (r *reader) discard(n int64) error {
	for n > 0 {
		k, err := r.lines.Discard(int(min(n, 1<<30)))
		r.at += int64(k)
		n -= int64(k)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
	return nil
}

func (r *reader) open() (err error) {
	if r.stream, err = r.content.open(&r.read, &r.total); err != nil {
		return err
	}
	r.at = 0
	r.lines = bufio.NewReaderSize(r.stream, readSize)
	return nil
}

// release closes the content. What was learnt about it stays.
func (r *reader) release() error {
	if r.stream == nil {
		return nil
	}
	err := r.stream.close()
	r.stream, r.lines, r.long = nil, nil, nil
	return err
}

// Close implements [source.Reader].
func (r *reader) Close() error {
	r.end = errClosed
	return r.release()
}

var errClosed = errors.New("reader is closed")
