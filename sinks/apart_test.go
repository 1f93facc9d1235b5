package sinks_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/sinktest"
)

// mouth is a sink without a position: it says what it is told, and answers as a test wants.
type mouth struct {
	said   []uint64
	answer func(b sinks.Batch) (taken int, err error)
}

func (m *mouth) Peek(context.Context) (sinks.Progress, error) { return sinks.Progress{}, nil }
func (m *mouth) Open(context.Context) (sinks.Progress, error) { return sinks.Progress{}, nil }
func (m *mouth) Begin(context.Context, sinks.Progress) error  { return nil }
func (m *mouth) Close() error                                 { return nil }
func (m *mouth) Publish(_ context.Context, b sinks.Batch) (sinks.Ack, error) {
	if len(b.Messages) == 0 {
		return sinks.Ack{Published: b.Base}, nil
	}
	n, err := m.answer(b)
	for _, msg := range b.Messages[:n] {
		m.said = append(m.said, msg.Sequence)
	}
	p := b.Base
	if n > 0 {
		p.Sequence, p.Chain = b.Messages[n-1].Sequence, b.Messages[n-1].Chain
	}
	return sinks.Ack{Published: p}, err
}

func all(b sinks.Batch) (int, error) { return len(b.Messages), nil }

func sequence(from, to uint64) []uint64 {
	var list []uint64
	for ; from <= to; from++ {
		list = append(list, from)
	}
	return list
}

func TestAtLeastOnceGoesOnBehindAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		m := &mouth{answer: func(b sinks.Batch) (int, error) {
			if calls++; calls%2 == 1 {
				return len(b.Messages) / 3, errors.New("busy")
			}
			return len(b.Messages), nil
		}}
		o := &sinktest.Outbox{}
		r := start(t, sinks.PublisherConfig{Sink: m, Outbox: o, Guarantee: sinks.AtLeastOnce})
		commit(o, r, 30, "a")
		r.drain(t)
		if d := cmp.Diff(sequence(1, 30), m.said); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		// What was published need not be kept: this destination cannot go back.
		if got := o.Range().First.Sequence; got != 30 {
			t.Errorf("kept from %d", got)
		}
		// A crash before the next epoch: it is sent again.
		r.stop(t)
		o.Crash()
		r = start(t, sinks.PublisherConfig{Sink: m, Outbox: o, Guarantee: sinks.AtLeastOnce})
		r.drain(t)
		r.stop(t)
		if len(m.said) != 60 {
			t.Errorf("said %v", m.said)
		}
	})
}

func TestRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mouth{answer: func(b sinks.Batch) (int, error) {
			for i, msg := range b.Messages {
				if msg.Sequence == 4 || msg.Sequence == 5 || msg.Sequence == 10 {
					return i, &sinks.RejectedError{Sequence: msg.Sequence, Reason: "413 too large"}
				}
			}
			return len(b.Messages), nil
		}}
		o := &sinktest.Outbox{}
		var dead []uint64
		fails := 2
		r := start(t, sinks.PublisherConfig{Sink: m, Outbox: o, Guarantee: sinks.AtLeastOnce, Rejected: func(m sinks.Message, reason string) error {
			if reason != "413 too large" {
				t.Errorf("reason %q", reason)
			}
			if got := o.Range().Sent.Sequence; got >= m.Sequence {
				t.Errorf("message %d is a dead letter behind the position %d", m.Sequence, got)
			}
			if fails--; fails >= 0 {
				return errors.New("disk full")
			}
			dead = append(dead, m.Sequence)
			return nil
		}})
		commit(o, r, 10, "a")
		r.drain(t)
		r.stop(t)
		if d := cmp.Diff([]uint64{4, 5, 10}, dead); d != "" {
			t.Errorf("dead letters (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]uint64{1, 2, 3, 6, 7, 8, 9}, m.said); d != "" {
			t.Errorf("said (-want +got):\n%s", d)
		}
		if s := r.Status(); s.Rejected != 3 || s.Published.Sequence != 10 || s.Messages != 7 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAtMostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		m := &mouth{answer: func(b sinks.Batch) (int, error) {
			if calls++; calls == 2 {
				return 3, errors.New("the connection broke")
			}
			return len(b.Messages), nil
		}}
		o := &sinktest.Outbox{}
		c := sinks.PublisherConfig{Sink: m, Outbox: o, Guarantee: sinks.AtMostOnce, BatchMax: 5}
		r := start(t, c)
		commit(o, r, 15, "a")
		r.drain(t)
		r.stop(t)
		if d := cmp.Diff(append(sequence(1, 8), sequence(11, 15)...), m.said); d != "" {
			t.Errorf("said (-want +got):\n%s", d)
		}
		if s := r.Status(); s.Lost != 2 || s.Messages != 13 {
			t.Errorf("%+v", s)
		}
		// Each crash loses what was under way and repeats nothing.
		for _, point := range []string{"publisher.noted", "publisher.sending", "publisher.sent", "publisher.confirmed"} {
			commit(o, nil, 5, "a")
			crashAt(t, c, point)
			o.Crash()
		}
		r = start(t, c)
		r.drain(t)
		r.stop(t)
		seen := map[uint64]bool{}
		for _, n := range m.said {
			if seen[n] {
				t.Errorf("%d was said twice", n)
			}
			seen[n] = true
		}
		if len(m.said) < 23 {
			t.Errorf("said %v", m.said)
		}
	})
}

// TestAtMostOnceAway: a destination that is away does not swallow everything that comes.
func TestAtMostOnceAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		m := &mouth{answer: func(b sinks.Batch) (int, error) {
			if away.Load() {
				return 0, errors.New("connection refused")
			}
			return len(b.Messages), nil
		}}
		o := &sinktest.Outbox{}
		r := start(t, sinks.PublisherConfig{Sink: m, Outbox: o, Guarantee: sinks.AtMostOnce, BatchMax: 1})
		commit(o, r, 1000, "a")
		time.Sleep(time.Minute)
		away.Store(false)
		r.drain(t)
		r.stop(t)
		// Twenty pauses at most fit into a minute: those of 20 ms to 5 s that double, then of 5 s.
		if lost := 1000 - len(m.said); lost < 5 || lost > 35 || r.Status().Lost != uint64(lost) {
			t.Errorf("lost %d, counted %d", lost, r.Status().Lost)
		}
	})
}

func TestLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var calls []time.Duration
		m := &mouth{answer: func(b sinks.Batch) (int, error) {
			calls = append(calls, time.Since(begin))
			switch len(calls) {
			case 1:
				return 0, &sinks.LaterError{After: 90 * time.Second, Err: errors.New("429 too many requests")}
			case 2:
				return 0, &sinks.LaterError{After: 24 * time.Hour, Err: errors.New("429 too many requests")}
			}
			return all(b)
		}}
		o := &sinktest.Outbox{}
		r := start(t, sinks.PublisherConfig{Sink: m, Outbox: o, Guarantee: sinks.AtLeastOnce})
		commit(o, r, 3, "a")
		r.drain(t)
		r.stop(t)
		if d := cmp.Diff([]time.Duration{0, 90 * time.Second, 690 * time.Second}, calls); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

func TestErrStopStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mouth{answer: func(sinks.Batch) (int, error) { return 0, sinks.ErrStop }}
		o := &sinktest.Outbox{}
		r := start(t, sinks.PublisherConfig{Sink: m, Outbox: o, Guarantee: sinks.AtLeastOnce})
		commit(o, r, 3, "a")
		if err := <-r.ended; !errors.Is(err, sinks.ErrStop) {
			t.Errorf("run: %v", err)
		}
	})
}
