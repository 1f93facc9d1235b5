// Package redissink sends messages to Redis or Valkey, each exactly once: to a stream, or to a list, and beside it to a
// channel.
//
// A [Sink] is made of a [Config]. All that it asks of the server is one script, emit.lua: a compare-and-set over who owns the
// position, its lineage, sequence and chain. It appends exactly behind the position or changes nothing, and says how things
// stand. So every doubt, be it a lost answer, a failover or a predecessor that wakes, has one answer: send again, and follow
// what comes back.
//
//	sink, err := redissink.New(redissink.Config{Job: "fraud", Name: "bus", Addresses: []string{"127.0.0.1:6379"}, Stream: "alerts"})
//	...
//	at, err := sink.Open(ctx)
//	err = sink.Begin(ctx, sinks.Progress{Lineage: 1})
//	ack, err := sink.Publish(ctx, sinks.Batch{Base: at, Messages: messages})
//
// # Concurrency
//
// A Sink belongs to one goroutine, but for Close. Any number of processes may open the same position: the last one wins, and
// the others are told so.
//
// # Cost
//
// A call is one round trip. The server runs nothing else while the script appends, 5 µs for each message, which is why a
// batch has at most [sinks.BatchMax] messages and [sinks.BytesMax] bytes.
//
// # Caveats
//
// A list has no second witness of the position; if only its position is lost, what the outbox holds is appended again. A
// channel gets each message at most once. docs/redis.md says what a server may lose and what then happens.
package redissink
