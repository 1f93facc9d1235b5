package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/rulesapi"
)

// rulesDir is where rules are looked for when no path is given.
const rulesDir = "rules"

// newCheck returns `cepd check`.
func newCheck() *cobra.Command {
	var verbose, asJSON bool
	var format string
	var events []string
	var job jobFlags
	cmd := &cobra.Command{
		Use:   "check [PATH... | -c FILE]",
		Short: "Find the mistakes in rules and configurations",
		Long: `Read rule files, and all *.yaml and *.yml below directories, and report every mistake in all of them: the place,
what is wrong, what to write instead. Without a PATH the directory "rules" is read.

With -c read the configuration of a job and its rules as cepd run does, and print the configuration that is in force:
the file, what CEPD_* variables and --set put in place of it, and the defaults. Nothing is opened or changed.

With --events hold the rules against recorded events: fields that none of them has, and steps that none of them fits,
are warnings, with the values that the fields really have.

The exit code is 0 where there is no mistake (warnings are none), 3 where there are some, 2 for a PATH that is not
there.`,
		Example: `  # All rules below a directory
  cepd check rules/

  # What each rule reads, its key, its clock and what its program needs
  cepd check -v rules/ssh.yaml

  # A configuration and its rules, and where each value comes from
  cepd check -v -c cepd.yaml

  # What a recording says about the rules: misspelt fields, steps that can never be
  cepd check rules/ssh.yaml --events auth=auth.jsonl.gz

  # The mistakes for another program, and as marks in GitHub Actions
  cepd check --format json rules/ | jq -r '.diagnostics[].message'
  cepd check --format github rules/`,
		ValidArgsFunction: completeRules,
		RunE: func(cmd *cobra.Command, args []string) error {
			var cfg *config.Config
			var set *rules.Set
			var diagnostics patterns.Diagnostics
			var err error
			if asJSON {
				format = "json"
			}
			if !slices.Contains(checkFormats, format) {
				return usagef("--format: %q is none of %s", format, strings.Join(checkFormats, ", "))
			}
			switch {
			case job.file == "" && len(job.set) > 0:
				return usagef("--set is about a configuration: name it with -c FILE")
			case job.file == "":
				set, diagnostics, err = loadRules(args, "")
			case len(args) > 0:
				return usagef("what is %q? With -c the rules are those that the configuration names", args[0])
			default:
				cfg, set, diagnostics, err = job.load()
			}
			if err != nil {
				return err
			}
			if len(events) > 0 && set != nil {
				found, err := checkEvents(cmd.Context(), set, events, cmd.InOrStdin())
				if err != nil {
					return err
				}
				diagnostics = append(diagnostics, found...)
				byPlace(diagnostics)
			}
			out := cmd.OutOrStdout()
			clocks, err := clocksOf(cfg, set)
			if err != nil {
				return err
			}
			if format != "text" {
				switch format {
				case "json":
					err = writeJSON(out, reportOf(set, clocks, diagnostics))
				case "github":
					err = writeGitHub(newPrinter(out), diagnostics)
				case "sarif":
					err = writeJSON(out, sarifOf(diagnostics))
				}
				if err == nil && set == nil {
					err = silent(exitRules)
				}
				return err
			}
			if err := showDiagnostics(cmd.ErrOrStderr(), diagnostics); err != nil {
				return err
			}
			if set == nil {
				return silent(exitRules)
			}
			p := newPrinter(out)
			if cfg != nil {
				// What is printed can be used as a file: all that is no configuration is a comment.
				if err := cfg.Print(out, verbose); err != nil {
					return failed(fmt.Errorf("write configuration: %w", err))
				}
				p.printf("\n")
				p.w = &commenting{w: out, begin: true}
			}
			if verbose {
				for _, r := range set.Rules {
					describe(p, r, clocks)
				}
			}
			p.printf("%s\n", verdict(set, diagnostics))
			return p.done()
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "describe each rule: streams, key, clock, program; say where each value of a configuration comes from")
	cmd.Flags().BoolVar(&asJSON, "json", false, "the same as --format json")
	cmd.Flags().StringVar(&format, "format", "text", "text; json: the rules and all diagnostics; github: marks in GitHub Actions; sarif")
	cmd.Flags().StringArrayVar(&events, "events", nil, "`[NAME=]PATH` of recorded events that the rules are held against; repeat for other streams")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(checkFormats, cobra.ShellCompDirectiveNoFileComp)) // fails only for unknown flags
	job.add(cmd, "")
	return cmd
}

