package redissink

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// pair is a master and its replica.
func pair(t *testing.T, p redistest.Program, settings ...string) (master, replica *redistest.Server) {
	t.Helper()
	master, replica = redistest.Start(t, p, settings...), redistest.Start(t, p, settings...)
	replica.Follow(t, master)
	return master, replica
}

// turn lets a sink reach its server through a proxy, so that a test can turn it to another one as a failover does.
func turn(t *testing.T, to *redistest.Server) (*redistest.Proxy, string) {
	t.Helper()
	p := redistest.NewProxy(t, to.Address)
	return p, p.Address()
}

func failOver(p *redistest.Proxy, to *redistest.Server) {
	p.Aim(to.Address)
	p.Cut()
}

// again repeats a call until the connection that a failover cut is a new one.
func again[T any](t *testing.T, f func() (T, error)) (T, error) {
	t.Helper()
	for {
		v, err := f()
		if err == nil || !broken(err) || isAnswer(err) {
			return v, err
		}
	}
}

func classOf(err error) class {
	c, _ := classify(err)
	return c
}

func broken(err error) bool { return classOf(err) == classConnection }

func isAnswer(err error) bool {
	for _, is := range []func(error) bool{
		func(e error) bool { _, ok := errors.AsType[*sinks.StandsError](e); return ok },
		func(e error) bool { _, ok := errors.AsType[*sinks.FencedError](e); return ok },
		func(e error) bool { _, ok := errors.AsType[*sinks.DivergedError](e); return ok },
	} {
		if is(err) {
			return true
		}
	}
	return false
}

func publishAgain(t *testing.T, s *Sink, b sinks.Batch) (sinks.Ack, error) {
	t.Helper()
	return again(t, func() (sinks.Ack, error) { return s.Publish(t.Context(), b) })
}

// without removes a part of the script, for a mutant.
func without(t *testing.T, s *Sink, part string) {
	t.Helper()
	if !strings.Contains(emitSource, part) {
		t.Fatalf("the script has no %q", part)
	}
	s.script = redis.NewScript(strings.Replace(emitSource, part, "", 1))
}

const writesFirst = "redis.call('HSET', position, 'seen', owner)"

// A replica, and a master that became one, confirm nothing: every call writes before it answers. The mutant that does not
// confirms a batch that its successor lacks.
func TestDemotedMaster(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		for _, mutant := range []bool{false, true} {
			m, r := pair(t, p)
			j := &journal{}
			s := newSink(t, m.Address)
			if mutant {
				without(t, s, writesFirst)
			}
			open(t, s)
			put(t, s, j.batch(1, 0, 10))
			r.CatchUp(t, m)
			r.Promote(t)
			put(t, s, j.batch(1, 10, 10)) // only the old master has them
			m.Must(t, "REPLICAOF", "127.0.0.1", "1")
			_, err := s.Publish(t.Context(), j.batch(1, 10, 10))
			if mutant {
				if err != nil || r.LastID("alerts") != "1-10" {
					t.Fatalf("the mutant is not blind: %v", err)
				}
				continue
			}
			for name, b := range map[string]sinks.Batch{
				"the same": j.batch(1, 10, 10), "more": j.batch(1, 20, 1), "a gap": j.batch(1, 30, 1), "less": j.batch(1, 5, 1), "none": j.batch(1, 20, 0),
			} {
				if _, err := s.Publish(t.Context(), b); err == nil || classOf(err) != classAgain || !strings.Contains(err.Error(), "READONLY") || isAnswer(err) {
					t.Fatalf("%s at a demoted master: %v", name, err)
				}
			}
			if _, err := s.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "READONLY") {
				t.Fatalf("open at a demoted master: %v", err)
			}
			if at, err := s.Peek(t.Context()); err == nil || !strings.Contains(err.Error(), "READONLY") {
				t.Fatalf("peek at a demoted master: %v, %v", at, err)
			}
		}
	})
}

