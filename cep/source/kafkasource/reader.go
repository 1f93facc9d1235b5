package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/internal/kafkawire"
)

// seekRetry is the pause between attempts to learn where a time or a group is.
const seekRetry = time.Second

// timeMax is the highest time of a record in milliseconds that nanoseconds can say.
const timeMax = int64(cep.AfterAll / cep.Millisecond)

// Reader reads one partition. It implements [source.Reader], and all that a reader may know beside.
type Reader struct {
	source *Source
	id     *cep.Partition
	topic  kafkawire.Topic
	number int32
	// start and end are where the partition began and ended when it was found; stop is where reading ends, -1: nowhere.
	start, end, stop int64
	// offset is where reading goes on.
	offset  int64
	records []kafkawire.Record // of the batch, not yet returned
	meta    cep.Meta
	err     error // how it ended
	placed  bool  // something was read from here on, so that the place was in the log

	cursor atomic.Pointer[kafkawire.Cursor]
	bytes  atomic.Int64
}

func (s *Source) newReader(t kafkawire.Topic, number int32, start, end int64) *Reader {
	return &Reader{
		source: s, id: s.config.Partitions.Get(s.config.Stream, name(t.Name, number)), topic: t, number: number,
		start: start, end: end, stop: -1, offset: start,
	}
}

// Partition implements [source.Reader].
func (r *Reader) Partition() *cep.Partition { return r.id }

// Name implements [source.Reader].
func (r *Reader) Name() string { return r.id.Name }

// Format implements [source.Reader]: values are JSON.
func (r *Reader) Format() source.Format { return source.Format{Meta: true} }

// Identity implements [source.Identified]: it is the id of the topic.
func (r *Reader) Identity() string { return r.topic.ID.String() }

// Progress implements [source.Reader].
func (r *Reader) Progress() (read, total int64) { return r.bytes.Load(), -1 }

// End implements [source.Lagger].
func (r *Reader) End() (offset int64, known bool) {
	if c := r.cursor.Load(); c != nil {
		if e := c.Ends(); e.Stable > 0 {
			return e.Stable, true
		}
	}
	return r.end, true
}

// Severed implements [source.Severed].
func (r *Reader) Severed() bool {
	c := r.cursor.Load()
	return c != nil && c.Trouble() != nil
}

// Next implements [source.Reader].
func (r *Reader) Next(ctx context.Context) (source.Record, error) {
	if err := ctx.Err(); err != nil {
		return source.Record{}, err
	}
	for r.err == nil {
		if len(r.records) > 0 {
			rec := &r.records[0]
			r.records = r.records[1:]
			if r.stop >= 0 && rec.Offset >= r.stop {
				r.finish(io.EOF)
				break
			}
			return r.lend(rec)
		}
		if r.stop >= 0 && r.offset >= r.stop {
			r.finish(io.EOF)
			break
		}
		rec, err := r.fetch(ctx)
		if err != nil || rec.Nothing {
			return rec, err
		}
	}
	return source.Record{}, r.err
}

// fetch takes the next batch.
func (r *Reader) fetch(ctx context.Context) (source.Record, error) {
	c := r.cursor.Load()
	if c == nil {
		var err error
		if c, err = r.source.fetcher.Open(r.topic, r.number, r.offset); err != nil {
			return source.Record{}, err
		}
		r.cursor.Store(c)
	}
	records, err := c.Next(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return source.Record{}, err
		}
		return source.Record{}, r.lose(err)
	}
	r.records, r.placed = records, true
	before := r.offset
	if len(records) > 0 {
		r.offset = records[len(records)-1].Offset + 1
	} else if r.offset = c.Offset(); r.offset > before && (r.stop < 0 || r.offset <= r.stop) {
		return source.Record{Offset: r.offset - 1, Nothing: true}, nil
	}
	return source.Record{}, nil
}

// lose decides about an error that no waiting mends.
func (r *Reader) lose(err error) error {
	if gone, ok := errors.AsType[*kafkawire.OutOfRangeError](err); ok {
		at := min(max(gone.Offset, gone.Start), gone.End)
		if r.source.config.AcceptGap && !r.placed {
			r.source.config.Logger.Warn("what stood there is gone, as accepted", "stream", r.id.Stream, "partition", r.id.Name,
				"offset", gone.Offset, "instead", at)
			return r.SeekTo(at)
		}
		err = &goneError{err, fmt.Sprintf("at offset %d", at)}
	} else if _, ok := errors.AsType[*kafkawire.RecreatedError](err); ok {
		err = &goneError{err, "with the new one"}
	}
	r.source.fail(err)
	r.finish(err)
	return err
}

