// Package source is the contract of everything that events are read from.
//
// A [Reader] reads one partition: records in the order of their offsets, each a slice of bytes that a decoder
// (package codec) understands by the partition's [Format]. A [Partitions] gives out the one [cep.Partition] that each
// (stream, name) has in a process. A [Source] finds the partitions of a stream for a job that runs, and tells a [Discovery].
//
//	parts := source.NewPartitions("auth", "web")
//	p := parts.Get("auth", "3")
//	fmt.Println(p.Stream, p.Name, p.Order)
//
// Every implementation runs the suites in sourcetest.
//
// # Concurrency
//
// A Reader belongs to one goroutine, but for Progress. Partitions may be shared.
//
// # Cost
//
// A record is lent, not copied: it lives until the next call of Next.
//
// # Caveats
//
// What cannot be read again (standard input) says so by [ErrNotSeekable]; recovery needs a log before such a source
// (package eventlog).
package source
