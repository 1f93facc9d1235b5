package sinks

import (
	"context"
	"fmt"
	"time"
)

// Status is what a [Publisher] is doing, for people and metrics.
type Status struct {
	Name      string    `json:"name"`
	Guarantee Guarantee `json:"guarantee"`
	// Found is what the last Open found at the destination; nil before any.
	Found *Progress `json:"found,omitempty"`
	// Published is where the destination stands, Acknowledged the sequence that it will not forget by a failure it is
	// configured to survive, Forgotten that up to which the outbox need not keep messages.
	Published    Progress `json:"published"`
	Acknowledged uint64   `json:"acknowledged"`
	Forgotten    uint64   `json:"forgotten"`
	// Ahead is where the destination stands if that is above our last message: nothing is sent before we have come as far.
	Ahead *Progress `json:"ahead,omitempty"`
	// Error is why it cannot publish, Since when it could not first, Attempts how often it has failed since; Stopped says
	// that it has given up. Error is "" while it can publish.
	Error    string    `json:"error,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Attempts uint64    `json:"attempts,omitempty"`
	Stopped  bool      `json:"stopped,omitempty"`

	// Batches, Messages and Bytes were sent, Bytes being those of bodies; Probes were empty batches.
	Batches  uint64 `json:"batches"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	Probes   uint64 `json:"probes"`
	// Retries are calls that were made again, Rewinds answers that moved the position, Opened calls of Open, Lineages those
	// that were begun.
	Retries  uint64 `json:"retries"`
	Rewinds  uint64 `json:"rewinds"`
	Opened   uint64 `json:"opened"`
	Lineages uint64 `json:"lineages"`
	// Rejected messages became dead letters; Lost are those of which nobody knows (at_most_once).
	Rejected uint64 `json:"rejected"`
	Lost     uint64 `json:"lost"`
}

func (s *Status) trouble(err error, now time.Time) {
	if s.Error == "" {
		s.Since = now
	}
	s.Error = err.Error()
	s.Attempts++
}

// Status may be called from any goroutine.
func (p *Publisher) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// Drained waits until everything committed is published. It returns [AheadError] where the destination holds messages that
// the job has not reached, and the error of Run where that has ended.
func (p *Publisher) Drained(ctx context.Context) error {
	for {
		last := p.c.Outbox.Range().Last
		p.mu.Lock()
		placed, published, ahead, ended, changed := p.placed, p.status.Published, p.status.Ahead, p.ended, p.changed
		p.mu.Unlock()
		switch {
		case placed && ahead == nil && published.Sequence >= last.Sequence:
			return nil
		case ahead != nil && ahead.Sequence > last.Sequence:
			return fmt.Errorf("sink %s: %w", p.c.Name, &AheadError{At: *ahead, Last: last})
		case ended != nil:
			return ended
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// update changes the status.
func (p *Publisher) update(change func(*Status)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.status)
	p.broadcast()
}

// broadcast wakes Drained; p.mu is held.
func (p *Publisher) broadcast() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// recovered notes that a trouble is over.
func (p *Publisher) recovered() {
	s := p.Status()
	p.update(func(s *Status) { s.Error, s.Since, s.Attempts = "", time.Time{}, 0 })
	p.c.Logger.Info("the sink publishes again", "after", time.Since(s.Since), "attempts", s.Attempts)
}
