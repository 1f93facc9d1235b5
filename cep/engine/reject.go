package engine

import "github.com/cepd/cepd/cep"

// Why an event is refused, beside the kinds of package codec.
const (
	ReasonLate     = "late"     // at or below the watermark of its own partition
	ReasonReturned = "returned" // at or below what its stream released while its partition was away
	ReasonFuture   = "future"   // too far ahead to be true
)

// Reject is an event that takes no part, or a record that is none.
type Reject struct {
	// Reason is one of the Reason constants or the name of a [codec.ErrorKind].
	Reason   string
	Position cep.Position
	// Time is the event's, [cep.BeforeAll] for a record that is no event.
	Time cep.Time
	// Data is the record as far as the caller handed it over; it is valid during the call.
	Data []byte
	// Detail is one line for people.
	Detail string
}
