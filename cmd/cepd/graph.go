package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/graph"
)

// graphFormats are the forms that a graph is printed in: the end of a file's name, and how.
var graphFormats = map[string]struct {
	end   string
	print func(*graph.Graph) []byte
}{
	"svg":     {".svg", (*graph.Graph).SVG},
	"dot":     {".dot", (*graph.Graph).DOT},
	"mermaid": {".mmd", (*graph.Graph).Mermaid},
}

// newGraph returns `cepd graph`.
func newGraph() *cobra.Command {
	var format, rule, folder string
	cmd := &cobra.Command{
		Use:   "graph [PATH...]",
		Short: "Draw rules as graphs",
		Long: `Draw what may follow what in a rule: its steps, absences and choices. SVG needs no other program; DOT is for
Graphviz, Mermaid for pages that draw such (GitHub and GitLab do).

One rule is printed. Of several --rule picks one, and --output writes each to a file that is named for it.`,
		Example: `  # A picture of a rule
  cepd graph rules/auth.yaml --rule ssh-bruteforce-then-success > ssh.svg

  # One for each rule
  cepd graph rules/ --output pictures/

  # For a page in Markdown
  cepd graph rules/ --rule sensor-silent --format mermaid`,
		ValidArgsFunction: completeRules,
		RunE: func(cmd *cobra.Command, args []string) error {
			form, ok := graphFormats[format]
			if !ok {
				return usagef("--format: %q is none of svg, dot, mermaid", format)
			}
			set, err := runnableRules(cmd.ErrOrStderr(), args, "")
			if err != nil {
				return err
			}
			list, err := pickRules(set.Rules, rule)
			if err != nil {
				return err
			}
			if folder == "" && len(list) > 1 {
				return usagef("there are %s: pick one with --rule, or write them to files with --output DIRECTORY", plural(len(list), "rule"))
			}
			for _, r := range list {
				g, err := graph.Of(r)
				if err != nil {
					return failed(err)
				}
				text := form.print(g)
				if folder == "" {
					if _, err := cmd.OutOrStdout().Write(text); err != nil {
						return failed(fmt.Errorf("write output: %w", err))
					}
					continue
				}
				if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // pictures are for everybody
					return failed(fmt.Errorf("write graphs: %w", err))
				}
				// An id holds no separator and does not begin with a dot, so that the file lies in the directory.
				if err := os.WriteFile(filepath.Join(folder, r.ID+form.end), text, 0o644); err != nil { //nolint:gosec // as above
					return failed(fmt.Errorf("write graphs: %w", err))
				}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&format, "format", "f", "svg", "svg, dot or mermaid")
	flags.StringVar(&rule, "rule", "", "`ID` of the rule to draw")
	flags.StringVarP(&folder, "output", "o", "", "`DIRECTORY` to write a file for each rule to")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"svg", "dot", "mermaid"}, cobra.ShellCompDirectiveNoFileComp)) // fails only for unknown flags
	return cmd
}

// pickRules returns the rule with an id, or all where none is named.
func pickRules(list []*patterns.Rule, id string) ([]*patterns.Rule, error) {
	if id == "" {
		return list, nil
	}
	i := slices.IndexFunc(list, func(r *patterns.Rule) bool { return r.ID == id })
	if i < 0 {
		names := make([]string, len(list))
		for i, r := range list {
			names[i] = r.ID
		}
		return nil, usagef("there is no rule %q%s", id, didYouMean("%q", id, names))
	}
	return list[i : i+1], nil
}
