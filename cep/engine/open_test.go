package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/rules"
)

// openRules have elements of every kind, and starts that are parked, begin without an event, or are of row patterns.
var openRules = []string{
	`{id: pair, from: auth, by: [user], within: 20s, after_match: none, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}, {step: c, where: kind == "c"}]}`,
	`{id: any, from: auth, by: [user], within: 15s, after_match: none, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b", contiguity: any, within: 6s}]}`,
	`{id: loop, from: auth, by: [user], within: 30s, after_match: to_next, sequence: [{step: a, where: kind == "a", times: 2..4, loop_within: 8s}, {step: b, where: kind == "b"}]}`,
	`{id: led, from: auth, by: [user], within: 25s, sequence: [{step: a, where: kind == "a", times: 3..}, {step: b, where: kind == "b"}]}`,
	`{id: burst, from: auth, by: [user], unbounded: true, sequence: [{step: a, where: kind == "a", times: 1..}, {absent: more, where: kind == "a", for: 5s}]}`,
	`{id: silent, from: auth, by: [user], after_match: none, sequence: [{step: a, where: kind == "a"}, {absent: b, where: kind == "b", for: 7s}, {absent: c, where: kind == "c", for: 9s}]}`,
	`{id: beat, from: auth, by: [user], keys: [u, w], sequence: [{absent: beat, where: kind == "c", for: 12s}]}`,
	`{id: group, from: auth, by: [user], within: 40s, after_match: none, sequence: [{group: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}], times: 1..3, within: 15s}, {step: c, where: kind == "c"}]}`,
	`{id: both, from: auth, by: [user], within: 20s, sequence: [{all_of: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}, {step: c, where: kind == "c"}], within: 12s}]}`,
	`{id: row, from: auth, by: [user], within: 18s, pattern: "a b+? c", steps: {a: {where: kind == "a"}, b: {}, c: {where: kind == "c"}}}`,
	`{id: ordered, from: auth, by: [user], within: 15s, emit: ordered, after_match: to_next, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b", times: 1..}, {step: c, where: kind == "c", optional: true}]}`,
	`{id: all, from: auth, within: 9s, after_match: none, sequence: [{step: a, where: kind == "a"}, {step: b, where: 'kind == "b" and user != a.user'}]}`,
}

// openBench is a Core of such rules, and what it is asked.
type openBench struct {
	*engine.Core
	t       *rapid.T
	set     *rules.Set
	decoder codec.Decoder
	offset  int64
}

