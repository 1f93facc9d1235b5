package sinks

import "context"

// Range is what an outbox holds, by positions of one lineage: that of Begun.
type Range struct {
	// First is below the first message that is kept.
	First Progress
	// Begun is where the lineage began, as the last Begin made durable; the zero Progress before any.
	Begun Progress
	// Sent is where the sink stands as far as this side remembers: the last Confirm, or Begin where that is later. Never
	// below First. After a crash it may be older than what was confirmed.
	Sent Progress
	// Last is that of the last message committed.
	Last Progress
}

// Outbox holds the committed messages of one sink until they are safe at the destination. Its methods may be called while
// more is committed.
type Outbox interface {
	// Read returns messages in order from a sequence on: at most so many, and no more bytes of bodies than bytesMax beyond
	// the first. None where nothing is committed from there on.
	Read(ctx context.Context, from uint64, max, bytesMax int) ([]Message, error)
	// Chain returns the chain at a sequence that is still known: from that of First on.
	Chain(ctx context.Context, sequence uint64) (Chain, error)
	// Range returns what is held now.
	Range() Range
	// Confirm notes how far the destination is, and that messages up to forget need not be kept. It is durable with the
	// next epoch at the latest: after a crash an older answer may come back. A position may be below the one before: the
	// destination went back.
	Confirm(published Progress, forget uint64) error
	// Begin makes a position durable before any message behind it leaves: that of a new lineage (which becomes Begun), or,
	// in the same lineage, that of messages which are sent at most once (Sent). It stays whatever epoch is restored.
	Begin(ctx context.Context, p Progress) error
}
