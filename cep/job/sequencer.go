package job

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/rules"
)

// stream is an input at work.
type stream struct {
	Stream
	// fresh says that the job has never read the stream before: Start counts.
	fresh bool
	// others says that of what was left elsewhere only that of others counts, and not what a job has noted there: that comes
	// from epochs which are lost or from another instance, and may lie past what has to be read.
	others bool
	// related are the streams that share a rule with this one, itself among them: what waits here may wait for them.
	related []*stream

	// The rest belongs to the sequencer.

	plan    *plan
	inputs  map[string]*input
	open    int               // those that have not ended
	starts  map[string]*input // those of which nothing has been read, and which do not begin at their beginning
	waiting queue             // inputs that have something to take
	again   queue             // those of them that are read a second time
	listed  bool              // all partitions that were there are known
	over    bool              // no partition can appear any more
	held    bool              // nothing is read before an epoch knows from where
	paused  bool              // too much waits in the order buffers
	trouble error
	// identities are those of partitions that have one; untold is why the source could not be told how far the job is.
	identities map[string]string
	untold     error
	// read is when an event was last taken, ticked up to when silence has been told to the engine.
	read, ticked time.Time
	lag          *lag
}

// phase is how far a job is on its way to its end.
type phase uint8

const (
	phaseReading    phase = iota
	phaseClosing          // nothing is read any more, the last epoch is on its way
	phasePublishing       // sinks send what is committed
	phaseSettling         // an epoch that knows what was sent is on its way
)

var phaseNames = [...]string{"running", "closing", "publishing", "settling"}

// sequencer owns the front of the engine: it says what is read next, and puts epochs, silence and the passing of time between
// events. It is one goroutine.
type sequencer struct {
	config  *Config
	core    *engine.Core
	set     *rules.Set // that runs
	streams []*stream
	outlets []*outlet
	inbox   *inbox
	flights chan<- *flight
	// spawn starts a goroutine of the run, spawnReader one that reads, which ends with stop.
	spawn, spawnReader func(name string, f func(context.Context) error)
	stop               context.CancelFunc
	status             *statusKeeper
	// begun is when the job was made, restored what it found, newest the newest durable epoch.
	begun    time.Time
	restored *Restored
	newest   cep.Epoch

	coordinator *checkpoint.Coordinator
	batchSize   *atomic.Int64
	now         time.Time
	notices     []notice
	rereading   int  // inputs that have not been read again as far as before
	released    bool // nothing was pushed since the last release
	phase       phase
	draining    bool

	flight      *flight // the epoch under way
	failing     error   // why it is not durable yet
	failingFrom time.Time
	letters     []letter
	letterBytes int64
	replies     []chan<- answer // to whoever waits for those letters
	epochs      []chan<- answer // to whoever wants an epoch
	dirty       bool            // something happened that an epoch should know
	asked       bool            // an epoch is wanted at once
	lastBarrier time.Time
	lastTook    time.Duration
	lastDone    time.Time
	full        []string // sinks that have no room, and want reading to pause for it
	halt        string   // why nothing is read
	nextLook    time.Time
	nextReview  time.Time
	nextLosses  time.Time
	disabled    map[string]bool // rules that have been named
	losses      map[loss]lossNamed
	before      []engine.StreamSummary // what the state knew of streams at the start
	next        *request               // the set that wants to take over, nil if none does
	swapped     bool                   // one has, which no epoch knows yet
	swaps       int                    // that have
	// durable is the set of the newest durable epoch, for all to see.
	durable *atomic.Pointer[rules.Set]
	tally   Tally
}

