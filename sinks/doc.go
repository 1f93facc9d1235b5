// Package sinks is the contract of everything that alerts are sent to, and the [Publisher] that drives it.
//
// A [Message] is an alert or a dead letter that has been committed to the [Outbox] of one sink. A [Sink] applies a [Batch]
// of them and its position at the destination together, and says where the destination stands. A Publisher sends what the
// outbox holds, follows the destination's answers, and lets the outbox forget what is safe there.
//
// Every implementation runs the suite in sinktest; where a destination cannot keep a position its [Guarantee] says so.
package sinks
