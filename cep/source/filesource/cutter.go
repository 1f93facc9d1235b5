package filesource

import (
	"bytes"
	"errors"
	"io"

	"github.com/cepd/cepd/cep/source"
)

// errMore says that a record is not complete in what has been read so far.
var errMore = errors.New("more has to be read")

// noOffset stands where there is no offset.
const noOffset = -1

// cutter cuts what is read into records: lines, or rows of delimited fields. It knows no file: bytes are put into space,
// and next takes records out.
type cutter struct {
	format source.Format
	// max is the size of a record in bytes above which it is dropped.
	max int

	// buf[r:w] has been read and not cut; at is the offset of buf[r]. The first seen bytes of it hold no line end.
	buf  []byte
	r, w int
	at   int64
	seen int

	// dropped is where the line began that is too large and whose end has not been seen yet.
	dropped int64
	// row is a row of which a quote is still open; it began at rowAt.
	row   []byte
	rowAt int64
}

func newCutter(f source.Format, maxRecord int) cutter {
	return cutter{format: f, max: maxRecord, dropped: noOffset, rowAt: noOffset}
}

// readAt is the offset of what has to be read next.
func (c *cutter) readAt() int64 { return c.at + int64(c.w-c.r) }

// space returns room for at least half of readSize. What next returned before is overwritten.
func (c *cutter) space() []byte {
	if c.r > 0 {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	}
	if len(c.buf)-c.w < readSize/2 {
		b := make([]byte, max(readSize, 2*len(c.buf))) // at most twice the limit: above it nothing is kept
		copy(b, c.buf[:c.w])
		c.buf = b
	}
	return c.buf[c.w:]
}

// put says that so many bytes of space have been filled.
func (c *cutter) put(n int) { c.w += n }

// reset goes to an offset. What was read is forgotten.
func (c *cutter) reset(offset int64) {
	c.forget()
	c.at, c.dropped, c.rowAt = offset, noOffset, noOffset
	c.row = c.row[:0]
}

// forget gives up what was read and not cut: it is read again. What was learnt of a record that has begun stays.
func (c *cutter) forget() { c.r, c.w, c.seen = 0, 0, 0 }

// skip drops up to n bytes that were read, and returns how many.
func (c *cutter) skip(n int64) int64 {
	k := int(min(n, int64(c.w-c.r)))
	c.take(k)
	return int64(k)
}

func (c *cutter) take(n int) {
	c.r += n
	c.at += int64(n)
	c.seen = 0
}

// next returns the next record and its offset. It is errMore where more has to be read; end says that there is no more,
// and then a last line without an end is a record, and io.EOF comes behind it. Blank lines are nothing. A record above the
// limit is source.ErrTooLarge, once.
func (c *cutter) next(end bool) (data []byte, start int64, err error) {
	for {
		start = c.at
		if c.dropped != noOffset {
			start = c.dropped
		}
		line, err := c.line(end)
		switch {
		case errors.Is(err, io.EOF) && c.rowAt != noOffset:
			data, start = c.row, c.rowAt // the decoder says what is wrong with it
			c.rowAt = noOffset
			return data, start, nil
		case err != nil:
			if c.rowAt != noOffset && !errors.Is(err, errMore) {
				start, c.rowAt = c.rowAt, noOffset
			}
			return nil, start, err
		case c.rowAt != noOffset:
			if data, start, err = c.joined(line); data != nil || err != nil {
				return data, start, err
			}
		case c.format.Delimited() && len(line) > 0 && quoteOpen(line, c.format.Comma, false):
			c.row, c.rowAt = append(c.row[:0], line...), start
		case len(bytes.TrimSpace(line)) > 0:
			return line, start, nil
		}
	}
}

// joined adds a line to the open row, and returns the row if it is complete.
func (c *cutter) joined(line []byte) (data []byte, start int64, err error) {
	start = c.rowAt
	if len(c.row)+len(line) >= c.max {
		c.rowAt = noOffset
		return nil, start, source.ErrTooLarge
	}
	c.row = append(append(c.row, '\n'), line...)
	if quoteOpen(line, c.format.Comma, true) {
		return nil, start, nil
	}
	c.rowAt = noOffset
	return c.row, start, nil
}

// line returns the next line without its end.
func (c *cutter) line(end bool) ([]byte, error) {
	b := c.buf[c.r:c.w]
	i := bytes.IndexByte(b[c.seen:], '\n')
	switch {
	case i >= 0:
		b = b[:c.seen+i+1]
	case !end:
		if c.seen = len(b); len(b) > c.max+2 { // with its end
			if c.dropped == noOffset {
				c.dropped = c.at
			}
			c.take(len(b))
		}
		return nil, errMore
	case len(b) == 0 && c.dropped == noOffset:
		return nil, io.EOF
	}
	c.take(len(b))
	b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte{'\n'}), []byte{'\r'})
	if c.dropped != noOffset || len(b) > c.max {
		c.dropped = noOffset
		return nil, source.ErrTooLarge
	}
	return b, nil
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
