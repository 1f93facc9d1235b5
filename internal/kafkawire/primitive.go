package kafkawire

import (
	"encoding/binary"
	"errors"
	"math"
)

// All requests of this package are of the flexible kind (KIP-482): lengths are unsigned varints one above the length, 0 is
// null, and every structure ends with tagged fields.

// request is a body that is being written.
type request struct{ b []byte }

func (r *request) i8(v int8)       { r.b = append(r.b, byte(v)) }
func (r *request) i16(v int16)     { r.b = binary.BigEndian.AppendUint16(r.b, uint16(v)) }
func (r *request) i32(v int32)     { r.b = binary.BigEndian.AppendUint32(r.b, uint32(v)) }
func (r *request) i64(v int64)     { r.b = binary.BigEndian.AppendUint64(r.b, uint64(v)) }
func (r *request) length(n int)    { r.b = binary.AppendUvarint(r.b, uint64(n)+1) }
func (r *request) null()           { r.b = append(r.b, 0) }
func (r *request) noTags()         { r.b = append(r.b, 0) }
func (r *request) id(id TopicID)   { r.b = append(r.b, id[:]...) }
func (r *request) bytes(p []byte)  { r.length(len(p)); r.b = append(r.b, p...) }
func (r *request) string(s string) { r.length(len(s)); r.b = append(r.b, s...) }
func (r *request) boolean(v bool)  { r.i8(map[bool]int8{true: 1}[v]) }
func (r *request) list(n int)      { r.length(n) }

// partitions appends partitions by their topics.
func (r *request) partitions(of map[string][]int32) {
	r.list(len(of))
	for topic, partitions := range of {
		r.string(topic)
		r.list(len(partitions))
		for _, p := range partitions {
			r.i32(p)
		}
		r.noTags()
	}
}

var (
	errShort = errors.New("the answer ends too early")
	errLong  = errors.New("the answer holds more than was asked for")
)

// answer is a body that is being read. The first mistake sticks; what is read behind it is zero.
type answer struct {
	b   []byte
	err error
}

func (a *answer) stop(err error) {
	if a.err == nil {
		a.err = err
	}
	a.b = nil
}

// take returns the next n bytes, which are part of the body.
func (a *answer) take(n int) []byte {
	if n < 0 || n > len(a.b) {
		a.stop(errShort)
		return nil
	}
	p := a.b[:n:n]
	a.b = a.b[n:]
	return p
}

func (a *answer) i8() int8 {
	if p := a.take(1); p != nil {
		return int8(p[0])
	}
	return 0
}

func (a *answer) i16() int16 {
	if p := a.take(2); p != nil {
		return int16(binary.BigEndian.Uint16(p))
	}
	return 0
}

func (a *answer) i32() int32 {
	if p := a.take(4); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

func (a *answer) i64() int64 {
	if p := a.take(8); p != nil {
		return int64(binary.BigEndian.Uint64(p))
	}
	return 0
}

func (a *answer) id() (id TopicID) {
	copy(id[:], a.take(len(id)))
	return id
}

func (a *answer) uvarint() uint64 {
	v, n := binary.Uvarint(a.b)
	if n <= 0 {
		a.stop(errShort)
		return 0
	}
	a.b = a.b[n:]
	return v
}

// length returns the length of what follows; 0 for null too. Nothing takes less than a byte, so a length above what is left
// is a lie, and found before anything is allocated for it.
func (a *answer) length() int {
	v := a.uvarint()
	if v == 0 {
		return 0
	}
	if v-1 > uint64(min(len(a.b), math.MaxInt32)) {
		a.stop(errShort)
		return 0
	}
	return int(v - 1)
}

func (a *answer) bytes() []byte  { return a.take(a.length()) }
func (a *answer) string() string { return string(a.bytes()) }

// tags passes over tagged fields.
func (a *answer) tags() { a.tagged(nil) }

// tagged calls f with each tagged field.
func (a *answer) tagged(f func(tag uint64, field *answer)) {
	for n := a.uvarint(); n > 0 && a.err == nil; n-- {
		tag := a.uvarint()
		size := a.uvarint()
		if size > uint64(len(a.b)) {
			a.stop(errShort)
			return
		}
		field := answer{b: a.take(int(size))}
		if f != nil {
			f(tag, &field)
			if field.err != nil {
				a.stop(field.err)
			}
		}
	}
}

func (a *answer) skipInts() {
	n := a.length()
	a.take(4 * n)
}
