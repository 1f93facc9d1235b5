package codec

import (
	"fmt"

	"github.com/cepd/cepd/cep"
)

// Decoder makes events from the records of one partition.
//
// It belongs to one goroutine. What it puts into an event is lent: the strings in ev.Values, and ev.Raw, stay valid only
// until the next Decode or until the record's bytes change, whichever comes first, unless Keep was called for the event. With
// Options.Several the next Decode changes nothing of it.
type Decoder interface {
	// Decode fills ev.Time, ev.Values (by slot of the schema) and, where Options.Raw is set, ev.Raw. It sets ev.Position
	// only where the event itself says where it was first read (the member _cepd that `cepd record` writes). ev.Values is
	// reused where it is large enough.
	//
	// The error is a *Error, and the record as a whole is refused: what is in ev then means nothing.
	Decode(data []byte, ev *cep.Event) error
	// Beside hands over what a broker keeps with the record that is decoded next, lent as its data is. Without Options.Meta it
	// is left alone.
	Beside(m *cep.Meta)
	// Keep copies what Decode lent to ev, the last event decoded, into memory that stays. See also [Keeper].
	Keep(ev *cep.Event)
	// Inexact is the number of integers decoded so far that lie outside int64 and lost digits as floats.
	Inexact() uint64
}

// MaxSize is the size in bytes above which an event is refused: see source.MaxRecord.
const MaxSize = 1 << 20

// MaxDepth is how deep objects and lists may be nested; the event itself is the first. Real events stay below 15;
// encoding/json allows 10,000, at some 200 bytes of stack each.
const MaxDepth = 64

// Options change what a decoder does.
type Options struct {
	// MaxSize is the limit of an event's size; MaxSize where it is 0.
	MaxSize int
	// Raw asks for ev.Raw: some rule includes events in its alerts.
	Raw bool
	// Partition finds the partition that an event says it was first read from; nil: there is no such stream. Without this
	// function _cepd is a field as any other.
	Partition func(stream, name string) *cep.Partition
	// Meta says that a broker keeps something with each record, which is handed over by Beside: _kafka is that, and no member
	// of the value. A record without data is then one without a value.
	Meta bool
	// Several says that several events are at hand at a time: what is lent to one stays valid until its record's bytes change,
	// whatever is decoded next.
	Several bool
}

// ErrorKind says why an event was refused. Each kind has its counter.
type ErrorKind uint8

// The kinds of refusal.
const (
	BadJSON     ErrorKind = iota // no JSON, or no object
	BadCSV                       // no row, or not with as many fields as there are columns
	BadUTF8                      // bytes that are no UTF-8
	TooDeep                      // nested deeper than MaxDepth
	TooLarge                     // more bytes than MaxSize
	NoTime                       // none of the time fields is there
	BadTime                      // the time field is no time of its layout
	BadPosition                  // _cepd names no stream that is read, or is no position
	NoValue                      // a record of a broker without a value: a tombstone
)

var kindNames = [...]string{"bad json", "bad csv", "bad utf-8", "too deep", "too large", "no time", "bad time", "bad position", "no value"}

// String returns the kind as summaries name it.
func (k ErrorKind) String() string { return kindNames[k] }

// Error is an event that was refused.
type Error struct {
	Kind ErrorKind
	// Offset is the byte at which reading stopped; -1 where that says nothing.
	Offset int
	// Detail says what was found, without the event's content.
	Detail string
}

// Error returns the kind, the place and the detail.
func (e *Error) Error() string {
	s := e.Kind.String()
	if e.Offset >= 0 {
		s = fmt.Sprintf("%s at byte %d", s, e.Offset)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}
