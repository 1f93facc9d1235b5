package job

import (
	"context"
	"fmt"
	"maps"

	"github.com/cepd/cepd/cep/source"
)

// discovery tells the sequencer what a source finds.
type discovery struct {
	stream *stream
	inbox  *inbox
	// start returns where to begin a partition, in the goroutine of the source: going to the end may take a while.
	start func(r source.Reader, listed bool) (beginning, error)

	listed bool
}

// Found implements [source.Discovery].
func (d *discovery) Found(r source.Reader) {
	b, err := d.start(r, d.listed)
	if err != nil {
		d.inbox.put(notice{kind: noticeUnable, err: fmt.Errorf("partition %s of stream %s: %w", r.Name(), d.stream.Name, err)})
		_ = r.Close() // the error above is the one to tell
		return
	}
	d.inbox.put(notice{kind: noticeFound, stream: d.stream, reader: r, beginning: b})
}

// Ready implements [source.Discovery].
func (d *discovery) Ready() {
	d.listed = true
	d.inbox.put(notice{kind: noticeListed, stream: d.stream})
}

// Trouble implements [source.Discovery].
func (d *discovery) Trouble(err error) {
	d.inbox.put(notice{kind: noticeTrouble, stream: d.stream, err: err})
}

// found takes over a partition and begins to read it.
func (s *sequencer) found(n *notice) {
	st, id := n.stream, n.reader.Partition()
	in := st.inputs[id.Name]
	if n.beginning.identity != "" {
		st.identities[id.Name] = n.beginning.identity
	}
	switch {
	case in == nil:
		in = &input{stream: st, id: id, from: n.beginning.offset, past: -1}
		st.inputs[id.Name] = in
		st.open++
		if in.from > 0 {
			st.starts[id.Name] = in
		}
		if st.listed {
			s.config.Logger.Info("a partition appeared", "stream", st.Name, "partition", n.reader.Name())
		}
	case n.beginning.renewed:
		s.renew(in, n.beginning.offset)
	case in.failed != nil:
		in.failed = nil
	case in.reader != nil && !in.ended:
		// The source has come to the end of the reader before, and the sequencer has not: a log that was rotated away and
		// comes back compressed.
		if in.next != nil {
			_ = in.next.Close() // it was never read from
		}
		in.next = n.reader
		return
	case in.ended:
		in.ended = false
		st.open++
	}
	s.read(in, n.reader)
}

// renew forgets where the job was in a partition that is another one now.
func (s *sequencer) renew(in *input, offset int64) {
	s.config.Logger.Error("the partition was made again, and its old position is dropped, as accepted", "stream", in.stream.Name,
		"partition", in.id.Name, "read", in.again)
	if in.rereading {
		s.reread(in)
	}
	if in.ended {
		in.ended = false
		in.stream.open++
	}
	s.core.Renew(in.id)
	in.from, in.again, in.read, in.last, in.failed = offset, 0, 0, 0, nil
	if offset > 0 {
		in.stream.starts[in.id.Name] = in
	}
}

// read starts the goroutine that reads an input.
func (s *sequencer) read(in *input, r source.Reader) {
	if in.read > 0 {
		// It has been read to the end of another reader: on from the last record, which is passed over.
		in.from, in.past = in.last, in.last
	}
	if in.reader != nil && in.reader != r {
		_ = in.reader.Close() // it was read to its end, or has failed
	}
	if in.changed == nil {
		in.room, in.changed = make(chan struct{}, 1), func(in *input) { s.inbox.put(notice{kind: noticeChanged, input: in}) }
	}
	in.reader, in.silence = r, s.now
	in.mu.Lock()
	in.end, in.turned, in.plan = nil, false, in.stream.plan // the goroutine of the reader before is done
	if in.reader != r {
		in.decoder = nil
	}
	in.mu.Unlock()
	// Its silence counts anew, also where it was idle before: much may have come since.
	in.wasIdle, in.idle = s.core.Open(in.id), false
	s.resize()
	s.spawnReader("reading "+r.Name(), func(ctx context.Context) error {
		return in.run(ctx, func() int { return int(s.batchSize.Load()) })
	})
}

// resize sets the size of batches by the number of partitions, so that all of them together stay bounded.
func (s *sequencer) resize() {
	n := 0
	for _, st := range s.streams {
		n += st.open
	}
	s.batchSize.Store(int64(min(max(recordsAhead/max(n, 1), batchesMin), batchMax)))
}

