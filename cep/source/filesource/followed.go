package filesource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
)

const (
	// lingerTime is how long a content that nobody finds any more is waited for, and read if it is still open: who
	// rotates a log gives its writer some seconds to open the new one, and a copy some to be made.
	lingerTime = 30 * time.Second
	// settleTime is how long a compressed file must not have grown before its end is believed.
	settleTime = 2 * time.Second
	// settledAge is the age of a file by its time of modification from which nobody waits for that.
	settledAge = time.Minute
	// retryTime is how long to wait before what could not be read is tried again.
	retryTime = time.Second
	// tailSize is how many bytes before the place that is read next must still be those that were read: more than the
	// time that a line of a log begins with.
	tailSize = 64
)

var (
	// errChanged says that an open file holds another content than before: it was truncated, or written anew.
	errChanged = errors.New("its content has changed")
	// errElsewhere says that another content is where this one was.
	errElsewhere = errors.New("another content is there now")
	errAgain     = errors.New("it is opened anew")
)

// followed is a partition of a running job: a content that grows, moves and goes.
//
// Its goroutine reads; the follower's looks after where the content is, and wakes it.
type followed struct {
	partition *cep.Partition
	format    source.Format
	body      int64
	finite    bool
	named     int // how many bytes of the head the name was made from
	handles   *handles
	buffers   *sync.Pool

	// What only the reading goroutine touches.

	cut cutter
	// tail are bytes that were read, and end at tailAt.
	tail   []byte
	tailAt int64
	// from is the offset from which records count.
	from  int64
	atEnd bool
	end   error
	gen   int // the place that the open handle is of
	// clean is when and at which size a packed content came to its end.
	clean     time.Time
	cleanSize int64
	grew      time.Time // when something new was read last

	wake chan struct{}
	done atomic.Int64 // bytes read, for Progress

	mu sync.Mutex // holds for what follows

	head []byte
	// place is where the content is, or was last; moves counts how often it moved.
	place content
	moves int
	// info is of the file when it was last looked at, size what the content was seen to have.
	info fs.FileInfo
	size int64
	// gone is when the content was last found missing; zero: it is there.
	gone time.Time
	// lost says that the place holds something else.
	lost bool
	// truncated says that it went from its file, which holds something else.
	truncated bool
	packed    bool
	// readTo is how far it was read when it was last read from, whole that its end was seen there, for now.
	readTo int64
	whole  bool
	// trouble keeps the content from being read for now, since then.
	trouble   error
	troubleAt time.Time
	// notes are what has to be said once.
	notes []error
	// ended says that nobody reads it any more, finished that this is because it was read to its end.
	ended, finished bool
}

// Partition implements [source.Reader].
func (r *followed) Partition() *cep.Partition { return r.partition }

// Name implements [source.Reader].
func (r *followed) Name() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.place.name()
}

// Format implements [source.Reader].
func (r *followed) Format() source.Format { return r.format }

// Progress implements [source.Reader].
func (r *followed) Progress() (read, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.packed {
		return r.done.Load(), -1
	}
	return r.done.Load(), max(r.info.Size(), r.done.Load())
}

// Next implements [source.Reader].
func (r *followed) Next(ctx context.Context) (source.Record, error) {
	if err := ctx.Err(); err != nil {
		return source.Record{}, err
	}
	if r.end != nil {
		return source.Record{}, r.end
	}
	if r.cut.at < r.body {
		r.goTo(r.body)
	}
	for {
		data, start, err := r.cut.next(r.atEnd)
		switch {
		case start < r.from && (err == nil || errors.Is(err, source.ErrTooLarge)):
			continue
		case err == nil:
			return source.Record{Data: data, Offset: start}, nil
		case errors.Is(err, source.ErrTooLarge):
			return source.Record{}, tooLarge(r.partition, start, r.cut.max)
		case errors.Is(err, io.EOF):
			r.finish(io.EOF)
			return source.Record{}, io.EOF
		}
		if err := r.fill(ctx); err != nil {
			if ctx.Err() == nil {
				r.finish(err)
			}
			return source.Record{}, err
		}
	}
}

