package job

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/sinks"
)

// Defaults of a Config.
const (
	// IntervalDefault is the time between epochs while no alert waits: what a crash costs is reading that much again.
	IntervalDefault = time.Second
	// AheadCountDefault and AheadBytesDefault are what may wait in the order buffers of a stream: the events of some
	// seconds at full speed, and less memory than the state of a busy rule.
	AheadCountDefault = 1 << 20
	AheadBytesDefault = 64 << 20
	// OutboxBytesDefault and OutboxCountDefault are what may wait for a sink: a day at ten alerts a second.
	OutboxBytesDefault = 1 << 30
	OutboxCountDefault = 1 << 20
)

// Limit bounds a number of things and the bytes they take; what is 0 has the default.
type Limit struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
}

// reached reports whether n things of so many bytes are at the limit.
func (l Limit) reached(n int, bytes int64) bool { return n >= l.Count || bytes >= l.Bytes }

func (l Limit) or(count int, bytes int64) Limit {
	if l.Count == 0 {
		l.Count = count
	}
	if l.Bytes == 0 {
		l.Bytes = bytes
	}
	return l
}

// Start is where a partition is read from that no epoch knows, when the job has never run before.
type Start uint8

// The starts.
const (
	Earliest Start = iota // at its beginning
	Latest                // behind what is there
	At                    // at the first record of a time or later
)

// OnFull says what becomes of alerts for which a sink's outbox has no room.
type OnFull uint8

// What a full outbox leads to.
const (
	Pause      OnFull = iota // nothing is read until there is room
	DeadLetter               // the alert becomes a message of the sink for dead letters
)

// Stream is an input.
type Stream struct {
	engine.Stream
	Source source.Source
	// Time says which field is the time. With Arrival it is instead when the record came in, which the source must have
	// noted: a record that says nothing of it is refused.
	Time    codec.TimeSpec
	Arrival bool
	// Idle is how long a partition is silent before the stream no longer waits for it. 0: it waits for ever, and time stands
	// still while it does.
	Idle time.Duration
	// Ahead is how much may wait in the order buffers for partitions that lag behind.
	Ahead Limit
	// Late names the sink that events are sent to which come too late; "": they are only counted.
	Late string
	// Start is where partitions are read from on a first start, StartAt the time for At. Where others have left off for the job
	// goes before (source.Resumer).
	Start   Start
	StartAt cep.Time
	// EventSize is the size of the largest event; that of package codec where it is 0.
	EventSize int
}

// Sink is an output.
type Sink struct {
	Name      string
	Sink      sinks.Sink
	Guarantee sinks.Guarantee
	// All says that the sink takes the alerts of all rules that name no sink of their own.
	All       bool
	OnFull    OnFull
	OutboxMax Limit
	// BatchMax, BytesMax, Grace and ProbeEvery are handed on to the publisher, which has defaults.
	BatchMax, BytesMax int
	Grace, ProbeEvery  time.Duration
}

// Config says what to run. What it brings (store, sinks, sources) belongs to the caller, who closes it after [Job.Run] has
// returned.
type Config struct {
	// Name is the one under which sinks know the job.
	Name  string
	Rules *rules.Set
	// Streams stand in the order that decides between events of one time. Partitions gave out those of their sources.
	Streams    []Stream
	Partitions *source.Partitions
	Sinks      []Sink
	// DeadLetters names the sink that takes records which are no events, and what another sink had no room for or refused;
	// "": these are only counted.
	DeadLetters string
	Store       checkpoint.Store
	// Shards is the number of goroutines that run rules; 0: one for each processor. Output does not depend on it.
	Shards int
	// Interval is the longest time between two epochs while anything happens.
	Interval time.Duration
	// Once ends the job at the end of its inputs, moving time on by Advance; [engine.ToEnd] behind every deadline.
	Once    bool
	Advance cep.Duration
	// NewLineage begins a new history at the sinks: an older epoch was restored on purpose.
	NewLineage bool
	// AcceptGap starts although it cannot be shown that nothing is lost, AcceptRepeat although alerts may go out again.
	AcceptGap, AcceptRepeat bool
	// Logger is told of what happens to the job as a whole; nil: nobody is.
	Logger *slog.Logger
	// Committed is told of the alerts of each epoch once it is durable, epoch after epoch, in one goroutine, those that no sink
	// takes among them. It must not block. Nil: nobody wants to know.
	Committed func(epoch cep.Epoch, alerts []*cep.Alert)
	// Observe is told how long things take.
	Observe Observe
	// Failpoint is called at each of the [Failpoints], in the goroutine that does the step; nil in production.
	Failpoint func(point string)
}

// complete fills in defaults and returns everything that is wrong.
func (c *Config) complete() error {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Failpoint == nil {
		c.Failpoint = func(string) {}
	}
	if c.Interval <= 0 {
		c.Interval = IntervalDefault
	}
	if c.Shards <= 0 {
		c.Shards = runtime.GOMAXPROCS(0)
	}
	c.Shards = min(c.Shards, checkpoint.Slots)
	c.Streams, c.Sinks = slices.Clone(c.Streams), slices.Clone(c.Sinks)
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		wrong("the job has no name")
	}
	if c.Rules == nil || c.Store == nil || c.Partitions == nil {
		wrong("rules, store and partitions must be given")
	}
	if len(c.Streams) == 0 {
		wrong("there is no stream to read")
	}
	names := map[string]bool{}
	for i := range c.Sinks {
		s := &c.Sinks[i]
		switch {
		case s.Name == "" || s.Sink == nil:
			wrong("sink %d has no name or no destination", i+1)
		case names[s.Name]:
			wrong("sink %s is there twice", s.Name)
		case s.OnFull == DeadLetter && (c.DeadLetters == "" || c.DeadLetters == s.Name):
			wrong("sink %s: on_full: dead_letter needs dead_letters: name another sink there, or write on_full: pause", s.Name)
		}
		names[s.Name] = true
		s.OutboxMax = s.OutboxMax.or(OutboxCountDefault, OutboxBytesDefault)
	}
	known := func(what, name string) {
		if name != "" && !names[name] {
			wrong("%s: there is no sink %q", what, name)
		}
	}
	known("dead_letters", c.DeadLetters)
	for i := range c.Streams {
		s := &c.Streams[i]
		if s.Source == nil {
			wrong("stream %s has no source", s.Name)
		}
		known("stream "+s.Name+": late", s.Late)
		s.Ahead = s.Ahead.or(AheadCountDefault, AheadBytesDefault)
		if s.EventSize <= 0 {
			s.EventSize = codec.MaxSize
		}
	}
	if c.Rules != nil {
		errs = append(errs, c.unaddressed(c.Rules)...)
	}
	return errors.Join(errs...)
}

// unaddressed are the rules whose alerts go to sinks that are not there.
func (c *Config) unaddressed(set *rules.Set) (errs []error) {
	names := c.sinkNames()
	for _, r := range set.Rules {
		for _, to := range r.Alert.To {
			if !slices.Contains(names, to) {
				errs = append(errs, fmt.Errorf("rule %s: to: there is no sink %q; there are %s", r.ID, to, strings.Join(names, ", ")))
			}
		}
	}
	return errs
}

func (c *Config) sinkNames() []string {
	list := make([]string, len(c.Sinks))
	for i := range c.Sinks {
		list[i] = c.Sinks[i].Name
	}
	return list
}
