package sinks

import (
	"errors"
	"fmt"
	"time"
)

// ErrStop is inside errors that no repetition mends: a wrong password, a destination of another type.
var ErrStop = errors.New("the sink stops")

// StandsError is an answer of Publish: the destination stands elsewhere than at the batch's base or end. The caller compares
// the chain of its own messages there, and goes on from there if they are equal.
type StandsError struct{ At Progress }

// Error says where.
func (e *StandsError) Error() string {
	return fmt.Sprintf("the destination stands at lineage %d, sequence %d", e.At.Lineage, e.At.Sequence)
}

// FencedError is an answer of Publish: somebody else owns the destination. Forgotten says that it is not a successor but a
// destination that went back to before our Open, so that Open is right.
type FencedError struct {
	Owner     string
	Forgotten bool
}

// Error names the owner.
func (e *FencedError) Error() string {
	if e.Forgotten {
		return "the destination has forgotten who owns it"
	}
	return fmt.Sprintf("another instance owns the destination now (%s)", e.Owner)
}

// DivergedError is an answer of Publish, or what the Publisher finds: the destination holds other messages than ours.
type DivergedError struct {
	At     Progress
	Detail string
}

// Error says where and what to do.
func (e *DivergedError) Error() string {
	return fmt.Sprintf("the destination holds other messages than this job at lineage %d, sequence %d: %s", e.At.Lineage, e.At.Sequence, e.Detail)
}

// RejectedError is an answer of Publish: the destination will never take this message, and has taken those before it. The
// message becomes a dead letter, and the caller goes on behind it. Only sinks without a position answer so.
type RejectedError struct {
	Sequence uint64
	Reason   string
}

// Error says which and why.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("message %d was refused: %s", e.Sequence, e.Reason)
}

// LaterError is an answer of any call: the destination asks not to be called again before some time has passed.
type LaterError struct {
	After time.Duration
	Err   error
}

// Error is that of the cause.
func (e *LaterError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *LaterError) Unwrap() error { return e.Err }

// LostError is what the [Publisher] finds: the destination has lost messages, or never had them, that the outbox does not
// hold any more.
type LostError struct {
	At    Progress // where the destination stands
	First Progress // below the first message that is kept
}

// Error says how many messages are missing and what to do.
func (e *LostError) Error() string {
	return fmt.Sprintf("the destination stands at lineage %d, sequence %d, and the outbox begins behind %d: "+
		"%d messages between are lost to the destination; start with --accept-gap to go on without them",
		e.At.Lineage, e.At.Sequence, e.First.Sequence, e.First.Sequence-min(e.At.Sequence, e.First.Sequence))
}

// AheadError is an answer of [Publisher.Drained]: the destination holds messages behind our last one, and whether they are
// ours cannot be said before we have come as far.
type AheadError struct{ At, Last Progress }

// Error says how far both are.
func (e *AheadError) Error() string {
	return fmt.Sprintf("the destination stands at lineage %d, sequence %d, which this job has not reached: it stands at %d",
		e.At.Lineage, e.At.Sequence, e.Last.Sequence)
}

// Permanent reports whether err is one that no repetition mends.
func Permanent(err error) bool {
	if errors.Is(err, ErrStop) {
		return true
	}
	if _, ok := errors.AsType[*DivergedError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*LostError](err); ok {
		return true
	}
	e, ok := errors.AsType[*FencedError](err)
	return ok && !e.Forgotten
}
