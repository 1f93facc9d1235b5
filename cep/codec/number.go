package codec

import (
	"strconv"

	"github.com/cepd/cepd/cep"
)

// quickNumber makes a value of the number that begins at i if it is short and plain, as nearly all are: no exponent, and
// few enough digits that nothing is lost on the way. The end is -1 for every other number, and for what is none.
func quickNumber(d []byte, i int) (_ cep.Value, end int) {
	neg := i < len(d) && d[i] == '-'
	if neg {
		i++
	}
	n, first := uint64(0), i
	for i < len(d) && d[i]-'0' < 10 {
		n = n*10 + uint64(d[i]-'0') // may wrap: then there are too many digits
		i++
	}
	whole := i - first
	if whole == 0 || whole > 1 && d[first] == '0' {
		return cep.Value{}, -1
	}
	places := 0
	if i < len(d) && d[i] == '.' {
		point := i
		for i++; i < len(d) && d[i]-'0' < 10; i++ {
			n = n*10 + uint64(d[i]-'0')
		}
		if places = i - point - 1; places == 0 {
			return cep.Value{}, -1
		}
	}
	switch {
	case i < len(d) && d[i]|0x20 == 'e':
	case places == 0 && whole <= 18: // 10^18 < 2^63
		if neg {
			return cep.Int(-int64(n)), i
		}
		return cep.Int(int64(n)), i
	case places > 0 && whole+places <= 15: // 10^15 < 2^53, and 10^14 is exact: one division rounds once (Clinger)
		f := float64(n) / powers[places]
		if neg {
			f = -f
		}
		return cep.Float(f), i
	}
	return cep.Value{}, -1
}

var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14}

// scanNumber returns the end of the number that begins at i, by JSON's grammar, and whether it has neither fraction nor
// exponent; the end is -1 where there is no number.
func scanNumber(d []byte, i int) (end int, integer bool) {
	if i < len(d) && d[i] == '-' {
		i++
	}
	switch {
	case i == len(d):
		return -1, false
	case d[i] == '0':
		i++
	case d[i] >= '1' && d[i] <= '9':
		i = digits(d, i)
	default:
		return -1, false
	}
	integer = true
	if i < len(d) && d[i] == '.' {
		integer = false
		j := digits(d, i+1)
		if j == i+1 {
			return -1, false
		}
		i = j
	}
	if i < len(d) && d[i]|0x20 == 'e' {
		integer = false
		i++
		if i < len(d) && (d[i] == '+' || d[i] == '-') {
			i++
		}
		j := digits(d, i)
		if j == i {
			return -1, false
		}
		i = j
	}
	return i, integer
}

func digits(d []byte, i int) int {
	for i < len(d) && d[i]-'0' < 10 {
		i++
	}
	return i
}

// parseNumber makes a value of a number; exact is false for integers outside int64 and numbers outside float64.
func parseNumber(text []byte, integer bool) (_ cep.Value, exact bool) {
	if integer {
		if n, err := strconv.ParseInt(lend(text), 10, 64); err == nil {
			return cep.Int(n), true
		}
	}
	f, err := strconv.ParseFloat(lend(text), 64) // beyond the range it gives an infinity, which compares rightly
	return cep.Float(f), err == nil && !integer
}
