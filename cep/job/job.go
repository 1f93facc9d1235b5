package job

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/sinks"
)

// Job reads streams, runs rules over them and sends what they find, each alert once. It is made by [New] and runs once.
type Job struct {
	config    Config
	core      *engine.Core
	streams   []*stream
	outlets   []*outlet
	inbox     *inbox
	sequencer *sequencer
	status    statusKeeper
	// durable is the set of the newest durable epoch. swapping is held by who has another one take over; it guards inForce, the
	// set that runs.
	durable   atomic.Pointer[rules.Set]
	swapping  chan struct{}
	inForce   *rules.Set
	restored  *Restored
	changes   []RuleChange
	retired   map[string]uint64
	swapped   bool
	savepoint bool // the note of one has to be removed once all sinks have begun

	started, running atomic.Bool
	closing          sync.Once
	quit             chan struct{} // closed when goroutines of the run have to end
	done             chan struct{} // closed when Run has returned
	abandoning       sync.Once
	abandoned        chan struct{} // closed when the run has to end at once
}

var (
	// ErrRefused is inside errors of New that repeating does not mend: a person has to decide. Errors of sinks have types of
	// their own, see [sinks.Permanent].
	ErrRefused = errors.New("the start is refused")
	// ErrAbandoned is inside the error of Drain when its time was up before everything was durable.
	ErrAbandoned = errors.New("the job was abandoned")
	// ErrNotRunning is inside errors of what a job can do only while it runs.
	ErrNotRunning = errors.New("the job does not run")

	errTwice = errors.New("a job runs once")
)

// UnsentError is the error of Drain when its time was up before all sinks had sent what is committed. It is durable: the next
// start sends it.
type UnsentError struct {
	// Sinks says for each of them how much.
	Sinks []string
	Cause error
}

// Error names the sinks.
func (e *UnsentError) Error() string {
	return fmt.Sprintf("what is committed could not all be sent (%s); the next start sends it: %v", strings.Join(e.Sinks, ", "), e.Cause)
}

// Unwrap returns the cause.
func (e *UnsentError) Unwrap() error { return e.Cause }

// New makes a job that goes on from the newest sound epoch of the store, or begins where the store and all sinks show that it
// never ran. Whatever speaks against a start is an error here that says what was found and what to do.
func New(ctx context.Context, config Config) (*Job, error) {
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("configuration of the job: %w", err)
	}
	j := &Job{config: config, inbox: newInbox(), swapping: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}), abandoned: make(chan struct{})}
	j.sequencer = &sequencer{config: &j.config, inbox: j.inbox, batchSize: &atomic.Int64{}, status: &j.status, begun: time.Now(), disabled: map[string]bool{}, losses: map[loss]lossNamed{}, durable: &j.durable}
	if err := j.make(ctx); err != nil {
		j.Close()
		return nil, fmt.Errorf("start job %s: %w", config.Name, err)
	}
	return j, nil
}

func (j *Job) make(ctx context.Context) error {
	m, mem, err := j.begin(ctx)
	if err != nil {
		return err
	}
	j.makeStreams(m, mem)
	if err := j.makeOutlets(ctx, m); err != nil {
		return err
	}
	if err := j.peekSinks(ctx, m == nil); err != nil {
		return err
	}
	if err := j.openSinks(ctx, m == nil); err != nil {
		return err
	}
	if err := j.dropSavepoint(ctx); err != nil {
		return err
	}
	s := j.sequencer
	s.core, s.set, s.streams, s.outlets, s.restored = j.core, j.config.Rules, j.streams, j.outlets, j.restored
	j.inForce = s.set
	j.durable.Store(s.set)
	s.dirty = j.swapped || len(j.retired) > 0 || m == nil
	newest := cep.Epoch(0)
	if m != nil {
		newest = m.Epoch
	}
	s.newest = newest
	s.coordinator = checkpoint.NewCoordinator(newest, participantEngine, participantSinks)
	s.measure()
	s.resize()
	j.status.keep(s.report())
	j.config.Logger.Debug("job ready", "job", j.config.Name, "epoch", newest, "streams", len(j.streams), "sinks", len(j.outlets),
		"rules", len(j.config.Rules.Rules), "shards", j.config.Shards)
	return nil
}

// dropSavepoint removes the note that a savepoint was imported, once every sink has begun a lineage for it.
func (j *Job) dropSavepoint(ctx context.Context) error {
	if !j.savepoint {
		return nil
	}
	for _, o := range j.outlets {
		if o.Guarantee == sinks.ExactlyOnce && o.publisher.Status().Lineages == 0 {
			return nil
		}
	}
	j.savepoint = false
	if err := j.config.Store.Note(ctx, checkpoint.NoteSavepoint, nil); err != nil {
		return fmt.Errorf("note that the savepoint has begun: %w", err)
	}
	return nil
}

