package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
)

var errAbort = errors.New("the engine broke")

// event is what can come to a coordinator. number is the epoch that it is about, relative to the one under way.
type event struct {
	name   string
	number int
}

func (e event) String() string { return fmt.Sprintf("%s%+d", e.name, e.number) }

// events are all of them, for two participants and every epoch that can be confused with the right one.
func events() []event {
	l := []event{{"begin", 0}, {"abort", 0}}
	for _, name := range []string{"vote engine", "vote sinks", "vote stranger", "done"} {
		for _, number := range []int{-1, 0, 1} {
			l = append(l, event{name, number})
		}
	}
	return l
}

// spec is the table of the comment, written down a second time.
type spec struct {
	phase         Phase
	newest        cep.Epoch
	engine, sinks bool
}

// step returns what follows, and whether the event is accepted.
func (s spec) step(e event) (spec, bool) {
	right := e.number == 0
	switch {
	case e.name == "abort":
		return spec{phase: Aborted, newest: s.newest}, true
	case e.name == "begin" && s.phase == Idle:
		return spec{phase: Preparing, newest: s.newest}, true
	case e.name == "vote engine" && s.phase == Preparing && right && !s.engine:
		s.engine = true
	case e.name == "vote sinks" && s.phase == Preparing && right && !s.sinks:
		s.sinks = true
	case e.name == "done" && s.phase == Prepared && right:
		return spec{phase: Idle, newest: s.newest + 1}, true
	default:
		return s, false
	}
	if s.engine && s.sinks {
		s.phase = Prepared
	}
	return s, true
}

// apply sends an event to a coordinator.
func (e event) apply(c *Coordinator) error {
	epoch := c.Newest() + 1 + cep.Epoch(e.number)
	if participant, ok := strings.CutPrefix(e.name, "vote "); ok {
		part := &Commit{Outbox: []Outgoing{{Sink: participant, Sequence: uint64(epoch)}}}
		if participant == "engine" {
			part.Manifest.Engine = json.RawMessage(`{}`)
		}
		return c.Vote(epoch, participant, part)
	}
	switch e.name {
	case "begin":
		_, err := c.Begin()
		return err
	case "done":
		return c.Done(epoch)
	}
	c.Abort(errAbort)
	return nil
}

// TestCoordinatorExhaustive plays every sequence of up to nine events, which lead through two epochs and into the third,
// against the table. One that was refused has changed nothing, so no sequence goes on behind it.
func TestCoordinatorExhaustive(t *testing.T) {
	played, refused := 0, 0
	reached := map[string]bool{}
	var play func(path []event, s spec)
	play = func(path []event, s spec) {
		reached[fmt.Sprint(s.phase, s.engine, s.sinks)] = true
		for _, e := range events() {
			c := NewCoordinator(40, "engine", "sinks")
			for _, before := range path {
				if err := before.apply(c); err != nil {
					t.Fatalf("%v: %v", path, err)
				}
			}
			want, ok := s.step(e)
			err := e.apply(c)
			played++
			if (err == nil) != ok {
				t.Fatalf("%v, then %v: %v", path, e, err)
			}
			checkCoordinator(t, append(path, e), c, want)
			if !ok {
				refused++
				var transition *TransitionError
				if !errors.As(err, &transition) || transition.Phase != s.phase {
					t.Fatalf("%v, then %v: %v", path, e, err)
				}
				if s.phase == Aborted && !errors.Is(err, errAbort) {
					t.Fatalf("%v, then %v does not say why: %v", path, e, err)
				}
				continue
			}
			if len(path) < 8 {
				play(append(slices.Clip(path), e), want)
			}
		}
	}
	play(nil, spec{newest: 40})
	if len(reached) != 6 {
		t.Errorf("reached %v", reached)
	}
	t.Logf("%d sequences, %d refused", played, refused)
}

