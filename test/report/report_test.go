package main

import (
	"strings"
	"testing"
)

const passing = `{"Action":"output","Package":"p","Test":"TestA","Output":"vectors f: 1 equal\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`

const skipping = `{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:12: no container runtime\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
`

const failing = `{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:3: got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestC"}
`

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name, in string
		ci       bool
		allowed  []string
		status   int
		want     string
	}{
		{"passes", passing, true, nil, 0, "ok  \tp\t0.1s"},
		{"facts are shown", passing, false, nil, 0, "vectors f: 1 equal"},
		{"a logged figure is shown", passing + `{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:12: exhaustive 3 patterns\n"}`, false, nil, 0, "exhaustive 3 patterns"},
		{"a failure is shown", passing + failing, false, nil, 1, "got 1, want 2"},
		{"a skip is named", passing + skipping, false, nil, 0, "skip: TestB: no container runtime"},
		{"a skip fails in CI", passing + skipping, true, nil, 1, "skip not allowed in CI: TestB"},
		{"unless it is listed", passing + skipping, true, []string{"container runtime"}, 0, "skip: TestB"},
		{"no test is a failure", "", false, nil, 1, "no test ran"},
		{"build trouble is shown", passing + "p/a.go:1: syntax error\n" + `{"Action":"build-fail","ImportPath":"p"}` + "\n", false, nil, 1, "syntax error"},
	} {
		var out strings.Builder
		r := &report{out: &out, ci: c.ci, allowed: c.allowed, output: map[key][]string{}}
		if err := r.read(strings.NewReader(c.in)); err != nil {
			t.Fatal(err)
		}
		if got := r.close(); got != c.status || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: status %d, want %d, with %q in\n%s", c.name, got, c.status, c.want, out.String())
		}
	}
}
