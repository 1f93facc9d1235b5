//go:build failpoints && unix

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// failpoint returns what kills this process when a step is reached, as CEPD_FAILPOINT=NAME[:COUNT] asks for: at its COUNT-th
// time, the first where none is said. Only programs that are built for tests have it.
func failpoint() func(point string) {
	text := os.Getenv("CEPD_FAILPOINT")
	if text == "" {
		return nil
	}
	name, number, counted := strings.Cut(text, ":")
	count := int64(1)
	if counted {
		var err error
		if count, err = strconv.ParseInt(number, 10, 64); err != nil || count < 1 {
			fmt.Fprintf(os.Stderr, "cepd: CEPD_FAILPOINT %q: write NAME or NAME:COUNT\n", text)
			os.Exit(exitUsage)
		}
	}
	var reached atomic.Int64
	return func(point string) {
		if point == name && reached.Add(1) == count {
			// As kill -9 from outside: nothing is flushed, no deferred call runs.
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	}
}
