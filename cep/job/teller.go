package job

import (
	"context"
	"log/slog"
	"maps"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/checkpoint"
)

// teller tells a source how far the job is, epoch by epoch, the newest only: a source that is slow, or away, holds nothing up.
type teller struct {
	stream *stream
	source source.Committer
	inbox  *inbox
	log    *slog.Logger
	// news has room for one; the committer alone sends, and takes back what nobody has taken.
	news chan map[string]int64
}

// newTeller returns a teller for a stream, nil where its source does not want to be told.
func newTeller(st *stream, inbox *inbox, log *slog.Logger) *teller {
	c, ok := st.Source.(source.Committer)
	if !ok {
		return nil
	}
	return &teller{stream: st, source: c, inbox: inbox, log: log.With("stream", st.Name), news: make(chan map[string]int64, 1)}
}

// tell takes note of a durable epoch.
func (t *teller) tell(positions []checkpoint.SourcePosition) {
	at := map[string]int64{}
	for _, p := range positions {
		if p.Stream == t.stream.Name {
			at[p.Partition] = p.Read
		}
	}
	select {
	case <-t.news:
	default:
	}
	t.news <- at
}

// run is the goroutine of the teller. It ends when the source brings nothing any more.
func (t *teller) run(ctx context.Context) error {
	var told map[string]int64
	failed := ""
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.stream.unwatched:
			return nil
		case at := <-t.news:
			if maps.Equal(at, told) {
				continue
			}
			select {
			case <-t.stream.unwatched:
				return nil
			default:
			}
			err := t.source.Committed(ctx, at)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			now := ""
			if err == nil {
				told = at
			} else {
				now = err.Error()
			}
			if now == failed {
				continue
			}
			if failed = now; err != nil {
				t.log.Warn("the source cannot be told how far the job is, which changes nothing for the job", "err", err)
			} else {
				t.log.Info("the source is told again how far the job is")
			}
			t.inbox.put(notice{kind: noticeTold, stream: t.stream, err: err})
		}
	}
}
