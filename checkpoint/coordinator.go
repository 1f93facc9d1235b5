package checkpoint

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
)

// Phase is where an epoch is on its way to being durable.
type Phase uint8

// The phases, in their order.
const (
	// Idle: no epoch is under way. The newest one is durable.
	Idle Phase = iota
	// Preparing: the barrier is on its way through the engine, votes come in.
	Preparing
	// Prepared: every participant has voted. The epoch is complete in memory, and may be written, again and again.
	Prepared
	// Aborted: the epoch will never be. What the participants counted into it is in no epoch, so all of them are made again
	// from the newest durable one, with a coordinator of its own: this one is at its end.
	Aborted
)

var phaseNames = [...]string{"idle", "preparing", "prepared", "aborted"}

// String returns the word for the phase.
func (p Phase) String() string { return phaseNames[p] }

// Coordinator leads one epoch after the other from its barrier to its commit. It decides and remembers; who owns it does what
// it says: sends the barrier, calls the store, tells the sinks.
//
// The participants vote with their part of the epoch. In a job these are the engine (its state, where the sources are to be
// read again, the rules), and the sinks (messages, positions, what need not be kept any more); dead letters are messages of
// the sink that takes them. The vote that counts is durable: it is the store's single transaction that holds all parts.
//
//	            Begin            Vote (not the last)   Vote (the last)   Done          Abort
//	Idle        Preparing(e+1)   -                     -                 -             Aborted
//	Preparing   -                Preparing             Prepared          -             Aborted
//	Prepared    -                -                     -                 Idle, newest e  Aborted
//	Aborted     -                -                     -                 -             Aborted
//
// Where the table has a dash the call is refused with a [*TransitionError] and changes nothing. A commit that the store
// refused is no event: the epoch stays Prepared and the same [Commit] is written again.
//
// What a crash leaves, by the moment at which it comes:
//
//  1. Idle. The store holds epoch n and its messages. The next process restores n; the sinks publish what their
//     destinations lack.
//  2. Preparing: the barrier is sent, some have voted. Nothing of n+1 has left the process. The next one restores n and
//     reads its sources again from there.
//  3. Prepared, before the transaction. As 2: the parts were in memory only.
//  4. Prepared, inside the transaction. The store makes it 3 or 5: it holds all of n+1 or nothing of it.
//  5. Prepared, the transaction is durable, the reply is lost. The next process finds n+1 and goes on from it. A process
//     that lives on and saw an error writes the same commit again, which the store takes for what it is: done.
//  6. Idle again, before a sink was told. The messages stand in the outbox, and the next process publishes them.
//  7. Some sinks have published, others not. Each destination says how far it is; a sink never waits for another one.
//  8. Aborted. As 2 or, when the abort came behind a commit whose reply was lost, as 5: the store decides, and who builds
//     the job again asks it.
//
// A Coordinator belongs to one goroutine. It has no clock and does no I/O.
type Coordinator struct {
	participants []string
	newest       cep.Epoch
	phase        Phase
	voted        []string
	commit       *Commit
	why          error
}

// NewCoordinator returns the coordinator of the epochs above newest, the one that was restored; 0 on a first start. Each of
// the participants votes once an epoch.
func NewCoordinator(newest cep.Epoch, participants ...string) *Coordinator {
	return &Coordinator{newest: newest, participants: slices.Clone(participants)}
}

// TransitionError says that something came in a phase in which it cannot.
type TransitionError struct {
	Event string
	Phase Phase
	Epoch cep.Epoch
	// Cause is why the epoch was aborted, in Aborted.
	Cause error
}

// Error says what came when.
func (e *TransitionError) Error() string {
	text := fmt.Sprintf("%s while epoch %d is %s", e.Event, e.Epoch, e.Phase)
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *TransitionError) Unwrap() error { return e.Cause }

// Newest returns the newest epoch that is durable.
func (c *Coordinator) Newest() cep.Epoch { return c.newest }

// Phase returns the phase of the epoch that is under way.
func (c *Coordinator) Phase() Phase { return c.phase }

// Epoch returns the epoch that is under way, and the newest one where none is.
func (c *Coordinator) Epoch() cep.Epoch {
	if c.phase == Idle {
		return c.newest
	}
	return c.newest + 1
}

