package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cepd/cepd/rules/ruletest"
)

// coverageReport is the coverage of a rule in `test --coverage --json`.
type coverageReport struct {
	Rule       string   `json:"rule"`
	File       string   `json:"file"`
	Tests      int      `json:"tests"`
	Hits       int      `json:"hits"`
	NearMisses int      `json:"near_misses"`
	Steps      []string `json:"steps"`
	// What no test made happen.
	Untaken []string `json:"steps_untaken"`
	Untried []string `json:"alternatives_untried"`
	Unmet   []string `json:"ends_unmet"`
}

func coverageReports(list []ruletest.Coverage) []coverageReport {
	reports := make([]coverageReport, len(list))
	for i, c := range list {
		steps := make([]string, len(c.Steps))
		for j, s := range c.Steps {
			steps[j] = s.Name
		}
		reports[i] = coverageReport{
			Rule: c.Rule.ID, File: c.Rule.Pos.File, Tests: c.Tests, Hits: c.Hits, NearMisses: c.NearMisses, Steps: steps,
			Untaken: append([]string{}, ruletest.Missing(c.Steps)...),
			Untried: append([]string{}, ruletest.Missing(c.Alternatives)...),
			Unmet:   append([]string{}, ruletest.Missing(c.Ends)...),
		}
	}
	return reports
}

// showCoverage writes what the tests exercised, and what they did not.
func showCoverage(p *printer, list []ruletest.Coverage) {
	t := table{head: []string{"rule", "tests", "hits", "near misses", "steps", "alternatives", "ends"}}
	part := func(list []ruletest.Covered) string {
		if len(list) == 0 {
			return "-"
		}
		return fmt.Sprintf("%d/%d", len(list)-len(ruletest.Missing(list)), len(list))
	}
	for _, c := range list {
		t.add(c.Rule.ID, fmt.Sprint(c.Tests), fmt.Sprint(c.Hits), fmt.Sprint(c.NearMisses), part(c.Steps), part(c.Alternatives), part(c.Ends))
	}
	p.printf("\n")
	t.write(p, "")
	var lines []string
	for _, c := range list {
		if words := unexercised(c); len(words) > 0 {
			lines = append(lines, fmt.Sprintf("%s  %s", c.Rule.ID, strings.Join(words, "; ")))
		}
	}
	for _, file := range filesWithoutNearMiss(list) {
		lines = append(lines, file+"  no near miss in the whole file: nothing says what its rules must not find")
	}
	if len(lines) > 0 {
		p.printf("\nnot exercised\n")
	}
	for _, l := range lines {
		p.printf("  %s\n", l)
	}
}

// unexercised says what the tests of a rule leave out.
func unexercised(c ruletest.Coverage) []string {
	if c.Tests == 0 {
		return []string{"no tests"}
	}
	var words []string
	say := func(format string, list []ruletest.Covered) {
		if missing := ruletest.Missing(list); len(missing) > 0 {
			words = append(words, fmt.Sprintf(format, strings.Join(missing, ", ")))
		}
	}
	say("never taken: %s", c.Steps)
	say("never tried: %s", c.Alternatives)
	say("no start is ever: %s", c.Ends)
	if c.Hits == 0 {
		words = append(words, "no hit")
	}
	if c.NearMisses == 0 {
		words = append(words, "no near miss")
	}
	return words
}

// filesWithoutNearMiss are the files of which no rule has a near miss.
func filesWithoutNearMiss(list []ruletest.Coverage) []string {
	var files, with []string
	for _, c := range list {
		files = append(files, c.Rule.Pos.File)
		if c.NearMisses > 0 {
			with = append(with, c.Rule.Pos.File)
		}
	}
	slices.Sort(files)
	return slices.DeleteFunc(slices.Compact(files), func(f string) bool { return slices.Contains(with, f) })
}
