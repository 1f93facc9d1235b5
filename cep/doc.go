// Package cep is the vocabulary of complex event processing that all of cepd shares.
//
// A [Value] is one field of an event, an [Event] is what happened, a [Schema] says which fields are read at all, and a
// [Scope] is what a condition can see: the event under test and the [History] of what a candidate has taken. A [Match]
// is what a machine finds, an [Alert] what leaves the process.
//
//	s := cep.NewSchema()
//	user := s.Slot("user", "name")
//	ev := cep.Event{Time: cep.Second, Values: make([]cep.Value, s.Len())}
//	ev.Values[user] = cep.String("root")
//
// [AppendValue] and [Reader] are the bytes of values in durable formats.
//
// # Concurrency
//
// Values, events, partitions and matches are immutable once they are handed on, and may then be shared by goroutines.
// A Schema grows while rules compile and is read-only afterwards. A Scope belongs to one goroutine.
//
// # Cost
//
// A Value is 24 bytes and holds no interface; scalars never allocate. Nothing in this package reads a clock.
//
// # Caveats
//
// The package uses the standard library only, so that everything else may import it.
package cep
