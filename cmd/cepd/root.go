package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cepd/cepd/patterns/expression"
)

// newRoot returns the command with all its subcommands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "cepd",
		Short: "Find patterns in streams of events",
		Long: `cepd watches streams of events and finds the patterns that people describe in YAML rules:
five failed logins and then a success, an order that is not paid within half an hour, a sensor that falls silent.

Results go to standard output, everything else to standard error.
Exit codes: 0 ok, 1 failed, 2 wrong command line, 3 mistakes in rules or configuration, 4 a person has to decide,
130 interrupted.`,
		Example: `  # See it work, with nothing else at hand
  cepd demo

  # Check rules, run their tests, try them on a recording
  cepd check rules/ && cepd test rules/
  cepd replay --rules rules/ --stream auth=auth.jsonl.gz --time '@timestamp'

  # Run a job: cepd.yaml says where events come from and alerts go
  cepd check -c cepd.yaml && cepd run -c cepd.yaml`,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		CompletionOptions: cobra.CompletionOptions{
			DisableDefaultCmd: true, // its help has no examples; completion.go has one that does
		},
	}
	root.AddCommand(newApply(), newCheck(), newCheckpoint(), newCompletion(), newDelete(), newDemo(), newFmt(), newGet(), newGraph(), newHealthcheck(), newMan(), newNew(), newRecord(), newReplay(), newRules(), newRun(), newSchema(), newSilence(), newTest(), newToken(), newTop(), newVersion())
	root.SetHelpCommand(newHelp(root))
	root.SetFlagErrorFunc(flagError)
	return root
}

// flagError adds the flag that was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	wrong, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return usagef("%w", err)
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	return usagef("%w%s", err, didYouMean("--%s", wrong, known))
}

// didYouMean proposes the nearest of the names, if one is near.
func didYouMean(format, wrong string, names []string) string {
	if near := expression.Nearest(wrong, names); near != "" {
		return fmt.Sprintf(" (did you mean "+format+"?)", near)
	}
	return ""
}

// newHelp returns `cepd help`.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show help for a command",
		Example: `  # What a command does, its flags and examples
  cepd help replay

  # All commands
  cepd help`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, c := range root.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %q; `cepd help` lists them", args[len(args)-1])
			}
			cmd.InitDefaultHelpFlag() // so that --help is among the flags
			return cmd.Help()
		},
	}
}