// A failover that lost acknowledged messages: the sink is told where the new master stands and goes on from there.
func TestLostWrites(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		m, r := pair(t, p)
		proxy, address := turn(t, m)
		j := &journal{}
		s := newSink(t, address)
		open(t, s)
		put(t, s, j.batch(1, 0, 10))
		r.CatchUp(t, m)
		r.Promote(t)
		put(t, s, j.batch(1, 10, 10))
		failOver(proxy, r)
		_, err := publishAgain(t, s, j.batch(1, 20, 1))
		if e, ok := errors.AsType[*sinks.StandsError](err); !ok || e.At != j.at(1, 10) {
			t.Fatalf("behind a failover that lost ten: %v", err)
		}
		put(t, s, j.batch(1, 10, 15))
		stream(t, r, "alerts", j, 1, 1, 25)
	})
}

// A failover while nothing flows is found by the probe, while the outbox still has the messages.
func TestIdleFailover(t *testing.T) {
	m, r := pair(t, redistest.Default(t))
	proxy, address := turn(t, m)
	j := &journal{}
	s := newSink(t, address)
	p := publish(t, s, j, func(c *sinks.PublisherConfig) { c.ProbeEvery = 20 * time.Millisecond })
	p.commit(t, j, 40)
	r.CatchUp(t, m)
	r.Promote(t)
	p.commit(t, j, 60)
	failOver(proxy, r)
	redistest.WaitFor(t, "the probe to find the loss and the publisher to mend it", func() bool { return r.LastID("alerts") == "1-60" })
	if err := p.stop(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if p.Status().Rewinds == 0 {
		t.Fatal("nothing was lost: the test shows nothing")
	}
	stream(t, r, "alerts", j, 1, 1, 60)
}

// A server that keeps nothing comes back empty: everything that the outbox holds is sent again. What it forgets, it forgets
// on an answer only, so an outage longer than the grace costs nothing.
func TestEmptyServer(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		const grace = 50 * time.Millisecond
		srv := redistest.Start(t, p)
		j := &journal{}
		s := newSink(t, srv.Address)
		pub := publish(t, s, j, func(c *sinks.PublisherConfig) { c.Grace, c.ProbeEvery = grace, time.Hour })
		pub.commit(t, j, 40) // one answer: nothing can be forgotten before the next one
		srv.Kill()
		time.Sleep(2 * grace)
		srv.Restart(t)
		pub.commit(t, j, 60)
		stream(t, srv, "alerts", j, 1, 1, 60)

		// What was acknowledged a grace ago is forgotten with the next answer, and a loss beyond that stops the sink.
		last := uint64(60)
		redistest.WaitFor(t, "something to be forgotten", func() bool {
			time.Sleep(grace)
			last++
			pub.commit(t, j, last)
			return j.Range().First.Sequence > 0
		})
		srv.Must(t, "FLUSHALL")
		j.mu.Lock()
		j.last = last + 1
		j.mu.Unlock()
		pub.Wake()
		<-pub.done
		if _, ok := errors.AsType[*sinks.LostError](pub.err); !ok {
			t.Fatalf("a loss beyond the outbox: %v", pub.err)
		}
	})
}

