package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
)

// shapes are the rules for the row patterns of the figures.
var shapes = map[string]string{".D{6,}U{6,}": "v-six", ".D{3,}U{3,}": "v-three", ".D+U+D+U+": "w"}

// Row patterns over two series in the order of the file: one goes back in time by almost an hour, so lateness must cover it
// only if rows are to stand in the order of time, which the figures do not ask for. There the time is the row's number.
func TestShapes(t *testing.T) {
	figures := map[string]json.RawMessage{}
	expected(t, "nab", &figures)
	n := 0
	for name := range figures {
		path, rest, ok := strings.Cut(name, " file order, PATTERN ")
		if !ok {
			continue
		}
		n++
		pattern, _, _ := strings.Cut(rest, " ")
		rule := shapes[pattern]
		if rule == "" {
			t.Errorf("no rule for the pattern %q", pattern)
			continue
		}
		var want struct {
			PastLast int      `json:"skip_past_last"`
			ToNext   int      `json:"skip_to_next"`
			First    [][2]int `json:"first5_row_ranges_0based"`
		}
		figure(t, figures, name, &want)
		rec := series(path)
		rec.text = numberedRows(rec.content(t))
		rec.time = []string{"arrived,unix"}
		f := rec.run(t, 0)
		past := f.of(rule)
		if each := len(f.of(rule + ".each")); len(past) != want.PastLast || each != want.ToNext {
			t.Errorf("%s: %d past_last and %d to_next, want %d and %d", name, len(past), each, want.PastLast, want.ToNext)
		}
		var got [][2]int
		for i, a := range past {
			if i == len(want.First) {
				break
			}
			got = append(got, [2]int{int(a.First / cep.Second), int(a.Last / cep.Second)})
		}
		if diff := cmp.Diff(want.First, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	if n != 6 {
		t.Errorf("%d figures of shapes, there were 6", n)
	}
}

// numberedRows turns the rows of a series into events whose time is the number of the row.
func numberedRows(text []byte) []byte {
	var out bytes.Buffer
	n := -1 // the first line names the columns
	for line := range strings.Lines(string(text)) {
		if _, value, _ := strings.Cut(strings.TrimSpace(line), ","); n >= 0 {
			fmt.Fprintf(&out, "{\"arrived\":%d,\"value\":%s}\n", n, value)
		}
		n++
	}
	return out.Bytes()
}
