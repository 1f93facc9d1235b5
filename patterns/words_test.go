package patterns

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
)

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"0s": 0, "500ms": 500 * time.Millisecond, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour,
		"1w": 168 * time.Hour, "1m500ms": time.Minute + 500*time.Millisecond, "106751d": 106751 * 24 * time.Hour,
	} {
		if got, err := ParseDuration(s); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", s, got, err, want)
		}
	}
	for s, hint := range map[string]string{
		"": "whole numbers", "5": "5s or 5m", "1.5h": "1h30m", "5 m": "whole numbers", "m": "whole numbers", "-5s": "whole numbers",
		"5x": "whole numbers", "1h 30m": "whole numbers", "106752d": "292 years", "99999999999999999999s": "292 years", "5µs": "whole numbers",
	} {
		if got, err := ParseDuration(s); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q is %v, %v; want an error about %q", s, got, err, hint)
		}
	}
}

// What the rest of the program prints can be written in a rule.
func TestDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := cep.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "ms")) * time.Millisecond
		if d < 0 {
			t.Skip("overflow")
		}
		if got, err := ParseDuration(cep.FormatDuration(d)); err != nil || got != d {
			t.Fatalf("%v is printed as %s and read as %v, %v", d, cep.FormatDuration(d), got, err)
		}
	})
}

func TestParseTimes(t *testing.T) {
	for s, want := range map[string][2]int{
		"5": {5, 5}, "5..": {5, -1}, "3..10": {3, 10}, "0..": {0, -1}, "0..1": {0, 1}, "1..": {1, -1}, "1": {1, 1},
	} {
		least, most, err := parseTimes(s)
		if got := [2]int{least, most}; err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "..", "..5", "0", "0..0", "5..3", "-1", "+", "*", "?", "3...5", "1..x", "1000001", "99999999999", "5 ..", "1,3"} {
		if least, most, err := parseTimes(s); err == nil {
			t.Errorf("%q is %d to %d", s, least, most)
		}
	}
}

func TestIDs(t *testing.T) {
	for s, want := range map[string]bool{
		"a": true, "ssh-brute.force_1": true, "9lives": true, strings.Repeat("a", 128): true, strings.Repeat("a", 129): false,
		"": false, ".a": false, "-a": false, "A": false, "a/b": false, "a..b": false, "../etc": false, "a\x00": false, "ä": false, "a b": false,
	} {
		if got := isID(s); got != want {
			t.Errorf("%q: %t, want %t", s, got, want)
		}
	}
}

func TestQuoteAt(t *testing.T) {
	for _, test := range []struct {
		line string
		from int
		want string
	}{
		{`{where: x in ["a"], by: [b]}`, 8, `{where: 'x in ["a"]', by: [b]}`},
		{`where: a == "x: y"  # why`, 7, `where: 'a == "x: y"'  # why`},
		{`where: it == 'x: y'`, 7, `where: "it == 'x: y'"`},
		{`where: it == 'x' or "y: z"`, 7, `where: 'it == ''x'' or "y: z"'`},
		{`by: [a[0], b]`, 5, `by: ['a[0]', b]`},
		{`by: [b, a[0]]`, 8, `by: [b, 'a[0]']`},
		{`{fields: {n: len(a[0]), m: 1}}`, 13, `{fields: {n: 'len(a[0])', m: 1}}`},
		{`{where: "a, b: c" == x, times: 3}`, 8, `{where: '"a, b: c" == x', times: 3}`},
	} {
		got, end, ok := quoteAt([]rune(test.line), test.from)
		if !ok || got != test.want {
			t.Errorf("%s at %d:\n%s, %t, want\n%s", test.line, test.from, got, ok, test.want)
		} else if rest := string([]rune(got)[end:]); !strings.HasSuffix(test.line, rest) || !strings.ContainsAny(string([]rune(got)[end-1]), `'"`) {
			t.Errorf("%s at %d: ends before %q", test.line, test.from, rest)
		}
	}
	for line, from := range map[string]int{
		"": 0, "a: ": 3, "a: where: c": 3, "a: {b: x in [1]}": 3, "a: [{b: x}]": 3, `{a: f(x, "y") or g(z, 1)}`: 9,
	} {
		if got, _, ok := quoteAt([]rune(line), from); ok {
			t.Errorf("%q at %d: %s", line, from, got)
		}
	}
}

// A long line is shown around its mistake, tabs stay tabs, and what a terminal would obey is not printed.
func TestMarked(t *testing.T) {
	d := Diagnostic{Pos: Pos{File: "a.yaml", Line: 3, Column: 3}, Length: 4, Code: "CEP0101", Message: "bad \x1b[2J", Excerpt: "\té\x1bword and more"}
	want := "a.yaml:3:3: bad \ufffd[2J [CEP0101]\n  3 | \té\ufffdword and more\n    | \t ^~~~\n"
	if diff := cmp.Diff(want, Diagnostics{d}.Error()); diff != "" {
		t.Error(diff)
	}
	d = Diagnostic{Pos: Pos{Line: 1, Column: 5001}, Length: 3, Excerpt: strings.Repeat("a", 5000) + "bad" + strings.Repeat("c", 5000)}
	line, mark := d.marked()
	at := strings.IndexByte(mark, '^')
	if len([]rune(line)) > maxExcerpt+2 || string([]rune(line)[at:at+3]) != "bad" || mark[at:] != "^~~" {
		t.Errorf("%s\n%s", line, mark)
	}
	var b strings.Builder
	if err := (Diagnostics{d}).Format(&b, true); err != nil || !strings.Contains(b.String(), "^~~"+colourOff) {
		t.Errorf("%v %q", err, b.String())
	}
}