// A failover that forgot the new owner's Open: its number is below ours, so we open again. A predecessor that writes there in
// the meantime does no harm if it writes the same, and is found out if it does not.
func TestForgottenFence(t *testing.T) {
	for _, zombie := range []string{"silent", "writes the same", "writes others"} {
		t.Run(zombie, func(t *testing.T) {
			m, r := pair(t, redistest.Default(t))
			j := &journal{}
			old := newSink(t, m.Address)
			open(t, old)
			put(t, old, j.batch(1, 0, 10))
			r.CatchUp(t, m)
			r.Promote(t)
			proxy, address := turn(t, m)
			heir := newSink(t, address)
			open(t, heir) // only the old master knows
			put(t, heir, j.batch(1, 10, 10))

			zombieProxy, zombieAddress := turn(t, r)
			_ = zombieProxy
			awake := newSink(t, zombieAddress)
			awake.owner, awake.fence = old.owner, old.fence
			failOver(proxy, r)
			if zombie != "silent" {
				written := j
				if zombie == "writes others" {
					written = j.branch(10, "other")
				}
				put(t, awake, written.batch(1, 10, 5))
			}
			_, err := publishAgain(t, heir, j.batch(1, 20, 1))
			fenced(t, err, true)
			at := open(t, heir)
			if heir.fence != 3 {
				t.Fatalf("fence %d, want one above both", heir.fence)
			}
			switch zombie {
			case "silent":
				if at != j.at(1, 10) {
					t.Fatalf("stands at %v", at)
				}
			case "writes the same":
				if at != j.at(1, 15) {
					t.Fatalf("stands at %v", at)
				}
			case "writes others":
				if at.Sequence != 15 || at.Chain == j.at(1, 15).Chain {
					t.Fatalf("stands at %v: nobody can see that the messages are others", at)
				}
				return
			}
			put(t, heir, j.batch(1, at.Sequence, 10))
			_, err = awake.Publish(t.Context(), j.batch(1, at.Sequence+10, 1))
			fenced(t, err, false)
			_, err = awake.Open(t.Context())
			fenced(t, err, false) // a lower number never comes back
			stream(t, r, "alerts", j, 1, 1, at.Sequence+10)
		})
	}
}

// Behind a loss of everything a predecessor that wakes does not get the fence back: our number counts on from our own.
func TestZombieBehindLoss(t *testing.T) {
	srv := redistest.Start(t, redistest.Default(t))
	j := &journal{}
	old, heir := newSink(t, srv.Address), newSink(t, srv.Address)
	open(t, old)
	open(t, heir)
	srv.Must(t, "FLUSHALL")
	_, err := heir.Publish(t.Context(), j.batch(1, 0, 1))
	fenced(t, err, true)
	open(t, heir)
	put(t, heir, j.batch(1, 0, 1))
	_, err = old.Publish(t.Context(), j.batch(1, 0, 1))
	fenced(t, err, false)
}

// Two new owners on two sides of a split have the same number; the token tells them apart.
func TestSplit(t *testing.T) {
	m, r := pair(t, redistest.Default(t))
	j := &journal{}
	a := newSink(t, m.Address)
	open(t, a)
	put(t, a, j.batch(1, 0, 10))
	r.CatchUp(t, m)
	r.Promote(t)
	proxy, address := turn(t, m)
	b, c := newSink(t, address), newSink(t, r.Address)
	open(t, b)
	open(t, c)
	if b.fence != c.fence {
		t.Fatalf("fences %d and %d: the test shows nothing", b.fence, c.fence)
	}
	put(t, b, j.batch(1, 10, 10))
	put(t, c, j.batch(1, 10, 3))
	m.Follow(t, r) // what b has sent is gone
	if _, err := b.Publish(t.Context(), j.batch(1, 20, 1)); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Fatalf("the side that lost: %v", err)
	}
	failOver(proxy, r)
	_, err := publishAgain(t, b, j.batch(1, 20, 1))
	fenced(t, err, false)
	put(t, c, j.batch(1, 13, 20))
	stream(t, r, "alerts", j, 1, 1, 33)
}

// A failover that forgot the begin of a lineage says the older one; beginning again is right.
func TestForgottenLineage(t *testing.T) {
	m, r := pair(t, redistest.Default(t))
	proxy, address := turn(t, m)
	j := &journal{}
	s := newSink(t, address)
	open(t, s)
	put(t, s, j.batch(1, 0, 10))
	r.CatchUp(t, m)
	r.Promote(t)
	must(t, s.Begin(t.Context(), j.at(2, 7)))
	put(t, s, j.batch(2, 7, 5))
	failOver(proxy, r)
	_, err := publishAgain(t, s, j.batch(2, 12, 1))
	if e, ok := errors.AsType[*sinks.StandsError](err); !ok || e.At != j.at(1, 10) {
		t.Fatalf("behind a failover that forgot the lineage: %v", err)
	}
	must(t, s.Begin(t.Context(), j.at(2, 7)))
	put(t, s, j.batch(2, 7, 5))
}

