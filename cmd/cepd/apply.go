package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/rules/rulesapi"
)

// applyFlags are the flags of `cepd apply`.
type applyFlags struct {
	clientFlags
	paths               []string
	dry, replace, force bool
}

// newApply returns `cepd apply`.
func newApply() *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR",
		Short: "Put rules in force in a running job",
		Long: `Send rule files to a running job, each with one rule, and put them in force all at once or not at all. First it is said
what would happen: mistakes as cepd check shows them, the tests in the files, and what becomes of open starts. Where a
test fails nothing is changed, unless with --force. What is in force already stays as it is, so the same command again
changes nothing.

The job keeps the files below the directory "managed" of its rules. With --replace-managed those that are not among
the files are deleted. Rules in files of people are never changed.`,
		Example: `  # What would happen
  cepd apply -f burst.yaml --dry-run

  # All rules of a directory, and no others, from a build
  cepd apply -f rules/ --replace-managed --server https://cepd.example.org:8642 --token-file ci.token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(f.paths) == 0 {
				return usagef("which rules? Name files or directories by -f")
			}
			texts, err := ruleTexts(f.paths)
			if err != nil {
				return err
			}
			c, err := f.open()
			if err != nil {
				return err
			}
			if err := f.apply(cmd.Context(), c, texts, newPrinter(cmd.OutOrStdout()), cmd.ErrOrStderr()); err != nil {
				return clientError(cmd.ErrOrStderr(), err)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.paths, "file", "f", nil, "rule `FILE`, or a directory of such; may be repeated")
	flags.BoolVar(&f.dry, "dry-run", false, "only say what would happen")
	flags.BoolVar(&f.replace, "replace-managed", false, "delete the managed rules that are not among the files")
	flags.BoolVar(&f.force, "force", false, "put them in force although a test fails")
	f.add(cmd)
	return cmd
}

// ruleTexts reads the files, by the ids of their rules.
func ruleTexts(paths []string) (map[string]string, error) {
	texts, from := map[string]string{}, map[string]string{}
	for _, p := range paths {
		err := filepath.WalkDir(p, func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			ext := filepath.Ext(file)
			if file != p && strings.HasPrefix(d.Name(), ".") {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if d.IsDir() || file != p && ext != ".yaml" && ext != ".yml" {
				return nil
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			id, err := onlyRule(file, text)
			if err != nil {
				return err
			}
			if other, twice := from[id]; twice {
				return usagef("%s and %s both hold the rule %s", other, file, id)
			}
			texts[id], from[id] = string(text), file
			return nil
		})
		if coded, ok := errors.AsType[*codedError](err); ok {
			return nil, coded
		}
		if err != nil {
			return nil, usagef("-f: %w", plainPath(err))
		}
	}
	if len(texts) == 0 {
		return nil, usagef("there is no rule file (*.yaml, *.yml) in %s", strings.Join(paths, ", "))
	}
	return texts, nil
}

// onlyRule is the id of the one rule in a file.
func onlyRule(file string, text []byte) (string, error) {
	f, problems := yamlnode.Parse(file, text)
	if len(problems) > 0 {
		return "", usagef("%s:%d:%d: %s; `cepd check %s` shows it", file, problems[0].Line, problems[0].Column, problems[0].Message, file)
	}
	var ids []string
	for _, doc := range f.Documents {
		if doc.Kind != yamlnode.Map {
			continue
		}
		for k, v := range yamlnode.Pairs(doc) {
			if k.Value != "rules" || v.Kind != yamlnode.List {
				continue
			}
			for _, rule := range v.Content {
				id := "without an id"
				if rule.Kind == yamlnode.Map {
					for name, value := range yamlnode.Pairs(rule) {
						if name.Value == "id" {
							id = value.Value
						}
					}
				}
				ids = append(ids, id)
			}
		}
	}
	if len(ids) != 1 {
		return "", usagef("%s holds %s: a job keeps one rule a file of those that are applied; split it, or put the file into the rules of the job", file, plural(len(ids), "rule"))
	}
	return ids[0], nil
}

// apply sends the rules, once to ask and once to do it.
func (f *applyFlags) apply(ctx context.Context, c *remote, texts map[string]string, p *printer, stderr io.Writer) error {
	var now rulesapi.ManagedSet
	before, err := c.get(ctx, rulesapi.Prefix+"/managed", nil, &now)
	if err != nil {
		return err
	}
	plan := planOf(now.Rules, texts, f.replace)
	body, err := json.Marshal(rulesapi.ManagedSet{Rules: plan.rules})
	if err != nil {
		return fmt.Errorf("write the rules: %w", err)
	}
	header := []string{"If-None-Match", "*"}
	if before.etag != "" {
		header = []string{"If-Match", before.etag}
	}
	put := question{method: http.MethodPut, path: rulesapi.Prefix + "/managed", query: url.Values{"dry_run": {"true"}}, media: "application/json", body: body, header: header}
	if len(plan.steps) == 0 {
		p.printf("%s: all of them are in force already\n", plural(len(texts), "rule"))
		return p.done()
	}
	answer, err := c.do(ctx, put)
	if err != nil {
		return err
	}
	var report rulesapi.Report
	if err := answer.decode(&report); err != nil {
		return err
	}
	if len(report.Diagnostics) > 0 {
		if err := showDiagnostics(stderr, diagnosticsIn(report.Diagnostics)); err != nil {
			return err
		}
	}
	plan.write(p, &report)
	failing := writeTests(p, report.Tests)
	switch {
	case f.dry:
		p.printf("nothing was changed (--dry-run)\n")
		if failing > 0 {
			return errors.Join(p.done(), silent(exitFailed))
		}
		return p.done()
	case failing > 0 && !f.force:
		return errors.Join(p.done(), fmt.Errorf("nothing was changed, as %s; --force puts the rules in force all the same", plural(failing, "failing test")))
	}
	put.query = nil
	if answer, err = c.do(ctx, put); err != nil {
		return err
	}
	if err := answer.decode(&report); err != nil {
		return err
	}
	p.printf("in force with epoch %d\n", report.Epoch)
	return p.done()
}

// applyPlan is what applying files does to the managed rules.
type applyPlan struct {
	// rules are all managed rules as they are to be.
	rules []rulesapi.ManagedRule
	// steps are those that are not as they were: id and what happens.
	steps     [][2]string
	unchanged int
}

// planOf compares the managed rules with the files.
func planOf(now []rulesapi.ManagedRule, texts map[string]string, replace bool) *applyPlan {
	plan := &applyPlan{rules: []rulesapi.ManagedRule{}}
	known := map[string]bool{}
	for _, m := range now {
		known[m.ID] = true
		text, sent := texts[m.ID]
		switch {
		case sent && text == m.Text:
			plan.unchanged++
		case sent:
			plan.steps = append(plan.steps, [2]string{m.ID, "changed"})
		case replace:
			plan.steps = append(plan.steps, [2]string{m.ID, "deleted"})
			continue
		default:
			text = m.Text
		}
		plan.rules = append(plan.rules, rulesapi.ManagedRule{ID: m.ID, Text: text})
	}
	for id, text := range texts {
		if !known[id] {
			plan.rules = append(plan.rules, rulesapi.ManagedRule{ID: id, Text: text})
			plan.steps = append(plan.steps, [2]string{id, "new"})
		}
	}
	slices.SortFunc(plan.steps, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return plan
}

// write says what happens to each rule.
func (plan *applyPlan) write(p *printer, report *rulesapi.Report) {
	fate := map[string]string{}
	for _, c := range report.Changes {
		fate[c.Rule] = printable(c.Text)
	}
	t := table{head: []string{"rule", "is", "and"}}
	for _, s := range plan.steps {
		t.add(printable(s[0]), s[1], fate[s[0]])
	}
	t.write(p, "")
	if plan.unchanged > 0 {
		p.printf("%s unchanged\n", plural(plan.unchanged, "rule"))
	}
}

// writeTests says how tests went, and returns how many failed.
func writeTests(p *printer, results []rulesapi.TestResult) (failing int) {
	for i := range results {
		r := &results[i]
		if r.Passed {
			continue
		}
		failing++
		p.printf("%s %s/%s\n", p.paint(red, "FAIL"), printable(r.Rule), printable(r.Name))
		for _, line := range r.Failure {
			p.printf("     %s\n", printable(line))
		}
	}
	if len(results) > 0 {
		p.printf("%s, %d failed\n", plural(len(results), "test"), failing)
	}
	return failing
}
