package alert_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
)

var (
	auth = &cep.Partition{Stream: "auth", Name: "0"}
	web  = &cep.Partition{Stream: "web", Name: "a/b", Order: 1}
)

// slot reads field 0 of the first event of a step.
func slot(step int) alert.Eval {
	return func(s *cep.Scope) (cep.Value, error) {
		if s.History.Len(step) == 0 {
			return cep.Value{}, nil
		}
		return s.History.At(step, 0).Value(0), nil
	}
}

func constant(v cep.Value) alert.Eval { return func(*cep.Scope) (cep.Value, error) { return v, nil } }

func key(parts ...cep.Value) cep.Key {
	k, ok := cep.KeyOf(parts...)
	if !ok {
		panic("no key")
	}
	return k
}

// at makes a match that an event completed.
func at(t cep.Time, k cep.Key, h history) *cep.Match {
	m := cep.Moment{Time: t, Seq: 1}
	return &cep.Match{Key: k, Moment: m, Completed: m, History: h}
}

func bruteForce() *alert.Plan {
	return &alert.Plan{
		Rule: "ssh-bruteforce", Revision: 3, Fingerprint: "f00d", Name: "brute force", Severity: "high",
		Tags: []string{"ssh"}, Mitre: []string{"T1110"},
		Key:    []string{"src_ip"},
		Steps:  []alert.Step{{Name: "fail"}, {Name: "none", Absent: true}, {Name: "ok"}},
		Fields: []alert.Field{{Name: "user", Eval: slot(2)}, {Name: "first", Eval: slot(0)}},
		Title: []alert.Segment{{Eval: func(s *cep.Scope) (cep.Value, error) { return s.Fields[0], nil }}, {Text: " in from "}, {
			Eval: func(s *cep.Scope) (cep.Value, error) {
				parts, err := s.Key.Parts()
				return parts[0], err
			},
		}},
		Include: alert.IncludeIDs,
	}
}

func twoSteps() history {
	return history{
		{time: 1 * cep.Second, pos: cep.Position{Partition: auth, Offset: 7}, values: []cep.Value{cep.Int(1)}, step: 0},
		{time: 2 * cep.Second, pos: cep.Position{Partition: auth, Offset: 9}, values: []cep.Value{cep.Int(2)}, step: 0},
		{time: 3500 * cep.Millisecond, pos: cep.Position{Partition: web, Offset: 1}, values: []cep.Value{cep.String("root")}, step: 2},
	}
}

