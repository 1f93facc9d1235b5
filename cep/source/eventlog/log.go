package eventlog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// DefaultMax is the size in bytes above which a log takes nothing: about an hour of 1,000 events of 300 bytes a second,
	// should epochs stop for so long.
	DefaultMax = 1 << 30
	// MaxMin is the least limit that makes sense: below it a few large events fill the log.
	MaxMin = 4 << 20
	// DefaultIDWindow is how long ids are remembered: clients repeat after seconds, queues before them after minutes.
	DefaultIDWindow = time.Hour
	// DefaultIDsMax is how many ids are remembered, at some 100 bytes each: 100 MiB.
	DefaultIDsMax = 1 << 20
	// segmentMax is the size in bytes from which a new segment is begun: what is not needed any more goes a segment at a
	// time. Small logs have segments of an eighth.
	segmentMax = 64 << 20
	// backMax is by how much a clock that goes back is not believed: time servers set it right in small steps.
	backMax = time.Minute
)

var (
	// ErrFull comes from Append when the log has reached Config.Max: nothing was taken; there is room again once epochs have
	// moved on.
	ErrFull = errors.New("the log is full")
	// ErrReused comes from Append when an event with [Event].Sole has the id of one with other data: nothing was taken.
	ErrReused = errors.New("the id stands for other data")
	// ErrEnded comes from Append behind End or Close.
	ErrEnded = errors.New("the log takes no more events")
	// ErrLocked says that another process owns the log.
	ErrLocked = errors.New("in use")
	// ErrDamaged is inside the RecordError of a stretch that cannot be read.
	ErrDamaged = errors.New("damaged")
	// ErrTrimmed comes from SeekTo: what was there has been trimmed.
	ErrTrimmed = errors.New("trimmed")
	// ErrGone says that a job has read events that this log does not have.
	ErrGone = errors.New("events that the job has read are not in the log")
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
	// Failpoint is called at the steps named in Failpoints, in the goroutine that does the step; nil outside tests.
	Failpoint func(point string)
}

// Failpoints are the steps at which a process may be killed.
var Failpoints = []string{
	"log.open.torn",       // the end that was no record has been cut off
	"log.segment.created", // a new segment is there under another name, without a header
	"log.segment.written", // with its header, which is not durable yet
	"log.segment.synced",  // and is durable under its name
	"log.append.half",     // a group has been written but for the end of its last record
	"log.append.written",  // all of it
	"log.append.synced",   // and is durable; nobody knows yet
	"log.ids.written",     // the ids are in a new file
	"log.ids.renamed",     // which has taken the place of the old one
	"log.trim.removed",    // one segment is gone
}

// Event is what is appended.
type Event struct {
	// Data is one JSON object. It is copied.
	Data []byte
	// ID is the client's; an event with an id that is remembered is not taken again. "": taken always.
	ID string
	// Sole says that the id stands for this data and no other: an Append that has it with other data than what is remembered
	// fails with ErrReused. Without it, and among the events of one Append, such an event is a duplicate that differs.
	Sole bool
}

// Appended says what became of events.
type Appended struct {
	Accepted   int
	Duplicates int
	// Differing counts those of the duplicates whose data is not that of the event that was taken with their id.
	Differing int
}

// Log is a log on disk. Its methods may be called from any goroutine.
//
// Who appends first writes for all that wait: one at a time is the writer, writes the group that has gathered, makes it
// durable with one fsync, and hands the pen to one of the next group.
type Log struct {
	config     Config
	segmentMax int64
	lock       *os.File
	salt       uint64
	report     Report
	trim       sync.Mutex // held by who trims

	mu sync.Mutex // holds for what follows

	segments []*segment
	number   uint64 // of the next record
	name     uint32 // 0: none yet
	bytes    int64  // of all segments on disk
	waiting  int64  // bytes of what is being written, and of what gathers
	arrived  int64  // of the newest event
	ids      *ids
	gather   *group // what the next writer writes; nil: nothing waits
	writing  bool
	ended    bool
	closed   bool
	failed   error // why the last group was not taken
	grown    chan struct{}
	counts   Counts

	pen sync.Mutex // held by who writes; what follows is the writer's

	file *os.File // of the last segment
	// doubt says that what lies behind the last record on disk is not known, so that a new segment has to be begun at
	// reach, behind everything that was ever written.
	doubt bool
	reach int64
}

// Report says what was found when a log was opened.
type Report struct {
	Segments int
	Records  uint64
	Bytes    int64
	// Torn is the size in bytes of what was written last and is not whole: no client was told that it is there.
	Torn int64
	// Gaps counts stretches that are damaged, Lost the records that were in them.
	Gaps int
	Lost uint64
	// IDs is how many ids are remembered; IDsDamage says what is wrong with the file of those whose events are gone.
	IDs       int
	IDsDamage error
}

// Counts are sums since the log was opened.
type Counts struct {
	Accepted   uint64
	Duplicates uint64
	Differing  uint64
	// Full, Failed and Reused count events that were not taken: as there was no room, as the disk refused, and as an id among
	// theirs stands for other data.
	Full   uint64
	Failed uint64
	Reused uint64
	// Groups counts writes, each with one fsync.
	Groups uint64
	// Forgotten counts ids that were forgotten early.
	Forgotten uint64
}

