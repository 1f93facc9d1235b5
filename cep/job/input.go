package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/source"
)

const (
	// batchMax is the number of records that a reader decodes ahead of the sequencer: at 10 million a second that is 25
	// microseconds, longer than it takes to wake a goroutine.
	batchMax = 256
	// batchBytes is the size of the records in a batch behind which it counts as full, so that large events do not make
	// batches large.
	batchBytes = 64 << 10
	// batchesMin is the number of records that a batch has at least when there are many partitions, and recordsAhead what
	// the batches of all partitions have together: some hundred bytes each.
	batchesMin   = 16
	recordsAhead = 128 << 10
)

// batch is a run of records of one partition, decoded.
type batch struct {
	items []item // those beyond n are kept for their memory
	n     int    // in use
	bytes int    // of their records
	// text holds the records, and where rules show events these as JSON.
	text    []byte
	plan    *plan // that it was decoded by
	decoder codec.Decoder
	own     bool // the decoder belongs to the partition
}

// item is a record of a batch.
type item struct {
	ev      cep.Event
	record  []byte // what the event was made of
	arrived cep.Time
	bad     *badRecord // nil for an event
	nothing bool       // no event is there, nor a record: only an offset
}

// badRecord is a record that is no event.
type badRecord struct {
	kind codec.ErrorKind
	err  error
}

// input is a partition that is read. Its reader has a goroutine of its own; what it has read is taken by the sequencer.
type input struct {
	stream *stream
	reader source.Reader
	id     *cep.Partition
	// from is where to begin, -1: where the reader stands. again is the offset behind the last record that was read in an
	// earlier life: up to there it is read a second time.
	from, again int64
	// past is the offset up to which records are passed over, -1 for none: they were pushed from a reader before this one.
	past    int64
	changed func(*input) // tells the sequencer that there is something to take

	mu      sync.Mutex
	plan    *plan         // by which records are decoded
	decoder codec.Decoder // of the plan, where it belongs to the partition
	batch   *batch        // being filled; nil: nothing waits
	full    bool          // the reader waits for room
	end     error         // how reading ended; io.EOF at the end
	// turned says that reading has to go on from seek; interrupt ends a wait of the reader. See turn.
	turned    bool
	seek      int64
	interrupt context.CancelFunc

	// room is sent to when the batch that was full has been taken.
	room chan struct{}

	// The rest belongs to the sequencer.

	ready      bool          // it stands in a queue of its stream
	rereading  bool          // it has not been read again as far as before
	unreleased bool          // not all of it was released when silence was looked for last
	read       int64         // the offset behind the last record pushed
	last       int64         // the offset of that record
	next       source.Reader // found while this one was not known to have ended
	silence    time.Time
	idle       bool
	wasIdle    bool // it was in the epoch that the job began with, and nothing has come of it since
	ended      bool
	failed     error
}

// run is the goroutine of the input: it reads until the partition's end or that of ctx. What the end means is for the
// sequencer to say. At its end the reader stays: it may have to go back.
func (in *input) run(ctx context.Context, batchSize func() int) error {
	for {
		err := in.follow(ctx, batchSize)
		if !isEnd(err) {
			_ = in.reader.Close() // what it could say is said by err
		}
		in.mu.Lock()
		again := in.turned && isEnd(err)
		if !again {
			in.end, in.interrupt, in.turned = err, nil, false
		}
		in.mu.Unlock()
		if !again {
			in.changed(in)
			return nil
		}
	}
}

// errTurned says that reading has to go on elsewhere.
var errTurned = errors.New("reading goes on elsewhere")

// follow reads until the partition's end, from where the input was turned to if it is.
func (in *input) follow(ctx context.Context, batchSize func() int) error {
	for {
		reading, interrupt := context.WithCancel(ctx)
		in.mu.Lock()
		from, past := in.from, in.past
		if in.turned {
			in.turned, from, past = false, in.seek, -1
		}
		in.interrupt = interrupt
		in.mu.Unlock()
		err := in.pass(reading, from, past, batchSize)
		interrupt()
		if ctx.Err() != nil || !in.hasTurned() {
			return err
		}
	}
}

func (in *input) hasTurned() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.turned
}

