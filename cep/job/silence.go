package job

import (
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
)

// heldAfter is how long time must stand still for rules while others wait in the order buffer before the partition that
// holds it back is named: longer than any pause that goes by itself, and far below the default of idle.
const heldAfter = 5 * time.Second

// lag is what holds a stream, or those that share rules with it, back.
type lag struct {
	engine.Lag
	since time.Time
	named bool
}

// look looks for silence: partitions that are idle, streams in which time passes all the same, partitions that hold others
// back.
func (s *sequencer) look() {
	every := lookEvery
	for _, st := range s.streams {
		if st.Idle > 0 {
			every = min(every, max(st.Idle/4, lookLeast))
		}
	}
	if late := s.now.Sub(s.nextLook); late >= every {
		s.stoodStill(late)
	}
	s.nextLook = s.now.Add(every)
	if s.phase != phaseReading {
		return
	}
	for _, st := range s.streams {
		if st.listed && st.Idle > 0 {
			s.findIdle(st)
			s.tick(st)
		}
	}
	s.watch()
	if !s.now.Before(s.nextLosses) {
		s.nextLosses = s.now.Add(lookEvery)
		s.nameLosses(s.core.Streams())
	}
	if !s.now.Before(s.nextReview) {
		s.nextReview = s.now.Add(reviewEvery)
		s.review()
	}
}

// stoodStill takes note that the job itself did not run for a while, as a process that is stopped, or one of many on a machine that
// has too much to do. Nobody looked at the sources then: it was no silence, and what was idle may have more. Time is told of it once
// that is known.
func (s *sequencer) stoodStill(late time.Duration) {
	for _, st := range s.streams {
		if !st.listed || st.Idle <= 0 {
			continue
		}
		for _, in := range st.inputs {
			if in.idle && !in.ended && in.reader != nil && in.failed == nil {
				in.idle, in.wasIdle, in.silence = false, false, s.now.Add(-st.Idle)
				s.core.Open(in.id)
			}
			if in.silence = in.silence.Add(late); in.silence.After(s.now) {
				in.silence = s.now
			}
		}
	}
}

// reviewEvery is how often rules are looked at: a summary waits until the shards have worked off what they were given.
const reviewEvery = 10 * time.Second

// review names rules that have been disabled.
func (s *sequencer) review() {
	if s.core.Err() != nil {
		return
	}
	for _, r := range s.core.Summary().Rules {
		if r.Disabled != "" && !s.disabled[r.ID] {
			s.disabled[r.ID] = true
			s.config.Logger.Error("a rule is disabled", "rule", r.ID, "reason", r.Disabled)
		}
	}
}

// findIdle takes out the partitions that have been silent for too long. One that is read again, or has something that waits
// to be taken, is not silent.
func (s *sequencer) findIdle(st *stream) {
	for _, in := range st.inputs {
		away := in.reader == nil || in.failed != nil
		if in.idle || in.ended || in.ready || in.rereading && !away || s.now.Sub(in.silence) < st.Idle && !in.stillIdle() {
			continue
		}
		if in.severed() { // nobody knows whether it is silent
			in.silence = s.now
			continue
		}
		s.lose(in)
		s.core.Idle(in.id)
		in.idle, s.released = true, false
		s.config.Logger.Info("a partition is idle: its stream no longer waits for it", "stream", st.Name, "partition", in.name(),
			"silent", s.now.Sub(in.silence))
	}
}

// stillIdle reports that a partition which was idle before the job began has nothing that came meanwhile: it need not be silent
// once more for as long as it takes.
func (in *input) stillIdle() bool {
	if l, ok := in.reader.(source.Lagger); ok && in.wasIdle {
		end, known := l.End()
		return known && end <= max(in.read, in.again)
	}
	return false
}

// tick tells the engine that time passes in a stream of which every partition is idle: first all the time since its last
// event was read, then what has passed since the tick before. What has ended counts as idle once it has been silent for as long:
// where a log goes on may not have been found yet.
func (s *sequencer) tick(st *stream) {
	if len(st.inputs) == 0 || st.over && st.open == 0 {
		return
	}
	for _, in := range st.inputs {
		if in.severed() { // what is there and not heard of must not be late: this time does not count
			if !st.ticked.IsZero() {
				st.ticked = s.now
			}
			return
		}
		if !in.idle && (!in.ended || !st.over && s.now.Sub(in.silence) < st.Idle) {
			return
		}
	}
	since := st.ticked
	if since.IsZero() {
		since = st.read
	}
	st.ticked = s.now
	if passed := s.now.Sub(since); passed > 0 && !since.IsZero() {
		s.noteReleased(st)
		s.core.Tick(st.Name, passed)
		s.released = false
	}
}

// noteReleased has an epoch know that silence has released the last of what was read: what that came from may be gone at the next
// start, long before anything else happens.
func (s *sequencer) noteReleased(st *stream) {
	for _, in := range st.inputs {
		if !in.unreleased {
			continue
		}
		if _, in.unreleased = s.core.Unreleased(in.id); !in.unreleased {
			s.dirty = true
		}
	}
}

// severed says that the source of the input cannot hear of what comes.
func (in *input) severed() bool {
	v, ok := in.reader.(source.Severed)
	return ok && v.Severed()
}

// watch names what holds streams back, once it has for a while, and again when it is over.
func (s *sequencer) watch() {
	held := map[string]*lag{}
	for _, l := range s.core.Lagging() {
		// A stream alone lags by its lateness; what lags by more waits for a partition.
		st := s.stream(l.Stream)
		if st == nil || held[l.Stream] != nil || l.Behind <= st.Lateness+1 && l.Watermark != cep.BeforeAll {
			continue
		}
		held[l.Stream] = &lag{Lag: l, since: s.now}
	}
	for _, st := range s.streams {
		l := held[st.Name]
		if l != nil && st.lag != nil && l.Watermark == st.lag.Watermark {
			l.since, l.named = st.lag.since, st.lag.named
		} else if st.lag != nil && st.lag.named {
			s.config.Logger.Info("the stream is no longer held back", "stream", st.Name, "after", s.now.Sub(st.lag.since))
		}
		st.lag = l
		if l != nil && !l.named && s.now.Sub(l.since) >= heldAfter {
			l.named = true
			s.config.Logger.Warn("the stream is held back", "stream", st.Name, "partitions", s.names(st, l.Partitions), "rules", l.Rules,
				"watermark", l.Watermark, "behind", l.Behind)
		}
	}
}

// namesMax is the number of partitions or rules that a line of the log names: the first few say where to look.
const namesMax = 8

// names returns what users call partitions.
func (s *sequencer) names(st *stream, partitions []string) []string {
	var list []string
	for _, p := range partitions[:min(len(partitions), namesMax)] {
		if in := st.inputs[p]; in != nil {
			p = in.name()
		}
		list = append(list, p)
	}
	return list
}

func (s *sequencer) stream(name string) *stream {
	for _, st := range s.streams {
		if st.Name == name {
			return st
		}
	}
	return nil
}

// name is what users call the partition.
func (in *input) name() string {
	if in.reader != nil {
		return in.reader.Name()
	}
	return in.id.Name
}
