package alert

import (
	"slices"

	"github.com/cepd/cepd/cep"
)

// Silence holds back alerts of a time from From on and before Until whose key has the parts (S7.1).
type Silence struct {
	From, Until cep.Time
	Key         []SilencedPart
}

// SilencedPart is a value that a part of the key must have.
type SilencedPart struct {
	Part  int
	Value cep.Value
}

// silences reports whether an alert is held back.
func (s *Silence) silences(a *cep.Alert) bool {
	return s.From <= a.Time && a.Time < s.Until &&
		!slices.ContainsFunc(s.Key, func(p SilencedPart) bool { return !cep.Equal(a.Key[p.Part].Value, p.Value) })
}

// silenced reports whether an alert is held back by a silence, and counts it then.
func (m *Maker) silenced(a *cep.Alert) bool {
	for i := range m.plan.Silences {
		if m.plan.Silences[i].silences(a) {
			m.counters.Silenced++
			return true
		}
	}
	return false
}