const (
	// alertsMax is the number of alerts of an epoch in the making above which nothing is read while another epoch is under
	// way: with a kilobyte each they take some 8 MB.
	alertsMax = 8 << 10
	// letterBytesMax is the same for events that were refused.
	letterBytesMax = 8 << 20
	// cadenceLeast and cadenceFactor say how soon an epoch may follow another when alerts wait and there is more to read: a
	// tenth of the time is spent on commits at most, and no alert waits longer than ten of them. While there is nothing to read
	// one commit follows the other.
	cadenceLeast  = 2 * time.Millisecond
	cadenceFactor = 10
	// lookEvery is how often silence is looked for: ticks come once a second.
	lookEvery = time.Second
	// lookLeast bounds that where streams are idle sooner.
	lookLeast = 10 * time.Millisecond
)

// errEnded says that the job came to its orderly end.
var errEnded = errors.New("the job has ended")

// run is the goroutine of the sequencer.
func (s *sequencer) run(ctx context.Context) error {
	s.config.Failpoint(PointStarted)
	s.before = s.core.Streams()
	err := s.loop(ctx)
	if s.core.Err() == nil { // what is broken has no summary
		s.nameLosses(s.core.Streams())
		s.review()
		s.status.keep(s.report())
	}
	return err
}

func (s *sequencer) loop(ctx context.Context) error {
	s.now = time.Now()
	s.lastBarrier, s.nextLook = s.now, s.now
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.core.Err(); err != nil {
			return fmt.Errorf("engine: %w", err)
		}
		s.now = time.Now()
		if err := s.listen(); err != nil {
			return err
		}
		if !s.now.Before(s.nextLook) {
			s.look()
		}
		ended, err := s.advance(ctx)
		if err != nil {
			return err
		}
		if ended {
			return errEnded
		}
		if s.swapDue() {
			if err := s.swap(); err != nil {
				return err
			}
		}
		if at, due := s.barrierDue(false); due && !s.now.Before(at) {
			if err := s.barrier(); err != nil {
				return err
			}
			continue
		}
		if in := s.choose(); in != nil {
			if err := s.take(in); err != nil {
				return err
			}
			continue
		}
		if !s.released {
			// Readers that are about to hand something over are let do so first: a release costs a look at every rule.
			runtime.Gosched()
			if !s.inbox.empty() {
				continue
			}
			s.core.Release()
			s.released = true
			continue
		}
		if at, due := s.barrierDue(true); due && !s.now.Before(at) {
			if err := s.barrier(); err != nil {
				return err
			}
			continue
		}
		s.sleep(ctx, timer)
	}
}

// sleep waits until there is something to do.
func (s *sequencer) sleep(ctx context.Context, timer *time.Timer) {
	until := s.nextLook
	if at, due := s.barrierDue(true); due && at.Before(until) {
		until = at
	}
	timer.Reset(until.Sub(s.now))
	select {
	case <-ctx.Done():
	case <-s.inbox.wake:
	case <-s.core.Broken():
	case <-timer.C:
	}
}

