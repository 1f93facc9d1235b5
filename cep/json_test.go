package cep

import (
	"encoding/json"
	"math"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Strings come back from encoding/json as they were, invalid bytes as U+FFFD.
func TestJSONString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "s")
		var got string
		if err := json.Unmarshal(AppendJSONString(nil, s), &got); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		want := string([]rune(s))
		if !utf8.ValidString(want) || got != want {
			t.Fatalf("%q came back as %q", s, got)
		}
	})
}

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		v    Value
		want string
	}{
		{Value{}, "null"},
		{Null, "null"},
		{Int(math.MinInt64), "-9223372036854775808"},
		{Float(3), "3.0"},
		{Float(0.1), "0.1"},
		{Float(1e300), "1e+300"},
		{Float(math.NaN()), "null"},
		{Float(math.Inf(-1)), "null"},
		{TimeValue(1500 * Millisecond), `"1970-01-01T00:00:01.5Z"`},
		{DurationValue(90 * time.Second), `"1m30s"`},
		{List([]Value{Int(1), Bool(true)}), "[1,true]"},
		{Object([]Member{{"b", Int(1)}, {"a", List(nil)}}), `{"b":1,"a":[]}`},
		{String("a\x1b[31m\u2028"), `"a\u001b[31m\u2028"`},
	} {
		if got := string(AppendJSON(nil, c.v)); got != c.want {
			t.Errorf("%v: %s, want %s", c.v.Kind(), got, c.want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[Duration]string{
		0: "0s", 90 * time.Minute: "1h30m", 26 * time.Hour: "1d2h", 1500 * time.Millisecond: "1s500ms",
		-time.Second: "-1s", 1: "1ns", math.MinInt64: "-106751d23h47m16s854ms775808ns",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}
