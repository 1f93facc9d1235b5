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
	led, pruning, matches := 0, 0, 0
	check := func(t *rapid.T) {
		d := &drawn{T: t, pattern: Pattern{Rule: "led"}}
		b := &d.pattern
		relaxed := d.one(2, "relaxed")
		for i := range rapid.IntRange(1, 4).Draw(t, "elements") {
			e := Element{Name: d.name(), Min: 1, Max: 1, Link: Relaxed, Loop: Relaxed, Where: d.kind()}
			e.Optional = i > 0 && d.one(4, "optional")
			if d.one(2, "loop") {
				e.Min = rapid.IntRange(1, 3).Draw(t, "min")
				e.Max = rapid.SampledFrom([]int{-1, -1, e.Min, e.Min + 2}).Draw(t, "max")
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
		}
		if p.pruning {
			pruning++
		}
		list := drawInput(t, 25, interner())
		m := NewMachine(plainly(p), nil)
		want := feedOutput(m, list)
		matches += int(m.counters.Matched)
		if diff := cmp.Diff(want, feedOutput(NewMachine(p, nil), list), nilIsEmpty); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%s", diff, p)
		}
	}
	rapid.Check(t, check)
	if led == 0 || pruning == 0 || matches == 0 {
		t.Errorf("%d led, %d pruning programs, %d matches", led, pruning, matches)
	}
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
