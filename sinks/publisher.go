package sinks

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// BatchMax is the number of messages in a batch: more at once gain nothing.
	BatchMax = 1000
	// BytesMax is the size of a batch: a Redis server runs a script of 1 MB for 5 to 20 ms, in which others wait, and of
	// 10 MB for up to 130 ms.
	BytesMax = 1 << 20
	// Grace is for how long an acknowledged message is kept: a failover that loses acknowledged writes is noticed, and the
	// new master answers, within minutes.
	Grace = 10 * time.Minute
	// ProbeEvery is how often an idle destination is asked where it stands: a tenth of Grace, so that a loss while idle is
	// seen while the outbox still has the messages.
	ProbeEvery = time.Minute
	// retryFirst and retryLast bound the pause between attempts, which doubles: the first repetition follows a dropped
	// connection at once, and a destination that is away for hours is asked every few seconds, which costs nothing.
	retryFirst = 20 * time.Millisecond
	retryLast  = 5 * time.Second
	// laterMax bounds the pause that a destination asks for: what says "in a day" should not be believed longer than this.
	laterMax = 10 * time.Minute
	// remindEvery is how often a trouble that lasts is logged again.
	remindEvery = time.Minute
	// acksMax is the number of answers of a grace period that are remembered: forgetting is late by a thirty-second of the
	// period, and no memory depends on the rate.
	acksMax = 32
)

// Failpoints are the points that [PublisherConfig.Failpoint] is called at.
var Failpoints = []string{
	"publisher.opened",    // the sink is open, nothing is compared yet
	"publisher.begun",     // a new lineage is durable here, and not at the destination
	"publisher.placed",    // a new lineage is at the destination too
	"publisher.noted",     // at_most_once: the position is durable, the messages are not sent
	"publisher.sending",   // before a batch is sent
	"publisher.sent",      // the destination has answered, nobody here knows
	"publisher.rejected",  // a rejected message is a dead letter, the position is not confirmed
	"publisher.confirmed", // the outbox knows
}

// PublisherConfig is what a [Publisher] needs.
type PublisherConfig struct {
	// Name is the sink's name in logs.
	Name   string
	Sink   Sink
	Outbox Outbox
	// Guarantee is what the sink was made for: one that keeps a position at its destination goes with ExactlyOnce, any other
	// with the two that do not ask for it.
	Guarantee Guarantee
	// BatchMax, BytesMax, Grace, ProbeEvery: 0 means the constants of these names. Grace counts only where the position is
	// at the destination: others could not tell that they have lost something.
	BatchMax, BytesMax int
	Grace, ProbeEvery  time.Duration
	// AcceptGap begins a new lineage behind messages that neither the destination nor the outbox has, AcceptRepeat one
	// before messages that the destination has and this job found otherwise. They are for one start: what is found later
	// stops the publisher.
	AcceptGap, AcceptRepeat bool
	// NewLineage begins a new lineage at the position up to which messages were sent as of the epoch that was restored: a
	// savepoint.
	NewLineage bool
	// Rejected makes a dead letter of a message that the destination will never take. It is called before the position
	// moves on, and again after a crash between the two. nil: the message is counted only.
	Rejected func(m Message, reason string) error
	Logger   *slog.Logger
	// Failpoint is called at the [Failpoints]; nil in production.
	Failpoint func(point string)
}

// Publisher sends what an [Outbox] holds to a [Sink] and follows its answers.
//
// Open and Run are called from one goroutine at a time, Open first; Wake, Drained and Status from any. Whoever made the sink
// closes it, after Run has returned.
type Publisher struct {
	c      PublisherConfig
	wake   chan struct{} // of size 1: something was committed
	jitter *rand.Rand

	// These belong to Open and Run.
	start    bool      // nothing has been compared yet: the flags of the start count
	open     bool      // the sink is open and its position compared
	at       Progress  // where the destination stands
	ahead    bool      // at is above the last message committed
	accept   bool      // ahead, and found at a start that accepts repetition
	probe    bool      // the next batch is an empty one
	doubts   int       // answers in a row that only moved the position
	failures int       // errors in a row
	last     time.Time // of the last answer
	acks     []ack
	forget   uint64

	mu      sync.Mutex
	status  Status
	placed  bool          // status.Published has been compared
	ended   error         // Run has returned this
	changed chan struct{} // closed, and replaced, at each change of the fields above
}

