package nfa

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
)

// plainly is the program with every start followed and every run kept.
func plainly(p *Program) *Program {
	q := *p
	q.led, q.pruning, q.prunes = false, false, make([]bool, len(p.code))
	return &q
}

// TestLedIsFollowed holds led programs, and those in which runs dominate others, to the same program without either:
// what comes out, and what is open, is the same after every input. 1,000 cases: 3 s.
func TestLedIsFollowed(t *testing.T) {
	led, quiet, distinct, pruning, matches := 0, 0, 0, 0, 0
	check := func(t *rapid.T) {
		d := &drawn{T: t, pattern: Pattern{Rule: "led"}}
		b := &d.pattern
		relaxed := d.one(2, "relaxed")
		quietly := relaxed && d.one(2, "until quiet")
		most := 4
		if quietly {
			most = 1
		}
		for i := range rapid.IntRange(1, most).Draw(t, "elements") {
			e := Element{Name: d.name(), Min: 1, Max: 1, Link: Relaxed, Loop: Relaxed, Where: d.kind()}
			e.Optional = i > 0 && d.one(4, "optional")
			if quietly || d.one(2, "loop") {
				e.Min = rapid.IntRange(1, 3).Draw(t, "min")
				e.Max = rapid.SampledFrom([]int{-1, -1, e.Min, e.Min + 2}).Draw(t, "max")
			}
			if e.Max != 1 && d.one(2, "distinct") {
				e.Distinct = value()
			}
			if !relaxed {
				e.Link, e.Loop = d.link(), d.link()
				e.Within = d.span("within")
				if i > 0 && d.one(4, "absent") {
					e.Absent, e.Min, e.Max, e.For = true, 1, 1, e.Within
					e.Within = 0
				}
			}
			b.Elements = append(b.Elements, e)
		}
		if quietly {
			b.Elements = append(b.Elements, Element{
				Name: d.name(), Absent: true, Link: Relaxed, Where: d.kind(), For: seconds(rapid.IntRange(1, 4).Draw(t, "for")),
			})
		}
		b.Within = d.span("window")
		b.After = rapid.SampledFrom([]AfterMatch{SkipPastLast, SkipToNext}).Draw(t, "after")
		b.Ordered = d.one(3, "ordered")
		b.Timeouts = d.one(3, "timeouts")
		b.Limits.StartsPerKey = rapid.SampledFrom([]int{0, 0, 2, 4}).Draw(t, "starts")
		b.Limits.DropOldest = rapid.Bool().Draw(t, "drop oldest")
		b.Limits.EventsPerMatch = rapid.SampledFrom([]int{0, 4, 6, 100}).Draw(t, "events")
		p, err := Compile(*b)
		if err != nil || !p.led && !p.pruning {
			t.Skip("neither led nor pruning")
		}
		if p.led {
			led++
			if p.end != 0 {
				quiet++
			}
			if b.Elements[0].Distinct != nil {
				distinct++
			}
		}
		if p.pruning {
			pruning++
		}
		list := drawInput(t, 25, interner())
		m := NewMachine(plainly(p), nil)
		want := feedOutput(m, list)
		matches += int(m.counters.Matched)
		if diff := cmp.Diff(want, feedOutput(NewMachine(p, nil), list), nilIsEmpty); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%s%s", diff, p, inputs(list))
		}
	}
	seen := func() bool { return led > 0 && quiet > 0 && distinct > 0 && pruning > 0 && matches > 0 }
	for round := 0; round < 4 || round < 40 && !seen(); round++ { // most are plain, one led program in thirty counts values
		rapid.Check(t, check)
	}
	if !seen() {
		t.Errorf("%d led programs, %d that wait for quiet, %d that count values, %d pruning, %d matches", led, quiet, distinct, pruning, matches)
	}
}

// inputs prints what was drawn.
func inputs(list []input) string {
	s := ""
	for i, in := range list {
		if in.event == nil {
			s += fmt.Sprintf("%d: advance %v\n", i, in.advance)
			continue
		}
		s += fmt.Sprintf("%d: %s %s at %v for %b\n", i, in.key, in.event.Value(slotKind).AsString(), in.event.Time, in.mask)
	}
	return s
}

// feedOutput runs the inputs and prints after each what was let out and how much is open.
func feedOutput(m *Machine, list []input) []string {
	var out []string
	for _, in := range list {
		if in.event != nil {
			m.Event([]byte(in.key), in.event, in.mask)
		} else {
			m.Advance(in.advance)
		}
		s := fmt.Sprint(m.OpenStarts(), " open, ", m.Counters().Refused, " refused;")
		for _, x := range m.Matches() {
			s += fmt.Sprintf(" %s %s;", x.Key, line(m.program, x))
		}
		out = append(out, s)
	}
	return out
}

// TestLoopBefore: ten thousand events of a loop on one key hold ten thousand starts, and neither their chains nor their
// steps multiply: without the rules of lead.go this takes gigabytes and minutes.
func TestLoopBefore(t *testing.T) {
	s := sequence(t, "a{5,} >>b")
	s.Within, s.After = seconds(10_000), SkipPastLast
	s.Limits = Limits{StartsPerKey: 10_000, EventsPerMatch: 10_000}
	p := s.compile(t)
	m := NewMachine(p, nil)
	seq := uint64(0)
	event := func(kind string) {
		seq++
		m.Event([]byte("k"), &cep.Event{Time: cep.Time(seq) * cep.Second, Seq: seq, Values: []cep.Value{cep.String(kind)}}, all)
	}
	for range 15_000 {
		event("a")
	}
	if m.OpenStarts() != 10_000 {
		t.Fatalf("%d starts are open", m.OpenStarts())
	}
	event("b")
	got := m.Matches()
	if len(got) != 1 || got[0].History.Len(0) != 9_999 || m.OpenStarts() != 0 || m.Keys() != 0 {
		t.Fatalf("%d matches, %d starts of %d keys are left", len(got), m.OpenStarts(), m.Keys())
	}
	// The window is inclusive: at 15,001 the oldest start is that of 5,001. It has as many events as a match may have.
	if first := got[0].History.Nth(0).Time(); first != 5_001*cep.Second {
		t.Errorf("the match begins at %v", first)
	}
}

// TestBurst: ten thousand events collected until it is quiet are one match, at a cost that does not grow with them.
func TestBurst(t *testing.T) {
	s := sequence(t, "a{3,} !>>a2")
	s.Within, s.After = seconds(20_000), SkipPastLast
	s.Elements[1].For = seconds(60)
	s.Limits = Limits{StartsPerKey: 10_000, EventsPerMatch: 10_000}
	m := NewMachine(s.compile(t), nil)
	for seq := range uint64(10_000) {
		m.Event([]byte("k"), &cep.Event{Time: cep.Time(seq) * cep.Second, Seq: seq + 1, Values: []cep.Value{cep.String("a")}}, all)
	}
	if m.OpenStarts() != 10_000 {
		t.Fatalf("%d starts are open", m.OpenStarts())
	}
	m.Advance(cep.AfterAll)
	got := m.Matches()
	if len(got) != 1 || got[0].History.Len(0) != 10_000 || got[0].Moment.Time != (9_999+60)*cep.Second || m.Keys() != 0 {
		t.Fatalf("%d matches, %d keys are left", len(got), m.Keys())
	}
}
