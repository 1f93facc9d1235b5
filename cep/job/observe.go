package job

import (
	"context"
	"time"

	"github.com/cepd/cepd/sinks"
)

// Observe is told how long things take, for histograms. Each function may be nil, must not block, and may be called from any
// goroutine.
type Observe struct {
	// Barrier is told how long the engine took from a barrier to its cut.
	Barrier func(took time.Duration)
	// Commit is told what the store needed for an epoch, and the bytes of the records and messages in it.
	Commit func(took time.Duration, bytes int64)
	// Publish is told what a sink needed for a batch of messages, sent or not.
	Publish func(sink string, took time.Duration, messages int, err error)
	// Swap is told how long a swap held the job up.
	Swap func(pause time.Duration)
}

// observed is a sink whose batches are timed.
type observed struct {
	sinks.Sink
	name    string
	publish func(sink string, took time.Duration, messages int, err error)
}

// Publish implements [sinks.Sink].
func (o *observed) Publish(ctx context.Context, b sinks.Batch) (sinks.Ack, error) {
	begun := time.Now()
	ack, err := o.Sink.Publish(ctx, b)
	o.publish(o.name, time.Since(begun), len(b.Messages), err)
	return ack, err
}
