package alert_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
)

// follower plays matches, resolving events and time into a maker, and writes down what goes out.
type follower struct {
	*alert.Maker
	names map[cep.AlertID]int
	lines []string
	seq   uint64
}

func newFollower(f alert.Follow, s *alert.Suppress) *follower {
	p := &alert.Plan{Rule: "r", Name: "n", Severity: "low", Key: []string{"k"}, Steps: []alert.Step{{Name: "x"}}, Follow: &f, Suppress: s, Include: alert.IncludeIDs}
	return &follower{Maker: alert.NewMaker(p), names: map[cep.AlertID]int{}}
}

func (f *follower) advance(before cep.Moment) {
	for _, o := range f.Advance(before, nil) {
		f.write(o.Alert)
	}
}

// match is one that an event at t completed, or time alone.
func (f *follower) match(t cep.Time, k int64, timed bool) {
	f.seq++
	m := at(t, key(cep.Int(k)), history{{time: t, pos: cep.Position{Partition: auth, Offset: int64(f.seq)}}})
	m.Moment = cep.Moment{Time: t, Seq: f.seq}
	if timed {
		m.Moment.Seq = cep.ByTime
	}
	m.Completed = m.Moment
	f.advance(m.Moment)
	f.write(f.Make(m))
}

func (f *follower) resolve(t cep.Time, k int64) {
	f.seq++
	moment := cep.Moment{Time: t, Seq: f.seq}
	f.advance(moment)
	f.write(f.Resolve(key(cep.Int(k)), moment))
}

// write numbers the alerts in the order in which they come, and says which one each follows.
func (f *follower) write(a *cep.Alert) {
	if a == nil {
		return
	}
	if _, ok := f.names[a.ID]; ok {
		f.lines = append(f.lines, "an id twice")
	}
	n := len(f.names) + 1
	f.names[a.ID] = n
	text := fmt.Sprintf("%d %s #%d key %v", a.Time, a.Kind, n, a.Key[0].Value)
	if a.Follows != (cep.AlertID{}) {
		text += fmt.Sprintf(" of #%d", f.names[a.Follows])
	}
	if a.Timed {
		text += " by time"
	}
	if a.Suppressed > 0 {
		text += fmt.Sprintf(" suppressed %d", a.Suppressed)
	}
	f.lines = append(f.lines, text)
}

func (f *follower) want(t *testing.T, lines ...string) {
	t.Helper()
	f.advance(cep.Moment{Time: cep.AfterAll})
	if diff := cmp.Diff(lines, f.lines); diff != "" {
		t.Error(diff)
	}
}

func TestResolveByEvent(t *testing.T) {
	f := newFollower(alert.Follow{}, nil)
	f.resolve(0, 1) // nothing is open
	f.match(1, 1, false)
	f.match(2, 1, false) // counted
	f.resolve(3, 2)      // another key
	f.resolve(4, 1)
	f.resolve(5, 1) // it has ended
	f.match(6, 1, false)
	f.want(t, "1 match #1 key 1", "4 resolved #2 key 1 of #1", "6 match #3 key 1")
	if c := f.Counters(); c.Counted != 1 || c.Alerts != 3 || f.Open() != 1 {
		t.Errorf("counters %+v, %d open", *c, f.Open())
	}
}

// The event that completes a match does not end its alert, though it may end an earlier one.
func TestResolveIsLater(t *testing.T) {
	f := newFollower(alert.Follow{}, nil)
	m := at(1, key(cep.Int(1)), history{})
	f.write(f.Make(m))
	if f.Resolve(m.Key, m.Moment) != nil {
		t.Error("an alert ended by the event that completed it")
	}
	if f.Resolve(m.Key, cep.Moment{Time: 1, Seq: 2}) == nil {
		t.Error("an alert not ended by the next event of its time")
	}
}

func TestQuiet(t *testing.T) {
	f := newFollower(alert.Follow{Quiet: 10}, nil)
	f.match(0, 1, false)
	f.match(4, 2, false)
	f.match(10, 1, false) // at last + quiet: an event comes before time
	f.match(20, 1, true)  // so does what time decides then
	f.match(31, 1, false) // one too late
	f.want(t, "0 match #1 key 1", "4 match #2 key 2", "14 resolved #3 key 2 of #2 by time",
		"30 resolved #4 key 1 of #1 by time", "31 match #5 key 1", "41 resolved #6 key 1 of #5 by time")
}

func TestWhileOpenUpdate(t *testing.T) {
	f := newFollower(alert.Follow{WhileOpen: alert.OpenUpdate, Quiet: 10}, &alert.Suppress{By: []alert.SuppressBy{{Field: -1}}, For: 100, Max: 1})
	f.match(0, 1, false)
	f.match(3, 1, false)
	f.match(5, 1, false)
	f.match(30, 1, false) // suppressed: opens nothing
	f.match(100, 1, false)
	f.want(t, "0 match #1 key 1", "3 update #2 key 1 of #1", "5 update #3 key 1 of #1", "15 resolved #4 key 1 of #1 by time",
		"100 match #5 key 1 suppressed 1", "110 resolved #6 key 1 of #5 by time")
}