func TestEnvelope(t *testing.T) {
	a := alert.NewMaker(bruteForce()).Make(at(3500*cep.Millisecond, key(cep.String("203.0.113.7")), twoSteps()))
	got := string(alert.AppendJSON(nil, a))
	want := `{"id":"` + a.ID.String() + `","rule":"ssh-bruteforce","revision":3,"fingerprint":"f00d","kind":"match",` +
		`"time":"1970-01-01T00:00:03.5Z","completed_by":"event","first_at":"1970-01-01T00:00:01Z","last_at":"1970-01-01T00:00:03.5Z",` +
		`"severity":"high","title":"root in from 203.0.113.7","key":{"src_ip":"203.0.113.7"},"fields":{"user":"root","first":1},` +
		`"events":{"fail":[{"time":"1970-01-01T00:00:01Z","stream":"auth","partition":"0","offset":7},` +
		`{"time":"1970-01-01T00:00:02Z","stream":"auth","partition":"0","offset":9}],` +
		`"ok":[{"time":"1970-01-01T00:00:03.5Z","stream":"web","partition":"a/b","offset":1}]},` +
		`"tags":["ssh"],"mitre":["T1110"]}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !json.Valid([]byte(got)) {
		t.Error("not JSON")
	}
}

func TestTimedAndEmpty(t *testing.T) {
	p := &alert.Plan{Rule: "silent", Name: "silent", Ordered: true, Severity: "info", Steps: []alert.Step{{Name: "beat", Absent: true}}, Include: alert.IncludeIDs}
	m := &cep.Match{Moment: cep.Moment{Time: cep.Minute, Seq: cep.ByTime}, Completed: cep.Moment{Time: cep.Minute, Seq: cep.ByTime}, History: history{}}
	a := alert.NewMaker(p).Make(m)
	want := `{"id":"` + a.ID.String() + `","rule":"silent","revision":0,"fingerprint":"","kind":"match","time":"1970-01-01T00:01:00Z",` +
		`"completed_by":"time","severity":"info","title":"silent","key":{},"fields":{},"events":{},"tags":[],"mitre":[]}`
	if diff := cmp.Diff(want, string(alert.AppendJSON(nil, a))); diff != "" {
		t.Error(diff)
	}
}

// A match that waited shows when it was complete; a timeout is completed by time.
func TestOrderedAndTimeout(t *testing.T) {
	p := bruteForce()
	p.Ordered = true
	m := at(9*cep.Second, key(cep.Int(1)), twoSteps())
	m.Kind = cep.MatchTimeout
	got := string(alert.AppendJSON(nil, alert.NewMaker(p).Make(m)))
	for _, part := range []string{`"kind":"timeout","time":"1970-01-01T00:00:09Z","completed_at":"1970-01-01T00:00:03.5Z","completed_by":"time"`} {
		if !strings.Contains(got, part) {
			t.Errorf("%s\nlacks %s", got, part)
		}
	}
}

func TestInclude(t *testing.T) {
	h := history{}
	for i := range 5 {
		h = append(h, &taken{time: cep.Time(i), pos: cep.Position{Partition: auth, Offset: int64(i)}, raw: "{\n\"n\": 1}"})
	}
	h = append(h, &taken{time: 9, pos: cep.Position{Partition: auth, Offset: 9}, raw: "no json", step: 2})
	for _, c := range []struct {
		include alert.Include
		offsets []int64
		raw     bool
	}{
		{alert.IncludeNone, nil, false},
		{alert.IncludeIDs, []int64{0, 1, 2, 3, 4}, false},
		{alert.IncludeFirstLast, []int64{0, 4}, true},
		{alert.IncludeAll, []int64{0, 1, 2, 3, 4}, true},
	} {
		p := bruteForce()
		p.Include = c.include
		a := alert.NewMaker(p).Make(at(9, key(cep.Int(1)), h))
		var offsets []int64
		if a.Steps != nil {
			for _, ev := range a.Steps[0].Events {
				offsets = append(offsets, ev.Position.Offset)
			}
		}
		if diff := cmp.Diff(c.offsets, offsets); diff != "" {
			t.Errorf("include %d: %s", c.include, diff)
		}
		text := string(alert.AppendJSON(nil, a))
		if strings.Contains(text, `"event":{"n":1}`) != c.raw {
			t.Errorf("include %d: %s", c.include, text)
		}
		if strings.ContainsAny(text, "\n") || strings.Contains(text, "no json") {
			t.Errorf("include %d: an event broke the line: %s", c.include, text)
		}
	}
}

// What a pattern excludes is taken, and counted in the id and in the times, but not listed.
func TestUnlisted(t *testing.T) {
	p := bruteForce()
	all := alert.NewMaker(p).Make(at(9, key(cep.Int(1)), twoSteps()))
	q := *p
	q.Unlisted = func(t cep.Taken) bool { return t.Position().Offset == 7 }
	some := alert.NewMaker(&q).Make(at(9, key(cep.Int(1)), twoSteps()))
	if some.ID != all.ID || some.First != all.First || len(some.Steps[0].Events) != 1 || some.Steps[0].Events[0].Position.Offset != 9 {
		t.Errorf("alert %+v", *some)
	}
}

// A title is one line whatever events say.
func TestTitleCannotInject(t *testing.T) {
	p := bruteForce()
	p.Title = []alert.Segment{{Text: "user "}, {Eval: slot(0)}}
	for in, want := range map[cep.Value]string{
		cep.String("a\nb\r\tc"):             `user a\nb\r\tc`,
		cep.String("\x1b[31mred"):           `user \x1b[31mred`,
		cep.String("x\u202egnp.exe"):        `user x\u202egnp.exe`,
		cep.String("bad\xff"):               "user bad\ufffd",
		cep.String("héllo"):                 "user héllo",
		cep.String("\u2028\u0085"):          `user \u2028\u0085`,
		{}:                                  "user ?",
		cep.Null:                            "user ?",
		cep.Float(2):                        "user 2",
		cep.Float(math.Inf(1)):              "user +Inf",
		cep.DurationValue(90 * time.Second): "user 1m30s",
		cep.Bool(true):                      "user true",
	} {
		a := alert.NewMaker(p).Make(at(9, key(cep.Int(1)), history{{values: []cep.Value{in}, pos: cep.Position{Partition: auth}}}))
		if a.Title != want {
			t.Errorf("%v: %q, want %q", in, a.Title, want)
		}
	}
	long := strings.Repeat("é", alert.TitleMax)
	a := alert.NewMaker(p).Make(at(9, key(cep.Int(1)), history{{values: []cep.Value{cep.String(long)}, pos: cep.Position{Partition: auth}}}))
	if len(a.Title) > alert.TitleMax || !strings.HasSuffix(a.Title, "é…") {
		t.Errorf("title of %d bytes ends in %q", len(a.Title), a.Title[len(a.Title)-8:])
	}
}

func TestErrorsNeverStopAnAlert(t *testing.T) {
	broken := func(*cep.Scope) (cep.Value, error) { return cep.Value{}, errors.New("broken") }
	p := bruteForce()
	p.Fields = []alert.Field{{Name: "x", Eval: broken}, {Name: "nan", Eval: constant(cep.Float(math.NaN()))}}
	p.Title = []alert.Segment{{Eval: broken}}
	p.SeverityOf = constant(cep.String("urgent"))
	m := alert.NewMaker(p)
	a := m.Make(at(9, key(cep.Int(1)), twoSteps()))
	if a.Title != "?" || a.Severity != "high" {
		t.Errorf("title %q, severity %q", a.Title, a.Severity)
	}
	if c := m.Counters(); c.Errors != 3 || c.Alerts != 1 {
		t.Errorf("counters %+v", *c)
	}
	if text := string(alert.AppendJSON(nil, a)); !strings.Contains(text, `"fields":{"x":null,"nan":null}`) {
		t.Error(text)
	}
	p.SeverityOf = constant(cep.String("critical"))
	if a := alert.NewMaker(p).Make(at(9, key(cep.Int(1)), twoSteps())); a.Severity != "critical" {
		t.Errorf("severity %q", a.Severity)
	}
}

// The span begins with the first alert that goes out and does not grow; the next alert behind it carries what was held.
func TestSuppress(t *testing.T) {
	p := bruteForce()
	p.Suppress = &alert.Suppress{By: []alert.SuppressBy{{Field: -1, Key: 0}, {Field: 0}}, For: time.Minute, Max: 2}
	m := alert.NewMaker(p)
	user := func(name cep.Value) history {
		h := twoSteps()
		h[2].values = []cep.Value{name}
		return h
	}
	alice := cep.String("alice")
	for i, c := range []struct {
		at   cep.Time
		ip   int64
		user cep.Value
		out  bool
		held uint64
	}{
		{0, 1, alice, true, 0},
		{1 * cep.Second, 1, alice, true, 0},
		{1 * cep.Second, 2, alice, true, 0},             // another key
		{2 * cep.Second, 1, cep.String("bob"), true, 0}, // another field
		{30 * cep.Second, 1, alice, false, 0},           // the third in the span
		{30 * cep.Second, 1, cep.Value{}, true, 0},      // missing is a value ...
		{30 * cep.Second, 1, cep.Null, true, 0},         // ... and equals null
		{31 * cep.Second, 1, cep.Value{}, false, 0},
		{cep.Minute - 1, 1, alice, false, 0},
		{cep.Minute, 1, alice, true, 2}, // its time + for is outside
		{cep.Minute, 1, alice, true, 0},
		{2*cep.Minute - 1, 1, alice, false, 0},
		{2 * cep.Minute, 1, alice, true, 1},
	} {
		a := m.Make(at(c.at, key(cep.Int(c.ip)), user(c.user)))
		if (a != nil) != c.out {
			t.Fatalf("alert %d: out is %v", i, a != nil)
		}
		if a != nil && a.Suppressed != c.held {
			t.Errorf("alert %d carries %d, want %d", i, a.Suppressed, c.held)
		}
	}
	if c := m.Counters(); c.Alerts != 9 || c.Suppressed != 4 {
		t.Errorf("counters %+v", *c)
	}
}

// Keys that never return leave nothing behind.
func TestSuppressForgets(t *testing.T) {
	p := bruteForce()
	p.Suppress = &alert.Suppress{By: []alert.SuppressBy{{Field: -1}}, For: time.Minute, Max: 1}
	m := alert.NewMaker(p)
	for i := range 10_000 {
		m.Make(at(cep.Time(i)*cep.Second, key(cep.Int(int64(i))), twoSteps()))
	}
	if n := m.Spans(); n > 61 {
		t.Errorf("%d spans remembered, 60 are open", n)
	}
}

// The plain reading of S7.2, over the list of all alerts before.
func TestSuppressIsItsDefinition(t *testing.T) {
	type sent struct {
		at cep.Time
		k  int64
	}
	rapid.Check(t, func(t *rapid.T) {
		span := cep.Time(rapid.IntRange(1, 5).Draw(t, "for"))
		most := rapid.IntRange(1, 3).Draw(t, "max")
		p := bruteForce()
		p.Suppress = &alert.Suppress{By: []alert.SuppressBy{{Field: -1}}, For: time.Duration(span), Max: most}
		m := alert.NewMaker(p)
		begun, in, held := map[int64]cep.Time{}, map[int64]int{}, map[int64]uint64{}
		now := cep.Time(0)
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			now += cep.Time(rapid.IntRange(0, 3).Draw(t, "gap"))
			s := sent{now, rapid.Int64Range(0, 2).Draw(t, "key")}
			a := m.Make(at(s.at, key(cep.Int(s.k)), twoSteps()))
			if b, ok := begun[s.k]; !ok || s.at >= b+span {
				begun[s.k], in[s.k] = s.at, 0
			}
			if in[s.k] < most {
				in[s.k]++
				if a == nil || a.Suppressed != held[s.k] {
					t.Fatalf("%v: want an alert that carries %d, got %+v", s, held[s.k], a)
				}
				held[s.k] = 0
			} else {
				held[s.k]++
				if a != nil {
					t.Fatalf("%v: want none", s)
				}
			}
		}
	})
}

// Everything that LANGUAGE names changes the id, and nothing else does.
func TestID(t *testing.T) {
	base := bruteForce()
	id := func(p *alert.Plan, k cep.Key, kind cep.AlertKind, t cep.Time, h history) cep.AlertID {
		return alert.MatchID(p, k, kind, t, h)
	}
	k := key(cep.String("a"))
	want := id(base, k, cep.AlertMatch, 1, twoSteps())
	if got := id(base, k, cep.AlertMatch, 2, twoSteps()); got != want {
		t.Error("the time of a match with events is part of its id")
	}
	if id(base, k, cep.AlertMatch, 1, history{}) == id(base, k, cep.AlertMatch, 2, history{}) {
		t.Error("silences at two times have one id")
	}
	seen := map[cep.AlertID]string{want: "base"}
	differs := func(what string, got cep.AlertID) {
		t.Helper()
		if other, ok := seen[got]; ok {
			t.Errorf("%s has the id of %s", what, other)
		}
		seen[got] = what
	}
	p := *base
	p.Rule = "other"
	differs("another rule", id(&p, k, cep.AlertMatch, 1, twoSteps()))
	p = *base
	p.Fingerprint = "beef"
	differs("another fingerprint", id(&p, k, cep.AlertMatch, 1, twoSteps()))
	differs("another key", id(base, key(cep.String("b")), cep.AlertMatch, 1, twoSteps()))
	differs("another kind", id(base, k, cep.AlertTimeout, 1, twoSteps()))
	differs("no events", id(base, k, cep.AlertMatch, 1, history{}))
	h := twoSteps()
	h[0].pos.Offset = 8
	differs("another offset", id(base, k, cep.AlertMatch, 1, h))
	h = twoSteps()
	h[0].pos.Partition = web
	differs("another partition", id(base, k, cep.AlertMatch, 1, h))
	h = twoSteps()
	h[1].step = 2
	differs("another step", id(base, k, cep.AlertMatch, 1, h))
	p = *base
	p.Steps = []alert.Step{{Name: "failn"}, {Name: "one", Absent: true}, {Name: "ok"}}
	differs("names cut elsewhere", id(&p, k, cep.AlertMatch, 1, twoSteps()))
	p = *base
	p.Title, p.Fields, p.Severity, p.Tags = nil, nil, "low", nil
	if id(&p, k, cep.AlertMatch, 1, twoSteps()) != want {
		t.Error("the looks of an alert are part of its id")
	}
}

// The id is a promise to those who stored it.
func TestIDStays(t *testing.T) {
	got := alert.MatchID(bruteForce(), key(cep.String("203.0.113.7")), cep.AlertMatch, 0, twoSteps()).String()
	if want := "2b623452157d745919c74b729a188cc571d6b6a663329542929ed1d4010dee58"; got != want {
		t.Errorf("id %s, want %s", got, want)
	}
}
