package job

import (
	"context"
	"fmt"

	"github.com/cepd/cepd/cep/source"
)

// discovery tells the sequencer what a source finds.
type discovery struct {
	stream *stream
	inbox  *inbox
	// start returns where to begin a partition, in the goroutine of the source: going to the end may take a while.
	start func(r source.Reader, listed bool) (int64, error)

	listed bool
}

// Found implements [source.Discovery].
func (d *discovery) Found(r source.Reader) {
	offset, err := d.start(r, d.listed)
	if err != nil {
		d.inbox.put(notice{kind: noticeUnable, err: fmt.Errorf("partition %s of stream %s: %w", r.Name(), d.stream.Name, err)})
		_ = r.Close() // the error above is the one to tell
		return
	}
	d.inbox.put(notice{kind: noticeFound, stream: d.stream, reader: r, offset: offset})
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
	switch {
	case in == nil:
		in = &input{stream: st, id: id, from: n.offset, past: -1}
		st.inputs[id.Name] = in
		st.open++
		if in.from > 0 {
			st.starts[id.Name] = in
		}
		if st.listed {
			s.config.Logger.Info("a partition appeared", "stream", st.Name, "partition", n.reader.Name())
		}
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
	s.core.Open(in.id)
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
	idle := 0
	for _, in := range st.inputs {
		in.silence = s.now
		if in.reader != nil || in.ended {
			continue
		}
		idle++
		log := s.config.Logger.With("stream", st.Name, "partition", in.id.Name, "read", in.again)
		switch {
		case s.config.AcceptGap:
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
			log.Warn("the partition is not there; its stream waits for it until it is idle")
		}
	}
	if st.fresh && st.Start == Latest {
		st.held, s.asked = true, true // the places to begin at have to be in an epoch first
	}
	s.config.Logger.Info("the stream is read", "stream", st.Name, "partitions", len(st.inputs), "absent", idle)
}

// close takes note that no partition of a stream can appear any more. Those that are not there never will be.
func (s *sequencer) close(st *stream) {
	s.list(st)
	st.over = true
	for _, in := range st.inputs {
		if in.reader == nil && !in.ended {
			s.lose(in)
			s.core.End(in.id)
			in.ended, s.released = true, false
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

// starter returns the function that says where a newly found partition begins.
func (s *stream) starter(ctx context.Context) func(source.Reader, bool) (int64, error) {
	known := map[string]bool{}
	for name := range s.inputs {
		known[name] = true
	}
	return func(r source.Reader, listed bool) (int64, error) {
		if s.Start != Latest || !s.fresh || listed || known[r.Partition().Name] {
			return -1, nil
		}
		e, ok := r.(source.Ender)
		if !ok {
			return 0, errNoEnd
		}
		offset, err := e.SeekEnd(ctx)
		if err != nil {
			return 0, fmt.Errorf("go to the end: %w", err)
		}
		return offset, nil
	}
}

// errNoEnd refuses a start that a source cannot make.
var errNoEnd = fmt.Errorf("%w: the source cannot begin behind what is there: write start: earliest", ErrRefused)
