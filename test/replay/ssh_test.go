package replay

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSSH(t *testing.T) {
	figures := map[string]json.RawMessage{}
	expected(t, "loghub-openssh", &figures)
	f := ssh.run(t, 0)
	if s := f.summary.Streams[0]; s.Events != 2000 || s.Late != 0 || s.Behind != 0 {
		t.Errorf("events %d, late %d, behind %v", s.Events, s.Late, s.Behind)
	}

	var five list
	figure(t, figures, "login_failed{5} by src_ip within 60s, skip_past_last (greedy non-overlapping, events equal-ts ok, <=60s)", &five)
	var got, want []string
	for _, a := range f.of("five-failures") {
		got = append(got, fmt.Sprintf("%s %s %s", field(a, "src_ip"), field(a, "first"), field(a, "last")))
	}
	for _, row := range five.rows {
		want = append(want, fmt.Sprintf("%q %v %v", row...))
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != five.matches {
		t.Errorf("five failures: %d, want %d (-want +got)\n%s", len(got), five.matches, diff)
	}

	var spray list
	figure(t, figures, "password spray: >=5 distinct users in 60s by src_ip, reset on fire", &spray)
	got, want = nil, nil
	for _, a := range f.of("spray") {
		got = append(got, fmt.Sprintf("%s %s %s", field(a, "src_ip"), field(a, "first"), field(a, "last")))
	}
	for _, row := range spray.rows {
		want = append(want, fmt.Sprintf("%q %v %v", row...))
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != spray.matches {
		t.Errorf("spray: %d, want %d (-want +got)\n%s", len(got), spray.matches, diff)
	}

	for name, rule := range map[string]string{
		"login_failed{5} by src_ip within 60s, every consecutive window (no_skip, strict per-key contiguity of failed events)": "five-failures.each",
		"login_failed{10} by src_ip within 60s, skip_past_last":                                                                "ten-failures",
		"login_failed{25} by src_ip within 15m, skip_past_last":                                                                "twenty-five-failures",
		"brute force then success: login_failed{3,} then login_ok same src_ip within 10m":                                      "failures-then-login",
	} {
		var want int
		figure(t, figures, name, &want)
		if got := len(f.of(rule)); got != want {
			t.Errorf("%s: %d alerts, want %d", rule, got, want)
		}
	}

	var logins [][]any
	figure(t, figures, "login_ok events", &logins)
	var seen [][]any
	for _, a := range f.of("login") {
		seen = append(seen, []any{field(a, "seq"), field(a, "user"), field(a, "src_ip")})
	}
	for _, row := range logins {
		for i := range row {
			cell, err := json.Marshal(row[i])
			if err != nil {
				t.Fatal(err)
			}
			row[i] = string(cell)
		}
	}
	if diff := cmp.Diff(logins, seen); diff != "" {
		t.Errorf("logins (-want +got)\n%s", diff)
	}

	// The trap: a line "message repeated 5 times" is one event. Counted as one it brings no address to five.
	var counts map[string]int
	figure(t, figures, "counts", &counts)
	if got := len(f.of("repeated-failure")); got != counts["login_failed_repeated"] {
		t.Errorf("%d lines that stand for several, want %d", got, counts["login_failed_repeated"])
	}
	if got := len(f.of("repeated-failure.as-one")); got != five.matches {
		t.Errorf("%d with those lines as one failure each, want the same %d", got, five.matches)
	}
}

// list is a figure that gives a number of matches, and rows of them.
type list struct {
	matches int
	rows    [][]any
}

// UnmarshalJSON reads the rows under whatever name they have: it tells their columns, with commas, which tags cannot.
func (l *list) UnmarshalJSON(data []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	for name, value := range members {
		var into any = &l.rows
		if name == "matches" {
			into = &l.matches
		}
		if err := json.Unmarshal(value, into); err != nil {
			return err
		}
	}
	return nil
}

func figure(t *testing.T, figures map[string]json.RawMessage, name string, into any) {
	t.Helper()
	if err := json.Unmarshal(figures[name], into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
