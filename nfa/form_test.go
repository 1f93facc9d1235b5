package nfa

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
)

func TestForms(t *testing.T) {
	for _, c := range []struct {
		a, b   string
		change func(*Pattern)
		shared bool
	}{
		{a: "a >>b", b: "b >>c", shared: true},
		{a: "a >>b", b: "a >b"},
		{a: "a >>b", b: "a >>b", shared: true},
		{a: "a >>b", b: "a >>b >>c"},
		{a: "a >>b", b: "a >>b", change: func(p *Pattern) { p.Rule, p.Names[1].Name = "other", "other" }, shared: true},
		{a: "a >>b", b: "a >>b", change: func(p *Pattern) { p.Within = seconds(3) }},
		{a: "a >>b", b: "a >>b", change: func(p *Pattern) { p.Limits.StartsPerKey = 3 }},
		{a: "a >>b", b: "a >>b", change: func(p *Pattern) { p.Timeouts = true }},
		{a: "a >>b", b: "a >>b", change: func(p *Pattern) { p.Names[0].Keep = []int{slotKind} }},
		{a: "a >>b", b: "a >>b", change: func(p *Pattern) { p.Elements[1].Where = nil }},
		{a: "a >>b", b: "a >>b", change: func(p *Pattern) {
			p.Elements[1].Where = &Pred{Text: "looks back", Test: func(*cep.Scope) (bool, error) { return true, nil }}
		}},
		{a: "a >>b", b: "a >>b", change: func(p *Pattern) { p.Elements[1].Edge = true }},
	} {
		var forms Forms
		compile := func(p Pattern) *Program {
			program, err := forms.Compile(p)
			if err != nil {
				t.Fatal(err)
			}
			return program
		}
		a, b := sequence(t, c.a).Pattern, sequence(t, c.b).Pattern
		if c.change != nil {
			c.change(&b)
		}
		first, second := compile(a), compile(b)
		if shared := first.form == second.form; shared != c.shared {
			t.Errorf("shared %v:\n%s%s", shared, first, second)
		}
		if again := compile(b); again.form != second.form {
			t.Errorf("a second form of the same:\n%s", again)
		}
	}
}

// TestFormsMeanTheSame: beside others of its form a program does what it does alone.
func TestFormsMeanTheSame(t *testing.T) {
	shared, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		a := *drawPattern(t, rapid.Bool().Draw(t, "flat")).Pattern()
		b := a
		d := &drawn{T: t}
		b.Elements = d.otherwise(a.Elements)
		b.Rule = "other"
		list := drawInput(t, 30, interner())
		var forms Forms
		memo := NewMemo(0)
		var programs []*Program
		var machines []*Machine
		for _, p := range []Pattern{a, b} {
			program, err := forms.Compile(p)
			if err != nil {
				t.Fatalf("with other conditions it does not compile: %v", err)
			}
			programs = append(programs, program)
			machines = append(machines, NewMachine(program, memo))
		}
		all++
		if programs[0].form == programs[1].form {
			shared++
		}
		got := make([][]string, len(machines))
		for i := range list {
			memo.Next()
			for k, m := range machines {
				got[k] = append(got[k], feed(m, list[i:i+1])...)
			}
		}
		for k, p := range []Pattern{a, b} {
			alone, err := Compile(p)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(alone.String(), programs[k].String()); d != "" {
				t.Fatalf("program %d (-alone +shared):\n%s", k, d)
			}
			if d := cmp.Diff(feed(NewMachine(alone, nil), list), got[k]); d != "" {
				t.Fatalf("program %d (-alone +shared):\n%s\n%s", k, d, alone)
			}
		}
	})
	if shared == 0 || shared == all {
		t.Errorf("%d of %d pairs shared their form", shared, all)
	}
}

// otherwise copies elements with other conditions where these are of the event alone.
func (d *drawn) otherwise(list []Element) []Element {
	list = slices.Clone(list)
	for i := range list {
		e := &list[i]
		if e.Kind == KindLeaf && e.Where != nil && e.Where.Unary {
			if other := d.kind(); other != nil {
				e.Where = other
			}
		}
		e.Elements = d.otherwise(e.Elements)
		e.Alternatives = slices.Clone(e.Alternatives)
		for k := range e.Alternatives {
			e.Alternatives[k] = d.otherwise(e.Alternatives[k])
		}
	}
	return list
}
