// Package memstore is a checkpoint store in memory, for simulations and tests.
//
// There are two types. A [Disk] is what outlives a process; a [Store] is one process's hold on it, and implements
// [checkpoint.Store].
//
//	disk := memstore.NewDisk(memstore.Options{})
//	store, _ := disk.Open()
//	_ = store.Commit(ctx, commit)
//	disk.Crash()              // store is dead
//	store, _ = disk.Open()    // what the next process sees
//
// The fault model. A call that changes the disk is atomic: all of it is durable when it returns nil, and all or nothing when
// it fails. [Disk.SetFaults] decides about each: it may fail before anything is durable, or behind the point at which all of
// it is, with the process alive or dead afterwards. [Disk.SetFull] refuses every change for a while. [Disk.Damage] and
// [Disk.DamageBase] spoil what is durable: it is then refused where it is needed, never read as good. Not modelled are a part
// of a call that is durable without the rest, and writes that were acknowledged and are lost: the disk tests of
// checkpoint/boltstore are about those.
//
// What [Store.Restore] hands out is overwritten behind each call, so that who keeps it is found out.
//
// Concurrency: a Disk and a Store may be used by any goroutine. Cost: state is copied at each base, and each restore builds
// the whole map; it is no store for millions of records.
package memstore
