package cep

import "errors"

// Taken is an event that a candidate has taken. What it can tell is what the program said it would be asked for: the
// slots in its keep list, and the raw text only where alerts include events.
type Taken interface {
	Time() Time
	Position() Position
	Value(slot int) Value
	Raw() []byte
	// Step is the index of the step's name among the rule's names.
	Step() int
}

// History is what a candidate has taken so far, in time order. Steps are indexes into the rule's names in written order
// (absences have names too, and never take anything).
//
// A History is valid until the machine that lent it looks at its next event or watermark.
type History interface {
	// Len is the number of events that the step took.
	Len(step int) int
	// At is the i-th event that the step took, 0 <= i < Len(step). It costs O(events taken).
	At(step, i int) Taken
	// Total is the number of events taken by all steps.
	Total() int
	// Nth is the i-th event taken, 0 <= i < Total(). It costs O(events taken).
	Nth(i int) Taken
	// Aggregate is the value of an aggregate of the rule over what has been taken. The error is an evaluation error of the
	// expression that asks: a sum that overflows, a minimum over values that have no order. O(1) in the machine.
	Aggregate(i int) (Value, error)
	// AggregateEvent is the event of a First or Last aggregate, nil where the step has taken nothing. O(1).
	AggregateEvent(i int) Taken
}

// AggregateKind is a function over the events that a step took.
type AggregateKind uint8

// The aggregates. A missing or null argument counts for nothing. [ErrAggregate] comes from Sum, Min and Max over a value
// that is no number, and from a Sum that leaves int64.
const (
	AggregateCount    AggregateKind = iota // events taken; no argument
	AggregateSum                           // 0 of nothing; an int as long as all arguments are ints
	AggregateMin                           // missing of nothing
	AggregateMax                           // missing of nothing
	AggregateDistinct                      // number of different present values
	AggregateFirst                         // AggregateEvent only
	AggregateLast                          // AggregateEvent only
)

// ErrAggregate says that an aggregate has no value: see [AggregateKind].
var ErrAggregate = errors.New("aggregate over a value that is no number, or a sum outside int64")

// Aggregate is a function that conditions or alerts ask of a step's events, kept up to date event by event.
type Aggregate struct {
	Kind AggregateKind
	Step int
	// Slot is the argument; it is in the keep list of the rule. -1 for Count, First and Last.
	Slot int
}

// Scope is what an expression sees. Unused parts are nil; what an expression may use is checked when it is compiled.
type Scope struct {
	// Event is the current event: the one under test. Nil in alerts.
	Event *Event
	// Prev is the event before the current one in the key's stream, if it is within reach.
	Prev Taken
	// History is what the candidate has taken. Nil before a start.
	History History
	// Key is the key of the candidate.
	Key Key
	// Fields are the values of the alert's fields, in written order: only titles and severities see them.
	Fields []Value
}