func checkCoordinator(t *testing.T, path []event, c *Coordinator, want spec) {
	t.Helper()
	if c.Phase() != want.phase || c.Newest() != want.newest {
		t.Fatalf("%v: %s behind epoch %d, want %s behind %d", path, c.Phase(), c.Newest(), want.phase, want.newest)
	}
	if want.phase == Preparing && (slices.Contains(c.voted, "engine") != want.engine || slices.Contains(c.voted, "sinks") != want.sinks) {
		t.Fatalf("%v: votes of %v", path, c.voted)
	}
	commit := c.Commit()
	if (commit != nil) != (want.phase == Prepared) {
		t.Fatalf("%v: the commit in phase %s is %v", path, c.Phase(), commit)
	}
	if commit != nil && (commit.Manifest.Epoch != want.newest+1 || len(commit.Outbox) != 2 || commit.Manifest.Engine == nil) {
		t.Fatalf("%v: the commit lacks a part: %v", path, commit)
	}
	if (c.why != nil) != (want.phase == Aborted) {
		t.Fatalf("%v: %v", path, c.why)
	}
}

// TestVoteJoinsParts holds that parts are put together, and that none can take another one's place.
func TestVoteJoinsParts(t *testing.T) {
	c := NewCoordinator(0, "engine", "sinks", "letters")
	if _, err := c.Begin(); err != nil {
		t.Fatal(err)
	}
	vote := func(name string, part *Commit) error { return c.Vote(1, name, part) }
	engine := &Commit{
		Manifest: Manifest{Engine: json.RawMessage(`1`), Job: "j", Sources: []SourcePosition{{Stream: "s"}}},
		Records:  []Record{{Slot: 1, Key: []byte("a")}},
	}
	if err := vote("engine", engine); err != nil {
		t.Fatal(err)
	}
	for what, part := range map[string]*Commit{
		"job, engine":         {Manifest: Manifest{Job: "k", Engine: json.RawMessage(`2`)}},
		"the part is of":      {Manifest: Manifest{Epoch: 7}},
		"sources":             {Manifest: Manifest{Sources: []SourcePosition{}}},
		"vote of sinks for e": {Manifest: Manifest{Job: "k"}},
	} {
		if err := vote("sinks", part); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	sinks := &Commit{
		Manifest: Manifest{Epoch: 1, Sinks: []SinkPosition{{Name: "out", Sequence: 2}}},
		Outbox:   []Outgoing{{Sink: "out", Sequence: 1}, {Sink: "out", Sequence: 2}},
		Forget:   map[string]uint64{"out": 1},
	}
	if err := vote("sinks", sinks); err != nil {
		t.Fatal(err)
	}
	if err := vote("letters", &Commit{Forget: map[string]uint64{"out": 2}}); err == nil || !strings.Contains(err.Error(), "forget out") {
		t.Errorf("a second word about what is forgotten: %v", err)
	}
	letters := &Commit{Records: []Record{{Slot: 2, Key: []byte("b")}}, Forget: map[string]uint64{"late": 4}, Blobs: []Blob{{Hash: "h"}}}
	if err := vote("letters", letters); err != nil {
		t.Fatal(err)
	}
	want := &Commit{
		Manifest: Manifest{Epoch: 1, Job: "j", Engine: json.RawMessage(`1`), Sources: engine.Manifest.Sources, Sinks: sinks.Manifest.Sinks},
		Records:  []Record{{Slot: 1, Key: []byte("a")}, {Slot: 2, Key: []byte("b")}},
		Outbox:   sinks.Outbox, Forget: map[string]uint64{"out": 1, "late": 4}, Blobs: letters.Blobs,
	}
	if d := cmp.Diff(want, c.Commit()); d != "" {
		t.Errorf("the commit (-want +got):\n%s", d)
	}
	if first := c.Commit(); c.Commit() != first {
		t.Error("the commit changes from call to call")
	}
	if len(engine.Records) != 1 {
		t.Error("a participant's part was changed")
	}
}

// TestCommitAfterLostReply is crash case 5 of a process that lives on: the same commit is written until the store says yes.
func TestCommitAfterLostReply(t *testing.T) {
	c := NewCoordinator(7, "engine")
	e, err := c.Begin()
	if err != nil || e != 8 || c.Epoch() != 8 {
		t.Fatalf("epoch %d, %v", e, err)
	}
	if err := c.Vote(e, "engine", &Commit{}); err != nil {
		t.Fatal(err)
	}
	first := c.Commit() // written; the store has it, the reply is an error
	if again := c.Commit(); again != first || c.Phase() != Prepared {
		t.Fatalf("the second one is %v in phase %s", again, c.Phase())
	}
	if err := c.Done(8); err != nil || c.Newest() != 8 || c.Phase() != Idle || c.Epoch() != 8 {
		t.Fatalf("%v: epoch %d, %s", err, c.Newest(), c.Phase())
	}
}
