package sinks

import (
	"context"
	"fmt"
)

// course is what follows from where a destination stands: a lineage begins, or it goes on from there.
type course struct {
	// lineage begins at sequence; 0: none does.
	lineage, sequence uint64
	// ahead says that the destination is above our last message, adopt that its lineage becomes ours.
	ahead, adopt bool
	// lost and repeats say that it takes a person's leave: messages are lost, or may be sent again.
	lost    bool
	repeats string // why; "" for no
}

// decide decides where to go on from, given where the destination stands, and changes nothing. Its error is the refusal to go
// on. The cases, for a sink that keeps its position:
//
//  1. below the outbox: messages are lost to the destination. Stop; AcceptGap: a new lineage at the outbox's beginning.
//  2. a lineage below ours: it has not seen ours begin, or has lost it in a failover. Begin ours again: where it began, or
//     below that where the destination lost even what stood before.
//  3. a savepoint was restored: a new lineage, at what was sent as of then, or below that where the destination is.
//  4. above our last message: an older epoch was restored. Read on; it is decided again when we get there.
//  5. the chains are equal: go on from there. A lineage above ours was begun by an heir of the same history and becomes ours.
//  6. the chains differ: stop; AcceptRepeat: a new lineage, as in 3.
//
// The zero position is that of a destination which is new, or gone: 1 or 2.
func (p *Publisher) decide(ctx context.Context, at Progress, r Range) (course, error) {
	ours := r.Begun.Lineage
	switch {
	case at.Sequence < r.First.Sequence:
		if !p.start || !p.c.AcceptGap {
			return course{}, &LostError{At: at, First: r.First}
		}
		return course{lineage: max(at.Lineage, ours) + 1, sequence: r.First.Sequence, lost: true}, nil
	case p.start && p.c.NewLineage:
		return p.branch(ctx, at, r)
	case at.Lineage < ours && at.Sequence >= r.Begun.Sequence:
		if r.Begun.Sequence < r.First.Sequence {
			return course{}, &LostError{At: r.Begun, First: r.First}
		}
		// What was sent lies below where it began only where an epoch was restored that is older still.
		return course{lineage: ours, sequence: min(r.Begun.Sequence, r.Sent.Sequence)}, nil
	case at.Sequence > r.Last.Sequence:
		if at.lost() {
			return p.diverged(at, r, "its position is lost, and the last message that it has is above ours")
		}
		return course{ahead: true}, nil
	}
	chain, err := p.c.Outbox.Chain(ctx, at.Sequence)
	if err != nil {
		return course{}, fmt.Errorf("chain at %d: %w", at.Sequence, err)
	}
	switch {
	case at.Chain != chain && !at.lost():
		return p.diverged(at, r, fmt.Sprintf("its chain there is %.16s, ours %.16s", at.Chain, chain))
	case at.Lineage < ours || at.lost():
		return course{lineage: max(at.Lineage, ours), sequence: at.Sequence}, nil
	case at.Lineage == 0: // the first start of all
		return course{lineage: 1, sequence: at.Sequence}, nil
	}
	return course{adopt: at.Lineage > ours}, nil
}

// place goes on from where the destination stands.
func (p *Publisher) place(ctx context.Context, at Progress) error {
	r := p.c.Outbox.Range()
	if p.c.Guarantee != ExactlyOnce {
		p.stand(r.Sent, false)
		return nil
	}
	c, err := p.decide(ctx, at, r)
	if err != nil {
		return err
	}
	switch {
	case c.lost:
		p.c.Logger.Warn("messages are lost to the destination, as accepted", "behind", at.Sequence, "through", c.sequence)
	case c.repeats != "":
		p.c.Logger.Warn("the destination holds other messages; a new lineage begins, as accepted", "at", at.Sequence, "detail", c.repeats)
	}
	switch {
	case c.lineage > 0:
		return p.begin(ctx, c.lineage, c.sequence)
	case c.ahead && !p.ahead:
		p.accept = p.start && p.c.AcceptRepeat
		p.c.Logger.Warn("the destination is ahead: nothing is sent before the job has come as far", "at", at.Sequence, "last", r.Last.Sequence)
	case c.adopt:
		if err := p.c.Outbox.Begin(ctx, at); err != nil {
			return fmt.Errorf("note lineage %d: %w", at.Lineage, err)
		}
	}
	if p.ahead && !c.ahead {
		p.c.Logger.Info("the destination has what this job has found: nothing is sent again", "at", at.Sequence)
	}
	p.stand(at, c.ahead)
	return nil
}

