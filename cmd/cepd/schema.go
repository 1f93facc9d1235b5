package main

import (
	_ "embed" // for the schema of alerts
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/patterns"
)

// alertSchema is docs/format/alert.schema.json, which a test holds it to.
//
//go:embed alert.schema.json
var alertSchema []byte

// newSchema returns `cepd schema`.
func newSchema() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema COMMAND",
		Short: "Print the JSON Schema of rules, configurations or alerts",
		Long: `Print a JSON Schema (draft 2020-12). Editors that speak to yaml-language-server (VS Code, Neovim, Emacs, Helix)
complete the keys of rules and configurations with it, and explain them. A file names its schema in its first line:

  # yaml-language-server: $schema=` + patterns.SchemaID + `

A schema knows keys, shapes and words. What a rule means, cepd check says.`,
		Example: `  # The schema of rule files, for an editor that reads it from a file
  cepd schema rule > rule.schema.json

  # What consumers of alerts can rely on
  cepd schema alert > alert.schema.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no schema %q; say rule, config or alert", args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "rule", Short: "Print the JSON Schema of rule files", Args: cobra.NoArgs,
			Example: `  # For an editor that reads it from a file
  cepd schema rule > rule.schema.json

  # Which keys a rule may have
  cepd schema rule | jq '."$defs".rule.properties | keys'`,
			RunE: func(cmd *cobra.Command, _ []string) error { return writeJSON(cmd.OutOrStdout(), patterns.Schema()) },
		},
		&cobra.Command{
			Use: "config", Short: "Print the JSON Schema of configurations", Args: cobra.NoArgs,
			Example: `  # For an editor that reads it from a file
  cepd schema config > config.schema.json

  # What can be said about the listener
  cepd schema config | jq .properties.http`,
			RunE: func(cmd *cobra.Command, _ []string) error { return writeJSON(cmd.OutOrStdout(), config.Schema()) },
		},
		&cobra.Command{
			Use: "alert", Short: "Print the JSON Schema of alerts", Args: cobra.NoArgs,
			Example: `  # For consumers
  cepd schema alert > alert.schema.json

  # Which kinds of alerts there are
  cepd schema alert | jq .properties.kind`,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if _, err := cmd.OutOrStdout().Write(alertSchema); err != nil {
					return failed(fmt.Errorf("write output: %w", err))
				}
				return nil
			},
		},
	)
	return cmd
}
