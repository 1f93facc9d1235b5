package nfa

import "github.com/cepd/cepd/cep"

// EndReason is why a start is no longer open.
type EndReason uint8

// The reasons.
const (
	// EndCompleted: a candidate of the start completed, and nothing of it waits any more.
	EndCompleted EndReason = iota
	// EndExpired: a window ended.
	EndExpired
	// EndKilled: a strict link or an absence was broken, or a match had too many events.
	EndKilled
	// EndPruned: after_match of another match took the start with it before any candidate of it had completed.
	EndPruned
	endReasons = 4
)

var endNames = [endReasons]string{"completed", "expired", "killed", "pruned"}

// String returns the word that summaries use.
func (r EndReason) String() string { return endNames[r] }

// Counters are what a machine has counted since it was made; a snapshot carries them on.
type Counters struct {
	// Delivered is the number of calls of [Machine.Event]: an event counts once for each of its keys.
	Delivered uint64
	// Opened is the number of starts, Ended that of starts that are no longer open, by reason.
	Opened uint64
	Ended  [endReasons]uint64
	// Taken counts by name. A step: the candidates that took an event with it. An absence: those that it killed.
	Taken []uint64
	// Matched and Timeouts are the matches let out, by kind.
	Matched, Timeouts uint64
	// Refused is the number of starts that [Limits.StartsPerKey] refused, TooLong that of candidates that
	// [Limits.EventsPerMatch] ended: they would have had to take more events.
	Refused, TooLong uint64
	// Braked is the number of events that could have begun something, or of new keys' events, that a brake kept from being
	// looked at: [Limits.KeysMax], [Limits.StateBytes]. Snapshots do not carry it: it speaks of this process.
	Braked uint64
	// Skips is the number of matches of a row pattern after which the next start was the next event, because the step that
	// after_match names took nothing or only the match's first event (S6.3).
	Skips uint64
	// Errors is the number of evaluation errors, LastError the newest of them. ErrorAt is the time of the event of that one, 0
	// where nobody knows: snapshots do not carry it.
	Errors    uint64
	LastError string
	ErrorAt   cep.Time
}

// fail counts an evaluation error at a time.
func (c *Counters) fail(err error, at cep.Time) {
	c.Errors++
	c.LastError, c.ErrorAt = err.Error(), at
}

// Add adds the counts of another machine of the same program.
func (c *Counters) Add(o *Counters) {
	c.Delivered += o.Delivered
	for i, n := range o.Taken {
		c.Taken[i] += n
	}
	c.Opened += o.Opened
	for i, n := range o.Ended {
		c.Ended[i] += n
	}
	c.Matched += o.Matched
	c.Timeouts += o.Timeouts
	c.Refused += o.Refused
	c.TooLong += o.TooLong
	c.Braked += o.Braked
	c.Skips += o.Skips
	c.Errors += o.Errors
	if o.LastError != "" && (c.LastError == "" || o.ErrorAt >= c.ErrorAt) {
		c.LastError, c.ErrorAt = o.LastError, o.ErrorAt
	}
}
