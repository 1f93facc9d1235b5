package memsink

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cepd/cepd/sinks"
)

var errClosed = errors.New("the sink is closed")

// Sink is one owner's way to a [Server].
type Sink struct {
	server *Server
	// token makes a repeated Open known, and fence tells a successor from a destination that forgot: both 0 before Open.
	token, fence uint64
	closed       atomic.Bool
}

var _ sinks.Sink = (*Sink)(nil)

// Peek implements [sinks.Sink].
func (k *Sink) Peek(ctx context.Context) (at sinks.Progress, err error) {
	if k.closed.Load() {
		return at, errClosed
	}
	err = k.server.call(ctx, Peek, nil, func(now *state, _ Fault) error {
		at = now.stands()
		return nil
	})
	if err != nil {
		return sinks.Progress{}, err
	}
	return at, nil
}

// Open implements [sinks.Sink].
func (k *Sink) Open(ctx context.Context) (at sinks.Progress, err error) {
	if k.closed.Load() {
		return at, errClosed
	}
	err = k.server.call(ctx, Open, nil, func(now *state, _ Fault) error {
		switch {
		case k.token != 0 && now.token == k.token:
			// Ours already: the reply was lost.
		case k.token != 0 && now.fence >= k.fence && k.server.o.Mutant != NoFence:
			return &sinks.FencedError{Owner: fmt.Sprintf("fence %d, ours is %d", now.fence, k.fence)}
		default:
			if k.token == 0 {
				k.server.tokens++
				k.token = k.server.tokens
			}
			now.fence = max(now.fence, k.fence) + 1
			now.token = k.token
		}
		k.fence, at = now.fence, now.stands()
		return nil
	})
	if err != nil {
		return sinks.Progress{}, err
	}
	return at, nil
}

// stands is the position, or what can be read off the messages where it is lost.
func (s *state) stands() sinks.Progress {
	if s.known {
		return s.at
	}
	return s.witness
}

// Begin implements [sinks.Sink].
func (k *Sink) Begin(ctx context.Context, p sinks.Progress) error {
	if k.closed.Load() {
		return errClosed
	}
	return k.server.call(ctx, Begin, nil, func(now *state, _ Fault) error {
		if err := k.fenced(now); err != nil {
			return err
		}
		switch {
		case now.known && now.at == p:
			return nil
		case now.known && p.Lineage <= now.at.Lineage:
			return &sinks.StandsError{At: now.at}
		}
		now.at, now.known = p, true
		return nil
	})
}

// fenced says who owns the destination, if not we.
func (k *Sink) fenced(now *state) error {
	if now.token == k.token && k.token != 0 || k.server.o.Mutant == NoFence {
		return nil
	}
	return &sinks.FencedError{
		Owner:     fmt.Sprintf("fence %d, ours is %d", now.fence, k.fence),
		Forgotten: now.fence < k.fence || now.fence == 0,
	}
}

// Publish implements [sinks.Sink].
func (k *Sink) Publish(ctx context.Context, b sinks.Batch) (ack sinks.Ack, err error) {
	if k.closed.Load() {
		return ack, errClosed
	}
	err = k.server.call(ctx, Publish, &b, func(now *state, f Fault) error {
		if err := k.fenced(now); err != nil {
			return err
		}
		if err := k.apply(now, &b, f); err != nil {
			return err
		}
		ack = sinks.Ack{Published: now.at, Acknowledged: now.at.Sequence}
		if k.server.o.Replicated {
			ack.Acknowledged = k.server.replica.at.Sequence
			if k.server.replica.at.Lineage != now.at.Lineage {
				ack.Acknowledged = 0
			}
		}
		return nil
	})
	if err != nil {
		return sinks.Ack{}, err
	}
	return ack, nil
}

func (k *Sink) apply(now *state, b *sinks.Batch, f Fault) error {
	mutant, end := k.server.o.Mutant, b.End()
	if !now.known {
		return &sinks.FencedError{Owner: "nobody: the position is lost", Forgotten: true}
	}
	if mutant == BlindAppend {
		now.append(b.Messages, end)
		now.at = end
		return nil
	}
	switch {
	case len(b.Messages) > 0 && now.at == end:
		return nil
	case now.at == b.Base:
	case mutant == SkipGap && now.at.Lineage == b.Base.Lineage && now.at.Sequence < b.Base.Sequence:
	case now.at.Lineage == b.Base.Lineage && (now.at.Sequence == b.Base.Sequence || now.at.Sequence == end.Sequence):
		return &sinks.DivergedError{At: now.at, Detail: fmt.Sprintf("its chain there is %.16s", now.at.Chain)}
	default:
		return &sinks.StandsError{At: now.at}
	}
	if mutant == PositionApart && (f.LoseReply || f.Cut > 0) {
		n := len(b.Messages)
		if f.Cut > 0 {
			n = min(f.Cut, n)
		}
		now.append(b.Messages[:n], end)
		return errBroken
	}
	now.append(b.Messages, end)
	now.at = end
	return nil
}

// append puts messages behind what is there.
func (s *state) append(messages []sinks.Message, end sinks.Progress) {
	if len(messages) == 0 {
		return
	}
	s.messages = append(s.messages, messages...)
	s.witness = sinks.Progress{Lineage: end.Lineage, Sequence: messages[len(messages)-1].Sequence}
}

// Close implements [sinks.Sink].
func (k *Sink) Close() error {
	k.closed.Store(true)
	return nil
}
