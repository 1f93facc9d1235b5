//go:build !unix

package redistest

import "os"

// There is no way to pause a process: a test that needs one fails here.
var pauseSignal, resumeSignal os.Signal = os.Interrupt, os.Interrupt
