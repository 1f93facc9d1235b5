package replay

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep/engine"
)

func TestSilences(t *testing.T) {
	figures := map[string]json.RawMessage{}
	expected(t, "nab", &figures)
	n := 0
	for name := range figures {
		path, ok := strings.CutPrefix(name, "silence > 600s: ")
		if !ok {
			continue // row patterns
		}
		n++
		t.Run(path, func(t *testing.T) {
			var want list
			figure(t, figures, name, &want)
			alerts := series(path).run(t, 0).of("silence")
			if len(alerts) != want.matches {
				t.Fatalf("%d silences, want %d", len(alerts), want.matches)
			}
			if len(want.rows) == 0 {
				t.Fatal("no list of silences")
			}
			for i, row := range want.rows { // the first 60
				last := taken(alerts[i], "reading")[0].Time
				if got := last.Std().Format(time.DateTime); got != row[0] {
					t.Errorf("silence %d: after %s, want %s", i, got, row[0])
				}
				if !alerts[i].Timed || alerts[i].Time != last.Add(10*time.Minute) {
					t.Errorf("silence %d: goes out at %s, by time: %v", i, alerts[i].Time, alerts[i].Timed)
				}
			}
		})
	}
	if n != 2 {
		t.Errorf("%d figures of silences, there were 2", n)
	}
}

// At the end of the input time stands at the last reading, so whether the series goes on is not known. A user who knows
// that it does not says so.
func TestSilenceAtTheEnd(t *testing.T) {
	without := len(latency.run(t, 0).of("silence"))
	for _, advance := range []time.Duration{10 * time.Minute, engine.ToEnd} {
		if got := len(latency.run(t, advance).of("silence")); got != without+1 {
			t.Errorf("advanced by %v: %d silences, want one more than %d", advance, got, without)
		}
	}
	if got := len(latency.run(t, 10*time.Minute-1).of("silence")); got != without {
		t.Errorf("a nanosecond too few: %d silences, want %d", got, without)
	}
}

// One series has readings of equal times, another goes back by almost an hour, as clocks do in autumn. What goes back is
// late, unless the lateness covers it.
func TestSeriesThatStumble(t *testing.T) {
	// It stands at 02:55, then 02:00: what comes again up to 02:50 is late, a second 02:55 is not.
	back := temperature.run(t, 0)
	rows := strings.Count(string(temperature.content(t)), "\n") - 1
	if s := back.summary.Streams[0]; int(s.Events) != rows || s.Late != 11 || s.Behind != 55*time.Minute {
		t.Errorf("%d of %d rows, %d late, behind by %v", s.Events, rows, s.Late, s.Behind)
	}
	patient := temperature
	patient.lateness = time.Hour
	all := patient.run(t, 0)
	if s := all.summary.Streams[0]; s.Late != 0 {
		t.Errorf("%d late within an hour", s.Late)
	}
	if diff := cmp.Diff(len(back.of("silence")), len(all.of("silence"))); diff != "" {
		t.Errorf("silences: %s", diff)
	}
	if s := latency.run(t, 0).summary.Streams[0]; s.Late != 0 || s.Behind != 0 {
		t.Errorf("equal times: %d late, behind by %v", s.Late, s.Behind)
	}
}