// lend makes a record of the source's of one of the cursor's.
func (r *Reader) lend(rec *kafkawire.Record) (source.Record, error) {
	r.bytes.Add(int64(len(rec.Value)))
	if len(rec.Value) > r.source.config.MaxRecord {
		return source.Record{}, &source.RecordError{
			Position: cep.Position{Partition: r.id, Offset: rec.Offset},
			Err:      fmt.Errorf("%w: %d bytes, the limit is %d", source.ErrTooLarge, len(rec.Value), r.source.config.MaxRecord),
		}
	}
	m := &r.meta
	m.Topic, m.Key, m.Headers, m.Time, m.Appended = r.topic.Name, rec.Key, m.Headers[:0], cep.BeforeAll, rec.AppendTime
	if rec.Time >= 0 && rec.Time <= timeMax { // -1: the producer gave none
		m.Time = cep.Time(rec.Time) * cep.Millisecond
	}
	for _, h := range rec.Headers {
		m.Headers = append(m.Headers, cep.Header{Name: h.Key, Value: h.Value})
	}
	out := source.Record{Data: rec.Value, Offset: rec.Offset, Meta: m}
	if rec.AppendTime && m.Time != cep.BeforeAll {
		out.Arrived = m.Time
	}
	return out, nil
}

// finish ends reading; SeekTo begins it again.
func (r *Reader) finish(err error) {
	r.drop()
	r.err = err
}

// drop forgets what was fetched.
func (r *Reader) drop() {
	if c := r.cursor.Swap(nil); c != nil {
		c.Close()
	}
	r.records = nil
}

// SeekTo implements [source.Reader].
func (r *Reader) SeekTo(offset int64) error {
	if offset < 0 {
		return fmt.Errorf("partition %s: offset %d is no place in a log", r.id.Name, offset)
	}
	r.drop()
	r.err, r.offset, r.placed = nil, offset, false
	return nil
}

// SeekStart implements [source.Starter].
func (r *Reader) SeekStart(context.Context) (int64, error) { return r.start, r.SeekTo(r.start) }

// SeekEnd implements [source.Ender]: the end is that of when the partition was found.
func (r *Reader) SeekEnd(context.Context) (int64, error) { return r.end, r.SeekTo(r.end) }

// SeekTime implements [source.Dater].
func (r *Reader) SeekTime(ctx context.Context, t cep.Time) (offset int64, err error) {
	err = patiently(ctx, func() error {
		// A time between two milliseconds is not reached by a record of the first of them.
		at := t.Std().Add(time.Millisecond - 1)
		found, err := r.source.client.ListOffsets(ctx, r.topic, kafkawire.At(at), r.number)
		offset = found[r.number]
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("find %s in partition %s: %w", t, r.id.Name, err)
	}
	return offset, r.SeekTo(offset)
}

// Resume implements [source.Resumer].
func (r *Reader) Resume(ctx context.Context, others bool) (offset int64, ok bool, err error) {
	group := r.source.config.Group
	if group == "" {
		return 0, false, nil
	}
	err = patiently(ctx, func() error {
		found, err := r.source.client.Committed(ctx, group, map[string][]int32{r.topic.Name: {r.number}})
		var at kafkawire.GroupOffset
		at, ok = found[kafkawire.TopicPartition{Topic: r.topic.Name, Partition: r.number}]
		offset, ok = at.Offset, ok && (!others || at.Note != offsetNote)
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("offset of group %s for partition %s: %w", group, r.id.Name, err)
	}
	if !ok {
		return 0, false, nil
	}
	return offset, true, r.SeekTo(offset)
}

// patiently repeats f while waiting may help.
func patiently(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || !kafkawire.Retriable(err) || errors.Is(err, context.Canceled) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(seekRetry):
		}
	}
}

// Close implements [source.Reader].
func (r *Reader) Close() error {
	r.drop()
	if r.err == nil {
		r.err = kafkawire.ErrClosed
	}
	return nil
}
