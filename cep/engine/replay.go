package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/rules"
)

// runMax is the number of records read from one partition before another is looked at: enough that choosing costs
// nothing, few enough that partitions stay close to each other and the order buffer small.
const runMax = 256

// ReplayConfig says what to replay.
type ReplayConfig struct {
	Rules   *rules.Set
	Streams []Stream
	// Readers are the partitions of all streams, each once. Replay closes them.
	Readers []source.Reader
	// Partitions gave out the readers' partitions; it lets recordings restore the positions they were made from. Nil:
	// positions are where events were found.
	Partitions *source.Partitions
	// Time says which field is the time; Times, by stream, where it is another one.
	Time  codec.TimeSpec
	Times map[string]codec.TimeSpec
	// Advance moves time on at the end of the input; [ToEnd] behind every deadline.
	Advance cep.Duration
	// Alert is handed every alert in order; its error ends the replay.
	Alert func(*cep.Alert) error
	// Progress is called now and then with the number of records read so far.
	Progress func(records uint64)
	// Batch is as in [Options].
	Batch int
	// Shards is the number of goroutines that run rules, beside one for each reader, which decodes, and the one that hands out
	// alerts; with 0 and 1 all is done in the goroutine of the caller. Output does not depend on it. With more, Alert is called
	// from another goroutine than Progress, and readers from others still.
	Shards int
}

// Replay runs the rules over what the readers hold, from the partition with the lowest time first, and ends the input. The
// summary is valid also where an error ended the replay: that of the context, of a reader, or of Alert.
func Replay(ctx context.Context, cfg ReplayConfig) (Summary, error) {
	r := &replay{cfg: cfg}
	defer r.close()
	core, err := New(cfg.Rules, cfg.Streams, Options{Alert: r.alert, Batch: cfg.Batch, Shards: cfg.Shards, Parallel: cfg.Shards > 1})
	if err != nil {
		return Summary{}, err
	}
	defer core.Close()
	r.core = core
	if err := r.open(); err != nil {
		return Summary{}, err
	}
	r.hurry(ctx)
	if err := r.run(ctx); err != nil {
		return core.Summary(), err
	}
	core.Finish(cfg.Advance)
	summary := core.Summary() // waits until all alerts are out
	if err := core.Err(); err != nil {
		return summary, fmt.Errorf("run rules: %w", err)
	}
	return summary, r.failure()
}

type replay struct {
	cfg     ReplayConfig
	core    *Core
	inputs  []*input
	records uint64
	// halt ends what decodes ahead, and busy waits for it.
	halt   context.CancelFunc
	busy   sync.WaitGroup
	failed atomic.Pointer[error] // the first of Alert
}

// input is a partition that is being read.
type input struct {
	reader  source.Reader
	decoder codec.Decoder
	// keeper keeps what the decoder has lent, ahead decodes in another goroutine where there is one.
	keeper codec.Keeper
	ahead  *ahead
	now    reading
	// clock decides who is read next.
	clock *partition
}

// reading is what became of one record: an event, or the error why it is none. Neither: there is nothing at its place.
type reading struct {
	ev      cep.Event
	offset  int64
	bad     error
	nothing bool
}

// next reads a record and decodes it. Where hold is there the event stays valid with what hold returns, else until the next
// call. The error is io.EOF at the end of the partition.
func (in *input) next(ctx context.Context, x *reading, hold func(source.Record) source.Record) error {
	rec, err := in.reader.Next(ctx)
	if err != nil {
		bad, ok := errors.AsType[*source.RecordError](err)
		if !ok {
			return err
		}
		x.offset, x.bad, x.nothing = bad.Position.Offset, bad, false
		return nil
	}
	x.offset, x.bad, x.nothing = rec.Offset, nil, rec.Nothing
	if rec.Nothing {
		return nil
	}
	if hold != nil {
		rec = hold(rec)
	}
	if rec.Meta != nil {
		in.decoder.Beside(rec.Meta)
	}
	x.ev.Position = cep.Position{Partition: in.reader.Partition(), Offset: rec.Offset}
	x.bad = in.decoder.Decode(rec.Data, &x.ev)
	return nil
}