// completeRules completes rule files and directories.
func completeRules(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// loadRules loads the rules that a command line names. A path that is not there is an error of usage; how ends the
// sentence that asks for one.
func loadRules(paths []string, how string) (*rules.Set, patterns.Diagnostics, error) {
	if len(paths) == 0 {
		if _, err := os.Stat(rulesDir); err != nil {
			return nil, nil, usagef("which rules? There is no directory %q here: name the rule files or their directory%s", rulesDir, how)
		}
		paths = []string{rulesDir}
	}
	set, diagnostics, err := rules.Load(paths)
	if err != nil {
		return nil, nil, &codedError{exitUsage, fmt.Errorf("rules: %w", plainPath(err))}
	}
	return set, diagnostics, nil
}

// runnableRules loads rules for a command that runs them: mistakes are shown and end it, of warnings only their number is.
func runnableRules(stderr io.Writer, paths []string, how string) (*rules.Set, error) {
	set, diagnostics, err := loadRules(paths, how)
	switch {
	case err != nil:
		return nil, err
	case set == nil:
		if err := showDiagnostics(stderr, diagnostics); err != nil {
			return nil, err
		}
		return nil, silent(exitRules)
	case len(diagnostics) > 0:
		newPrinter(stderr).printf("cepd: %s; cepd check shows what is meant\n", countDiagnostics(diagnostics))
	}
	return set, nil
}

// plainPath says "x: no such file" where the system says "stat x: no such file".
func plainPath(err error) error {
	var p *fs.PathError
	if !errors.As(err, &p) {
		return err
	}
	return errors.New(strings.Replace(err.Error(), p.Error(), p.Path+": "+p.Err.Error(), 1))
}

// showDiagnostics writes the diagnostics and, behind mistakes, how many there are.
func showDiagnostics(w io.Writer, diagnostics patterns.Diagnostics) error {
	if err := diagnostics.Format(w, inColour(w)); err != nil {
		return failed(fmt.Errorf("write diagnostics: %w", err))
	}
	if errs := diagnostics.Errors(); len(errs) > 0 {
		newPrinter(w).printf("%s\n", countDiagnostics(diagnostics))
	}
	return nil
}

// countDiagnostics says "2 mistakes, 1 warning in 2 files".
func countDiagnostics(diagnostics patterns.Diagnostics) string {
	files := map[string]bool{}
	for _, d := range diagnostics {
		files[d.File] = true
	}
	var parts []string
	errs := len(diagnostics.Errors())
	if errs > 0 {
		parts = append(parts, plural(errs, "mistake"))
	}
	parts = append(parts, countWarnings(diagnostics)...)
	return strings.Join(parts, ", ") + " in " + plural(len(files), "file")
}

// countWarnings says "2 warnings" and "1 note", where there are any.
func countWarnings(diagnostics patterns.Diagnostics) []string {
	var parts []string
	for _, severity := range []string{"warning", "note"} {
		n := 0
		for _, d := range diagnostics {
			if d.Severity() == severity {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, plural(n, severity))
		}
	}
	return parts
}

// verdict says "12 rules in 3 files: ok".
func verdict(set *rules.Set, diagnostics patterns.Diagnostics) string {
	s := fmt.Sprintf("%s in %s: ok", plural(len(set.Rules), "rule"), plural(len(set.Sources), "file"))
	return strings.Join(append([]string{s}, countWarnings(diagnostics)...), ", ")
}

// describe writes the facts of a rule.
func describe(p *printer, r *patterns.Rule, clocks *engine.Core) {
	p.printf("%s  %s\n", p.paint(bold, r.ID), p.paint(faint, r.Pos.String()))
	for _, f := range factsOf(r, clocks) {
		p.printf("  %-12s %s\n", f.name, f.text)
	}
	p.printf("\n")
}

// fact is one thing to know about a rule.
type fact struct{ name, text string }

// factsOf returns what `check -v` says about a rule, in the order in which it is said. clocks is nil without a configuration.
func factsOf(r *patterns.Rule, clocks *engine.Core) []fact {
	facts := []fact{
		{"reads", strings.Join(r.Inputs(), ", ")},
		{"alerts of", strings.Join(r.Reads, ", ")},
		{"key", keyText(r)},
		{"window", windowText(r)},
		{"selection", selectionText(r)},
		{"clock", clockText(r, clocks)},
		{"program", programText(r)},
		{"tests", strconv.Itoa(len(r.Tests))},
		{"fingerprint", r.Fingerprint},
	}
	facts = slices.DeleteFunc(facts, func(f fact) bool { return f.text == "" })
	if !r.Enabled {
		facts = slices.Insert(facts, 0, fact{"enabled", "no: the rule is checked, but does not run"})
	} else if r.Shadow {
		facts = slices.Insert(facts, 0, fact{"mode", "shadow: the rule runs and counts, and delivers nothing"})
	}
	return facts
}

func keyText(r *patterns.Rule) string {
	if len(r.Key) == 0 {
		return "none: all events share one state"
	}
	return strings.Join(r.Key, ", ")
}

func windowText(r *patterns.Rule) string {
	if r.Within == 0 {
		return "none"
	}
	return cep.FormatDuration(r.Within) + " from the first to the last event"
}

// selectionText says which of the candidates go out, and when.
func selectionText(r *patterns.Rule) string {
	after := map[nfa.AfterMatch]string{
		nfa.SkipNone: "none", nfa.SkipPastLast: "past_last", nfa.SkipToNext: "to_next",
		nfa.SkipToFirst: "to_first", nfa.SkipToLast: "to_last",
	}[r.After]
	if r.After == nfa.SkipToFirst || r.After == nfa.SkipToLast {
		after += ": " + r.Names[r.Target]
	}
	s := "after_match " + after
	if r.Ordered {
		s += ", emit ordered"
	} else {
		s += ", emit eager"
	}
	if r.Timeouts {
		s += ", timeouts go out"
	}
	return s
}

// clocksOf returns an engine that can say which clock a rule has in a job; nil without a configuration.
func clocksOf(c *config.Config, set *rules.Set) (*engine.Core, error) {
	if c == nil || set == nil {
		return nil, nil
	}
	streams := make([]engine.Stream, len(c.Streams))
	for i, s := range c.Streams {
		streams[i] = timedStream(s)
	}
	core, err := engine.New(set, streams, engine.Options{})
	if err != nil {
		return nil, failed(fmt.Errorf("find the clocks of the rules: %w", err))
	}
	return core, nil
}

// clockText says what decides when the rule's windows end.
func clockText(r *patterns.Rule, clocks *engine.Core) string {
	var why string // it is not each partition's
	if clocks != nil {
		text := clocks.ClockOf(r.ID)
		if strings.HasPrefix(text, "each partition of ") {
			return text + " by itself: key_local keeps its keys apart"
		}
		if _, reason, ok := strings.Cut(text, " (not each partition: "); ok {
			why = "; not each partition by itself: " + strings.TrimSuffix(reason, ")")
		}
	}
	names := r.Inputs()
	if len(names) == 1 && len(r.Reads) > 0 {
		return "that of the slowest of the rules whose alerts it reads" + why
	}
	if len(names) == 1 {
		return "the slowest partition of " + names[0] + " that is not idle" + why
	}
	return "the slowest of " + strings.Join(names, ", ") + ": a stalled one holds the rule back" + why
}

// programText says what the machine has to hold for the rule.
func programText(r *patterns.Rule) string {
	f := r.Program.Facts()
	parts := []string{"conditions compare events"}
	if f.Unary {
		parts[0] = "conditions see one event"
	}
	for _, p := range []struct {
		is   bool
		text string
	}{
		{!f.Single, "loops"},
		{f.Strict, "strict: events that no step takes matter"},
		{f.Prev, "prev: the event before is kept"},
		{f.Any, "any: partial matches multiply"},
		{f.AbsentAtStart, "absence before"},
		{f.AbsentBetween, "absence in between"},
		{f.AbsentAtEnd, "absence at the end: fires by time alone"},
		{f.OpenEnd, "open end"},
		{!f.Timed && !f.AbsentAtEnd && !f.AbsentAtStart && len(r.Elements) > 1, "no window: starts may stay open"},
	} {
		if p.is {
			parts = append(parts, p.text)
		}
	}
	return strings.Join(parts, "; ")
}

// checkReport is what `check --json` prints.
type checkReport struct {
	OK          bool                  `json:"ok"`
	Rules       []ruleReport          `json:"rules"`
	Diagnostics []rulesapi.Diagnostic `json:"diagnostics"`
}

// ruleReport is a rule in a checkReport.
type ruleReport struct {
	ID          string   `json:"id"`
	File        string   `json:"file"`
	Line        int      `json:"line"`
	Column      int      `json:"column"`
	Enabled     bool     `json:"enabled"`
	Severity    string   `json:"severity"`
	Shadow      bool     `json:"shadow"`
	Streams     []string `json:"streams"`
	AlertsOf    []string `json:"alerts_of"`
	Key         []string `json:"key"`
	Within      string   `json:"within,omitempty"`
	Selection   string   `json:"selection"`
	Clock       string   `json:"clock"`
	Program     string   `json:"program"`
	Tests       int      `json:"tests"`
	Fingerprint string   `json:"fingerprint"`
}

// reportOf makes the report; set is nil where there are mistakes.
func reportOf(set *rules.Set, clocks *engine.Core, diagnostics patterns.Diagnostics) checkReport {
	report := checkReport{OK: set != nil, Rules: []ruleReport{}, Diagnostics: rulesapi.DiagnosticsOf(diagnostics)}
	if set == nil {
		return report
	}
	for _, r := range set.Rules {
		within := ""
		if r.Within > 0 {
			within = cep.FormatDuration(r.Within)
		}
		report.Rules = append(report.Rules, ruleReport{
			ID: r.ID, File: r.Pos.File, Line: r.Pos.Line, Column: r.Pos.Column, Enabled: r.Enabled, Shadow: r.Shadow,
			Severity: r.Severity, Streams: r.Inputs(), AlertsOf: append([]string{}, r.Reads...), Key: append([]string{}, r.Key...), Within: within, Selection: selectionText(r),
			Clock: clockText(r, clocks), Program: programText(r), Tests: len(r.Tests), Fingerprint: r.Fingerprint,
		})
	}
	return report
}
