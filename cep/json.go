package cep

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends v as JSON. What JSON has no word for becomes: missing, NaN and infinities null; a time RFC 3339 in
// UTC; a duration the text of [FormatDuration]. Objects keep their order.
func AppendJSON(dst []byte, v Value) []byte {
	switch v.kind {
	case KindBool:
		return strconv.AppendBool(dst, v.num != 0)
	case KindInt:
		return strconv.AppendInt(dst, int64(v.num), 10)
	case KindFloat:
		return appendFloat(dst, v.AsFloat())
	case KindString:
		return AppendJSONString(dst, v.AsString())
	case KindTime:
		dst = append(dst, '"')
		dst = v.AsTime().Std().AppendFormat(dst, time.RFC3339Nano)
		return append(dst, '"')
	case KindDuration:
		dst = append(dst, '"')
		dst = append(dst, FormatDuration(Duration(v.num))...)
		return append(dst, '"')
	case KindList:
		dst = append(dst, '[')
		for i, x := range v.AsList() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, x)
		}
		return append(dst, ']')
	case KindObject:
		dst = append(dst, '{')
		for i, m := range v.AsObject() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSONString(dst, m.Name)
			dst = append(dst, ':')
			dst = AppendJSON(dst, m.Value)
		}
		return append(dst, '}')
	default:
		return append(dst, "null"...)
	}
}

// appendFloat writes floats as encoding/json does, but an integral one with ".0" so that it is read back as a float.
func appendFloat(dst []byte, f float64) []byte {
	if f != f || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	n := len(dst)
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	for _, c := range dst[n:] {
		if c == '.' || c == 'e' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

const hexDigits = "0123456789abcdef"

// AppendJSONString appends s as a JSON string. Bytes that are no UTF-8 become U+FFFD, control characters and the line
// separators U+2028 and U+2029 are escaped.
func AppendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, `\n`...)
			case '\r':
				dst = append(dst, `\r`...)
			case '\t':
				dst = append(dst, `\t`...)
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\ufffd"...)
			i++
			start = i
			continue
		}
		if r == '\u2028' || r == '\u2029' {
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[r&15])
			i += size
			start = i
			continue
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// FormatDuration writes d as rules do: 1h30m, 500ms. What is shorter than a millisecond follows in nanoseconds.
func FormatDuration(d Duration) string {
	if d == 0 {
		return "0s"
	}
	var b []byte
	u := uint64(d)
	if d < 0 {
		b = append(b, '-')
		u = -u
	}
	for _, unit := range []struct {
		name string
		size Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}, {"ns", 1}} {
		if n := u / uint64(unit.size); n > 0 {
			b = strconv.AppendUint(b, n, 10)
			b = append(b, unit.name...)
			u %= uint64(unit.size)
		}
	}
	return string(b)
}

// String formats v as JSON, for messages and tests.
func (v Value) String() string {
	if v.kind == KindMissing {
		return "missing"
	}
	return string(AppendJSON(nil, v))
}
