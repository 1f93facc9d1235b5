// Package checkpoint keeps what a job knows, one epoch after the other.
//
// A [Commit] is everything that becomes true at one moment: what changed in the state since the epoch before, where the
// sources stand, which rules run, and what has to be sent. A [Store] makes it durable in one step or not at all, and gives
// back any epoch that it still keeps. A [Coordinator] leads an epoch from its barrier to its commit.
//
// State is opaque here: records of a key and a value, of which the newest counts.
package checkpoint
