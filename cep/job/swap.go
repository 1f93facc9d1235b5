package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/rules"
)

// ErrNotDurable is inside the error of Swap when its context ended after the rules had changed and before that was durable:
// they are in force, and a crash now would have the next start change them again.
var ErrNotDurable = errors.New("the rules have changed, and that is not durable yet")

// Swapped is what a swap did.
type Swapped struct {
	// Epoch is the one whose barrier the swap rode on, 0 where nothing had to be done; Set the id of the set that runs.
	Epoch cep.Epoch `json:"epoch,omitempty"`
	Set   string    `json:"set"`
	// Changes tell what became of each rule, by id.
	Changes []RuleChange `json:"changes,omitempty"`
	// Pause is how long the engine stood still for it. Reading again what was read and not released comes behind.
	Pause time.Duration `json:"pause_ns"`
}

// request is a set of rules that wants to take over.
type request struct {
	set *rules.Set
	// claimed says that it is decided whether the sequencer takes it, or whoever asked has given up.
	claimed atomic.Bool
	// switched is told that the set has taken over, or why not, durable when that is in a durable epoch. Both have room.
	switched, durable chan answer
}

// Swap has another set of rules take over in the running job, and returns once the epoch that holds it is durable. After any
// other error than [ErrNotDurable] the old set runs on. A set with the id of the one that runs changes nothing.
//
// Of several at a time one waits for the other.
func (j *Job) Swap(ctx context.Context, set *rules.Set) (*Swapped, error) {
	done, err := j.swap(ctx, set)
	if err != nil {
		return nil, fmt.Errorf("swap the rules: %w", err)
	}
	return done, nil
}

func (j *Job) swap(ctx context.Context, set *rules.Set) (*Swapped, error) {
	next, release, err := j.candidate(ctx, set)
	if err != nil {
		return nil, err
	}
	defer release()
	done := &Swapped{Set: set.ID()}
	if next == nil {
		return done, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err // nobody waits for it
	}
	r := &request{set: next, switched: make(chan answer, 1), durable: make(chan answer, 1)}
	j.inbox.put(notice{kind: noticeSwap, request: r})
	var a answer
	select {
	case a = <-r.switched:
	case <-j.done:
		return nil, ErrNotRunning
	case <-ctx.Done():
		if r.claimed.CompareAndSwap(false, true) {
			return nil, ctx.Err()
		}
		select { // it is under way, and takes a moment
		case a = <-r.switched:
		case <-j.done:
			return nil, ErrNotRunning
		}
	}
	if a.err != nil {
		return nil, a.err
	}
	j.inForce = next
	done.Changes, done.Pause = a.changes, a.pause
	select {
	case a = <-r.durable:
		done.Epoch = a.epoch
		return done, a.err
	case <-j.done:
		return nil, ErrNotRunning
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrNotDurable, ctx.Err())
	}
}

// Plan says what [Job.Swap] would do to each rule now, and changes nothing. A set with the id of the one that runs would
// change nothing: there is no list then.
func (j *Job) Plan(ctx context.Context, set *rules.Set) ([]RuleChange, error) {
	next, release, err := j.candidate(ctx, set)
	if err != nil {
		return nil, fmt.Errorf("plan a swap of the rules: %w", err)
	}
	defer release()
	if next == nil {
		return nil, nil
	}
	a, err := j.send(ctx, notice{kind: noticePlan, request: &request{set: next}})
	if err != nil {
		return nil, fmt.Errorf("plan a swap of the rules: %w", err)
	}
	return a.changes, nil
}

