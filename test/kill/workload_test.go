//go:build unix

package kill

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
	"github.com/cepd/cepd/rules"
)

// ruleFile keeps state of every kind: open starts and loops, absences, suppression, open alerts, rules over alerts.
const ruleFile = `version: 1
rules:
- {id: brute, from: auth, by: [user], within: 30s, sequence: [{step: fail, where: kind == "a", times: 3..}, {step: ok, where: kind == "b"}], alert: {fields: {n: len(fail)}}}
- {id: both, from: [auth, web], by: [user], within: 20s, sequence: [{step: a, where: kind == "a"}, {step: b, from: web, where: kind == "b"}, {step: c, where: kind == "c"}]}
- {id: silent, from: web, by: [user], sequence: [{step: c, where: kind == "c"}, {absent: b, where: kind == "b", for: 40s}]}
- {id: storm, from: auth, by: [user], where: kind == "x", alert: {suppress: {by: [user], for: 25s}}}
- {id: outage, from: web, by: [user], where: kind == "x", alert: {resolve: {where: kind == "b", quiet: 50s}, while_open: update}}
- {id: over, from: alerts, by: [key.user], within: 1m, sequence: [{step: one, where: rule == "brute"}, {step: two, where: rule == "silent"}]}
`

const lateness = 3 * time.Second

var streams = []string{"auth", "web"}

// lane is what alerts must keep their order in.
type lane struct{ rule, key string }

// workload is an input on disk, and what has to come of it.
type workload struct {
	dir     string
	alerts  map[lane][]string
	number  int
	refused map[string]int // by position
	// plain makes of an alert what is compared of it; nil: all of it, byte for byte.
	plain func(line []byte) []byte
}

