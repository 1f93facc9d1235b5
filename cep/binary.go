package cep

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The bytes of values and what stands around them in durable formats:
//
//	uint    = uvarint
//	int     = zigzag varint
//	text    = uint length, bytes
//	value   = kind byte, payload: bool byte | int | float 8 bytes big endian | text |
//	          list: uint count, values | object: uint count, (text name, value)s
//
// docs/format/state.md draws them. The numbers of the kinds are part of formats: new kinds go behind the last one.

// ErrBytes says that bytes are not what their reader expects: damaged, cut off, or never written by this program.
var ErrBytes = errors.New("malformed bytes")

// AppendText appends a text with its length.
func AppendText[T ~string | ~[]byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// AppendFlag appends a truth value.
func AppendFlag(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// AppendValue appends v so that [Reader.Value] gives the same value again: an int stays an int, an object keeps the order of
// its members.
func AppendValue(dst []byte, v Value) []byte {
	dst = append(dst, byte(v.kind))
	switch v.kind {
	case KindBool:
		dst = append(dst, byte(v.num))
	case KindInt, KindTime, KindDuration:
		dst = binary.AppendVarint(dst, int64(v.num))
	case KindFloat:
		dst = binary.BigEndian.AppendUint64(dst, v.num)
	case KindString:
		dst = AppendText(dst, v.AsString())
	case KindList:
		dst = binary.AppendUvarint(dst, uint64(len(v.AsList())))
		for _, x := range v.AsList() {
			dst = AppendValue(dst, x)
		}
	case KindObject:
		dst = binary.AppendUvarint(dst, uint64(len(v.AsObject())))
		for _, x := range v.AsObject() {
			dst = AppendValue(AppendText(dst, x.Name), x.Value)
		}
	case KindMissing, KindNull:
	}
	return dst
}

// Reader takes bytes apart. After its first error everything it returns is zero, so that callers look at [Reader.Err] once
// for each thing that they build. What it returns is a copy, but for [Reader.Bytes].
type Reader struct {
	data []byte
	err  error
}

// NewReader returns a reader of the bytes.
func NewReader(data []byte) Reader { return Reader{data: data} }

// Err returns the first error; it wraps [ErrBytes].
func (r *Reader) Err() error { return r.err }

// Left is the number of bytes that were not read yet.
func (r *Reader) Left() int { return len(r.data) }

// Fail makes the reader fail, unless it has.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrBytes, fmt.Sprintf(format, args...))
		r.data = nil
	}
}

// Check fails unless ok.
func (r *Reader) Check(ok bool, what string) {
	if !ok {
		r.Fail("%s", what)
	}
}

// End fails where bytes are left, and returns the first error.
func (r *Reader) End() error {
	r.Check(len(r.data) == 0, "bytes behind the end")
	return r.err
}

// Uint reads a uint.
func (r *Reader) Uint() uint64 {
	if len(r.data) > 0 && r.data[0] < 0x80 { // most are that short
		u := r.data[0]
		r.data = r.data[1:]
		return uint64(u)
	}
	return r.long()
}

func (r *Reader) long() uint64 {
	u, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.Fail("number cut off")
		return 0
	}
	r.data = r.data[n:]
	return u
}

// Int reads an int.
func (r *Reader) Int() int64 {
	u := r.Uint()
	return int64(u>>1) ^ -int64(u&1)
}

// Count reads how many things follow that take at least size bytes each. It is checked against what is left before anybody
// allocates for it.
func (r *Reader) Count(size int) int {
	u := r.Uint()
	if u > uint64(len(r.data)/size) {
		r.Fail("%d things in %d bytes", u, len(r.data))
		return 0
	}
	return int(u)
}

// Index reads a number below n.
func (r *Reader) Index(n int, what string) int {
	u := r.Uint()
	if r.err == nil && u >= uint64(n) {
		r.Fail("%s %d of %d", what, u, n)
	}
	if r.err != nil {
		return 0
	}
	return int(u)
}

// Bytes reads n bytes, without copying them.
func (r *Reader) Bytes(n int) []byte {
	if n > len(r.data) {
		r.Fail("%d bytes of %d", n, len(r.data))
		return nil
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

// Byte reads a byte.
func (r *Reader) Byte() byte {
	if b := r.Bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// Flag reads a truth value.
func (r *Reader) Flag() bool {
	b := r.Byte()
	r.Check(b <= 1, "a truth value that is neither 0 nor 1")
	return b == 1
}

// Text reads a text.
func (r *Reader) Text() string { return string(r.Bytes(r.Count(1))) }

// valueDepth is deeper than any event: decoders refuse those first.
const valueDepth = 128

// Value reads a value.
func (r *Reader) Value() Value { return r.value(0) }

func (r *Reader) value(depth int) Value {
	if depth > valueDepth {
		r.Fail("value nested deeper than %d", valueDepth)
		return Value{}
	}
	switch k := Kind(r.Byte()); k {
	case KindMissing:
		return Value{}
	case KindNull:
		return Null
	case KindBool:
		return Bool(r.Flag())
	case KindInt, KindTime, KindDuration:
		return Value{kind: k, num: uint64(r.Int())}
	case KindFloat:
		if b := r.Bytes(8); len(b) == 8 {
			return Float(math.Float64frombits(binary.BigEndian.Uint64(b)))
		}
		return Value{}
	case KindString:
		return String(r.Text())
	case KindList:
		var l []Value
		for range r.Count(1) {
			l = append(l, r.value(depth+1))
		}
		return List(l)
	case KindObject:
		var l []Member
		for range r.Count(2) {
			l = append(l, Member{Name: r.Text(), Value: r.value(depth + 1)})
		}
		return Object(l)
	default:
		r.Fail("value of the unknown kind %d", k)
		return Value{}
	}
}
