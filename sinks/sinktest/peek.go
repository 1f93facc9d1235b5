package sinktest

import (
	"context"
	"errors"
	"testing"

	"github.com/cepd/cepd/sinks"
)

// peekAt fails the test unless a new sink of the destination finds it at a position, twice.
func (s Subject) peekAt(t *testing.T, d Destination, want sinks.Progress) {
	t.Helper()
	k := s.sink(t, d)
	for range 2 {
		if at, err := k.Peek(t.Context()); err != nil || at != want {
			t.Fatalf("peek: %+v, %v, want %+v", at, err, want)
		}
	}
	if err := k.Close(); err != nil {
		t.Fatalf("close of a sink that has only peeked: %v", err)
	}
}

// peeks: a peek finds what an Open does: nothing where nobody has begun, then each position in turn.
func (s Subject) peeks(t *testing.T) {
	d := s.New(t)
	s.peekAt(t, d, sinks.Progress{})
	if s.Apart {
		k, at := s.opened(t, d)
		all := Messages(at, 6, "a")
		at = publish(t, k, at, all[:3])
		s.peekAt(t, d, sinks.Progress{})
		publish(t, k, at, all[3:])
		d.want(t, all)
		return
	}
	k := s.sink(t, d)
	if at, err := k.Open(t.Context()); err != nil || at != (sinks.Progress{}) {
		t.Fatalf("open of a destination that was only looked at: %+v, %v", at, err)
	}
	s.peekAt(t, d, sinks.Progress{}) // opened, and not begun
	start := sinks.Progress{Lineage: 1}
	if err := k.Begin(t.Context(), start); err != nil {
		t.Fatalf("begin: %v", err)
	}
	s.peekAt(t, d, start)
	all := Messages(start, 6, "a")
	mid := publish(t, k, start, all[:4])
	s.peekAt(t, d, mid)
	end := publish(t, k, mid, all[4:])
	s.peekAt(t, d, end)
	if at, err := k.Peek(t.Context()); err != nil || at != end {
		t.Fatalf("the owner peeks: %+v, %v, want %+v", at, err, end)
	}
	below := at(start, all[:2])
	below.Lineage = 2
	if err := k.Begin(t.Context(), below); err != nil {
		t.Fatalf("begin below: %v", err)
	}
	s.peekAt(t, d, below)

	heir := s.sink(t, d)
	if at, err := heir.Peek(t.Context()); err != nil || at != below {
		t.Fatalf("peek: %+v, %v, want %+v", at, err, below)
	}
	if at, err := heir.Open(t.Context()); err != nil || at != below {
		t.Fatalf("open behind a peek: %+v, %v, want %+v", at, err, below)
	}
	publish(t, heir, below, nil)
	_, err := k.Publish(t.Context(), sinks.Batch{Base: below})
	wantFenced(t, "the one before", err)
	s.peekAt(t, d, below)
	d.want(t, all)
}

// peekIsNoFence: whoever owns the destination goes on as if nobody had looked, whatever the looker does then but open.
func (s Subject) peekIsNoFence(t *testing.T) {
	d := s.New(t)
	k, start := s.opened(t, d)
	all := Messages(start, 9, "a")
	at := publish(t, k, start, all[:3])
	looker := s.sink(t, d)
	look := func() {
		t.Helper()
		if found, err := looker.Peek(t.Context()); err != nil || found != at {
			t.Fatalf("peek: %+v, %v, want %+v", found, err, at)
		}
	}
	look()
	publish(t, k, at, nil)
	at = publish(t, k, at, all[3:6])
	look()
	publish(t, k, at, nil)
	publish(t, k, at, nil)
	_, err := looker.Publish(t.Context(), sinks.Batch{Base: at, Messages: all[6:]})
	if err == nil {
		t.Fatal("who has only peeked may publish")
	}
	if err := looker.Close(); err != nil {
		t.Fatalf("close of a sink that has only peeked: %v", err)
	}
	higher := at
	higher.Lineage++
	if err := k.Begin(t.Context(), higher); err != nil {
		t.Fatalf("begin behind a peek: %v", err)
	}
	if found, err := k.Open(t.Context()); err != nil || found != higher {
		t.Fatalf("open again behind a peek: %+v, %v, want %+v", found, err, higher)
	}
	publish(t, k, higher, all[6:])
	d.want(t, all)
}

// peeksBeside: what is found beside an owner that publishes is a position that it had, and never one before an earlier one.
func (s Subject) peeksBeside(t *testing.T) {
	d, o := s.New(t), &Outbox{}
	all := Messages(sinks.Progress{}, 60, "a")
	r := s.run(t, s.sink(t, d), o, sinks.PublisherConfig{BatchMax: 3})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looked := make(chan []sinks.Progress, 1)
	looker := s.sink(t, d)
	go func() {
		var found []sinks.Progress
		for ctx.Err() == nil {
			at, err := looker.Peek(ctx)
			if err == nil {
				found = append(found, at)
			} else if sinks.Permanent(err) {
				t.Errorf("peek: %v", err)
			}
		}
		looked <- found
	}()
	for i := range all {
		o.Commit(all[i])
		r.Wake()
	}
	r.drain(t)
	cancel()
	if err := r.stop(); !errors.Is(err, context.Canceled) {
		t.Fatalf("run: %v", err)
	}
	if n := r.Status().Opened; n != 1 {
		t.Errorf("the owner had to open %d times", n)
	}
	last := sinks.Progress{}
	for _, p := range <-looked {
		want := at(sinks.Progress{Lineage: p.Lineage}, all[:min(p.Sequence, uint64(len(all)))])
		if p != want || p.Sequence < last.Sequence || p.Lineage < last.Lineage {
			t.Fatalf("found %+v behind %+v, want %+v", p, last, want)
		}
		last = p
	}
	d.want(t, all)
}

// peekEnds: a peek under a context that has ended, or at a sink that is closed, finds nothing.
func (s Subject) peekEnds(t *testing.T) {
	d := s.New(t)
	k, _ := s.opened(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	looker := s.sink(t, d)
	if at, err := looker.Peek(ctx); err == nil {
		t.Fatalf("found %+v under a context that had ended", at)
	}
	if err := looker.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if at, err := looker.Peek(t.Context()); err == nil {
		t.Fatalf("found %+v after Close", at)
	}
	if _, err := k.Publish(t.Context(), sinks.Batch{Base: sinks.Progress{Lineage: 1}}); err != nil {
		t.Fatalf("publish: %v", err)
	}
}
