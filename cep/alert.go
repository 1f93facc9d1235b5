package cep

import "encoding/hex"

// AlertID identifies an alert by what it says: replay, restart and re-delivery give the same one. Package alert makes it.
type AlertID [32]byte

// String formats the id in hex.
func (id AlertID) String() string { return hex.EncodeToString(id[:]) }

// AlertKind says what an alert tells.
type AlertKind uint8

// The kinds of alert. Their numbers are part of no format: ids and envelopes carry the names.
const (
	AlertMatch    AlertKind = iota // a candidate that was let out
	AlertTimeout                   // a start that ended without a match
	AlertUpdate                    // another match while an alert is open
	AlertReminder                  // an alert is still open
	AlertResolved                  // an open alert has ended
	AlertRetract                   // a result that no longer holds
)

var alertKindNames = [...]string{"match", "timeout", "update", "reminder", "resolved", "retract"}

// String returns the kind as envelopes name it.
func (k AlertKind) String() string { return alertKindNames[k] }

// Named is a value with its name: a part of a key, a field of an alert.
type Named struct {
	Name  string
	Value Value
}

// Alert is what leaves the process. It is immutable once it has been handed on, and holds nothing of the machine.
type Alert struct {
	ID   AlertID
	Rule string
	// Revision is the author's count of changes, Fingerprint the meaning of the rule.
	Revision    int64
	Fingerprint string
	Kind        AlertKind
	// Time is when the match was let out, in event time.
	Time Time
	// Timed says that time alone completed the match, and no event.
	Timed bool
	// Ordered says that the match may have waited (`emit: ordered`): Last may be before Time for that reason.
	Ordered bool
	// Events is the number of events that were taken, First and Last the times of the first and last of them.
	Events      int
	First, Last Time
	Severity    string
	// Title is one line of printable text.
	Title  string
	Key    []Named
	Fields []Named
	// Steps holds the events as far as the rule includes them, one entry for each step in written order; nil where the rule
	// includes none.
	Steps []AlertStep
	Tags  []string
	Mitre []string
	// Suppressed is the number of alerts that were held back before this one (S7.2).
	Suppressed uint64
	// Follows is the alert that an update, reminder or resolved alert belongs to; zero for other kinds.
	Follows AlertID
}

// AlertStep is what a step took.
type AlertStep struct {
	Name   string
	Events []AlertEvent
}

// AlertEvent is an event in an alert.
type AlertEvent struct {
	Time     Time
	Position Position
	// Raw is the event as JSON text, where the rule includes events.
	Raw []byte
}