// ack is an acknowledged position and when it was first known to be one.
type ack struct {
	since    time.Time
	sequence uint64
}

// NewPublisher makes a publisher.
func NewPublisher(c PublisherConfig) *Publisher {
	c.BatchMax = defaulted(c.BatchMax, BatchMax)
	c.BytesMax = defaulted(c.BytesMax, BytesMax)
	c.Grace = defaulted(c.Grace, Grace)
	c.ProbeEvery = defaulted(c.ProbeEvery, ProbeEvery)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("sink", c.Name)
	if c.Failpoint == nil {
		c.Failpoint = func(string) {}
	}
	if c.Rejected == nil {
		c.Rejected = func(Message, string) error { return nil }
	}
	h := fnv.New64a()
	h.Write([]byte(c.Name))
	return &Publisher{
		c: c, wake: make(chan struct{}, 1), start: true, changed: make(chan struct{}),
		// Seeded by the clock, so that two processes that lost one server do not come back in step.
		jitter: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), h.Sum64())),
		status: Status{Name: c.Name, Guarantee: c.Guarantee},
	}
}

func defaulted[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// Peek returns where the destination stands, without a fence and without a change here or there. Its error is the one that Open
// would return: one that is [Permanent] says that the job must not start, and that nothing was done to a job that runs elsewhere.
// Open decides anew, since the destination may move between the two. It comes before Open, if at all.
func (p *Publisher) Peek(ctx context.Context) (Progress, error) {
	if p.c.Guarantee != ExactlyOnce {
		return Progress{}, nil // nothing there speaks against a start
	}
	at, err := p.c.Sink.Peek(ctx)
	if err == nil {
		_, err = p.decide(ctx, at, p.c.Outbox.Range())
	}
	if err != nil {
		return Progress{}, fmt.Errorf("peek at sink %s: %w", p.c.Name, err)
	}
	return at, nil
}

// Open opens the sink, compares positions, and begins a lineage where one is due. An error that is [Permanent] says that the
// job must not start; after any other one Run goes on trying.
func (p *Publisher) Open(ctx context.Context) error {
	at, err := p.c.Sink.Open(ctx)
	if err != nil {
		return fmt.Errorf("open sink %s: %w", p.c.Name, err)
	}
	p.c.Failpoint("publisher.opened")
	p.update(func(s *Status) { s.Opened++; s.Found = &at })
	if err := p.place(ctx, at); err != nil {
		return fmt.Errorf("open sink %s: %w", p.c.Name, err)
	}
	p.open, p.start, p.probe = true, false, true
	return nil
}

// Wake says that something was committed.
func (p *Publisher) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends, whose error it returns, or until an error that is [Permanent].
func (p *Publisher) Run(ctx context.Context) error {
	err := p.run(ctx)
	if ctx.Err() == nil {
		p.update(func(s *Status) { s.trouble(err, time.Now()); s.Stopped = true })
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = err
	p.broadcast()
	return err
}

func (p *Publisher) run(ctx context.Context) error {
	var reminded time.Time
	for {
		idle, err := p.step(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			if idle {
				p.sleep(ctx, time.Until(p.last.Add(p.c.ProbeEvery)), p.wake)
			}
		case Permanent(err):
			return fmt.Errorf("sink %s: %w", p.c.Name, err)
		default:
			p.failures++
			now := time.Now()
			p.update(func(s *Status) { s.trouble(err, now); s.Retries++ })
			if p.failures == 1 || now.Sub(reminded) >= remindEvery {
				reminded = now
				p.c.Logger.Warn("the sink cannot publish; it goes on trying", "attempts", p.failures, "err", err)
			}
			p.sleep(ctx, p.pause(p.failures, err), nil)
		}
	}
}

// pause is how long to wait after so many failures: it doubles, with half of it at random.
func (p *Publisher) pause(failures int, err error) time.Duration {
	d := retryLast
	if failures < 16 { // 20 ms << 15 is above every retryLast
		d = min(retryFirst<<(failures-1), retryLast)
	}
	d = d/2 + time.Duration(p.jitter.Int64N(int64(d/2)+1))
	if later, ok := errors.AsType[*LaterError](err); ok {
		d = max(d, min(later.After, laterMax))
	}
	return d
}

// sleep waits for a time, for ctx, or for wake.
func (p *Publisher) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-wake:
	}
}