// list takes note that all partitions of a stream which are there have been found: from now on it may be read.
func (s *sequencer) list(st *stream) {
	if st.listed {
		return
	}
	st.listed = true
	absent, bare := 0, st.bare()
	for _, in := range st.inputs {
		in.silence = s.now
		if in.reader != nil || in.ended {
			continue
		}
		absent++
		log := s.config.Logger.With("stream", st.Name, "partition", in.id.Name, "read", in.again)
		switch {
		case s.config.AcceptGap || !in.rereading && (!bare || st.Idle <= 0):
			if !in.rereading {
				log.Info("the partition is not there, and all that was read of it has been released: its stream does not wait for it")
			}
			s.lose(in)
			s.core.Idle(in.id)
			in.idle = true
		case in.rereading && st.Idle <= 0:
			log.Error("the partition is not there, and events of it were read and not released; nothing goes on before it is there, " +
				"or the job is started with --accept-gap")
		case in.rereading:
			log.Error("the partition is not there, and events of it were read and not released; they are lost unless it comes back in time",
				"wait", st.Idle)
		default:
			log.Info("the partition is not there, nor is anything else of its stream; all that was read of it has been released, and its "+
				"silence counts from now", "idle", st.Idle)
		}
	}
	if st.fresh && len(st.starts) > 0 {
		st.held, s.asked = true, true // the places to begin at have to be in an epoch first
	}
	s.config.Logger.Info("the stream is read", "stream", st.Name, "partitions", len(st.inputs), "absent", absent)
}

// bare says that the source has found nothing at all. What it had may only not be there yet, as on a disk that is not mounted, and may
// have more: time must not have gone on by itself before it is.
func (s *stream) bare() bool {
	for _, in := range s.inputs {
		if in.reader != nil {
			return false
		}
	}
	return true
}

// close takes note that no partition of a stream can appear any more. Those that are not there never will be.
func (s *sequencer) close(st *stream) {
	s.list(st)
	st.over, s.released = true, false
	s.core.CloseStream(st.Name)
	for _, in := range st.inputs {
		if in.reader == nil && !in.ended {
			s.lose(in)
			s.core.End(in.id)
			in.ended = true
			st.open--
		}
	}
}

// setTrouble takes note of what keeps a source from being read.
func (s *sequencer) setTrouble(st *stream, err error) {
	switch {
	case err != nil && (st.trouble == nil || st.trouble.Error() != err.Error()):
		s.config.Logger.Warn("the source has trouble", "stream", st.Name, "err", err)
	case err == nil && st.trouble != nil:
		s.config.Logger.Info("the source's trouble is over", "stream", st.Name)
	}
	st.trouble = err
}

// starter returns the function that says where a newly found partition begins. It belongs to the goroutine of the source.
func (s *stream) starter(ctx context.Context, acceptGap bool) func(source.Reader, bool) (beginning, error) {
	known, identities := map[string]bool{}, maps.Clone(s.identities)
	for name := range s.inputs {
		known[name] = true
	}
	return func(r source.Reader, listed bool) (b beginning, err error) {
		name := r.Partition().Name
		if x, ok := r.(source.Identified); ok {
			b.identity = x.Identity()
			before, told := identities[name]
			if b.renewed = told && known[name] && before != b.identity; b.renewed && !acceptGap {
				return b, fmt.Errorf("%w: it was made again: its position is of %s, and this is %s: bring back what was read, or start with "+
					"--accept-gap to read the new one from its beginning", ErrRefused, before, b.identity)
			}
			identities[name] = b.identity
		}
		if known[name] && !b.renewed {
			b.offset = -1 // the job knows
			return b, nil
		}
		known[name] = true
		b.offset, err = s.firstPlace(ctx, r, s.fresh && !listed)
		return b, err
	}
}

// beginning is where a partition begins that was found.
type beginning struct {
	offset int64 // -1: where the reader stands, or where the job was
	// identity is that of the partition, "" where it has none; renewed says that it is another one than the job has a position in.
	identity string
	renewed  bool
}

// firstPlace is where a partition begins in which nobody has a position. first says that the job has never read the stream.
func (s *stream) firstPlace(ctx context.Context, r source.Reader, first bool) (int64, error) {
	if first {
		if x, ok := r.(source.Resumer); ok {
			switch offset, ok, err := x.Resume(ctx, s.others); {
			case err != nil:
				return 0, fmt.Errorf("go to where others left off: %w", err)
			case ok:
				return offset, nil
			}
		}
		switch s.Start {
		case Latest:
			x, ok := r.(source.Ender)
			if !ok {
				return 0, errNoEnd
			}
			offset, err := x.SeekEnd(ctx)
			if err != nil {
				return 0, fmt.Errorf("go to the end: %w", err)
			}
			return offset, nil
		case At:
			x, ok := r.(source.Dater)
			if !ok {
				return 0, errNoTime
			}
			offset, err := x.SeekTime(ctx, s.StartAt)
			if err != nil {
				return 0, fmt.Errorf("go to %s: %w", s.StartAt, err)
			}
			return offset, nil
		case Earliest:
		}
	}
	x, ok := r.(source.Starter)
	if !ok {
		return -1, nil
	}
	offset, err := x.SeekStart(ctx)
	if err != nil {
		return 0, fmt.Errorf("go to the beginning: %w", err)
	}
	return offset, nil
}

// These refuse a start that a source cannot make.
var (
	errNoEnd  = fmt.Errorf("%w: the source cannot begin behind what is there: write start: earliest", ErrRefused)
	errNoTime = fmt.Errorf("%w: the source cannot find a time: write start: earliest", ErrRefused)
)
