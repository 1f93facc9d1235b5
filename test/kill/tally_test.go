package kill

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
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
	row := func(name string, f figures) {
		fmt.Fprintf(w, "| %-22s | %9d | %6d | %10d | %4d | %7d |\n", name, f.lives, f.kills, f.alerts, f.missing, f.doubled)
	}
	fmt.Fprintf(w, "| %-22s | processes | killed | compared   | lost | doubled |\n|---|---|---|---|---|---|\n", "test")
	var sum figures
	for _, name := range slices.Sorted(maps.Keys(b.tests)) {
		f := b.tests[name]
		row(name, f)
		sum = figures{sum.lives + f.lives, sum.kills + f.kills, sum.alerts + f.alerts, sum.missing + f.missing, sum.doubled + f.doubled}
	}
	row("all", sum)
}