// Open opens the log, or makes it, and owns it until Close. All of it is read and checked.
func Open(c Config) (*Log, error) {
	if c.Max == 0 {
		c.Max = DefaultMax
	}
	if c.Max < MaxMin {
		return nil, fmt.Errorf("open log %s: its limit is %d bytes, and at least %d make sense", c.Dir, c.Max, MaxMin)
	}
	if c.IDWindow == 0 {
		c.IDWindow = DefaultIDWindow
	}
	if c.IDsMax == 0 {
		c.IDsMax = DefaultIDsMax
	}
	if err := makeDir(c.Dir); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	held, err := lock(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &Log{
		config: c, segmentMax: min(segmentMax, c.Max/8), lock: held, number: 1, grown: make(chan struct{}),
		ids: newIDs(c.IDWindow, c.IDsMax),
	}
	if err := l.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open log %s: %w", c.Dir, err), held.Close())
	}
	return l, nil
}

func (l *Log) failpoint(name string) {
	if l.config.Failpoint != nil {
		l.config.Failpoint(name)
	}
}

// open reads what is there.
func (l *Log) open() error {
	l.report.IDsDamage = l.ids.load(l.config.Dir)
	if errors.Is(l.report.IDsDamage, errNewer) {
		return l.report.IDsDamage
	}
	all, err := findSegments(l.config.Dir)
	if err != nil {
		return err
	}
	// One at the end that is no longer than a header holds nothing.
	for n := len(all); n > 0 && all[n-1].bad != nil && all[n-1].size <= headerSize; n = len(all) {
		if err := os.Remove(all[n-1].path); err != nil {
			return err
		}
		all = all[:n-1]
	}
	if err := mend(all); err != nil {
		return err
	}
	for i, f := range all {
		next := (*found)(nil)
		if i+1 < len(all) {
			next = &all[i+1]
		}
		if err := l.readSegment(f, next); err != nil {
			return err
		}
	}
	slices.SortStableFunc(l.ids.queue, func(a, b seenID) int {
		switch {
		case a.arrived < b.arrived:
			return -1
		case a.arrived > b.arrived:
			return 1
		}
		return 0
	})
	l.ids.expire(time.Now().UnixNano())
	if len(l.segments) == 0 {
		var b [8]byte
		if _, err := io.ReadFull(rand.Reader, b[:]); err != nil {
			return err
		}
		l.salt = binary.BigEndian.Uint64(b[:])
		if err := l.roll(0, 0); err != nil {
			return err
		}
	}
	l.report.Segments, l.report.Bytes, l.report.IDs = len(l.segments), l.bytes, len(l.ids.known)
	return nil
}

// readSegment takes in a segment; next is the one behind it.
func (l *Log) readSegment(f found, next *found) error {
	s := &segment{path: f.path, head: f.head, bytes: f.size}
	l.salt, l.name = f.head.salt, max(l.name, f.head.name)
	limit := f.base + max(0, f.size-headerSize)
	if next != nil {
		// The segment behind says where this one ends: what may lie behind that was never promised to anybody.
		limit = next.head.before
		if limit < f.base {
			limit = next.base
		}
	}
	switch {
	case f.bad != nil:
		l.report.Gaps++
	case len(l.segments) == 0:
		l.number = f.head.number // what was before it has been trimmed
	case f.head.number > l.number:
		l.report.Lost += f.head.number - l.number
		l.number = f.head.number
	}
	var gaps []*gap
	end, err := s.scan(limit, func(r record) {
		if r.number > l.number {
			l.report.Lost += r.number - l.number
		}
		l.number = r.number + 1
		l.arrived = max(l.arrived, r.arrived)
		l.report.Records++
		if len(r.id) > 0 {
			l.ids.add(identify(string(r.id), r.data), r.arrived, nil)
		}
	}, func(g *gap) { gaps = append(gaps, g) })
	if err != nil {
		return err
	}
	if s.end = limit; next == nil {
		s.end = end
		if n := len(gaps); n > 0 && gaps[n-1].to == limit {
			gaps = gaps[:n-1]
			l.report.Torn = limit - end
		}
	}
	l.report.Gaps += len(gaps)
	l.segments = append(l.segments, s)
	l.bytes += s.bytes
	if next != nil {
		return nil
	}
	l.reach = limit
	if l.file, err = os.OpenFile(s.path, os.O_RDWR, 0); err != nil {
		return err
	}
	if l.report.Torn > 0 {
		return l.cutTorn(s)
	}
	return nil
}

// cutTorn removes what is no record at the end. Its offsets are not used again.
func (l *Log) cutTorn(s *segment) error {
	l.doubt = true
	size := headerSize + s.end - s.head.base
	if err := l.file.Truncate(size); err != nil {
		return err
	}
	l.bytes -= s.bytes - size
	s.bytes = size
	l.failpoint("log.open.torn")
	return nil
}

