package sinktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/sinks"
)

// Subject is a sink under test.
type Subject struct {
	// New makes an empty destination of the test's own.
	New func(t *testing.T) Destination
	// Apart says that the sink keeps no position at the destination: it is held to deliver at least once, in order.
	Apart bool
	// Unfenced says that a second Open does not end the first. Only a sink that is Apart may be.
	Unfenced bool
	// Big is the size of a big body; 0: 3 MB, three times what a batch holds.
	Big int
}

// Destination is one of a test.
type Destination struct {
	// Sink makes a sink for the one job and sink name, as another process or another start would. The test closes it.
	Sink func() sinks.Sink
	// Bodies returns what a reader finds, in order.
	Bodies func() []string
}

// patience bounds every wait of the suite: nothing in it takes longer than an instant on a machine that is not overloaded.
const patience = time.Minute

// Run checks the promises of [sinks.Sink], each in a test of its own.
func Run(t *testing.T, s Subject) {
	t.Run("delivers in order", s.order)
	t.Run("through a publisher", s.publisher)
	t.Run("replies are lost", s.lostReplies)
	t.Run("is killed anywhere", s.killed)
	t.Run("big messages", s.big)
	t.Run("is cancelled", s.cancelled)
	t.Run("closes", s.closes)
	t.Run("closes beside a call", s.closesBeside)
	t.Run("peeks", s.peeks)
	if s.Apart {
		return
	}
	t.Run("begins", s.begins)
	t.Run("repeats", s.repeats)
	t.Run("never skips", s.gap)
	t.Run("stands ahead", s.ahead)
	t.Run("an empty batch verifies", s.empty)
	t.Run("other messages", s.other)
	t.Run("a new lineage below", s.lineage)
	t.Run("a successor fences", s.fence)
	t.Run("a zombie wakes", s.zombie)
	t.Run("sinks race", s.race)
	t.Run("a peek is no fence", s.peekIsNoFence)
	t.Run("peeks beside a publisher", s.peeksBeside)
	t.Run("a peek ends", s.peekEnds)
}

func (s Subject) sink(t *testing.T, d Destination) sinks.Sink {
	t.Helper()
	k := d.Sink()
	t.Cleanup(func() { _ = k.Close() }) // a second Close may well be an error
	return k
}

// opened returns a sink that stands where the destination does, which is begun if it is empty.
func (s Subject) opened(t *testing.T, d Destination) (sinks.Sink, sinks.Progress) {
	t.Helper()
	k := s.sink(t, d)
	at, err := k.Open(t.Context())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	if at == (sinks.Progress{}) {
		at.Lineage = 1
		if err := k.Begin(t.Context(), at); err != nil {
			t.Fatalf("begin: %v", err)
		}
	}
	return k, at
}

// publish publishes messages behind a position and returns the position behind them.
func publish(t *testing.T, k sinks.Sink, base sinks.Progress, messages []sinks.Message) sinks.Progress {
	t.Helper()
	b := sinks.Batch{Base: base, Messages: messages}
	ack, err := k.Publish(t.Context(), b)
	if err != nil {
		t.Fatalf("publish behind %d: %v", base.Sequence, err)
	}
	if ack.Published != b.End() {
		t.Fatalf("published %+v, want %+v", ack.Published, b.End())
	}
	if ack.Acknowledged > ack.Published.Sequence {
		t.Fatalf("acknowledged %d, published %d", ack.Acknowledged, ack.Published.Sequence)
	}
	return b.End()
}

func bodies(messages ...[]sinks.Message) []string {
	var list []string
	for _, part := range messages {
		for i := range part {
			list = append(list, string(part[i].Body))
		}
	}
	return list
}

func (d Destination) want(t *testing.T, messages ...[]sinks.Message) {
	t.Helper()
	if diff := cmp.Diff(bodies(messages...), d.Bodies()); diff != "" {
		t.Fatalf("at the destination (-want +got):\n%.4000s", diff)
	}
}

