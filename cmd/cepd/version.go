package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by releases: -ldflags "-X main.version=1.2.3".
var version = "dev"

// build says which program this is.
type build struct {
	Version string `json:"version"`
	// Commit is empty where the program was built outside a checkout; Modified says that it had changes of its own.
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	// Language is the version of the rule language that is understood.
	Language int    `json:"rule_language"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildOf(info *debug.BuildInfo) build {
	b := build{Version: version, Language: 1, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return b
	}
	if v := info.Main.Version; b.Version == "dev" && v != "" && v != "(devel)" {
		b.Version = v // go install module@version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// newVersion returns `cepd version`.
func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print which cepd this is",
		Example: `  # For people
  cepd version

  # For scripts
  cepd version --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			b := buildOf(info)
			out := cmd.OutOrStdout()
			if asJSON {
				return writeJSON(out, b)
			}
			p := newPrinter(out)
			p.printf("cepd %s", b.Version)
			if b.Commit != "" {
				p.printf(" (commit %.12s", b.Commit)
				if b.Modified {
					p.printf(", modified")
				}
				p.printf(")")
			}
			p.printf("\nrule language %d, %s, %s\n", b.Language, b.Go, b.Platform)
			return p.done()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
