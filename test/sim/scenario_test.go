package sim

import "testing"

// TestScenarios holds what is drawn against the engine: every rule of the pool raises alerts somewhere, every fate occurs,
// and the fates are those which the engine gives.
func TestScenarios(t *testing.T) {
	rulesSeen, fates, small := map[string]int{}, map[Fate]int{}, 0
	for seed := range uint64(100) {
		s := Draw(seed)
		g, err := newGolden(s)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, s.Rules)
		}
		if s.Small {
			small += g.number
		}
		for l, list := range g.alerts {
			rulesSeen[l.rule] += len(list)
		}
		for _, f := range g.refused {
			fates[f]++
		}
	}
	t.Log(rulesSeen, fates, small)
	if len(rulesSeen) < len(rulePool) {
		t.Errorf("only %d of %d rules raise alerts: %v", len(rulesSeen), len(rulePool), rulesSeen)
	}
	if small < 50 {
		t.Errorf("the oracle has seen %d alerts", small)
	}
	for _, f := range []Fate{Late, Bad, Future} {
		if fates[f] < 60 {
			t.Errorf("fate %d: only %d", f, fates[f])
		}
	}
}