func TestWhileOpenNew(t *testing.T) {
	f := newFollower(alert.Follow{WhileOpen: alert.OpenNew}, nil)
	f.match(0, 1, false)
	f.match(3, 1, false)
	f.resolve(9, 1)
	f.want(t, "0 match #1 key 1", "3 match #2 key 1", "9 resolved #3 key 1 of #1")
}

func TestReminders(t *testing.T) {
	f := newFollower(alert.Follow{Repeat: 10, Quiet: 25}, nil)
	f.match(0, 1, false)
	f.match(5, 1, false)
	f.match(7, 2, false)
	f.resolve(17, 2) // at open + d: an event comes before time
	f.want(t, "0 match #1 key 1", "7 match #2 key 2", "10 reminder #3 key 1 of #1 by time", "17 resolved #4 key 2 of #2",
		"20 reminder #5 key 1 of #1 by time", "30 resolved #6 key 1 of #1 by time")
}

// An alert that only an event can end is open for ever, and reminds for as long as time is finite.
func TestRemindersEnd(t *testing.T) {
	f := newFollower(alert.Follow{Repeat: 10}, nil)
	f.match(0, 1, false)
	f.advance(cep.Moment{Time: 21})
	f.want(t, "0 match #1 key 1", "10 reminder #2 key 1 of #1 by time", "20 reminder #3 key 1 of #1 by time")
}

// What follows says what the first one said, without its events.
func TestFollowersRepeat(t *testing.T) {
	p := bruteForce()
	p.Follow = &alert.Follow{}
	m := alert.NewMaker(p)
	a := m.Make(at(1, key(cep.String("203.0.113.7")), twoSteps()))
	r := m.Resolve(key(cep.String("203.0.113.7")), cep.Moment{Time: 9, Seq: 9})
	if r.Title != a.Title || r.Severity != a.Severity || len(r.Fields) != len(a.Fields) || len(r.Steps) != 0 || len(a.Steps) == 0 {
		t.Errorf("resolved %+v", *r)
	}
	if text := string(alert.AppendJSON(nil, r)); !strings.Contains(text, `"kind":"resolved"`) || !strings.HasSuffix(text, `"follows":"`+a.ID.String()+`"}`) {
		t.Error(text)
	}
}

// Rules over alerts see every match, held back or not, and nothing that follows; a shadow rule touches nothing.
func TestFeedAndShadow(t *testing.T) {
	p := bruteForce()
	p.Follow = &alert.Follow{}
	m := alert.NewMaker(p)
	var fed []cep.AlertID
	m.Feed(func(match *cep.Match, a *cep.Alert) {
		if a.Kind != cep.AlertMatch || a.Severity != "high" || len(a.Fields) != 2 {
			t.Errorf("fed %+v", *a)
		}
		fed = append(fed, a.ID)
	})
	first := m.Make(at(1, key(cep.Int(1)), twoSteps()))
	if m.Make(at(2, key(cep.Int(1)), twoSteps())) != nil {
		t.Error("a match while an alert is open goes out")
	}
	if len(fed) != 2 || fed[0] != first.ID {
		t.Errorf("fed %v", fed)
	}
	p.Shadow = true
	m = alert.NewMaker(p)
	if m.Make(at(1, key(cep.Int(1)), twoSteps())) != nil || m.Open() != 0 || m.Counters().Alerts != 0 {
		t.Error("a shadow rule has an alert")
	}
}

func TestEndAll(t *testing.T) {
	f := newFollower(alert.Follow{Quiet: 10, Repeat: 3}, nil)
	f.match(0, 2, false)
	f.match(1, 1, false)
	f.advance(cep.Moment{Time: 2})
	for _, o := range f.EndAll(cep.Moment{Time: 2, Seq: cep.ByTime}, nil) {
		f.write(o.Alert)
	}
	f.want(t, "0 match #1 key 2", "1 match #2 key 1", "2 resolved #3 key 1 of #2 by time", "2 resolved #4 key 2 of #1 by time")
	if f.NextDue() != cep.AfterAll {
		t.Error("something is due of what has ended")
	}
}