// pass reads from an offset, or where the reader stands if it is -1, until the end or until the input is turned.
func (in *input) pass(ctx context.Context, from, past int64, batchSize func() int) error {
	if from >= 0 {
		if err := in.reader.SeekTo(from); err != nil {
			return fmt.Errorf("go to offset %d: %w", from, err)
		}
	}
	for {
		var bad *source.RecordError
		rec, err := in.reader.Next(ctx)
		if err != nil {
			if !errors.As(err, &bad) {
				return err
			}
			rec.Offset = bad.Position.Offset
		}
		if rec.Offset <= past {
			continue
		}
		if err := in.add(ctx, rec, bad, batchSize); err != nil {
			return err
		}
	}
}

// add puts a record into the batch that waits for the sequencer, once there is room.
func (in *input) add(ctx context.Context, rec source.Record, bad *source.RecordError, batchSize func() int) error {
	for {
		if ok, err := in.put(rec, bad, batchSize()); ok || err != nil {
			return err
		}
		select {
		case <-in.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// put is add where there is room; ok is false where there is none, and then room will be sent to.
func (in *input) put(rec source.Record, bad *source.RecordError, size int) (ok bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.turned {
		return false, errTurned
	}
	if b := in.batch; b != nil && (b.n >= size || b.bytes >= batchBytes) {
		in.full = true
		return false, nil
	}
	if in.batch == nil {
		in.batch = in.plan.newBatch(in)
		in.changed(in)
	}
	// Decoding under the lock costs the sequencer at most the time of one event, and saves handing over twice.
	in.fill(in.batch, rec, bad)
	return true, nil
}

// fill decodes a record into the batch.
func (in *input) fill(b *batch, rec source.Record, bad *source.RecordError) {
	if b.n == len(b.items) {
		b.items = append(b.items, item{})
	}
	it := &b.items[b.n]
	b.n++
	b.bytes += len(rec.Data)
	it.record = b.keep(rec.Data)
	it.bad, it.nothing, it.arrived = nil, rec.Nothing, cep.BeforeAll
	if rec.Arrived != 0 {
		it.arrived = rec.Arrived
	}
	ev := &it.ev
	*ev = cep.Event{Values: ev.Values, Position: cep.Position{Partition: in.id, Offset: rec.Offset}, Time: it.arrived}
	if bad != nil {
		it.bad = &badRecord{kind: codec.TooLarge, err: bad}
		return
	}
	if rec.Nothing {
		return
	}
	if in.stream.Arrival && rec.Arrived == 0 {
		in.refuse(it, &codec.Error{Kind: codec.NoTime, Offset: -1, Detail: noArrival(in.reader.Format())})
		return
	}
	if rec.Meta != nil {
		b.decoder.Beside(rec.Meta)
	}
	if err := b.decoder.Decode(rec.Data, ev); err != nil {
		in.refuse(it, err)
		return
	}
	text := ev.Raw
	ev.Raw = nil
	b.decoder.Keep(ev)
	if text != nil {
		ev.Raw = b.keep(text)
	}
}

// keep copies bytes that live until the next record to where they live as long as the batch does.
func (b *batch) keep(data []byte) []byte {
	n := len(b.text)
	b.text = append(b.text, data...)
	return b.text[n:len(b.text):len(b.text)]
}

// noArrival says why nobody knows when a record came in.
func noArrival(f source.Format) string {
	if f.Meta {
		return "the topic keeps the time of whoever wrote the record: set message.timestamp.type=LogAppendTime for it"
	}
	return "the source notes no time of arrival"
}

func (in *input) refuse(it *item, err error) {
	it.bad = &badRecord{kind: codec.BadJSON, err: fmt.Errorf("%s at offset %d: %w", in.reader.Name(), it.ev.Position.Offset, err)}
	if e, ok := errors.AsType[*codec.Error](err); ok {
		it.bad.kind = e.Kind
	}
}

// take hands what was read to the sequencer; nil: nothing was. It says how reading ended, once it has.
func (in *input) take() (b *batch, end error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	b, in.batch = in.batch, nil
	in.giveRoom()
	return b, in.end
}

// giveRoom lets the reader go on if it waits for room.
func (in *input) giveRoom() {
	if !in.full {
		return
	}
	in.full = false
	select {
	case in.room <- struct{}{}:
	default: // a reader that was turned has left one
	}
}

// isEnd reports whether a partition has been read to its end.
func isEnd(err error) bool { return errors.Is(err, io.EOF) }
