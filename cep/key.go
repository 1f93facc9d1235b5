package cep

import (
	"encoding/binary"
	"errors"
	"math"
)

// Key is the key of a rule's state: its parts in the canonical encoding of [AppendKeyPart], so that equal keys are equal
// strings. The empty Key is the one key of a rule without `by`. Keys order by their bytes.
type Key string

// ErrKey says that bytes are no key: a snapshot or a caller is damaged.
var ErrKey = errors.New("malformed key")

// Tags of the encoding. A part is its tag and payload; numbers are equal where their values are: an integral float
// inside int64 is written as an int.
const (
	keyInt    = 'i' // 8 bytes, big endian, sign bit flipped: bytes order as the numbers do
	keyFloat  = 'f' // 8 bytes of IEEE 754
	keyString = 's' // uvarint length, bytes
	keyBool   = 'b' // 1 byte
	keyTime   = 't' // as keyInt
	keySpan   = 'd' // as keyInt
)

// AppendKeyPart appends v as one part of a key. ok is false, and nothing is appended, for a value that is no key part:
// missing, null, "", NaN, a list, an object.
func AppendKeyPart(dst []byte, v Value) (_ []byte, ok bool) {
	switch v.kind {
	case KindInt:
		return appendKeyInt(dst, keyInt, int64(v.num)), true
	case KindTime:
		return appendKeyInt(dst, keyTime, int64(v.num)), true
	case KindDuration:
		return appendKeyInt(dst, keySpan, int64(v.num)), true
	case KindFloat:
		f := v.AsFloat()
		if f != f {
			return dst, false
		}
		if f == math.Trunc(f) && f >= -1<<63 && f < 1<<63 {
			return appendKeyInt(dst, keyInt, int64(f)), true
		}
		return binary.BigEndian.AppendUint64(append(dst, keyFloat), v.num), true
	case KindString:
		s := v.AsString()
		if s == "" {
			return dst, false
		}
		dst = binary.AppendUvarint(append(dst, keyString), uint64(len(s)))
		return append(dst, s...), true
	case KindBool:
		return append(dst, keyBool, byte(v.num)), true
	default:
		return dst, false
	}
}

func appendKeyInt(dst []byte, tag byte, i int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, tag), uint64(i)^1<<63)
}

// KeyOf returns the key of the parts; ok is false where one of them is no key part.
func KeyOf(parts ...Value) (_ Key, ok bool) {
	var b []byte
	for _, p := range parts {
		if b, ok = AppendKeyPart(b, p); !ok {
			return "", false
		}
	}
	return Key(b), true
}

// Parts decodes the key.
func (k Key) Parts() ([]Value, error) {
	var parts []Value
	for len(k) > 0 {
		tag := k[0]
		k = k[1:]
		switch tag {
		case keyInt, keyTime, keySpan, keyFloat:
			if len(k) < 8 {
				return nil, ErrKey
			}
			u := binary.BigEndian.Uint64([]byte(k[:8]))
			switch tag {
			case keyInt:
				parts = append(parts, Int(int64(u^1<<63)))
			case keyTime:
				parts = append(parts, TimeValue(Time(u^1<<63)))
			case keySpan:
				parts = append(parts, DurationValue(Duration(u^1<<63)))
			default:
				parts = append(parts, Value{kind: KindFloat, num: u})
			}
			k = k[8:]
		case keyString:
			n, w := binary.Uvarint([]byte(k[:min(len(k), binary.MaxVarintLen64)]))
			if w <= 0 || n == 0 || n > uint64(len(k)-w) {
				return nil, ErrKey
			}
			parts = append(parts, String(string(k[w:w+int(n)])))
			k = k[w+int(n):]
		case keyBool:
			if len(k) < 1 || k[0] > 1 {
				return nil, ErrKey
			}
			parts = append(parts, Bool(k[0] == 1))
			k = k[1:]
		default:
			return nil, ErrKey
		}
	}
	return parts, nil
}
