package engine

import (
	"encoding/json"
	"errors"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/rules"
)

// Cut is what one epoch adds: all that a Core has to say about it. It belongs to whoever is handed it.
type Cut struct {
	Epoch cep.Epoch
	// Alerts are those since the barrier before, in the order of S7.1.
	Alerts []Out
	// Records are the pieces of state that have changed since, each key once.
	Records []checkpoint.Record
	// State is everything else: clocks, partitions, versions of rules.
	State json.RawMessage
	// Sources says from where each partition has to be read to go on from this epoch.
	Sources []checkpoint.SourcePosition
	// Older are the sets of rules besides the present one of which versions drain.
	Older []*rules.Set
}

// Out is an alert on its way to the sinks.
type Out struct {
	Alert *cep.Alert
	Key   cep.Key
	// Rule is the version of the rule that made it: it says where its alerts go.
	Rule *rules.Rule
}

// Saved is an epoch that a store kept.
type Saved struct {
	State json.RawMessage
	// Records calls each for every record, in any order. What it is handed is valid during the call.
	Records func(each func(checkpoint.Record) error) error
	// Older returns the set of rules with an id, compiled with the schema of the state ([SchemaOf]).
	Older func(id string) (*rules.Set, error)
}

// Barrier releases what the watermarks allow and ends an epoch there: done is handed what it adds, before Barrier returns or,
// with [Options.Parallel], from the goroutine of the back.
func (c *Core) Barrier(e cep.Epoch, done func(*Cut)) error {
	return errors.New("not there yet")
}

// SchemaOf returns the schema that a state takes for granted: the rules that go on with it must be compiled with it.
func SchemaOf(state json.RawMessage) (*cep.Schema, error) {
	return nil, errors.New("not there yet")
}

// Restore returns a Core that goes on where an epoch ended. The set is the one that ran then; [Core.Leave] and [Resume] bring
// another. Every partition then has to be read again from [Core.From].
func Restore(set *rules.Set, streams []Stream, parts *source.Partitions, o Options, s *Saved) (*Core, error) {
	return nil, errors.New("not there yet")
}

// Close ends the goroutines of [Options.Parallel] and waits for them. What was not handed out is gone.
func (c *Core) Close() {}

// Waiting is the number of alerts that wait for the next barrier. It may be called from any goroutine.
func (c *Core) Waiting() int { return 0 }

// Clock is the highest time seen in a partition, [cep.BeforeAll] before there is one: who has the lowest is to be read next.
func (c *Core) Clock(id *cep.Partition) cep.Time {
	if p := c.partition(id); p != nil {
		return p.highest
	}
	return cep.AfterAll
}

// Buffered is what waits in the order buffers of a stream: its events, and the bytes of the records that they came in.
func (c *Core) Buffered(stream string) (events int, bytes int64) { return 0, 0 }

// Lag says what holds a clock back.
type Lag struct {
	// Rules are the ids of those whose clock it is.
	Rules []string
	// Stream is the one with the least watermark, Partitions the names of those of its partitions that hold it there; none
	// where the stream has none yet.
	Stream     string
	Partitions []string
	// Watermark is that of the stream, Behind how far it lies below the highest time seen in any stream.
	Watermark cep.Time
	Behind    cep.Duration
}

// Lagging says for each clock that is behind the highest time seen what holds it back.
func (c *Core) Lagging() []Lag { return nil }
