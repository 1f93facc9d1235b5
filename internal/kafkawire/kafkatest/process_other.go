//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package kafkatest

import (
	"errors"
	"os"
	"os/exec"
)

// There is no way to pause a process: a test that needs one fails here.
var pauseSignal, resumeSignal os.Signal = os.Interrupt, os.Interrupt

func contain(*exec.Cmd) {}

func detach(*exec.Cmd) {}

// lock fails, so that no broker is lent: each package starts its own.
func lock(*os.File) error { return errors.ErrUnsupported }