func newOpenBench(t *rapid.T, shards int) *openBench {
	picked := rapid.SliceOfNDistinct(rapid.SampledFrom(openRules), 1, 4, rapid.ID[string]).Draw(t, "rules")
	set, err := rules.FromFiles([]rules.File{{Name: "r.yaml", Data: []byte("version: 1\nrules:\n- " + strings.Join(picked, "\n- ") + "\n"), Rules: true}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	core, err := engine.New(set, []engine.Stream{{Name: "auth"}}, engine.Options{Batch: 1, Shards: shards, PerClock: true})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := codec.ParseTime("t,unix")
	if err != nil {
		t.Fatal(err)
	}
	core.Open(auth0)
	return &openBench{core, t, set, codec.NewJSON(set.Schema, spec, codec.Options{}), 0}
}

func (b *openBench) event(at int, kind, user string) {
	ev := &cep.Event{Position: cep.Position{Partition: auth0, Offset: b.offset}}
	b.offset++
	if err := b.decoder.Decode(fmt.Appendf(nil, `{"t":%d,"kind":%q,"user":%q}`, at, kind, user), ev); err != nil {
		b.t.Fatal(err)
	}
	b.Push(auth0, ev, b.decoder)
}

// open lists all open starts of a rule, page by page.
func (b *openBench) open(rule string, page int) []engine.OpenStart {
	var list []engine.OpenStart
	var after engine.OpenPlace
	for {
		n := 0
		err := b.OpenStarts(rule, after, nil, nfa.OpenLimits{Runs: 1000, Positions: 2}, func(s engine.OpenStart) bool {
			if n == page {
				return false
			}
			n++
			after = s.Place
			list = append(list, s)
			return true
		})
		if err != nil {
			b.t.Fatal(err)
		}
		if n < page {
			return list
		}
	}
}

// opened are the open starts of all rules by place, held against what summaries count and one key alone gives.
func (b *openBench) opened() map[string]map[engine.OpenPlace]engine.OpenStart {
	all := map[string]map[engine.OpenPlace]engine.OpenStart{}
	for _, r := range b.Summary().Rules {
		list := b.open(r.ID, rapid.IntRange(1, 4).Draw(b.t, "page"))
		if len(list) != r.Open+r.Draining {
			b.t.Fatalf("rule %s: %d open starts are listed, %d are counted", r.ID, len(list), r.Open+r.Draining)
		}
		all[r.ID] = map[engine.OpenPlace]engine.OpenStart{}
		byKey := map[cep.Key]int{}
		for i, s := range list {
			if i > 0 && !before(list[i-1].Place, s.Place) {
				b.t.Fatalf("rule %s: %v stands behind %v", r.ID, s.Place, list[i-1].Place)
			}
			if len(s.Runs) == 0 && r.ID != "ordered" {
				b.t.Fatalf("rule %s: %+v is open, and nothing can come of it", r.ID, s)
			}
			all[r.ID][s.Place] = s
			byKey[s.Place.Key]++
		}
		for key, n := range byKey {
			_ = b.OpenStarts(r.ID, engine.OpenPlace{}, []cep.Key{key}, nfa.OpenLimits{Runs: 1}, func(engine.OpenStart) bool {
				n--
				return true
			})
			if n != 0 {
				b.t.Fatalf("rule %s, key %q: asked alone it has %d starts fewer", r.ID, key, n)
			}
		}
	}
	return all
}

func before(a, b engine.OpenPlace) bool {
	if a.Version != b.Version {
		return a.Version < b.Version
	}
	if a.Key != b.Key {
		return a.Key < b.Key
	}
	return a.Seq < b.Seq
}

// taken is what a run has taken, as text, with one event more of a name.
func taken(r *nfa.OpenRun, more int) string {
	counts := map[int]int{}
	for _, t := range r.Taken {
		counts[t.Name] = t.Count
	}
	if more >= 0 {
		counts[more]++
	}
	return fmt.Sprint(counts)
}

// TestOpenStarts: what is listed is what is counted; an open start goes on with an event of what it said it waits for, and in no
// other way; it is open until when it said, and no longer.
func TestOpenStarts(t *testing.T) {
	grown, over := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		b := newOpenBench(t, rapid.IntRange(1, 3).Draw(t, "shards"))
		now := 0
		was := b.opened()
		for range rapid.IntRange(1, 25).Draw(t, "events") {
			now += rapid.IntRange(1, 4).Draw(t, "later") // of two events the first is released when the second comes
			b.event(now, rapid.SampledFrom([]string{"a", "b", "c", "x"}).Draw(t, "kind"), rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user"))
			is := b.opened()
			for rule, starts := range is {
				for place, s := range starts {
					if s.Until <= b.Watermark("auth") {
						t.Fatalf("rule %s: %+v is open, and time is %d", rule, s, b.Watermark("auth"))
					}
					old, known := was[rule][place]
					if !known || old.Parked || s.Parked {
						continue
					}
					may := map[string]bool{}
					for i := range old.Runs {
						r := &old.Runs[i]
						may[taken(r, -1)] = true
						for _, name := range r.Waits {
							may[taken(r, name)] = may[taken(r, name)] || !r.Absence
						}
					}
					for i := range s.Runs {
						r := &s.Runs[i]
						if may[taken(r, -1)] {
							grown++
							continue
						}
						t.Fatalf("rule %s: it has taken %s, and said before that it waits for %+v", rule, taken(r, -1), old.Runs)
					}
				}
			}
			was = is
		}
		// Time alone: what was to be over is, and where nothing was found all else stays.
		matched := map[string]uint64{}
		for _, r := range b.Summary().Rules {
			matched[r.ID] = r.Matched
		}
		to := cep.Time(now+rapid.IntRange(0, 30).Draw(t, "advance")) * cep.Second
		b.Advance(cep.Time(now) * cep.Second)
		was = b.opened()
		for _, r := range b.Summary().Rules {
			matched[r.ID] = r.Matched
		}
		b.Advance(to)
		is := b.opened()
		for _, r := range b.Summary().Rules {
			for place, s := range was[r.ID] {
				_, open := is[r.ID][place]
				switch {
				case open && s.Until <= to:
					t.Fatalf("rule %s: %+v is open at %s", r.ID, s, to)
				case !open && s.Until > to && r.Matched == matched[r.ID]:
					t.Fatalf("rule %s: %+v is over at %s, and nothing was found", r.ID, s, to)
				case !open:
					over++
				}
			}
		}
	})
	if grown == 0 || over == 0 {
		t.Errorf("%d starts went on, %d ended: nothing was tried", grown, over)
	}
}

func TestOpenStartsOfNoRule(t *testing.T) {
	core, err := engine.New(setOf(rule("r", 10, element{from: "auth", kind: "a"})), []engine.Stream{{Name: "auth"}}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := core.OpenStarts("other", engine.OpenPlace{}, nil, nfa.OpenLimits{}, nil); !errors.Is(err, engine.ErrNoRule) {
		t.Error(err)
	}
}

// TestOpenStartsPages: pages of many keys go over all of them once, whatever the shards, also those that drain.
func TestOpenStartsPages(t *testing.T) {
	parts()
	seq := func(second string) *rules.Rule {
		r := rule("r", 100_000, element{from: "auth", kind: "a"}, element{from: "auth", kind: second})
		r.Fingerprint = second
		return r
	}
	l := newLife(t, setOf(seq("b")), engine.Options{Batch: 100, Shards: 3}, engine.Stream{Name: "auth"})
	for i := range 3000 {
		in := ev(auth0, cep.Time(i), "a", fmt.Sprint("u", i%1500))
		in.offset = int64(i)
		l.take(0, in)
	}
	l.swap(setOf(seq("c")), engine.Options{Batch: 100, Shards: 3})
	for i := range 3000 {
		in := ev(auth0, cep.Time(3000+i), "a", fmt.Sprint("u", i%1500))
		in.offset = int64(3000 + i)
		l.take(0, in)
	}
	l.Release()
	var places []engine.OpenPlace
	draining := 0
	for after := (engine.OpenPlace{}); ; {
		n := 0
		err := l.OpenStarts("r", after, nil, nfa.OpenLimits{Runs: 1}, func(s engine.OpenStart) bool {
			if n == 100 {
				return false
			}
			n++
			after = s.Place
			places = append(places, after)
			if s.Draining {
				draining++
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if n < 100 {
			break
		}
	}
	if s := l.Summary().Rules[0]; len(places) != s.Open+s.Draining || draining != s.Draining || s.Draining < 2000 || s.Open < 2000 {
		t.Errorf("%d places, %d of them draining, open %d and %d", len(places), draining, s.Open, s.Draining)
	}
	if !slices.IsSortedFunc(places, func(a, b engine.OpenPlace) int {
		if before(a, b) {
			return -1
		}
		return 1
	}) {
		t.Error("they stand in no order, or twice")
	}
}
