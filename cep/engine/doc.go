// Package engine runs rules over streams of events.
//
// A [Core] times events, puts them into the one total order, moves the rules' machines and hands out alerts. [Replay]
// drives a Core from the readers of package source. A [Summary] tells where everything went. [Core.Barrier] ends an epoch: its
// [Cut] is what has changed since the one before, and [Restore] goes on from there in another process. A [State] is what a Core
// knew when it was left: [Resume] goes on, with the same rules or others, and [Core.Swap] is both in one. [Core.OpenStarts] lists
// what rules wait for.
//
//	core, err := engine.New(set, []engine.Stream{{Name: "auth", Lateness: 5 * time.Second}}, engine.Options{
//		Alert: func(a *cep.Alert) { fmt.Println(a.Title) },
//	})
//	...
//	core.Push(partition, &event, nil)
//	core.Finish(0)
//
// # Time
//
// The watermark of a partition is the highest time seen in it, less the lateness of its stream, less a nanosecond; what
// comes at or below it is late. The watermark of a stream is the least of its partitions, idle and ended ones aside, and
// that of a rule the least of its streams. Rules that read the same streams share an order buffer. A rule that keeps apart what
// its stream keeps in one partition each ([Stream.KeyLocal]) has a clock for each partition.
//
// Rules that read alerts stand in layers: a layer's matches are events of the layer above, behind all that was read at their
// time, and its watermark is what the layers below have passed.
//
// What has ended no longer counts: the time of a rule whose streams have all ended goes on with the rest of the input, and
// at its end stands at the highest time seen in any stream. A stream has ended when all its partitions have and
// [Core.CloseStream] has said that no other will come.
//
// # Parts
//
// The front (Core) judges events, finds the rules and keys they belong to, and moves the watermarks. Shards hold keys: their
// order buffers and machines. In the back their matches meet, are put in order and become alerts. All three run in the caller's
// goroutine, or with [Options.Parallel] in goroutines of their own, with the same output.
//
// # Epochs
//
// A barrier stands behind a watermark, so an epoch is a prefix of the order of each clock. What was read and not released is in
// no epoch: the source is the buffer, and is read again from [Core.From]. What is read again is not counted, judged or refused a
// second time. docs/format/engine.md draws the state.
//
// # Concurrency
//
// A Core belongs to one goroutine, but for Waiting, Broken and Err. Only with [Options.Parallel] does it start any, and
// [Core.Close] waits for them. Replay runs in the calling
// goroutine; with several shards each partition is decoded in one of its own besides.
//
// # Cost
//
// An event that no rule can touch costs a look at the index, the conditions of the rules found, and no allocation. One that
// may waits in the order buffer with the keys it belongs to; its fields are copied once. A barrier costs the keys that have
// changed, and the partitions and rules there are.
//
// # Caveats
//
// Nothing here reads a clock: idleness and the passing of time while all is silent are told by [Core.Idle] and [Core.Tick].
// All alerts of a Core are merged into one order unless [Options.PerClock] says otherwise, so the slowest stream decides when they
// come out.
package engine
