package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

const (
	// pumpSize is how much is read at once, and made durable by one fsync: at 5 ms a fsync that is 50 MB/s.
	pumpSize = 256 << 10
	// largeKept is how much of a line that is too large is kept, for the message.
	largeKept = 64
	// retryFirst and retryLast bound how long is waited before what the log did not take is tried again.
	retryFirst = 50 * time.Millisecond
	retryLast  = 2 * time.Second
)

// pump brings lines into the log. While the log takes none it does not read, so that whoever writes them waits.
type pump struct {
	log       *Log
	in        io.Reader
	maxRecord int
	err       atomic.Pointer[error]
	end       error // when it is done: why the input ended, nil at its end

	buf  []byte
	n    int
	skip bool // the line under way is too large, and noted
}

func newPump(l *Log, in io.Reader, maxRecord int) *pump {
	return &pump{log: l, in: in, maxRecord: maxRecord, buf: make([]byte, pumpSize)}
}

// trouble is why nothing is read; nil: it is.
func (p *pump) trouble() error {
	if err := p.err.Load(); err != nil {
		return *err
	}
	return nil
}

// start pumps in a goroutine; done is closed at the end of the input.
func (p *pump) start(ctx context.Context) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		p.end = p.run(ctx)
	}()
	return done
}

// stop ends it after its context has ended, and says what was read for nothing. A read that nothing can interrupt is left to end
// with the process.
func (p *pump) stop(done <-chan struct{}) error {
	in, ok := p.in.(interface{ SetReadDeadline(time.Time) error })
	if interrupted := ok && in.SetReadDeadline(time.Now()) == nil; !interrupted && p.trouble() == nil {
		return nil
	}
	<-done // what waits for the log waits no longer, and does not read again
	if errors.Is(p.end, context.Canceled) || errors.Is(p.end, context.DeadlineExceeded) {
		return nil
	}
	return p.end
}

func (p *pump) run(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := p.in.Read(p.buf[p.n:])
		p.n += n
		if e := p.lines(ctx, err != nil); e != nil {
			return e
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			p.log.End()
			return nil
		case err != nil:
			p.log.End()
			return fmt.Errorf("read standard input: %w", err)
		}
	}
}

// lines appends the lines that were read; end says that nothing follows, so that the last one needs no end. When the
// context has ended half a line is worth nothing: its rest will never be read.
func (p *pump) lines(ctx context.Context, end bool) error {
	end = end && ctx.Err() == nil
	rest := p.buf[:p.n]
	var events []Event
	for {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		switch {
		case p.skip:
			p.skip = !whole
		case whole, end:
			var err error
			if events, err = p.add(ctx, events, line); err != nil {
				return err
			}
		}
		if !whole {
			break
		}
		rest = after
	}
	if err := p.append(ctx, kindEvent, events); err != nil {
		return err
	}
	switch {
	case end, p.skip:
		p.n = 0
		return nil
	case len(rest) > p.maxRecord+1:
		p.skip, p.n = true, 0
		return p.append(ctx, kindLarge, []Event{{Data: rest[:min(largeKept, len(rest))]}})
	}
	p.n = copy(p.buf, rest)
	if p.n == len(p.buf) {
		p.buf = append(p.buf, make([]byte, len(p.buf))...) // at most twice the limit: above it nothing is kept
	}
	return nil
}

// add adds a line, unless it is blank. One that is too large goes by itself, behind those before it.
func (p *pump) add(ctx context.Context, events []Event, line []byte) ([]Event, error) {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	switch {
	case len(bytes.TrimSpace(line)) == 0:
		return events, nil
	case len(line) > p.maxRecord:
		if err := p.append(ctx, kindEvent, events); err != nil {
			return nil, err
		}
		return nil, p.append(ctx, kindLarge, []Event{{Data: line[:largeKept]}})
	}
	return append(events, Event{Data: line}), nil
}

// append brings events into the log, however long that takes.
func (p *pump) append(ctx context.Context, k kind, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	for wait := retryFirst; ; wait = min(2*wait, retryLast) {
		// What was read is gone from the input: it is taken also when the context has ended.
		_, err := p.log.append(context.WithoutCancel(ctx), k, events)
		if err == nil {
			p.err.Store(nil)
			return nil
		}
		if errors.Is(err, ErrEnded) {
			return err
		}
		err = fmt.Errorf("what comes on standard input waits: %w", err)
		p.err.Store(&err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("%w; %d lines that were read are lost", err, len(events))
		}
	}
}
