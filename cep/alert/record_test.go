package alert_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
)

var update = flag.Bool("update", false, "write the fixtures that are missing")

// store is what a store knows of a Maker.
type store map[string]string

func (s store) take(t interface{ Fatalf(string, ...any) }, m *alert.Maker) {
	seen := map[string]bool{}
	m.Changes(func(key, value []byte) {
		k := string(key)
		if seen[k] {
			t.Fatalf("%q changed twice", k)
		}
		seen[k] = true
		if value != nil {
			s[k] = string(value)
			return
		}
		if _, ok := s[k]; !ok {
			t.Fatalf("%q is removed that was never there", k)
		}
		delete(s, k)
	})
	m.Changes(func(key, _ []byte) { t.Fatalf("%q changed at one time twice", key) })
	if len(s) != m.Spans()+m.Open() {
		t.Fatalf("%d records of %d spans and %d open alerts", len(s), m.Spans(), m.Open())
	}
	if keys := stored(m); !slices.Equal(keys, slices.Sorted(maps.Keys(s))) {
		t.Fatalf("stored %q, there %q", keys, slices.Sorted(maps.Keys(s)))
	}
}

func stored(m *alert.Maker) []string {
	var keys []string
	m.StoredKeys(func(key []byte) { keys = append(keys, string(key)) })
	return keys
}

func (s store) restore(t interface{ Fatalf(string, ...any) }, m *alert.Maker) {
	for key, value := range s { // in any order
		if err := m.Restore([]byte(key), []byte(value)); err != nil {
			t.Fatalf("%v", err)
		}
	}
	m.Restored()
}

// TestRecordsEverywhere plays matches, events that resolve and time: a Maker that is stored now and then, and restored,
// sends what one sends that was never stopped.
func TestRecordsEverywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		by := alert.Follow{
			WhileOpen: alert.WhileOpen(rapid.IntRange(0, 2).Draw(t, "while open")),
			Quiet:     time.Duration(rapid.IntRange(0, 4).Draw(t, "quiet")), Repeat: time.Duration(rapid.IntRange(0, 3).Draw(t, "repeat")),
		}
		var s *alert.Suppress
		if rapid.Bool().Draw(t, "suppress") {
			s = &alert.Suppress{By: []alert.SuppressBy{{Field: -1}}, For: time.Duration(rapid.IntRange(1, 6).Draw(t, "for")), Max: rapid.IntRange(1, 2).Draw(t, "max")}
		}
		one, again := newFollower(by, s), newFollower(by, s)
		there := store{}
		now := cep.Time(0)
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			now += cep.Time(rapid.IntRange(0, 3).Draw(t, "gap"))
			k := rapid.Int64Range(1, 3).Draw(t, "key")
			what := rapid.IntRange(0, 5).Draw(t, "what")
			for _, f := range []*follower{one, again} {
				switch what {
				case 0:
					f.resolve(now, k)
				case 1:
					f.advance(cep.Moment{Time: now})
				default:
					f.match(now, k, false)
				}
			}
			if rapid.IntRange(0, 2).Draw(t, "epoch") > 0 {
				continue
			}
			there.take(t, again.Maker)
			if rapid.Bool().Draw(t, "crash") {
				counters := *again.Counters()
				again.Maker = newFollower(by, s).Maker
				there.restore(t, again.Maker)
				*again.Counters() = counters
			}
		}
		for _, f := range []*follower{one, again} {
			f.advance(cep.Moment{Time: now + 20})
		}
		if d := cmp.Diff(one.lines, again.lines); d != "" {
			t.Fatalf("(-one +restored):\n%s", d)
		}
		if d := cmp.Diff(one.Counters(), again.Counters()); d != "" {
			t.Fatalf("counters (-one +restored):\n%s", d)
		}
		there.take(t, again.Maker)
	})
}

