package sim

import (
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/sinks"
)

// sinkTopic is the sink of a job that reads and writes topics, beside those of every job.
const sinkTopic = "topic"

// queue is a cluster that a job reads its input from, and writes its alerts to too.
type queue interface {
	// attach makes it part of a world, which decides what breaks.
	attach(w *world)
	// source and sink are those of a life. What its process had open is cut when it is killed.
	source(l *life, stream string, parts *source.Partitions) (source.Source, error)
	sink(l *life) (sinks.Sink, error)
	cut(l *life)
	// calm ends all faults.
	calm()
	// messages are those that a reader of committed records was given.
	messages() []sinks.Message
}

// wire replaces the input of a stream by a topic, where there is a queue.
func (l *life) wire(in *input) (source.Source, error) {
	if q := l.world.options.queue; q != nil {
		return q.source(l, in.stream, in.parts)
	}
	return in, nil
}
