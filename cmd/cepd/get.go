package main

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/rules/rulesapi"
)

// newGet returns `cepd get`.
func newGet() *cobra.Command {
	var f clientFlags
	var output string
	var from, to int
	cmd := &cobra.Command{
		Use:   "get RULE [-o yaml|json|history|diff]",
		Short: "Show a rule of a running job: its text, its state, its history",
		Long: `Show a rule as it is in force: its text (yaml), its text and state (json), each text that it had and who made it
(history), or what differs between two of those (diff), the last two where nothing is said.`,
		Example: `  # Change a rule by hand
  cepd get burst > burst.yaml && vi burst.yaml && cepd apply -f burst.yaml

  # Who changed it, and what the last change was
  cepd get burst -o history
  cepd get burst -o diff`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := needRules(cmd, args); err != nil {
				return err
			}
			if len(args) > 1 {
				return usagef("what is %q? One rule is shown at a time", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.open()
			if err != nil {
				return err
			}
			out := newPrinter(cmd.OutOrStdout())
			a := question{method: http.MethodGet, path: rulePath(args[0])}
			switch output {
			case "yaml":
				a.header = []string{"Accept", "application/yaml"}
			case "json":
			case "history":
				revisions, err := listAll[rulesapi.Revision](cmd.Context(), c, rulePath(args[0], "revisions"), nil)
				if err != nil {
					return clientError(cmd.ErrOrStderr(), err)
				}
				writeRevisions(out, revisions)
				return out.done()
			case "diff":
				a.path, a.query = rulePath(args[0], "diff"), url.Values{}
				for name, n := range map[string]int{"from": from, "to": to} {
					if n != 0 {
						a.query.Set(name, strconv.Itoa(n))
					}
				}
			default:
				return usagef("-o %s: there are yaml, json, history and diff", output)
			}
			answer, err := c.do(cmd.Context(), a)
			if err != nil {
				return clientError(cmd.ErrOrStderr(), err)
			}
			if output == "json" {
				var rule rulesapi.Rule
				if err := answer.decode(&rule); err != nil {
					return failed(err)
				}
				return writeJSON(cmd.OutOrStdout(), rule)
			}
			text := string(answer.data)
			if isTerminal(cmd.OutOrStdout()) { // a file gets what there is
				text = printableText(text)
			}
			out.printf("%s", text)
			return out.done()
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&output, "output", "o", "yaml", "`WHAT` to show: yaml, json, history or diff")
	flags.IntVar(&from, "from", 0, "with -o diff, the `REVISION` to begin with")
	flags.IntVar(&to, "to", 0, "with -o diff, the `REVISION` to end with")
	f.add(cmd)
	return cmd
}

// writeRevisions writes a line for each revision.
func writeRevisions(p *printer, revisions []rulesapi.Revision) {
	t := table{head: []string{"revision", "when", "what", "who", "text", "file"}}
	for i := range revisions {
		r := &revisions[i]
		who := r.By
		if who == "" {
			who = "(an edit of the file)"
		}
		t.add(strconv.Itoa(r.Number), r.At.Local().Format(time.DateTime), printable(r.Action), printable(who), printable(shortID(r.New)), printable(r.File))
	}
	t.write(p, "")
}
