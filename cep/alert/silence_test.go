package alert_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
)

func ofKey(from, until cep.Time, k int64) alert.Silence {
	return alert.Silence{From: from, Until: until, Key: []alert.SilencedPart{{Value: cep.Int(k)}}}
}

// S7.1: a silence holds back by key and time, its end not included, and comes before suppression.
func TestSilence(t *testing.T) {
	p := bruteForce()
	p.Silences = []alert.Silence{{From: 30, Until: 40}, ofKey(10, 20, 1), ofKey(cep.BeforeAll, 3, 2)}
	p.Suppress = &alert.Suppress{By: []alert.SuppressBy{{Field: -1}}, For: 100, Max: 1}
	m := alert.NewMaker(p)
	fed := 0
	m.Feed(func(*cep.Match, *cep.Alert) { fed++ })
	matches := 0
	for _, c := range []struct {
		at   cep.Time
		key  cep.Value
		sent bool
	}{
		{2, cep.Int(2), false},
		{3, cep.Int(2), true},
		{9, cep.String("1"), true},
		{10, cep.Int(1), false},
		{19, cep.Float(1), false},
		{20, cep.Int(1), true},
		{21, cep.Int(1), false},
		{30, cep.Int(3), false},
		{39, cep.Int(3), false},
		{40, cep.Int(3), true},
	} {
		matches++
		a := m.Make(at(c.at, key(c.key), twoSteps()))
		if (a != nil) != c.sent {
			t.Errorf("key %v at %d: %+v", c.key, c.at, a)
		}
		if a != nil && a.Suppressed > 0 {
			t.Errorf("key %v at %d: %d suppressed; what is silenced is not", c.key, c.at, a.Suppressed)
		}
	}
	if c := m.Counters(); c.Alerts != 4 || c.Silenced != 5 || c.Suppressed != 1 || fed != matches {
		t.Errorf("counters %+v, %d of %d fed", c, fed, matches)
	}
}

// A shadow rule sends nothing, so nothing of it is silenced.
func TestSilenceOfShadow(t *testing.T) {
	p := bruteForce()
	p.Shadow, p.Silences = true, []alert.Silence{{From: 0, Until: 100}}
	m := alert.NewMaker(p)
	if m.Make(at(1, key(cep.Int(1)), twoSteps())) != nil || m.Counters().Silenced != 0 {
		t.Errorf("counters %+v", m.Counters())
	}
}

// An alert that is open when a silence begins stays open as long as matches come, reminds of nothing in the silence and says when
// it is over; no alert is opened by what is silenced.
func TestSilenceOfOpenAlerts(t *testing.T) {
	f := newFollower(alert.Follow{WhileOpen: alert.OpenUpdate, Quiet: 10, Repeat: 8}, nil)
	p := &alert.Plan{
		Rule: "r", Name: "n", Severity: "low", Key: []string{"k"}, Steps: []alert.Step{{Name: "x"}}, Include: alert.IncludeIDs,
		Follow: &alert.Follow{WhileOpen: alert.OpenUpdate, Quiet: 10, Repeat: 8}, Silences: []alert.Silence{{From: 5, Until: 30}},
	}
	f.Maker = alert.NewMaker(p)
	f.match(0, 1, false)
	f.match(4, 1, false)
	for _, at := range []cep.Time{6, 13, 20} { // would be updates; the reminders at 8, 16 and 24 are silenced
		f.match(at, 1, false)
	}
	f.match(25, 2, false) // would be an alert of its own
	f.match(31, 1, false) // the one of key 1 was over at 30
	f.advance(cep.Moment{Time: 32})
	lines := []string{"0 match #1 key 1", "4 update #2 key 1 of #1", "30 resolved #3 key 1 of #1 by time", "31 match #4 key 1"}
	if d := cmp.Diff(lines, f.lines); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if c := f.Counters(); c.Silenced != 3+1+3 || c.Alerts != 4 || f.Open() != 1 {
		t.Errorf("counters %+v, %d open", c, f.Open())
	}
}

// What goes out of a rule that does not follow its alerts is what would go out if the silenced matches had never been.
func TestSilenceIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		suppress := &alert.Suppress{By: []alert.SuppressBy{{Field: -1}}, For: time.Duration(rapid.IntRange(1, 9).Draw(t, "for")), Max: rapid.IntRange(1, 2).Draw(t, "max")}
		with, without := bruteForce(), bruteForce()
		with.Suppress, without.Suppress = suppress, suppress
		for range rapid.IntRange(0, 4).Draw(t, "silences") {
			s := alert.Silence{From: cep.Time(rapid.IntRange(0, 40).Draw(t, "from"))}
			s.Until = s.From + cep.Time(rapid.IntRange(1, 20).Draw(t, "long"))
			if rapid.Bool().Draw(t, "by key") {
				s.Key = []alert.SilencedPart{{Value: cep.Int(rapid.Int64Range(0, 2).Draw(t, "silenced key"))}}
			}
			with.Silences = append(with.Silences, s)
		}
		m, one := alert.NewMaker(with), alert.NewMaker(without)
		now, silenced := cep.Time(0), uint64(0)
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			now += cep.Time(rapid.IntRange(0, 3).Draw(t, "gap"))
			k := rapid.Int64Range(0, 2).Draw(t, "key")
			held := false
			for _, s := range with.Silences {
				held = held || now >= s.From && now < s.Until && (s.Key == nil || s.Key[0].Value.AsInt() == k)
			}
			got := m.Make(at(now, key(cep.Int(k)), twoSteps()))
			if held {
				silenced++
				if got != nil {
					t.Fatalf("key %d at %d went out", k, now)
				}
				continue
			}
			if d := cmp.Diff(one.Make(at(now, key(cep.Int(k)), twoSteps())), got, cmp.Comparer(cep.Equal)); d != "" {
				t.Fatalf("key %d at %d (-want +got):\n%s", k, now, d)
			}
		}
		if c := m.Counters(); c.Silenced != silenced {
			t.Fatalf("%d were silenced, counted %d", silenced, c.Silenced)
		}
	})
}

// The time of the last match is that of the newest, whatever became of it.
func TestLastMatch(t *testing.T) {
	p := bruteForce()
	p.Silences = []alert.Silence{{From: 5, Until: 10}}
	m := alert.NewMaker(p)
	if got := m.Counters().LastMatch; got != cep.BeforeAll {
		t.Errorf("%v before any", got)
	}
	m.Make(at(3, key(cep.Int(1)), twoSteps()))
	m.Make(at(7, key(cep.Int(2)), twoSteps()))
	if got := m.Counters().LastMatch; got != 7 {
		t.Errorf("%v", got)
	}
}
