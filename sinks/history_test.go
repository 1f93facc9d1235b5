package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/memsink"
	"github.com/cepd/cepd/sinks/sinktest"
)

// histories is the number of random histories in a run of the tests; each takes 1 to 3 ms.
const histories = 300

// TestHistories: whatever happens to the publisher, to the connection and to the destination, the messages at the destination
// are those that were committed, once each and in order.
func TestHistories(t *testing.T) {
	for seed := range uint64(histories) {
		if why := history(t, seed, memsink.Sound); why != "" {
			t.Fatalf("seed %d: %s", seed, why)
		}
	}
}

// TestMutantsAreCaught: the histories would notice a destination, or a protocol, that breaks one promise.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range memsink.Mutants {
		caught := 0
		example := ""
		for seed := range uint64(histories) {
			if why := history(t, seed, m); why != "" {
				caught++
				example = why
			}
		}
		if caught == 0 {
			t.Errorf("mutant %q is not caught", m)
		}
		t.Logf("mutant %q: %d of %d histories; %.80q", m, caught, histories, example)
	}
}

var errCrash = errors.New("the process ends here")

// locked is a source of random numbers that several goroutines draw from.
type locked struct {
	mu     sync.Mutex
	source rand.Source
}

func (l *locked) Uint64() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.source.Uint64()
}

// history plays one random history and says what is wrong with its end.
func history(t *testing.T, seed uint64, mutant memsink.Mutant) (why string) {
	synctest.Test(t, func(t *testing.T) {
		h := &player{t: t, random: rand.New(&locked{source: rand.NewPCG(seed, 7)}), o: &sinktest.Outbox{}}
		h.replicated = h.random.IntN(2) == 0
		h.server = memsink.NewServer(memsink.Options{Mutant: mutant, Replicated: h.replicated, Fault: h.fault})
		why = h.play()
	})
	return why
}

type player struct {
	t          *testing.T
	random     *rand.Rand
	server     *memsink.Server
	o          *sinktest.Outbox
	want       []string
	replicated bool
	quiet      atomic.Bool // no more faults
	zombies    []zombie
	older      bool // an older epoch was restored
	evicted    bool // the destination lost its position
	strange    bool // a zombie with other messages was let in: a failover had forgotten who owns the destination
}

// zombie is a process that fell asleep with a batch under way.
type zombie struct {
	sink  sinks.Sink
	batch sinks.Batch
	salt  string
	// fenced says that a successor has opened the destination.
	fenced bool
}

// fallAsleep leaves a process that owns the destination and is about to send: what its successor will send too, or, under other
// rules, something else.
func (h *player) fallAsleep() {
	z := zombie{sink: h.server.Sink(), salt: []string{"a", "z"}[h.random.IntN(2)]}
	at, err := z.sink.Open(h.t.Context())
	if err != nil || at.Lineage == 0 {
		return
	}
	z.batch.Base = at
	if z.salt == "a" {
		z.batch.Messages, err = h.o.Read(h.t.Context(), at.Sequence+1, 1+h.random.IntN(5), 1<<20)
		if err != nil {
			return
		}
	} else {
		z.batch.Messages = sinktest.Messages(at, 1+h.random.IntN(5), "z")
	}
	h.zombies = append(h.zombies, z)
	if h.random.IntN(2) == 0 {
		h.server.Replicate() // so that a failover can forget the successor
	}
}

// wake lets zombies send what they had under way. One that has something else to say is the owner until its successor has opened
// the destination, and what it sends before is no fault.
func (h *player) wake(r *running) {
	opened := r.Status().Opened > 0
	for i := range h.zombies {
		z := &h.zombies[i]
		z.fenced = z.fenced || opened
		if h.random.IntN(3) > 0 || z.salt == "z" && !z.fenced {
			continue
		}
		ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
		_, _ = z.sink.Publish(ctx, z.batch) // nobody hears the answer
		cancel()
		h.strange = h.strange || slices.ContainsFunc(h.server.Bodies(), func(b string) bool { return strings.Contains(b, `"z"`) })
	}
}

func (h *player) fault(memsink.Call, *sinks.Batch) memsink.Fault {
	var f memsink.Fault
	if h.quiet.Load() {
		return f
	}
	switch h.random.IntN(30) {
	case 0:
		f.LoseRequest = true
	case 1, 2:
		f.LoseReply = true
	case 3:
		f.Cut = 1 + h.random.IntN(3)
	case 4:
		f.Delay = time.Duration(h.random.IntN(5000)) * time.Millisecond
	case 5:
		f.Refuse = errors.New("OOM command not allowed when used memory > 'maxmemory'")
	case 6:
		f.Failover = true
	case 7:
		f.FailoverAfter = true
	}
	return f
}

