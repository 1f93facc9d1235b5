package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/cepd/cepd/cep"
)

// MaxRecord is the size in bytes above which a record is refused: 1 MiB is Kafka's default for a message, and a
// hundred times what log shippers send. A line without an end costs no more memory than this.
const MaxRecord = 1 << 20

var (
	// ErrNotSeekable comes from SeekTo of a source that cannot go there: standard input cannot go back.
	ErrNotSeekable = errors.New("source cannot be read again")
	// ErrTooLarge is inside a RecordError: the record is larger than the reader's limit.
	ErrTooLarge = errors.New("record is too large")
)

// Record is one event as it was found.
type Record struct {
	// Data is valid until the next call of Next, SeekTo or Close. It must not be changed.
	Data []byte
	// Offset is the position of the record in its partition: it grows from record to record, though not by one.
	Offset int64
	// Arrived is when the record came in, by the clock of whoever took it; 0 where nobody noted it.
	Arrived cep.Time
	// Meta is what a broker keeps with the record, lent as Data is; nil where the record is all there is.
	Meta *cep.Meta
	// Nothing says that no event is here, nor will be: only a place that was read, such as the marker of a transaction. Data
	// and Meta are nil. Who counts positions goes on behind it, so that lag is none where nothing is left.
	Nothing bool
}

// Format says how the records of a partition are to be decoded. The zero Format is JSON, one object a record.
type Format struct {
	// Columns are the names of the fields of delimited records; nil for JSON.
	Columns []string
	// Comma separates delimited fields.
	Comma byte
	// Meta says that records come with what a broker keeps beside them.
	Meta bool
}

// Delimited reports whether records are rows of delimited fields.
func (f Format) Delimited() bool { return f.Columns != nil }

// RecordError is a record that could not be read while the rest of the partition can: the caller counts it and calls Next
// again.
type RecordError struct {
	Position cep.Position
	Err      error
}

// Error names the partition and the offset.
func (e *RecordError) Error() string {
	return fmt.Sprintf("stream %s partition %s offset %d: %v", e.Position.Partition.Stream, e.Position.Partition.Name,
		e.Position.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// Reader reads one partition.
//
// Who calls: the engine, from one goroutine for each Reader; Progress may be called from any goroutine. Close may be called
// once more than needed; nobody calls Next or SeekTo after it.
//
// Retry: a Reader retries by itself what is worth it. An error of Next that is no [*RecordError] is the partition's end:
// later calls return the same error. What was returned before it stands.
//
// Lifetime: a Reader holds nothing open before the first Next or SeekTo and after io.EOF, so that thousands of them may
// stand side by side.
type Reader interface {
	// Partition is the partition that is read. It is known from the start, and the same whenever the same content is
	// opened again, under whatever name.
	Partition() *cep.Partition
	// Name is what the user calls the partition in messages: a path.
	Name() string
	// Format says how to decode the records. It is known from the start.
	Format() Format
	// Next returns the next record, io.EOF at the end, a *RecordError where one record is beyond reading, or the error of
	// ctx, which loses nothing: the next call goes on.
	Next(ctx context.Context) (Record, error)
	// SeekTo makes the next record the first one from this offset on: 0, that of a record returned before, in this process
	// or another, or one more than that, which is behind the record. It also works after io.EOF. ErrNotSeekable where the
	// source cannot go there.
	SeekTo(offset int64) error
	// Progress is how much has been read of how much there is, in bytes of the underlying file; total is -1 where nobody
	// knows.
	Progress() (read, total int64)
	Close() error
}
