package job

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
)

// lossEvery is how often the log says how many events of a stream take no part for one reason, while they become more.
const lossEvery = time.Minute

// loss is why events of a stream take no part.
type loss struct{ stream, reason string }

// lossNamed is what the log has said of a loss, and when.
type lossNamed struct {
	count uint64
	at    time.Time
}

// nameLosses names why events take no part: each reason of a stream when it is met first, and how many there are while they
// become more.
func (s *sequencer) nameLosses(streams []engine.StreamSummary) {
	for i := range streams {
		st, before := &streams[i], &s.before[i]
		s.nameLoss(st, engine.ReasonLate, st.Late-before.Late)
		s.nameLoss(st, engine.ReasonReturned, st.Returned-before.Returned)
		s.nameLoss(st, engine.ReasonFuture, st.Future-before.Future)
		for _, kind := range slices.Sorted(maps.Keys(st.Bad)) {
			if kind != codec.NoValue.String() { // a key that was deleted is nothing that is missing
				s.nameLoss(st, kind, st.Bad[kind]-before.Bad[kind])
			}
		}
	}
}

func (s *sequencer) nameLoss(st *engine.StreamSummary, reason string, n uint64) {
	of := loss{st.Name, reason}
	named, known := s.losses[of]
	if n == named.count || known && s.now.Sub(named.at) < lossEvery {
		return
	}
	s.losses[of] = lossNamed{n, s.now}
	args := []any{"stream", st.Name, "reason", reason, "total", n}
	if !known && strings.Contains(st.FirstBad, reason) { // the first of the stream, which may be one of another kind
		args = append(args, "first_bad", st.FirstBad)
	}
	s.config.Logger.Warn("events take no part", args...)
}