// TestRecordsOfVersions: what is joined is told of once, what is adopted is new for the one that adopts it, and the one
// before still knows what it had told of.
func TestRecordsOfVersions(t *testing.T) {
	plan := func(fingerprint string) *alert.Plan {
		p := bruteForce()
		p.Fingerprint, p.Follow = fingerprint, &alert.Follow{Quiet: 100}
		p.Suppress = &alert.Suppress{By: []alert.SuppressBy{{Field: -1}}, For: time.Hour, Max: 1}
		return p
	}
	changes := func(m *alert.Maker) (list []string) {
		m.Changes(func(key, value []byte) {
			list = append(list, fmt.Sprintf("%c%d %v", key[0], key[len(key)-1], value != nil))
		})
		return list
	}
	old := alert.NewMaker(plan("1"))
	old.Make(at(1, key(cep.Int(1)), twoSteps()))
	if d := cmp.Diff([]string{"s1 true", "o1 true"}, changes(old)); d != "" {
		t.Error(d)
	}
	old.Make(at(2, key(cep.Int(2)), twoSteps())) // nobody has asked for this one

	next, drains := alert.NewMaker(plan("2")), alert.NewMaker(plan("1"))
	next.Adopt(old, cep.Moment{Time: 3})
	next.Join(drains)
	if drains.Make(at(4, key(cep.Int(1)), twoSteps())) != nil || next.Open() != 2 || next.Spans() != 2 {
		t.Errorf("%d open, %d spans", next.Open(), next.Spans())
	}
	if got := changes(drains); len(got) > 0 {
		t.Errorf("of what is joined: %v", got)
	}
	if d := cmp.Diff([]string{"s1 true", "s2 true", "o1 true", "o2 true"}, changes(next)); d != "" {
		t.Error(d)
	}
	if got := stored(drains); len(got) > 0 {
		t.Errorf("stored of what is joined: %q", got)
	}
	one := string(key(cep.Int(1)))
	if d := cmp.Diff([]string{"o" + one, "s" + one}, stored(old)); d != "" {
		t.Errorf("what the one before had told of: %s", d)
	}
	next.EndAll(cep.Moment{Time: 5, Seq: cep.ByTime}, nil)
	if got := stored(next); len(got) != 4 {
		t.Errorf("stored when all has ended: %q", got)
	}
	if d := cmp.Diff([]string{"o1 false", "o2 false"}, changes(next)); d != "" {
		t.Error(d)
	}
}

// drawAlert draws an alert without steps.
func drawAlert(t *rapid.T) *cep.Alert {
	id := func(name string) (id cep.AlertID) {
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, name))
		return id
	}
	times := rapid.Map(rapid.Int64(), func(i int64) cep.Time { return cep.Time(i) })
	named := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) cep.Named {
		return cep.Named{Name: rapid.String().Draw(t, "name"), Value: drawValue(t, 2)}
	}), 0, 3)
	texts := rapid.SliceOfN(rapid.String(), 0, 3)
	a := &cep.Alert{
		ID: id("id"), Rule: rapid.String().Draw(t, "rule"), Revision: rapid.Int64().Draw(t, "revision"),
		Fingerprint: rapid.String().Draw(t, "fingerprint"), Kind: cep.AlertKind(rapid.IntRange(0, 5).Draw(t, "kind")),
		Time: times.Draw(t, "time"), Timed: rapid.Bool().Draw(t, "timed"), Ordered: rapid.Bool().Draw(t, "ordered"),
		Events: rapid.IntRange(0, 1<<30).Draw(t, "events"), First: times.Draw(t, "first"), Last: times.Draw(t, "last"),
		Severity: rapid.String().Draw(t, "severity"), Title: rapid.String().Draw(t, "title"), Key: named.Draw(t, "key"), Fields: named.Draw(t, "fields"),
		Tags: texts.Draw(t, "tags"), Mitre: texts.Draw(t, "mitre"), Suppressed: rapid.Uint64().Draw(t, "suppressed"),
	}
	if rapid.Bool().Draw(t, "follows") {
		a.Follows = id("follows")
	}
	return a
}

func drawValue(t *rapid.T, depth int) cep.Value {
	switch rapid.IntRange(0, 5+2*min(depth, 1)).Draw(t, "kind of value") {
	case 0:
		return cep.Value{}
	case 1:
		return cep.Int(rapid.Int64().Draw(t, "int"))
	case 2:
		return cep.Float(rapid.Float64().Draw(t, "float"))
	case 3:
		return cep.String(rapid.String().Draw(t, "text"))
	case 4:
		return cep.Bool(rapid.Bool().Draw(t, "bool"))
	case 5:
		return cep.TimeValue(cep.Time(rapid.Int64().Draw(t, "time")))
	case 6:
		return cep.List([]cep.Value{drawValue(t, depth-1), cep.Null})
	default:
		return cep.Object([]cep.Member{{Name: "m", Value: drawValue(t, depth-1)}})
	}
}

