package eventlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cepd/cepd/cep/source"
)

// The layout is drawn in docs/format/eventlog.md. All numbers are big endian; checksums are CRC-32C.
const (
	magic      = "cepd-evl"
	version    = 1
	headerSize = 56
	// frameSize is what a record has beside its id and its data.
	frameSize = 32
	// bodyMin is what lies behind the checksums at least: number, time of arrival, kind, length of the id.
	bodyMin = 18
	// readSize is how much is read at once.
	readSize = 64 << 10
)

// mark begins every record, so that the next one is found quickly behind damage: two bytes that no UTF-8 text holds.
var mark = []byte{0xce, 0xff}

// RecordMax is the size of an event in bytes above which it is not taken: sixteen times what a decoder takes by default,
// so that raising its limit does not meet this one first.
const RecordMax = 16 * source.MaxRecord

// IDMax is the length of an id in bytes above which it is not taken: it has one byte for its length.
const IDMax = 255

// kind is what a record is.
type kind byte

const (
	kindEvent kind = iota
	// kindLarge stands for an event that was too large to be taken; its data is the beginning of it.
	kindLarge
	kinds
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header begins a segment.
type header struct {
	// name is the number that the partition is called by; 0: no job has named it yet.
	name uint32
	// base is the offset of the first record, number its number; before is where the records of the segment before end.
	base   int64
	before int64
	number uint64
	// salt goes into every checksum, so that no client can send what looks like a record.
	salt uint64
}

func (h header) append(b []byte) []byte {
	n := len(b)
	b = append(b, magic...)
	b = append(b, version, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, h.name)
	b = binary.BigEndian.AppendUint64(b, uint64(h.base))
	b = binary.BigEndian.AppendUint64(b, uint64(h.before))
	b = binary.BigEndian.AppendUint64(b, h.number)
	b = binary.BigEndian.AppendUint64(b, h.salt)
	b = append(b, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[n:], castagnoli))
}

var (
	errHeader = errors.New("its header is damaged")
	errNewer  = errors.New("it was written by a newer version of cepd")
)

func readHeader(b []byte) (h header, err error) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic {
		return h, errHeader
	}
	b = b[:headerSize]
	if b[8] > version {
		return h, fmt.Errorf("%w (format %d; this one knows %d)", errNewer, b[8], version)
	}
	if crc32.Checksum(b[:headerSize-4], castagnoli) != binary.BigEndian.Uint32(b[headerSize-4:]) {
		return h, errHeader
	}
	h = header{
		name: binary.BigEndian.Uint32(b[12:]), base: int64(binary.BigEndian.Uint64(b[16:])),
		before: int64(binary.BigEndian.Uint64(b[24:])), number: binary.BigEndian.Uint64(b[32:]), salt: binary.BigEndian.Uint64(b[40:]),
	}
	if h.base < 0 || h.before > h.base || h.before < 0 {
		return h, errHeader
	}
	return h, nil
}

// record is one event on disk. Its slices are lent.
type record struct {
	offset  int64
	next    int64 // the offset behind it
	number  uint64
	arrived int64 // nanoseconds since 1970
	kind    kind
	id      []byte
	data    []byte
}

// appendFrame appends a record without what is known only when it is written: number and checksums, which seal fills in.
func appendFrame(b []byte, arrived int64, k kind, id string, data []byte) []byte {
	b = append(b, mark...)
	b = binary.BigEndian.AppendUint32(b, uint32(bodyMin+len(id)+len(data)))
	b = append(b, make([]byte, 4+4+8)...)
	b = binary.BigEndian.AppendUint64(b, uint64(arrived))
	b = append(b, byte(k), byte(len(id)))
	b = append(b, id...)
	return append(b, data...)
}

// seal numbers the frames in b, whose first one gets this offset, and fills in their checksums.
func seal(b []byte, salt uint64, offset int64, number uint64) {
	for len(b) > 0 {
		n := frameSize - bodyMin + int(binary.BigEndian.Uint32(b[2:]))
		binary.BigEndian.PutUint64(b[14:], number)
		first, whole := checksums(b[:n], salt, offset)
		binary.BigEndian.PutUint32(b[6:], first)
		binary.BigEndian.PutUint32(b[10:], whole)
		b = b[n:]
		offset += int64(n)
		number++
	}
}

