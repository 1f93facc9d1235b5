package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cepd/cepd/cep/source"
)

// group is what is written at once.
type group struct {
	frames []byte
	events int
	ids    []idHash
	done   chan struct{} // closed when err is known
	err    error
	lead   chan struct{} // holds the pen for one of those who wait
}

// Append makes events durable, all of them or none, and returns when they are. Those that wait at the same time share
// one fsync.
//
// Events whose ids are remembered are counted and not taken again; the answer is then as durable as that to the first.
// An error says that the events are not known to be there: ErrFull, ErrReused and ErrEnded that they are not, that of ctx and
// of the disk that they may be, so that who repeats needs ids.
func (l *Log) Append(ctx context.Context, events []Event) (Appended, error) {
	return l.append(ctx, kindEvent, events)
}

func (l *Log) append(ctx context.Context, k kind, events []Event) (Appended, error) {
	if err := ctx.Err(); err != nil {
		return Appended{}, err
	}
	size := int64(0)
	ids := make([]identity, len(events)) // before the lock, which others wait for
	for i, e := range events {
		if len(e.Data) > RecordMax || len(e.ID) > IDMax {
			return Appended{}, fmt.Errorf("append event %d: %d bytes with an id of %d; the limits are %d and %d", i, len(e.Data), len(e.ID), RecordMax, IDMax)
		}
		size += e.size()
		if e.ID != "" {
			ids[i] = identify(e.ID, e.Data)
		}
	}
	if size > l.config.Max/2 {
		return Appended{}, fmt.Errorf("append %d events: %w: %d bytes at once, and the limit of the log is %d", len(events), source.ErrTooLarge, size, l.config.Max)
	}
	a, wait, err := l.enqueue(k, events, ids)
	if err != nil {
		return Appended{}, err
	}
	for _, g := range wait {
		if err := l.await(ctx, g); err != nil {
			return Appended{}, fmt.Errorf("append: %w", err)
		}
	}
	return a, nil
}

// enqueue puts events into the group that gathers, and returns the groups that have to be durable.
func (l *Log) enqueue(k kind, events []Event, ids []identity) (a Appended, wait []*group, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.closed {
		return a, nil, ErrEnded
	}
	now := time.Now().UnixNano()
	if now < l.arrived && l.arrived-now <= int64(backMax) {
		now = l.arrived
	}
	l.arrived = now
	l.ids.expire(now)
	if i := l.reused(events, ids); i >= 0 {
		l.counts.Reused += uint64(len(events))
		return a, nil, fmt.Errorf("append event %d: %w", i, ErrReused)
	}
	if !l.hasRoom(events, ids) {
		l.counts.Full += uint64(len(events))
		return a, nil, fmt.Errorf("%w: %d of %d bytes", ErrFull, l.bytes+l.waiting, l.config.Max)
	}
	for i, e := range events {
		if e.ID != "" {
			if m, ok := l.ids.known[ids[i].id]; ok {
				if a.Duplicates++; m.differs(ids[i]) {
					a.Differing++
				}
				if m.group != nil && !slices.Contains(wait, m.group) {
					wait = append(wait, m.group)
				}
				continue
			}
			g := l.gathering()
			l.ids.add(ids[i], now, g)
			g.ids = append(g.ids, ids[i].id)
		}
		g := l.gathering()
		g.frames = appendFrame(g.frames, now, k, e.ID, e.Data)
		g.events++
		l.waiting += e.size()
		a.Accepted++
	}
	if a.Accepted > 0 && !slices.Contains(wait, l.gather) {
		wait = append(wait, l.gather)
	}
	l.counts.Duplicates += uint64(a.Duplicates)
	l.counts.Differing += uint64(a.Differing)
	return a, wait, nil
}

// size is what the event takes in a segment.
func (e *Event) size() int64 { return frameSize + int64(len(e.ID)+len(e.Data)) }

