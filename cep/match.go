package cep

import (
	"cmp"
	"math"
)

// Moment is when something is decided: at an event, or by time alone after every event of that time (S5.3).
type Moment struct {
	Time Time
	// Seq is the [Event.Seq] of the deciding event; ByTime where time alone decided.
	Seq uint64
}

// ByTime is the Seq of a moment that no event decided: after all events of its time.
const ByTime = math.MaxUint64

// Compare orders moments.
func (m Moment) Compare(n Moment) int {
	if c := cmp.Compare(m.Time, n.Time); c != 0 {
		return c
	}
	return cmp.Compare(m.Seq, n.Seq)
}

// Timed reports whether time alone decided.
func (m Moment) Timed() bool { return m.Seq == ByTime }

// MatchKind tells a match from a start that timed out.
type MatchKind uint8

// The kinds of match.
const (
	MatchComplete MatchKind = iota
	MatchTimeout
)

// Match is what a machine lets out for one key: a candidate, or the largest assignment of a start that timed out.
type Match struct {
	Kind MatchKind
	Key  Key
	// Moment is when the match was let out; with `emit: ordered` that may be after Completed.
	Moment Moment
	// Completed is the moment of the event or deadline that completed the candidate.
	Completed Moment
	// History is what was taken; unlike the History a condition sees it stays valid.
	History History
}
