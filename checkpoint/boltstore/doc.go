// Package boltstore keeps checkpoints in one bbolt file.
//
// There are two types. A [Store] implements [checkpoint.Store]; [Options] are its settings, of which the zero value is a good
// one.
//
//	store, err := boltstore.Open(ctx, "state", boltstore.Options{})
//	if err != nil {
//		return err // names the process that has it, or what is wrong with the file and what to do
//	}
//	defer store.Close()
//	manifest, err := store.Restore(ctx, 41, func(r checkpoint.Record) error { ... })
//
// State is a log: each epoch adds a delta, packed into values of a megabyte, and [Store.Maintain] folds what changed into a
// new base once it outgrows the last one. An epoch is one transaction, whatever it holds. Everything has a checksum over
// itself and its place; docs/format/checkpoint.md draws the file.
//
// Damage sets aside what needs it and no more: a slot of a base that is spoilt is told by the base before and the deltas since,
// and an epoch is refused only where no combination is sound. The pages of the file are walked before bbolt maps them, so that
// a file which was cut off or overwritten is an error and not a fault.
//
// Concurrency: Commit and Rewind come one at a time, everything else from any goroutine, in the middle of them too. Maintain
// works in small transactions, so that a commit waits for a megabyte at most.
//
// Cost: a commit is two syncs and the bytes of its records. Opening walks the pages of trees, not the values. The file keeps
// its size when things are dropped, and uses the room again; [Store.Compact] gives it back, and Open does so by itself when
// more than half of a large file is free.
//
// Caveats: the file is in the byte order of the machine. A sync that fails makes the store unusable until it is opened again
// ([checkpoint.ErrUnusable]); any other error of a commit leaves it as it was.
package boltstore
