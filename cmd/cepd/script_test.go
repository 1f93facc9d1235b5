package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

func TestMain(m *testing.M) {
	testscript.Main(withBroker{m}, map[string]func(){"cepd": main})
}

// withBroker ends the broker that tests have shared.
type withBroker struct{ m *testing.M }

func (b withBroker) Run() int { return kafkatest.Run(b.m) }

// TestScripts runs the command as its users do: test/script holds a file for each subject. They stand here because only
// this package can run its main.
func TestScripts(t *testing.T) { testscript.Run(t, scripts(t, "../../test/script")) }

// scripts says how those of a directory run.
func scripts(t *testing.T, dir string) testscript.Params {
	t.Helper()
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	return testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Setenv("NO_COLOR", "1")
			env.Setenv("EXAMPLES", examples)
			setUpProcesses(env)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"grow": grow, "compress": compress, "until": until, "matches": matches, "append": appendTo, "request": request,
			"checkpoints": checkpoints, "receiver": receiver, "poll": poll, "start": start, "signal": signalTo, "end": end,
		},
		UpdateScripts:       os.Getenv("CEPD_UPDATE") != "",
		RequireExplicitExec: true,
	}
}

// TestHelpHasTwoExamples holds every command to it, and to a first line that says what it does.
func TestHelpHasTwoExamples(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			if n := strings.Count(cmd.Example, "  # "); n < 2 {
				t.Errorf("%d examples", n)
			}
			if !strings.Contains(cmd.Example, cmd.CommandPath()+" ") {
				t.Error("no example runs the command")
			}
			if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
				t.Errorf("short text %q", cmd.Short)
			}
			for line := range strings.Lines(cmd.Long) {
				if len(line) > 121 {
					t.Errorf("line of %d bytes: %s", len(line), line)
				}
			}
		})
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	root := newRoot()
	root.InitDefaultHelpCmd()
	visit(root)
}
