package expression

import "testing"

// A function of another language has one hint, and is none of ours.
func TestFunctionHints(t *testing.T) {
	hints := map[string]string{}
	for hint, names := range functionHints {
		for _, name := range names {
			if other, twice := hints[name]; twice {
				t.Errorf("%s has the hints %q and %q", name, other, hint)
			}
			hints[name] = hint
			if functions[name] != nil || predicates[name] != nil {
				t.Errorf("%s is a function of this language", name)
			}
			if functionHint(name) != hint {
				t.Errorf("%s has the hint %q", name, functionHint(name))
			}
		}
	}
}
