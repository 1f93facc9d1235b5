package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestCommandsPage holds docs/commands.md, which is made of the commands, and docs/cli.md to naming them all.
func TestCommandsPage(t *testing.T) {
	const page = "../../docs/commands.md"
	want := commandsPage(newRoot())
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/commands.md is not what the commands say: go test ./cmd/cepd -run TestCommandsPage -update")
	}
	guide, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range newRoot().Commands() {
		if c.IsAvailableCommand() && !strings.Contains(string(guide), "`"+c.CommandPath()) {
			t.Errorf("docs/cli.md does not name `%s`", c.CommandPath())
		}
	}
}

// commandsPage is a reference of all commands below root.
func commandsPage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Every command and flag\n\n" +
		"What `cepd help COMMAND` says, made of the commands themselves. [cli.md](cli.md) is the guide to them: what they are for,\n" +
		"exit codes, and what they print.\n")
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" && c.HasParent() {
			return
		}
		if c.Runnable() && c != root {
			fmt.Fprintf(&b, "\n## %s\n%s.\n\n```\n%s\n```\n%s\n", c.CommandPath(), c.Short, c.UseLine(), strings.TrimSpace(c.Long))
			first := true
			c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
				if f.Hidden || f.Name == "help" {
					return
				}
				if first {
					b.WriteString("\n| flag | meaning | default |\n|---|---|---|\n")
					first = false
				}
				b.WriteString(flagRow(f))
			})
			if c.Example != "" {
				fmt.Fprintf(&b, "\n```\n%s\n```\n", outdented(c.Example))
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	return b.String()
}

// flagRow is a flag as a row of a table.
func flagRow(f *pflag.Flag) string {
	value, usage := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if value != "" {
		name += " " + value
	}
	fallback := f.DefValue
	if fallback == "false" || fallback == "[]" || fallback == "" {
		fallback = ""
	} else {
		fallback = "`" + fallback + "`"
	}
	cell := strings.NewReplacer("|", "\\|", "\n", " ")
	return fmt.Sprintf("| `%s` | %s | %s |\n", cell.Replace(name), cell.Replace(usage), cell.Replace(fallback))
}

// outdented takes the two spaces away that examples begin with.
func outdented(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}
