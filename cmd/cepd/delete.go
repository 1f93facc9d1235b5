package main

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/rules/rulesapi"
)

// newDelete returns `cepd delete`.
func newDelete() *cobra.Command {
	var f clientFlags
	var dry bool
	cmd := &cobra.Command{
		Use:   "delete RULE...",
		Short: "Delete rules of a running job",
		Long: `Delete rules that were made over HTTP: their files go, and their open starts. A rule in a file of people is not deleted,
its file is named instead. What a deleted rule said stays in its history (cepd get RULE -o history).`,
		Example: `  # What would go with it
  cepd delete burst --dry-run

  # Two of them
  cepd delete burst spray`,
		Args: needRules,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.open()
			if err != nil {
				return err
			}
			p := newPrinter(cmd.OutOrStdout())
			for _, id := range args {
				// The version that is there now: if somebody changes it in between, that is told.
				rule, err := c.do(cmd.Context(), question{method: http.MethodGet, path: rulePath(id)})
				if err != nil {
					return clientError(cmd.ErrOrStderr(), err)
				}
				a := question{method: http.MethodDelete, path: rulePath(id), header: []string{"If-Match", rule.etag}}
				if dry {
					a.query = url.Values{"dry_run": {"true"}}
				}
				answer, err := c.do(cmd.Context(), a)
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
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would happen")
	f.add(cmd)
	return cmd
}
