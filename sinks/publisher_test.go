package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/memsink"
	"github.com/cepd/cepd/sinks/sinktest"
)

// running is a publisher that runs until stop, or until it gives up.
type running struct {
	*sinks.Publisher
	cancel context.CancelFunc
	ended  chan error
}

func start(t *testing.T, c sinks.PublisherConfig) *running {
	t.Helper()
	if c.Name == "" {
		c.Name = "out"
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{Publisher: sinks.NewPublisher(c), cancel: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- r.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	if err := <-r.ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("run: %v", err)
	}
}

func (r *running) drain(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := r.Drained(ctx); err != nil {
		t.Fatalf("drain: %v; %+v", err, r.Status())
	}
}

// commit commits n more messages.
func commit(o *sinktest.Outbox, r *running, n int, salt string) []sinks.Message {
	list := sinktest.Messages(o.Range().Last, n, salt)
	o.Commit(list...)
	if r != nil {
		r.Wake()
	}
	return list
}

func wantBodies(t *testing.T, server *memsink.Server, parts ...[]sinks.Message) {
	t.Helper()
	var want []string
	for _, p := range parts {
		for i := range p {
			want = append(want, string(p[i].Body))
		}
	}
	if d := cmp.Diff(want, server.Bodies()); d != "" {
		t.Fatalf("at the destination (-want +got):\n%.3000s", d)
	}
}

func TestEverythingThatWaitsIsOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		server := memsink.NewServer(memsink.Options{Fault: func(c memsink.Call, b *sinks.Batch) memsink.Fault {
			if c == memsink.Publish && len(b.Messages) > 0 {
				sizes = append(sizes, len(b.Messages))
			}
			return memsink.Fault{Delay: time.Second}
		}})
		o := &sinktest.Outbox{}
		all := commit(o, nil, 1, "a")
		r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
		time.Sleep(3500 * time.Millisecond) // open, begin and probe have been answered, the batch of 1 is under way
		for range 5 {
			all = append(all, commit(o, r, 300, "a")...)
		}
		r.drain(t)
		r.stop(t)
		wantBodies(t, server, all)
		if d := cmp.Diff([]int{1, 1000, 500}, sizes); d != "" {
			t.Errorf("batches (-want +got):\n%s", d)
		}
	})
}

func TestBytesBoundABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memsink.NewServer(memsink.Options{})
		o := &sinktest.Outbox{}
		var list []sinks.Message
		for i := range uint64(10) {
			list = append(list, sinktest.Message(i+1, "a", []byte(strings.Repeat("x", 300))))
		}
		o.Commit(list...)
		r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o, BytesMax: 1000})
		r.drain(t)
		r.stop(t)
		wantBodies(t, server, list)
		if s := r.Status(); s.Batches != 4 || s.Messages != 10 || s.Bytes != 3000 {
			t.Errorf("%d batches, %d messages, %d bytes", s.Batches, s.Messages, s.Bytes)
		}
	})
}

// TestForget: only an answer lets the outbox forget, and only what was acknowledged a grace period before it.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memsink.NewServer(memsink.Options{Replicated: true})
		o := &sinktest.Outbox{}
		r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
		all := commit(o, r, 10, "a")
		r.drain(t)
		time.Sleep(time.Hour)
		if s := r.Status(); s.Acknowledged != 0 || s.Forgotten != 0 || s.Probes < 59 || s.Probes > 62 {
			t.Fatalf("nothing is acknowledged: %+v", s)
		}
		server.Replicate()
		time.Sleep(9 * time.Minute)
		if s := r.Status(); s.Acknowledged != 10 || s.Forgotten != 0 {
			t.Fatalf("within the grace period: %+v", s)
		}
		// Away for longer than the grace period, back as the replica was, which has lost the second ten.
		all = append(all, commit(o, r, 10, "a")...)
		r.drain(t)
		server.Stop()
		time.Sleep(time.Hour)
		if s := r.Status(); s.Forgotten != 0 || s.Error == "" || time.Since(s.Since) < 58*time.Minute || s.Retries > 2000 {
			t.Fatalf("while it is away: %+v", s)
		}
		server.Failover()
		server.Start()
		time.Sleep(time.Minute)
		if s := r.Status(); s.Forgotten != 10 || s.Error != "" || s.Rewinds != 1 {
			t.Fatalf("once it is back: %+v", s)
		}
		wantBodies(t, server, all)
		server.Replicate()
		time.Sleep(15 * time.Minute)
		if s := r.Status(); s.Forgotten != 20 {
			t.Fatalf("at the end: %+v", s)
		}
		r.stop(t)
	})
}