// wantAll is want for a sink that may repeat: nothing is missing, first arrivals are in order, and nothing else is there.
func (s Subject) wantAll(t *testing.T, d Destination, messages []sinks.Message) {
	t.Helper()
	if !s.Apart {
		d.want(t, messages)
		return
	}
	known := map[string]bool{}
	for _, b := range bodies(messages) {
		known[b] = true
	}
	seen := map[string]bool{}
	var first []string
	for _, b := range d.Bodies() {
		if !known[b] {
			t.Fatalf("nobody sent %.200s", b)
		}
		if !seen[b] {
			seen[b] = true
			first = append(first, b)
		}
	}
	if diff := cmp.Diff(bodies(messages), first); diff != "" {
		t.Fatalf("first arrivals (-want +got):\n%.4000s", diff)
	}
}

func (s Subject) order(t *testing.T) {
	d := s.New(t)
	k, at := s.opened(t, d)
	all := Messages(at, 60, "a")
	for rest, n := all, 1; len(rest) > 0; n = n*3%7 + 1 {
		n = min(n, len(rest))
		at = publish(t, k, at, rest[:n])
		rest = rest[n:]
	}
	d.want(t, all)
	if s.Apart {
		return
	}
	if err := k.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if _, again := s.opened(t, d); again != at {
		t.Fatalf("opened at %+v, want %+v", again, at)
	}
	d.want(t, all)
}

func (s Subject) begins(t *testing.T) {
	d := s.New(t)
	k := s.sink(t, d)
	at, err := k.Open(t.Context())
	if err != nil || at != (sinks.Progress{}) {
		t.Fatalf("open of an empty destination: %+v, %v", at, err)
	}
	at.Lineage = 1
	for range 2 {
		if err := k.Begin(t.Context(), at); err != nil {
			t.Fatalf("begin: %v", err)
		}
	}
	first := Messages(at, 3, "a")
	at = publish(t, k, at, first)
	for range 2 { // its reply may have been lost
		if got, err := k.Open(t.Context()); err != nil || got != at {
			t.Fatalf("open again: %+v, %v, want %+v", got, err, at)
		}
	}
	if err := k.Begin(t.Context(), sinks.Progress{Lineage: 1}); err == nil {
		t.Fatal("a position went back within its lineage")
	}
	d.want(t, first)
	publish(t, k, at, nil)
}

func (s Subject) repeats(t *testing.T) {
	d := s.New(t)
	k, start := s.opened(t, d)
	all := Messages(start, 9, "a")
	mid := publish(t, k, start, all[:5])
	publish(t, k, start, all[:5])
	end := publish(t, k, mid, all[5:])
	publish(t, k, mid, all[5:])
	d.want(t, all)
	// Batches that are there in part, or cut otherwise, are answered with the position.
	for _, b := range []sinks.Batch{
		{Base: start, Messages: all[:5]},
		{Base: start, Messages: all[:3]},
		{Base: at(start, all[:3]), Messages: all[3:7]},
	} {
		wantStands(t, k, b, end)
	}
	publish(t, k, start, all) // cut otherwise, and with the same end: it is there
	d.want(t, all)
}

func at(behind sinks.Progress, messages []sinks.Message) sinks.Progress {
	b := sinks.Batch{Base: behind, Messages: messages}
	return b.End()
}

func wantStands(t *testing.T, k sinks.Sink, b sinks.Batch, where sinks.Progress) {
	t.Helper()
	_, err := k.Publish(t.Context(), b)
	stands, ok := errors.AsType[*sinks.StandsError](err)
	if !ok || stands.At != where {
		t.Fatalf("batch from %d to %d: %v, want that it stands at %+v", b.Base.Sequence, b.End().Sequence, err, where)
	}
}

func (s Subject) gap(t *testing.T) {
	d := s.New(t)
	k, start := s.opened(t, d)
	all := Messages(start, 9, "a")
	mid := publish(t, k, start, all[:2])
	wantStands(t, k, sinks.Batch{Base: at(start, all[:4]), Messages: all[4:]}, mid)
	wantStands(t, k, sinks.Batch{Base: at(start, all[:4])}, mid)
	higher := at(start, all[:2])
	higher.Lineage = 7
	wantStands(t, k, sinks.Batch{Base: higher, Messages: all[2:]}, mid)
	d.want(t, all[:2])
	publish(t, k, mid, all[2:])
	d.want(t, all)
}