// finish ends the partition.
func (r *followed) finish(err error) {
	r.end = err
	r.handles.leave(r)
	r.release()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended, r.finished = true, r.finished || errors.Is(err, io.EOF)
}

// SeekTo implements [source.Reader].
func (r *followed) SeekTo(offset int64) error {
	offset = max(offset, r.body)
	if offset > r.body {
		r.goTo(offset - 1) // a line that begins there is dropped, and the end of one is nothing
	} else {
		r.goTo(offset)
	}
	r.from = offset
	return nil
}

func (r *followed) goTo(offset int64) {
	r.cut.reset(offset)
	r.tail, r.atEnd, r.end, r.clean = r.tail[:0], false, nil, time.Time{}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended, r.finished, r.readTo, r.whole = false, false, offset, false
}

// Close implements [source.Reader].
func (r *followed) Close() error {
	r.finish(errClosed)
	return nil
}

// fill reads on, and waits until there is something to be read, or nothing any more.
func (r *followed) fill(ctx context.Context) error {
	for {
		n, err := r.read(ctx)
		if n > 0 || r.atEnd || ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errAgain) {
			continue
		}
		if err != nil && r.finite {
			return fmt.Errorf("read %s at byte %d: %w", r.Name(), r.cut.readAt(), err)
		}
		r.rest()
		if err := r.wait(ctx, err); err != nil {
			return err
		}
	}
}

// rest gives the memory back while nothing is read. Half a record is read again.
func (r *followed) rest() {
	r.keepTail(r.cut.r)
	r.cut.forget()
	r.release()
}

func (r *followed) release() {
	if b := r.cut.buf; len(b) == readSize { // a longer one was for a long record
		r.buffers.Put(&b)
	}
	r.cut.buf = nil
	r.cut.forget()
	if r.cut.rowAt == noOffset {
		r.cut.row = nil
	}
}

// keepTail remembers the end of the first n bytes of the buffer.
func (r *followed) keepTail(n int) {
	if n > 0 {
		r.tail = append(r.tail[:0], r.cut.buf[max(0, n-tailSize):n]...)
		r.tailAt = r.cut.at + int64(n-r.cut.r)
	}
}

