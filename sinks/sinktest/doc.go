// Package sinktest is the conformance suite of sinks: what package sinks promises, every implementation keeps.
//
//	sinktest.Run(t, sinktest.Subject{
//		New: func(t *testing.T) sinktest.Destination {
//			server := start(t)
//			return sinktest.Destination{Sink: server.NewSink, Bodies: server.ReadAll}
//		},
//	})
//
// A sink that keeps no position at its destination says so ([Subject.Apart]), and is held to at least once. [Outbox] is an
// outbox in memory, and [Messages] makes messages for it, for tests of a sink's own.
//
// # Concurrency
//
// Run uses one destination after the other. It opens several sinks of one at a time, also from several goroutines.
//
// # Cost
//
// Under 2,000 calls, and bodies of 10 MB in all.
//
// # Caveats
//
// What only a destination can do to itself (a failover, a disk that is full, a stranger that writes) is tested beside each
// sink: here the caller and the connection fail.
package sinktest