func (h *player) process(o *sinktest.Outbox) *running {
	ctx, cancel := context.WithCancel(h.t.Context())
	h.t.Cleanup(cancel)
	c := sinks.PublisherConfig{Name: "out", Sink: h.server.Sink(), Outbox: o, BatchMax: 1 + h.random.IntN(8)}
	point := ""
	if h.random.IntN(3) == 0 {
		point = sinks.Failpoints[h.random.IntN(len(sinks.Failpoints))]
	}
	c.Failpoint = func(p string) {
		if p == point && h.random.IntN(4) == 0 && !h.quiet.Load() {
			panic(errCrash)
		}
	}
	r := &running{Publisher: sinks.NewPublisher(c), cancel: cancel, ended: make(chan error, 1)}
	go func() {
		defer func() {
			if p := recover(); p != nil {
				if p != any(errCrash) {
					panic(p)
				}
				r.ended <- errCrash
			}
		}()
		r.ended <- r.Run(ctx)
	}()
	return r
}

// find commits n messages: what was known before an older epoch was restored is found again first.
func (h *player) find(r *running, n int) {
	for _, m := range commit(h.o, r, n, "a") {
		if m.Sequence > uint64(len(h.want)) {
			h.want = append(h.want, string(m.Body))
		}
	}
}

func (h *player) play() string {
	r := h.process(h.o)
	for range 3 + h.random.IntN(20) {
		switch h.random.IntN(10) {
		case 0, 1, 2:
			h.find(r, 1+h.random.IntN(12))
		case 9: // an older epoch is restored, and what it lacks is found again
			if h.evicted {
				break // without the position nobody can say whether what is above is ours: one fault too many
			}
			h.older = true
			h.end(r)
			h.o.Crash()
			held := h.o.Range()
			sent := held.First.Sequence + uint64(h.random.Int64N(int64(held.Sent.Sequence-held.First.Sequence)+1))
			last := sent + uint64(h.random.Int64N(int64(held.Last.Sequence-sent)+1))
			h.o = h.o.Restored(sent, last)
			r = h.process(h.o)
		case 3:
			h.server.Replicate()
		case 4: // killed
			h.end(r)
			h.o.Crash()
			r = h.process(h.o)
		case 5:
			h.end(r)
			h.o.Crash()
			h.fallAsleep()
			r = h.process(h.o)
		case 6:
			h.server.Pause()
			h.sleep(20_000)
			h.server.Resume()
		case 7:
			h.server.Stop()
			h.sleep(600_000)
			h.server.Start()
		case 8:
			if slices.ContainsFunc(h.zombies, func(z zombie) bool { return z.salt == "z" }) {
				break // who wrote the last message cannot be told without the position: one fault too many
			}
			if h.older {
				break // likewise
			}
			h.evicted = true
			h.server.ForgetPosition()
			h.server.Replicate() // a fence that is forgotten and comes back is one fault too many: it looks like a successor
		}
		h.sleep(3000)
		h.wake(r)
		select {
		case err := <-r.ended:
			if !errors.Is(err, errCrash) {
				return h.gaveUp(err)
			}
			h.o.Crash()
			r = h.process(h.o)
		default:
		}
	}
	h.find(r, len(h.want)-int(h.o.Range().Last.Sequence))
	h.quiet.Store(true)
	for probes := 0; probes < 2; { // the first Drained may not know yet what happened while it was idle
		ctx, cancel := context.WithTimeout(h.t.Context(), time.Hour)
		err := r.Drained(ctx)
		cancel()
		time.Sleep(2 * sinks.ProbeEvery)
		select {
		case ended := <-r.ended:
			if !errors.Is(ended, errCrash) {
				return h.gaveUp(ended)
			}
			h.o.Crash()
			r = h.process(h.o)
			continue
		default:
		}
		if _, ok := errors.AsType[*sinks.AheadError](err); ok {
			return h.gaveUp(err)
		}
		if err != nil {
			return fmt.Sprintf("it does not come to an end: %v, %+v", err, r.Status())
		}
		probes++
	}
	h.end(r)
	if d := cmp.Diff(h.want, h.server.Bodies()); d != "" {
		return "at the destination (-want +got):\n" + strings.TrimSpace(d)
	}
	return ""
}

// end ends a process as kill does: nobody hears what it says.
func (h *player) end(r *running) {
	r.cancel()
	if err := <-r.ended; err == nil {
		h.t.Error("Run returned without an error")
	}
}

// gaveUp judges a publisher that stopped: it must not, unless a failover let somebody else's messages in.
func (h *player) gaveUp(err error) string {
	_, diverged := errors.AsType[*sinks.DivergedError](err)
	_, ahead := errors.AsType[*sinks.AheadError](err)
	if h.strange && h.replicated && (diverged || ahead) {
		return ""
	}
	return fmt.Sprintf("the publisher gave up: %v", err)
}

func (h *player) sleep(msMax int) {
	time.Sleep(time.Duration(h.random.IntN(msMax)) * time.Millisecond)
}
