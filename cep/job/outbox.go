package job

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/sinks"
)

// outbox is the [sinks.Outbox] of one sink over the store. Messages are read from there each time: what waits costs no memory.
//
// What [outbox.Confirm] says rides on the next epoch. What [outbox.Begin] says is a note, which is durable at once and belongs
// to no epoch.
//
// The last message that need not be kept is kept all the same: the chain up to it stands in it, and so no epoch has to say
// where the outbox begins. This also holds when an older epoch is restored, because what was forgotten stays forgotten.
type outbox struct {
	store     checkpoint.Store
	name      string
	changed   func() // tells the sequencer that a position was confirmed
	failpoint func(string)

	mu       sync.Mutex
	lineage  uint64
	first    position // below the first message that is kept
	begun    sinks.Progress
	sent     sinks.Progress
	last     position
	forget   uint64         // asked for by the publisher, and not yet in an epoch
	noted    sinks.Progress // the position of messages that are sent at most once
	trailing bool           // sent has moved since the last epoch
}

// position is a [sinks.Progress] of whatever lineage.
type position struct {
	sequence uint64
	chain    sinks.Chain
}

func (p position) in(lineage uint64) sinks.Progress {
	return sinks.Progress{Lineage: lineage, Sequence: p.sequence, Chain: p.chain}
}

// note is the stored form of what Begin has made durable.
type note struct {
	Version int           `json:"version"`
	Begun   *notePosition `json:"begun,omitempty"`
	Sent    *notePosition `json:"sent,omitempty"`
}

type notePosition struct {
	Lineage  uint64 `json:"lineage"`
	Sequence uint64 `json:"sequence"`
	Chain    string `json:"chain"`
}

const noteVersion = 1

func noteOf(p sinks.Progress) *notePosition {
	if p == (sinks.Progress{}) {
		return nil
	}
	return &notePosition{p.Lineage, p.Sequence, p.Chain.String()}
}

func (n *notePosition) progress() (p sinks.Progress, err error) {
	if n == nil {
		return p, nil
	}
	p.Lineage, p.Sequence = n.Lineage, n.Sequence
	p.Chain, err = parseChain(n.Chain)
	return p, err
}

// parseChain reads what Chain.String wrote.
func parseChain(s string) (c sinks.Chain, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(c) {
		return c, fmt.Errorf("%w: chain %.80q is no SHA-256 in hex", checkpoint.ErrDamaged, s)
	}
	copy(c[:], b)
	return c, nil
}

// parseNote reads what Begin has made durable.
func parseNote(data []byte) (begun, sent sinks.Progress, err error) {
	var n note
	if err := json.Unmarshal(data, &n); err != nil {
		return begun, sent, fmt.Errorf("%w: %w", checkpoint.ErrDamaged, err)
	}
	if n.Version < 1 {
		return begun, sent, fmt.Errorf("no version: %w", checkpoint.ErrDamaged)
	}
	if n.Version > noteVersion {
		return begun, sent, fmt.Errorf("version %d, this program reads up to %d: %w", n.Version, noteVersion, checkpoint.ErrNewer)
	}
	if begun, err = n.Begun.progress(); err != nil {
		return begun, sent, err
	}
	sent, err = n.Sent.progress()
	return begun, sent, err
}

// appendNote writes what parseNote reads.
func appendNote(begun, sent sinks.Progress) ([]byte, error) {
	return json.Marshal(note{noteVersion, noteOf(begun), noteOf(sent)})
}

func noteName(sink string) string { return "sink/" + sink }

// restore takes over what an epoch says of the sink, and what was noted since.
func (o *outbox) restore(ctx context.Context, p checkpoint.SinkPosition) error {
	chain, err := parseChain(p.Chain)
	if err != nil {
		return fmt.Errorf("sink %s: %w", o.name, err)
	}
	o.lineage, o.last = p.Lineage, position{p.Sequence, chain}
	if o.first, err = o.beginning(ctx); err != nil {
		return err
	}
	sent := o.first
	if p.Published > sent.sequence {
		if sent.chain, err = o.Chain(ctx, p.Published); err != nil {
			return fmt.Errorf("position %d that was confirmed: %w", p.Published, err)
		}
		sent.sequence = p.Published
	}
	o.sent = sent.in(p.Lineage)
	return o.readNote(ctx)
}

// beginning returns the position below the first message that is kept to be sent.
func (o *outbox) beginning(ctx context.Context) (position, error) {
	stored, err := o.store.Outbox(ctx, o.name, 1, 1, 0)
	switch {
	case err != nil:
		return position{}, fmt.Errorf("outbox of sink %s: %w", o.name, err)
	case len(stored) == 0:
		return o.last, nil
	case stored[0].Sequence == 1:
		return position{}, nil
	}
	m, err := sinks.ReadMessage(stored[0].Data)
	if err != nil {
		return position{}, fmt.Errorf("message %d of sink %s: %w", stored[0].Sequence, o.name, err)
	}
	return position{m.Sequence, m.Chain}, nil
}

// readNote takes over what was noted since the epoch.
func (o *outbox) readNote(ctx context.Context) error {
	data, err := o.store.Noted(ctx, noteName(o.name))
	if err != nil || data == nil {
		return err
	}
	if o.begun, o.noted, err = parseNote(data); err != nil {
		return fmt.Errorf("note of sink %s: %w", o.name, err)
	}
	if o.begun.Lineage > o.lineage {
		o.lineage = o.begun.Lineage
		o.sent = o.begun
	}
	if o.noted.Lineage == o.lineage && o.noted.Sequence > o.sent.Sequence {
		o.sent = o.noted
	}
	if o.sent.Sequence > o.last.sequence { // an older epoch was restored
		o.sent = o.last.in(o.lineage)
	}
	if o.sent.Sequence < o.first.sequence {
		o.sent = o.first.in(o.lineage)
	}
	o.sent.Lineage = o.lineage
	return nil
}