// WAIT that falls short is no error: the messages are published, and not acknowledged.
func TestReplicas(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		m := redistest.Start(t, p)
		j := &journal{}
		s := newSink(t, m.Address, func(c *Config) { c.Replicas, c.ReplicaTimeout = 1, 50*time.Millisecond })
		open(t, s)
		at := uint64(0)
		one := func(want uint64) {
			t.Helper()
			if ack := put(t, s, j.batch(1, at, 1)); ack.Acknowledged != want {
				t.Fatalf("acknowledged %d behind %d, want %d", ack.Acknowledged, at+1, want)
			}
			at++
		}
		one(0) // no replica at all
		r := redistest.Start(t, p)
		r.Follow(t, m)
		s.config.ReplicaTimeout = 5 * time.Second
		one(2)
		one(3)
		s.config.ReplicaTimeout = 50 * time.Millisecond
		r.Pause()
		one(3) // the replica hangs: what it had confirmed stands
		s.config.Replicas = 2
		r.Resume()
		one(3) // one of two
		s.config.Replicas, s.config.ReplicaTimeout = 1, 5*time.Second
		if ack := put(t, s, j.batch(1, at, 0)); ack.Acknowledged != at {
			t.Fatalf("a probe acknowledged %d, want %d", ack.Acknowledged, at)
		}
		if ack := put(t, s, j.batch(1, at-1, 1)); ack.Acknowledged != at {
			t.Fatalf("a repetition acknowledged %d, want %d", ack.Acknowledged, at)
		}
		// A rewind takes back what was acknowledged.
		m.Must(t, "HSET", s.position, "sequence", 2, "chain", j.at(1, 2).Chain.String())
		stands(t, s, j.batch(1, at, 1), j.at(1, 2))
		if s.acknowledged != 2 {
			t.Fatalf("acknowledged %d behind a rewind to 2", s.acknowledged)
		}
	})
}

// A lost answer, a lost request, half a request: the same again is right, and the library itself repeats nothing.
func TestCuts(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, p)
		proxy, address := turn(t, srv)
		j := &journal{}
		s := newSink(t, address)
		open(t, s)
		at := uint64(0)
		for name, fault := range map[string]func(){
			"the answer": func() { proxy.LoseAnswers(1) }, "the request": func() { proxy.LoseRequests(1) },
			"half a request": func() { proxy.Truncate(300) }, "the connection": proxy.Cut,
		} {
			put(t, s, j.batch(1, at, 1))
			at++
			fault()
			before := proxy.Calls()
			_, err := s.Publish(t.Context(), j.batch(1, at, 5))
			if name != "the connection" && (err == nil || !broken(err)) {
				t.Fatalf("%s: %v", name, err)
			}
			if calls := proxy.Calls() - before; calls > 1 {
				t.Fatalf("%s: sent %d times", name, calls)
			}
			if _, err := publishAgain(t, s, j.batch(1, at, 5)); err != nil {
				t.Fatalf("%s, again: %v", name, err)
			}
			at += 5
		}
		// Open loses its answers too.
		for range 2 {
			proxy.LoseAnswers(1)
			if _, err := s.Open(t.Context()); err == nil {
				t.Fatal("the answer was not lost")
			}
		}
		if got := open(t, s); got != j.at(1, at) || s.fence != 1 {
			t.Fatalf("stands at %v, fence %d", got, s.fence)
		}
		stream(t, srv, "alerts", j, 1, 1, at)
	})
}