// wait waits until something may have changed. err is what kept the content from being read.
func (r *followed) wait(ctx context.Context, err error) error {
	r.mu.Lock()
	r.readTo = r.cut.readAt() // half a record has been given back
	var again <-chan time.Time
	switch {
	case !r.gone.IsZero():
		again = time.After(lookTime) // nobody else looks at it
	case err != nil && !broken(err), !r.clean.IsZero():
		again = time.After(retryTime)
	}
	r.mu.Unlock()
	select {
	case <-r.wake:
	case <-again:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// broken reports whether an error is one of what a file holds: it is the same until the file changes.
func broken(err error) bool {
	_, system := errors.AsType[*fs.PathError](err)
	return !system && !errors.Is(err, errChanged) && !errors.Is(err, errElsewhere) && !errors.Is(err, errAgain)
}

// read reads once. Where it reads nothing, atEnd says that there will be nothing, and the error why there is nothing now.
func (r *followed) read(ctx context.Context) (n int, err error) {
	h, err := r.open(ctx)
	if ctx.Err() != nil && h == nil {
		return 0, nil
	}
	packed := false
	if err == nil {
		if packed = h.packed(); packed {
			n, err = r.readPacked(h)
		} else {
			n, err = r.readPlain(h)
		}
		if err != nil {
			r.handles.drop(h)
		}
	}
	gone := r.note(err)
	over := r.finite
	if !gone.IsZero() {
		if r.grew.After(gone) {
			over = time.Since(r.grew) >= lingerTime
		} else {
			over = time.Since(gone) >= lingerTime
		}
	}
	switch {
	case err == nil:
		if n == 0 && over && !packed {
			r.atEnd = true
		}
		r.handles.give(r, h, !gone.IsZero())
	case over && !gone.IsZero():
		r.atEnd = true
		r.sayLost()
	}
	return n, err
}

// note remembers what keeps the content from being read, and returns since when it is missing.
func (r *followed) note(err error) (gone time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readTo, r.whole = r.cut.readAt(), !r.clean.IsZero()
	switch {
	case err == nil:
		r.trouble = nil
	case errors.Is(err, errChanged):
		r.lost, r.truncated = true, true // the follower looks for it
	case errors.Is(err, errElsewhere), errors.Is(err, fs.ErrNotExist):
		r.lost = true
	case !errors.Is(err, errAgain):
		if r.trouble == nil {
			r.troubleAt = time.Now()
		}
		r.trouble = fmt.Errorf("read %s at byte %d: %w", r.place.name(), r.cut.readAt(), err)
	}
	return r.gone
}

// sayLost says what of a content that is gone was not read.
func (r *followed) sayLost() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.loss(); err != nil {
		r.notes = append(r.notes, err)
	}
}

// loss is what of a content that is gone was not read, as far as anyone knows; nil: nothing. It says the same while the content is
// waited for and afterwards, so that a log has it once.
func (r *followed) loss() error {
	name := r.place.name()
	switch {
	case r.packed && r.whole:
		return nil
	case r.packed:
		return fmt.Errorf("%s is gone before its end: what lies behind byte %d of what it unpacks to is lost, unless a copy of it is "+
			"found", name, r.readTo)
	case r.size > r.readTo:
		return fmt.Errorf("%s was truncated or is gone: it was read to byte %d of the %d that were seen; the rest is lost, unless a copy of "+
			"it is found", name, r.readTo, r.size)
	case r.truncated:
		return fmt.Errorf("%s was truncated: all that was seen of it was read, to byte %d; lines that came between that and the truncation "+
			"are lost, if there were any, unless a copy of it is found", name, r.readTo)
	}
	return nil
}

// open returns the content, open at the place where it is now.
func (r *followed) open(ctx context.Context) (*handle, error) {
	h, err := r.handles.take(ctx, r)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	place, moves, head := r.place, r.moves, r.head
	r.mu.Unlock()
	if h != nil && moves == r.gen {
		return h, nil
	}
	next, err := r.openAt(place, head)
	switch {
	case h != nil && err != nil:
		return h, nil // it is open still where it was
	case err != nil:
		r.handles.drop(nil)
		return nil, err
	case h != nil:
		r.handles.swap(h, next)
	default:
		r.handles.opened(next)
	}
	if r.gen != moves {
		r.gen, r.clean = moves, time.Time{}
	}
	return next, nil
}

func (r *followed) openAt(place content, head []byte) (*handle, error) {
	h := &handle{}
	h.total.Store(-1)
	var err error
	if h.stream, err = place.open(&h.read, &h.total); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.packed = h.packed()
	r.mu.Unlock()
	if err := r.recognise(h, head); err != nil {
		_ = h.stream.close() // it was only read
		return nil, err
	}
	return h, nil
}

// recognise holds what was opened against the head.
func (r *followed) recognise(h *handle, head []byte) error {
	if !h.packed() {
		return r.verify(h.stream.file, head)
	}
	begin := make([]byte, len(head))
	n, err := io.ReadFull(h.stream, begin)
	if !bytes.Equal(begin[:n], head[:n]) {
		return errElsewhere
	}
	h.stream.Reader = io.MultiReader(bytes.NewReader(begin), h.stream.Reader)
	return err
}

// verify holds a file against the head, and learns more of it where it has grown.
func (r *followed) verify(f *os.File, head []byte) error {
	begin := make([]byte, headSize)
	n, err := f.ReadAt(begin, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if begin = begin[:n]; n < len(head) || !compatible(begin, head) {
		return r.differs(f)
	}
	if n > len(head) {
		r.mu.Lock()
		r.head = begin
		r.mu.Unlock()
	}
	return nil
}

// differs says why a file does not hold the content.
func (r *followed) differs(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !os.SameFile(r.info, info) {
		return errElsewhere
	}
	if !r.lost && r.size <= info.Size() { // it may be the size of what is there now
		r.size = r.readTo
	}
	return errChanged
}

// readPlain reads from a file that may have been truncated or written anew at any time: what was read counts only if what
// is before it is unchanged afterwards.
func (r *followed) readPlain(h *handle) (int, error) {
	f, at := h.stream.file, r.cut.readAt()
	r.keepTail(r.cut.w)
	n, err := f.ReadAt(r.space(), at)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	r.mu.Lock()
	head := r.head
	r.mu.Unlock()
	if err := r.verify(f, head); err != nil {
		return 0, err
	}
	if n == 0 {
		info, err := f.Stat()
		if err != nil {
			return 0, err
		}
		r.done.Store(at)
		if info.Size() < at {
			return 0, fmt.Errorf("it was cut to %d bytes, although its beginning is the same: what is written below the byte that was read last is not read",
				info.Size())
		}
		return 0, nil
	}
	if err := r.verifyTail(f); err != nil {
		return 0, err
	}
	r.cut.put(n)
	if at+int64(n) > r.done.Swap(at+int64(n)) {
		r.grew = time.Now()
	}
	return n, nil
}

// space returns room for what is read.
func (r *followed) space() []byte {
	if r.cut.buf == nil {
		r.cut.buf = *r.buffers.Get().(*[]byte)
	}
	return r.cut.space()
}

// verifyTail holds the file against what was read last.
func (r *followed) verifyTail(f *os.File) error {
	got := make([]byte, len(r.tail))
	if _, err := f.ReadAt(got, r.tailAt-int64(len(got))); err != nil {
		return err
	}
	if !bytes.Equal(got, r.tail) {
		return fmt.Errorf("it was written anew, although its beginning is the same: what lies before byte %d is not what was read", r.tailAt)
	}
	return nil
}

// readPacked reads on in what a compressed file unpacks to.
func (r *followed) readPacked(h *handle) (int, error) {
	at := r.cut.readAt()
	if h.at > at {
		return 0, errAgain // going back is beginning again
	}
	if h.at < at {
		n, err := io.CopyN(io.Discard, h.stream, at-h.at)
		h.at += n
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if h.at < at {
			return r.packedEnd()
		}
	}
	n, err := h.stream.Read(r.space())
	h.at += int64(n)
	r.done.Store(h.at)
	switch {
	case n > 0:
		r.cut.put(n)
		r.clean = time.Time{}
		return n, nil
	case errors.Is(err, io.EOF):
		return r.packedEnd()
	}
	return 0, err
}

// packedEnd judges the end of a compressed file: it may be written still, one piece behind the other.
func (r *followed) packedEnd() (int, error) {
	r.mu.Lock()
	size, mtime := r.info.Size(), r.info.ModTime()
	r.mu.Unlock()
	now := time.Now()
	switch {
	case r.finite, now.Sub(mtime) > settledAge,
		!r.clean.IsZero() && r.cleanSize == size && now.Sub(r.clean) >= settleTime:
		r.atEnd = true
	case !r.clean.IsZero() && r.cleanSize != size:
		r.clean = time.Time{}
		return 0, errAgain
	case r.clean.IsZero():
		r.clean, r.cleanSize = now, size
	}
	return 0, nil
}

// SeekEnd implements [source.Ender]. In a file that grows, half a line at the end is not there yet.
func (r *followed) SeekEnd(ctx context.Context) (offset int64, err error) {
	h, err := r.open(ctx)
	if err != nil {
		return 0, err
	}
	if h.packed() {
		offset, err = io.Copy(io.Discard, h.stream)
		offset += h.at
	} else {
		offset, err = lastLine(h.stream.file)
	}
	r.handles.drop(h)
	if err != nil {
		return 0, fmt.Errorf("find the end of %s: %w", r.Name(), err)
	}
	offset = max(offset, r.body)
	return offset, r.SeekTo(offset)
}

// lastLine returns where the line begins whose end is not there.
func lastLine(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	b := make([]byte, readSize)
	for end := info.Size(); end > 0; {
		begin := max(0, end-readSize)
		n, err := f.ReadAt(b[:end-begin], begin)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(b[:n], '\n'); i >= 0 {
			return begin + int64(i) + 1, nil
		}
		end = begin
	}
	return 0, nil
}
