package redissink

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/redissink/redistest"
)

var (
	histories = flag.Int("histories", 2, "how many random histories to run on each server")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first history")
)

// TestHistories runs random histories: publishers that are killed, stopped and woken, that race and take over; servers that
// are killed with -9 and promoted too early; connections that are cut anywhere. Afterwards the stream holds every message
// once and in order, and a reader that kept its own place has seen it so.
//
//	go test ./sinks/redissink -run Histories -histories 200 -seed 1
func TestHistories(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		counts := map[string]int{}
		for i := range uint64(*histories) {
			seed := *firstSeed + i
			h := newHistory(t, p, seed)
			if err := h.run(t); err != nil {
				t.Fatalf("seed %d on %s: %v\n%s\nagain: go test ./sinks/redissink -run 'Histories/%s' -histories 1 -seed %d",
					seed, p, err, strings.Join(h.log, "\n"), p, seed)
			}
			for what, n := range h.counts {
				counts[what] += n
			}
			h.close()
		}
		var list []string
		for what, n := range counts {
			list = append(list, fmt.Sprintf("%s %d", what, n))
		}
		slices.Sort(list)
		t.Logf("%d histories: %s", *histories, strings.Join(list, ", "))
	})
}

// history is one run. The messages follow from their number, so every publisher finds the same ones, as after a restart from
// any epoch.
type history struct {
	random  *rand.Rand
	mode    string
	last    uint64
	batch   int
	nodes   []*redistest.Server // the first is the master
	clients []*agent
	quiet   atomic.Bool // the faults are over
	counts  map[string]int

	mu  sync.Mutex
	log []string
}

// agent is a publisher with its way to the server, which stands in for a process.
type agent struct {
	name    string
	outbox  *journal
	proxy   *redistest.Proxy
	sink    *Sink
	publish *sinks.Publisher
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
}

// paced slows a sink down while there are faults, so that they meet it.
type paced struct {
	*Sink
	quiet  *atomic.Bool
	random *rand.Rand
}

func (p paced) Publish(ctx context.Context, b sinks.Batch) (sinks.Ack, error) {
	if !p.quiet.Load() {
		time.Sleep(time.Duration(p.random.IntN(1500)) * time.Microsecond)
	}
	return p.Sink.Publish(ctx, b)
}

func newHistory(t *testing.T, p redistest.Program, seed uint64) *history {
	h := &history{random: rand.New(rand.NewPCG(seed, 1)), counts: map[string]int{}}
	h.last = 400 + h.random.Uint64N(1000)
	h.batch = 2 + h.random.IntN(11)
	h.mode = []string{"always", "everysec", "no", "none"}[h.random.IntN(4)]
	var settings []string
	if h.mode != "none" {
		settings = []string{"--appendonly", "yes", "--appendfsync", h.mode}
	}
	for range 1 + h.random.IntN(2) {
		h.nodes = append(h.nodes, redistest.Start(t, p, settings...))
	}
	if len(h.nodes) == 2 {
		h.nodes[1].Follow(t, h.nodes[0])
	}
	h.note("%d servers, fsync %s, %d messages, batches of %d", len(h.nodes), h.mode, h.last, h.batch)
	return h
}

func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *history) count(what string) {
	h.counts[what]++
	h.note("%s; %s is at %s", what, h.nodes[0].Address, h.nodes[0].LastID("alerts"))
}

func (h *history) pause(from, to int) {
	time.Sleep(time.Duration(from+h.random.IntN(to-from)) * time.Millisecond)
}

// start starts a publisher on an outbox of its own: a copy, as of now, of that of another one.
func (h *history) start(t *testing.T, of *agent) *agent {
	outbox := &journal{last: h.last}
	if of != nil {
		r := of.outbox.Range()
		outbox.begun, outbox.published = r.Begun, r.Sent
	}
	c := &agent{name: fmt.Sprintf("publisher %d", len(h.clients)+1), outbox: outbox, proxy: redistest.NewProxy(t, h.nodes[0].Address), done: make(chan struct{})}
	c.sink = newSink(t, c.proxy.Address(), func(cfg *Config) {
		cfg.Logger = nil
		if len(h.nodes) == 2 && h.random.IntN(2) == 0 {
			cfg.Replicas, cfg.ReplicaTimeout = 1, 20*time.Millisecond
		}
	})
	c.publish = sinks.NewPublisher(sinks.PublisherConfig{
		Name: c.name, Sink: paced{c.sink, &h.quiet, rand.New(rand.NewPCG(h.random.Uint64(), 2))}, Outbox: outbox, BatchMax: h.batch,
	})
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	h.clients = append(h.clients, c)
	h.note("%s starts", c.name)
	go func() {
		defer close(c.done)
		c.err = c.publish.Run(ctx)
		h.note("%s ended: %v", c.name, c.err)
	}()
	return c
}

// stop ends a publisher as kill -9 does: its connections are cut wherever they are, and nothing is said to anybody.
func (c *agent) stop() {
	c.proxy.Cut()
	c.cancel()
	c.proxy.Heal()
	<-c.done
}

func (h *history) close() {
	for _, c := range h.clients {
		c.stop()
		_ = c.sink.Close()
	}
	for _, n := range h.nodes {
		n.Kill()
	}
}