// reused returns the first event whose id stands for other data; -1: there is none.
func (l *Log) reused(events []Event, ids []identity) int {
	for i, e := range events {
		if !e.Sole || e.ID == "" {
			continue
		}
		if m, ok := l.ids.known[ids[i].id]; ok && m.differs(ids[i]) {
			return i
		}
	}
	return -1
}

// hasRoom reports whether the log may take the events that it does not have.
func (l *Log) hasRoom(events []Event, ids []identity) bool {
	// A segment that has to be begun takes its header too.
	size := int64(headerSize)
	known := 0
	for i, e := range events {
		if _, ok := l.ids.known[ids[i].id]; ok && e.ID != "" {
			known++
			continue
		}
		size += e.size()
	}
	return known == len(events) || l.bytes+l.waiting+size <= l.config.Max
}

// gathering returns the group that the next writer writes.
func (l *Log) gathering() *group {
	if l.gather == nil {
		l.gather = &group{done: make(chan struct{}), lead: make(chan struct{}, 1)}
		if !l.writing {
			l.writing = true
			l.gather.lead <- struct{}{}
		}
	}
	return l.gather
}

// await waits until a group is durable, and writes it if nobody else does.
func (l *Log) await(ctx context.Context, g *group) error {
	select {
	case <-g.done:
	case <-g.lead:
		l.writeGroup(g)
	case <-ctx.Done():
		// Who holds the pen must not leave with it.
		select {
		case <-g.lead:
			l.writeGroup(g)
		default:
			return ctx.Err()
		}
	}
	return g.err
}

// writeGroup writes what has gathered, and hands the pen on.
func (l *Log) writeGroup(g *group) {
	l.pen.Lock()
	defer l.pen.Unlock()
	l.mu.Lock()
	l.gather = nil
	number := l.number
	l.mu.Unlock()
	err := l.write(g, number)
	l.mu.Lock()
	l.waiting -= int64(len(g.frames))
	if err == nil {
		s := l.last()
		s.end += int64(len(g.frames))
		s.bytes += int64(len(g.frames))
		l.bytes += int64(len(g.frames))
		l.number += uint64(g.events)
		l.counts.Accepted += uint64(g.events)
		l.ids.settle(g)
		l.tell()
	} else {
		l.counts.Failed += uint64(g.events)
		l.ids.drop(g)
	}
	l.failed = err
	l.counts.Groups++
	if l.gather != nil {
		l.gather.lead <- struct{}{}
	} else {
		l.writing = false
	}
	l.mu.Unlock()
	g.err = err
	close(g.done)
}

func (l *Log) last() *segment { return l.segments[len(l.segments)-1] }

// current is the segment that is written to, for the writer.
func (l *Log) current() *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last()
}

// tell wakes the readers.
func (l *Log) tell() {
	close(l.grown)
	l.grown = make(chan struct{})
}

// write makes a group durable.
func (l *Log) write(g *group, number uint64) error {
	s := l.current()
	if l.doubt || s.bytes >= l.segmentMax {
		// What lies behind the end may yet be found there after a crash: the new segment says that it does not count.
		if err := l.roll(max(l.reach, s.end), s.end); err != nil {
			return err
		}
		s = l.current()
	}
	seal(g.frames, l.salt, s.end, number)
	at := headerSize + s.end - s.head.base
	l.reach = max(l.reach, s.end+int64(len(g.frames)))
	half := len(g.frames) - frameSize/2 // in the last record, and never between two
	_, err := l.file.WriteAt(g.frames[:half], at)
	if err == nil {
		l.failpoint("log.append.half")
		_, err = l.file.WriteAt(g.frames[half:], at+int64(half))
	}
	if err != nil {
		// A full disk has room again when somebody makes some; until then nothing of this may stay.
		if e := l.file.Truncate(at); e != nil {
			l.doubt = true
			err = errors.Join(err, e)
		}
		return err
	}
	l.failpoint("log.append.written")
	if err := l.file.Sync(); err != nil {
		// Whether a second fsync would tell the truth, no system promises.
		l.doubt = true
		return errors.Join(err, l.file.Truncate(at))
	}
	l.failpoint("log.append.synced")
	return nil
}
