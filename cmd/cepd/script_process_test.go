package main

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// processes are those that a script has started, by name. They are killed with the script, whatever became of it.
type processes map[string]*process

type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// processesKey is where a script keeps its processes, environKey the variables that it began with.
type (
	processesKey struct{}
	environKey   struct{}
)

// setUpProcesses prepares a script for them.
func setUpProcesses(env *testscript.Env) {
	env.Values[processesKey{}] = processes{}
	env.Values[environKey{}] = env.Vars
}

// start runs a program beside the script: start NAME [VARIABLE=VALUE...] PROGRAM ARGUMENT... Its output is in NAME.out and
// NAME.log.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME [VARIABLE=VALUE...] PROGRAM ARGUMENT...")
	}
	name, environ := args[0], append([]string{}, ts.Value(environKey{}).([]string)...)
	for args = args[1:]; len(args) > 1 && strings.Contains(args[0], "="); args = args[1:] {
		environ = append(environ, args[0])
	}
	program := ""
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p := filepath.Join(dir, args[0]); program == "" {
			if info, err := os.Stat(p); err == nil && !info.IsDir() {
				program = p
			}
		}
	}
	if program == "" {
		ts.Fatalf("there is no program %s", args[0])
	}
	p := &process{cmd: exec.Command(program, args[1:]...), done: make(chan struct{})}
	p.cmd.Args[0], p.cmd.Dir, p.cmd.Env = args[0], ts.MkAbs("."), environ
	stdout, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	stderr, err := os.Create(ts.MkAbs(name + ".log"))
	ts.Check(err)
	p.cmd.Stdout, p.cmd.Stderr = stdout, stderr
	ts.Check(p.cmd.Start())
	ts.Value(processesKey{}).(processes)[name] = p
	go func() {
		_ = p.cmd.Wait() // its code is what counts
		_, _ = stdout.Close(), stderr.Close()
		close(p.done)
	}()
	ts.Defer(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
	})
}

// find returns a process that was started.
func find(ts *testscript.TestScript, name string) *process {
	p := ts.Value(processesKey{}).(processes)[name]
	if p == nil {
		ts.Fatalf("nothing was started as %s", name)
	}
	return p
}

// signalTo sends a signal: signal NAME TERM|INT|HUP|KILL|STOP|CONT.
func signalTo(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP,
	}
	maps.Copy(signals, pauses)
	if neg || len(args) != 2 || signals[args[1]] == nil {
		ts.Fatalf("usage: signal NAME TERM|INT|HUP|KILL|STOP|CONT")
	}
	ts.Check(find(ts, args[0]).cmd.Process.Signal(signals[args[1]]))
}

// end waits for a process and holds it to an exit code, that of a shell: end NAME CODE.
func end(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: end NAME CODE")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	p := find(ts, args[0])
	select {
	case <-p.done:
	case <-time.After(patience):
		ts.Fatalf("%s goes on after %s:\n%s", args[0], patience, ts.ReadFile(args[0]+".log"))
	}
	state := p.cmd.ProcessState
	code := state.ExitCode()
	if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		code = 128 + int(s.Signal())
	}
	if code != want {
		ts.Check(errors.New(args[0] + " ended with " + strconv.Itoa(code) + ", not " + args[1] + ":\n" + ts.ReadFile(args[0]+".log")))
	}
}
