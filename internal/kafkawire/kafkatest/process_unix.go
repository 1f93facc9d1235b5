//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package kafkatest

import (
	"os"
	"os/exec"
	"syscall"
)

// pauseSignal stops a process where it is, resumeSignal lets it go on.
var pauseSignal, resumeSignal os.Signal = syscall.SIGSTOP, syscall.SIGCONT

// detach takes a process from the terminal, whose interrupt is not for it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// lock locks a file for as long as it is open, and fails where another process has locked it.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
