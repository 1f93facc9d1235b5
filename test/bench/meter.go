package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// meter measures a part of a run.
type meter struct {
	began      time.Time
	beganCPU   float64
	beganAt    int
	events     int
	wall, cpu  float64
	heapBefore float64 // MB
	heapEnd    float64
	heapIdle   float64
	outputs    int
	note       string
}

// prepare notes what is held before the program under test begins.
func (m *meter) prepare() { m.heapBefore = heapMB() }

// start begins to measure, behind n events.
func (m *meter) start(n int) {
	m.began = time.Now() //nolint:forbidigo // a benchmark measures wall time
	m.beganCPU, m.beganAt = cpuSeconds(), n
}

// stop ends it.
func (m *meter) stop(n int) {
	m.wall = time.Since(m.began).Seconds() //nolint:forbidigo // as above
	m.cpu, m.events = cpuSeconds()-m.beganCPU, n-m.beganAt
}

func (m *meter) line(work, variant string) string {
	return fmt.Sprintf("%s,go,%s/json/1,%d,%.3f,%.3f,%.0f,%d,%.1f,%d,%.1f,%s", work, variant, m.events, m.wall, m.cpu,
		float64(m.events)/m.wall, maxRSS(), m.heapEnd-m.heapBefore, m.outputs, m.heapIdle-m.heapBefore, m.note)
}

// result is such a line, read again.
type result struct {
	events, outputs            int
	wall, cpu, rss, heap, idle float64
	// figures are those of the note, name=value.
	figures map[string]float64
}

func parseLine(line string) (r result, err error) {
	f := strings.SplitN(strings.TrimSpace(line), ",", 12)
	if len(f) < 10 {
		return r, fmt.Errorf("no line of columns: %q", line)
	}
	scan := func(s string, v any) {
		if s != "" && err == nil {
			_, err = fmt.Sscan(s, v)
		}
	}
	scan(f[3], &r.events)
	scan(f[4], &r.wall)
	scan(f[5], &r.cpu)
	scan(f[7], &r.rss)
	scan(f[8], &r.heap)
	scan(f[9], &r.outputs)
	if len(f) > 10 {
		scan(f[10], &r.idle)
	}
	r.figures = map[string]float64{}
	if len(f) > 11 {
		for word := range strings.FieldsSeq(f[11]) {
			if name, value, ok := strings.Cut(word, "="); ok {
				var v float64
				scan(value, &v)
				r.figures[name] = v
			}
		}
	}
	return r, err
}

// nanoseconds is the processor time of an event.
func (r result) nanoseconds() float64 { return r.cpu * 1e9 / float64(r.events) }

// heapMB is what is alive after a full collection.
func heapMB() float64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc) / 1e6
}

// maxRSS is the most memory in MB that the process has had, 0 where the system does not say.
func maxRSS() int { return processMB("VmHWM:") }

// processMB is one of the memory sizes that the system keeps of the process.
func processMB(name string) (mb int) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	if _, s, ok := strings.Cut(string(status), name); ok {
		if _, err := fmt.Sscan(s, &mb); err != nil {
			return 0
		}
	}
	return mb / 1024
}
