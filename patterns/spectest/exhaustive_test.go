package spectest

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/oracle"
)

// operatorsDefault bounds the patterns of TestExhaustive: 3 operators take some seconds. CEPD_EXHAUSTIVE raises it: 4 is
// part of .ci/run, 5 is `make exhaustive`.
const (
	operatorsDefault = 3
	operatorsRace    = 2
	streamLength     = 6
)

// TestExhaustive holds the machine against the oracle on every pattern of a few operators and every stream of six events
// over three letters. An operator is a step, a quantifier other than one, a link other than relaxed (to an element or
// inside a loop), or an absence.
//
// Enumerated: every sequence of steps and absences, each of one of three letters, with every link, every one of the
// quantifiers, optional or not, with every inner link; absences at the start, between and at the end, strict or not; up
// to renaming of the letters. Each runs without a window, and with one, timeouts, and events at equal times. Letters that
// a pattern does not name are one letter to it. Streams of less than six events need no run: moments say what was decided
// when.
//
// Sampled: the strategies of selection, of which each pattern gets two in turn (they read nothing of a pattern but moments
// and first events), and the numbers in quantifiers, windows and times.
func TestExhaustive(t *testing.T) {
	most := operatorsDefault
	if raceEnabled {
		most = operatorsRace
	}
	if text := os.Getenv("CEPD_EXHAUSTIVE"); text != "" {
		var err error
		if most, err = strconv.Atoi(text); err != nil {
			t.Fatalf("CEPD_EXHAUSTIVE=%q: %v", text, err)
		}
	}
	streams := map[int][]oracle.Input{}
	for _, letters := range []int{1, 2, 3} {
		for _, ties := range []bool{false, true} {
			streams[2*letters+map[bool]int{true: 1}[ties]] = allStreams(min(letters+1, 3), ties)
		}
	}
	var all []drawn
	enumerate(most, func(elements []shapeElement, letters int) { all = append(all, drawn{elements, letters}) })
	var runs, matches atomic.Int64
	var workers sync.WaitGroup
	n := runtime.GOMAXPROCS(0)
	for w := range n {
		workers.Go(func() {
			for i := w; i < len(all) && !t.Failed(); i += n {
				for variant := range 2 {
					s := all[i].variant(i, variant)
					if !s.admitted() {
						continue
					}
					r, m, err := exhaust(s, streams[2*all[i].letters+variant])
					if err != nil {
						t.Error(err)
					}
					runs.Add(int64(r))
					matches.Add(int64(m))
				}
			}
		})
	}
	workers.Wait()
	t.Logf("exhaustive %d patterns of up to %d operators, %d runs over streams of %d events, %d matches", len(all), most, runs.Load(), streamLength, matches.Load())
	if matches.Load() == 0 {
		t.Error("nothing was found")
	}
}

// drawn are the elements of an enumerated pattern, and the number of letters that they name.
type drawn struct {
	elements []shapeElement
	letters  int
}

// variant makes the i-th pattern a rule: without a window, or with one, which then counts at the end, and timeouts.
func (d drawn) variant(i, variant int) *shape {
	s := &shape{elements: slices.Clone(d.elements), hides: -1}
	if variant == 1 {
		s.within, s.timeouts = 3, true
		for i := range s.elements {
			if s.elements[i].absent && s.elements[i].link != nfa.NoLink {
				s.elements[i].span = 0
			}
		}
	}
	selectionOf(s, 2*i+variant)
	return s
}

// exhaust holds the machine against the oracle on all the streams, and counts the runs and the matches.
func exhaust(s *shape, streams []oracle.Input) (runs, matches int, _ error) {
	r, memo, err := s.build()
	if err != nil {
		return 0, 0, fmt.Errorf("%v: %w", s, err)
	}
	for _, in := range streams {
		want := oracle.Run(r, in)
		got := drive(r, memo, in)
		runs++
		matches += len(want.Matches)
		if !same(got, want) {
			return runs, matches, fmt.Errorf("%v on %s\nmachine:\n%s\noracle:\n%s\n%v", s, letterString(in), Digest(got), Digest(want), r.Program)
		}
	}
	return runs, matches, nil
}

// selectionOf gives the shape the n-th of the ways to select.
func selectionOf(s *shape, n int) {
	ways := []nfa.AfterMatch{nfa.SkipNone, nfa.SkipPastLast, nfa.SkipToNext, nfa.SkipToFirst, nfa.SkipToLast}
	s.after = ways[n%len(ways)]
	n /= len(ways)
	s.ordered = n%2 == 1
	n /= 2
	leaves := s.leaves()
	s.target = n % len(leaves)
	for leaves[s.target].absent {
		s.target = (s.target + 1) % len(leaves)
	}
}