func (r *replay) open() error {
	known := map[*cep.Partition]string{}
	named := map[string]bool{}
	for _, s := range r.cfg.Streams {
		named[s.Name] = true
	}
	several := r.cfg.Shards > 1
	o := codec.Options{Raw: NeedsRaw(r.cfg.Rules), Several: several}
	if r.cfg.Partitions != nil {
		o.Partition = r.cfg.Partitions.Get
	}
	for _, reader := range r.cfg.Readers {
		p := reader.Partition()
		if !named[p.Stream] {
			return fmt.Errorf("read %s: stream %q is not among those to replay", reader.Name(), p.Stream)
		}
		if other, ok := known[p]; ok {
			return fmt.Errorf("read %s: the same partition as %s", reader.Name(), other)
		}
		known[p] = reader.Name()
		in := &input{reader: reader, clock: r.core.partition(p)}
		at, ok := r.cfg.Times[p.Stream]
		if !ok {
			at = r.cfg.Time
		}
		f := reader.Format()
		if o.Meta = f.Meta; f.Delimited() {
			in.decoder = codec.NewCSV(f.Columns, f.Comma, r.cfg.Rules.Schema, at, o)
		} else {
			in.decoder = codec.NewJSON(r.cfg.Rules.Schema, at, o)
		}
		r.inputs = append(r.inputs, in)
	}
	for _, s := range r.cfg.Streams {
		r.core.CloseStream(s.Name)
	}
	return nil
}

// hurry lets each partition be decoded ahead in a goroutine of its own, if several processors are to work.
func (r *replay) hurry(ctx context.Context) {
	if r.cfg.Shards <= 1 || len(r.inputs) > aheadMax {
		return
	}
	ctx, r.halt = context.WithCancel(ctx)
	for _, in := range r.inputs {
		in.ahead = newAhead()
		r.busy.Go(func() { in.ahead.run(ctx, in) })
	}
}

func (r *replay) close() {
	if r.halt != nil {
		r.halt()
		r.busy.Wait()
	}
	for _, reader := range r.cfg.Readers {
		_ = reader.Close() // it was only read from
	}
}

func (r *replay) alert(a *cep.Alert) {
	if r.cfg.Alert == nil || r.failed.Load() != nil {
		return
	}
	if err := r.cfg.Alert(a); err != nil {
		r.failed.Store(&err)
	}
}

func (r *replay) failure() error {
	if err := r.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// run reads until every partition has ended.
func (r *replay) run(ctx context.Context) error {
	for len(r.inputs) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		lowest := 0
		for i, in := range r.inputs {
			if in.clock.highest < r.inputs[lowest].clock.highest {
				lowest = i
			}
		}
		in := r.inputs[lowest]
		ended, err := r.read(ctx, in)
		if err != nil {
			return fmt.Errorf("replay %s: %w", in.reader.Name(), err)
		}
		if err := r.failure(); err != nil {
			return err
		}
		if err := r.core.Err(); err != nil {
			return fmt.Errorf("run rules: %w", err)
		}
		if ended {
			r.core.End(in.reader.Partition())
			r.inputs = append(r.inputs[:lowest], r.inputs[lowest+1:]...)
		}
		if r.cfg.Progress != nil {
			r.cfg.Progress(r.records)
		}
	}
	return nil
}

// read takes the next records of a partition; true at its end.
func (r *replay) read(ctx context.Context, in *input) (ended bool, err error) {
	if in.ahead != nil {
		return r.readAhead(ctx, in)
	}
	for range runMax {
		if err := in.next(ctx, &in.now, nil); err != nil {
			return errors.Is(err, io.EOF), notEnd(err)
		}
		r.take(in, &in.now)
	}
	return false, nil
}

// readAhead is read where the records are decoded already.
func (r *replay) readAhead(ctx context.Context, in *input) (ended bool, err error) {
	b, err := in.ahead.take(ctx)
	if err != nil {
		return false, err
	}
	for i := range b.readings {
		r.take(in, &b.readings[i])
	}
	err = b.err
	in.ahead.give(b)
	return errors.Is(err, io.EOF), notEnd(err)
}

func notEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// take lets the rules see what became of a record.
func (r *replay) take(in *input, x *reading) {
	if x.nothing {
		return
	}
	r.records++
	if x.bad != nil {
		r.refuse(in, x)
		return
	}
	r.core.Push(in.reader.Partition(), &x.ev, &in.keeper)
}

// refuse counts a record that is no event, and says where the first of them is.
func (r *replay) refuse(in *input, x *reading) {
	kind, err := codec.BadJSON, x.bad
	if bad, ok := errors.AsType[*codec.Error](err); ok {
		kind = bad.Kind
	}
	if _, ok := errors.AsType[*source.RecordError](err); ok {
		kind = codec.TooLarge
	} else {
		err = fmt.Errorf("%s at offset %d: %w", in.reader.Name(), x.offset, err)
	}
	r.core.Refuse(in.reader.Partition(), x.offset, kind, err, nil)
}
