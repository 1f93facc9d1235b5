package main

import (
	"bufio"
	"strings"
	"testing"
)

// At a terminal a question is asked until there is an answer; an empty one is the likeliest, and so is the end of the input.
func TestQuestions(t *testing.T) {
	for _, c := range []struct {
		input string
		want  int
		asked int
	}{
		{"3\n", 2, 1}, {"\n", 1, 1}, {"x\n0\n4\n1\n", 0, 4}, {"", 1, 1}, {"9", 1, 1},
	} {
		var out strings.Builder
		q := &questions{on: true, in: bufio.NewReader(strings.NewReader(c.input)), out: newPrinter(&out)}
		got, err := q.choose(t.Context(), "Which?", []string{"a\x1b", "b", "c"}, 1)
		if err != nil || got != c.want {
			t.Errorf("%q: %d, %v", c.input, got, err)
		}
		if n := strings.Count(out.String(), "1 to 3 [2]: "); n != c.asked {
			t.Errorf("%q: asked %d times:\n%s", c.input, n, out.String())
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Error("a control character reaches the terminal")
		}
	}
	q := &questions{in: bufio.NewReader(strings.NewReader("3\n"))}
	if got, err := q.choose(t.Context(), "Which?", []string{"a", "b", "c"}, 1); err != nil || got != 1 {
		t.Errorf("nobody is there: %d, %v", got, err)
	}
}
