package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/sinks"
)

const (
	// racesMax bounds how often one Open tries to become the owner while others do the same. Each round has a winner, so a
	// few are enough unless many instances of one job start at once, which is a mistake.
	racesMax = 20
	// raceSpread is the longest pause between two of these: a take-over takes some milliseconds.
	raceSpread = 100 * time.Millisecond
)

// Sink writes messages and its position to a cluster. It belongs to one goroutine, but for Close.
type Sink struct {
	config Config
	client *kafkawire.Client
	id     string // the transactional id, and the key of the position
	source string // of CloudEvents
	log    *slog.Logger

	// topic is what alerts are written to and letters what letters are, found at Open and again after a failure; known says
	// that they are. messageMax is how large a batch of either may be. checked says that the topics were found once.
	topic, letters kafkawire.Topic
	known, checked bool
	messageMax     int
	// producer writes transactions to these topics: that of the position, of alerts and of letters; nil before Open.
	producer *kafkawire.Producer
	topics   [3]kafkawire.TopicID
	// at is the position at the cluster, and settled says that it is known: no transaction has ended in doubt since.
	at            position
	open, settled bool
	// fenced is why this sink writes nothing before another Open.
	fenced error
	random *rand.Rand
	closed atomic.Bool
}

var _ sinks.Sink = (*Sink)(nil)

// New returns a sink. It reports mistakes of the configuration, but reaches no broker: Open does.
func New(c Config) (*Sink, error) {
	if c.ProgressTopic == "" {
		c.ProgressTopic = ProgressTopicDefault
	}
	if c.TransactionTimeout == 0 {
		c.TransactionTimeout = TransactionTimeoutDefault
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("kafka sink: %w: %w", sinks.ErrStop, err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Source == "" {
		c.Source = sinks.Source(c.Job)
	}
	client, err := kafkawire.NewClient(c.Cluster)
	if err != nil {
		return nil, fmt.Errorf("kafka sink: %w: %w", sinks.ErrStop, err)
	}
	return &Sink{
		config: c, client: client, id: c.Job + "/" + c.Name, source: c.Source, log: c.Logger.With("sink", c.Name),
		random: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)), // two processes must not be in step
	}, nil
}

// Peek returns where the destination stands, as a reader of committed records finds it: nothing is asked of the transactional
// id, and no topic is made.
func (s *Sink) Peek(ctx context.Context) (sinks.Progress, error) {
	if s.config.Guarantee != sinks.ExactlyOnce {
		return sinks.Progress{}, nil
	}
	at, err := s.peek(ctx)
	if err != nil {
		return sinks.Progress{}, s.failed("peek", s.unusable(ctx, err))
	}
	return at, nil
}

func (s *Sink) peek(ctx context.Context) (sinks.Progress, error) {
	if s.closed.Load() {
		return sinks.Progress{}, kafkawire.ErrClosed
	}
	for _, name := range []string{s.config.Topic, s.config.LettersTopic} {
		if name == "" {
			continue
		}
		if _, _, err := s.existing(ctx, name); err != nil {
			return sinks.Progress{}, err
		}
	}
	t, there, err := s.existing(ctx, s.config.ProgressTopic)
	if err != nil || !there {
		return sinks.Progress{}, err
	}
	if err := s.compacted(ctx, t.Name); err != nil {
		return sinks.Progress{}, err
	}
	stored, _, err := s.client.Progress(ctx, t, progressPartition, s.id)
	if err != nil {
		return sinks.Progress{}, err
	}
	at, err := s.stored(stored)
	return at.progress(), err
}

// Open takes the transactional id over and returns where the destination stands. The order matters: a position that is read
// before would be that of a predecessor whose last transaction is not over.
func (s *Sink) Open(ctx context.Context) (sinks.Progress, error) {
	at, err := s.own(ctx)
	if err != nil {
		return sinks.Progress{}, s.failed("open", s.unusable(ctx, err))
	}
	return at, nil
}

