package main

import (
	"github.com/spf13/cobra"
)

// newCompletion returns `cepd completion`.
func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print the completion script for a shell",
		Long: `Print a script that makes a shell complete cepd's commands, flags and files.
Load it in the running shell, or put it where the shell finds it.`,
		Example: `  # Bash, in this shell
  source <(cepd completion bash)

  # Zsh and fish, for good
  cepd completion zsh > "${fpath[1]}/_cepd"
  cepd completion fish > ~/.config/fish/completions/cepd.fish`,
		ValidArgs:             []string{"bash", "zsh", "fish", "powershell"},
		Args:                  cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			switch root, out := cmd.Root(), cmd.OutOrStdout(); args[0] {
			case "bash":
				err = root.GenBashCompletionV2(out, true)
			case "zsh":
				err = root.GenZshCompletion(out)
			case "fish":
				err = root.GenFishCompletion(out, true)
			case "powershell":
				err = root.GenPowerShellCompletionWithDesc(out)
			}
			if err != nil {
				return failed(err)
			}
			return nil
		},
	}
}