// roll begins a new segment.
func (l *Log) roll(base, before int64) (err error) {
	defer func() {
		if err != nil {
			l.doubt = true
		}
	}()
	s := &segment{
		path: filepath.Join(l.config.Dir, segmentName(base)), end: base, bytes: headerSize,
		head: header{name: l.name, base: base, before: before, number: l.number, salt: l.salt},
	}
	// It gets its name when it is whole: one of this name may be there, without records.
	fresh := s.path + unfinished
	f, err := os.OpenFile(fresh, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	l.failpoint("log.segment.created")
	if _, err = f.Write(s.head.append(nil)); err == nil {
		l.failpoint("log.segment.written")
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(fresh, s.path)
	}
	if err == nil {
		err = syncDir(l.config.Dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.failpoint("log.segment.synced")
	if l.file != nil {
		_ = l.file.Close() // all that counts in it is durable
	}
	l.file, l.doubt, l.reach = f, false, base
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.segments); n > 0 && l.segments[n-1].path == s.path {
		l.bytes -= l.segments[n-1].bytes
		l.segments = l.segments[:n-1]
	}
	l.segments = append(l.segments, s)
	l.bytes += s.bytes
	return nil
}

// Trim forgets the segments whose records all lie before an offset. The last one stays.
func (l *Log) Trim(before int64) error {
	l.trim.Lock()
	defer l.trim.Unlock()
	l.mu.Lock()
	n := 0
	for n+1 < len(l.segments) && l.segments[n+1].head.base <= before {
		n++
	}
	var ids []byte
	if n > 0 {
		l.ids.expire(time.Now().UnixNano())
		ids = l.ids.append(nil)
	}
	l.mu.Unlock()
	if n == 0 {
		return nil
	}
	if err := l.save(ids); err != nil {
		return fmt.Errorf("trim log %s: keep the ids: %w", l.config.Dir, err)
	}
	for range n {
		// The oldest first, and each for good: after a crash in between, what is there has no hole.
		l.mu.Lock()
		s := l.segments[0]
		l.mu.Unlock()
		if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("trim log: %w", err)
		}
		if err := syncDir(l.config.Dir); err != nil {
			return fmt.Errorf("trim log: %w", err)
		}
		l.mu.Lock()
		l.segments = slices.Delete(l.segments, 0, 1)
		l.bytes -= s.bytes
		l.mu.Unlock()
		l.failpoint("log.trim.removed")
	}
	return nil
}

// Crowded says that more than half of the room is taken, and that Trim with this offset would give some back.
func (l *Log) Crowded(before int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes+l.waiting > l.config.Max/2 && len(l.segments) > 1 && l.segments[1].head.base <= before
}

// Report says what was found when the log was opened.
func (l *Log) Report() Report { return l.report }

// Status says how the log is doing.
type Status struct {
	Counts
	// Bytes is the size of the log, of Max at most.
	Bytes, Max int64
	// First and End are the offsets of the first record and behind the last.
	First, End int64
	// Failed is why the last group was not taken; nil if it was.
	Failed error
}

// Status says how the log is doing.
func (l *Log) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	c.Forgotten = l.ids.forgotten
	return Status{Counts: c, Bytes: l.bytes, Max: l.config.Max, First: l.segments[0].head.base, End: l.last().end, Failed: l.failed}
}

// Name is what the log's partition is called; "" where no job has read it yet.
func (l *Log) Name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.name == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(l.name), 10)
}

// End says that nothing more will be appended: a reader that has read everything gets io.EOF.
func (l *Log) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		l.tell()
	}
}

// Close waits for what is being written, and gives the log up. Readers get an error.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.tell()
	g := l.gather
	l.mu.Unlock()
	if g != nil {
		_ = l.await(context.Background(), g) // who waits is told
	}
	l.pen.Lock()
	defer l.pen.Unlock()
	return errors.Join(l.file.Close(), l.lock.Close())
}

// claim names the log for a job that knows partitions of these names. One that is new must not take the place of one that
// is gone, whose positions the job has; with accept it gets a name of its own.
func (l *Log) claim(known []string, accept bool) error {
	l.pen.Lock()
	defer l.pen.Unlock()
	highest := uint32(0)
	for _, k := range known {
		if n, err := strconv.ParseUint(k, 10, 32); err == nil {
			highest = max(highest, uint32(n))
		}
	}
	l.mu.Lock()
	name := l.name
	l.mu.Unlock()
	switch {
	case name != 0 && name >= highest:
		return nil
	case highest > 0 && !accept:
		return fmt.Errorf("%w: %s is another log than the one that the job has read; put that one back, or start with --accept-gap, "+
			"which gives up what was in it and not read", ErrGone, l.config.Dir)
	}
	l.setName(highest + 1)
	s := l.current()
	if err := l.roll(max(l.reach, s.end), s.end); err != nil {
		l.setName(name)
		return fmt.Errorf("name log %s: %w", l.config.Dir, err)
	}
	return nil
}

func (l *Log) setName(name uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.name = name
}
