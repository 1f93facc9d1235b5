package sinktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cepd/cepd/sinks"
)

func (s Subject) guarantee() sinks.Guarantee {
	if s.Apart {
		return sinks.AtLeastOnce
	}
	return sinks.ExactlyOnce
}

// running is a publisher that runs.
type running struct {
	*sinks.Publisher
	stop func() error
}

// run runs a publisher until stop, which returns what Run did.
func (s Subject) run(t *testing.T, k sinks.Sink, o sinks.Outbox, c sinks.PublisherConfig) running {
	t.Helper()
	c.Name, c.Sink, c.Outbox, c.Guarantee = t.Name(), k, o, s.guarantee()
	p := sinks.NewPublisher(c)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return running{p, func() error {
		cancel()
		return <-ended
	}}
}

func (r running) drain(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.Drained(ctx); err != nil {
		t.Fatalf("drain: %v; %+v", err, r.Status())
	}
}

func (s Subject) publisher(t *testing.T) {
	d, o := s.New(t), &Outbox{}
	r := s.run(t, s.sink(t, d), o, sinks.PublisherConfig{BatchMax: 7})
	all := Messages(sinks.Progress{}, 50, "a")
	for i := 0; i < len(all); i += 10 {
		o.Commit(all[i : i+10]...)
		r.Wake()
	}
	r.drain(t)
	if err := r.stop(); !errors.Is(err, context.Canceled) {
		t.Fatalf("run: %v", err)
	}
	s.wantAll(t, d, all)
}

// lossy drops replies, and requests, at random.
type lossy struct {
	sinks.Sink
	random *rand.Rand
}

var errLost = errors.New("the reply was lost")

func (l *lossy) lose() (request, reply bool) {
	n := l.random.IntN(10)
	return n == 0, n < 4
}

func (l *lossy) Open(ctx context.Context) (sinks.Progress, error) {
	request, reply := l.lose()
	if request {
		return sinks.Progress{}, errLost
	}
	at, err := l.Sink.Open(ctx)
	if reply && err == nil {
		return sinks.Progress{}, errLost
	}
	return at, err
}

func (l *lossy) Begin(ctx context.Context, p sinks.Progress) error {
	request, reply := l.lose()
	if request {
		return errLost
	}
	err := l.Sink.Begin(ctx, p)
	if reply && err == nil {
		return errLost
	}
	return err
}

func (l *lossy) Publish(ctx context.Context, b sinks.Batch) (sinks.Ack, error) {
	request, reply := l.lose()
	if request {
		return sinks.Ack{}, errLost
	}
	ack, err := l.Sink.Publish(ctx, b)
	if reply && err == nil {
		return sinks.Ack{}, errLost
	}
	return ack, err
}

func (s Subject) lostReplies(t *testing.T) {
	d, o := s.New(t), &Outbox{}
	k := &lossy{s.sink(t, d), rand.New(rand.NewPCG(1, 2))}
	r := s.run(t, k, o, sinks.PublisherConfig{BatchMax: 5})
	all := Messages(sinks.Progress{}, 100, "a")
	for i := 0; i < len(all); i += 4 {
		o.Commit(all[i : i+4]...)
		r.Wake()
	}
	r.drain(t)
	if err := r.stop(); !errors.Is(err, context.Canceled) {
		t.Fatalf("run: %v", err)
	}
	s.wantAll(t, d, all)
}

// killed: the process ends at any instant, in the middle of a call too, and what it knew since its last epoch is lost.
func (s Subject) killed(t *testing.T) {
	d, o := s.New(t), &Outbox{}
	random := rand.New(rand.NewPCG(3, 4))
	all := Messages(sinks.Progress{}, 200, "a")
	for i := 0; i < len(all); i += 10 {
		k := s.sink(t, d)
		r := s.run(t, k, o, sinks.PublisherConfig{BatchMax: 1 + random.IntN(12)})
		o.Commit(all[i : i+10]...)
		r.Wake()
		if i+10 == len(all) {
			r.drain(t)
		} else if random.IntN(4) > 0 {
			time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
		}
		if err := r.stop(); !errors.Is(err, context.Canceled) {
			t.Fatalf("run: %v", err)
		}
		if random.IntN(2) == 0 {
			if err := k.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
		}
		o.Crash()
	}
	s.wantAll(t, d, all)
}
