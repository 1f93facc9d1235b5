package main

import (
	"os"
	"runtime/debug"
)

// collectorPercent is how much may be allocated between two collections, relative to what is live. A replay is bound by
// the processor, and what it holds is small beside what it reads: twice Go's default costs half as much memory again, and
// takes an eighth off the processor time where a million starts are live (docs/benchmarks.md). GOGC in the environment wins.
const collectorPercent = 200

func tuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectorPercent)
	}
}