// prepare makes the directories of a workload.
func prepare(t testing.TB, dir string) *workload {
	t.Helper()
	for _, d := range []string{"auth", "web", "rules"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return &workload{dir: dir, alerts: map[lane][]string{}, refused: map[string]int{}}
}

// newWorkload writes so many events for each of three partitions, for ruleFile or other rules.
func newWorkload(t testing.TB, dir string, events int, ruleText ...string) *workload {
	t.Helper()
	if len(ruleText) == 0 {
		ruleText = []string{ruleFile}
	}
	r := rand.New(rand.NewPCG(1, uint64(events)))
	w := prepare(t, dir)
	w.write(t, "rules/rules.yaml", []byte(strings.Join(ruleText, "---\n")))
	users := max(events/60, 3)
	for _, name := range []string{"auth/one.jsonl", "auth/two.jsonl", "web/one.jsonl"} {
		var b bytes.Buffer
		now := int64(900_000_000)
		for i := range events {
			if i%20 == 0 {
				now += int64(r.IntN(3))
			}
			at := now
			if r.IntN(6) == 0 {
				at -= int64(r.IntN(6)) // some of these come too late
			}
			if r.IntN(500) == 0 {
				b.WriteString(`{"t": soon}` + "\n")
				continue
			}
			fmt.Fprintf(&b, `{"t":%d,"file":%q,"n":%d,"kind":"%c","user":"u%d"}`+"\n", at, name, i, "aaaabbccx"[r.IntN(9)], r.IntN(users))
		}
		w.write(t, name, b.Bytes())
	}
	w.golden(t)
	if len(w.refused) == 0 {
		t.Fatal("a workload without refused events does not test them")
	}
	return w
}

func (w *workload) write(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// golden plays the input through the engine, without a job, a store or a sink.
func (w *workload) golden(t testing.TB) {
	t.Helper()
	w.goldenOf(t, func(stream string, parts *source.Partitions) []source.Reader {
		readers, err := filesource.Open(filesource.Config{Stream: stream, Paths: []string{filepath.Join(w.dir, stream)}, Partitions: parts})
		if err != nil {
			t.Fatal(err)
		}
		return readers
	})
}

// goldenOf does so with any readers of the streams.
func (w *workload) goldenOf(t testing.TB, open func(stream string, parts *source.Partitions) []source.Reader) {
	t.Helper()
	set, diagnostics, err := rules.Load([]string{filepath.Join(w.dir, "rules")})
	if err != nil || set == nil {
		t.Fatal(err, diagnostics)
	}
	spec, err := codec.ParseTime("t,unix")
	if err != nil {
		t.Fatal(err)
	}
	parts := source.NewPartitions(streams...)
	cfg := engine.ReplayConfig{Rules: set, Time: spec, Partitions: parts}
	for _, name := range streams {
		cfg.Streams = append(cfg.Streams, engine.Stream{Name: name, Lateness: lateness})
		readers := open(name, parts)
		for _, r := range readers {
			w.judge(t, r, spec)
			if err := r.SeekTo(0); err != nil {
				t.Fatal(err)
			}
		}
		cfg.Readers = append(cfg.Readers, readers...)
	}
	cfg.Alert = func(a *cep.Alert) error {
		line := w.shown(alert.AppendJSON(nil, a))
		l, err := laneOf(line)
		w.alerts[l] = append(w.alerts[l], string(line))
		w.number++
		return err
	}
	if _, err := engine.Replay(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	if w.number == 0 {
		t.Fatal("a workload without alerts tests nothing")
	}
}

func (w *workload) shown(line []byte) []byte {
	if w.plain == nil {
		return line
	}
	return w.plain(line)
}

// judge finds the records that take no part: those that are no events, and those at or below the watermark of their
// partition.
func (w *workload) judge(t testing.TB, r source.Reader, spec codec.TimeSpec) {
	t.Helper()
	decoder := codec.NewJSON(cep.NewSchema(), spec, codec.Options{})
	highest := cep.BeforeAll
	for {
		rec, err := r.Next(context.Background())
		if err != nil {
			return
		}
		var ev cep.Event
		if err := decoder.Decode(rec.Data, &ev); err != nil || highest != cep.BeforeAll && ev.Time <= highest.Add(-lateness).Add(-1) {
			w.refused[fmt.Sprintf("%s/%s/%d", r.Partition().Stream, r.Partition().Name, rec.Offset)]++
			continue
		}
		highest = max(highest, ev.Time)
	}
}

// body is what the comparison reads of a message.
type body struct {
	Rule      string          `json:"rule"`
	Key       json.RawMessage `json:"key"`
	Stream    string          `json:"stream"`
	Partition string          `json:"partition"`
	Offset    int64           `json:"offset"`
}

func laneOf(line []byte) (lane, error) {
	var b body
	err := json.Unmarshal(line, &b)
	return lane{b.Rule, string(b.Key)}, err
}

// compare says what differs between what has arrived and what should have; "" if nothing.
func (w *workload) compare(lines []string) string {
	got, n, err := w.arrived(lines)
	if err != nil {
		return err.Error()
	}
	for l, want := range w.alerts {
		if len(got[l]) != len(want) {
			return fmt.Sprintf("%d alerts instead of %d (of %v %d instead of %d)", n, w.number, l, len(got[l]), len(want))
		}
		for i := range want {
			if got[l][i] != want[i] {
				return fmt.Sprintf("of %v alert %d:\n  want %s\n  got  %s", l, i, want[i], got[l][i])
			}
		}
	}
	if n != w.number {
		return fmt.Sprintf("%d alerts instead of %d", n, w.number)
	}
	return ""
}

// arrived sorts what has arrived into its lanes.
func (w *workload) arrived(lines []string) (map[lane][]string, int, error) {
	got, n := map[lane][]string{}, 0
	for _, line := range lines {
		l, err := laneOf([]byte(line))
		if err != nil {
			return nil, 0, fmt.Errorf("%q: %w", line, err)
		}
		got[l] = append(got[l], string(w.shown([]byte(line))))
		n++
	}
	return got, n, nil
}

// differ counts what is missing and what came more than once (or should never have come), for the tables of the end and for
// destinations that may lose or repeat. Where order is what it should be, unordered is "".
func (w *workload) differ(lines []string) (missing, doubled int, unordered string) {
	got, _, err := w.arrived(lines)
	if err != nil {
		return 0, 0, err.Error()
	}
	for l, want := range w.alerts {
		at := map[string]int{}
		for i, line := range want {
			at[line] = i
		}
		seen, last := map[string]bool{}, -1
		for _, line := range got[l] {
			i, known := at[line]
			if !known || seen[line] {
				doubled++
				continue
			}
			if seen[line] = true; i < last {
				unordered = fmt.Sprintf("of %v this came too late: %s", l, line)
			}
			last = i
		}
		missing += len(want) - len(seen)
	}
	for l, lines := range got {
		if _, known := w.alerts[l]; !known {
			doubled += len(lines)
		}
	}
	return missing, doubled, unordered
}

// compareRefused does so for refused events.
func (w *workload) compareRefused(lines []string) string {
	got := map[string]int{}
	for _, line := range lines {
		var b body
		if err := json.Unmarshal([]byte(line), &b); err != nil {
			return fmt.Sprintf("%q: %v", line, err)
		}
		at := fmt.Sprintf("%s/%s/%d", b.Stream, b.Partition, b.Offset)
		if got[at]++; got[at] > w.refused[at] {
			return fmt.Sprintf("%s is there %d times, want %d: %s", at, got[at], w.refused[at], line)
		}
	}
	if len(got) != len(w.refused) {
		return fmt.Sprintf("%d refused events instead of %d", len(got), len(w.refused))
	}
	return ""
}
