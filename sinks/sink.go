package sinks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/cepd/cepd/cep"
)

// Chain is a SHA-256 over the ids of all messages up to one: two sequences that are equal there have sent the same.
type Chain [sha256.Size]byte

// Next returns the chain behind one more message: SHA-256 over the chain so far and the id.
func (c Chain) Next(id cep.AlertID) Chain {
	var b [2 * sha256.Size]byte
	copy(b[:], c[:])
	copy(b[sha256.Size:], id[:])
	return sha256.Sum256(b[:])
}

// String returns the chain in hex.
func (c Chain) String() string { return hex.EncodeToString(c[:]) }

// Progress is where a sink stands: the last message applied. The zero Progress is that of a sink which has applied nothing.
type Progress struct {
	// Lineage counts how often the history of the job was begun anew at a point before the end: a savepoint that was
	// restored, a repetition that was accepted.
	Lineage uint64 `json:"lineage"`
	// Sequence is the number of the last message, from 1; 0: none.
	Sequence uint64 `json:"sequence"`
	Chain    Chain  `json:"-"`
}

// Kind is what a message is.
type Kind uint8

// The kinds of messages.
const (
	KindAlert  Kind = iota // an alert
	KindReject             // an event that was refused: no event at all, or from the future
	KindLate               // an event that came too late
	KindExcess             // an alert for which another sink had no room
)

var kindNames = [...]string{"alert", "reject", "late", "excess"}

// String returns the word for the kind.
func (k Kind) String() string { return kindNames[k] }

// Message is what is sent to one sink. It is immutable.
type Message struct {
	// Sequence numbers the messages of the sink, from 1, without gaps; Chain is that behind this message.
	Sequence uint64
	Chain    Chain
	// ID is the alert's id, or for an event a hash of its position and of what became of it.
	ID   cep.AlertID
	Kind Kind
	// Rule, What (the kind of alert) and Severity are those of the alert; "" for events.
	Rule, What, Severity string
	// Key is the alert's key (see [cep.Key]), which spreads alerts over partitions.
	Key cep.Key
	// Time is the event time.
	Time cep.Time
	// Body is one JSON object: the alert as docs/format/alert.md draws it, or the event with what became of it.
	Body []byte
}

// Batch is what a sink applies at once. Base is the position below its first message; without messages the sink verifies
// that the destination stands there.
type Batch struct {
	Base     Progress
	Messages []Message
}

// End is the position behind the batch.
func (b *Batch) End() Progress {
	p := b.Base
	if n := len(b.Messages); n > 0 {
		p.Sequence, p.Chain = b.Messages[n-1].Sequence, b.Messages[n-1].Chain
	}
	return p
}

// Ack is a destination's answer.
type Ack struct {
	// Published is the position at the destination now.
	Published Progress
	// Acknowledged is the sequence up to which the destination has confirmed that it will not forget by a failure it is
	// configured to survive (replicas have it); Published.Sequence where it knows no difference.
	Acknowledged uint64
}

// Guarantee is what a sink promises about each message.
type Guarantee uint8

// The guarantees.
const (
	ExactlyOnce Guarantee = iota // the position lives at the destination and moves together with the messages
	AtLeastOnce                  // the position lives here: what was under way in a crash is sent again
	AtMostOnce                   // the position moves before the messages are sent: what was under way in a crash is lost
)

var guaranteeNames = [...]string{"exactly_once", "at_least_once", "at_most_once"}

// String returns the word that configurations use.
func (g Guarantee) String() string { return guaranteeNames[g] }

// MarshalText writes that word.
func (g Guarantee) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// Sink is a destination. Its calls come from one goroutine, one at a time; Close may come from another, after the context of
// a call that runs was cancelled.
//
// Every call may be repeated: a reply that was lost is no harm. An error that is none of those in this package may pass, and
// the caller tries again after a while. A call ends in bounded time by itself: the sink has the time-outs that fit its
// destination.
type Sink interface {
	// Peek returns where the destination stands, as Open would, and leaves it alone: whoever owns it goes on writing, and nothing
	// there has another owner or position afterwards. What a call of the owner has under way is waited for, since the position
	// may be about to move. A destination that is not there, or that nobody has begun, stands at the zero Progress; so does one
	// that keeps no position.
	//
	// It may be called at any time, before Open as well, while others own the destination and write to it. What it returns is as
	// old as the call: only what Open returns stays. Its errors are those of Open: one that is [Permanent] would have stopped
	// Open too.
	Peek(ctx context.Context) (Progress, error)
	// Open fences every predecessor and returns where the destination stands. A sink that keeps no position there returns
	// the zero Progress. It is called again after [FencedError] says that the destination forgot who owns it, and after a
	// new start; never because a connection broke.
	//
	// A zero Chain at a Sequence above 0 says that the position itself is lost and was read off what is there: the caller
	// compares nothing, and calls Begin with that very lineage and sequence.
	Open(ctx context.Context) (Progress, error)
	// Begin makes p the position at the destination: what follows goes on from p. Its lineage is above that of the
	// destination, or equal where the destination has lost its position. Repeating it is no error. A sink without a position
	// at the destination does nothing.
	Begin(ctx context.Context, p Progress) error
	// Publish applies the messages and the position behind them together, exactly behind b.Base, or changes nothing. A
	// batch that is there already is acknowledged. It never skips.
	//
	// A sink without a position at the destination may get some way into a batch: with its error it then returns an Ack
	// whose Published says how far, and the caller goes on from there.
	Publish(ctx context.Context, b Batch) (Ack, error)
	Close() error
}
