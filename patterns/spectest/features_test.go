package spectest

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns/oracle"
)

// featuresDefault bounds the patterns of TestExhaustiveFeatures; CEPD_EXHAUSTIVE raises it. With fewer operators there is no
// pattern with most of the words.
const (
	featuresDefault = 3
	featuresLength  = 5
)

// feature is a word of the language, and how it is put on a leaf or a composite; its operator costs one.
type feature struct {
	name string
	// leaf gives the variants of a leaf with the word; composite those of a sequence made a composite.
	leaf      func(e shapeElement) []shapeElement
	composite func(parts []shapeElement) []shapeElement
}

var featureList = []feature{
	{name: "greedy", leaf: func(e shapeElement) []shapeElement {
		if e.max == 1 && !e.optional {
			return nil
		}
		e.greedy = true
		return []shapeElement{e}
	}},
	{name: "until", leaf: func(e shapeElement) []shapeElement {
		if e.max >= 0 {
			return nil
		}
		return untils(e)
	}},
	{name: "having", leaf: func(e shapeElement) []shapeElement {
		if e.max == 1 {
			return nil
		}
		e.having = notTwo
		return []shapeElement{e}
	}},
	{name: "distinct", leaf: func(e shapeElement) []shapeElement {
		if e.max == 1 {
			return nil
		}
		e.distinct = true
		return []shapeElement{e}
	}},
	{name: "first_seen", leaf: func(e shapeElement) []shapeElement {
		e.seen = seen{word: true, fromStart: true}
		return []shapeElement{e}
	}},
	{name: "group", composite: func(parts []shapeElement) []shapeElement {
		g := shapeElement{kind: nfa.KindGroup, loop: nfa.Relaxed, min: 1, max: -1, times: true, parts: [][]shapeElement{parts}}
		strict, twice, optional := g, g, g
		strict.loop = nfa.Strict
		twice.min, twice.max = 2, 2
		optional.times, optional.max, optional.optional = false, 1, true
		return append(untils(g), g, strict, twice, optional)
	}},
	{name: "any_of", composite: func(parts []shapeElement) []shapeElement {
		var all []shapeElement
		for i := 1; i < len(parts); i++ {
			second := slices.Clone(parts[i:])
			second[0].link = nfa.NoLink
			a := shapeElement{kind: nfa.KindAnyOf, loop: nfa.Relaxed, min: 1, max: 1, parts: [][]shapeElement{parts[:i], second}}
			loop := a
			loop.max, loop.times = -1, true
			all = append(all, a, loop)
		}
		return all
	}},
	{name: "all_of", composite: func(parts []shapeElement) []shapeElement {
		members := slices.Clone(parts)
		for i, m := range members {
			if m.absent || m.optional || m.max != 1 || m.kind != nfa.KindLeaf || i > 0 && m.link != nfa.Relaxed {
				return nil
			}
			members[i].link = nfa.NoLink
		}
		if len(members) < 2 {
			return nil
		}
		a := shapeElement{kind: nfa.KindAllOf, loop: nfa.Relaxed, min: 1, max: 1, parts: [][]shapeElement{members}}
		one, related := a, a
		one.need = 1
		related.related = true
		return []shapeElement{a, one, related}
	}},
}

func untils(e shapeElement) []shapeElement {
	var all []shapeElement
	for _, letter := range "abc" {
		e.until = byte(letter)
		all = append(all, e)
	}
	return all
}

// TestExhaustiveFeatures holds the machine against the oracle on every small pattern that has one of the words above, once,
// beside steps, absences, links and the quantifiers ? and 1.., and on `without` and `keep: newest`; on every stream of
// five events over three letters. An operator is what it is in TestExhaustive, or a word; a composite's own quantifier is
// part of the word. Windows and strategies of selection are spread over the patterns. 4 operators take 20 s of CPU, 5 take
// some minutes.
func TestExhaustiveFeatures(t *testing.T) {
	most := featuresDefault
	if text := os.Getenv("CEPD_EXHAUSTIVE"); text != "" {
		var err error
		if most, err = strconv.Atoi(text); err != nil {
			t.Fatalf("CEPD_EXHAUSTIVE=%q: %v", text, err)
		}
	}
	streams := featureStreams()
	for _, f := range append(featureList, feature{name: "without"}, feature{name: "newest"}) {
		t.Run(f.name, func(t *testing.T) {
			shapes := f.shapes(most)
			var runs, matches atomic.Int64
			var workers sync.WaitGroup
			n := runtime.GOMAXPROCS(0)
			for w := range n {
				workers.Go(func() {
					for i := w; i < len(shapes) && !t.Failed(); i += n {
						s := shapes[i]
						if i%2 == 1 {
							s.within, s.timeouts = 3, true
						}
						selectionOf(s, i/2)
						if !s.admitted() {
							continue
						}
						r, m, err := exhaust(s, streams)
						if err != nil {
							t.Error(err)
						}
						runs.Add(int64(r))
						matches.Add(int64(m))
					}
				})
			}
			workers.Wait()
			t.Logf("exhaustive %s: %d patterns of up to %d operators, %d runs over streams of %d events, %d matches",
				f.name, len(shapes), most, runs.Load(), featuresLength, matches.Load())
			if matches.Load() == 0 {
				t.Error("nothing was found")
			}
		})
	}
}

