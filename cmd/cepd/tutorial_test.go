package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestTutorial runs the commands of docs/tutorial.md as they stand there, one after the other in an empty directory. What a
// page shows below a command, each line of it, must be in what the command prints.
func TestTutorial(t *testing.T) {
	page, err := os.ReadFile("../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	var script, files strings.Builder
	commands, compared := 0, 0
	parts := strings.Split(string(page), "```")
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
	if commands < 8 || compared < 5 {
		t.Fatalf("%d commands, %d lines compared: the page was not understood", commands, compared)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tutorial.txtar"), []byte(script.String()+files.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, scripts(t, dir))
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