// candidate returns the set as it has to be to take over from the one that runs, nil where that is the same. Nobody else may
// change the rules before release is called.
func (j *Job) candidate(ctx context.Context, set *rules.Set) (next *rules.Set, release func(), err error) {
	if !j.running.Load() {
		return nil, nil, ErrNotRunning
	}
	select {
	case j.swapping <- struct{}{}:
	case <-j.done:
		return nil, nil, ErrNotRunning
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	release = func() { <-j.swapping }
	if set.ID() == j.inForce.ID() {
		return nil, release, nil
	}
	err = errors.Join(j.config.unaddressed(set)...)
	if err == nil {
		next, err = set.After(j.inForce)
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return next, release, nil
}

// Rules is the set of the newest durable epoch, or that of the start before there is one.
func (j *Job) Rules() *rules.Set { return j.durable.Load() }

// changesOf words what became of rules.
func changesOf(changes []engine.Change) []RuleChange {
	list := make([]RuleChange, len(changes))
	for i, c := range changes {
		list[i] = RuleChange{c.Rule, c.Kind.String(), c.Starts, c.Dropped, c.Reason}
	}
	return list
}

// swapDue reports whether a set that wants to take over may: the epoch that it rides on has to be able to begin.
func (s *sequencer) swapDue() bool {
	return s.next != nil && s.flight == nil && s.failing == nil
}

// swap has another set take over, and an epoch begin behind it. An error ends the job; where the set is refused whoever asked
// is told, and the old one runs on.
func (s *sequencer) swap() error {
	r := s.next
	s.next = nil
	if !r.claimed.CompareAndSwap(false, true) {
		return nil // whoever asked has given up
	}
	begun := time.Now()
	s.config.Failpoint(PointSwapping)
	s.core.Release()
	if err := s.mayNotSwap(); err != nil {
		r.switched <- answer{err: err}
		return nil
	}
	core, changes, err := s.core.Swap(r.set)
	if broken := s.core.Err(); broken != nil {
		return fmt.Errorf("engine: %w", broken)
	}
	if err != nil {
		r.switched <- answer{err: err}
		return nil
	}
	s.core, s.set = core, r.set
	s.swaps++
	s.turn()
	s.config.Failpoint(PointSwapped)
	for _, c := range changes {
		if c.Kind != engine.RuleKept {
			delete(s.disabled, c.Rule)
		}
	}
	s.swapped, s.asked, s.dirty, s.released = true, true, true, false
	s.epochs = append(s.epochs, r.durable)
	pause := time.Since(begun)
	if s.config.Observe.Swap != nil {
		s.config.Observe.Swap(pause)
	}
	r.switched <- answer{changes: changesOf(changes), pause: pause}
	return nil
}

// mayNotSwap says why no set can take over now: what was read and not released has to be read again, and there are partitions
// that cannot be. A start would lose these events; here they are not lost yet.
func (s *sequencer) mayNotSwap() error {
	if s.phase != phaseReading || s.draining {
		return errors.New("the job is about to end")
	}
	var names []string
	var cause error
	for _, st := range s.streams {
		for _, in := range st.inputs {
			from, waits := s.core.Unreleased(in.id)
			if !waits || in.rereading {
				continue // nothing is lost that is not waited for already
			}
			err := errGone
			if !in.broken() {
				if !in.ended {
					continue
				}
				if err = in.reader.SeekTo(from); err == nil {
					continue
				}
			}
			names, cause = append(names, st.Name+" "+in.name()), err
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("events that were read and not released would be lost, because %d partitions cannot be read again now (%s): "+
		"try again once they can, or once their events are released: %w", len(names), strings.Join(names[:min(len(names), namesMax)], ", "), cause)
}

// errGone says that there is nothing to read a partition from.
var errGone = errors.New("its source does not have it")

// turn has all partitions go on for the engine that has taken over.
func (s *sequencer) turn() {
	raw := engine.NeedsRaw(s.set)
	relate(s.streams, s.set)
	for _, st := range s.streams {
		st.plan = newPlan(&st.Stream, s.set.Schema, raw)
		st.waiting, st.again = queue{}, queue{}
		for _, in := range st.inputs {
			s.turnInput(in)
		}
	}
}

func (s *sequencer) turnInput(in *input) {
	st := in.stream
	in.ready = false
	from, waits := s.core.Unreleased(in.id)
	if !waits {
		from = -1
	} else {
		if in.read > 0 {
			delete(st.starts, in.id.Name)
		}
		in.again = max(in.again, in.read)
		in.read, in.last = 0, 0
		if !in.rereading {
			in.rereading = true
			s.rereading++
		}
	}
	restart := in.turn(st.plan, from)
	switch {
	case in.reader == nil || in.failed != nil: // it goes on once it is found
	case restart:
		if in.ended {
			in.ended = false
			st.open++
		}
		s.read(in, in.reader)
	default:
		in.mu.Lock()
		ended := in.end != nil
		in.mu.Unlock()
		if ended {
			s.enqueue(in)
		}
	}
}
