package ruletest

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
)

// comparison holds a rule's alerts against what its test expects of them.
type comparison struct {
	zero cep.Time
	want []patterns.ExpectedAlert
	got  []*cep.Alert
}

// step is one line of a comparison: an index into want, into got, or into both; -1 is none.
type step struct{ want, got int }

// diff returns nothing where the alerts are as expected, and otherwise a line for each expected and each actual alert:
// "=" both agree, "~" they stand for each other but differ, "-" is missing, "+" is too much.
func (c *comparison) diff() []string {
	var lines []string
	same := true
	for _, s := range c.align() {
		switch {
		case s.got < 0:
			lines = append(lines, fmt.Sprintf("- missing   %s   expected at %s", c.wanted(s.want), c.want[s.want].Pos))
			same = false
		case s.want < 0:
			lines = append(lines, "+ too much  "+c.found(s.got))
			same = false
		default:
			if d := c.differences(s.want, s.got); len(d) > 0 {
				lines = append(lines, fmt.Sprintf("~ differs   %s   expected at %s", c.found(s.got), c.want[s.want].Pos))
				for _, d := range d {
					lines = append(lines, "            "+d)
				}
				same = false
				continue
			}
			lines = append(lines, "= as expected  "+c.found(s.got))
		}
	}
	if n := len(c.got) - len(c.want) - maxSurplus; n > 0 {
		lines = append(lines, fmt.Sprintf("+ and %d more", n))
		same = false
	}
	if same {
		return nil
	}
	return lines
}

// align pairs expected with actual alerts, both in order: as many equal pairs as there can be (a longest common
// subsequence), and what is left between two of them one by one.
func (c *comparison) align() []step {
	n, m := len(c.want), len(c.got)
	// common[i][j] is the number of equal pairs among want[i:] and got[j:]. Tests expect a handful of alerts; where a rule
	// floods, only the head is compared, or a broken rule would take memory for the square of its alerts.
	m = min(m, n+maxSurplus)
	common := make([][]int, n+1)
	for i := range common {
		common[i] = make([]int, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if len(c.differences(i, j)) == 0 {
				common[i][j] = max(common[i][j], common[i+1][j+1]+1)
			}
		}
	}
	var steps []step
	i, j := 0, 0
	flush := func(toWant, toGot int) {
		for i < toWant && j < toGot {
			steps = append(steps, step{i, j})
			i, j = i+1, j+1
		}
		for ; i < toWant; i++ {
			steps = append(steps, step{i, -1})
		}
		for ; j < toGot; j++ {
			steps = append(steps, step{-1, j})
		}
	}
	for a, b := 0, 0; a < n && b < m; {
		switch {
		case common[a][b] == common[a+1][b+1]+1 && len(c.differences(a, b)) == 0:
			flush(a, b)
			steps = append(steps, step{a, b})
			a, b = a+1, b+1
			i, j = a, b
		case common[a+1][b] >= common[a][b+1]:
			a++
		default:
			b++
		}
	}
	flush(n, m)
	return steps
}

// maxSurplus is how many alerts more than expected are listed: enough to see what they have in common.
const maxSurplus = 20

// differences says how the alert got[j] is not as want[i] says.
func (c *comparison) differences(i, j int) []string {
	want, got := &c.want[i], c.got[j]
	var d []string
	if want.HasAt && got.Time != c.zero.Add(want.At) {
		d = append(d, fmt.Sprintf("at: expected %s, got %s", cep.FormatDuration(want.At), c.offset(got.Time)))
	}
	if want.Kind != "" && want.Kind != got.Kind.String() {
		d = append(d, fmt.Sprintf("kind: expected %s, got %s", want.Kind, got.Kind))
	}
	for _, f := range want.Fields {
		v, ok := field(got, f.Name)
		switch {
		case !ok:
			d = append(d, fmt.Sprintf("fields.%s: expected %s, but the rule's alert has no such field", f.Name, f.Value))
		case !equal(f.Value, v):
			d = append(d, fmt.Sprintf("fields.%s: expected %s, got %s", f.Name, f.Value, v))
		}
	}
	return d
}

func field(a *cep.Alert, name string) (cep.Value, bool) {
	for _, f := range a.Fields {
		if f.Name == name {
			return f.Value, true
		}
	}
	return cep.Value{}, false
}

// floatError is the relative error that a sum of a thousand floats can have; who writes 0.3 means 0.1 + 0.2 too.
const floatError = 1e-12

// equal compares what a test says with what came: null is null or missing, numbers are equal up to rounding, and what
// YAML has no word for (times, durations) is compared as alerts write it.
func equal(want, got cep.Value) bool {
	switch {
	case want.IsMissing() || got.IsMissing():
		return want.IsMissing() && got.IsMissing()
	case cep.Equal(want, got):
		return true
	case want.IsNumber() && got.IsNumber():
		w, g := want.AsFloat(), got.AsFloat()
		bothInt := want.Kind() == cep.KindInt && got.Kind() == cep.KindInt
		return !bothInt && math.Abs(w-g) <= floatError*max(math.Abs(w), math.Abs(g))
	}
	return bytes.Equal(cep.AppendJSON(nil, want), cep.AppendJSON(nil, got))
}

// wanted describes an expected alert.
func (c *comparison) wanted(i int) string {
	w := &c.want[i]
	var parts []string
	if w.HasAt {
		parts = append(parts, "at "+cep.FormatDuration(w.At))
	}
	if w.Kind != "" {
		parts = append(parts, w.Kind)
	}
	if len(w.Fields) > 0 {
		named := make([]cep.Named, len(w.Fields))
		for i, f := range w.Fields {
			named[i] = cep.Named(f)
		}
		parts = append(parts, describe(named))
	}
	if parts == nil {
		return "an alert"
	}
	return strings.Join(parts, "  ")
}

// found describes an alert.
func (c *comparison) found(j int) string {
	a := c.got[j]
	return fmt.Sprintf("at %s  %s  %s", c.offset(a.Time), a.Kind, describe(a.Fields))
}

// offset writes a time as tests do: since their zero.
func (c *comparison) offset(t cep.Time) string { return cep.FormatDuration(t.Sub(c.zero)) }

func describe(fields []cep.Named) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = f.Name + ": " + f.Value.String()
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
