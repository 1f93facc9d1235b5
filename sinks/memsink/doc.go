// Package memsink is a destination in memory, for tests and simulations.
//
// A [Server] is the destination: it outlives the [Sink]s that write to it, keeps messages, position and fence, and does all
// that can go wrong when asked to. [Options.Mutant] breaks one promise at a time, to show that a rig would notice.
//
//	server := memsink.NewServer(memsink.Options{})
//	sink := server.Sink()
//	at, err := sink.Open(ctx)
//
// # The fault model
//
// A call arrives, or does not; takes effect as a whole, or does not; and is answered, or the reply is lost. Calls never
// change places. A destination that is stopped refuses everything, a paused one answers nothing until it is resumed. With
// [Options.Replicated], what was applied behind the last [Server.Replicate] is lost by a [Server.Failover]: messages,
// position and the fence of an Open together, as a replica loses them that is promoted too early. [Server.Forget] empties
// the destination; [Server.ForgetPosition] leaves its messages, and [Server.ForgetFence] all but the fence.
//
// # Concurrency
//
// A Server may be used from any goroutine; a Sink as package sinks says.
//
// # Cost
//
// Everything stays in memory.
//
// # Caveats
//
// Bodies are not copied: messages are immutable.
package memsink
