// Package filesource reads recorded events from files: JSON lines and delimited text, plain, compressed or zipped.
//
// [Open] takes paths as users write them and returns a reader for each partition. A file is a partition, and so is each
// member of a zip archive.
//
//	readers, err := filesource.Open(filesource.Config{
//		Stream:     "auth",
//		Paths:      []string{"logs/*.jsonl.gz", "archive/2024"},
//		Partitions: source.NewPartitions("auth"),
//	})
//
// A partition is named by the hash of the first 1 KiB of its uncompressed content, and offsets count uncompressed
// bytes: neither rotation nor compression changes them, or the ids of alerts made from them.
//
// # Concurrency
//
// Readers are independent of each other.
//
// # Cost
//
// A reader that has been started holds a file and 64 KiB; going back in a compressed file reads it again from its start.
//
// # Caveats
//
// A last line without an end is a record. Two files with the same head are one partition twice, and refused.
package filesource