// S7.3, plainly: what happens to each key, looked at nanosecond by nanosecond.
func TestFollowIsItsDefinition(t *testing.T) {
	type step struct {
		at      cep.Time
		key     int64
		resolve bool
		timed   bool
	}
	rapid.Check(t, func(t *rapid.T) {
		by := alert.Follow{
			WhileOpen: alert.WhileOpen(rapid.IntRange(0, 2).Draw(t, "while open")),
			Quiet:     time.Duration(rapid.IntRange(0, 4).Draw(t, "quiet")), Repeat: time.Duration(rapid.IntRange(0, 3).Draw(t, "repeat")),
		}
		var steps []step
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			s := step{at: cep.Time(rapid.IntRange(0, 25).Draw(t, "at")), key: rapid.Int64Range(1, 2).Draw(t, "key")}
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				s.resolve = true
			case 1:
				s.timed = true
			}
			steps = append(steps, s)
		}
		slices.SortStableFunc(steps, func(a, b step) int { // events of a time come before what time decides
			if a.at != b.at {
				return int(a.at - b.at)
			}
			switch {
			case a.timed == b.timed:
				return 0
			case a.timed:
				return 1
			}
			return -1
		})
		f := newFollower(by, nil)
		var want []string
		const end = 40
		for _, s := range steps {
			if s.resolve {
				f.resolve(s.at, s.key)
			} else {
				f.match(s.at, s.key, s.timed)
			}
		}
		f.advance(cep.Moment{Time: end + 1})
		for k := int64(1); k <= 2; k++ {
			opened, last := cep.Time(-1), cep.Time(-1)
			for now := cep.Time(0); now <= end; now++ {
				for _, s := range steps {
					if s.at != now || s.key != k {
						continue
					}
					switch {
					case s.resolve && opened >= 0:
						want = append(want, fmt.Sprintf("%d %d resolved", k, now))
						opened = -1
					case s.resolve:
					case opened < 0:
						want = append(want, fmt.Sprintf("%d %d match", k, now))
						opened, last = now, now
					default:
						last = now
						if kind := []string{"", "update", "match"}[by.WhileOpen]; kind != "" {
							want = append(want, fmt.Sprintf("%d %d %s", k, now, kind))
						}
					}
				}
				switch {
				case opened < 0:
				case by.Quiet > 0 && now == last+cep.Time(by.Quiet):
					want = append(want, fmt.Sprintf("%d %d resolved", k, now))
					opened = -1
				case by.Repeat > 0 && now > opened && (now-opened)%cep.Time(by.Repeat) == 0:
					want = append(want, fmt.Sprintf("%d %d reminder", k, now))
				}
			}
		}
		var got []string
		for k := 1; k <= 2; k++ {
			for _, l := range f.lines {
				var at int64
				var kind, number string
				var key int
				if _, err := fmt.Sscanf(l, "%d %s %s key %d", &at, &kind, &number, &key); err != nil {
					t.Fatalf("%q: %v", l, err)
				}
				if key == k {
					got = append(got, fmt.Sprintf("%d %d %s", k, at, kind))
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A new version of a rule takes over what the one before remembers; an older one that still runs shares it.
func TestVersions(t *testing.T) {
	plan := func(fingerprint string, follow *alert.Follow, suppress *alert.Suppress) *alert.Plan {
		p := bruteForce()
		p.Fingerprint, p.Follow, p.Suppress = fingerprint, follow, suppress
		return p
	}
	byKey := func(most int) *alert.Suppress {
		return &alert.Suppress{By: []alert.SuppressBy{{Field: -1}}, For: time.Hour, Max: most}
	}
	k := key(cep.Int(1))
	old := alert.NewMaker(plan("1", nil, byKey(1)))
	old.Make(at(1, k, twoSteps()))
	next := alert.NewMaker(plan("2", nil, byKey(1)))
	next.Adopt(old, cep.Moment{Time: 2})
	next.Join(old)
	if next.Make(at(3, k, twoSteps())) != nil || old.Make(at(4, k, twoSteps())) != nil {
		t.Error("a version does not know what the other suppresses")
	}
	if c := next.Counters(); c.Alerts != 1 || c.Suppressed != 2 {
		t.Errorf("counters %+v", *c)
	}
	other := alert.NewMaker(plan("3", nil, byKey(2)))
	other.Adopt(next, cep.Moment{Time: 5})
	if other.Make(at(6, k, twoSteps())) == nil {
		t.Error("spans of a rule that suppressed in another way still count")
	}

	open := alert.NewMaker(plan("1", &alert.Follow{Quiet: 100, Repeat: 10}, nil))
	first := open.Make(at(1, k, twoSteps()))
	longer := alert.NewMaker(plan("2", &alert.Follow{Quiet: 5, Repeat: 30}, nil))
	if out := longer.Adopt(open, cep.Moment{Time: 50}); len(out) != 0 {
		t.Errorf("out %v", out)
	}
	var got []string
	for _, o := range longer.Advance(cep.Moment{Time: 200}, nil) {
		got = append(got, fmt.Sprint(int64(o.Moment.Time), o.Alert.Kind, o.Alert.Follows == first.ID))
	}
	if diff := cmp.Diff([]string{"50 resolved true"}, got); diff != "" { // quiet for more than 5 already, and nothing ends before now
		t.Error(diff)
	}

	open = alert.NewMaker(plan("1", &alert.Follow{Repeat: 10}, nil))
	open.Make(at(1, k, twoSteps()))
	longer = alert.NewMaker(plan("2", &alert.Follow{Repeat: 30}, nil))
	longer.Adopt(open, cep.Moment{Time: 50})
	if due := longer.NextDue(); due != 61 {
		t.Errorf("next reminder at %d, want 61", due)
	}
	none := alert.NewMaker(plan("3", nil, nil))
	if out := none.Adopt(longer, cep.Moment{Time: 70, Seq: cep.ByTime}); len(out) != 1 || out[0].Alert.Kind != cep.AlertResolved {
		t.Errorf("an open alert that nothing can end: %v", out)
	}
}
