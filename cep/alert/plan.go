package alert

import (
	"slices"
	"time"

	"github.com/cepd/cepd/cep"
)

// Plan is what the alerts of one rule look like. It is immutable.
type Plan struct {
	Rule        string
	Revision    int64
	Fingerprint string
	// Name is the title where the rule gives none.
	Name  string
	Tags  []string
	Mitre []string
	// Ordered says that matches may wait before they go out.
	Ordered bool
	// Key are the names of the key's parts.
	Key []string
	// Steps are all names of the rule in written order; an index is the step of a [cep.History].
	Steps []Step
	// Fields are computed first, in this order.
	Fields []Field
	// Severity is the rule's own; SeverityOf replaces it where it is not nil and gives one of [Severities].
	Severity   string
	SeverityOf Eval
	Title      []Segment
	Include    Include
	// Unlisted says that an alert does not list an event that its match took; nil: it lists all.
	Unlisted func(cep.Taken) bool
	Suppress *Suppress
	// Silences are those of the rule.
	Silences []Silence
	// Follow is nil for a rule whose alerts end as they begin.
	Follow *Follow
	// Shadow rules make no alerts and touch no state: their matches are counted, that is all.
	Shadow bool
}

// Eval evaluates an expression over a match.
type Eval func(*cep.Scope) (cep.Value, error)

// Step is a name of the rule.
type Step struct {
	Name string
	// Absent marks an absence: it takes nothing, so envelopes do not list it.
	Absent bool
}

// Field is a measure that alerts carry.
type Field struct {
	Name string
	Eval Eval
}

// Segment is a piece of a title: the text, or the value of Eval where it is not nil.
type Segment struct {
	Text string
	Eval Eval
}

// Include says how much of the events an alert carries.
type Include uint8

// What alerts include.
const (
	IncludeNone      Include = iota
	IncludeIDs               // times and positions of all events
	IncludeFirstLast         // the first and last event of each step, with their content
	IncludeAll               // all events, with their content
)

// Suppress bounds how many alerts with equal values go out in a span of time (S7.2).
type Suppress struct {
	By  []SuppressBy
	For time.Duration
	Max int
}

// equal reports whether two rules suppress in the same way, so that spans of one are spans of the other.
func (s *Suppress) equal(t *Suppress) bool {
	return s.For == t.For && s.Max == t.Max && slices.Equal(s.By, t.By)
}

// SuppressBy is one value that suppressed alerts have in common: the field with index Field, or the part Key of the key
// where Field is below 0.
type SuppressBy struct{ Field, Key int }

// Severities are the severities from the lowest to the highest.
var Severities = []string{"info", "low", "medium", "high", "critical"}