// TestAcknowledgedAndLost: a position that was acknowledged long ago, lost, and published again is not old.
func TestAcknowledgedAndLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memsink.NewServer(memsink.Options{Replicated: true})
		o := &sinktest.Outbox{}
		r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
		first := commit(o, r, 10, "a")
		r.drain(t)
		server.Replicate()
		time.Sleep(time.Minute)
		second := commit(o, r, 10, "a")
		r.drain(t)
		time.Sleep(20 * time.Minute)
		server.Failover()
		time.Sleep(5 * time.Minute)
		wantBodies(t, server, first, second)
		server.Replicate()
		time.Sleep(5 * time.Minute)
		if s := r.Status(); s.Forgotten != 10 {
			t.Errorf("forgotten: %+v", s)
		}
		r.stop(t)
	})
}

// TestForgottenAfterAll: a destination that forgets what it has acknowledged gets it again, and the grace period begins anew.
func TestForgottenAfterAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memsink.NewServer(memsink.Options{})
		o := &sinktest.Outbox{}
		r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
		all := commit(o, r, 10, "a")
		r.drain(t)
		time.Sleep(5 * time.Minute)
		server.Forget()
		time.Sleep(8 * time.Minute) // 13 since it was acknowledged first, 7 or 8 since it came back
		wantBodies(t, server, all)
		if s := r.Status(); s.Acknowledged != 10 || s.Forgotten != 0 {
			t.Errorf("%+v", s)
		}
		time.Sleep(5 * time.Minute)
		if s := r.Status(); s.Forgotten != 10 {
			t.Errorf("%+v", s)
		}
		r.stop(t)
	})
}

// TestLostWhileIdle: the probe finds what an idle destination has lost.
func TestLostWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memsink.NewServer(memsink.Options{Replicated: true})
		o := &sinktest.Outbox{}
		r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
		first := commit(o, r, 3, "a")
		r.drain(t)
		server.Replicate()
		second := commit(o, r, 3, "a")
		r.drain(t)
		server.Failover()
		wantBodies(t, server, first)
		time.Sleep(2 * sinks.ProbeEvery)
		wantBodies(t, server, first, second)
		r.stop(t)
	})
}

// TestFenceForgotten: the failover that lost our Open is no successor.
func TestFenceForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memsink.NewServer(memsink.Options{Replicated: true})
		o := &sinktest.Outbox{}
		r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
		first := commit(o, r, 3, "a")
		r.drain(t)
		r.stop(t)
		server.Replicate()
		o.Crash()
		r = start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
		time.Sleep(time.Second)
		server.Failover()
		second := commit(o, r, 3, "a")
		r.drain(t)
		wantBodies(t, server, first, second)
		if s := r.Status(); s.Opened != 2 {
			t.Errorf("%+v", s)
		}
		// Emptied, as long as we have everything: all of it again.
		server.Forget()
		third := commit(o, r, 3, "a")
		r.drain(t)
		wantBodies(t, server, first, second, third)
		// Its position alone is lost: the last message is the witness.
		server.ForgetPosition()
		fourth := commit(o, r, 3, "a")
		r.drain(t)
		wantBodies(t, server, first, second, third, fourth)
		r.stop(t)
	})
}

func wantError[E error](t *testing.T, err error) E {
	t.Helper()
	e, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("error %v, want %T", err, e)
	}
	if !sinks.Permanent(err) {
		t.Fatalf("%v may pass", err)
	}
	return e
}

func TestSuccessorStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memsink.NewServer(memsink.Options{})
		o := &sinktest.Outbox{}
		r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
		all := commit(o, r, 5, "a")
		r.drain(t)
		heir := o.Restored(5, 5)
		r2 := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: heir})
		more := commit(heir, r2, 5, "b")
		r2.drain(t)
		commit(o, r, 5, "a")
		err := <-r.ended
		_ = wantError[*sinks.FencedError](t, err)
		if s := r.Status(); !s.Stopped || s.Error == "" {
			t.Errorf("%+v", s)
		}
		if err := r.Drained(t.Context()); err == nil {
			t.Error("drained, though it has stopped")
		}
		r2.stop(t)
		wantBodies(t, server, all, more)
	})
}

// TestLostBeyondTheOutbox stops, or goes on without what is lost.
func TestLostBeyondTheOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memsink.NewServer(memsink.Options{})
		o := &sinktest.Outbox{}
		r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
		commit(o, r, 5, "a")
		r.drain(t)
		time.Sleep(15 * time.Minute)
		second := commit(o, r, 5, "a")
		r.drain(t)
		server.Forget()
		e := wantError[*sinks.LostError](t, <-r.ended)
		if e.First.Sequence != 5 || !strings.Contains(e.Error(), "5 messages") {
			t.Errorf("%+v: %v", e, e)
		}
		o.Crash()
		p := sinks.NewPublisher(sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
		_ = wantError[*sinks.LostError](t, p.Open(t.Context()))
		r = start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o, AcceptGap: true})
		third := commit(o, r, 5, "a")
		r.drain(t)
		r.stop(t)
		wantBodies(t, server, second, third)
	})
}

// TestOlderEpoch: the destination is ahead of an older epoch that was restored.
func TestOlderEpoch(t *testing.T) {
	for _, c := range []struct {
		name   string
		salt   string // of the messages that are found again
		n      int
		accept bool
		want   string
	}{
		{name: "the same is found again", salt: "a", n: 10, want: "once"},
		{name: "something else is found", salt: "b", n: 10, want: "diverged"},
		{name: "something else, accepted", salt: "b", n: 10, accept: true, want: "both"},
		{name: "the same, accepted", salt: "a", n: 10, accept: true, want: "once"},
		{name: "it is not reached", salt: "a", n: 2, want: "ahead"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := memsink.NewServer(memsink.Options{})
				o := &sinktest.Outbox{}
				r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
				first := commit(o, r, 5, "a")
				r.drain(t)
				second := commit(o, r, 6, "a")
				r.drain(t)
				r.stop(t)

				old := o.Restored(3, 5)
				r = start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: old, AcceptRepeat: c.accept})
				time.Sleep(time.Second)
				if s := r.Status(); s.Ahead == nil || s.Ahead.Sequence != 11 || s.Found.Sequence != 11 {
					t.Fatalf("%+v", s)
				}
				third := commit(old, r, 2, c.salt)
				time.Sleep(time.Hour)
				wantBodies(t, server, first, second)
				third = append(third, commit(old, r, c.n-2, c.salt)...)
				switch c.want {
				case "once":
					r.drain(t)
					r.stop(t)
					wantBodies(t, server, first, second, third[6:])
				case "both":
					r.drain(t)
					r.stop(t)
					// What was sent as of that epoch is not sent again.
					wantBodies(t, server, first, second, first[3:], third)
					if at, _ := server.At(); at.Lineage != 2 {
						t.Errorf("lineage %d", at.Lineage)
					}
				case "diverged":
					e := wantError[*sinks.DivergedError](t, <-r.ended)
					if e.At.Sequence != 11 || !strings.Contains(e.Detail, "--accept-repeat") {
						t.Errorf("%+v", e)
					}
					wantBodies(t, server, first, second)
				case "ahead":
					if _, ok := errors.AsType[*sinks.AheadError](r.Drained(t.Context())); !ok {
						t.Error("drained, though the destination is ahead")
					}
					r.stop(t)
				}
			})
		})
	}
}

