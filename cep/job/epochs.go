package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/sinks"
)

// barrierDue says when the next epoch is to begin; not due: nothing has happened that would be worth one, or another is under
// way. idle says that there is nothing to read: then an epoch takes no time from events.
func (s *sequencer) barrierDue(idle bool) (at time.Time, due bool) {
	if s.flight != nil || s.rereading > 0 && s.phase == phaseReading && len(s.replies) == 0 && !s.asked {
		return at, false
	}
	switch {
	case s.asked || s.core.Waiting() >= alertsMax || s.letterBytes >= letterBytesMax:
		return s.now, true
	case s.core.Waiting() > 0 || len(s.letters) > 0:
		wait := max(cadenceLeast, cadenceFactor*s.lastTook)
		if idle {
			wait = max(cadenceLeast, s.lastTook)
		}
		return s.lastBarrier.Add(min(wait, s.config.Interval)), true
	case s.dirty:
		return s.lastBarrier.Add(s.config.Interval), true
	}
	return at, false
}

// barrier begins an epoch.
func (s *sequencer) barrier() error {
	s.config.Failpoint(PointBarrier)
	e, err := s.coordinator.Begin()
	if err != nil {
		return err
	}
	f := &flight{epoch: e, begun: time.Now(), set: s.set, swapped: s.swapped, coordinator: s.coordinator, letters: s.letters, replies: s.replies, memory: s.remember()}
	f.replies = append(f.replies, s.epochs...)
	for _, st := range s.streams {
		if st.held && st.listed {
			f.held = append(f.held, st)
		}
	}
	s.flight, s.lastBarrier = f, s.now
	s.letters, s.letterBytes, s.replies, s.epochs = nil, 0, nil, nil
	s.dirty, s.asked, s.released, s.swapped = false, false, true, false
	err = s.core.Barrier(e, func(cut *engine.Cut) {
		f.cut = cut
		s.flights <- f // there is room: only one is under way
	})
	if err != nil {
		return fmt.Errorf("barrier of epoch %d: %w", e, err)
	}
	return nil
}

// remember returns what the job itself has to keep.
func (s *sequencer) remember() memory {
	m := memory{Streams: map[string]*streamMemory{}}
	for _, st := range s.streams {
		r := &streamMemory{Listed: st.listed || !st.fresh, Passed: st.read.Round(0)}
		if !st.ticked.IsZero() {
			r.Passed = st.ticked.Round(0)
		}
		for name, in := range st.starts {
			if in.read > 0 {
				delete(st.starts, name)
				continue
			}
			if r.Starts == nil {
				r.Starts = map[string]int64{}
			}
			r.Starts[name] = in.from
		}
		if len(st.identities) > 0 {
			r.Identities = maps.Clone(st.identities)
		}
		m.Streams[st.Name] = r
	}
	return m
}

// committed takes note that the epoch under way is durable.
func (s *sequencer) committed(f *flight) {
	if s.failing != nil {
		s.config.Logger.Info("the epoch is durable after all", "epoch", f.epoch, "after", s.now.Sub(s.failingFrom))
	}
	s.flight, s.failing, s.newest = nil, nil, f.epoch
	s.lastTook, s.lastDone = f.took, f.done
	s.tally.add(f.tally)
	s.durable.Store(f.set)
	for _, reply := range f.replies {
		reply <- answer{epoch: f.epoch}
	}
	for _, st := range f.held {
		st.held = false
	}
	for _, o := range s.outlets {
		s.dirty = s.dirty || o.outbox.behind()
	}
	s.measure()
	s.config.Logger.Debug("epoch committed", "epoch", f.epoch, "alerts", f.tally.Alerts, "took", f.took)
}

// advance takes the job from one phase to the next. Ended says that it is at its orderly end.
func (s *sequencer) advance(ctx context.Context) (ended bool, err error) {
	quiet := s.flight == nil && !s.asked && len(s.letters) == 0
	switch s.phase {
	case phaseReading:
		exhausted := s.config.Once && s.exhausted()
		if !s.draining && !exhausted {
			return false, nil
		}
		s.stop()
		if exhausted && !s.draining {
			s.core.Finish(s.config.Advance)
		}
		s.config.Logger.Info("nothing is read any more; the last epoch follows")
		s.config.Failpoint(PointStopping)
		s.phase, s.asked = phaseClosing, true
	case phaseClosing:
		if quiet {
			s.await()
			s.phase = phasePublishing
		}
	case phasePublishing: // the notice of the sinks takes it further
	case phaseSettling:
		if quiet {
			s.config.Failpoint(PointEnded)
			return true, nil
		}
	}
	return false, ctx.Err()
}

// await has the sequencer told once everything that is committed is published.
func (s *sequencer) await() {
	epoch := s.coordinator.Newest()
	s.spawn("waiting for the sinks", func(ctx context.Context) error {
		var errs []error
		for _, o := range s.outlets {
			err := o.publisher.Drained(ctx)
			if ahead, ok := errors.AsType[*sinks.AheadError](err); ok {
				// Nothing is lost: the destination has it, or more alerts have to come before anybody can say.
				s.config.Logger.Warn("the destination is ahead of the job at its end", "sink", o.Name, "err", ahead)
				continue
			}
			errs = append(errs, err)
		}
		if ctx.Err() == nil {
			s.inbox.put(notice{kind: noticePublished, epoch: epoch, err: errors.Join(errs...)})
		}
		return nil
	})
}

// sent takes note that the sinks have sent what an epoch and those before it brought.
func (s *sequencer) sent(n *notice) error {
	if n.err != nil {
		return fmt.Errorf("publish what is committed: %w", n.err)
	}
	if s.flight != nil || len(s.letters) > 0 || n.epoch != s.coordinator.Newest() {
		s.phase = phaseClosing // a sink has refused a message meanwhile, and its dead letter has to go out too
		return nil
	}
	s.config.Failpoint(PointPublished)
	s.phase = phaseSettling
	for _, o := range s.outlets {
		s.asked = s.asked || o.outbox.behind()
	}
	return nil
}

// exhausted reports whether there is nothing more to read.
func (s *sequencer) exhausted() bool {
	for _, st := range s.streams {
		if !st.over || !st.listed || st.open > 0 {
			return false
		}
	}
	return true
}