// A call ends when its context does, though the library does not look at it while it reads.
func TestCancel(t *testing.T) {
	srv := redistest.Start(t, redistest.Default(t))
	proxy, address := turn(t, srv)
	j := &journal{}
	s := newSink(t, address)
	open(t, s)
	proxy.Hold(true)
	ctx, cancel := context.WithCancel(t.Context())
	before := proxy.Calls()
	go func() {
		redistest.WaitFor(t, "the call", func() bool { return proxy.Calls() > before })
		cancel()
	}()
	began := time.Now()
	if _, err := s.Publish(ctx, j.batch(1, 0, 1)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if took := time.Since(began); took >= answerTimeout {
		t.Fatalf("came back after %s: only when the answer was due", took)
	}
	if _, err := s.Publish(ctx, j.batch(1, 0, 1)); !errors.Is(err, context.Canceled) {
		t.Fatalf("with a context that has ended: %v", err)
	}
	proxy.Hold(false)
	if _, err := publishAgain(t, s, j.batch(1, 0, 1)); err != nil {
		t.Fatal(err)
	}
	stream(t, srv, "alerts", j, 1, 1, 1)

	// Close from outside ends a call as well.
	proxy.Hold(true)
	done := make(chan error)
	go func() {
		_, err := s.Publish(t.Context(), j.batch(1, 1, 1))
		done <- err
	}()
	redistest.WaitFor(t, "the call", func() bool { return proxy.Calls() > before+2 })
	must(t, s.Close())
	if err := <-done; err == nil {
		t.Fatal("a closed sink published")
	}
	must(t, s.Close())
}

// A server does not know the script behind a start, a failover, SCRIPT FLUSH.
func TestUnknownScript(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, p, "--appendonly", "yes", "--appendfsync", "always")
		j := &journal{}
		s := newSink(t, srv.Address)
		open(t, s)
		put(t, s, j.batch(1, 0, 1))
		srv.Must(t, "SCRIPT", "FLUSH")
		put(t, s, j.batch(1, 1, 1))
		put(t, s, j.batch(1, 2, 1))
		if n := srv.Calls(t, "eval"); n != 2 {
			t.Fatalf("the script was sent whole %d times, want 2", n)
		}
		srv.Kill()
		srv.Restart(t)
		if _, err := publishAgain(t, s, j.batch(1, 3, 1)); err != nil {
			t.Fatal(err)
		}
		stream(t, srv, "alerts", j, 1, 1, 4)
	})
}

// The library asks for nothing that the documented rights do not cover, and keeps few connections.
func TestQuietClient(t *testing.T) {
	srv := redistest.Start(t, redistest.Default(t))
	j := &journal{}
	s := newSink(t, srv.Address)
	open(t, s)
	for at := range uint64(50) {
		put(t, s, j.batch(1, at, 1))
	}
	for name := range srv.Info(t, "commandstats") {
		switch command := strings.TrimPrefix(name, "cmdstat_"); command {
		case "eval", "evalsha", "hset", "hmget", "xinfo|stream", "xinfo", "xadd", "info", "hello", "ping", "command", "# Commandstats", "#":
		default:
			if !strings.HasPrefix(name, "#") {
				t.Errorf("the server was asked for %s", command)
			}
		}
	}
	if n := srv.Info(t, "clients")["connected_clients"]; n != "2" { // ours, and the test's own
		t.Errorf("%s connections", n)
	}
}

// A kill with -9 under load: position and stream agree whatever was lost, and the sink mends it.
func TestKill(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		for _, mode := range []string{"always", "everysec", "no", "none"} {
			settings := []string{"--appendonly", "yes", "--appendfsync", mode}
			if mode == "none" {
				settings = nil
			}
			srv := redistest.Start(t, p, settings...)
			j := &journal{size: 200}
			s := newSink(t, srv.Address)
			pub := publish(t, s, j)
			pub.commit(t, j, 2000)
			j.mu.Lock()
			j.last = 6000
			j.mu.Unlock()
			pub.Wake()
			redistest.WaitFor(t, "some messages", func() bool { return pub.Status().Published.Sequence > 2500 })
			published := pub.Status().Published.Sequence
			srv.Kill()
			srv.Restart(t)
			if mode == "always" {
				if _, sequence, _ := parseEntryID(srv.LastID("alerts")); sequence < published {
					t.Fatalf("with an fsync for each write the server has %d of %d", sequence, published)
				}
			}
			pub.commit(t, j, 6000)
			stream(t, srv, "alerts", j, 1, 1, 6000)
			if got := srv.Must(t, "HGET", s.position, "chain"); got != j.at(1, 6000).Chain.String() {
				t.Fatalf("the position's chain is %v", got)
			}
			if err := pub.stop(); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			srv.Kill()
		}
	})
}
