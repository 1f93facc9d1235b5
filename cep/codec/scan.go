package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/cepd/cepd/cep"
)

// scanner walks JSON text and checks all of it. Its methods take the place to begin at and return the place behind what
// they read, or -1 when they have set err.
type scanner struct {
	data []byte
	// high has a byte's top bit set where a string may hold bytes above ASCII, so that only such events pay for the check
	// of UTF-8.
	high uint64
	// scratch holds strings that had escapes.
	scratch []byte
	err     *Error
}

func (s *scanner) fail(kind ErrorKind, at int, detail string) int {
	if s.err == nil {
		s.err = &Error{kind, at, detail}
	}
	return -1
}

// unexpected fails at a place where something else was wanted.
func (s *scanner) unexpected(i int, wanted string) int {
	if i >= len(s.data) {
		return s.fail(BadJSON, i, "the text ends where "+wanted+" was expected")
	}
	return s.fail(BadJSON, i, fmt.Sprintf("%q where %s was expected", rune(s.data[i]), wanted))
}

func (s *scanner) space(i int) int {
	for i < len(s.data) && s.data[i] <= ' ' && (s.data[i] == ' ' || s.data[i] == '\n' || s.data[i] == '\t' || s.data[i] == '\r') {
		i++
	}
	return i
}

// at returns the byte at i, 0 behind the end: no byte that is looked for.
func (s *scanner) at(i int) byte {
	if i < len(s.data) {
		return s.data[i]
	}
	return 0
}

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// stringEnd returns the place of the quote that ends the string whose content begins at i. Eight bytes are looked at in
// one go (Lamport's and Mycroft's test for a byte in a word): the lowest byte that the test marks is marked rightly.
func (s *scanner) stringEnd(i int) (end int, escaped bool) {
	d := s.data
	for {
		i = s.plain(i)
		if i >= len(d) {
			return s.unexpected(i, "the end of a string"), false
		}
		switch d[i] {
		case '"':
			return i, escaped
		case '\\':
			escaped = true
			switch s.at(i + 1) {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				if _, ok := hex4(d, i+2); !ok {
					return s.fail(BadJSON, i, `\u without four hex digits`), false
				}
				i += 6
			default:
				return s.fail(BadJSON, i, "unknown escape"), false
			}
		default:
			return s.fail(BadJSON, i, "control character in a string"), false
		}
	}
}

