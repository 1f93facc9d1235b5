package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
)

// epoch is the time of the first event, in Unix milliseconds.
const epoch = 1_732_881_234_567

// markEvery is the number of events between two marks: the matches so far, which a run that stops there must have found.
const markEvery = 10_000

// shape says how large an input is.
type shape struct {
	// Events is the number of events in all.
	Events int
	// Live is the number of starts that w2 holds open.
	Live int
	// Window is the window of the rules in milliseconds, inclusive.
	Window int64
}

// expect is what an exact engine finds.
type expect struct {
	// marks is the number of matches after each markEvery events.
	marks []int
	// matches is the number at the end; one is that of the first rule alone (w5).
	matches, one int
	// live is the number of open starts at the end (w2).
	live int
}

// at returns the matches among the first n events, which must be a mark or the end.
func (e *expect) at(n, events int) (matches int, ok bool) {
	if n == events {
		return e.matches, true
	}
	if n%markEvery != 0 || n/markEvery > len(e.marks) || n == 0 {
		return 0, false
	}
	return e.marks[n/markEvery-1], true
}

// write writes e as lines "name value".
func (e *expect) write(w io.Writer, events int) error {
	b := fmt.Appendf(nil, "events %d\nmatches %d\nmatches_1 %d\nlive_end %d\n", events, e.matches, e.one, e.live)
	for i, m := range e.marks {
		b = fmt.Appendf(b, "matches_at_%d %d\n", (i+1)*markEvery, m)
	}
	_, err := w.Write(b)
	return err
}

// readExpect reads what write wrote.
func readExpect(r io.Reader) (e *expect, events int, err error) {
	e = &expect{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(value)
		if err != nil {
			return nil, 0, fmt.Errorf("expectation %q: %w", lines.Text(), err)
		}
		switch {
		case name == "events":
			events = n
		case name == "matches":
			e.matches = n
		case name == "matches_1":
			e.one = n
		case name == "live_end":
			e.live = n
		case strings.HasPrefix(name, "matches_at_"):
			e.marks = append(e.marks, n)
		}
	}
	return e, events, lines.Err()
}