// Read implements [sinks.Outbox].
func (o *outbox) Read(ctx context.Context, from uint64, most, bytesMax int) ([]sinks.Message, error) {
	stored, err := o.store.Outbox(ctx, o.name, from, most, bytesMax)
	if err != nil {
		return nil, fmt.Errorf("outbox of sink %s: %w", o.name, err)
	}
	last := o.Range().Last.Sequence
	messages := make([]sinks.Message, 0, len(stored))
	for i := range stored {
		if stored[i].Sequence > last {
			break // it is durable, and the epoch is about to say so
		}
		m, err := sinks.ReadMessage(stored[i].Data)
		if err != nil {
			return nil, fmt.Errorf("message %d of sink %s: %w", stored[i].Sequence, o.name, err)
		}
		if want := from + uint64(i); m.Sequence != want || stored[i].Sequence != want {
			return nil, fmt.Errorf("outbox of sink %s holds message %d where %d comes next: %w", o.name, m.Sequence, want, checkpoint.ErrDamaged)
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// Chain implements [sinks.Outbox].
func (o *outbox) Chain(ctx context.Context, sequence uint64) (sinks.Chain, error) {
	o.mu.Lock()
	first, last := o.first, o.last
	o.mu.Unlock()
	switch sequence {
	case first.sequence:
		return first.chain, nil
	case last.sequence:
		return last.chain, nil
	}
	stored, err := o.store.Outbox(ctx, o.name, sequence, 1, 0)
	if err != nil {
		return sinks.Chain{}, fmt.Errorf("outbox of sink %s: %w", o.name, err)
	}
	if len(stored) == 0 || stored[0].Sequence != sequence {
		return sinks.Chain{}, fmt.Errorf("message %d of sink %s: %w", sequence, o.name, checkpoint.ErrMissing)
	}
	m, err := sinks.ReadMessage(stored[0].Data)
	if err != nil {
		return sinks.Chain{}, fmt.Errorf("message %d of sink %s: %w", sequence, o.name, err)
	}
	return m.Chain, nil
}

// Range implements [sinks.Outbox].
func (o *outbox) Range() sinks.Range {
	o.mu.Lock()
	defer o.mu.Unlock()
	return sinks.Range{First: o.first.in(o.lineage), Begun: o.begun, Sent: o.sent, Last: o.last.in(o.lineage)}
}

// Confirm implements [sinks.Outbox].
func (o *outbox) Confirm(published sinks.Progress, forget uint64) error {
	o.mu.Lock()
	moved := o.sent != published || forget > o.forget
	o.sent, o.forget = published, max(o.forget, min(forget, o.last.sequence))
	o.trailing = o.trailing || moved
	o.mu.Unlock()
	o.failpoint(PointConfirmed)
	if moved {
		o.changed()
	}
	return nil
}

// Begin implements [sinks.Outbox].
func (o *outbox) Begin(ctx context.Context, p sinks.Progress) error {
	o.failpoint(PointBegun)
	o.mu.Lock()
	begun, noted := o.begun, o.noted
	if p.Lineage > begun.Lineage {
		begun = p
	} else {
		noted = p
	}
	o.mu.Unlock()
	data, err := appendNote(begun, noted)
	if err != nil {
		return fmt.Errorf("note of sink %s: %w", o.name, err)
	}
	if err := o.store.Note(ctx, noteName(o.name), data); err != nil {
		return fmt.Errorf("note position of sink %s: %w", o.name, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begun, o.noted, o.sent = begun, noted, p
	o.lineage = max(o.lineage, p.Lineage)
	return nil
}

// waits is what is committed and not published.
func (o *outbox) waits() (messages uint64, bytes int64) {
	kept, size := o.store.OutboxSize(o.name)
	o.mu.Lock()
	defer o.mu.Unlock()
	messages = o.last.sequence - min(o.sent.Sequence, o.last.sequence)
	if kept > 0 {
		// Messages of one sink are about alike, and this saves keeping the size of each.
		bytes = int64(float64(size) * min(1, float64(messages)/float64(kept)))
	}
	return messages, bytes
}

// stand is what an epoch says of a sink.
type stand struct {
	position checkpoint.SinkPosition
	first    position // below what has to be kept with it
	forget   uint64   // up to which messages go; 0: none
}

// stand returns what an epoch whose last message is last has to say.
func (o *outbox) stand(ctx context.Context, last position) (stand, error) {
	o.mu.Lock()
	s := stand{first: o.first, position: checkpoint.SinkPosition{
		Name: o.name, Lineage: o.lineage, Sequence: last.sequence, Chain: last.chain.String(), Published: o.sent.Sequence,
	}}
	forget := o.forget
	o.trailing = false
	o.mu.Unlock()
	if forget <= s.first.sequence {
		return s, nil
	}
	chain, err := o.Chain(ctx, forget)
	if err != nil {
		return stand{}, err
	}
	s.first, s.forget = position{forget, chain}, forget-1
	return s, nil
}

// committed takes note that an epoch is durable.
func (o *outbox) committed(last, first position) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.first = last, first
}

// behind reports whether an epoch would have something new to say.
func (o *outbox) behind() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.trailing
}