func (s Subject) ahead(t *testing.T) {
	d := s.New(t)
	k, start := s.opened(t, d)
	all := Messages(start, 9, "a")
	end := publish(t, k, start, all)
	wantStands(t, k, sinks.Batch{Base: start, Messages: all[:4]}, end)
	wantStands(t, k, sinks.Batch{Base: start}, end)
	d.want(t, all)
}

func (s Subject) empty(t *testing.T) {
	d := s.New(t)
	k, start := s.opened(t, d)
	publish(t, k, start, nil)
	all := Messages(start, 4, "a")
	end := publish(t, k, start, all)
	publish(t, k, end, nil)
	wantStands(t, k, sinks.Batch{Base: start}, end)
	d.want(t, all)
}

// other: what has another history is not taken, whether it is shorter, as long, or longer.
func (s Subject) other(t *testing.T) {
	d := s.New(t)
	k, start := s.opened(t, d)
	all := Messages(start, 5, "a")
	end := publish(t, k, start, all)
	strange := Messages(start, 9, "b")
	for _, b := range []sinks.Batch{
		{Base: at(start, strange[:3]), Messages: strange[3:4]},
		{Base: at(start, strange[:4]), Messages: strange[4:5]},
		{Base: start, Messages: strange[:5]},
		{Base: at(start, strange[:5]), Messages: strange[5:]},
		{Base: at(start, strange[:5])},
		{Base: at(start, strange[:7]), Messages: strange[7:]},
	} {
		_, err := k.Publish(t.Context(), b)
		_, diverged := errors.AsType[*sinks.DivergedError](err)
		stands, isStands := errors.AsType[*sinks.StandsError](err)
		if !diverged && (!isStands || stands.At != end) {
			t.Fatalf("batch of strangers from %d to %d: %v", b.Base.Sequence, b.End().Sequence, err)
		}
	}
	d.want(t, all)
	publish(t, k, end, nil)
}

func (s Subject) lineage(t *testing.T) {
	d := s.New(t)
	k, start := s.opened(t, d)
	old := Messages(start, 9, "a")
	publish(t, k, start, old)
	below := at(start, old[:4])
	below.Lineage = start.Lineage + 1
	for range 2 {
		if err := k.Begin(t.Context(), below); err != nil {
			t.Fatalf("begin: %v", err)
		}
	}
	fresh := Messages(below, 3, "b")
	mid := publish(t, k, below, fresh)
	d.want(t, old, fresh)
	wantStands(t, k, sinks.Batch{Base: at(start, old)}, mid)
	more := Messages(mid, 3, "b")
	end := publish(t, k, mid, more)
	if err := k.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if _, again := s.opened(t, d); again != end {
		t.Fatalf("opened at %+v, want %+v", again, end)
	}
	d.want(t, old, fresh, more)
}

func wantFenced(t *testing.T, what string, err error) {
	t.Helper()
	fenced, ok := errors.AsType[*sinks.FencedError](err)
	if !ok || fenced.Forgotten {
		t.Fatalf("%s: %v, want that it is fenced by a successor", what, err)
	}
}

func (s Subject) fence(t *testing.T) {
	d := s.New(t)
	old, start := s.opened(t, d)
	all := Messages(start, 9, "a")
	mid := publish(t, old, start, all[:4])
	successor, found := s.opened(t, d)
	if found != mid {
		t.Fatalf("the successor opened at %+v, want %+v", found, mid)
	}
	_, err := old.Publish(t.Context(), sinks.Batch{Base: mid, Messages: all[4:6]})
	wantFenced(t, "publish", err)
	_, err = old.Publish(t.Context(), sinks.Batch{Base: mid})
	wantFenced(t, "probe", err)
	_, err = old.Publish(t.Context(), sinks.Batch{Base: start, Messages: all[:4]})
	wantFenced(t, "repeat", err)
	higher := mid
	higher.Lineage++
	wantFenced(t, "begin", old.Begin(t.Context(), higher))
	d.want(t, all[:4])
	publish(t, successor, mid, all[4:])
	d.want(t, all)
}