// unusable makes an error that stops of one that is met before anything was found at the cluster, and that does not pass: a
// certificate, a port, a name. No start goes on before it is mended.
func (s *Sink) unusable(ctx context.Context, err error) error {
	if !s.checked && !kafkawire.Retriable(err) && !sinks.Permanent(err) && ctx.Err() == nil && !s.closed.Load() {
		return fmt.Errorf("%w: %w", sinks.ErrStop, err)
	}
	return err
}

func (s *Sink) own(ctx context.Context) (sinks.Progress, error) {
	if s.closed.Load() {
		return sinks.Progress{}, kafkawire.ErrClosed
	}
	s.open, s.settled, s.known, s.fenced = false, false, false, nil
	if err := s.find(ctx); err != nil {
		return sinks.Progress{}, err
	}
	if s.config.Guarantee != sinks.ExactlyOnce {
		s.open, s.checked = true, true
		return sinks.Progress{}, nil
	}
	if err := s.findProgress(ctx); err != nil {
		return sinks.Progress{}, err
	}
	s.checked = true
	stored, err := s.takeOver(ctx)
	if err != nil {
		return sinks.Progress{}, err
	}
	if err := s.settle(stored); err != nil {
		return sinks.Progress{}, err
	}
	s.open = true
	s.remade()
	return s.at.progress(), nil
}

// takeOver becomes the owner. Others that do the same at once may win in between; the last one to come stays.
func (s *Sink) takeOver(ctx context.Context) ([]byte, error) {
	for round := 1; ; round++ {
		stored, err := s.producer.Open(ctx)
		_, fenced := errors.AsType[*kafkawire.FencedError](err)
		if !fenced && !errors.Is(err, kafkawire.CodeUnknownServer) { // the answer to an end of a transaction that races a fence
			return stored, err
		}
		if round == racesMax { // the last winner is no reason to stop for ever: its error is not wrapped
			return nil, fmt.Errorf("%d times another instance became the owner of %s meanwhile; are several instances of one job running? (%s)", round, s.id, err.Error())
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(s.random.Int64N(int64(raceSpread)))): // apart, so that one of them gets through
		}
	}
}

// remade tells of a topic that is not the one whose position stands.
func (s *Sink) remade() {
	if s.at.Sequence > 0 && s.at.Topic == s.topic.Name && s.at.TopicID != s.topic.ID.String() {
		s.log.Warn("the topic was deleted and made again; what it held is not sent again", "topic", s.topic.Name, "through", s.at.Sequence)
	}
}

// settle takes what stands at the cluster for the position.
func (s *Sink) settle(stored []byte) error {
	at, err := s.stored(stored)
	if err != nil {
		return err
	}
	s.at, s.settled = at, true
	return nil
}

// stored reads what stands at the cluster; nothing is the position of nobody.
func (s *Sink) stored(value []byte) (position, error) {
	if len(value) == 0 {
		return position{}, nil
	}
	at, err := readPosition(value)
	if err != nil {
		return position{}, fmt.Errorf("%w: the record of %s in topic %s: %w", sinks.ErrStop, s.id, s.config.ProgressTopic, err)
	}
	if at.Owner != s.id {
		return position{}, fmt.Errorf("%w: the record of %s in topic %s holds the position of %s", sinks.ErrStop, s.id, s.config.ProgressTopic, at.Owner)
	}
	return at, nil
}

// Begin makes p the position.
func (s *Sink) Begin(ctx context.Context, p sinks.Progress) error {
	if s.config.Guarantee != sinks.ExactlyOnce {
		return nil
	}
	if err := s.begin(ctx, p); err != nil {
		return s.failed("begin", err)
	}
	return nil
}

func (s *Sink) begin(ctx context.Context, p sinks.Progress) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	at := s.at.progress()
	if at == p {
		return s.verify(ctx)
	}
	if p.Lineage <= at.Lineage {
		return s.elsewhere(ctx)
	}
	return s.transact(ctx, nil, p)
}

