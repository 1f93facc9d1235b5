package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan returns `cepd man`, which packages are made with.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages",
		Long: `Write a manual page for cepd and one for each command into a directory. Their date is that of
SOURCE_DATE_EPOCH where it is set, so that a build can be repeated.`,
		Example: `  # Into a directory that man looks into
  cepd man /usr/local/share/man/man1

  # Read one of them
  cepd man . && man ./cepd-run.1`,
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "cepd " + version, Manual: "cepd"}, args[0]); err != nil {
				return failed(fmt.Errorf("write the manual pages: %w", err))
			}
			return nil
		},
	}
}