// zombie: it has a batch under way when it falls asleep, and sends it when others have written, the same or something else.
func (s Subject) zombie(t *testing.T) {
	for _, salt := range []string{"a", "b"} {
		d := s.New(t)
		zombie, start := s.opened(t, d)
		all := Messages(start, 9, salt)
		mid := publish(t, zombie, start, all[:3])
		successor, _ := s.opened(t, d)
		theirs := Messages(mid, 6, "a")
		end := publish(t, successor, mid, theirs)
		for range 2 {
			_, err := zombie.Publish(t.Context(), sinks.Batch{Base: mid, Messages: all[3:]})
			wantFenced(t, "zombie", err)
		}
		d.want(t, all[:3], theirs)
		publish(t, successor, end, nil)
	}
}

// raceTries is how often each of six instances may be turned away by the five others.
const raceTries = 20

// race: of sinks that are opened at once, one wins, and what it writes is all there is.
func (s Subject) race(t *testing.T) {
	d := s.New(t)
	_, start := s.opened(t, d)
	all := Messages(start, 1, "a")
	const n = 6
	done := make(chan error, n)
	for range n {
		k := s.sink(t, d)
		go func() {
			if _, err := k.Open(t.Context()); err != nil {
				done <- fmt.Errorf("open: %w", err)
				return
			}
			_, err := k.Publish(t.Context(), sinks.Batch{Base: start, Messages: all})
			// Two that take over from each other may both be turned away for a moment: what may pass is tried again.
			for tries := 0; err != nil && !sinks.Permanent(err) && tries < raceTries; tries++ {
				_, err = k.Publish(t.Context(), sinks.Batch{Base: start, Messages: all})
			}
			if fenced, ok := errors.AsType[*sinks.FencedError](err); ok && !fenced.Forgotten {
				err = nil
			}
			done <- err
		}()
	}
	for range n {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	d.want(t, all) // the last one to open has published it, or found it
}

func (s Subject) big(t *testing.T) {
	size := s.Big
	if size == 0 {
		size = 3 << 20
	}
	d := s.New(t)
	k, start := s.opened(t, d)
	var all []sinks.Message
	for i := range uint64(3) {
		text := strings.Repeat(fmt.Sprint(i, `\"\n \u00e9 `), size/16)
		all = append(all, Message(i+1, "big", fmt.Appendf(nil, `{"n":%d,"text":"%s"}`, i, text)))
	}
	Chain(start, all)
	at := publish(t, k, start, all[:1])
	publish(t, k, at, all[1:])
	d.want(t, all)
}

func (s Subject) cancelled(t *testing.T) {
	d := s.New(t)
	k, start := s.opened(t, d)
	all := Messages(start, 5, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Publish(ctx, sinks.Batch{Base: start, Messages: all}); err == nil {
		t.Fatal("published under a context that had ended")
	}
	publish(t, k, start, all)
	s.wantAll(t, d, all)
}

// closesBeside: a process that ends cancels the call that runs and closes the sink; what was under way is there or not.
func (s Subject) closesBeside(t *testing.T) {
	d := s.New(t)
	for range 10 {
		k, base := s.opened(t, d)
		messages := Messages(base, 50, "a")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = k.Publish(ctx, sinks.Batch{Base: base, Messages: messages})
		}()
		cancel()
		_ = k.Close() // that of a connection which is in use may well be an error
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatal("a call outlives the end of its context and the sink")
		}
	}
	if s.Apart {
		return
	}
	_, end := s.opened(t, d)
	d.want(t, Messages(sinks.Progress{}, int(end.Sequence), "a"))
}

func (s Subject) closes(t *testing.T) {
	d := s.New(t)
	k, start := s.opened(t, d)
	all := Messages(start, 2, "a")
	publish(t, k, start, all)
	if err := k.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if _, err := k.Publish(t.Context(), sinks.Batch{Base: at(start, all), Messages: Messages(at(start, all), 1, "a")}); err == nil {
		t.Fatal("published after Close")
	}
	d.want(t, all)
	if err := d.Sink().Close(); err != nil {
		t.Fatalf("close of a sink that was never opened: %v", err)
	}
}