func (h *history) run(t *testing.T) error {
	seen, stopReading := h.read()
	current := h.start(t, nil)
	for range 3 + h.random.IntN(6) {
		h.pause(2, 40)
		current = h.fault(t, current)
	}
	for _, c := range h.clients {
		c.proxy.Heal()
	}
	if h.nodes[0].LastID("alerts") != entryID(1, h.last) {
		h.counts["the faults ended before the messages"]++
	}
	h.quiet.Store(true)
	if err := h.finish(t, current); err != nil {
		return err
	}
	// One more start finds everything and brings nothing.
	final := h.start(t, current)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := final.publish.Drained(ctx); err != nil {
		return fmt.Errorf("the last publisher: %w (%+v)", err, final.publish.Status())
	}
	if n := final.publish.Status().Messages; n > 0 {
		return fmt.Errorf("the last publisher sent %d messages that were there", n)
	}
	for _, c := range h.clients {
		select {
		case <-c.done:
			if _, ok := errors.AsType[*sinks.FencedError](c.err); !ok && !errors.Is(c.err, context.Canceled) {
				return fmt.Errorf("%s: %w", c.name, c.err)
			}
			h.counts["fenced or killed"]++
		default:
		}
	}
	return h.judge(t, final, seen, stopReading)
}

// finish waits until somebody has published everything, and ends all. A server that forgot who owns the position may have
// given it to a predecessor again, and two that race may both have ended: then another one starts.
func (h *history) finish(t *testing.T, current *agent) error {
	last, moved := "", time.Now()
	for last != entryID(1, h.last) {
		time.Sleep(2 * time.Millisecond)
		if now := h.nodes[0].LastID("alerts"); now != last {
			last, moved = now, time.Now()
		}
		alive := 0
		for _, c := range h.clients {
			select {
			case <-c.done:
			default:
				alive++
			}
		}
		if alive == 0 {
			h.start(t, current)
		}
		if time.Since(moved) > time.Minute {
			return fmt.Errorf("nothing arrives behind %s", last)
		}
	}
	for _, c := range h.clients {
		c.stop()
	}
	return nil
}

// fault lets one thing go wrong and returns the publisher that is the rightful one then.
func (h *history) fault(t *testing.T, current *agent) *agent {
	master := h.nodes[0]
	kind := h.random.IntN(12)
	if len(h.nodes) < 2 && kind >= 8 {
		kind -= 5 // no replica to promote
	}
	switch kind {
	case 0, 1:
		h.count("publisher killed")
		current.stop()
		return h.start(t, current)
	case 2:
		h.count("publisher stopped, taken over, woken")
		current.proxy.Stall(true)
		heir := h.start(t, current)
		h.pause(5, 40)
		current.proxy.Stall(false)
		return heir
	case 3:
		h.count("two publishers race")
		h.start(t, current)
		return h.start(t, current)
	case 4:
		h.count("server killed, fsync " + h.mode)
		master.Kill()
		h.pause(1, 30)
		master.Restart(t)
		if len(h.nodes) == 2 {
			h.nodes[1].Follow(t, master)
		}
	case 5:
		h.count("answers lost")
		current.proxy.LoseAnswers(1 + h.random.IntN(5))
	case 6:
		h.count("requests lost")
		current.proxy.LoseRequests(1 + h.random.IntN(3))
		current.proxy.Truncate(1 + h.random.IntN(900))
	case 7:
		h.count("script forgotten, connections cut")
		_, _ = master.Do("SCRIPT", "FLUSH")
		current.proxy.Cut()
	default:
		replica := h.nodes[1]
		replica.Promote(t)
		h.pause(1, 30) // the old master takes messages that will be lost
		h.mu.Lock()
		h.nodes[0], h.nodes[1] = replica, master
		h.mu.Unlock()
		for _, c := range h.clients {
			c.proxy.Aim(replica.Address)
		}
		if a, b := master.LastID("alerts"), replica.LastID("alerts"); a != b {
			h.counts["acknowledged messages lost"]++
			h.note("lost: %s at the old master, %s at the new one", a, b)
		}
		if h.random.IntN(2) == 0 {
			for _, c := range h.clients {
				c.proxy.Cut()
			}
		} // else those that are connected go on at the old master until it is one no more
		h.count("replica promoted early")
		h.pause(1, 10)
		master.Follow(t, replica)
	}
	return current
}

// read follows the stream with a place of its own, at whatever is the master.
func (h *history) read() (seen func() []redistest.Entry, stop func()) {
	var entries []redistest.Entry
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		from := "-"
		for ended := false; !ended; {
			select {
			case <-end:
				ended = true // and once more
			case <-time.After(time.Millisecond):
			}
			h.mu.Lock()
			master := h.nodes[0]
			h.mu.Unlock()
			got, _ := master.ReadStream("alerts", from) // it may be away
			if len(got) > 0 {
				entries = append(entries, got...)
				from = "(" + got[len(got)-1].ID
			}
		}
	}()
	return func() []redistest.Entry { return entries }, func() { close(end); <-done }
}

// judge compares the stream, what the reader saw, and the position with what was sent.
func (h *history) judge(t *testing.T, final *agent, seen func() []redistest.Entry, stopReading func()) error {
	master := h.nodes[0]
	stopReading()
	entries, err := master.ReadStream("alerts", "-")
	if err != nil {
		return err
	}
	for what, list := range map[string][]redistest.Entry{"the stream": entries, "the reader": seen()} {
		if uint64(len(list)) != h.last {
			return fmt.Errorf("%s: %d messages of %d", what, len(list), h.last)
		}
		for i, e := range list {
			m := final.outbox.message(uint64(i) + 1)
			if e.ID != entryID(1, m.Sequence) || e.Fields["body"] != string(m.Body) || e.Fields["chain"] != m.Chain.String() {
				return fmt.Errorf("%s: place %d holds %s %s", what, i+1, e.ID, e.Fields["body"])
			}
		}
	}
	if got := master.Must(t, "HGET", final.sink.position, "chain"); got != final.outbox.at(1, h.last).Chain.String() {
		return fmt.Errorf("the position's chain is %v", got)
	}
	return nil
}