// lost reports whether the position was read off what is there, and the chain is not known.
func (p Progress) lost() bool { return p.Sequence > 0 && p.Chain == Chain{} }

// diverged stops, or begins a new lineage where repetition is accepted.
func (p *Publisher) diverged(at Progress, r Range, detail string) (course, error) {
	if p.start && p.c.AcceptRepeat || p.ahead && p.accept {
		return course{lineage: max(at.Lineage, r.Begun.Lineage) + 1, sequence: back(at, r), repeats: detail}, nil
	}
	return course{}, &DivergedError{At: at, Detail: detail + "; start with --accept-repeat to begin a new lineage, which may send messages again"}
}

// branch begins the lineage of a savepoint.
func (p *Publisher) branch(ctx context.Context, at Progress, r Range) (course, error) {
	if at.Sequence <= r.Sent.Sequence && !at.lost() {
		chain, err := p.c.Outbox.Chain(ctx, at.Sequence)
		if err != nil {
			return course{}, fmt.Errorf("chain at %d: %w", at.Sequence, err)
		}
		if chain != at.Chain && !p.c.AcceptRepeat {
			return course{}, &DivergedError{At: at, Detail: fmt.Sprintf("its chain there is %.16s, ours %.16s, and both are older than the "+
				"epoch that was restored; start with --accept-repeat if this is the right destination", at.Chain, chain)}
		}
	}
	return course{lineage: max(at.Lineage, r.Begun.Lineage) + 1, sequence: back(at, r)}, nil
}

// back is the highest sequence from which nothing is lost: what was sent as far as we know, and what is there.
func back(at Progress, r Range) uint64 {
	return min(max(min(at.Sequence, r.Sent.Sequence), r.First.Sequence), r.Last.Sequence)
}

// begin begins a lineage at a sequence, here first and then there: a crash between the two finds the destination below it.
func (p *Publisher) begin(ctx context.Context, lineage, sequence uint64) error {
	chain, err := p.c.Outbox.Chain(ctx, sequence)
	if err != nil {
		return fmt.Errorf("chain at %d: %w", sequence, err)
	}
	at := Progress{Lineage: lineage, Sequence: sequence, Chain: chain}
	if lineage != p.c.Outbox.Range().Begun.Lineage {
		if err := p.c.Outbox.Begin(ctx, at); err != nil {
			return fmt.Errorf("note lineage %d: %w", lineage, err)
		}
		p.c.NewLineage = false // it is case 2 from here on
		p.c.Failpoint("publisher.begun")
	}
	if err := p.c.Sink.Begin(ctx, at); err != nil {
		return fmt.Errorf("begin lineage %d: %w", lineage, err)
	}
	p.c.Failpoint("publisher.placed")
	p.c.Logger.Info("lineage begun", "lineage", lineage, "sequence", sequence)
	p.update(func(s *Status) { s.Lineages++ })
	p.stand(at, false)
	return nil
}

// stand takes at for where the destination stands.
func (p *Publisher) stand(at Progress, ahead bool) {
	if at.Lineage != p.at.Lineage {
		p.acks = nil
	}
	for n := len(p.acks); n > 0 && p.acks[n-1].sequence > at.Sequence; n-- {
		p.acks = p.acks[:n-1] // acknowledged, and lost all the same
	}
	p.at, p.ahead = at, ahead
	p.mu.Lock()
	defer p.mu.Unlock()
	p.placed = true
	p.status.Published, p.status.Ahead = at, nil
	if ahead {
		p.status.Published, p.status.Ahead = Progress{}, &at
	}
	p.status.Acknowledged = min(p.status.Acknowledged, at.Sequence)
	p.broadcast()
}