// enumerate visits the elements of every pattern of up to n operators that is not another one with its letters renamed.
// They are the visitor's to change.
func enumerate(n int, visit func(elements []shapeElement, letters int)) {
	var elements []shapeElement
	var extend func(budget, letters int)
	add := func(e shapeElement, budget, letters int) {
		for l := range min(letters+1, 3) {
			e.letter = byte('a' + l)
			elements = append(elements, e)
			extend(budget, max(letters, l+1))
			elements = elements[:len(elements)-1]
		}
	}
	extend = func(budget, letters int) {
		if s := (shape{elements: elements, within: 3}); s.admitted() {
			visit(append([]shapeElement{}, elements...), letters)
		}
		links := []nfa.Link{nfa.Relaxed, nfa.Strict, nfa.Any}
		if len(elements) == 0 {
			links = []nfa.Link{nfa.NoLink}
		}
		for _, link := range links {
			cost := 1
			if link == nfa.Strict || link == nfa.Any {
				cost++
			}
			if cost > budget {
				continue
			}
			first := len(elements) == 0 || elements[len(elements)-1].absent && elements[len(elements)-1].link == nfa.NoLink
			if first && link != nfa.NoLink && len(elements) > 0 && link != nfa.Relaxed {
				continue // behind an absence at the start the link says nothing
			}
			if link != nfa.Any {
				e := shapeElement{absent: true, link: link, min: 1, max: 1, span: 2}
				if first {
					e.link = nfa.NoLink
				} else if link == nfa.Strict {
					e.span = 0
				}
				add(e, budget-cost, letters)
			}
			for _, q := range quantifiers {
				e := q
				e.link = link
				if first {
					e.link = nfa.NoLink
				}
				if c := cost + q.operators(); c <= budget {
					add(e, budget-c, letters)
				}
			}
		}
	}
	extend(n, 0)
}

// quantifiers are the loops that are enumerated, with each of the inner links.
var quantifiers = func() []shapeElement {
	all := []shapeElement{
		{min: 1, max: 1, loop: nfa.Relaxed},
		{min: 1, max: 1, loop: nfa.Relaxed, optional: true},
	}
	for _, loop := range []nfa.Link{nfa.Relaxed, nfa.Strict, nfa.Any} {
		all = append(all,
			shapeElement{min: 1, max: -1, loop: loop},
			shapeElement{min: 1, max: -1, loop: loop, optional: true},
			shapeElement{min: 2, max: 2, loop: loop},
			shapeElement{min: 1, max: 2, loop: loop},
			shapeElement{min: 2, max: -1, loop: loop},
		)
	}
	return all
}()

// operators is what the quantifier and the inner link of a step cost.
func (e shapeElement) operators() int {
	n := 0
	if e.optional || e.max != 1 {
		n++
	}
	if e.loop != nfa.Relaxed {
		n++
	}
	return n
}

// allStreams gives every stream of streamLength events over the first letters, a second apart, or with ties; at the end
// time passes until everything is decided.
func allStreams(letters int, ties bool) []oracle.Input {
	times := [streamLength]cep.Time{1, 2, 3, 4, 5, 6}
	if ties {
		times = [streamLength]cep.Time{1, 1, 2, 3, 3, 5}
	}
	n := 1
	for range streamLength {
		n *= letters
	}
	p := &cep.Partition{Stream: "s", Name: "0"}
	all := make([]oracle.Input, n)
	for i := range all {
		in := oracle.Input{FirstTime: cep.BeforeAll}
		code := i
		for j, at := range times {
			letter := string(rune('a' + code%letters))
			code /= letters
			in.Entries = append(in.Entries, oracle.Entry{Event: &cep.Event{
				Time:     at * cep.Second,
				Seq:      uint64(j + 1),
				Position: cep.Position{Partition: p, Offset: int64(j)},
				Values:   []cep.Value{cep.String(letter), cep.Int(int64(j))},
			}})
		}
		in.Entries = append(in.Entries, oracle.Entry{Watermark: cep.Minute})
		all[i] = in
	}
	return all
}

// drive is Play for a rule without keys, without the router.
func drive(r *patterns.Rule, memo int, in oracle.Input) oracle.Output {
	out := oracle.Output{Open: make([]int, 0, len(in.Entries))}
	shared := nfa.NewMemo(memo)
	m := nfa.NewMachine(r.Program, shared)
	m.SetFirstTime(in.FirstTime)
	for _, e := range in.Entries {
		if e.Event == nil {
			m.Advance(e.Watermark)
		} else {
			shared.Next()
			m.Event(nil, e.Event, ^uint64(0))
		}
		out.Matches = append(out.Matches, m.Matches()...)
		out.Open = append(out.Open, m.OpenStarts())
	}
	out.Refused = int(m.Counters().Refused)
	return out
}

// same is Digest(a) == Digest(b), without the texts.
func same(a, b oracle.Output) bool {
	if len(a.Matches) != len(b.Matches) || a.Refused != b.Refused || !slices.Equal(a.Open, b.Open) {
		return false
	}
	for i, m := range a.Matches {
		n := b.Matches[i]
		if m.Kind != n.Kind || m.Key != n.Key || m.Moment != n.Moment || m.Completed != n.Completed || m.History.Total() != n.History.Total() {
			return false
		}
		for j := range m.History.Total() {
			x, y := m.History.Nth(j), n.History.Nth(j)
			if x.Step() != y.Step() || x.Position() != y.Position() {
				return false
			}
		}
	}
	return true
}

// letterString writes a stream as time and letter of each event.
func letterString(in oracle.Input) string {
	var sb strings.Builder
	for _, e := range in.Entries {
		if e.Event == nil {
			fmt.Fprintf(&sb, "advance@%d ", e.Watermark/cep.Second)
			continue
		}
		fmt.Fprintf(&sb, "%s@%d ", e.Event.Value(slotL).AsString(), e.Event.Time/cep.Second)
	}
	return sb.String()
}
