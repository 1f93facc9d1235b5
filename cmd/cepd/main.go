// Command cepd finds patterns in streams of events. docs/cli.md describes its commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes are a contract with scripts: docs/cli.md.
const (
	exitOK          = 0
	exitFailed      = 1   // the work was tried and failed: a test, an unreadable stream
	exitUsage       = 2   // the command line is wrong, or names what is not there
	exitRules       = 3   // the rules or the configuration have mistakes
	exitDecision    = 4   // a job would not start, or stopped, until a person decides: starting it again changes nothing
	exitInterrupted = 130 // SIGINT or SIGTERM; what was found before was written
)

func main() { os.Exit(run(os.Args[1:])) }

// run runs one command line and returns its exit code.
func run(args []string) int {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go obeySignals(stop)

	root := newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var coded *codedError
	if !errors.As(err, &coded) {
		// Commands code all their errors: what comes without a code is cobra's, about flags and arguments.
		coded = &codedError{code: exitUsage, err: err}
	}
	stderr := newPrinter(os.Stderr)
	if coded.err != nil {
		stderr.printf("cepd: %v\n", coded.err)
	}
	if coded.code == exitUsage {
		stderr.printf("See: %s --help\n", cmd.CommandPath())
	}
	return coded.code
}

// obeySignals lets the first signal ask for an end in good order, and the second one end the process at once. It goes on as
// long as the process: a signal that comes while the first is being obeyed must not be lost.
func obeySignals(stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	<-signals
	stop()
	second := <-signals
	// It does what it does to any process, and whoever waits for this one sees that.
	signal.Reset(second)
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(second) == nil {
		select {}
	}
	os.Exit(exitInterrupted)
}

// codedError is an error with the exit code that it means. err is nil where all has been said already.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *codedError) Unwrap() error { return e.err }

// failed says that err ended the work.
func failed(err error) error { return &codedError{exitFailed, err} }

// usagef says what is wrong with the command line, and what to write instead.
func usagef(format string, args ...any) error {
	return &codedError{exitUsage, fmt.Errorf(format, args...)}
}

// silent ends with a code; what is to say has been said.
func silent(code int) error { return &codedError{code: code} }
