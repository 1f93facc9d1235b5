package engine_test

import (
	"fmt"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/patterns"
)

// BenchmarkSummary asks an engine of ten thousand rules how it is: meanwhile no event is worked on.
func BenchmarkSummary(b *testing.B) {
	parts()
	var list []*patterns.Rule
	for i := range 10_000 {
		list = append(list, rule(fmt.Sprintf("r%05d", i), 100, element{from: "auth", kind: "a"}, element{from: "auth", kind: "b"}))
	}
	e := newBenchWith(b, setOf(list...), engine.Options{Batch: 1}, engine.Stream{Name: "auth"})
	e.push(number([]input{ev(auth0, cep.Time(1), "a", "u")})...)
	for b.Loop() {
		if s := e.Summary(); len(s.Rules) != len(list) {
			b.Fatal(len(s.Rules))
		}
	}
}
