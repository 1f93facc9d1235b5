package alert

import (
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/cepd/cepd/cep"
)

// TitleMax is the length of a title in bytes above which it is cut: a mail subject is folded at 998, and chat messages show
// a few hundred.
const TitleMax = 1000

// appendTitleValue appends a value as people read it: strings without quotes, a missing value as "?", all else as JSON.
func appendTitleValue(dst []byte, v cep.Value) []byte {
	switch v.Kind() {
	case cep.KindMissing, cep.KindNull:
		return append(dst, '?')
	case cep.KindString:
		return appendLine(dst, v.AsString())
	case cep.KindFloat: // JSON has no word for infinities, and people need no ".0"
		return strconv.AppendFloat(dst, v.AsFloat(), 'g', -1, 64)
	case cep.KindTime, cep.KindDuration:
		b := cep.AppendJSON(nil, v)
		return append(dst, b[1:len(b)-1]...)
	default:
		return appendLine(dst, string(cep.AppendJSON(nil, v)))
	}
}

// appendLine appends text so that it stays on one line and cannot steer a terminal or forge a log entry: control and
// formatting characters (line ends, escapes, changes of direction) are written as escapes, bytes that are no UTF-8 as
// U+FFFD.
func appendLine(dst []byte, s string) []byte {
	for _, r := range s {
		switch {
		case r >= ' ' && r < 0x7f:
			dst = append(dst, byte(r))
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r):
			q := strconv.AppendQuoteRuneToASCII(nil, r)
			dst = append(dst, q[1:len(q)-1]...)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

// cut shortens b to at most n bytes, at a whole character, and says so.
func cut(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	const mark = "…"
	n -= len(mark)
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return append(b[:n], mark...)
}