// step sends one batch. idle says that nothing waits.
func (p *Publisher) step(ctx context.Context) (idle bool, err error) {
	if !p.open {
		if err := p.Open(ctx); err != nil {
			return false, err
		}
	}
	if p.ahead {
		if p.c.Outbox.Range().Last.Sequence < p.at.Sequence {
			return p.ask(ctx)
		}
		if err := p.place(ctx, p.at); err != nil {
			return false, err
		}
		return false, nil
	}
	if p.probe {
		_, err := p.send(ctx, Batch{Base: p.at})
		return false, err
	}
	messages, err := p.c.Outbox.Read(ctx, p.at.Sequence+1, p.c.BatchMax, p.c.BytesMax)
	if err != nil {
		return false, fmt.Errorf("read outbox from %d: %w", p.at.Sequence+1, err)
	}
	if len(messages) == 0 {
		return p.ask(ctx)
	}
	b := Batch{Base: p.at, Messages: messages}
	if p.c.Guarantee == AtMostOnce {
		if err := p.c.Outbox.Begin(ctx, b.End()); err != nil {
			return false, fmt.Errorf("note position %d: %w", b.End().Sequence, err)
		}
		p.c.Failpoint("publisher.noted")
	}
	return p.send(ctx, b)
}

// ask sends an empty batch where one is due.
func (p *Publisher) ask(ctx context.Context) (idle bool, err error) {
	if p.probe || time.Since(p.last) >= p.c.ProbeEvery {
		return p.send(ctx, Batch{Base: p.at})
	}
	p.doubts = 0
	return true, nil
}

// send publishes a batch and follows the answer.
func (p *Publisher) send(ctx context.Context, b Batch) (idle bool, err error) {
	p.c.Failpoint("publisher.sending")
	ack, err := p.c.Sink.Publish(ctx, b)
	if err == nil && p.c.Guarantee == ExactlyOnce && ack.Published != b.End() {
		err = &StandsError{At: ack.Published} // a sink that does not say so itself
	}
	if err != nil {
		return false, p.refused(ctx, b, ack, err)
	}
	p.c.Failpoint("publisher.sent")
	p.at, p.probe, p.last = b.End(), false, time.Now()
	if len(b.Messages) > 0 {
		p.doubts = 0
	}
	if p.failures > 0 && (p.c.Guarantee == ExactlyOnce || len(b.Messages) > 0) {
		p.failures = 0 // a sink without a position may say yes to an empty batch without asking anybody
		p.recovered()
	}
	if p.ahead {
		p.update(func(s *Status) { s.Probes++ })
		return true, nil
	}
	if p.c.Guarantee != ExactlyOnce {
		ack.Acknowledged = p.at.Sequence
	}
	p.update(func(s *Status) {
		s.Acknowledged = min(ack.Acknowledged, p.at.Sequence)
		if len(b.Messages) == 0 {
			s.Probes++
			return
		}
		s.Batches++
		s.Messages += uint64(len(b.Messages))
		for i := range b.Messages {
			s.Bytes += uint64(len(b.Messages[i].Body))
		}
	})
	return false, p.confirm(min(ack.Acknowledged, p.at.Sequence))
}

// refused follows an error of Publish. It returns nil where the publisher can go on at once.
func (p *Publisher) refused(ctx context.Context, b Batch, ack Ack, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if stands, ok := errors.AsType[*StandsError](err); ok && p.c.Guarantee == ExactlyOnce {
		p.update(func(s *Status) { s.Rewinds++ })
		p.c.Logger.Info("the destination stands elsewhere", "expected", b.Base.Sequence, "lineage", stands.At.Lineage, "sequence", stands.At.Sequence)
		return p.follow(ctx, stands.At, err)
	}
	if fenced, ok := errors.AsType[*FencedError](err); ok && fenced.Forgotten {
		p.c.Logger.Info("the destination forgot who owns it", "owner", fenced.Owner)
		p.open = false
		return p.doubt(err)
	}
	if Permanent(err) {
		return err
	}
	if p.c.Guarantee == ExactlyOnce {
		return fmt.Errorf("publish behind %d: %w", b.Base.Sequence, err)
	}
	return p.partly(b, ack, err)
}

