package nfa

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cepd/cepd/cep"
)

// The primitives of the snapshot. docs/format/snapshot.md draws the whole.
//
//	uint    = uvarint
//	int     = zigzag varint
//	string  = uint length, bytes
//	value   = kind byte, payload: bool byte | int | float 8 bytes big endian | string |
//	          list: uint count, values | object: uint count, (string name, value)s

// ErrSnapshot says that bytes are no snapshot that this version can read: damaged, of a newer version, or of another
// program. The state was not touched; the caller has to fall back to an older snapshot or to start without one.
var ErrSnapshot = errors.New("unreadable snapshot")

func appendInt(dst []byte, i int64) []byte { return binary.AppendVarint(dst, i) }

func appendUint(dst []byte, u uint64) []byte { return binary.AppendUvarint(dst, u) }

func appendString[T ~string | ~[]byte](dst []byte, s T) []byte {
	return append(appendUint(dst, uint64(len(s))), s...)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendValue(dst []byte, v cep.Value) []byte {
	dst = append(dst, byte(v.Kind()))
	switch v.Kind() {
	case cep.KindBool:
		dst = appendBool(dst, v.AsBool())
	case cep.KindInt, cep.KindTime, cep.KindDuration:
		dst = appendInt(dst, v.AsInt())
	case cep.KindFloat:
		dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(v.AsFloat()))
	case cep.KindString:
		dst = appendString(dst, v.AsString())
	case cep.KindList:
		dst = appendUint(dst, uint64(len(v.AsList())))
		for _, x := range v.AsList() {
			dst = appendValue(dst, x)
		}
	case cep.KindObject:
		dst = appendUint(dst, uint64(len(v.AsObject())))
		for _, x := range v.AsObject() {
			dst = appendValue(appendString(dst, x.Name), x.Value)
		}
	case cep.KindMissing, cep.KindNull:
	}
	return dst
}

// reader takes a snapshot apart. After its first error everything it returns is zero, so that callers look at err once for
// each thing that they build.
type reader struct {
	data []byte
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrSnapshot, fmt.Sprintf(format, args...))
		r.data = nil
	}
}

// check fails unless ok.
func (r *reader) check(ok bool, what string) {
	if !ok {
		r.fail("%s", what)
	}
}

func (r *reader) uint() uint64 {
	u, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.fail("number cut off")
		return 0
	}
	r.data = r.data[n:]
	return u
}

func (r *reader) int() int64 {
	i, n := binary.Varint(r.data)
	if n <= 0 {
		r.fail("number cut off")
		return 0
	}
	r.data = r.data[n:]
	return i
}

// count reads how many things follow that take at least size bytes each. It is checked against what is left before anybody
// allocates for it.
func (r *reader) count(size int) int {
	u := r.uint()
	if u > uint64(len(r.data)/size) {
		r.fail("%d things in %d bytes", u, len(r.data))
		return 0
	}
	return int(u)
}

// index reads a number below n.
func (r *reader) index(n int, what string) int {
	u := r.uint()
	if r.err == nil && u >= uint64(n) {
		r.fail("%s %d of %d", what, u, n)
	}
	if r.err != nil {
		return 0
	}
	return int(u)
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.data) {
		r.fail("%d bytes of %d", n, len(r.data))
		return nil
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) bool() bool {
	b := r.byte()
	r.check(b <= 1, "a truth value that is neither 0 nor 1")
	return b == 1
}

func (r *reader) string() string { return string(r.bytes(r.count(1))) }

// valueDepth is deeper than any event: decoders refuse those first.
const valueDepth = 128

func (r *reader) value(depth int) cep.Value {
	if depth > valueDepth {
		r.fail("value nested deeper than %d", valueDepth)
		return cep.Value{}
	}
	switch k := cep.Kind(r.byte()); k {
	case cep.KindMissing:
		return cep.Value{}
	case cep.KindNull:
		return cep.Null
	case cep.KindBool:
		return cep.Bool(r.bool())
	case cep.KindInt:
		return cep.Int(r.int())
	case cep.KindTime:
		return cep.TimeValue(cep.Time(r.int()))
	case cep.KindDuration:
		return cep.DurationValue(cep.Duration(r.int()))
	case cep.KindFloat:
		if b := r.bytes(8); len(b) == 8 {
			return cep.Float(math.Float64frombits(binary.BigEndian.Uint64(b)))
		}
		return cep.Value{}
	case cep.KindString:
		return cep.String(r.string())
	case cep.KindList:
		var l []cep.Value
		for range r.count(1) {
			l = append(l, r.value(depth+1))
		}
		return cep.List(l)
	case cep.KindObject:
		var l []cep.Member
		for range r.count(2) {
			l = append(l, cep.Member{Name: r.string(), Value: r.value(depth + 1)})
		}
		return cep.Object(l)
	default:
		r.fail("value of the unknown kind %d", k)
		return cep.Value{}
	}
}
