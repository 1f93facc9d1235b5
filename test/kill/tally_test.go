//go:build unix

package kill

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/cep/source/eventlog"
	"github.com/cepd/cepd/checkpoint/boltstore"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/filesink"
)

// figures are what a test has done.
type figures struct {
	// lives is the number of processes that were started, kills that of those killed by SIGKILL.
	lives, kills int
	// alerts is the number of alerts that were compared, of all destinations; missing and doubled what was wrong with those
	// of destinations that promise each alert once.
	alerts, missing, doubled int
}

// tally holds the figures of all tests of the run, for the table at its end.
var tally board

type board struct {
	mu    sync.Mutex
	tests map[string]figures
	hits  map[string]int // by failpoint
}

// failpoints are all that the packages name.
func failpoints() []string {
	points := slices.Concat(job.Failpoints(), boltstore.Failpoints, sinks.Failpoints, filesink.Failpoints, eventlog.Failpoints)
	slices.Sort(points)
	return points
}

// hit notes that a process was killed at NAME or NAME:COUNT.
func (b *board) hit(failpoint string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hits == nil {
		b.hits = map[string]int{}
	}
	name, _, _ := strings.Cut(failpoint, ":")
	b.hits[name]++
}

// judge is the exit code of a run of all tests: 1 if no process was killed at some failpoint.
func (b *board) judge(w io.Writer) (code int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.tests) == 0 {
		return 0 // there is no server, and every test was skipped
	}
	var text strings.Builder
	for _, name := range failpoints() {
		if b.hits[name] == 0 {
			fmt.Fprintf(&text, "no process was killed at %s\n", name)
			code = 1
		}
	}
	_, _ = io.WriteString(w, text.String()) // the exit code says it too
	return code
}

func (b *board) add(t testing.TB, f figures) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tests == nil {
		b.tests = map[string]figures{}
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	was := b.tests[name]
	b.tests[name] = figures{
		was.lives + f.lives, was.kills + f.kills, was.alerts + f.alerts, was.missing + f.missing, was.doubled + f.doubled,
	}
}

// print writes the table.
func (b *board) print(w io.Writer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var text strings.Builder
	row := func(name string, f figures) {
		fmt.Fprintf(&text, "| %-22s | %9d | %6d | %10d | %4d | %7d |\n", name, f.lives, f.kills, f.alerts, f.missing, f.doubled)
	}
	fmt.Fprintf(&text, "| %-22s | processes | killed | compared   | lost | doubled |\n|---|---|---|---|---|---|\n", "test")
	var sum figures
	for _, name := range slices.Sorted(maps.Keys(b.tests)) {
		f := b.tests[name]
		row(name, f)
		sum = figures{sum.lives + f.lives, sum.kills + f.kills, sum.alerts + f.alerts, sum.missing + f.missing, sum.doubled + f.doubled}
	}
	row("all", sum)
	killed, points := 0, 0
	for name, n := range b.hits {
		if name != "" {
			killed, points = killed+n, points+1
		}
	}
	fmt.Fprintf(&text, "killed at failpoints: %d, at %d of %d of them; at other moments: %d\n", killed, points, len(failpoints()), b.hits[""])
	_, _ = io.WriteString(w, text.String()) // for people only
}
