//go:build unix

package redistest

import (
	"os"
	"syscall"
)

// pauseSignal stops a process where it is, resumeSignal lets it go on.
var pauseSignal, resumeSignal os.Signal = syscall.SIGSTOP, syscall.SIGCONT
