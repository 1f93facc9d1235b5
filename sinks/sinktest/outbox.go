package sinktest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/sinks"
)

// Messages returns n messages behind a position. What differs in salt differs in ids, bodies and chains.
func Messages(behind sinks.Progress, n int, salt string) []sinks.Message {
	list := make([]sinks.Message, n)
	for i := range list {
		seq := behind.Sequence + 1 + uint64(i)
		list[i] = Message(seq, salt, fmt.Appendf(nil, `{"n":%d,"salt":%q}`, seq, salt))
	}
	Chain(behind, list)
	return list
}

// Message makes one message; [Chain] gives it its place.
func Message(sequence uint64, salt string, body []byte) sinks.Message {
	key, _ := cep.KeyOf(cep.Int(int64(sequence % 7)))
	return sinks.Message{
		Sequence: sequence,
		ID:       cep.AlertID(sinks.Chain{}.Next(cep.AlertID{byte(sequence), byte(sequence >> 8), byte(sequence >> 16)}).Next(cep.AlertID([]byte(fmt.Sprintf("%-32.32s", salt))))),
		Kind:     sinks.KindAlert,
		Rule:     "rule", What: "match", Severity: "high", Key: key,
		Time: cep.Time(sequence) * cep.Second,
		Body: body,
	}
}

// Chain numbers and chains messages behind a position, and returns the position behind them.
func Chain(behind sinks.Progress, messages []sinks.Message) sinks.Progress {
	for i := range messages {
		behind.Sequence++
		behind.Chain = behind.Chain.Next(messages[i].ID)
		messages[i].Sequence, messages[i].Chain = behind.Sequence, behind.Chain
	}
	return behind
}

// Outbox is an outbox in memory. Each Commit is an epoch: what was confirmed before it survives a Crash.
type Outbox struct {
	mu       sync.Mutex
	begun    sinks.Progress
	lasting  noted // as of the last Commit
	now      noted
	messages []sinks.Message // from the one behind lasting.first on
	last     sinks.Progress
}

type noted struct{ first, sent sinks.Progress }

var _ sinks.Outbox = (*Outbox)(nil)

// Commit adds messages behind the last ones.
func (o *Outbox) Commit(messages ...sinks.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.messages = o.messages[o.now.first.Sequence-o.lasting.first.Sequence:]
	o.lasting = o.now
	o.last = Chain(o.last, messages)
	o.messages = append(slices.Clip(o.messages), messages...)
}

// Crash forgets what was confirmed since the last Commit.
func (o *Outbox) Crash() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now = o.lasting
	if o.begun.Lineage > o.now.sent.Lineage {
		o.now.sent = o.begun
	}
}

// Restored returns an outbox as of an older epoch: the messages up to a sequence are committed, those up to sent were sent, and
// nothing is known of what was begun since.
func (o *Outbox) Restored(sent, last uint64) *Outbox {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := &Outbox{begun: o.begun}
	r.now.first = o.lasting.first
	r.now.sent = o.at(sent)
	r.lasting = r.now
	r.messages = slices.Clone(o.messages[:last-o.lasting.first.Sequence])
	r.last = o.at(last)
	return r
}

// at is the position at a sequence that is kept.
func (o *Outbox) at(sequence uint64) sinks.Progress {
	p := sinks.Progress{Lineage: o.begun.Lineage, Sequence: sequence}
	if sequence == o.lasting.first.Sequence {
		p.Chain = o.lasting.first.Chain
	} else {
		p.Chain = o.messages[sequence-o.lasting.first.Sequence-1].Chain
	}
	return p
}

// Read implements [sinks.Outbox].
func (o *Outbox) Read(ctx context.Context, from uint64, most, bytesMax int) ([]sinks.Message, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if from <= o.now.first.Sequence {
		return nil, fmt.Errorf("message %d is not kept", from)
	}
	var list []sinks.Message
	size := 0
	for seq := from; seq <= o.last.Sequence && len(list) < most; seq++ {
		m := o.messages[seq-o.lasting.first.Sequence-1]
		if size += len(m.Body); len(list) > 0 && size > bytesMax {
			break
		}
		list = append(list, m)
	}
	return list, nil
}

// Chain implements [sinks.Outbox].
func (o *Outbox) Chain(_ context.Context, sequence uint64) (sinks.Chain, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if sequence < o.now.first.Sequence || sequence > o.last.Sequence {
		return sinks.Chain{}, fmt.Errorf("the chain at %d is not known", sequence)
	}
	return o.at(sequence).Chain, nil
}

// Range implements [sinks.Outbox].
func (o *Outbox) Range() sinks.Range {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := sinks.Range{First: o.now.first, Begun: o.begun, Sent: o.now.sent, Last: o.last}
	r.First.Lineage, r.Sent.Lineage, r.Last.Lineage = o.begun.Lineage, o.begun.Lineage, o.begun.Lineage
	return r
}

// Confirm implements [sinks.Outbox].
func (o *Outbox) Confirm(published sinks.Progress, forget uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if forget > published.Sequence {
		return fmt.Errorf("forget up to %d, published up to %d", forget, published.Sequence)
	}
	if published.Sequence > o.last.Sequence {
		return fmt.Errorf("published up to %d, committed up to %d", published.Sequence, o.last.Sequence)
	}
	o.now.sent = published
	if forget > o.now.first.Sequence {
		o.now.first = o.at(forget)
	}
	return nil
}

// Begin implements [sinks.Outbox].
func (o *Outbox) Begin(_ context.Context, p sinks.Progress) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.Lineage < o.begun.Lineage {
		return fmt.Errorf("lineage %d begins after %d", p.Lineage, o.begun.Lineage)
	}
	if p.Lineage > o.begun.Lineage {
		o.begun = p
	}
	o.now.sent, o.lasting.sent = p, p
	return nil
}