// checksums returns those over the length and over the body of a frame. Salt and offset are in both, so that a record
// counts only where it was written.
func checksums(frame []byte, salt uint64, offset int64) (first, whole uint32) {
	var place [16]byte
	binary.BigEndian.PutUint64(place[:], salt)
	binary.BigEndian.PutUint64(place[8:], uint64(offset))
	first = crc32.Update(crc32.Checksum(place[:], castagnoli), castagnoli, frame[2:6])
	if len(frame) > 14 {
		whole = crc32.Update(first, castagnoli, frame[14:])
	}
	return first, whole
}

// gap is a stretch of a segment that is no record.
type gap struct{ from, to int64 }

func (g *gap) Error() string {
	return fmt.Sprintf("%d bytes at offset %d are no records", g.to-g.from, g.from)
}

// scanner reads the records of one segment.
type scanner struct {
	file io.ReaderAt
	head header
	// at is the offset that is read next, limit the one behind the last record.
	at, limit int64

	buf   []byte
	bufAt int64
}

// next returns the next record; io.EOF at the limit; a *gap where there is none, and the call after that goes on behind it;
// or the error of the file. What is lent is valid until the next call.
func (s *scanner) next() (record, error) {
	if s.at >= s.limit {
		return record{}, io.EOF
	}
	r, err := s.parse(s.at)
	switch {
	case err == nil:
		s.at = r.next
		return r, nil
	case !errors.Is(err, errFrame):
		return record{}, err
	}
	from := s.at
	if s.at, err = s.find(from + 1); err != nil {
		s.at = from
		return record{}, err
	}
	return record{}, &gap{from, s.at}
}

var errFrame = errors.New("no record")

// parse reads the record at an offset.
func (s *scanner) parse(at int64) (r record, err error) {
	b, err := s.window(at, frameSize)
	if err != nil {
		return r, err
	}
	if len(b) < frameSize || !bytes.HasPrefix(b, mark) {
		return r, errFrame
	}
	length := int64(binary.BigEndian.Uint32(b[2:]))
	first, _ := checksums(b[:6], s.head.salt, at)
	if first != binary.BigEndian.Uint32(b[6:]) || length < bodyMin || length > bodyMin+IDMax+RecordMax {
		return r, errFrame
	}
	size := frameSize - bodyMin + length
	if b, err = s.window(at, int(size)); err != nil {
		return r, err
	}
	if int64(len(b)) < size {
		return r, errFrame
	}
	b = b[:size]
	if _, whole := checksums(b, s.head.salt, at); whole != binary.BigEndian.Uint32(b[10:]) {
		return r, errFrame
	}
	k, id := kind(b[30]), int64(b[31])
	if k >= kinds || id > length-bodyMin {
		return r, errFrame
	}
	return record{
		offset: at, next: at + size, number: binary.BigEndian.Uint64(b[14:]), arrived: int64(binary.BigEndian.Uint64(b[22:])),
		kind: k, id: b[frameSize : frameSize+id], data: b[frameSize+id:],
	}, nil
}

// find returns the offset of the next record from an offset on; the limit if there is none.
func (s *scanner) find(at int64) (int64, error) {
	for at < s.limit {
		b, err := s.window(at, frameSize)
		if err != nil {
			return 0, err
		}
		i := bytes.Index(b, mark)
		switch {
		case i < 0 && len(b) < frameSize:
			return s.limit, nil
		case i < 0:
			at += int64(len(b) - 1) // the mark may begin with the last byte
			continue
		}
		at += int64(i)
		if _, err := s.parse(at); err == nil {
			return at, nil
		} else if !errors.Is(err, errFrame) {
			return 0, err
		}
		at++
	}
	return s.limit, nil
}

// window returns what is there from an offset on: at least n bytes where there are so many before the limit.
func (s *scanner) window(at int64, n int) ([]byte, error) {
	n = int(min(int64(n), s.limit-at))
	if i := at - s.bufAt; i >= 0 && i+int64(n) <= int64(len(s.buf)) {
		return s.buf[i:], nil
	}
	size := int(min(int64(max(n, readSize)), s.limit-at))
	if cap(s.buf) < size || cap(s.buf) > 4*readSize && size <= readSize {
		s.buf = make([]byte, size)
	}
	s.buf, s.bufAt = s.buf[:size], at
	k, err := s.file.ReadAt(s.buf, headerSize+at-s.head.base)
	s.buf = s.buf[:k]
	if err != nil && !errors.Is(err, io.EOF) {
		s.buf = s.buf[:0]
		return nil, err
	}
	return s.buf, nil // shorter where the file is
}
