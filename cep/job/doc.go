// Package job runs rules over streams for as long as it is let, and sends each alert exactly once.
//
// A [Config] says what to read, which rules to run, where alerts go and where state is kept. [New] restores the job from the
// newest sound epoch of its store, or proves that it never ran. [Job.Run] reads until its context ends, [Job.Drain] ends it
// in an orderly way, and [Job.Status] says how it is. [Job.Swap] changes its rules while it runs, [Job.Plan] says what that would do, and
// [Job.OpenStarts] what its rules wait for.
//
//	j, err := job.New(ctx, job.Config{Name: "fraud", Rules: set, Streams: streams, Sinks: outputs, Store: store, ...})
//	if err != nil {
//		return err // it says what was found and what to do
//	}
//	return j.Run(ctx)
//
// # How it works
//
// Each partition has a goroutine that reads and decodes. The sequencer, one goroutine, pushes what they have read into the
// engine, the partition with the lowest clock first, and puts between events what else changes output: that a partition is
// idle, that time passes while all is silent, the barrier of an epoch. The committer turns what an epoch brings into one
// transaction of the store, beside the engine, which goes on; one epoch is under way at a time. A publisher for each sink
// sends what is committed. docs/exactly-once.md tells why each alert arrives once, and when it does not.
//
// Another set of rules takes over in the sequencer, between two batches: the engine is left behind a watermark and goes on with
// the set, readers are turned to where events wait, and the epoch that begins there holds it.
//
// # Concurrency
//
// Run is called once. Drain, Checkpoint, Swap, Plan, OpenStarts and Status may be called from any goroutine while it runs. When it has returned, no
// goroutine of the job is left; store, sinks and sources belong to the caller.
//
// # Cost
//
// A partition that is silent or has ended costs its goroutine or nothing: a batch and a decoder are lent to it while it has
// something to hand over. What waits for a sink is in the store. An epoch costs what has changed since the one before.
//
// # Caveats
//
// Whatever breaks an epoch (a panic in the engine, a store that is beyond use) ends the job as a crash would, and Run says
// why: whoever runs it makes another one, which goes on from the newest epoch.
package job
