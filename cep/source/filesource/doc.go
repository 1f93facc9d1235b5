// Package filesource reads events from files: JSON lines and delimited text, plain, compressed or zipped.
//
// [Open] takes paths as users write them and returns a reader for each partition, for a replay. A [Follower] is the
// files of a stream of a running job: they grow, are rotated, truncated, compressed and deleted, and new ones come. A file is a
// partition, and so is each member of a zip archive.
//
//	readers, err := filesource.Open(filesource.Config{
//		Stream:     "auth",
//		Paths:      []string{"logs/*.jsonl.gz", "archive/2024"},
//		Partitions: source.NewPartitions("auth"),
//	})
//
// A partition is named by the hash of the first 1 KiB of its uncompressed content, and offsets count uncompressed
// bytes: neither rotation nor compression changes them, or the ids of alerts made from them. docs/inputs.md says what a
// Follower does in each case.
//
// # Concurrency
//
// Readers are independent of each other. Those of a Follower share its open files.
//
// # Cost
//
// A reader of Open that has been started holds a file and 64 KiB. One of a Follower holds 64 KiB while it reads, and its file
// only as long as no other needs the descriptor. Going back in a compressed file reads it again from its start. A Follower
// asks the system for the state of each file once a second, of those that grow four times.
//
// # Caveats
//
// A last line without an end is a record for Open; a Follower waits for its end. Two files with the same head are one
// partition twice: Open refuses them, a Follower reads one and says so.
package filesource