// generate writes an input and the expectation beside it, FILE.expect.
func generate(name, file string, s shape) (*expect, error) {
	make, ok := map[string]func(*generator, shape){
		"w1": (*generator).w1, "w2": (*generator).w2, "w5": (*generator).w5, "starts": (*generator).starts,
	}[name]
	if !ok {
		return nil, fmt.Errorf("workload %q: there are w1, w2, w5, starts", name)
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	g := &generator{w: bufio.NewWriterSize(f, 1<<20), r: rand.New(rand.NewPCG(2024, 1129))}
	make(g, s)
	if err := g.w.Flush(); err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	x, err := os.Create(file + ".expect")
	if err != nil {
		return nil, err
	}
	if err := g.want.write(x, g.n); err != nil {
		return nil, err
	}
	return &g.want, x.Close()
}

// generator writes events and counts the matches among them.
type generator struct {
	w    *bufio.Writer
	r    *rand.Rand
	line []byte
	n    int
	want expect
}

var (
	countries = []string{"US", "DE", "FR", "GB", "IN", "BR", "CN", "JP"}
	devices   = []string{"ios-17", "android-14", "web-chrome", "web-firefox", "cli"}
	others    = []string{"page_view", "purchase", "logout", "pw_reset", "heartbeat"}
)

// event writes a flat object of ten fields and about 185 bytes. cents is the amount in hundredths. A failed write shows at
// the flush.
func (g *generator) event(ms int64, kind string, key, cents int) {
	b := fmt.Appendf(g.line[:0], `{"ts":%d,"type":"%s","user":"user-%08d","src_ip":"10.%d.%d.%d","device":"%s","country":"%s",`+
		`"amount":%d.%02d,"status":401,"session":"%016x","ok":false}`+"\n",
		epoch+ms, kind, key, key>>16&255, key>>8&255, key&255, devices[g.r.IntN(len(devices))], countries[g.r.IntN(len(countries))],
		cents/100, cents%100, g.r.Uint64()|1<<63)
	g.line = b
	_, _ = g.w.Write(b)
	g.n++
}

// mark counts what an event decided.
func (g *generator) mark(matched bool) {
	if matched {
		g.want.matches++
	}
	if g.n%markEvery == 0 {
		g.want.marks = append(g.want.marks, g.want.matches)
	}
}

// within drops the times that a window ending at ms no longer holds.
func within(times []int64, ms, window int64) []int64 {
	for len(times) > 0 && times[0] < ms-window {
		times = times[1:]
	}
	return times
}

// w1 has an event a millisecond. Six in ten of the relevant ones belong to bursts (five to eight failures of one address,
// then mostly a success), of which as many are under way at a time as the input has thousands of events; the rest is
// scattered.
func (g *generator) w1(s shape) {
	const need = 5
	type burst struct{ key, left int }
	begin := func() burst { return burst{1_000_000 + g.r.IntN(2_000_000), 5 + g.r.IntN(4)} }
	running := make([]burst, max(1, s.Events/1000))
	for i := range running {
		running[i] = begin()
		running[i].left = 1 + g.r.IntN(6) // as if they had begun before
	}
	failures := map[int][]int64{}
	for i := range s.Events {
		ms, cents := int64(i), g.r.IntN(100_000)
		if g.r.IntN(10) > 0 {
			g.event(ms, others[g.r.IntN(len(others))], g.r.IntN(3_000_000), cents)
			g.mark(false)
			continue
		}
		key, failed := g.r.IntN(200_000), g.r.IntN(2) == 0
		if g.r.IntN(10) < 6 {
			b := &running[g.r.IntN(len(running))]
			key, failed = b.key, b.left > 0
			b.left--
			if b.left < 0 || b.left == 0 && g.r.IntN(10) < 3 {
				*b = begin()
			}
		}
		if failed {
			g.event(ms, "login_failed", key, cents)
			failures[key] = append(failures[key], ms)
			g.mark(false)
			continue
		}
		g.event(ms, "login_ok", key, cents)
		times := within(failures[key], ms, s.Window)
		matched := len(times) >= need
		if matched {
			times = nil // a match takes all of them with it
		}
		failures[key] = times
		g.mark(matched)
	}
}

// w2 begins a start with 80 of 100 events, completes one with 17 and misses with 3. A key that is live gets no second
// start, so all ways to select matches agree.
//
// A live start is hit with probability h = 0.17/live at each event, and lives for w events unless it is hit, so
// live = 0.80/h x (1 - exp(-h w)); solved for w, this gives the time between two events.
func (g *generator) w2(s shape) {
	const hit = 0.17
	g.pairs(s, hit, -math.Log(1-hit/start)/hit*float64(s.Live))
}

// starts is w2 without its hits: all starts live for a window, and nothing matches, so that a job has no reason for an epoch
// but the time.
func (g *generator) starts(s shape) { g.pairs(s, 0, float64(s.Live)/start) }

// start is the share of the events of w2 that begin a start.
const start = 0.80

// pairs is w2 with a share of hits, and so many events in a window.
func (g *generator) pairs(s shape, hit, perWindow float64) {
	step := float64(s.Window) / perWindow
	type open struct {
		key int32
		ms  int64
	}
	var (
		queue []open                       // in order of time; some of it is no longer live
		since = make([]int64, 2*s.Live)    // when the key's start began, in ms + 1; 0: not live
		place = make([]int32, 2*s.Live)    // of a live key in list
		list  = make([]int32, 0, 2*s.Live) // the live keys
	)
	end := func(k int32) {
		last := list[len(list)-1]
		list[place[k]], place[last] = last, place[k]
		list = list[:len(list)-1]
		since[k] = 0
	}
	idle := func() int32 {
		for {
			if k := int32(g.r.IntN(len(since))); since[k] == 0 {
				return k
			}
		}
	}
	for i := range s.Events {
		ms := int64(float64(i) * step)
		for len(queue) > 0 && queue[0].ms < ms-s.Window {
			if o := queue[0]; since[o.key] == o.ms+1 {
				end(o.key)
			}
			queue = queue[1:]
		}
		cents, u := 10_001+g.r.IntN(89_999), g.r.Float64()
		switch {
		case u < hit && len(list) > 0:
			k := list[g.r.IntN(len(list))]
			end(k)
			g.event(ms, "transfer", int(k), cents)
			g.mark(true)
		case u < 1-start:
			g.event(ms, "transfer", int(idle()), cents)
			g.mark(false)
		default:
			k := idle()
			since[k], place[k] = ms+1, int32(len(list))
			list = append(list, k)
			queue = append(queue, open{k, ms})
			g.event(ms, "login_failed", int(k), cents)
			g.mark(false)
		}
	}
	g.want.live = len(list)
}

// types is the number of event types of w5, addresses that of its keys.
const (
	types     = 1000
	addresses = 100
)

// w5 has an event a millisecond, of any type and key.
func (g *generator) w5(s shape) {
	begun := map[int][]int64{}
	for i := range s.Events {
		ms, kind, key, cents := int64(i), g.r.IntN(types), g.r.IntN(addresses), g.r.IntN(100_000)
		g.event(ms, fmt.Sprintf("t%04d", kind), key, cents)
		id, matched := kind*addresses+key, false
		switch {
		case cents > 90_000:
			begun[id] = append(begun[id], ms)
		case cents < 10_000:
			matched = len(within(begun[id], ms, s.Window)) > 0
			if matched || len(begun[id]) > 0 {
				delete(begun, id)
			}
			if matched && kind == 0 {
				g.want.one++
			}
		}
		g.mark(matched)
	}
}