// Publish writes the messages behind b.Base, or verifies that the destination stands there.
func (s *Sink) Publish(ctx context.Context, b sinks.Batch) (sinks.Ack, error) {
	publish := s.publish
	if s.config.Guarantee != sinks.ExactlyOnce {
		publish = s.write
	}
	ack, err := publish(ctx, b)
	if err != nil {
		return ack, s.failed("publish", err)
	}
	return ack, nil
}

func (s *Sink) publish(ctx context.Context, b sinks.Batch) (sinks.Ack, error) {
	if err := s.ready(ctx); err != nil {
		return sinks.Ack{}, err
	}
	if len(b.Messages) == 0 {
		s.known = false // a probe looks for new partitions too
	}
	end := b.End()
	var err error
	switch s.at.progress() {
	case end: // there already, or nothing to write
		err = s.verify(ctx)
	case b.Base:
		err = s.transact(ctx, b.Messages, end)
	default:
		err = s.elsewhere(ctx)
	}
	if err != nil {
		return sinks.Ack{}, err
	}
	return sinks.Ack{Published: end, Acknowledged: end.Sequence}, nil
}

// elsewhere says where the destination stands, to the owner only.
func (s *Sink) elsewhere(ctx context.Context) error {
	if err := s.verify(ctx); err != nil {
		return err
	}
	return &sinks.StandsError{At: s.at.progress()}
}

// verify writes the position that stands once more: only who writes is told that another one owns it.
func (s *Sink) verify(ctx context.Context) error {
	return s.transact(ctx, nil, s.at.progress())
}

// ready makes sure that the position is known.
func (s *Sink) ready(ctx context.Context) error {
	switch {
	case s.closed.Load():
		return kafkawire.ErrClosed
	case s.fenced != nil:
		return s.fenced
	case !s.open:
		return &sinks.FencedError{Forgotten: true} // nobody has opened: the caller does
	case s.settled:
		return nil
	}
	return s.recover(ctx)
}

// recover asks which position stands after a failure.
func (s *Sink) recover(ctx context.Context) error {
	stored, err := s.producer.Recover(ctx)
	if err != nil {
		return s.owned(err)
	}
	return s.settle(stored)
}

// transact writes messages and the position p in one transaction. A failure whose outcome is not known is asked after at
// once, so that a lost answer is no failure; what then is still not known, the next call asks.
func (s *Sink) transact(ctx context.Context, messages []sinks.Message, p sinks.Progress) error {
	if !s.known {
		if err := s.find(ctx); err != nil {
			return err
		}
		s.remade()
	}
	next, value := s.at, []byte(nil)
	if p.Lineage > 0 { // else there is no position, and nobody makes one but Begin
		next = position{
			Magic: magic, Version: version, Owner: s.id, Lineage: p.Lineage, Sequence: p.Sequence, Chain: p.Chain.String(),
			Topic: s.topic.Name, TopicID: s.topic.ID.String(),
		}
		var err error
		if value, err = next.append(nil); err != nil {
			return err
		}
	}
	s.settled = false
	if err := s.producer.Transact(ctx, value, s.batches(messages, p.Lineage)); err != nil {
		s.known = false
		if err := s.owned(err); s.fenced != nil || ctx.Err() != nil {
			return err
		}
		if again := s.recover(ctx); again != nil {
			return fmt.Errorf("%w (and then: %w)", err, again)
		}
		if s.at.progress() != p { // else it was done, or the answer about the owner is as good as that to a write
			return err
		}
	}
	s.at, s.settled = next, true
	return nil
}

// owned remembers that somebody else is the owner now.
func (s *Sink) owned(err error) error {
	if fenced, ok := errors.AsType[*kafkawire.FencedError](err); ok {
		s.fenced = &sinks.FencedError{Owner: fenced.Owner}
		return s.fenced
	}
	return err
}

// Close closes the connections. The position and its owner stay.
func (s *Sink) Close() error {
	if !s.closed.Swap(true) {
		s.client.Close()
	}
	return nil
}
