package main

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/rules/ruletest"
)

// newTest returns `cepd test`.
func newTest() *cobra.Command {
	var filter string
	var verbose, asJSON bool
	cmd := &cobra.Command{
		Use:   "test [PATH...]",
		Short: "Run the tests that stand in rules",
		Long: `Run the tests of all rules in files and directories, on the engine that runs the rules. Without a PATH the
directory "rules" is read. A failing test shows what came beside what was expected, and how far the rule got.

In a test, ` + "`at`" + ` counts from ` + ruletest.Zero.String() + `, a Thursday.

The exit code is 0 if all tests pass, 1 if one fails, 3 if the rules have mistakes.`,
		Example: `  # All tests below a directory
  cepd test rules/

  # Those of one rule, each with its name
  cepd test rules/ --run '^ssh-bruteforce' -v

  # Names of the failing ones
  cepd test --json rules/ | jq -r '.[] | select(.passed | not) | .name'`,
		ValidArgsFunction: completeRules,
		RunE: func(cmd *cobra.Command, args []string) error {
			var re *regexp.Regexp
			if filter != "" {
				var err error
				if re, err = regexp.Compile(filter); err != nil {
					return usagef("--run: %w", err)
				}
			}
			set, err := runnableRules(cmd.ErrOrStderr(), args, "")
			if err != nil {
				return err
			}
			results, err := ruletest.Run(set, re)
			if err != nil {
				return failed(err)
			}
			out := newPrinter(cmd.OutOrStdout())
			if asJSON {
				err = writeJSON(out.w, testReports(results))
			} else {
				showResults(out, results, verbose)
				err = out.done()
			}
			if err != nil {
				return err
			}
			if len(results) == 0 && !asJSON {
				newPrinter(cmd.ErrOrStderr()).printf("%s\n", noTests(filter))
			}
			for i := range results {
				if !results[i].Passed() {
					return silent(exitFailed)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&filter, "run", "", "only tests whose rule/name matches this regular expression")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "name the tests that pass, too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: each test, and its alerts")
	return cmd
}

func noTests(filter string) string {
	if filter != "" {
		return fmt.Sprintf("cepd: --run %s matches no test; `cepd test -v` names them all", filter)
	}
	return "cepd: the rules have no tests"
}

// showResults writes the failing tests, and how many there are of each.
func showResults(p *printer, results []ruletest.Result, verbose bool) {
	failing := 0
	rules := map[string]bool{}
	for i := range results {
		r := &results[i]
		rules[r.Rule.ID] = true
		if r.Passed() {
			if verbose {
				p.printf("%s %s\n", p.paint(green, "ok  "), r.Name())
			}
			continue
		}
		failing++
		p.printf("%s %s  %s\n", p.paint(red, "FAIL"), p.paint(bold, r.Name()), p.paint(faint, r.Test.Pos.String()))
		for _, line := range r.Failure {
			p.printf("     %s\n", paintDiff(p.palette, line))
		}
	}
	verdict := p.paint(green, "ok")
	if failing > 0 {
		verdict = p.paint(red, fmt.Sprintf("%d failed", failing))
	}
	p.printf("%s of %s: %s\n", plural(len(results), "test"), plural(len(rules), "rule"), verdict)
}

// paintDiff marks what is missing, too much or different.
func paintDiff(p palette, line string) string {
	switch {
	case line == "":
		return line
	case line[0] == '-':
		return p.paint(red, line)
	case line[0] == '+':
		return p.paint(green, line)
	case line[0] == '~':
		return p.paint(yellow, line)
	}
	return line
}

// testReport is a test in `test --json`.
type testReport struct {
	Name    string            `json:"name"`
	Rule    string            `json:"rule"`
	File    string            `json:"file"`
	Line    int               `json:"line"`
	Passed  bool              `json:"passed"`
	Failure []string          `json:"failure"`
	Alerts  []json.RawMessage `json:"alerts"`
}

func testReports(results []ruletest.Result) []testReport {
	reports := make([]testReport, len(results))
	for i := range results {
		r := &results[i]
		reports[i] = testReport{
			Name: r.Name(), Rule: r.Rule.ID, File: r.Test.Pos.File, Line: r.Test.Pos.Line, Passed: r.Passed(),
			Failure: append([]string{}, r.Failure...), Alerts: []json.RawMessage{},
		}
		for _, a := range r.Alerts {
			reports[i].Alerts = append(reports[i].Alerts, alert.AppendJSON(nil, a))
		}
	}
	return reports
}
