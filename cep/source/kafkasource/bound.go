package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/internal/kafkawire"
)

// Bound is a place in each partition of a stream. The zero Bound is the partition's own.
type Bound struct {
	kind   boundKind
	offset int64
	time   cep.Time
}

type boundKind uint8

const (
	boundNone boundKind = iota
	boundEarliest
	boundLatest
	boundOffset
	boundTime
)

// ParseBound reads earliest, latest, the number of an offset, or a time by RFC 3339.
func ParseBound(text string) (Bound, error) {
	switch text {
	case "":
		return Bound{}, nil
	case "earliest":
		return Bound{kind: boundEarliest}, nil
	case "latest":
		return Bound{kind: boundLatest}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return Bound{kind: boundOffset, offset: n}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return Bound{}, fmt.Errorf("%q is no place: write earliest, latest, an offset, or a time as 2024-11-29T12:00:00Z", text)
	}
	t, ok := cep.TimeOf(at)
	if !ok {
		return Bound{}, fmt.Errorf("%q lies outside the years 1678 to 2261", text)
	}
	return Bound{kind: boundTime, time: t}, nil
}

// Open returns readers of all partitions that are there now, each from one bound up to, not including, another; of a time
// that is the first record whose own time is the bound or later, wherever later ones stand. With [Config.Finite] they end
// where the partition ends now at the latest. It is for recordings, and takes the place of Watch.
func (s *Source) Open(ctx context.Context, from, to Bound) ([]source.Reader, error) {
	s.run()
	found, err := s.findAll(ctx)
	if err != nil {
		return nil, err
	}
	readers := make([]source.Reader, len(found))
	for i, r := range found {
		begin, err := r.place(ctx, from, r.start)
		if err == nil {
			r.stop, err = r.place(ctx, to, r.stop)
		}
		if err != nil {
			return nil, err
		}
		if s.config.Finite {
			r.stop = min(r.stop, r.end)
		}
		if begin < r.start {
			return nil, &kafkawire.OutOfRangeError{Topic: r.topic.Name, Partition: r.number, Offset: begin, Start: r.start, End: r.end}
		}
		if r.stop >= 0 {
			begin = min(begin, max(r.stop, r.start)) // a partition that ends before the range holds nothing of it
		}
		if err := r.SeekTo(begin); err != nil {
			return nil, err
		}
		readers[i] = r
	}
	return readers, nil
}

// findFor bounds how long brokers that cannot be reached are tried before a recording is given up: one that was killed is back
// after 3 to 5 s.
const findFor = 15 * time.Second

// findAll returns the readers of all partitions that are there now.
func (s *Source) findAll(ctx context.Context) (all []*Reader, err error) {
	for end := time.Now().Add(findFor); ; {
		found, passing, fatal := s.find(ctx)
		all = append(all, found...)
		switch {
		case fatal != nil:
			return nil, fatal
		case passing == nil:
			return all, nil
		case !kafkawire.Retriable(passing) || time.Now().After(end):
			return nil, passing
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (before that: %w)", ctx.Err(), passing)
		case <-time.After(seekRetry):
		}
	}
}

// place makes a number of a bound; own is that of the zero Bound.
func (r *Reader) place(ctx context.Context, b Bound, own int64) (int64, error) {
	switch b.kind {
	case boundEarliest:
		return r.start, nil
	case boundLatest:
		return r.end, nil
	case boundOffset:
		return b.offset, nil
	case boundTime:
		return r.SeekTime(ctx, b.time)
	case boundNone:
	}
	return own, nil
}

// Left is how many offsets lie before the end of the range, -1 where it has none. It belongs to the goroutine of the reader.
func (r *Reader) Left() int64 {
	if r.stop < 0 {
		return -1
	}
	return max(0, r.stop-r.offset)
}

// Follow takes the end of the range away: the reader goes on, and waits for more.
func (r *Reader) Follow() {
	r.stop = -1
	if errors.Is(r.err, io.EOF) {
		r.err = nil
	}
}