// follow goes on from where the destination stands.
func (p *Publisher) follow(ctx context.Context, at Progress, cause error) error {
	if err := p.place(ctx, at); err != nil {
		return err
	}
	return p.doubt(cause)
}

// doubt returns nil for the first answer in a row that only moved the position: it is followed at once. A destination that
// never stands where it said it stands is asked slower and slower.
func (p *Publisher) doubt(cause error) error {
	p.doubts++
	if p.doubts > 1 {
		return cause
	}
	return nil
}

// partly goes on behind what a sink without a position got done.
func (p *Publisher) partly(b Batch, ack Ack, err error) error {
	done := 0 // messages that were taken
	rejected, isRejected := errors.AsType[*RejectedError](err)
	through := ack.Published.Sequence
	if isRejected {
		if rejected.Sequence <= b.Base.Sequence || rejected.Sequence > b.End().Sequence {
			return fmt.Errorf("%w: it rejected message %d of a batch from %d to %d", ErrStop, rejected.Sequence, b.Base.Sequence+1, b.End().Sequence)
		}
		through = rejected.Sequence - 1
	}
	for done < len(b.Messages) && b.Messages[done].Sequence <= through {
		done++
	}
	p.update(func(s *Status) { s.Messages += uint64(done) })
	if done > 0 {
		p.at.Sequence, p.at.Chain = b.Messages[done-1].Sequence, b.Messages[done-1].Chain
	}
	if isRejected {
		m := b.Messages[done]
		if err := p.c.Rejected(m, rejected.Reason); err != nil {
			return fmt.Errorf("dead letter of message %d: %w", m.Sequence, err)
		}
		p.c.Failpoint("publisher.rejected")
		p.update(func(s *Status) { s.Rejected++ })
		p.c.Logger.Warn("the destination refused a message", "sequence", m.Sequence, "id", m.ID, "reason", rejected.Reason)
		p.at.Sequence, p.at.Chain = m.Sequence, m.Chain
		return p.confirm(m.Sequence)
	}
	if n := len(b.Messages); p.c.Guarantee == AtMostOnce && done < n {
		// They may have arrived: sent again they could arrive twice.
		p.update(func(s *Status) { s.Lost += uint64(n - done) })
		p.at = b.End()
	}
	p.probe = p.probe || p.c.Guarantee == AtMostOnce // nothing more is risked before the destination answers
	if p.at != b.Base {
		if err := p.confirm(p.at.Sequence); err != nil {
			return err
		}
	}
	return fmt.Errorf("publish behind %d: %w", b.Base.Sequence, err)
}

// confirm tells the outbox what the destination has just answered: it forgets only then, and only what was acknowledged a
// grace period before and still is.
func (p *Publisher) confirm(acknowledged uint64) error {
	now, grace := time.Now(), p.c.Grace
	if p.c.Guarantee != ExactlyOnce {
		grace = 0
	}
	n := len(p.acks)
	if n == 0 || p.acks[n-1].sequence < acknowledged && now.Sub(p.acks[n-1].since) >= grace/acksMax {
		p.acks = append(p.acks, ack{now, acknowledged})
	}
	for len(p.acks) > 0 && now.Sub(p.acks[0].since) >= grace {
		p.forget = max(p.forget, p.acks[0].sequence)
		p.acks = p.acks[1:]
	}
	if grace == 0 {
		p.forget = max(p.forget, acknowledged)
	}
	forget := min(p.forget, p.at.Sequence)
	if err := p.c.Outbox.Confirm(p.at, forget); err != nil {
		return fmt.Errorf("confirm position %d: %w", p.at.Sequence, err)
	}
	p.c.Failpoint("publisher.confirmed")
	p.update(func(s *Status) { s.Published, s.Forgotten = p.at, forget })
	return nil
}
