package eventlog

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrFull comes from Append when the log has reached Config.Max: nothing was taken; there is room again once epochs have
	// moved on.
	ErrFull = errors.New("the log is full")
	// ErrEnded comes from Append behind End or Close.
	ErrEnded = errors.New("the log takes no more events")
	// ErrLocked says that another process owns the log.
	ErrLocked = errors.New("in use")
	// ErrDamaged is inside the RecordError of a stretch that cannot be read.
	ErrDamaged = errors.New("damaged")
)

// Config says where a log lies and what it may take. Limits that are 0 are the defaults.
type Config struct {
	// Dir is the log's own directory; it is made where it is missing.
	Dir string
	// Max is the size in bytes above which nothing is taken; DefaultMax.
	Max int64
	// IDWindow is how long an id is remembered, by arrival; DefaultIDWindow.
	IDWindow time.Duration
	// IDsMax is how many ids are remembered; the oldest are forgotten first; DefaultIDsMax.
	IDsMax int
	// Failpoint is called at the steps named in Failpoints; nil outside tests.
	Failpoint func(point string)
}

// Event is what is appended.
type Event struct {
	// Data is one JSON object. It is copied.
	Data []byte
	// ID is the client's; an event with an id that is remembered is not taken again. "": taken always.
	ID string
}

// Appended says what became of events.
type Appended struct {
	Accepted   int
	Duplicates int
}

// Log is a log on disk. Its methods may be called from any goroutine.
type Log struct{}

// Open opens the log, or makes it, and owns it until Close.
func Open(c Config) (*Log, error) { return nil, errors.ErrUnsupported }

// Append makes events durable, all of them or none, and returns when they are. Those that wait at the same time share
// one fsync.
func (l *Log) Append(ctx context.Context, events []Event) (Appended, error) {
	return Appended{}, errors.ErrUnsupported
}

// End says that nothing more will be appended: a reader that has read everything gets io.EOF.
func (l *Log) End() {}

// Close gives the log up.
func (l *Log) Close() error { return nil }
