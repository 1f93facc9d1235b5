package ruletest

import (
	"fmt"
	"slices"

	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
)

// Coverage is what the tests of a rule made it do.
type Coverage struct {
	Rule *patterns.Rule
	// Tests is the number of tests that ran, Hits that of tests that expect alerts, NearMisses that of tests that expect none
	// of events which the rule looks at.
	Tests, Hits, NearMisses int
	// Steps are the steps and absences: whether one took an event, or was seen. Alternatives are those of choices: whether
	// some step of one took an event. Ends are the ways in which a start can end.
	Steps, Alternatives, Ends []Covered
}

// Covered is something that a test can make happen.
type Covered struct {
	Name string
	Done bool
}

// Missing are the names of what no test made happen.
func Missing(list []Covered) []string {
	var names []string
	for _, c := range list {
		if !c.Done {
			names = append(names, c.Name)
		}
	}
	return names
}

// Cover says what the results exercised of each rule, rules without tests too.
func Cover(rules []*patterns.Rule, results []Result) []Coverage {
	list := make([]Coverage, len(rules))
	for i, r := range rules {
		c := Coverage{Rule: r}
		taken, ended := map[string]bool{}, map[string]bool{}
		timeouts := false
		for j := range results {
			if results[j].Rule.ID != r.ID || results[j].Err != nil {
				continue
			}
			s := &results[j].Summary
			c.Tests++
			if expect := results[j].Test.Expect; expect.Count > 0 || len(expect.Alerts) > 0 {
				c.Hits++
			} else if s.Seen > 0 {
				c.NearMisses++
			}
			for _, n := range s.Taken {
				taken[n.Name] = taken[n.Name] || n.N > 0
			}
			for _, n := range s.Ended {
				ended[n.Name] = ended[n.Name] || n.N > 0
			}
			timeouts = timeouts || s.Timeouts > 0
		}
		for _, name := range stepsOf(r) {
			c.Steps = append(c.Steps, Covered{name, taken[name]})
		}
		c.Alternatives = alternatives(r, r.Elements, taken, nil)
		c.Ends = ends(r, ended)
		if r.Timeouts {
			c.Ends = append(c.Ends, Covered{"timeout", timeouts})
		}
		list[i] = c
	}
	return list
}

// stepsOf are the names of the elements, each once: an absence alone stands there as a step of the same name, too.
func stepsOf(r *patterns.Rule) []string {
	var names []string
	for _, e := range r.Leaves() {
		if name := r.Names[e.Name]; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// alternatives lists those of all choices of a rule.
func alternatives(r *patterns.Rule, elements []patterns.Element, taken map[string]bool, list []Covered) []Covered {
	for i := range elements {
		e := &elements[i]
		list = alternatives(r, e.Elements, taken, list)
		for n, a := range e.Alternatives {
			inner := patterns.Rule{Elements: a}
			c := Covered{Name: fmt.Sprintf("alternative %d", n+1)}
			for j, leaf := range inner.Leaves() {
				name := r.Names[leaf.Name]
				if j == 0 {
					c.Name += " (" + name + ")"
				}
				c.Done = c.Done || !leaf.Absent && taken[name]
			}
			list = alternatives(r, a, taken, append(list, c))
		}
	}
	return list
}

// ends are the ways in which a start of the rule can end: a rule of one event that is matched at once has none but to be
// completed.
func ends(r *patterns.Rule, ended map[string]bool) []Covered {
	list := []Covered{{"completed", ended["completed"]}}
	leaves := r.Leaves()
	f := r.Program.Facts()
	if len(leaves) == 1 && leaves[0].Max == 1 && !leaves[0].Absent {
		return list
	}
	if f.Timed && r.Pattern == nil {
		list = append(list, Covered{"expired", ended["expired"]})
	}
	if f.AbsentBetween || f.AbsentAtEnd || len(r.Without) > 0 || slices.ContainsFunc(leaves, func(e *patterns.Element) bool { return e.Link == nfa.Strict }) {
		list = append(list, Covered{"killed", ended["killed"]})
	}
	return list
}

// summaryOf finds the rule among those that ran.
func (b *bench) summaryOf(id string) engine.RuleSummary {
	all := b.core.Summary().Rules
	if i := slices.IndexFunc(all, func(r engine.RuleSummary) bool { return r.ID == id }); i >= 0 {
		return all[i]
	}
	return engine.RuleSummary{}
}
