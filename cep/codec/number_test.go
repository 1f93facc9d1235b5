package codec

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/cepd/cepd/cep"
	"pgregory.net/rapid"
)

// Numbers of all lengths, with and without what makes one, are what strconv makes of them, or none where encoding/json
// finds none. Fuzzing rarely gets to the edges of the short way.
func TestNumbers(t *testing.T) {
	s := cep.NewSchema()
	s.Slot("a")
	dec := NewJSON(s, TimeSpec{}, Options{})
	check := func(t interface{ Fatalf(string, ...any) }, text string) {
		var ev cep.Event
		err := dec.Decode([]byte(`{"a":`+text+`}`), &ev)
		if ok := json.Valid([]byte(text)); ok != (err == nil) {
			t.Fatalf("%s: %v, encoding/json takes it: %v", text, err, ok)
		}
		if err != nil {
			return
		}
		var want cep.Value
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			want = cep.Int(i)
		} else {
			f, _ := strconv.ParseFloat(text, 64)
			want = cep.Float(f)
		}
		if got := ev.Value(0); got != want {
			t.Fatalf("%s is %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{
		"0", "-0", "00", "-", "0.0", "-0.0", "1.", "999999999999999999", "1000000000000000000", "9999999999999999999", "18446744073709551616",
		"-9223372036854775808", "-9223372036854775809", "0.1", "99999999999999.9", "999999999999999.9", "0.000000000000001", "0.00000000000001",
		"1e5", "1E-5", "1.5e+3", "1e", "1e+", "123456789012345.6789", "0.30000000000000004", "1e400", "-1e400", "1e-400",
	} {
		check(t, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.StringMatching(`-?[0-9]{1,21}(\.[0-9]{0,21})?([eE][+-]?[0-9]{0,3})?`).Draw(t, "number"))
	})
}
