//go:build unix

package main

import (
	"os"
	"syscall"
)

// pauses are the signals that stop a process where it is and let it go on, by the words of scripts.
var pauses = map[string]os.Signal{"STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}