// TestAheadProbes: while nothing is sent the fence is watched.
func TestAheadProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memsink.NewServer(memsink.Options{})
		o := &sinktest.Outbox{}
		r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
		commit(o, r, 5, "a")
		r.drain(t)
		r.stop(t)
		r = start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o.Restored(0, 0)})
		time.Sleep(time.Second)
		if _, err := server.Sink().Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * sinks.ProbeEvery)
		_ = wantError[*sinks.FencedError](t, <-r.ended)
	})
}

// TestSavepoint: a restored savepoint begins a lineage where it knows of things sent, wherever the destination is.
func TestSavepoint(t *testing.T) {
	for _, crash := range []string{"", "publisher.opened", "publisher.begun", "publisher.placed", "publisher.sent"} {
		t.Run("crash at "+crash, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := memsink.NewServer(memsink.Options{})
				o := &sinktest.Outbox{}
				r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
				all := commit(o, r, 10, "a")
				r.drain(t)
				r.stop(t)

				saved := o.Restored(4, 6)
				c := sinks.PublisherConfig{Sink: server.Sink(), Outbox: saved, NewLineage: true}
				if crash != "" {
					crashAt(t, c, crash)
					saved.Crash()
					c.Sink = server.Sink()
					c.NewLineage = saved.Range().Begun.Lineage < 2 // once it has begun, the note says so
				}
				r = start(t, c)
				fresh := commit(saved, r, 3, "b")
				r.drain(t)
				r.stop(t)
				wantBodies(t, server, all, all[4:6], fresh)
				if at, _ := server.At(); at.Lineage != 2 || at.Sequence != 9 {
					t.Errorf("at %+v", at)
				}
			})
		})
	}
}

// crashAt runs a publisher up to a point, and fails where that is never reached.
func crashAt(t *testing.T, c sinks.PublisherConfig, point string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	type crashed struct{}
	c.Failpoint = func(p string) {
		if p == point {
			panic(crashed{})
		}
	}
	defer func() {
		switch r := recover(); r {
		case crashed{}:
		case nil:
			t.Fatalf("%s was never reached", point)
		default:
			panic(r)
		}
	}()
	err := sinks.NewPublisher(c).Run(ctx)
	t.Logf("run: %v", err)
}

// TestSavepointOfOthers: below what both have seen the chains must be equal, or it is the wrong destination.
func TestSavepointOfOthers(t *testing.T) {
	for _, accept := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := memsink.NewServer(memsink.Options{})
			theirs := &sinktest.Outbox{}
			r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: theirs})
			others := commit(theirs, r, 3, "z")
			r.drain(t)
			r.stop(t)

			elsewhere := memsink.NewServer(memsink.Options{})
			o := &sinktest.Outbox{}
			r = start(t, sinks.PublisherConfig{Sink: elsewhere.Sink(), Outbox: o})
			all := commit(o, r, 6, "a")
			r.drain(t)
			r.stop(t)
			r = start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o.Restored(5, 6), NewLineage: true, AcceptRepeat: accept})
			if !accept {
				e := wantError[*sinks.DivergedError](t, <-r.ended)
				if e.At.Sequence != 3 || !strings.Contains(e.Error(), "right destination") {
					t.Error(e)
				}
				wantBodies(t, server, others)
				return
			}
			r.drain(t)
			r.stop(t)
			wantBodies(t, server, others, all[3:])
		})
	}
}

// TestOlderThanItsLineage: a lineage was begun here and not there, and then an epoch is restored from before it.
func TestOlderThanItsLineage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memsink.NewServer(memsink.Options{})
		o := &sinktest.Outbox{}
		r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
		all := commit(o, r, 10, "a")
		r.drain(t)
		r.stop(t)
		saved := o.Restored(8, 9)
		crashAt(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: saved, NewLineage: true}, "publisher.begun")
		older := saved.Restored(4, 5)
		r = start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: older})
		fresh := commit(older, r, 2, "b")
		r.drain(t)
		r.stop(t)
		wantBodies(t, server, all, all[4:5], fresh)
	})
}

