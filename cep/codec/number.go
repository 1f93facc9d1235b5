package codec

import (
	"strconv"

	"github.com/cepd/cepd/cep"
)

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
		// Up to 18 digits cannot overflow.
		if len(text) <= 18 {
			neg := text[0] == '-'
			n := int64(0)
			for _, c := range text {
				if c != '-' {
					n = n*10 + int64(c-'0')
				}
			}
			if neg {
				n = -n
			}
			return cep.Int(n), true
		}
		if n, err := strconv.ParseInt(lend(text), 10, 64); err == nil {
			return cep.Int(n), true
		}
	}
	f, err := strconv.ParseFloat(lend(text), 64) // beyond the range it gives an infinity, which compares rightly
	return cep.Float(f), err == nil && !integer
}
