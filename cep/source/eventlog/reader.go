package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
)

// reader reads the log as a partition.
type reader struct {
	log       *Log
	partition *cep.Partition

	// at is the offset that comes next.
	at int64
	// expected is the number of the next record; 0: not known.
	expected uint64
	// sought says that at is where somebody went: a record, or one more.
	sought  bool
	scanner scanner
	file    *os.File
	end     error

	read atomic.Int64 // at, for Progress
}

// Partition implements [source.Reader].
func (r *reader) Partition() *cep.Partition { return r.partition }

// Name implements [source.Reader].
func (r *reader) Name() string { return r.log.config.Dir }

// Format implements [source.Reader].
func (r *reader) Format() source.Format { return source.Format{} }

// Progress implements [source.Reader].
func (r *reader) Progress() (read, total int64) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.segments[0].head.base
	return max(0, r.read.Load()-first), l.last().end - first
}

// place is where a record may be read.
type place struct {
	segment segment
	// next is the segment behind it, or the one that will be: its first record has the number.
	number uint64
	last   bool
}

// locate goes to the segment that holds what comes next, and waits until there is one.
func (r *reader) locate(ctx context.Context) (place, error) {
	l := r.log
	for {
		l.mu.Lock()
		r.at = max(r.at, l.segments[0].head.base)
		r.read.Store(r.at)
		grown, ended, closed := l.grown, l.ended, l.closed
		i := 0
		for i+1 < len(l.segments) && r.at >= l.segments[i].end {
			i++
		}
		p := place{segment: *l.segments[i], number: l.number, last: i+1 == len(l.segments)}
		if !p.last {
			p.number = l.segments[i+1].head.number
		}
		l.mu.Unlock()
		switch {
		case closed:
			return p, errClosed
		case r.at < p.segment.end:
			return p, nil
		case ended:
			return p, io.EOF
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return p, ctx.Err()
		}
	}
}

var errClosed = errors.New("the log is closed")

// Next implements [source.Reader].
func (r *reader) Next(ctx context.Context) (source.Record, error) {
	if err := ctx.Err(); err != nil {
		return source.Record{}, err
	}
	for r.end == nil {
		p, err := r.locate(ctx)
		if err != nil {
			if ctx.Err() == nil {
				r.fail(err)
			}
			return source.Record{}, err
		}
		if err := r.enter(p); err != nil {
			if lost, ok := errors.AsType[*source.RecordError](err); ok {
				return source.Record{}, lost
			}
			r.fail(fmt.Errorf("read log %s: %w", r.log.config.Dir, err))
			break
		}
		rec, err := r.next()
		if errors.Is(err, io.EOF) { // it was sent behind the last one
			r.at = r.scanner.at
			continue
		}
		if g, ok := errors.AsType[*gap](err); ok {
			return source.Record{}, r.skip(g, p)
		}
		if err != nil {
			r.fail(fmt.Errorf("read log %s at offset %d: %w", r.log.config.Dir, r.at, err))
			break
		}
		before := r.expected
		r.at, r.expected = rec.next, rec.number+1
		if before != 0 && rec.number > before {
			// Whole records are missing without a trace: no write does that.
			r.at, r.expected = rec.offset, rec.number
			return source.Record{}, r.damage(rec.offset, 0, rec.number-before)
		}
		if rec.kind == kindLarge {
			return source.Record{}, &source.RecordError{
				Position: cep.Position{Partition: r.partition, Offset: rec.offset},
				Err:      fmt.Errorf("%w: a line that begins %.40q", source.ErrTooLarge, rec.data),
			}
		}
		return source.Record{Data: rec.data, Offset: rec.offset, Arrived: cep.Time(rec.arrived)}, nil
	}
	return source.Record{}, r.end
}

// next returns the next record from where the reader is; behind the one that begins just before, if it was sent there.
func (r *reader) next() (record, error) {
	s := &r.scanner
	if r.sought && s.at > s.head.base {
		if _, err := s.parse(s.at); errors.Is(err, errFrame) {
			if before, err := s.parse(s.at - 1); err == nil {
				s.at, r.expected = before.next, before.number+1
			}
		}
	}
	r.sought = false
	return s.next()
}

// enter makes the scanner that of the place.
func (r *reader) enter(p place) error {
	s := p.segment
	if r.file == nil || r.scanner.head.base != s.head.base {
		_ = r.close()
		f, err := os.Open(s.path)
		if err != nil {
			return err
		}
		r.file, r.scanner = f, scanner{file: f, head: s.head, buf: r.scanner.buf[:0]}
	}
	r.at = max(r.at, s.head.base)
	r.scanner.at, r.scanner.limit = r.at, s.end
	if r.at == s.head.base && s.head.number > r.expected && r.expected != 0 {
		lost := s.head.number - r.expected
		r.expected = s.head.number
		return r.damage(r.at, 0, lost)
	}
	return nil
}

// skip goes over a stretch that is damaged.
func (r *reader) skip(g *gap, p place) error {
	r.at = g.to
	number := p.number // of what is behind the segment
	if rec, err := r.scanner.next(); err == nil {
		number = rec.number
	}
	lost := uint64(0)
	if r.expected != 0 && number > r.expected {
		lost = number - r.expected
	}
	r.expected = number
	return r.damage(g.from, g.to-g.from, lost)
}

func (r *reader) damage(offset, size int64, lost uint64) error {
	return &source.RecordError{
		Position: cep.Position{Partition: r.partition, Offset: offset},
		Err:      fmt.Errorf("log %s is %w: %d bytes that held %d records are skipped", r.log.config.Dir, ErrDamaged, size, lost),
	}
}

func (r *reader) fail(err error) {
	r.end = err
	_ = r.close()
}

func (r *reader) close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// SeekTo implements [source.Reader]. 0 is the first record that is kept.
func (r *reader) SeekTo(offset int64) error {
	l := r.log
	l.mu.Lock()
	first, end := l.segments[0].head.base, l.last().end
	l.mu.Unlock()
	switch {
	case offset == 0:
		offset = first
	case offset < first:
		return fmt.Errorf("seek to %d in log %s: %w up to %d", offset, l.config.Dir, ErrTrimmed, first)
	case offset > end:
		return fmt.Errorf("seek to %d in log %s: %w, which ends at %d", offset, l.config.Dir, ErrGone, end)
	}
	r.at, r.expected, r.sought, r.end = offset, 0, true, nil
	return nil
}

// SeekEnd implements [source.Ender].
func (r *reader) SeekEnd(context.Context) (int64, error) {
	l := r.log
	l.mu.Lock()
	end := l.last().end
	l.mu.Unlock()
	return end, r.SeekTo(end)
}

// Close implements [source.Reader].
func (r *reader) Close() error {
	r.end = errClosed
	return r.close()
}