func (c *Coordinator) refuse(event string) error {
	return &TransitionError{Event: event, Phase: c.phase, Epoch: c.Epoch(), Cause: c.why}
}

// Begin starts the next epoch: its barrier may be sent.
func (c *Coordinator) Begin() (cep.Epoch, error) {
	if c.phase != Idle {
		return 0, c.refuse("begin")
	}
	c.phase, c.voted = Preparing, c.voted[:0]
	c.commit = &Commit{}
	c.commit.Manifest.Epoch = c.newest + 1
	return c.newest + 1, nil
}

// Vote takes a participant's part of an epoch. Lists are put one behind the other; what can stand once, a member of the
// manifest, comes from one participant. The part of one that has none is the zero Commit. The epoch in the part is e or 0.
func (c *Coordinator) Vote(e cep.Epoch, participant string, part *Commit) error {
	event := fmt.Sprintf("vote of %s for epoch %d", participant, e)
	switch {
	case c.phase != Preparing || e != c.newest+1:
		return c.refuse(event)
	case !slices.Contains(c.participants, participant):
		return c.refuse(event + ", which is none of " + strings.Join(c.participants, ", ") + ",")
	case slices.Contains(c.voted, participant):
		return c.refuse("second " + event)
	}
	if err := c.commit.add(part); err != nil {
		return fmt.Errorf("%s: %w", event, err)
	}
	c.voted = append(c.voted, participant)
	if len(c.voted) == len(c.participants) {
		c.phase = Prepared
	}
	return nil
}

// Commit returns what has to be made durable; nil unless the epoch is Prepared. It stays the same until [Coordinator.Done].
func (c *Coordinator) Commit() *Commit {
	if c.phase != Prepared {
		return nil
	}
	return c.commit
}

// Done takes the store's answer that epoch e is durable.
func (c *Coordinator) Done(e cep.Epoch) error {
	if c.phase != Prepared || e != c.newest+1 {
		return c.refuse(fmt.Sprintf("epoch %d done", e))
	}
	c.newest, c.phase, c.commit = e, Idle, nil
	return nil
}

// Abort ends the coordinator. The first reason counts.
func (c *Coordinator) Abort(why error) {
	if c.phase == Aborted {
		return
	}
	if why == nil {
		why = errors.New("aborted")
	}
	c.phase, c.why, c.commit = Aborted, why, nil
}

// add joins a participant's part to what is there, or changes nothing.
func (c *Commit) add(p *Commit) error {
	m, add := c.Manifest, p.Manifest
	var twice []string
	note := func(name string, both bool) {
		if both {
			twice = append(twice, name)
		}
	}
	note("job", m.Job != "" && add.Job != "")
	note("created", !m.Created.IsZero() && !add.Created.IsZero())
	note("rules", m.Rules != nil && add.Rules != nil)
	note("sources", m.Sources != nil && add.Sources != nil)
	note("sinks", m.Sinks != nil && add.Sinks != nil)
	note("engine", m.Engine != nil && add.Engine != nil)
	for sink := range p.Forget {
		_, both := c.Forget[sink]
		note("forget "+sink, both)
	}
	if add.Epoch != 0 && add.Epoch != m.Epoch {
		return fmt.Errorf("the part is of epoch %d", add.Epoch)
	}
	if len(twice) > 0 {
		return fmt.Errorf("another participant has given %s already", strings.Join(twice, ", "))
	}
	if add.Job != "" {
		m.Job = add.Job
	}
	if !add.Created.IsZero() {
		m.Created = add.Created
	}
	if add.Rules != nil {
		m.Rules = add.Rules
	}
	if add.Sources != nil {
		m.Sources = add.Sources
	}
	if add.Sinks != nil {
		m.Sinks = add.Sinks
	}
	if add.Engine != nil {
		m.Engine = add.Engine
	}
	c.Manifest = m
	c.Records = join(c.Records, p.Records)
	c.Outbox = join(c.Outbox, p.Outbox)
	c.Blobs = join(c.Blobs, p.Blobs)
	for sink, sequence := range p.Forget {
		if c.Forget == nil {
			c.Forget = map[string]uint64{}
		}
		c.Forget[sink] = sequence
	}
	return nil
}

// join puts lists one behind the other; where only one has something it is not copied, because records may be many.
func join[T any](a, b []T) []T {
	if len(a) == 0 {
		return slices.Clip(b)
	}
	return append(a, b...)
}
