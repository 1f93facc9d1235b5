package kafkasink

import (
	"context"
	"errors"

	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/sinks"
)

// write sends messages without a transaction and a position. What has arrived of a batch that failed is not known: all of it
// is sent again.
func (s *Sink) write(ctx context.Context, b sinks.Batch) (sinks.Ack, error) {
	ack := sinks.Ack{Published: b.Base, Acknowledged: b.Base.Sequence}
	switch {
	case s.closed.Load():
		return ack, kafkawire.ErrClosed
	case ctx.Err() != nil:
		return ack, ctx.Err()
	case len(b.Messages) == 0 || !s.known: // a probe looks for new partitions too
		if err := s.find(ctx); err != nil {
			return ack, err
		}
	}
	if len(b.Messages) == 0 {
		return ack, nil
	}
	err := s.client.Write(ctx, s.batches(b.Messages, b.Base.Lineage))
	if errors.Is(err, kafkawire.CodeMessageTooLarge) || errors.Is(err, kafkawire.CodeRecordListTooLarge) {
		return s.writeEach(ctx, b)
	}
	if err != nil {
		s.known = false
		return ack, err
	}
	end := b.End()
	return sinks.Ack{Published: end, Acknowledged: end.Sequence}, nil
}

// writeEach sends messages one by one, up to the one that is too large for the topic.
func (s *Sink) writeEach(ctx context.Context, b sinks.Batch) (sinks.Ack, error) {
	done := b.Base
	for i := range b.Messages {
		m := &b.Messages[i]
		err := s.client.Write(ctx, s.batches(b.Messages[i:i+1], b.Base.Lineage))
		if errors.Is(err, kafkawire.CodeMessageTooLarge) || errors.Is(err, kafkawire.CodeRecordListTooLarge) {
			err = &sinks.RejectedError{Sequence: m.Sequence, Reason: err.Error() + "; " + adviceSize}
		}
		if err != nil {
			return sinks.Ack{Published: done, Acknowledged: done.Sequence}, err
		}
		done.Sequence, done.Chain = m.Sequence, m.Chain
	}
	return sinks.Ack{Published: done, Acknowledged: done.Sequence}, nil
}