// listen takes note of what others did.
func (s *sequencer) listen() error {
	s.notices = s.inbox.take(s.notices)
	for i := range s.notices {
		if err := s.hear(&s.notices[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *sequencer) hear(n *notice) error {
	switch n.kind {
	case noticeChanged:
		s.enqueue(n.input)
	case noticeFound:
		s.found(n)
	case noticeListed:
		s.list(n.stream)
	case noticeOver:
		s.close(n.stream)
	case noticeUnable:
		return n.err
	case noticeTrouble:
		s.setTrouble(n.stream, n.err)
	case noticeFailed:
		if s.failing == nil {
			s.failingFrom = s.now
			s.config.Logger.Error("the epoch cannot be made durable; nothing is read until it is", "epoch", n.flight.epoch, "err", n.err)
		}
		s.failing = n.err
	case noticeCommitted:
		s.committed(n.flight)
	case noticeConfirmed:
		s.dirty = true
		s.measure()
	case noticeLetter:
		s.letter(*n.letter)
		s.replies = append(s.replies, n.reply)
	case noticePublished:
		return s.sent(n)
	case noticeEpoch:
		s.asked = true
		s.epochs = append(s.epochs, n.reply)
	case noticeDrain:
		s.draining = true
	case noticeStatus:
		n.reply <- answer{status: s.report()}
	case noticeTold:
		n.stream.untold = n.err
	case noticeSwap:
		s.next = n.request
	case noticeOpen:
		page, err := s.openStarts(n.query)
		n.reply <- answer{page: page, err: err}
	case noticePlan:
		changes, err := s.core.Plan(n.request.set)
		n.reply <- answer{changes: changesOf(changes), err: err}
	}
	return nil
}

// enqueue puts an input where it waits for its turn.
func (s *sequencer) enqueue(in *input) {
	if in.ready || in.ended || in.failed != nil {
		return
	}
	in.ready = true
	q := &in.stream.waiting
	if in.rereading {
		q = &in.stream.again
	}
	q.push(s.core.Clock(in.id), in)
}

// choose returns the input to take from: the one whose clock is lowest, among those that may go on. Nil: none may.
func (s *sequencer) choose() *input {
	if s.halt = s.halted(); s.halt != "" {
		return nil
	}
	if s.rereading > 0 {
		// Nothing is released before all is read again, so that reading anything else would only fill the buffers.
		for _, st := range s.streams {
			if st.listed && st.again.least() != nil {
				return st.again.remove()
			}
		}
		return nil
	}
	var best *stream
	var lowest cep.Time
	for _, st := range s.streams {
		q := st.waiting.least()
		if q == nil || !st.listed || st.held {
			continue
		}
		if st.paused = !s.mayTake(st, q.clock); st.paused {
			continue
		}
		if t := q.clock.Add(-st.Lateness); best == nil || t < lowest {
			best, lowest = st, t
		}
	}
	if best == nil {
		return nil
	}
	return best.waiting.remove()
}

// mayTake reports whether a stream may be read from its lowest partition: there is room in its order buffers, or reading is
// what makes room, because the partition is one that time waits for.
func (s *sequencer) mayTake(st *stream, clock cep.Time) bool {
	if n, bytes := s.core.Buffered(st.Name); !st.Ahead.reached(n, bytes) {
		return true
	}
	if !s.released {
		s.core.Release()
		s.released = true
		if n, bytes := s.core.Buffered(st.Name); !st.Ahead.reached(n, bytes) {
			return true
		}
	}
	if clock == cep.BeforeAll {
		return true
	}
	watermark := clock.Add(-st.Lateness).Add(-1)
	for _, other := range st.related {
		if other.over && other.open == 0 {
			continue // it has ended, and nothing waits for it
		}
		if watermark > s.core.Watermark(other.Name) {
			return false
		}
	}
	return true
}

// halted says why nothing may be read, "" if it may.
func (s *sequencer) halted() string {
	switch {
	case s.phase != phaseReading:
		return "the job is about to end"
	case s.failing != nil:
		return "an epoch cannot be made durable: " + s.failing.Error()
	case len(s.full) > 0:
		return "no room in the outbox of " + s.full[0]
	case s.letterBytes >= letterBytesMax || s.flight != nil && s.core.Waiting() >= alertsMax:
		return "alerts wait for an epoch"
	}
	return ""
}

// measure finds the sinks that have no room.
func (s *sequencer) measure() {
	was := s.full
	s.full = nil
	for _, o := range s.outlets {
		if o.OnFull == Pause && o.full() {
			s.full = append(s.full, o.Name)
			if !slices.Contains(was, o.Name) {
				n, bytes := o.outbox.waits()
				s.config.Logger.Warn("no room in the outbox; nothing is read until there is", "sink", o.Name, "messages", n, "bytes", bytes)
			}
		}
	}
	for _, name := range was {
		if !slices.Contains(s.full, name) {
			s.config.Logger.Info("room in the outbox again", "sink", name)
		}
	}
}

// take pushes what an input has read.
func (s *sequencer) take(in *input) error {
	in.ready = false
	b, end := in.take()
	if b != nil {
		s.push(in, b)
		b.give()
	}
	if end != nil {
		return s.end(in, end)
	}
	return nil
}

func (s *sequencer) push(in *input, b *batch) {
	now, ok := cep.TimeOf(s.now)
	if !ok {
		now = cep.BeforeAll // nobody knows
	}
	heard := false
	for i := range b.items[:b.n] {
		it := &b.items[i]
		offset := it.ev.Position.Offset
		in.read, in.last = offset+1, offset
		if it.nothing {
			s.core.Pass(in.id, offset)
			continue
		}
		heard = true
		if bad := it.bad; bad != nil {
			s.core.Refuse(in.id, offset, bad.kind, bad.err, it.record)
			it.bad = nil
			continue
		}
		if it.arrived != cep.BeforeAll {
			s.core.Arrive(it.arrived)
		} else {
			s.core.Arrive(now)
		}
		s.core.PushRecord(in.id, &it.ev, copyRaw{}, it.record)
	}
	s.released, in.unreleased = false, true
	if in.rereading && in.read >= in.again {
		s.reread(in)
	}
	if in.read <= in.again {
		return
	}
	s.dirty = true
	if heard {
		in.silence, in.wasIdle = s.now, false
		in.stream.read, in.stream.ticked = s.now, time.Time{}
		if in.idle {
			in.idle = false
			s.config.Logger.Info("a partition is no longer idle", "stream", in.stream.Name, "partition", in.reader.Name())
		}
	}
}

// copyRaw keeps the text of an event, which stands in a batch that is used again. All else has been kept by the reader.
type copyRaw struct{}

// Keep implements [engine.Keeper].
func (copyRaw) Keep(ev *cep.Event) { ev.Raw = slices.Clone(ev.Raw) }

// reread takes note that an input has been read again as far as before, or never will be.
func (s *sequencer) reread(in *input) {
	in.rereading = false
	if s.rereading--; s.rereading == 0 {
		s.config.Logger.Info("all that was read and not released has been read again")
	}
}

// end takes note of how an input ended.
func (s *sequencer) end(in *input, err error) error {
	log := s.config.Logger.With("stream", in.stream.Name, "partition", in.reader.Name())
	switch {
	case isEnd(err):
		s.lose(in)
		s.core.End(in.id)
		in.ended, s.released, s.dirty = true, false, true
		in.stream.open--
		log.Debug("the partition was read to its end", "offset", in.read)
		if next := in.next; next != nil {
			in.next = nil
			in.ended = false
			in.stream.open++
			s.read(in, next)
		}
	case s.phase != phaseReading: // nothing is read any more
	case s.config.Once:
		return fmt.Errorf("read partition %s of stream %s: %w", in.reader.Name(), in.stream.Name, err)
	default:
		in.failed = err
		log.Error("the partition cannot be read; its stream waits for it until it is idle", "offset", in.read, "err", err)
	}
	return nil
}

// lose says that what was read of a partition and not released will not be read again, if there is such.
func (s *sequencer) lose(in *input) {
	if !in.rereading {
		return
	}
	s.config.Logger.Error("events that were read and not released are lost", "stream", in.stream.Name, "partition", in.name(),
		"from", max(in.read, in.from), "read", in.again)
	s.core.End(in.id) // nothing waits for it any more
	s.reread(in)
}

// reject makes a letter of an event that the engine refuses, where one is wanted.
func (s *sequencer) reject(r *engine.Reject) {
	if r.Reason == codec.NoValue.String() {
		return // a key that was deleted: there is nothing to send
	}
	to := s.config.DeadLetters
	if r.Reason == engine.ReasonLate || r.Reason == engine.ReasonReturned {
		to = ""
		for _, st := range s.streams {
			if st.Name == r.Position.Partition.Stream {
				to = st.Late
			}
		}
	}
	if to != "" {
		s.letter(newReject(to, r))
	}
}

func (s *sequencer) letter(l letter) {
	s.letters = append(s.letters, l)
	s.letterBytes += l.size()
}
