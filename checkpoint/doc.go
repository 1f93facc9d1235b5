// Package checkpoint keeps what a job knows, one epoch after the other.
//
// There are four types to know. A [Commit] is everything that becomes true at one moment: what changed in the state since the
// epoch before, and what has to be sent; its [Manifest] says where the sources stand and which rules run. A [Store] makes it
// durable in one step or not at all, and gives back any epoch that it still keeps. A [Coordinator] leads an epoch from its
// barrier to its commit.
//
//	e, _ := coordinator.Begin()                       // send the barrier of e
//	_ = coordinator.Vote(e, "engine", part)           // and the other participants
//	err := store.Commit(ctx, coordinator.Commit())    // again and again, until it is durable
//	_ = coordinator.Done(e)                           // sinks publish what the outbox holds
//
// State is opaque here: records of a key and a value, of which the newest counts. A [SavepointWriter] puts an epoch with the
// messages that wait into one file.
//
// Concurrency: a Coordinator belongs to one goroutine and does no I/O; a Store may be used by many, but commits come one at a
// time.
//
// Cost: a commit costs what changed, not what there is.
//
// Caveats: a store keeps the last few bases and all that came since. Older epochs are gone, and sources need not be readable
// from before the oldest that is kept.
package checkpoint