// Run runs the job until ctx ends, whose error it returns, until [Job.Drain], or until the end of its inputs with
// [Config.Once]: then it returns nil. Any other error ends the job as a crash would: the next one goes on from the newest
// epoch.
//
// When Run has returned, every goroutine of the job has ended.
func (j *Job) Run(ctx context.Context) error {
	if !j.started.CompareAndSwap(false, true) {
		return errTwice
	}
	defer close(j.done)
	group, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { close(j.quit) })()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	tell, hush := telling(ctx)
	defer hush()
	spawnIn := func(ctx context.Context) func(string, func(context.Context) error) {
		return func(name string, f func(context.Context) error) {
			group.Go(func() error { return guarded(name, func() error { return f(ctx) }) })
		}
	}
	spawn, spawnReader := spawnIn(ctx), spawnIn(reading)
	flights := make(chan *flight, 1)
	due := make(chan struct{}, 1)
	s := j.sequencer
	s.spawn, s.spawnReader, s.stop, s.flights = spawn, spawnReader, stop, flights
	c := &committer{
		config: &j.config, outlets: j.outlets, inbox: j.inbox, retired: j.retired, known: map[*rules.Set]checkpoint.RuleSet{},
		committed: func() {
			select {
			case due <- struct{}{}:
			default:
			}
		},
	}
	j.running.Store(true)
	spawn("housekeeping", func(ctx context.Context) error { return j.keepHouse(ctx, due) })
	for _, o := range j.outlets {
		spawn("publishing to "+o.Name, o.publisher.Run)
	}
	for _, st := range j.streams {
		if t := newTeller(st, j.inbox, j.config.Logger); t != nil {
			c.tellers = append(c.tellers, t)
			spawn("telling the source of stream "+st.Name, func(ctx context.Context) error { return t.run(ctx, tell) })
		}
		spawnReader("watching stream "+st.Name, func(ctx context.Context) error { return j.watch(ctx, st) })
	}
	spawn("the sequencer", s.run)
	spawn("the committer", func(ctx context.Context) error { return c.run(ctx, flights) })
	spawn("waiting to be abandoned", func(ctx context.Context) error {
		select {
		case <-j.abandoned:
			return ErrAbandoned
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	err := group.Wait()
	j.running.Store(false)
	j.core = s.core // another one may have taken over
	j.hearLast()
	j.Close()
	j.status.end()
	if errors.Is(err, errEnded) {
		finish(tell, c.tellers)
		return nil
	}
	return err
}

// watch is the goroutine that a source finds partitions in.
func (j *Job) watch(reading context.Context, st *stream) error {
	known := make([]string, 0, len(st.inputs)) // the sequencer's map; it is told of nothing before Watch
	for name := range st.inputs {
		known = append(known, name)
	}
	d := &discovery{stream: st, inbox: j.inbox, start: st.starter(reading, j.config.AcceptGap)}
	err := st.Source.Watch(reading, known, d)
	if reading.Err() != nil {
		return nil // the job ends; what the source says of that is no news
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", st.Name, err)
	}
	j.inbox.put(notice{kind: noticeOver, stream: st})
	return nil
}

// keepHouse is the goroutine that has the store fold and drop what it need not keep, and sources forget what no epoch that is
// kept needs.
func (j *Job) keepHouse(ctx context.Context, due <-chan struct{}) error {
	var oldest cep.Epoch
	look := time.NewTicker(roomEvery)
	defer look.Stop()
	if !j.trims() {
		look.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-due:
		case <-look.C:
			made, err := j.makeRoom(ctx)
			if err != nil && ctx.Err() == nil {
				j.config.Logger.Warn("housekeeping", "err", err)
			}
			if !made {
				continue
			}
		}
		if err := j.config.Store.Maintain(ctx); err != nil && ctx.Err() == nil {
			j.config.Logger.Warn("housekeeping of the store", "err", err)
		}
		m, err := j.config.Store.Oldest(ctx)
		if err == nil && m.Epoch != oldest {
			oldest = m.Epoch
			err = j.trim(m)
		}
		if err == nil && j.savepoint {
			err = j.dropSavepoint(ctx)
		}
		if err != nil && ctx.Err() == nil {
			j.config.Logger.Warn("housekeeping", "err", err)
		}
	}
}

const (
	// roomEvery is how often it is asked whether a source runs out of room. Half of what a log may hold is left then, which
	// at 100 MB a second is twenty seconds of what a log holds where nobody says otherwise.
	roomEvery = time.Second
	// roomEpochs is how many epochs are made at most so that the oldest one moves on: no store keeps more bases.
	roomEpochs = 100
)

// trims says whether a source keeps its records itself.
func (j *Job) trims() bool {
	return slices.ContainsFunc(j.streams, func(st *stream) bool {
		_, ok := st.Source.(source.Trimmer)
		return ok
	})
}

// makeRoom moves the oldest epoch that is kept on, where a source has little room left and needs none of what older epochs
// need. The store does so by itself only when enough has happened, and a source that is full lets nothing happen any more.
func (j *Job) makeRoom(ctx context.Context) (made bool, err error) {
	infos, err := j.config.Store.Epochs(ctx)
	if err != nil || len(infos) == 0 {
		return false, err
	}
	newest, err := j.config.Store.Manifest(ctx, infos[len(infos)-1].Epoch)
	if err != nil || !j.crowded(newest) {
		return false, err
	}
	first := newest.Epoch + 1
	for range roomEpochs {
		if _, err := j.Checkpoint(ctx); err != nil {
			return made, err
		}
		if err := j.config.Store.Fold(ctx); err != nil {
			return made, err
		}
		made = true
		oldest, err := j.config.Store.Oldest(ctx)
		if err != nil || oldest.Epoch >= first {
			return made, err
		}
	}
	return made, nil
}

// crowded says whether a source would have more room if nothing older than this epoch were kept.
func (j *Job) crowded(m *checkpoint.Manifest) bool {
	for _, st := range j.streams {
		t, ok := st.Source.(source.Trimmer)
		if !ok {
			continue
		}
		for _, p := range m.Sources {
			if p.Stream == st.Name && t.Crowded(p.Partition, p.From) {
				return true
			}
		}
	}
	return false
}

// trim lets sources forget what lies before the oldest epoch.
func (j *Job) trim(oldest *checkpoint.Manifest) error {
	var errs []error
	for _, st := range j.streams {
		t, ok := st.Source.(source.Trimmer)
		if !ok {
			continue
		}
		j.config.Failpoint(PointTrimmed)
		for _, p := range oldest.Sources {
			if p.Stream != st.Name {
				continue
			}
			if err := t.Trim(p.Partition, p.From); err != nil {
				errs = append(errs, fmt.Errorf("trim partition %s of stream %s: %w", p.Partition, p.Stream, err))
			}
		}
	}
	return errors.Join(errs...)
}

// rejected makes a dead letter of a message that a sink's destination refuses, and returns once it is durable.
func (j *Job) rejected(o *outlet, m *sinks.Message, reason string) error {
	if j.config.DeadLetters == "" || j.config.DeadLetters == o.Name {
		return nil
	}
	l := newExcess(j.config.DeadLetters, o.Name, m, "refused by the destination: "+reason)
	reply := make(chan answer, 1)
	j.inbox.put(notice{kind: noticeLetter, letter: &l, reply: reply})
	select {
	case a := <-reply:
		return a.err
	case <-j.quit:
		return ErrNotRunning
	}
}

// Drain ends the job in an orderly way: nothing more is read, the last epoch is made, and what is committed is published.
// When ctx ends first the job is abandoned: what is committed is published by the next one.
func (j *Job) Drain(ctx context.Context) error {
	j.inbox.put(notice{kind: noticeDrain})
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
	}
	j.abandoning.Do(func() { close(j.abandoned) })
	if j.started.Load() {
		<-j.done
	}
	return j.unfinished(context.Cause(ctx))
}

