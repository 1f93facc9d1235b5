package main

import (
	"os"
	"runtime/debug"
)

// collectorPercent is how much may be allocated between two collections, relative to what is live. A replay is bound by
// the processor, and what it holds is small beside what it reads. Measured once, on W2 of docs/benchmarks.md with 250,000 live
// starts: 3.9 in place of 4.5 us of processor time an event, for a peak of 216 in place of 144 MB. A job costs a fifth less
// likewise. GOGC in the environment wins.
const collectorPercent = 200

// restorePercent is that while a job is restored: nearly all that is made stays, so that a collection finds nothing. At a
// million live starts collections took 1.4 of 3.0 seconds of processor time.
const restorePercent = 400

func tuneCollector(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
