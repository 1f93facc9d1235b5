// Package filesink appends alerts to a file, one JSON object a line, exactly once.
//
// A [Sink] writes to a file and keeps its position in a second one beside it; a [Writer] writes to standard output, where no
// position can be kept, at least once.
//
//	sink, err := filesink.New(filesink.Config{Path: "alerts.jsonl", Owner: "fraud/out"})
//
// # The protocol
//
// Each call locks the position file (flock), reads the position, does its work, and lets go. The position says how long the
// file is and which message is the last one; it is written after the lines are on the disk.
//
//  1. A crash before the position is written leaves lines, or a part of them, behind the recorded length. The publisher
//     sends the same messages again, so they are written over themselves: a reader that follows the file sees nothing of it.
//  2. A crash while the position is written leaves the one before it: there are two places, used in turn, each with a
//     checksum. That is 1 again.
//  3. A second instance opens the sink: it counts the fence up, and the first one finds another's token at its next call. An
//     instance that was stopped in the middle of a call keeps the lock until it goes on or ends; the other one waits.
//  4. The file was moved away, as log rotation does: the next call begins a new one at the path. If the process ended before
//     it noticed, the file is found again by what stands before the recorded length, among those whose name begins alike,
//     and what case 1 left in it is cut off.
//
// docs/format/filesink.md draws both files.
//
// # Concurrency
//
// As package sinks says. Any number of processes may open the same file for the same owner: the last one wins.
//
// # Cost
//
// Two fsyncs for each batch, some milliseconds on a disk.
//
// # Caveats
//
// Local file systems only: on network file systems flock and fsync promise less. Whoever else writes into the file stops the
// sink.
package filesink
