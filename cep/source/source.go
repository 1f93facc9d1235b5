package source

import "context"

// Source brings the partitions of one stream to a job that runs.
type Source interface {
	// Watch tells d of every partition: of those that are there, then that these are all, then of each that appears. It
	// returns nil once none can appear any more, and the error of ctx when that ends.
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
	// returns io.EOF only when the partition can have no more.
	Found(r Reader)
	// Ready says that all partitions which are there have been found.
	Ready()
	// Trouble reports what keeps a partition, or the whole source, from being read for now; nil: it is over.
	Trouble(err error)
}

// Trimmer is a Source that keeps its records itself, and may forget those that no epoch needs any more.
type Trimmer interface {
	// Trim forgets the records of a partition before an offset. It may forget fewer.
	Trim(partition string, before int64) error
}
