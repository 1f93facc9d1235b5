package source

import (
	"context"
	"errors"

	"github.com/cepd/cepd/cep"
)

// ErrGone is in an error of Watch that a person has to decide about: what the job was to go on with is not there any more,
// and starting again does not bring it back.
var ErrGone = errors.New("what was to be read is gone")

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

// Starter is a Reader whose partition need not begin at 0: what stood there may be gone.
type Starter interface {
	// SeekStart makes the next record the first one that is there, and returns a number for that place, as SeekEnd does.
	SeekStart(ctx context.Context) (offset int64, err error)
}

// Dater is a Reader that finds a place by time, for a first start that reads from then on.
type Dater interface {
	// SeekTime makes the next record the first one whose own time is t or later, the one that is not there yet where none is,
	// and returns a number for that place, as SeekEnd does.
	SeekTime(ctx context.Context, t cep.Time) (offset int64, err error)
}

// Resumer is a Reader that knows where others who read for the same purpose left off: a consumer group. It is asked on a first
// start, before earliest, latest or a time counts, and never again: positions are those of the job.
type Resumer interface {
	// Resume makes the next record the one behind what they have read, and returns its offset; ok is false, and the reader
	// where it was, where they have left none. With others an offset does not count that a [Committer] has noted: who begins here
	// without a place, and had one, lost epochs, or is not the only instance.
	Resume(ctx context.Context, others bool) (offset int64, ok bool, err error)
}

// Identified is a Reader of a partition that may become another one under the same name: a topic that was deleted and made
// again. Who keeps positions keeps the identity with them, and does not go on from a position under another one.
type Identified interface {
	Identity() string
}

// Lagger is a Reader that knows how much there is to be read.
type Lagger interface {
	// End is the offset behind the last record that may be read now; not known before the source has heard of it. It may be
	// called from any goroutine.
	End() (offset int64, known bool)
}

// Severed is a Reader that knows when its partition cannot be reached: whether there is more is then not known, and its
// silence says nothing about the events. It may be called from any goroutine.
type Severed interface {
	Severed() bool
}

// Committer is a Source that tells others how far the job is.
type Committer interface {
	// Committed says, for partitions by name, which offset is the next to read, once an epoch that says so is durable. It may
	// be skipped for an epoch, and an error changes nothing for the job: nobody reads on from what is told here. One call is
	// under way at a time, beside Watch; the last one, at an orderly end of the job, comes behind it, before Close.
	Committed(ctx context.Context, at map[string]int64) error
}
