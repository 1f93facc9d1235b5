package sim

import "testing"

// TestScenarios holds what is drawn against the engine: every rule of the pool raises alerts somewhere, every fate occurs,
// and the fates are those which the engine gives.
func TestScenarios(t *testing.T) {
	rulesSeen, fates := map[string]int{}, map[Fate]int{}
	for seed := range uint64(60) {
		s := Draw(seed)
		g, err := newGolden(s)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, s.Rules)
		}
		for l, list := range g.alerts {
			rulesSeen[l.rule] += len(list)
		}
		for _, f := range g.refused {
			fates[f]++
		}
	}
	t.Log(rulesSeen, fates)
	if len(rulesSeen) < len(rulePool) {
		t.Errorf("only %d of %d rules raise alerts: %v", len(rulesSeen), len(rulePool), rulesSeen)
	}
	for _, f := range []Fate{Late, Bad, Future} {
		if fates[f] < 60 {
			t.Errorf("fate %d: only %d", f, fates[f])
		}
	}
}
