package nfa

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
)

// TestPrograms compares the print of programs with testdata/programs.golden; -update writes it.
func TestPrograms(t *testing.T) {
	var b strings.Builder
	print := func(text string, set func(*builder)) {
		s := sequence(t, text)
		if set != nil {
			set(s)
		}
		b.WriteString("# " + text + "\n" + s.compile(t).String() + "\n")
	}
	print("a", nil)
	print("a >>b", func(s *builder) {
		s.Within, s.After, s.Limits = seconds(600), SkipPastLast, Limits{StartsPerKey: 10_000, EventsPerMatch: 100}
	})
	print("a{5} >b", func(s *builder) { s.Ordered, s.Timeouts, s.KeepRaw = true, true, true })
	print("a >>>b+/any >>c? >d*", nil)
	print("a? >>b? >>c", nil)
	print("!x >>a !>y >>b{2,4}/strict !>>c", func(s *builder) {
		s.Elements[0].For, s.Elements[0].FromStart = Forever, true
		s.Elements[3].Within, s.Elements[3].LoopWithin = seconds(90), seconds(5)
		s.Elements[4].For = seconds(60)
		s.After, s.Target = SkipToLast, 3
	})
	print("a+ !>>x >>b? !>y >>c", func(s *builder) {
		s.Names[0].Keep = []int{3, 1}
		s.UsesPrev, s.PrevSlots = true, []int{2}
		s.Aggregates = []cep.Aggregate{{Kind: cep.AggregateSum, Step: 0, Slot: 3}, {Kind: cep.AggregateLast, Step: 2, Slot: -1}}
		s.Elements[2].Where = &Pred{Text: "b.x > sum(a, .x)"}
	})
	whole, _ := wholeFixture(t)
	b.WriteString("# everything else\n" + whole.Program().String())
	golden := filepath.Join("testdata", "programs.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, c := range []struct {
		text, want string
		set        func(*builder)
	}{
		{"a? >>b?", "can take nothing", nil},
		{"!x", "can take nothing", nil},
		{"!x >>a", "at the start without for", nil},
		{"!x >>a", "at the start without for", func(s *builder) { s.Elements[0].For = Forever }},
		{"a !>>x", "at the end without for or within", nil},
		{"a !>>x >>b?", "at the end without for or within", nil},
		{"a? !>>x >>b", "at the start or between", nil},
		{"a{3,2}", "a takes 3 to 2", nil},
		{"a", "unknown name", func(s *builder) { s.Elements[0].Name = 1 }},
		{"a", "unknown target", func(s *builder) { s.Target = 1 }},
		{"a", "aggregate 0 of the unknown name", func(s *builder) { s.Aggregates = []cep.Aggregate{{Step: 2}} }},
		{"a" + strings.Repeat(" >>b", maxElements), "at most 63", nil},
	} {
		s := sequence(t, c.text)
		if c.set != nil {
			c.set(s)
		}
		if _, err := Compile(s.Pattern); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
}

// TestCompileCopies: what the caller does with its pattern afterwards does not reach the program.
func TestCompileCopies(t *testing.T) {
	s := sequence(t, "a >>b")
	p := s.compile(t)
	before := p.String()
	s.Elements[1].Link = Strict
	if p.String() != before {
		t.Error("the program changed with the pattern it was made of")
	}
}

// TestLeast: how many events a rule takes at least.
func TestLeast(t *testing.T) {
	b := &builder{}
	a := func() Element { return leaf(b, "a", Relaxed) }
	group := func(from int, times, optional bool, list ...Element) Element {
		return Element{Kind: KindGroup, Elements: list, Min: from, Max: -1, Times: times, Optional: optional}
	}
	either := Element{Kind: KindAnyOf, Alternatives: [][]Element{{a(), a()}, {a()}}, Min: 2, Max: -1, Times: true, Optional: true}
	maybe := a()
	maybe.Optional, maybe.Min, maybe.Max = true, 3, 3
	for i, c := range []struct {
		element Element
		want    int
	}{
		{a(), 1},
		{group(2, true, false, a(), a()), 4},
		{group(2, true, false, either), 4},      // each repetition takes something, which is twice one
		{group(1, false, false, maybe, a()), 1}, // what is optional need not be taken
		{group(2, true, false, maybe), 6},
		{Element{Kind: KindAllOf, Elements: []Element{a(), a(), a()}, Need: 2}, 2},
	} {
		p, err := Compile(Pattern{Names: b.Names, Elements: []Element{c.element}})
		if err != nil {
			t.Fatal(err)
		}
		if p.least[0] != c.want {
			t.Errorf("case %d takes %d at least, want %d\n%s", i, p.least[0], c.want, p)
		}
	}
}
