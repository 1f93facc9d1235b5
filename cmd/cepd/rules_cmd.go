package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/rules/rulesapi"
)

// newRules returns `cepd rules`.
func newRules() *cobra.Command {
	var f clientFlags
	var find, mode string
	var managed, never, asJSON bool
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "List the rules of a running job, and how they are doing",
		Long: `Ask a running job for its rules: whether each runs, what it has found, what is open, when it matched last. A rule whose
file lies in the directory "managed" was made over HTTP (cepd apply); all others are files of people.`,
		Example: `  # All of them
  cepd rules

  # Those with a step that no event was ever taken for
  cepd rules --never-matched

  # Of a job elsewhere, for another program
  cepd rules --server https://cepd.example.org:8642 --token-file viewer.token --json | jq -r '.[].id'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.open()
			if err != nil {
				return err
			}
			query := url.Values{}
			for name, v := range map[string]string{"q": find, "mode": mode} {
				if v != "" {
					query.Set(name, v)
				}
			}
			if managed {
				query.Set("managed", "true")
			}
			if never {
				query.Set("never_matched", "true")
			}
			rules, err := listAll[rulesapi.Rule](cmd.Context(), c, rulesapi.Prefix+"/rules", query)
			if err != nil {
				return clientError(cmd.ErrOrStderr(), err)
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), rules)
			}
			p := newPrinter(cmd.OutOrStdout())
			writeRules(p, rules)
			return p.done()
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&find, "find", "", "only rules with this `TEXT` in their id or name")
	flags.StringVar(&mode, "mode", "", "only rules of this `MODE`: alert or shadow")
	flags.BoolVar(&managed, "managed", false, "only rules that were made over HTTP")
	flags.BoolVar(&never, "never-matched", false, "only rules with a step that no event was ever taken for")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	f.add(cmd)
	cmd.AddCommand(
		newSwitch("enable", "Let rules run"), newSwitch("disable", "Keep rules from running; their open starts are dropped"),
		newSwitch("shadow", "Let rules run and count, and deliver nothing"), newSwitch("alert", "Let rules deliver what they find"))
	return cmd
}

// writeRules writes a line for each rule.
func writeRules(p *printer, rules []rulesapi.Rule) {
	t := table{head: []string{"rule", "runs", "open", "matched", "alerts", "errors", "last match", "file"}}
	for i := range rules {
		r := &rules[i]
		last := ""
		if !r.State.LastMatch.IsZero() {
			last = r.State.LastMatch.Format(time.DateTime)
		}
		t.add(printable(r.ID), runsText(r), count(uint64(r.State.Open)), count(r.State.Matched), count(r.State.Alerts), count(r.State.Errors), last,
			printable(r.File)+":"+strconv.Itoa(r.Line))
	}
	t.write(p, "")
	for i := range rules {
		if s := rules[i].State.Stopped; s != "" {
			p.printf("%s %s was stopped: %s\n", p.paint(yellow, "note:"), printable(rules[i].ID), printable(s))
		}
	}
}

// runsText says in a word whether a rule runs.
func runsText(r *rulesapi.Rule) string {
	switch {
	case !r.Enabled:
		return "no"
	case r.State.Stopped != "":
		return "stopped"
	case r.Mode == "shadow":
		return "shadow"
	}
	return "yes"
}

// newSwitch returns a command that switches rules.
func newSwitch(action, short string) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   action + " RULE...",
		Short: short,
		Long: short + `. One word of the text of each is changed, and the rest
stays as it is written. A rule in a file of people is not changed: its file is named instead.`,
		Example: `  # One rule
  cepd rules ` + action + ` ssh-bruteforce

  # All that begin with "ssh-"
  cepd rules --managed --json | jq -r '.[].id | select(startswith("ssh-"))' | xargs cepd rules ` + action,
		Args: needRules,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.open()
			if err != nil {
				return err
			}
			p := newPrinter(cmd.OutOrStdout())
			for _, id := range args {
				answer, err := c.do(cmd.Context(), question{method: http.MethodPost, path: rulePath(id, action), header: []string{"If-Match", "*"}})
				if err != nil {
					return clientError(cmd.ErrOrStderr(), err)
				}
				var report rulesapi.Report
				if err := answer.decode(&report); err != nil {
					return failed(err)
				}
				writeReport(p, id, &report)
			}
			return p.done()
		},
	}
	f.add(cmd)
	return cmd
}

// needRules wants at least one id of a rule.
func needRules(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("which rule? `cepd rules` lists them; cepd %s RULE", strings.TrimPrefix(cmd.CommandPath(), "cepd "))
	}
	for _, id := range args {
		if strings.ContainsAny(id, "/?#%") || id == "" || id == "." || id == ".." {
			return usagef("%q is no id of a rule", id)
		}
	}
	return nil
}

// writeReport says what a change of one rule did.
func writeReport(p *printer, id string, r *rulesapi.Report) {
	if r.Applied && r.Epoch == 0 {
		p.printf("%s: it was so already\n", printable(id))
		return
	}
	when := "in force with epoch " + fmt.Sprint(r.Epoch)
	if !r.Applied {
		when = "nothing was changed (--dry-run)"
	}
	text := when
	for _, c := range r.Changes {
		if c.Rule == id {
			text = printable(c.Text) + "; " + when
		}
	}
	p.printf("%s: %s\n", printable(id), text)
}
