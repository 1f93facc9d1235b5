package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/memstore"
	"github.com/cepd/cepd/sinks"
)

// shelf is an outbox over a store in memory, with the epochs that fill it.
type shelf struct {
	t       *testing.T
	disk    *memstore.Disk
	store   *memstore.Store
	outbox  *outbox
	epoch   cep.Epoch
	changes int
	points  []string
}

func newShelf(t *testing.T) *shelf {
	s := &shelf{t: t, disk: memstore.NewDisk(memstore.Options{})}
	s.open()
	return s
}

// open is what a new process does.
func (s *shelf) open() {
	s.t.Helper()
	s.disk.Crash()
	store, err := s.disk.Open()
	if err != nil {
		s.t.Fatal(err)
	}
	s.store = store
	s.outbox = &outbox{
		store: store, name: "out", changed: func() { s.changes++ },
		failpoint: func(p string) { s.points = append(s.points, p) },
	}
	infos, err := store.Epochs(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.epoch = 0
	if len(infos) == 0 {
		if err := s.outbox.readNote(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	s.epoch = infos[len(infos)-1].Epoch
	m, err := store.Restore(s.t.Context(), s.epoch, func(checkpoint.Record) error { return nil })
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.outbox.restore(s.t.Context(), m.Sinks[0]); err != nil {
		s.t.Fatal(err)
	}
}

// commit makes an epoch with so many more messages.
func (s *shelf) commit(n int) {
	s.t.Helper()
	last := s.outbox.last
	c := &checkpoint.Commit{Forget: map[string]uint64{}}
	for range n {
		m := message(last.sequence + 1)
		last.chain = last.chain.Next(m.ID)
		last.sequence++
		m.Chain = last.chain
		c.Outbox = append(c.Outbox, checkpoint.Outgoing{Sink: "out", Sequence: m.Sequence, Data: sinks.AppendMessage(nil, &m)})
	}
	st, err := s.outbox.stand(s.t.Context(), last)
	if err != nil {
		s.t.Fatal(err)
	}
	if st.forget > 0 {
		c.Forget["out"] = st.forget
	}
	s.epoch++
	c.Manifest = checkpoint.Manifest{Epoch: s.epoch, Sinks: []checkpoint.SinkPosition{st.position}}
	if err := s.store.Commit(s.t.Context(), c); err != nil {
		s.t.Fatal(err)
	}
	s.outbox.committed(last, st.first)
}

func message(n uint64) sinks.Message {
	return sinks.Message{Sequence: n, ID: cep.AlertID{byte(n), byte(n >> 8)}, Body: fmt.Appendf(nil, `{"n":%d}`, n)}
}

// at is the position behind message n.
func at(lineage, n uint64) sinks.Progress {
	p := sinks.Progress{Lineage: lineage}
	for p.Sequence < n {
		p.Sequence++
		m := message(p.Sequence)
		p.Chain = p.Chain.Next(m.ID)
	}
	return p
}

func (s *shelf) sequences(from uint64, most int) []uint64 {
	s.t.Helper()
	messages, err := s.outbox.Read(s.t.Context(), from, most, 1<<20)
	if err != nil {
		s.t.Fatal(err)
	}
	list := []uint64{}
	for i := range messages {
		list = append(list, messages[i].Sequence)
		if want := at(0, messages[i].Sequence).Chain; messages[i].Chain != want {
			s.t.Errorf("message %d has another chain", messages[i].Sequence)
		}
	}
	return list
}

func (s *shelf) want(first, begun, sent, last sinks.Progress) {
	s.t.Helper()
	r := s.outbox.Range()
	want := sinks.Range{First: first, Begun: begun, Sent: sent, Last: last}
	if r != want {
		s.t.Errorf("range %+v\nwant  %+v", r, want)
	}
	for n := r.First.Sequence; n <= r.Last.Sequence; n++ {
		c, err := s.outbox.Chain(s.t.Context(), n)
		if err != nil || c != at(0, n).Chain {
			s.t.Errorf("chain at %d: %v", n, err)
		}
	}
}

func TestOutboxHoldsWhatIsCommitted(t *testing.T) {
	s := newShelf(t)
	s.want(sinks.Progress{}, sinks.Progress{}, sinks.Progress{}, sinks.Progress{})
	if got := s.sequences(1, 10); len(got) != 0 {
		t.Errorf("an empty outbox holds %v", got)
	}
	s.commit(3)
	s.commit(0)
	s.commit(2)
	if got := s.sequences(2, 3); !slices.Equal(got, []uint64{2, 3, 4}) {
		t.Errorf("from 2: %v", got)
	}
	if got := s.sequences(6, 3); len(got) != 0 {
		t.Errorf("behind the last one: %v", got)
	}
	s.want(sinks.Progress{}, sinks.Progress{}, sinks.Progress{}, at(0, 5))
	if n, bytes := s.outbox.waits(); n != 5 || bytes == 0 {
		t.Errorf("%d messages, %d bytes wait", n, bytes)
	}
}

func TestOutboxForgets(t *testing.T) {
	s := newShelf(t)
	s.commit(5)
	if err := s.outbox.Confirm(at(0, 4), 3); err != nil {
		t.Fatal(err)
	}
	if !s.outbox.behind() || s.changes != 1 {
		t.Errorf("behind %v, %d changes", s.outbox.behind(), s.changes)
	}
	if err := s.outbox.Confirm(at(0, 4), 3); err != nil {
		t.Fatal(err)
	}
	if s.changes != 1 {
		t.Error("the same position is news")
	}
	s.want(sinks.Progress{}, sinks.Progress{}, at(0, 4), at(0, 5)) // forgotten with an epoch only
	if n, _ := s.outbox.waits(); n != 1 {
		t.Errorf("%d messages wait", n)
	}

	s.open() // a crash before the next epoch: an older answer
	s.want(sinks.Progress{}, sinks.Progress{}, sinks.Progress{}, at(0, 5))

	if err := s.outbox.Confirm(at(0, 4), 3); err != nil {
		t.Fatal(err)
	}
	s.commit(1)
	if s.outbox.behind() {
		t.Error("behind, although an epoch knows")
	}
	s.want(at(0, 3), sinks.Progress{}, at(0, 4), at(0, 6))
	s.open()
	s.want(at(0, 3), sinks.Progress{}, at(0, 4), at(0, 6))
	if kept, _ := s.store.OutboxSize("out"); kept != 4 { // 3 stays for its chain
		t.Errorf("%d messages are kept", kept)
	}
	if err := s.outbox.Confirm(at(0, 6), 6); err != nil {
		t.Fatal(err)
	}
	s.commit(0)
	s.open()
	s.want(at(0, 6), sinks.Progress{}, at(0, 6), at(0, 6))
	s.commit(1)
	s.want(at(0, 6), sinks.Progress{}, at(0, 6), at(0, 7))
}

// TestOutboxOfAnOlderEpoch: what a newer epoch forgot stays forgotten, and the outbox says so.
func TestOutboxOfAnOlderEpoch(t *testing.T) {
	s := newShelf(t)
	s.commit(4)
	if err := s.outbox.Confirm(at(0, 3), 3); err != nil {
		t.Fatal(err)
	}
	s.commit(2)
	if err := s.store.Rewind(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	s.open()
	s.want(at(0, 3), sinks.Progress{}, at(0, 3), at(0, 4))

	if err := s.outbox.Confirm(at(0, 4), 4); err != nil {
		t.Fatal(err)
	}
	s.commit(3)
	if err := s.outbox.Confirm(at(0, 7), 7); err != nil {
		t.Fatal(err)
	}
	s.commit(0)
	if err := s.store.Rewind(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	s.open()
	s.want(at(0, 4), sinks.Progress{}, at(0, 4), at(0, 4))
}

func TestOutboxBegins(t *testing.T) {
	s := newShelf(t)
	if err := s.outbox.Begin(t.Context(), at(1, 0)); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(s.points, PointBegun) {
		t.Error("the failpoint was not reached")
	}
	s.open() // before any epoch
	s.want(at(1, 0), at(1, 0), at(1, 0), at(1, 0))
	s.commit(4)
	if err := s.outbox.Begin(t.Context(), at(3, 2)); err != nil {
		t.Fatal(err)
	}
	s.want(at(3, 0), at(3, 2), at(3, 2), at(3, 4))
	s.open() // the note is newer than the epoch
	s.want(at(3, 0), at(3, 2), at(3, 2), at(3, 4))
	s.commit(1)
	s.open()
	s.want(at(3, 0), at(3, 2), at(3, 2), at(3, 5))
}

// TestOutboxAtMostOnce: a position in the lineage that is there already is one that must not be sent again.
func TestOutboxAtMostOnce(t *testing.T) {
	s := newShelf(t)
	s.commit(4)
	if err := s.outbox.Begin(t.Context(), at(0, 2)); err != nil {
		t.Fatal(err)
	}
	s.open()
	s.want(sinks.Progress{}, sinks.Progress{}, at(0, 2), at(0, 4))
	if err := s.outbox.Begin(t.Context(), at(0, 4)); err != nil {
		t.Fatal(err)
	}
	s.commit(1)
	s.open()
	s.want(sinks.Progress{}, sinks.Progress{}, at(0, 4), at(0, 5))
}

func TestOutboxNamesDamage(t *testing.T) {
	s := newShelf(t)
	s.commit(3)
	if _, err := s.outbox.Chain(t.Context(), 9); !errors.Is(err, checkpoint.ErrMissing) {
		t.Errorf("chain of a message that is not there: %v", err)
	}
	if err := s.store.Note(t.Context(), noteName("out"), []byte(`{"version":2}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.outbox.readNote(t.Context()); !errors.Is(err, checkpoint.ErrNewer) {
		t.Errorf("a note of a newer version: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.disk.Crash()
	if _, err := s.outbox.Read(ctx, 1, 1, 1); err == nil {
		t.Error("read from a store that is gone")
	}
}
