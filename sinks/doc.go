// Package sinks is the contract of everything that alerts are sent to, and the [Publisher] that drives it.
//
// There are four types to know. A [Message] is an alert or a letter that has been committed to the [Outbox] of one sink. A
// [Sink] applies a [Batch] of them and its position at the destination together, and says where the destination stands. A
// Publisher sends what the outbox holds, follows the destination's answers, and lets the outbox forget what is safe there.
//
//	p := sinks.NewPublisher(sinks.PublisherConfig{Name: "out", Sink: sink, Outbox: outbox})
//	if _, err := p.Peek(ctx); sinks.Permanent(err) {
//		return err // as below, and whoever publishes there is left alone
//	}
//	if err := p.Open(ctx); sinks.Permanent(err) {
//		return err // the destination holds other messages, or belongs to somebody else
//	}
//	go func() { ended <- p.Run(ctx) }()
//	p.Wake() // after each commit
//
// # The protocol
//
// A position is a lineage, a sequence and a chain: how often the history was begun anew, the number of the last message, and
// a hash over the ids of all messages up to it. Whatever happens, the publisher does one thing: it sends what stands behind
// the position, and follows what comes back.
//
//  1. The batch was applied, or was there already: go on behind it.
//  2. The reply was lost: send the same again, which is 1 or 3.
//  3. The destination stands elsewhere ([StandsError]): if the chain of our own messages there is the same, go on from there;
//     else somebody else has written, and it stops ([DivergedError]).
//  4. It stands below what the outbox holds: messages are lost, and it stops ([LostError]).
//  5. It stands above our last message: an older epoch was restored. Nothing is sent before we get there; then it is 3.
//  6. It has forgotten who owns it ([FencedError] with Forgotten): open it again, which is 1 or 3.
//  7. Somebody else owns it (FencedError): it stops.
//
// Opening takes the destination from whoever owns it. Peeking does not: where several destinations are to be opened, all of them
// are asked first, so that one which speaks against it leaves the owners of the others alone.
//
// What an answer has acknowledged is forgotten a grace period later, when another answer confirms it.
//
// Every implementation runs the suite in sinktest; where a destination cannot keep a position its [Guarantee] says so.
//
// # Concurrency
//
// A Sink is used by one goroutine at a time. A Publisher has one goroutine of its own, that of Run; its other methods may be
// called from any. Messages are immutable.
//
// # Cost
//
// A call of Publish for up to [BatchMax] messages and [BytesMax] bytes, whatever waits goes into one. Messages stay where the
// outbox has them: only those of one batch are in memory.
//
// # Caveats
//
// Sinks are independent: who reads two destinations may see one ahead of the other. A destination that forgets more than the
// grace period covers stops its publisher.
package sinks
