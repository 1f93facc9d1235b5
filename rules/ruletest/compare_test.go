package ruletest

import (
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
)

func got(at cep.Duration, fields ...cep.Named) *cep.Alert {
	return &cep.Alert{Time: Zero.Add(at), Fields: fields}
}

func want(at cep.Duration, fields ...patterns.ExpectedField) patterns.ExpectedAlert {
	return patterns.ExpectedAlert{
		Pos: patterns.Pos{File: "r.yaml", Line: 7, Column: 3}, At: at, HasAt: true, Fields: fields,
	}
}

func TestComparison(t *testing.T) {
	n := func(i int64) cep.Named { return cep.Named{Name: "n", Value: cep.Int(i)} }
	wn := func(i int64) patterns.ExpectedField { return patterns.ExpectedField{Name: "n", Value: cep.Int(i)} }
	for _, tt := range []struct {
		name string
		want []patterns.ExpectedAlert
		got  []*cep.Alert
		diff string // the first word of each line; "" for equal
	}{
		{"nothing", nil, nil, ""},
		{"equal", []patterns.ExpectedAlert{want(time.Second, wn(1))}, []*cep.Alert{got(time.Second, n(1))}, ""},
		{"a subset of the fields", []patterns.ExpectedAlert{want(time.Second)}, []*cep.Alert{got(time.Second, n(1))}, ""},
		{"anything", []patterns.ExpectedAlert{{}}, []*cep.Alert{got(time.Hour, n(1))}, ""},
		{"missing", []patterns.ExpectedAlert{want(time.Second)}, nil, "-"},
		{"too much", nil, []*cep.Alert{got(time.Second)}, "+"},
		{"another time", []patterns.ExpectedAlert{want(time.Second)}, []*cep.Alert{got(2 * time.Second)}, "~ at:"},
		{
			"another field",
			[]patterns.ExpectedAlert{want(time.Second, wn(1))},
			[]*cep.Alert{got(time.Second, n(2))},
			"~ fields.n:",
		},
		{
			"missing in the middle",
			[]patterns.ExpectedAlert{want(1), want(2), want(3)},
			[]*cep.Alert{got(1), got(3)},
			"= - =",
		},
		{
			"too much in the middle",
			[]patterns.ExpectedAlert{want(1), want(3)},
			[]*cep.Alert{got(1), got(2), got(3)},
			"= + =",
		},
		{
			"order counts",
			[]patterns.ExpectedAlert{want(1), want(2)},
			[]*cep.Alert{got(2), got(1)},
			"- = +",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := comparison{zero: Zero, want: tt.want, got: tt.got}
			lines := c.diff()
			words := make([]string, len(lines))
			for i, line := range lines {
				words[i] = strings.Fields(line)[0]
			}
			if diff := strings.Join(words, " "); diff != tt.diff {
				t.Errorf("%q, expected %q:\n%s", diff, tt.diff, strings.Join(lines, "\n"))
			}
		})
	}
}

func TestFloodIsCutOff(t *testing.T) {
	c := comparison{zero: Zero, want: []patterns.ExpectedAlert{want(5)}}
	for i := range 10_000 {
		c.got = append(c.got, got(cep.Duration(i)))
	}
	if lines := c.diff(); len(lines) != 1+maxSurplus+1 {
		t.Errorf("%d lines", len(lines))
	}
}

func TestEqual(t *testing.T) {
	for _, tt := range []struct {
		want, got cep.Value
		equal     bool
	}{
		{cep.Int(1), cep.Int(1), true},
		{cep.Int(1), cep.Int(2), false},
		{cep.Int(1), cep.Float(1), true},
		{cep.Float(0.3), cep.Float(0.1 + 0.2), true},
		{cep.Float(0.3), cep.Float(0.3001), false},
		{cep.Int(1 << 60), cep.Int(1<<60 + 1), false},
		{cep.Int(1), cep.String("1"), false},
		{cep.Null, cep.Value{}, true},
		{cep.Null, cep.Int(0), false},
		{cep.String("2026-01-01T00:00:00Z"), cep.TimeValue(Zero), true},
		{cep.String("1m30s"), cep.DurationValue(90 * time.Second), true},
		{cep.List([]cep.Value{cep.Int(1)}), cep.List([]cep.Value{cep.Int(1)}), true},
		{cep.List([]cep.Value{cep.Int(1)}), cep.List([]cep.Value{cep.Int(2)}), false},
	} {
		if equal(tt.want, tt.got) != tt.equal {
			t.Errorf("equal(%s, %s) is not %v", tt.want, tt.got, tt.equal)
		}
	}
}