var sameAlert = cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b cep.Value) bool {
	return bytes.Equal(cep.AppendValue(nil, a), cep.AppendValue(nil, b))
})}

func TestAlertBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAlert(t)
		data := alert.AppendAlert(nil, a)
		b, err := alert.ReadAlert(data)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(a, b, sameAlert); d != "" {
			t.Fatal(d)
		}
		if got, want := string(alert.AppendJSON(nil, b)), string(alert.AppendJSON(nil, a)); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		for _, cut := range []int{0, len(data) / 2, len(data) - 1} {
			if _, err := alert.ReadAlert(data[:cut]); !errors.Is(err, cep.ErrBytes) {
				t.Fatalf("cut off at %d: %v", cut, err)
			}
		}
		if _, err := alert.ReadAlert(append(data, 0)); !errors.Is(err, cep.ErrBytes) {
			t.Fatalf("bytes behind: %v", err)
		}
	})
}

// TestAlertFixture reads the alerts that every released version has written.
func TestAlertFixture(t *testing.T) {
	want := &cep.Alert{
		ID: cep.AlertID{1, 2, 31: 3}, Rule: "ssh-bruteforce", Revision: -3, Fingerprint: "f00d", Kind: cep.AlertUpdate, Time: 7 * cep.Second,
		Timed: true, Ordered: true, Events: 300, First: -cep.Second, Last: cep.Second, Severity: "high", Title: "root in from 10.0.0.1",
		Key:    []cep.Named{{Name: "src_ip", Value: cep.String("10.0.0.1")}},
		Fields: []cep.Named{{Name: "n", Value: cep.Int(-5)}, {Name: "share", Value: cep.Float(0.5)}, {Name: "none"}, {Name: "users", Value: cep.List([]cep.Value{cep.Null, cep.Bool(true)})}},
		Tags:   []string{"ssh"}, Mitre: []string{"T1110", "T1078"}, Suppressed: 1 << 40, Follows: cep.AlertID{9},
	}
	for _, name := range []string{"testdata/alert-v1.bin"} {
		if _, err := os.Stat(name); *update && errors.Is(err, os.ErrNotExist) {
			if err := os.WriteFile(name, alert.AppendAlert(nil, want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := alert.ReadAlert(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got, sameAlert); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// recordFixture is a Maker with a span, a span that holds something back, and open alerts, and how it goes on.
func recordFixture() (m *alert.Maker, rest func(*alert.Maker) string) {
	f := newFollower(alert.Follow{WhileOpen: alert.OpenNew, Quiet: 50, Repeat: 20}, &alert.Suppress{By: []alert.SuppressBy{{Field: -1}}, For: 30, Max: 1})
	f.match(1, 1, false)
	f.match(2, 2, false)
	f.match(3, 2, true)
	f.match(25, 1, false)
	return f.Maker, func(m *alert.Maker) string {
		g := &follower{Maker: m, names: map[cep.AlertID]int{}, seq: 100}
		g.match(40, 2, false)
		g.advance(cep.Moment{Time: 60})
		g.resolve(61, 1)
		g.match(62, 1, false)
		g.advance(cep.Moment{Time: 500})
		return strings.Join(g.lines, "\n")
	}
}

// TestRecordFixture restores the records that every released version has written. A new version adds a file; the old ones stay.
func TestRecordFixture(t *testing.T) {
	for _, name := range []string{"testdata/record-v1.bin"} {
		m, rest := recordFixture()
		if _, err := os.Stat(name); *update && errors.Is(err, os.ErrNotExist) {
			var b []byte
			m.Changes(func(key, value []byte) { b = cep.AppendText(cep.AppendText(b, key), value) })
			if err := os.WriteFile(name, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		back := newFollower(alert.Follow{WhileOpen: alert.OpenNew, Quiet: 50, Repeat: 20}, &alert.Suppress{By: []alert.SuppressBy{{Field: -1}}, For: 30, Max: 1}).Maker
		for in := cep.NewReader(data); in.Left() > 0; {
			if err := back.Restore([]byte(in.Text()), []byte(in.Text())); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		back.Restored()
		if d := cmp.Diff(rest(m), rest(back)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestRestoreRefuses: what does not belong to the rule is refused, with a word for it.
func TestRestoreRefuses(t *testing.T) {
	m, _ := recordFixture()
	good := store{}
	good.take(t, m)
	k := string(key(cep.Int(1)))
	span, open := good["s"+k], good["o"+k]
	plain := &alert.Plan{Rule: "plain", Key: []string{"k"}}
	both := &alert.Plan{Rule: "both", Key: []string{"k"}, Follow: &alert.Follow{Quiet: 1}, Suppress: &alert.Suppress{For: 1, Max: 1}}
	for _, c := range []struct {
		want       string
		plan       *alert.Plan
		key, value string
	}{
		{"without a kind", both, "", span},
		{"unknown kind 'x'", both, "x" + k, span},
		{"suppresses nothing", plain, "s" + k, span},
		{"end as they begin", plain, "o" + k, open},
		{"sends none", both, "o" + k, open},
		{"no key of the rule", both, "o", open},
		{"version 2, this program reads up to 1", both, "s" + k, "\x02" + span[1:]},
		{"no record of alerts", both, "s" + k, ""},
		{"behind the end", both, "s" + k, span + "\x00"},
		{"cut off", both, "s" + k, span[:len(span)-1]},
		{"more was sent than may be", both, "s" + k, "\x01\x00\x02\x00"},
	} {
		err := alert.NewMaker(c.plan).Restore([]byte(c.key), []byte(c.value))
		if !errors.Is(err, cep.ErrBytes) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	twice := alert.NewMaker(both)
	if err := twice.Restore([]byte("s"+k), []byte(span)); err != nil {
		t.Fatal(err)
	}
	if err := twice.Restore([]byte("s"+k), []byte(span)); !errors.Is(err, cep.ErrBytes) {
		t.Errorf("a span twice: %v", err)
	}
}

// FuzzRestoreRecord: a record that nobody has written is refused, or gives a Maker that goes on without harm and whose own
// record is a fixed point.
func FuzzRestoreRecord(f *testing.F) {
	m, _ := recordFixture()
	m.Changes(func(key, value []byte) { f.Add(bytes.Clone(key), bytes.Clone(value)) })
	f.Fuzz(func(t *testing.T, key, value []byte) {
		fresh := func() *alert.Maker {
			return newFollower(alert.Follow{Quiet: 50, Repeat: 1 << 40}, &alert.Suppress{By: []alert.SuppressBy{{Field: -1}}, For: 30, Max: 1}).Maker
		}
		m := fresh()
		if err := m.Restore(key, value); err != nil {
			if !errors.Is(err, cep.ErrBytes) {
				t.Fatal(err)
			}
			return
		}
		m.Restored()
		again := fresh()
		again.Adopt(m, cep.Moment{Time: cep.BeforeAll})
		first := store{}
		again.Changes(func(key, value []byte) { first[string(key)] = string(value) })
		back := fresh()
		first.restore(t, back)
		second := store{}
		last := fresh()
		last.Adopt(back, cep.Moment{Time: cep.BeforeAll})
		last.Changes(func(key, value []byte) { second[string(key)] = string(value) })
		if d := cmp.Diff(first, second); d != "" {
			t.Fatal(d)
		}
		m.EndAll(cep.Moment{Time: 1 << 50}, nil)
	})
}

// FuzzReadAlert: bytes that nobody has written are refused, or give an alert whose own bytes are a fixed point.
func FuzzReadAlert(f *testing.F) {
	m := alert.NewMaker(bruteForce())
	f.Add(alert.AppendAlert(nil, m.Make(at(1, key(cep.Int(1)), twoSteps()))))
	f.Add(alert.AppendAlert(nil, &cep.Alert{Follows: cep.AlertID{1}, Fields: []cep.Named{{Name: "f", Value: cep.List([]cep.Value{cep.Null})}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := alert.ReadAlert(data)
		if err != nil {
			if !errors.Is(err, cep.ErrBytes) {
				t.Fatal(err)
			}
			return
		}
		first := alert.AppendAlert(nil, a)
		b, err := alert.ReadAlert(first)
		if err != nil {
			t.Fatal(err)
		}
		if second := alert.AppendAlert(nil, b); !bytes.Equal(first, second) {
			t.Fatalf("%x, then %x", first, second)
		}
	})
}
