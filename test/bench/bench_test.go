package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Both programs find exactly the matches that the generators count, at the end and at a mark.
func TestExactMatches(t *testing.T) {
	for work, s := range map[string]shape{
		"w1": {Events: 60_000, Window: 20_000}, // windows end in it, as in all three
		"w2": {Events: 40_000, Live: 10_000, Window: 600_000},
		"w5": {Events: 60_000, Window: 20_000},
	} {
		file := filepath.Join(t.TempDir(), work+".jsonl")
		want, err := generate(work, file, s)
		if err != nil {
			t.Fatal(err)
		}
		if want.matches < 50 {
			t.Errorf("%s: only %d matches", work, want.matches)
		}
		for _, variant := range []string{"cepd", "naive", "job"} {
			for _, limit := range []int{s.Events, 20_000} {
				if variant == "naive" && work == "w5" {
					continue
				}
				o := options{work: work, variant: variant, file: file, limit: limit, rules: types, window: s.Window, interval: 50 * time.Millisecond}
				m := run1(t, o)
				if err := check(o, m.outputs); err != nil {
					t.Error(err)
				}
				if n, ok := want.at(limit, s.Events); !ok || n != m.outputs {
					t.Errorf("%s by %s: %d matches in %d events, want %d (%v)", work, variant, m.outputs, limit, n, ok)
				}
				if m.events != limit {
					t.Errorf("%s by %s: %d events measured, want %d", work, variant, m.events, limit)
				}
			}
		}
	}
}

func run1(t *testing.T, o options) meter {
	t.Helper()
	var m meter
	if err := programs[o.variant](o, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// A job that ends without notice goes on with the starts that live, and epochs tell what they cost.
func TestStateIsLeftBehind(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "starts.jsonl")
	want, err := generate("starts", file, shape{Events: 40_000, Live: 10_000, Window: 600_000})
	if err != nil {
		t.Fatal(err)
	}
	if want.matches > 0 || want.live < 9500 || want.live > 10_500 {
		t.Errorf("the input has %d matches and %d live starts", want.matches, want.live)
	}
	o := options{
		work: "starts", variant: "job", file: file, warm: 20_000, limit: 1 << 62, window: 600_000, interval: 10 * time.Millisecond,
		state: filepath.Join(dir, "state"),
	}
	m := run1(t, o)
	r, err := parseLine(m.line("starts", "job"))
	if err != nil {
		t.Fatal(err)
	}
	if r.events != 20_000 || r.figures["epochs"] < 1 || r.figures["epoch_max_kb"] <= 0 || r.figures["cut_max_ms"] <= 0 || r.figures["commit_p50_ms"] <= 0 {
		t.Errorf("%+v", r)
	}
	o.variant = "recover"
	// The last event waits for a later one.
	if m := run1(t, o); m.events < want.live-1 || m.events > want.live {
		t.Errorf("%d starts are restored, %d live", m.events, want.live)
	}
	o.variant, o.every = "pauses", 1000
	for o.shards = range 3 {
		m := run1(t, o)
		if r, err = parseLine(m.line("starts", "pauses")); err != nil || r.figures["epochs"] != 20 || r.figures["pause_max_ms"] < r.figures["pause_p50_ms"] {
			t.Errorf("%d shards: %+v %v", o.shards, r, err)
		}
	}
}

// A soak ends with nothing held, and with every alert; a small one too.
func TestSoak(t *testing.T) {
	var b bytes.Buffer
	o := options{window: 600_000, interval: 50 * time.Millisecond}
	if err := soak(&b, o, shape{Events: 50_000, Live: 5000}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	const heading = 4
	if len(lines) < heading+soakRows+1 {
		t.Fatal(b.String())
	}
	for i, want := range map[int]string{heading + soakRows - 1: "| 50000 | 49", heading + soakRows: "| 50000 | 0 |"} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is %q, want %q...", i+1, lines[i], want)
		}
	}
}