// unfinished says what an orderly end that ran out of time has left.
func (j *Job) unfinished(cause error) error {
	if j.sequencer.phase < phasePublishing { // the goroutine that owns it has ended
		return fmt.Errorf("%w before all was durable: the next start reads again from epoch %d: %w", ErrAbandoned, j.sequencer.newest, cause)
	}
	e := &UnsentError{Cause: cause}
	for _, o := range j.outlets {
		if n, _ := o.outbox.waits(); n > 0 {
			e.Sinks = append(e.Sinks, fmt.Sprintf("%s: %d messages", o.Name, n))
		}
	}
	if len(e.Sinks) == 0 {
		return nil
	}
	return e
}

// Checkpoint makes an epoch of all that has happened, and returns it once it is durable.
func (j *Job) Checkpoint(ctx context.Context) (cep.Epoch, error) {
	a, err := j.ask(ctx, noticeEpoch)
	if err != nil {
		return 0, fmt.Errorf("checkpoint: %w", err)
	}
	return a.epoch, nil
}

// ask puts a question to the sequencer.
func (j *Job) ask(ctx context.Context, kind noticeKind) (answer, error) {
	return j.send(ctx, notice{kind: kind})
}

// send is ask for a question that has more to it.
func (j *Job) send(ctx context.Context, n notice) (answer, error) {
	reply := make(chan answer, 1)
	n.reply = reply
	j.inbox.put(n)
	select {
	case a := <-reply:
		return a, a.err
	case <-j.done:
		return answer{}, ErrNotRunning
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// Close ends a job that was never run; one that was has ended by itself. It may be called more than once.
func (j *Job) Close() {
	j.closing.Do(func() {
		if j.core != nil {
			j.core.Close()
		}
	})
}

// hearLast takes note of what sources said at their end, and closes readers that nobody has taken over.
func (j *Job) hearLast() {
	for _, n := range j.inbox.take(nil) {
		switch n.kind {
		case noticeFound:
			_ = n.reader.Close() // it was never read from
		case noticeTrouble:
			j.sequencer.setTrouble(n.stream, n.err)
		default: // the sequencer has ended, and what it was told is no news to anybody else
		}
	}
	for _, st := range j.streams {
		for _, in := range st.inputs {
			if in.next != nil {
				_ = in.next.Close() // likewise
			}
			if in.reader != nil && isEnd(in.end) {
				_ = in.reader.Close() // it was read to its end, and has nothing open
			}
		}
	}
}

// guarded runs f, and makes an error of a panic.
func guarded(name string, f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic in %s: %v\n%s", name, cause, debug.Stack())
		}
	}()
	return f()
}
