package nfa

import (
	"testing"

	"github.com/cepd/cepd/cep"
)

func seconds(s int) cep.Duration { return cep.Duration(s) * cep.Duration(cep.Second) }

// TestMatches holds the machine to worked examples: tables 1, 2 and 5 of what FlinkCEP does, and the sentences of the
// semantics. after_match is none unless the case says otherwise.
func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, events, want string
		advance               []float64
		set                   func(*builder)
	}{
		// S3.2
		{pattern: "a >b", events: "a c b b", want: ""},
		{pattern: "a >>b", events: "a c b b", want: "a=1 b=3 @3"},
		{pattern: "a >>>b", events: "a c b b", want: "a=1 b=3 @3; a=1 b=4 @4"},
		{pattern: "a >>b", events: "a a b b", want: "a=1 b=3 @3; a=2 b=3 @3"},
		{pattern: "a >>>b", events: "a a b b", want: "a=1 b=3 @3; a=2 b=3 @3; a=1 b=4 @4; a=2 b=4 @4"},
		{pattern: "a >b", events: "a@1 x@1 b@1", want: ""},
		{pattern: "a >b", events: "a@1 b@1", want: "a=1 b=2 @2"},
		// S3.3
		{pattern: "a >>b+/strict >>c", events: "a b d b d b c", want: "a=1 b=2 c=7 @7"},
		{pattern: "a >>b+ >>c", events: "a b d b d b c", want: "a=1 b=2,4,6 c=7 @7; a=1 b=2,4 c=7 @7; a=1 b=2 c=7 @7"},
		{pattern: "a >>b+/any >>c", events: "a b d b d b c", want: "a=1 b=2,4,6 c=7 @7; a=1 b=2,4 c=7 @7; a=1 b=2,6 c=7 @7; a=1 b=2 c=7 @7"},
		{pattern: "a >>>b+/strict >>c", events: "a b d b d b c", want: "a=1 b=2 c=7 @7; a=1 b=4 c=7 @7; a=1 b=6 c=7 @7"},
		{pattern: "a >>b+", events: "a b b b", want: "a=1 b=2 @2; a=1 b=2,3 @3; a=1 b=2,3,4 @4"},
		{pattern: "a >>b*", events: "a b b", want: "a=1 @1; a=1 b=2 @2; a=1 b=2,3 @3"},
		{pattern: "a+ >>b", events: "a a b", want: "a=1,2 b=3 @3; a=1 b=3 @3; a=2 b=3 @3"},
		{pattern: "a{2}", events: "a x a a", want: "a=1,3 @3; a=3,4 @4"},
		{pattern: "a{2}/strict", events: "a x a a", want: "a=3,4 @4"},
		{pattern: "a{2}/any", events: "a a a", want: "a=1,2 @2; a=1,3 @3; a=2,3 @3"},
		{pattern: "a >>b? >>c", events: "a b c", want: "a=1 b=2 c=3 @3; a=1 c=3 @3"},
		{pattern: "a >b? >c", events: "a b c a c", want: "a=1 b=2 c=3 @3; a=4 c=5 @5"},
		{pattern: "a? >>b", events: "a b", want: "a=1 b=2 @2; b=2 @2"},
		{pattern: "a >>b{3,} >>c", events: "a b b b b c", want: "a=1 b=2,3,4,5 c=6 @6; a=1 b=2,3,4 c=6 @6"},
		// S2.1: what is left out leaves no trace.
		{pattern: "a >>b? >c", events: "a x c", want: ""},
		// S4.1
		{pattern: "a !>b >>c", events: "a b c a x c", want: "a=4 c=6 @6"},
		{pattern: "a !>b >>>c >>d", events: "a c b c d", want: "a=1 c=2 d=5 @5; a=1 c=4 d=5 @5"},
		{pattern: "a !>>b >>c", events: "a c b c a c", want: "a=1 c=2 @2; a=5 c=6 @6"},
		{pattern: "a !>>b >>>c", events: "a a c b a c", want: "a=1 c=3 @3; a=2 c=3 @3; a=5 c=6 @6"},
		{pattern: "a !>>b >>c+", events: "a c b c", want: "a=1 c=2 @2; a=1 c=2,4 @4"},
		{pattern: "a+ !>>b >>c", events: "a b a c", want: "a=3 c=4 @4"},
		{pattern: "a+ !>>ab >>c", events: "a a c", want: "a=2 c=3 @3"}, // the loop's own events count
		{pattern: "a !>>bc >>c", events: "a c", want: "a=1 c=2 @2"},
		{pattern: "a !>bc >>c", events: "a c", want: ""},
		// S4.2
		{
			pattern: "a !>>b", events: "a@0 x@1 b@9", want: "a=1 @5s",
			set: func(b *builder) { b.Elements[1].For = seconds(5) },
		},
		{
			pattern: "a !>>b", events: "a@0 b@5 a@6 b@12", want: "a=3 @11s",
			set: func(b *builder) { b.Elements[1].For = seconds(5) },
		},
		{
			pattern: "a >>c !>>b", events: "a@0 c@9", advance: []float64{9, 9.5, 10}, want: "a=1 c=2 @10s",
			set: func(b *builder) { b.Within = seconds(10) },
		},
		{
			pattern: "a >>c !>>b", events: "a@0 c@9", advance: []float64{9.9}, want: "",
			set: func(b *builder) { b.Within = seconds(10) },
		},
		{
			pattern: "a+ !>>a2", events: "a@0 a@3 a@9", advance: []float64{100}, want: "a=1,2 @8s; a=2 @8s; a=1,2,3 @14s; a=2,3 @14s; a=3 @14s",
			set: func(b *builder) { b.Elements[1].For = seconds(5) },
		},
		{pattern: "a !>b", events: "a b a x", want: "a=3 @4"},
		{
			pattern: "a !>b", events: "a@0", advance: []float64{1, 6}, want: "a=1 @5s",
			set: func(b *builder) { b.Elements[1].For = seconds(5) },
		},
		{
			pattern: "a !>>b !>>c", events: "a@0 a@1 c@7", advance: []float64{20}, want: "",
			set: func(b *builder) { b.Elements[1].For, b.Elements[2].For = seconds(3), seconds(8) },
		},
		{
			pattern: "a !>>b !>>c", events: "a@0 a@1 b@6", advance: []float64{20}, want: "a=1 @8s; a=2 @9s",
			set: func(b *builder) { b.Elements[1].For, b.Elements[2].For = seconds(3), seconds(8) },
		},
		// S4.3
		{
			pattern: "!b >>a", events: "a@0 b@1 a@6 b@7 a@13", want: "a=1 @1; a=5 @5",
			set: func(b *builder) { b.Elements[0].For = seconds(5) },
		},
		{
			pattern: "!b >>a", events: "a@0 b@1 a@2000", want: "a=1 @1",
			set: func(b *builder) { b.Elements[0].For, b.Elements[0].FromStart = Forever, true },
		},
		// S5.1
		{
			pattern: "a >>b", events: "a@0 b@10 a@20 b@30.001", want: "a=1 b=2 @2",
			set: func(b *builder) { b.Within = seconds(10) },
		},
		{
			pattern: "a >>b+ >>c", events: "a@0 b@2 b@5 b@9 c@10", want: "a=1 b=2,3 c=5 @5; a=1 b=2 c=5 @5",
			set: func(b *builder) { b.Elements[1].Within, b.Elements[1].LoopWithin = seconds(2), seconds(3) },
		},
		// S5.4
		{
			pattern: "a >>b", events: "a a b", want: "a=1 b=3 @3",
			set: func(b *builder) { b.After = SkipPastLast },
		},
		{
			pattern: "a+ >>b", events: "a a b", want: "a=1,2 b=3 @3; a=2 b=3 @3",
			set: func(b *builder) { b.After = SkipToNext },
		},
		{
			pattern: "a >>b+", events: "a b b b", want: "a=1 b=2 @2",
			set: func(b *builder) { b.After = SkipPastLast },
		},
		{
			pattern: "a >>b >>c", events: "a a b b c", want: "a=1 b=3 c=5 @5",
			set: func(b *builder) { b.After, b.Target = SkipToFirst, 1 },
		},
		{
			pattern: "a+ >>b", events: "a a a b", want: "a=1,2,3 b=4 @4; a=3 b=4 @4",
			set: func(b *builder) { b.After, b.Target = SkipToLast, 0 },
		},
		// S5.5
		{
			// The first start is open until its window ends, and nothing prunes the second.
			pattern: "a >>b >>c{2}", events: "a@0 a@2 b@3 c@9 c@11", advance: []float64{20}, want: "a=2 b=3 c=4,5 @5",
			set: func(b *builder) { b.Ordered, b.After, b.Within = true, SkipPastLast, seconds(10) },
		},
		{
			// The first start goes on waiting for another d, and holds the second start's matches back.
			pattern: "a >>c >>>d", events: "a@0 a@1 c@2 d@3 d@9 a@12", advance: []float64{30},
			want: "a=1 c=3 d=4 @4; a=1 c=3 d=5 @5; a=2 c=3 d=4 @10s; a=2 c=3 d=5 @10s",
			set:  func(b *builder) { b.Ordered, b.Within = true, seconds(10) },
		},
		// S5.7
		{
			pattern: "a >>b >>c", events: "a@0 b@2 a@3 c@14", advance: []float64{30}, want: "timeout a=1 b=2 @10s; timeout a=3 @13s",
			set: func(b *builder) { b.Timeouts, b.Within = true, seconds(10) },
		},
		{
			pattern: "a >>b !>>c >>d", events: "a@0 b@2 c@3", advance: []float64{30}, want: "",
			set: func(b *builder) { b.Timeouts, b.Within = true, seconds(10) },
		},
	} {
		b := sequence(t, c.pattern)
		if c.set != nil {
			c.set(b)
		}
		p := b.compile(t)
		if got := play(p, stream(c.events), c.advance...); got != c.want {
			t.Errorf("%s on %s\n got %s\nwant %s\n%s", c.pattern, c.events, got, c.want, p)
		}
	}
}
