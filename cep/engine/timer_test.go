package engine_test

import (
	"testing"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
)

// Each look at the timer is a microsecond after the one before, so what is timed takes one: the estimate is the number of events,
// whatever comes around in them.
func TestEvaluationIsTimed(t *testing.T) {
	looks := time.Duration(0)
	o := engine.Options{Batch: 16, Timer: func() time.Duration {
		looks++
		return looks * time.Microsecond
	}}
	b := newBenchWith(t, setOf(rule("a", 9, element{from: "auth", kind: "a"}), rule("b", 9, element{from: "auth", kind: "b"})), o, engine.Stream{Name: "auth"})
	const n = 64_000
	var list []input
	for i := range n {
		list = append(list, ev(auth0, cep.Time(i), []string{"a", "b"}[i%2], "u")) // in step with any even distance
	}
	b.push(number(list)...)
	b.Finish(engine.ToEnd)
	if looks < n/64/2 || looks > n/64*4 {
		t.Errorf("%d looks at the timer for %d events", looks, n)
	}
	for _, r := range b.Summary().Rules {
		if want := n / 2 * time.Microsecond; r.Evaluation < want*8/10 || r.Evaluation > want*12/10 {
			t.Errorf("rule %s: %v, want about %v", r.ID, r.Evaluation, want)
		}
	}
}