// Events are sent at an even pace, and what is measured begins behind the first two seconds.
func TestPace(t *testing.T) {
	events := 0
	sent, err := pace(time.Second/5, func(lines []byte, ends []int) error {
		if n := bytes.Count(lines, []byte("\n")); n != len(ends) || ends[n-1] != len(lines) {
			t.Errorf("%d lines, ends %v", n, ends)
		}
		events += len(ends)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if events != latencyRate/5+1 || len(sent) != latencyRate/5/latencyHit {
		t.Errorf("%d events, %d alerts", events, len(sent))
	}
	now := time.Now()
	a := &arrivals{at: map[string]time.Time{"early": now, "counts": now}}
	list, err := a.since(map[string]time.Time{"early": {}, "counts": now.Add(-time.Second)})
	if err != nil || len(list) != 1 || list[0] != time.Second {
		t.Errorf("took %v %v", list, err)
	}
	if _, err := a.since(map[string]time.Time{"lost": now}); err == nil {
		t.Error("an alert that did not come passes")
	}
}

func TestOneRule(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w5.jsonl")
	want, err := generate("w5", file, shape{Events: 100_000, Window: 600_000})
	if err != nil {
		t.Fatal(err)
	}
	o := options{work: "w5", variant: "cepd", file: file, limit: 1 << 62, rules: 1, window: 600_000}
	if m := run1(t, o); m.outputs != want.one {
		t.Errorf("one rule: %d matches, want %d", m.outputs, want.one)
	}
	o.window = 1
	if m := run1(t, o); check(o, m.outputs) == nil && want.one > 0 {
		t.Error("a wrong number of matches passes the check")
	}
}

// An event that no rule touches costs no allocation on its way from the file: of 100,000 events one in a thousand is
// touched, and some pieces of memory are made once.
func TestUntouchedEventsDoNotAllocate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w5.jsonl")
	if _, err := generate("w5", file, shape{Events: 100_000, Window: 600_000}); err != nil {
		t.Fatal(err)
	}
	o := options{work: "w5", variant: "cepd", file: file, limit: 1 << 62, rules: 1, window: 600_000}
	mallocs := func(o options) int64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		run1(t, o)
		runtime.ReadMemStats(&after)
		return int64(after.Mallocs - before.Mallocs)
	}
	few := o
	few.limit = 1000
	if n := float64(mallocs(o)-mallocs(few)) / 99_000; n > 0.02 {
		t.Errorf("%.3f allocations an event", n)
	}
}

// Inputs are the same wherever they are written, and what is written beside them reads back.
func TestInputsAreDeterministic(t *testing.T) {
	dir := t.TempDir()
	s := shape{Events: 25_000, Live: 1000, Window: 600_000}
	var texts [2][]byte
	for i := range texts {
		file := filepath.Join(dir, string(rune('a'+i)))
		want, err := generate("w2", file, s)
		if err != nil {
			t.Fatal(err)
		}
		if texts[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file + ".expect")
		if err != nil {
			t.Fatal(err)
		}
		got, events, err := readExpect(f)
		if err != nil {
			t.Fatal(err)
		}
		if events != s.Events || got.matches != want.matches || got.live != want.live || len(got.marks) != len(want.marks) {
			t.Errorf("read %+v, %d events; wrote %+v", got, events, want)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if want.live < s.Live*8/10 || want.live > s.Live*12/10 {
			t.Errorf("%d live starts, wanted about %d", want.live, s.Live)
		}
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("two inputs of one seed differ")
	}
	if n := len(texts[0]) / s.Events; n < 175 || n > 195 {
		t.Errorf("%d bytes an event", n)
	}
}

func TestColumns(t *testing.T) {
	m := meter{events: 1000, wall: 0.5, cpu: 0.25, outputs: 7, heapBefore: 1, heapEnd: 3.5, heapIdle: 1.5, note: "a, b"}
	r, err := parseLine(m.line("w1", "cepd") + "\n")
	if err != nil {
		t.Fatal(err)
	}
	if r.events != 1000 || r.wall != 0.5 || r.cpu != 0.25 || r.outputs != 7 || r.heap != 2.5 || r.idle != 0.5 {
		t.Errorf("read %+v", r)
	}
	if r.nanoseconds() != 250_000 {
		t.Errorf("%v ns an event", r.nanoseconds())
	}
	// The line of the reference's program has no heap_idle_mb.
	if r, err = parseLine("w2,go,proto/json/1,1000,0.5,0.5,2000,100,12,77,,live 5\n"); err != nil || r.outputs != 77 || r.idle != 0 {
		t.Errorf("%+v %v", r, err)
	}
	if _, err = parseLine("nothing\n"); err == nil {
		t.Error("no columns, no error")
	}
}

// Every element's load makes alerts, so that what is measured is the element at work.
func TestElements(t *testing.T) {
	known := 0
	for i := range elements {
		e := &elements[i]
		n := 100
		if e.most > 0 {
			n = e.most
		}
		c, ok, err := e.run(n, 10_000, 0.3)
		if err != nil {
			t.Error(err)
			continue
		}
		if !ok {
			continue // a word of a later version
		}
		known++
		if c.alerts == 0 || c.nanoseconds <= 0 {
			t.Errorf("%s: %d alerts, %v ns an event", e.name, c.alerts, c.nanoseconds)
		}
	}
	if known < 20 {
		t.Errorf("only %d elements are known", known)
	}
	if g := growth([]int{10, 100, 1000}, []cost{{nanoseconds: 5}, {}, {nanoseconds: 500}}); g < 0.999 || g > 1.001 {
		t.Errorf("in proportion is n^%v", g)
	}
}
