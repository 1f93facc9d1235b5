package oracle

import (
	"slices"

	"github.com/cepd/cepd/patterns"
)

// expansion is a sequence in which every step takes an event: the rule with some optional elements left out (S2.1).
// Numbers are indexes into the rule's elements.
type expansion struct {
	steps []int
	// before[i] are the absences between step i-1 and step i; before[0] those at the start.
	before [][]int
	// end are the absences at the end.
	end []int
}

// expansions rewrites the rule: every optional element with and without. An element left out leaves no trace, so the
// next one is linked by its own word to the last event taken, and where nothing is before it it is the first (S3.2). Which
// steps took something says which expansion it was, so that no assignment is reached twice.
func expansions(r *patterns.Rule) []*expansion {
	sequences := [][]int{nil}
	for i, e := range r.Elements {
		with := make([][]int, 0, 2*len(sequences))
		for _, s := range sequences {
			with = append(with, append(slices.Clip(s), i))
		}
		if e.Optional {
			with = append(with, sequences...)
		}
		sequences = with
	}
	var all []*expansion
	for _, s := range sequences {
		x := &expansion{}
		for _, i := range s {
			if r.Elements[i].Absent {
				x.end = append(x.end, i)
				continue
			}
			x.steps, x.before, x.end = append(x.steps, i), append(x.before, x.end), nil
		}
		if len(x.steps) > 0 { // S2.6: rules with an empty expansion are refused before they come here
			all = append(all, x)
		}
	}
	return all
}
