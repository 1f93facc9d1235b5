package sinks

import "context"

// Outbox holds the committed messages of one sink until they are safe at the destination. Its methods may be called while
// more is committed.
type Outbox interface {
	// Read returns messages in order from a sequence on: at most so many, and no more bytes of bodies than bytesMax beyond
	// the first. None where nothing is committed from there on.
	Read(ctx context.Context, from uint64, max, bytesMax int) ([]Message, error)
	// Chain returns the chain at a sequence that is still known: from that of First on.
	Chain(ctx context.Context, sequence uint64) (Chain, error)
	// Range returns the position below the first message that is kept, and that of the last one committed.
	Range() (first, last Progress)
	// Confirm notes how far the destination is, and that messages up to forget need not be kept. It is durable with the
	// next epoch at the latest: after a crash an older answer may come back.
	Confirm(published Progress, forget uint64) error
	// Begin makes the position of a new lineage durable before any message of it leaves.
	Begin(ctx context.Context, p Progress) error
}
