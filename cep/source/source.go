package source

import "context"

// Source brings the partitions of one stream to a job that runs.
type Source interface {
	// Watch tells d of every partition: of those that are there, then that these are all, then of each that appears. It
	// returns nil once none can appear any more, and the error of ctx when that ends. Any other error is one that no
	// waiting mends, and the end of the job: events that the job has read from are gone, say.
	//
	// known are the names of the partitions that the job has positions in, so that a source which names partitions by
	// content names them again as it did.
	//
	// It runs in one goroutine; what d is told it must be told from there.
	Watch(ctx context.Context, known []string, d Discovery) error
	// Close ends what the source holds, behind Watch and the readers that it found.
	Close() error
}

// Discovery is told of partitions.
type Discovery interface {
	// Found hands over a partition. Who is told closes the reader.
	//
	// A reader of a running source differs from that of a recording in one thing: Next waits for the next record, and
	// returns io.EOF only when the partition has no more, as far as anyone can tell. A partition whose reader has returned
	// io.EOF may be found again, with another reader, in this process or a later one: a log that was moved out of sight
	// and comes back compressed. Who is told seeks to where it was, as with every partition that it knows.
	Found(r Reader)
	// Ready says that all partitions which are there have been found.
	Ready()
	// Trouble says all that is wrong now: what keeps partitions, or the whole source, from being read, and what was lost
	// lately. It is called when that changes; nil: nothing is wrong any more.
	Trouble(err error)
}

// Trimmer is a Source that keeps its records itself, and may forget those that no epoch needs any more.
type Trimmer interface {
	// Trim forgets the records of a partition before an offset. It may forget fewer.
	Trim(partition string, before int64) error
	// Crowded says that there is little room left, and that Trim with this offset would make some.
	Crowded(partition string, before int64) bool
}

// Ender is a Reader that knows where its partition ends, for a first start that reads only what is new.
type Ender interface {
	// SeekEnd makes the next record the first one that is not there yet, and returns its offset, to which SeekTo can go as
	// to that of a record.
	SeekEnd(ctx context.Context) (offset int64, err error)
}
