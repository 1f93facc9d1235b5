package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestTutorial runs the commands of docs/tutorial.md as they stand there, one after the other in an empty directory.
func TestTutorial(t *testing.T) {
	page, err := os.ReadFile("../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	commands, compared := runPage(t, string(page), "")
	if commands < 8 || compared < 5 {
		t.Errorf("%d commands, %d lines compared: the page was not understood", commands, compared)
	}
}

// TestReadme runs the commands of the README in a copy of the examples, and holds the rule that it shows against the one
// that they run.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(page), "```yaml\n")
	shown, rest, more := strings.Cut(rest, "```\n")
	rule, err := os.ReadFile("../../examples/ssh/rules/ssh.yaml")
	if err != nil || !ok || !more {
		t.Fatal("no rule", err)
	}
	if _, rule, _ := strings.Cut(string(rule), "\n"); rule != shown { // the first line names the schema
		t.Errorf("the README does not show examples/ssh/rules/ssh.yaml (-want +got):\n%s", cmp.Diff(rule, shown))
	}
	commands, compared := runPage(t, head+rest, "mkdir bin\nexec sh -c 'ln -s $(command -v cepd) bin/cepd && cp -r $EXAMPLES examples'\n")
	if commands != 1 || compared != 5 {
		t.Errorf("%d commands, %d lines compared: the page was not understood", commands, compared)
	}
}

// runPage runs the commands of a page. What it shows below a command, each line of it, must be in what the command prints.
func runPage(t *testing.T, page, setUp string) (commands, compared int) {
	t.Helper()
	var script, files strings.Builder
	script.WriteString(setUp)
	parts := strings.Split(page, "```")
	if len(parts)%2 == 0 {
		t.Fatal("a block has no end")
	}
	for i := 1; i < len(parts); i += 2 {
		kind, text, _ := strings.Cut(parts[i], "\n")
		switch kind {
		case "sh", "sh fails":
			commands++
			not := ""
			if kind != "sh" {
				not = "! "
			}
			fmt.Fprintf(&script, "%sexec bash -c 'set -eu; exec 2>&1; . ./block%d.sh'\n", not, commands)
			fmt.Fprintf(&files, "-- block%d.sh --\n%s", commands, text)
		case "":
			for line := range strings.Lines(text) {
				if line = strings.TrimSpace(line); line != "" {
					compared++
					fmt.Fprintf(&script, "stdout %s\n", quoted(line))
				}
			}
		case "sh skip":
		default:
			t.Errorf("a block of %q: the page has sh, sh fails, sh skip, and what is printed", kind)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "page.txtar"), []byte(script.String()+files.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, scripts(t, dir))
	return commands, compared
}

// quoted is a regular expression for a text, as a word of a script.
func quoted(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune(`\.+*?()|[]{}^$`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return "'" + strings.ReplaceAll(b.String(), "'", "''") + "'"
}