// plain returns the next place from i that holds a quote, a backslash or a control character, or the end.
func (s *scanner) plain(i int) int {
	d := s.data
	for i+8 <= len(d) {
		w := binary.LittleEndian.Uint64(d[i:])
		s.high |= w
		q, b := w^('"'*lows), w^('\\'*lows)
		if m := ((q-lows)&^q | (b-lows)&^b | (w-0x20*lows)&^w) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for ; i < len(d); i++ {
		c := d[i]
		s.high |= uint64(c)
		if c == '"' || c == '\\' || c < 0x20 {
			return i
		}
	}
	return i
}

func hex4(d []byte, i int) (r rune, ok bool) {
	if i+4 > len(d) {
		return 0, false
	}
	for _, c := range d[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// text returns the content of a string, unescaped. It is lent.
func (s *scanner) text(from, end int, escaped bool) []byte {
	if !escaped {
		return s.data[from:end]
	}
	start := len(s.scratch)
	b := s.data[from:end]
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			break
		}
		s.scratch = append(s.scratch, b[:i]...)
		c := b[i+1]
		b = b[i+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, _ := hex4(b, 0)
			b = b[4:]
			if utf16.IsSurrogate(r) {
				r2, ok := rune(0), false
				if len(b) >= 6 && b[0] == '\\' && b[1] == 'u' {
					r2, ok = hex4(b, 2)
				}
				// Half a pair is U+FFFD, and what follows is read on its own.
				if r = utf16.DecodeRune(r, r2); ok && r != utf8.RuneError {
					b = b[6:]
				}
			}
			s.scratch = utf8.AppendRune(s.scratch, r)
			continue
		}
		s.scratch = append(s.scratch, c)
	}
	s.scratch = append(s.scratch, b...)
	return s.scratch[start:len(s.scratch):len(s.scratch)]
}

// skip reads a value that nobody wants.
func (s *scanner) skip(i, depth int) int {
	switch c := s.at(i); c {
	case '"':
		end, _ := s.stringEnd(i + 1)
		if end < 0 {
			return -1
		}
		return end + 1
	case '{', '[':
		return s.skipNested(i, depth+1)
	case 't', 'f', 'n':
		return s.literal(i)
	default:
		end, _ := scanNumber(s.data, i)
		if end < 0 {
			return s.unexpected(i, "a value")
		}
		return end
	}
}

func (s *scanner) skipNested(i, depth int) int {
	if depth > MaxDepth {
		return s.tooDeep(i)
	}
	object := s.data[i] == '{'
	end := byte(']')
	if object {
		end = '}'
	}
	i = s.space(i + 1)
	if s.at(i) == end {
		return i + 1
	}
	for {
		if object {
			if s.at(i) != '"' {
				return s.unexpected(i, "a name in quotes")
			}
			j, _ := s.stringEnd(i + 1)
			if j < 0 {
				return -1
			}
			if i = s.colon(j + 1); i < 0 {
				return -1
			}
		}
		if i = s.skip(i, depth); i < 0 {
			return -1
		}
		var more bool
		if i, more = s.comma(i, end); !more {
			return i
		}
	}
}

// colon reads the colon and the space on both sides of it.
func (s *scanner) colon(i int) int {
	i = s.space(i)
	if s.at(i) != ':' {
		return s.unexpected(i, "a colon")
	}
	return s.space(i + 1)
}

// comma reads what follows an entry: a comma and the space behind it, or the end of the object or list.
func (s *scanner) comma(i int, end byte) (_ int, more bool) {
	i = s.space(i)
	switch s.at(i) {
	case ',':
		return s.space(i + 1), true
	case end:
		return i + 1, false
	default:
		return s.unexpected(i, "a comma or the end"), false
	}
}

func (s *scanner) tooDeep(i int) int {
	return s.fail(TooDeep, i, fmt.Sprintf("nested deeper than %d", MaxDepth))
}

// literal reads true, false or null.
func (s *scanner) literal(i int) int {
	for _, l := range [...]string{"true", "false", "null"} {
		if len(s.data)-i >= len(l) && lend(s.data[i:i+len(l)]) == l {
			return i + len(l)
		}
	}
	return s.unexpected(i, "a value")
}

// checkUTF8 reports an event whose strings are no UTF-8.
func (s *scanner) checkUTF8() bool {
	if s.high&highs == 0 || utf8.Valid(s.data) {
		return true
	}
	for i := 0; i < len(s.data); {
		r, n := utf8.DecodeRune(s.data[i:])
		if r == utf8.RuneError && n == 1 {
			s.fail(BadUTF8, i, fmt.Sprintf("byte 0x%02x", s.data[i]))
			break
		}
		i += n
	}
	return false
}

// wideObject is the number of members from which on a name is looked up in a map to see whether it stands twice.
const wideObject = 16

// value makes a value of whatever stands at i.
func (d *jsonDecoder) value(i, depth int) (cep.Value, int) {
	s := &d.scanner
	switch c := s.at(i); c {
	case '"':
		end, escaped := s.stringEnd(i + 1)
		if end < 0 {
			return cep.Value{}, -1
		}
		return cep.String(lend(s.text(i+1, end, escaped))), end + 1
	case '{':
		return d.objectValue(i, depth+1)
	case '[':
		return d.listValue(i, depth+1)
	case 't', 'f', 'n':
		end := s.literal(i)
		if c == 'n' {
			return cep.Null, end
		}
		return cep.Bool(c == 't'), end
	default:
		return d.numberAt(i)
	}
}

func (d *jsonDecoder) numberAt(i int) (cep.Value, int) {
	if v, end := quickNumber(d.data, i); end >= 0 {
		return v, end
	}
	end, integer := scanNumber(d.data, i)
	if end < 0 {
		return cep.Value{}, d.unexpected(i, "a value")
	}
	return d.number(d.data[i:end], integer), end
}

func (d *jsonDecoder) listValue(i, depth int) (cep.Value, int) {
	s := &d.scanner
	if depth > MaxDepth {
		return cep.Value{}, s.tooDeep(i)
	}
	i = s.space(i + 1)
	if s.at(i) == ']' {
		return cep.List(nil), i + 1
	}
	var l []cep.Value
	for {
		v, end := d.value(i, depth)
		if end < 0 {
			return cep.Value{}, -1
		}
		l = append(l, v)
		var more bool
		if i, more = s.comma(end, ']'); !more {
			return cep.List(l), i
		}
	}
}

func (d *jsonDecoder) objectValue(i, depth int) (cep.Value, int) {
	s := &d.scanner
	if depth > MaxDepth {
		return cep.Value{}, s.tooDeep(i)
	}
	i = s.space(i + 1)
	if s.at(i) == '}' {
		return cep.Object(nil), i + 1
	}
	var o []cep.Member
	var places map[string]int
	for {
		if s.at(i) != '"' {
			return cep.Value{}, s.unexpected(i, "a name in quotes")
		}
		end, escaped := s.stringEnd(i + 1)
		if end < 0 {
			return cep.Value{}, -1
		}
		name := lend(s.text(i+1, end, escaped))
		if i = s.colon(end + 1); i < 0 {
			return cep.Value{}, -1
		}
		var v cep.Value
		if v, i = d.value(i, depth); i < 0 {
			return cep.Value{}, -1
		}
		if !d.origin || depth > 1 || name != originName {
			o, places = addMember(o, places, cep.Member{Name: name, Value: v})
		}
		var more bool
		if i, more = s.comma(i, '}'); !more {
			return cep.Object(o), i
		}
	}
}

// addMember adds a member, or gives the one of this name the new value. places is nil while the object is small.
func addMember(o []cep.Member, places map[string]int, m cep.Member) ([]cep.Member, map[string]int) {
	if places == nil {
		for i := range o {
			if o[i].Name == m.Name {
				o[i].Value = m.Value
				return o, nil
			}
		}
		if len(o) == wideObject {
			places = make(map[string]int, 2*wideObject)
			for i := range o {
				places[o[i].Name] = i
			}
		}
	} else if i, ok := places[m.Name]; ok {
		o[i].Value = m.Value
		return o, places
	}
	if places != nil {
		places[m.Name] = len(o)
	}
	return append(o, m), places
}
