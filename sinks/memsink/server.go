package memsink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cepd/cepd/sinks"
)

// Call says which call of a sink a [Fault] is for.
type Call uint8

// The calls.
const (
	Peek Call = iota
	Open
	Begin
	Publish
)

var callNames = [...]string{"peek", "open", "begin", "publish"}

// String names the call.
func (c Call) String() string { return callNames[c] }

// Fault is what happens to one call. The zero Fault is none.
type Fault struct {
	// Delay passes before the call arrives; ctx ends it.
	Delay time.Duration
	// LoseRequest: the call never arrives. LoseReply: it arrives and takes effect, and the caller is told that the connection broke.
	LoseRequest, LoseReply bool
	// Cut: of a batch only so many messages arrive, where the mutant [PositionApart] lets a part of a batch in.
	Cut int
	// Failover happens before the call arrives, or with FailoverAfter between its effect and its reply.
	Failover, FailoverAfter bool
	// Refuse is the answer of a destination that does nothing: out of memory, read-only.
	Refuse error
}

// Mutant is a destination, or a sink, that breaks one promise of package sinks.
type Mutant uint8

// The mutants.
const (
	Sound Mutant = iota
	// NoFence lets everybody in who ever opened it.
	NoFence
	// PositionApart moves the position in a step of its own behind the messages: a lost request or reply falls between.
	PositionApart
	// BlindAppend appends whatever comes, wherever the position is.
	BlindAppend
	// SkipGap takes a batch above the position.
	SkipGap
)

// Mutants are those that break something.
var Mutants = []Mutant{NoFence, PositionApart, BlindAppend, SkipGap}

var mutantNames = [...]string{"sound", "no fence", "position apart", "blind append", "skip over the gap"}

// String names the mutant.
func (m Mutant) String() string { return mutantNames[m] }

// Options choose the kind of destination.
type Options struct {
	Mutant Mutant
	// Replicated: what is applied is acknowledged only once [Server.Replicate] was called, and a failover goes back to there.
	// Without it everything is acknowledged at once, and a failover loses nothing.
	Replicated bool
	// Fault is asked before each call, under no lock, by whoever calls. nil: no faults.
	Fault func(c Call, b *sinks.Batch) Fault
}

// Server is a destination that outlives its sinks.
type Server struct {
	o Options

	mu      sync.Mutex
	now     state
	replica state
	down    bool
	paused  chan struct{} // not nil: closed by Resume
	tokens  uint64
	applied int // messages that were ever applied, whatever became of them
}

// state is what a failover goes back to. Its slice is only appended to, or replaced.
type state struct {
	fence, token uint64
	at           sinks.Progress
	known        bool // at was set
	messages     []sinks.Message
	witness      sinks.Progress // of the last message, without its chain: what can be read off what is there
}

var (
	errBroken = errors.New("the connection broke")
	errDown   = errors.New("connection refused")
)

// NewServer makes an empty destination.
func NewServer(o Options) *Server { return &Server{o: o} }

// Sink makes a sink of the destination. Each stands for a process, or one start of it.
func (s *Server) Sink() *Sink { return &Sink{server: s} }

// Messages returns what a reader of the destination finds.
func (s *Server) Messages() []sinks.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.now.messages)
}

// Bodies returns the bodies of these.
func (s *Server) Bodies() []string {
	var list []string
	for _, m := range s.Messages() {
		list = append(list, string(m.Body))
	}
	return list
}

// Applied is the number of messages that were ever applied: what a reader that missed nothing has seen.
func (s *Server) Applied() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied
}

// At returns the position; known is false where there is none.
func (s *Server) At() (at sinks.Progress, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.at, s.now.known
}

// Replicate makes what has been applied safe from a failover.
func (s *Server) Replicate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicate()
}

func (s *Server) replicate() {
	s.replica = s.now
	s.replica.messages = slices.Clip(s.now.messages) // what either appends later the other does not see
}

// Failover puts the replica in the destination's place: what was applied since the last Replicate is lost, the fence of an Open
// included.
func (s *Server) Failover() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failover()
}

func (s *Server) failover() {
	if s.o.Replicated {
		s.now = s.replica
	}
}

// Forget empties the destination: messages, position and fence. Its replica too.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.replica = state{}, state{}
}

// ForgetPosition loses the position and the fence, and not the messages: an eviction.
func (s *Server) ForgetPosition() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = state{messages: s.now.messages, witness: s.now.witness}
}

// ForgetFence loses who owns it.
func (s *Server) ForgetFence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.fence, s.now.token = 0, 0
}

// Stop makes the destination refuse every call until Start.
func (s *Server) Stop() { s.setDown(true) }

// Start ends Stop.
func (s *Server) Start() { s.setDown(false) }

func (s *Server) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Pause makes every call wait until Resume or the end of its context.
func (s *Server) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused == nil {
		s.paused = make(chan struct{})
	}
}

// Resume ends Pause.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused != nil {
		close(s.paused)
		s.paused = nil
	}
}

// call brings one call of a sink to the destination, with what may happen on the way there and back.
func (s *Server) call(ctx context.Context, c Call, b *sinks.Batch, do func(now *state, f Fault) error) error {
	var f Fault
	if s.o.Fault != nil {
		f = s.o.Fault(c, b)
	}
	if f.Delay > 0 {
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	paused := s.paused
	s.mu.Unlock()
	if paused != nil {
		select {
		case <-paused:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Failover {
		s.failover()
	}
	switch {
	case s.down:
		return fmt.Errorf("%s: %w", c, errDown)
	case f.LoseRequest:
		return fmt.Errorf("%s: %w", c, errBroken)
	case f.Refuse != nil:
		return fmt.Errorf("%s: %w", c, f.Refuse)
	}
	before := len(s.now.messages)
	err := do(&s.now, f)
	s.applied += len(s.now.messages) - before
	if f.FailoverAfter {
		s.failover()
	}
	if f.LoseReply {
		return fmt.Errorf("%s: %w", c, errBroken)
	}
	return err
}
