package job

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/checkpoint"
)

// tellMost is for how long the end of a job waits until a source has been told where it ended: a broker answers within
// milliseconds or is away.
const tellMost = 5 * time.Second

// teller tells a source how far the job is, epoch by epoch, the newest only: a source that is slow, or away, holds nothing up.
type teller struct {
	stream *stream
	source source.Committer
	inbox  *inbox
	log    *slog.Logger
	// news is sent to when newest has changed.
	news   chan struct{}
	mu     sync.Mutex
	newest map[string]int64

	// told, and why it failed the last time, belong to the goroutine of the teller, and behind its end to the job.
	told   map[string]int64
	failed string
}

// newTeller returns a teller for a stream, nil where its source does not want to be told.
func newTeller(st *stream, inbox *inbox, log *slog.Logger) *teller {
	c, ok := st.Source.(source.Committer)
	if !ok {
		return nil
	}
	return &teller{stream: st, source: c, inbox: inbox, log: log.With("stream", st.Name), news: make(chan struct{}, 1)}
}

// tell takes note of a durable epoch.
func (t *teller) tell(positions []checkpoint.SourcePosition) {
	at := map[string]int64{}
	for _, p := range positions {
		if p.Stream == t.stream.Name {
			at[p.Partition] = p.Read
		}
	}
	t.mu.Lock()
	t.newest = at
	t.mu.Unlock()
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// telling returns the context of what sources are told in a job with a context. At an orderly end it goes on for a while: what
// is under way then has to be answered before the last position is sent, because a broker that was asked over two connections
// does not know which of the two is newer, and a request that nobody waits for is taken all the same.
func telling(ctx context.Context) (context.Context, context.CancelFunc) {
	tell, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errEnded) {
			time.AfterFunc(tellMost, cancel)
		} else {
			cancel()
		}
	})
	return tell, cancel
}

// run is the goroutine of the teller.
func (t *teller) run(ctx, tell context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.news:
			t.pass(tell)
		}
	}
}

// pass tells the source what is new.
func (t *teller) pass(ctx context.Context) {
	t.mu.Lock()
	at := t.newest
	t.mu.Unlock()
	if maps.Equal(at, t.told) {
		return
	}
	err := t.source.Committed(ctx, at)
	now := ""
	switch {
	case err == nil:
		t.told = at
	case errors.Is(ctx.Err(), context.Canceled): // the job ends, which is no news
		return
	default:
		now = err.Error()
	}
	if now == t.failed {
		return
	}
	if t.failed = now; err != nil {
		t.log.Warn("the source cannot be told how far the job is, which changes nothing for the job", "err", err)
	} else {
		t.log.Info("the source is told again how far the job is")
	}
	t.inbox.put(notice{kind: noticeTold, stream: t.stream, err: err})
}

// finish tells sources where an orderly end has left the job.
func finish(ctx context.Context, tellers []*teller) {
	var all sync.WaitGroup
	for _, t := range tellers {
		all.Go(func() { t.pass(ctx) })
	}
	all.Wait()
}
