package redissink

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cepd/cepd/sinks"
)

// racesMax bounds how often one Open tries to become the owner while others do the same. Each round has a winner, so a few
// are enough unless many instances of one job start at once, which is a mistake.
const racesMax = 20

// Sink appends messages and its position to a Redis server. It belongs to one goroutine, but for Close.
type Sink struct {
	config   Config
	client   *client
	position string
	owner    string
	source   string // of CloudEvents
	script   *redis.Script
	log      *slog.Logger

	// fence is the number under which this sink owns the position, 0 before the first Open.
	fence uint64
	// acknowledged is the sequence up to which enough replicas have confirmed.
	acknowledged uint64
	checked      bool
	emptied      bool
	retention    retention
	closing      sync.Once
	closed       error
}

var _ sinks.Sink = (*Sink)(nil)

// New returns a sink. It reports mistakes of the configuration, but reaches no server: Open does.
func New(c Config) (*Sink, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("redis sink: %w: %w", sinks.ErrStop, err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.ReplicaTimeout == 0 {
		c.ReplicaTimeout = ReplicaTimeoutDefault
	}
	if c.Source == "" {
		c.Source = sinks.Source(c.Job)
	}
	cl, err := dial(&c)
	if err != nil {
		return nil, fmt.Errorf("redis sink: %w: %w", sinks.ErrStop, err)
	}
	return &Sink{
		config: c, client: cl, position: positionKey(&c), owner: newToken(), script: emit,
		source: c.Source, log: c.Logger.With("sink", c.Name), retention: retention{age: c.MaxAge},
	}, nil
}

// positionKey names the hash of the position. Its tag puts it into the target's slot of a cluster.
func positionKey(c *Config) string {
	t, _ := tag(c.target())
	return "cepd:{" + t + "}:" + c.Job + "/" + c.Name
}

// Peek returns where the destination stands. It asks a master as every call does, which notes who asked and takes no fence.
func (s *Sink) Peek(ctx context.Context) (sinks.Progress, error) {
	if s.config.Guarantee != sinks.ExactlyOnce {
		return sinks.Progress{}, nil
	}
	at, err := s.peek(ctx)
	if err != nil {
		return sinks.Progress{}, s.failed("peek", err)
	}
	return at, nil
}

func (s *Sink) peek(ctx context.Context) (sinks.Progress, error) {
	if err := s.check(ctx); err != nil {
		return sinks.Progress{}, err
	}
	a, err := s.call(ctx, request{op: opLook})
	if err != nil {
		return sinks.Progress{}, err
	}
	if err := s.foreign(a); err != nil {
		return sinks.Progress{}, err
	}
	if a.placed || a.last == "" {
		return a.at, nil
	}
	return s.witnessed(a)
}

// check asks once whether the server is fit.
func (s *Sink) check(ctx context.Context) error {
	if s.checked {
		return nil
	}
	if err := s.checkServer(ctx); err != nil {
		return err
	}
	s.checked = true
	return nil
}

// Open makes this process the owner and returns where the destination stands.
func (s *Sink) Open(ctx context.Context) (sinks.Progress, error) {
	if err := s.check(ctx); err != nil {
		return sinks.Progress{}, s.failed("open", err)
	}
	if s.config.Guarantee != sinks.ExactlyOnce {
		return sinks.Progress{}, nil
	}
	a, err := s.own(ctx)
	if err != nil {
		return sinks.Progress{}, s.failed("open", err)
	}
	s.acknowledged = 0
	s.retention.start(a.at)
	return a.at, nil
}

// own takes the fence and finds the position: the one in the hash, else the one that the stream's last entry witnesses, else
// none.
func (s *Sink) own(ctx context.Context) (answer, error) {
	for range racesMax {
		seen, err := s.call(ctx, request{op: opLook})
		if err != nil {
			return answer{}, err
		}
		if s.fence > 0 && seen.owner != s.owner && seen.fence >= s.fence {
			return answer{}, &sinks.FencedError{Owner: seen.owner}
		}
		expected := ""
		if seen.fence > 0 {
			expected = strconv.FormatUint(seen.fence, 10)
		}
		// Above our own number too: a predecessor that wakes behind a failover that forgot us must not find a lower one.
		a, err := s.call(ctx, request{op: opOwn, fence: expected, number: max(seen.fence, s.fence) + 1})
		if err != nil {
			return answer{}, err
		}
		if a.status == statusRaced {
			continue
		}
		if a.status != statusOwned {
			return answer{}, unexpected(opOwn, a)
		}
		s.fence = a.fence
		if err := s.foreign(a); err != nil {
			return answer{}, err
		}
		if a.placed || a.last == "" {
			return a, nil
		}
		return s.recall(ctx, a)
	}
	return answer{}, fmt.Errorf("%d others became the owner of %s in the meantime; are several instances of one job running?", racesMax, s.position)
}

// recall makes what the stream says the position: its hash is gone. Where the chain is not known the caller says it.
func (s *Sink) recall(ctx context.Context, a answer) (answer, error) {
	at, err := s.witnessed(a)
	if err != nil {
		return answer{}, err
	}
	s.log.Warn("the position was gone; the stream says what it was", "position", s.position, "lineage", at.Lineage, "sequence", at.Sequence)
	if a.at = at; a.witness == "" {
		return a, nil
	}
	return s.begin(ctx, at)
}

// witnessed reads the position off the stream. Where the last entry itself is gone its chain is not known.
func (s *Sink) witnessed(a answer) (sinks.Progress, error) {
	lineage, sequence, ours := parseEntryID(a.last)
	if !ours || a.witness == noWitness {
		return sinks.Progress{}, &sinks.DivergedError{Detail: fmt.Sprintf("the stream %s has entries that cepd did not write (its last id is %s); "+
			"give cepd a stream of its own, or delete this one if its entries are no longer needed", s.config.Stream, a.last)}
	}
	at := sinks.Progress{Lineage: lineage, Sequence: sequence}
	if a.witness == "" {
		return at, nil
	}
	var err error
	if at.Chain, err = parseChain(a.witness); err != nil {
		return sinks.Progress{}, fmt.Errorf("%w: field chain of entry %s: %w", sinks.ErrStop, a.last, err)
	}
	return at, nil
}

// Begin makes p the position.
func (s *Sink) Begin(ctx context.Context, p sinks.Progress) error {
	if s.config.Guarantee != sinks.ExactlyOnce {
		return nil
	}
	a, err := s.begin(ctx, p)
	if err != nil {
		return s.failed("begin", err)
	}
	s.acknowledged = 0
	s.retention.start(a.at)
	return nil
}

func (s *Sink) begin(ctx context.Context, p sinks.Progress) (answer, error) {
	a, err := s.call(ctx, request{op: opBegin, fence: s.fenceText(), number: p.Lineage, base: p})
	if err != nil {
		return answer{}, err
	}
	if a.status == statusBegun {
		return a, nil
	}
	return answer{}, s.refused(opBegin, a)
}

// Publish appends the messages behind b.Base, or verifies that the destination stands there.
func (s *Sink) Publish(ctx context.Context, b sinks.Batch) (sinks.Ack, error) {
	if s.config.Guarantee != sinks.ExactlyOnce {
		return s.add(ctx, b)
	}
	end := b.End()
	if end.Sequence > sequenceMax || end.Lineage >= lineageMax {
		return sinks.Ack{}, fmt.Errorf("publish: %w: lineage %d, sequence %d: beyond what the server counts exactly", sinks.ErrStop, end.Lineage, end.Sequence)
	}
	a, err := s.call(ctx, request{op: opAppend, fence: s.fenceText(), number: b.Base.Lineage, base: b.Base, messages: b.Messages, minID: s.retention.minID(b.Base.Lineage)})
	if err != nil {
		return sinks.Ack{}, s.failed("publish", err)
	}
	if a.status == statusOK || a.status == statusDup {
		return s.published(a, len(b.Messages)), nil
	}
	return sinks.Ack{}, s.failed("publish", s.refused(opAppend, a))
}

// published notes what an answer that confirms says beside.
func (s *Sink) published(a answer, count int) sinks.Ack {
	if s.config.Replicas == 0 {
		s.acknowledged = a.at.Sequence
	}
	s.troubled(a)
	// The answer to the first batch behind a deletion still shows that the stream was not there.
	emptied := s.config.Stream != "" && a.last == "" && a.at.Sequence > uint64(count)
	if emptied && !s.emptied {
		s.log.Warn("somebody deleted the stream; what it held is not sent again", "stream", s.config.Stream, "sequence", a.at.Sequence)
	}
	s.emptied = emptied
	s.retention.note(a.at)
	return sinks.Ack{Published: a.at, Acknowledged: s.acknowledged}
}

// add appends the messages without a position. With an empty batch it only finds out whether the server answers.
func (s *Sink) add(ctx context.Context, b sinks.Batch) (sinks.Ack, error) {
	ack := sinks.Ack{Published: b.End(), Acknowledged: b.End().Sequence}
	r := request{op: opAdd, messages: b.Messages}
	if s.config.MaxAge > 0 {
		r.minID = strconv.FormatInt(time.Now().Add(-s.config.MaxAge).UnixMilli(), 10) // the ids are times
	}
	a, err := s.call(ctx, r)
	if err != nil {
		return sinks.Ack{}, s.failed("publish", err)
	}
	if a.status != statusOK {
		return sinks.Ack{}, s.failed("publish", unexpected(opAdd, a))
	}
	s.troubled(a)
	return ack, nil
}

func (s *Sink) troubled(a answer) {
	if a.trouble != "" {
		s.log.Warn("the server refused to trim or publish; the messages stand", "err", a.trouble)
	}
}

// refused says what an answer means that changed nothing.
func (s *Sink) refused(op operation, a answer) error {
	switch a.status {
	case statusGap, statusAhead:
		return s.stands(a.at)
	case statusFenced:
		// A number below ours is no successor: he would have counted on from ours.
		return &sinks.FencedError{Owner: a.owner, Forgotten: a.fence < s.fence}
	case statusGone:
		return &sinks.FencedError{Forgotten: true}
	case statusDiverged:
		return &sinks.DivergedError{At: a.at, Detail: "its chain of ids is " + a.at.Chain.String()}
	case statusForeign:
		return s.foreignError(a)
	default:
		return unexpected(op, a)
	}
}

// stands says where the destination is. What replicas confirmed above that is gone.
func (s *Sink) stands(at sinks.Progress) error {
	s.acknowledged = min(s.acknowledged, at.Sequence)
	return &sinks.StandsError{At: at}
}

// foreign says whether somebody else appends to the stream.
func (s *Sink) foreign(a answer) error {
	if !a.placed || a.last == "" {
		return nil
	}
	lineage, sequence, ours := parseEntryID(a.last)
	if ours && (lineage < a.at.Lineage || lineage == a.at.Lineage && sequence <= a.at.Sequence) {
		return nil
	}
	return s.foreignError(a)
}

func (s *Sink) foreignError(a answer) error {
	return &sinks.DivergedError{At: a.at, Detail: fmt.Sprintf("somebody else appends to the stream %s, whose last id is %s; give cepd a stream of its own", s.config.Stream, a.last)}
}

func unexpected(op operation, a answer) error {
	return fmt.Errorf("%w: the script answered %q to %s", sinks.ErrStop, a.status, op)
}

func (s *Sink) fenceText() string { return strconv.FormatUint(s.fence, 10) }

// failed wraps an error with the operation and the place.
func (s *Sink) failed(what string, err error) error {
	if c, advice := classify(err); c == classStop {
		err = fmt.Errorf("%w: %w (%s)", sinks.ErrStop, err, advice)
	}
	return fmt.Errorf("redis sink %s: %s %s: %w", s.config.Name, what, s.config.target(), err)
}

// Close closes the connections. The position and its owner stay.
func (s *Sink) Close() error {
	s.closing.Do(func() { s.closed = s.client.close() })
	return s.closed
}
