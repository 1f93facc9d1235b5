package rules

import (
	"maps"
	"slices"

	"github.com/cepd/cepd/patterns"
)

// Set is a compiled set of rules and the files it came from. It is immutable.
type Set struct {
	*patterns.Set
	// Sources are the rule files in the order of their names.
	Sources []patterns.Source

	files tree
	// named are the contents of the files that rules name, by the name that they were read under.
	named map[string][]byte
	// id is what ID returns, computed once; nil: for each call.
	id func() string
}

// ReadFile reads a file that a rule names. The name is relative to the rule file, which must be one of the set's sources;
// it may not lead out of the directories that the set was loaded from.
func (s *Set) ReadFile(ruleFile, name string) ([]byte, error) {
	return s.files.readBeside(ruleFile, name)
}

// Beside returns the names of the files that rules and their tests read, but for the rule files: lists, maps, recordings and
// what tests load in the place of a rule file. Those of tests need not be there.
func (s *Set) Beside() []string {
	names := slices.Collect(maps.Keys(s.named))
	for _, r := range s.Rules {
		for _, t := range r.Tests {
			for _, step := range t.Steps {
				for _, name := range []string{step.File, step.Reload} {
					if name != "" {
						names = append(names, beside(step.Pos.File, name))
					}
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