// TestDestinationThatLies: what never stands where it said it stands is asked slower and slower.
func TestDestinationThatLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &sinktest.Outbox{}
		commit(o, nil, 10, "a")
		l := &liar{}
		r := start(t, sinks.PublisherConfig{Sink: l, Outbox: o})
		time.Sleep(time.Hour)
		if s := r.Status(); l.calls > 2000 || s.Error == "" || s.Published.Sequence != 0 {
			t.Errorf("%d calls, %+v", l.calls, s)
		}
		r.stop(t)
	})
}

// liar is a destination that says it stands at the beginning and takes nothing from there.
type liar struct{ calls int }

func (l *liar) Peek(context.Context) (sinks.Progress, error) { return sinks.Progress{Lineage: 1}, nil }

func (l *liar) Open(context.Context) (sinks.Progress, error) { return sinks.Progress{Lineage: 1}, nil }
func (l *liar) Begin(context.Context, sinks.Progress) error  { return nil }
func (l *liar) Close() error                                 { return nil }

func (l *liar) Publish(_ context.Context, b sinks.Batch) (sinks.Ack, error) {
	l.calls++
	if len(b.Messages) == 0 {
		return sinks.Ack{Published: b.Base}, nil
	}
	return sinks.Ack{}, &sinks.StandsError{At: sinks.Progress{Lineage: 1}}
}

// TestLineageLost: a failover loses the beginning of a lineage, and more or less of what stood before.
func TestLineageLost(t *testing.T) {
	for _, replicated := range []int{3, 10} { // messages of the first lineage that the failover leaves
		t.Run(fmt.Sprint(replicated), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := memsink.NewServer(memsink.Options{Replicated: true})
				o := &sinktest.Outbox{}
				r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
				all := commit(o, r, replicated, "a")
				r.drain(t)
				server.Replicate()
				all = append(all, commit(o, r, 10-replicated, "a")...)
				r.drain(t)
				r.stop(t)
				saved := o.Restored(5, 7)
				r = start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: saved, NewLineage: true})
				fresh := commit(saved, r, 3, "b")
				r.drain(t)
				server.Failover()
				fresh = append(fresh, commit(saved, r, 3, "b")...)
				r.drain(t)
				if replicated == 3 {
					wantBodies(t, server, all[:7], fresh)
				} else {
					wantBodies(t, server, all, all[5:7], fresh)
				}
				// And once more, with a start in between.
				r.stop(t)
				server.Failover()
				saved.Crash()
				r = start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: saved})
				r.drain(t)
				r.stop(t)
				if replicated == 3 {
					wantBodies(t, server, all[:7], fresh)
				} else {
					wantBodies(t, server, all, all[5:7], fresh)
				}
			})
		})
	}
}

// TestHeir: who restores the state of a job whose heir has begun a lineage goes on in that one.
func TestHeir(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memsink.NewServer(memsink.Options{})
		o := &sinktest.Outbox{}
		r := start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
		all := commit(o, r, 6, "a")
		r.drain(t)
		r.stop(t)
		heir := o.Restored(6, 6)
		r = start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: heir, NewLineage: true})
		r.drain(t)
		r.stop(t)
		r = start(t, sinks.PublisherConfig{Sink: server.Sink(), Outbox: o})
		all = append(all, commit(o, r, 2, "a")...)
		r.drain(t)
		r.stop(t)
		wantBodies(t, server, all)
		if got := o.Range().Begun.Lineage; got != 2 {
			t.Errorf("lineage %d", got)
		}
	})
}

// TestAwayAtTheStart: a destination that is away does not keep the job from starting.
func TestAwayAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memsink.NewServer(memsink.Options{})
		server.Stop()
		o := &sinktest.Outbox{}
		p := sinks.NewPublisher(sinks.PublisherConfig{Name: "out", Sink: server.Sink(), Outbox: o})
		if err := p.Open(t.Context()); err == nil || sinks.Permanent(err) {
			t.Fatalf("open: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		all := commit(o, nil, 3, "a")
		time.Sleep(time.Hour)
		server.Start()
		if err := p.Drained(ctx); err != nil {
			t.Fatal(err)
		}
		wantBodies(t, server, all)
		if s := p.Status(); s.Retries < 700 || s.Retries > 1600 || s.Error != "" || !s.Since.IsZero() {
			t.Errorf("%+v", s)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
