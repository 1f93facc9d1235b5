package cep

import (
	"cmp"
	"strings"
)

// Partition is one ordered part of a stream: a Kafka partition, a file. There is one Partition in a process for each
// (Stream, Name), so pointers compare.
type Partition struct {
	Stream string
	// Name identifies the partition wherever it is read again: a number, or the hash of a file's head. It is part of
	// alert ids.
	Name string
	// Order is the place of the stream in the configuration, the tie-break between streams at one time.
	Order int
}

// Compare orders partitions as S1.1 does: by the stream's place, then by name.
func (p *Partition) Compare(q *Partition) int {
	if p == q {
		return 0
	}
	if c := cmp.Compare(p.Order, q.Order); c != 0 {
		return c
	}
	if c := strings.Compare(p.Stream, q.Stream); c != 0 {
		return c
	}
	return strings.Compare(p.Name, q.Name)
}

// Position is where an event was read.
type Position struct {
	Partition *Partition
	Offset    int64
}

// Compare orders positions by partition, then offset.
func (p Position) Compare(q Position) int {
	if c := p.Partition.Compare(q.Partition); c != 0 {
		return c
	}
	return cmp.Compare(p.Offset, q.Offset)
}

// Event is something that happened. It is immutable once it has been released by the order buffer.
type Event struct {
	// Time is when it happened, by the event's own word.
	Time Time
	// Seq numbers events in the order in which the engine released them, that is the total order S1.1, from 1. It exists
	// to order what happens at one time; it is no part of any id.
	Seq uint64
	// Position is where the event was read.
	Position Position
	// Values holds the fields that some rule reads, by slot of the schema; a field the event lacks is missing. It may be
	// shorter than the schema: what lies behind its end is missing.
	Values []Value
	// Raw is the event as JSON text, kept only where a rule includes events in its alerts.
	Raw []byte
}

// Value returns the field in a slot.
func (e *Event) Value(slot int) Value {
	if slot >= len(e.Values) {
		return Value{}
	}
	return e.Values[slot]
}
