// Package eventlog keeps events that cannot be read again: those that come over HTTP, and on standard input.
//
// A [Log] is a directory of segments that are only appended to. Append returns when the events are durable; an offset is a
// place in the log, and never used twice. A [Source] is a log as the one partition of a stream; Trim forgets what no epoch
// needs any more. An event with an id that was seen within [Config].IDWindow is not taken again.
//
//	log, err := eventlog.Open(eventlog.Config{Dir: "state/http/auth"})
//	_, err = log.Append(ctx, []eventlog.Event{{Data: []byte(`{"user":"root"}`), ID: "7f3a"}})
//	src := eventlog.NewSource(eventlog.SourceConfig{Log: log, Stream: "auth", Partitions: parts})
//
// The files are drawn in docs/format/eventlog.md.
//
// # Concurrency
//
// A Log may be shared. Those who append at the same time share one fsync. A directory has one owner, held by a lock.
//
// # Cost
//
// An append costs a share of an fsync; an event is copied once. Opening reads everything: a log of 1 GiB takes about a
// second. An id takes some 100 bytes of memory for as long as it is remembered.
//
// # Caveats
//
// An append that ended in an error may have been done: who repeats needs ids. When a process dies, events of which nobody
// was told may be there.
package eventlog
