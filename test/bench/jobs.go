package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// jobs prints what a job costs beside a replay, what its epochs cost, and how long a start takes.
func (s suite) jobs(w io.Writer) error {
	remove, err := s.place()
	if err != nil {
		return err
	}
	defer remove()
	me, err := os.Executable()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s, %d cores, %s\n\n", processor(), runtime.NumCPU(), runtime.Version())
	for _, f := range []func(*bytes.Buffer, string) error{s.beside, s.epochs} {
		if err := f(&b, me); err != nil {
			return err
		}
		b.WriteByte('\n')
	}
	_, err = w.Write(b.Bytes())
	return err
}

// beside prints jobs with an epoch each second beside replays and the naive program.
func (s suite) beside(w *bytes.Buffer, me string) error {
	fmt.Fprint(w, "| work | job | replay | naive | job / replay | naive / job |\n|---|---|---|---|---|---|\n")
	warm := roundUp(s.live*8/5, markEvery)
	for _, c := range []struct {
		work string
		in   shape
		warm int
	}{
		{"w1", shape{Events: s.events, Window: s.window}, 0},
		{"w2", shape{Events: warm + s.events, Live: s.live, Window: s.window}, warm},
	} {
		file, err := s.input(c.work, c.in)
		if err != nil {
			return err
		}
		start := []string{me, "-w", c.work, "-file", file, "-warm", strconv.Itoa(c.warm), "-variant"}
		results, err := s.middle([][]string{
			append(slices.Clone(start), "job"), append(slices.Clone(start), "cepd"),
			append(slices.Clone(start), "naive", "-limit", strconv.Itoa(c.warm+naiveEvents)),
		})
		if err != nil {
			return err
		}
		job, replay, naive := results[0].nanoseconds(), results[1].nanoseconds(), results[2].nanoseconds()
		fmt.Fprintf(w, "| %s | %.0f ns | %.0f ns | %.0f ns | %.1f | %.1f |\n", strings.ToUpper(c.work), job, replay, naive, job/replay, naive/job)
	}
	return nil
}

// epochs prints what epochs cost a job that finds nothing, how long they hold it up, and how it starts from one.
func (s suite) epochs(w *bytes.Buffer, me string) error {
	warm := roundUp(s.held*8/5, markEvery)
	file, err := s.input("starts", shape{Events: warm + s.events, Live: s.held, Window: s.window})
	if err != nil {
		return err
	}
	state := filepath.Join(s.dir, "state")
	if err := os.RemoveAll(state); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(state) }() // what is left of it harms nobody
	start := []string{me, "-w", "starts", "-file", file, "-warm", strconv.Itoa(warm), "-variant"}
	with := func(more ...string) []string { return append(slices.Clone(start), more...) }
	results, err := s.middle([][]string{
		with("job", "-interval", "24h"), with("job", "-interval", "1s"), with("job", "-interval", "100ms"),
		with("pauses"), with("pauses", "-shards", "2"),
	})
	if err != nil {
		return err
	}
	off := results[0].nanoseconds()
	fmt.Fprintf(w, "%d live starts, nothing matches:\n\n", s.held)
	fmt.Fprint(w, "| epochs | an event | cost | epochs | kB an epoch, p50 | most | commit p50 ms | p99 | cut p50 ms | p99 | p99.9 |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i, name := range []string{"none", "each second", "each 100 ms"} {
		r, f := results[i], results[i].figures
		fmt.Fprintf(w, "| %s | %.0f ns | %+.0f %% | %.0f | %.0f | %.0f | %.1f | %.1f | %.2f | %.2f | %.2f |\n", name, r.nanoseconds(), 100*(r.nanoseconds()/off-1),
			f["epochs"], f["epoch_p50_kb"], f["epoch_max_kb"], f["commit_p50_ms"], f["commit_p99_ms"], f["cut_p50_ms"], f["cut_p99_ms"], f["cut_p999_ms"])
	}
	fmt.Fprint(w, "\n| a barrier each 1,000 events | barriers | p50 ms | p99 | p99.9 | most |\n|---|---|---|---|---|---|\n")
	for i, name := range []string{"the whole of it, in one goroutine", "what the front waits, with 2 shards"} {
		f := results[3+i].figures
		fmt.Fprintf(w, "| %s | %.0f | %.3f | %.3f | %.3f | %.3f |\n", name, f["epochs"], f["pause_p50_ms"], f["pause_p99_ms"], f["pause_p999_ms"], f["pause_max_ms"])
	}
	left := with("job", "-interval", "100ms", "-state", state)
	if _, err := execute(left[0], left[1:]...); err != nil {
		return err
	}
	again, err := s.middle([][]string{with("recover", "-state", state)})
	if err != nil {
		return err
	}
	r, f := again[0], again[0].figures
	fmt.Fprintf(w, "\nA start from such a state: %d starts in %.2f s (%.2f s of processor time, collector included), of which opening %.0f ms. %.0f MB on the heap, "+
		"%.0f B a live start; a full collection takes %.0f ms of processor time.\n", r.events, r.wall, r.cpu, f["open_ms"], r.heap, r.heap*1e6/float64(r.events), f["gc_cpu_ms"])
	return nil
}