// shapes gives the patterns of up to n operators that have the word.
func (f feature) shapes(n int) []*shape {
	var all []*shape
	add := func(elements []shapeElement, without ...shapeElement) {
		s := &shape{elements: cloneElements(elements), without: without, hides: -1, newest: f.name == "newest"}
		for _, e := range s.leaves() { // at the end an absence needs a span, between it has none
			if e.absent {
				e.span = 0
				if s.spots()[e]&between == 0 {
					e.span = 2
				}
			}
		}
		if canonical(s.leaves()) && s.admitted() {
			all = append(all, s)
		}
	}
	for cost := 1; cost <= n; cost++ {
		switch f.name {
		case "without":
			for _, elements := range sequences(cost-1, true) {
				for _, letter := range "abc" {
					add(elements, shapeElement{letter: byte(letter), link: nfa.Relaxed, min: 1, max: 1})
				}
			}
			continue
		case "newest":
			for _, elements := range sequences(cost, true) {
				plain := !slices.ContainsFunc(elements, func(e shapeElement) bool {
					return e.absent || e.optional || e.max != 1 || e.link > nfa.NoLink && e.link != nfa.Relaxed
				})
				if plain {
					add(elements)
				}
			}
			continue
		}
		for before := range cost {
			for inside := 0; before+inside < cost; inside++ {
				f.between(before, inside, cost-1-before-inside, add)
			}
		}
	}
	return all
}

// between puts the word on what costs inside, between what costs before and behind.
func (f feature) between(before, inside, behind int, add func([]shapeElement, ...shapeElement)) {
	for _, head := range sequences(before, true) {
		for _, with := range f.with(inside, before == 0) {
			for _, tail := range sequences(behind, false) {
				add(slices.Concat(head, []shapeElement{with}, tail))
			}
		}
	}
}

// with gives the elements with the word whose rest costs n.
func (f feature) with(n int, first bool) []shapeElement {
	var all []shapeElement
	if f.leaf != nil {
		for _, e := range singles(n, first) {
			if !e.absent {
				all = append(all, f.leaf(e)...)
			}
		}
		return all
	}
	for _, link := range []nfa.Link{nfa.Relaxed, nfa.Strict, nfa.Any} {
		rest := n
		if link != nfa.Relaxed {
			rest--
		}
		if first && link != nfa.Relaxed || rest < 1 {
			continue
		}
		for _, parts := range sequences(rest, true) {
			if !hasStep(parts) { // absences alone are no sequence
				continue
			}
			for _, e := range f.composite(parts) {
				e.link = link
				if first {
					e.link = nfa.NoLink
				}
				all = append(all, e)
			}
		}
	}
	return all
}

// sequences gives the sequences of leaves that cost n; first says that nothing stands before them.
func sequences(n int, first bool) [][]shapeElement {
	if n == 0 {
		return [][]shapeElement{nil}
	}
	var all [][]shapeElement
	for k := 1; k <= n; k++ {
		for _, e := range singles(k, first) {
			for _, rest := range sequences(n-k, false) {
				all = append(all, slices.Concat([]shapeElement{e}, rest))
			}
		}
	}
	return all
}

// singles gives the leaves that cost n.
func singles(n int, first bool) []shapeElement {
	var all []shapeElement
	for _, link := range []nfa.Link{nfa.Relaxed, nfa.Strict, nfa.Any} {
		for _, q := range []shapeElement{
			{min: 1, max: 1, loop: nfa.Relaxed},
			{min: 1, max: 1, loop: nfa.Relaxed, optional: true},
			{min: 1, max: -1, loop: nfa.Relaxed},
			{min: 1, max: 1, loop: nfa.Relaxed, absent: true},
		} {
			cost := 1 + q.operators()
			if link != nfa.Relaxed {
				cost++
			}
			if cost != n || first && link != nfa.Relaxed || q.absent && link == nfa.Any {
				continue
			}
			q.link = link
			if first {
				q.link = nfa.NoLink
			}
			for _, letter := range "abc" {
				q.letter = byte(letter)
				all = append(all, q)
			}
		}
	}
	return all
}

// canonical says that no renaming of letters gives a pattern that was there before: they appear in their order.
func canonical(leaves []*shapeElement) bool {
	next := byte('a')
	for _, e := range leaves {
		if e.letter > next {
			return false
		}
		if e.letter == next {
			next++
		}
	}
	return true
}

// cloneElements copies elements with their parts.
func cloneElements(elements []shapeElement) []shapeElement {
	all := slices.Clone(elements)
	for i := range all {
		all[i].parts = slices.Clone(all[i].parts)
		for j, p := range all[i].parts {
			all[i].parts[j] = cloneElements(p)
		}
	}
	return all
}

// featureStreams gives every stream of featuresLength events over three letters, with ties and two values of n.
func featureStreams() []oracle.Input {
	times := [featuresLength]cep.Time{1, 2, 2, 3, 5}
	var all []oracle.Input
	p := &cep.Partition{Stream: "s", Name: "0"}
	n := 1
	for range featuresLength {
		n *= 3
	}
	for code := range n {
		in := oracle.Input{FirstTime: cep.BeforeAll}
		for j, at := range times {
			in.Entries = append(in.Entries, oracle.Entry{Event: &cep.Event{
				Time: at * cep.Second, Seq: uint64(j + 1), Position: cep.Position{Partition: p, Offset: int64(j)},
				Values: []cep.Value{cep.String(string(rune('a' + code%3))), cep.Int(int64(j * j % 3))},
			}})
			code /= 3
		}
		in.Entries = append(in.Entries, oracle.Entry{Watermark: cep.Minute})
		all = append(all, in)
	}
	return all
}
