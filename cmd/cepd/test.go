package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/ruletest"
	"github.com/cepd/cepd/rules/watch"
)

// testFlags are the flags of `cepd test`.
type testFlags struct {
	filter, junit                    string
	verbose, asJSON, coverage, watch bool
}

// newTest returns `cepd test`.
func newTest() *cobra.Command {
	var f testFlags
	cmd := &cobra.Command{
		Use:   "test [PATH...]",
		Short: "Run the tests that stand in rules",
		Long: `Run the tests of all rules in files and directories, on the engine that runs the rules. Without a PATH the
directory "rules" is read. A failing test shows what came beside what was expected, and how far the rule got.

In a test, ` + "`at`" + ` counts from ` + ruletest.Zero.String() + `, a Thursday.

With --coverage it says what the tests made each rule do: which steps took an event, which alternatives were tried, in
which ways starts ended, and which rules and files have no near miss.

The exit code is 0 if all tests pass, 1 if one fails, 3 if the rules have mistakes.`,
		Example: `  # All tests below a directory
  cepd test rules/

  # Those of one rule, each with its name, again after each change of the files
  cepd test rules/ --run '^ssh-bruteforce' -v --watch

  # For a build: a report that it shows, and what the tests leave out
  cepd test rules/ --junit report.xml --coverage

  # Names of the failing ones
  cepd test --json rules/ | jq -r '.[] | select(.passed | not) | .name'`,
		ValidArgsFunction: completeRules,
		RunE: func(cmd *cobra.Command, args []string) error {
			var re *regexp.Regexp
			if f.filter != "" {
				var err error
				if re, err = regexp.Compile(f.filter); err != nil {
					return usagef("--run: %w", err)
				}
			}
			if f.watch {
				return f.again(cmd, args, re)
			}
			return f.run(cmd, args, re)
		},
	}
	cmd.Flags().StringVar(&f.filter, "run", "", "only tests whose rule/name matches this regular expression")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "name the tests that pass, too")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON: each test, and its alerts; with --coverage {tests, coverage}")
	cmd.Flags().StringVar(&f.junit, "junit", "", "write a report in JUnit's XML to this `FILE`, too")
	cmd.Flags().BoolVar(&f.coverage, "coverage", false, "say what the tests made the rules do, and what not")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "run the tests again whenever a file changes, until interrupted")
	return cmd
}

func (f *testFlags) run(cmd *cobra.Command, args []string, filter *regexp.Regexp) error {
	set, err := runnableRules(cmd.ErrOrStderr(), args, "")
	if err != nil {
		return err
	}
	results := ruletest.Run(set, filter)
	var covered []ruletest.Coverage
	if f.coverage {
		covered = ruletest.Cover(set.Rules, results)
	}
	out := newPrinter(cmd.OutOrStdout())
	switch {
	case f.asJSON && f.coverage:
		err = writeJSON(out.w, map[string]any{"tests": testReports(results), "coverage": coverageReports(covered)})
	case f.asJSON:
		err = writeJSON(out.w, testReports(results))
	default:
		showResults(out, results, f.verbose)
		if f.coverage {
			showCoverage(out, covered)
		}
		err = out.done()
	}
	if err == nil && f.junit != "" {
		err = writeJUnit(f.junit, results)
	}
	if err != nil {
		return err
	}
	if len(results) == 0 && !f.asJSON {
		newPrinter(cmd.ErrOrStderr()).printf("%s\n", noTests(f.filter))
	}
	for i := range results {
		if !results[i].Passed() {
			return silent(exitFailed)
		}
	}
	return nil
}

// again runs the tests, and again whenever a file below the paths changes, or one that rules name. Mistakes in rules, and files
// that are gone, are shown and waited out.
func (f *testFlags) again(cmd *cobra.Command, args []string, filter *regexp.Regexp) error {
	paths := args
	if len(paths) == 0 {
		paths = []string{rulesDir}
	}
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	var usage error
	runs := 0
	options := watch.Options{Named: func() []string {
		set, _, err := rules.Load(paths)
		if err != nil || set == nil {
			return nil
		}
		return set.Beside()
	}}
	err := watch.Watch(ctx, paths, options, func() {
		if runs++; runs > 1 {
			newPrinter(cmd.OutOrStdout()).printf("\n")
		}
		err := f.run(cmd, args, filter)
		var coded *codedError
		switch isCoded := errors.As(err, &coded); {
		case err == nil, isCoded && coded.err == nil: // what is to say has been said
		case isCoded && coded.code != exitUsage:
			newPrinter(cmd.ErrOrStderr()).printf("cepd: %v\n", err)
		case runs == 1:
			usage = err
			stop()
		default:
			newPrinter(cmd.ErrOrStderr()).printf("cepd: %v; the tests run again when that changes\n", err)
		}
	})
	if usage != nil {
		return usage
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return failed(fmt.Errorf("watch the rules: %w", err))
	}
	return nil
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
	tested := map[string]bool{}
	for i := range results {
		r := &results[i]
		tested[r.Rule.ID] = true
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
	p.printf("%s of %s: %s\n", plural(len(results), "test"), plural(len(tested), "rule"), verdict)
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
