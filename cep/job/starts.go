package job

import (
	"context"

	"github.com/cepd/cepd/cep"
)

// OpenMax is the number of open starts that a page holds at most: what a person can look through, and little enough that the
// engine is not held up by the question.
const OpenMax = 1000

// OpenQuery asks for the open starts of a rule.
type OpenQuery struct {
	Rule string
	// Key has the text of each part of the only key that is asked for; nil: all keys.
	Key []string
	// After is [OpenPage.Next] of the page before; "": from the beginning.
	After string
	// Limit is the number of starts wanted, [OpenMax] where it is 0.
	Limit int
}

// OpenPage is a part of the open starts of a rule, in the order of version, key, and first event.
type OpenPage struct {
	Starts []OpenStart `json:"starts"`
	// Next is where the next page begins; "": this was the last.
	Next string `json:"next,omitempty"`
}

// OpenStart is a first event, and all that may come of it.
type OpenStart struct {
	Rule string `json:"rule"`
	// Fingerprint is that of the version of the rule, Draining that it is an older one.
	Fingerprint string      `json:"fingerprint"`
	Draining    bool        `json:"draining,omitempty"`
	Key         []cep.Named `json:"-"`
	// Since is the time of its first event, Until when it is over if nothing more comes; [cep.AfterAll]: never.
	Since cep.Time `json:"since_ns"`
	Until cep.Time `json:"until_ns"`
	// Runs are the ways in which it may go on, at most [RunsMax] of them; More is the number of others.
	Runs []OpenRun `json:"runs"`
	More int       `json:"more,omitempty"`
}

// RunsMax is the number of ways that are told of one open start: the first few say what it waits for.
const RunsMax = 8

// OpenRun is one way in which an open start may go on.
type OpenRun struct {
	// Taken is what it has taken, by step in written order.
	Taken []OpenStep `json:"taken"`
	// Waits names the step that it waits for an event of, or the absences that have to hold.
	Waits []string `json:"waits"`
	// Absence says that it has all its events, and waits for time alone to show that something does not come.
	Absence bool `json:"absence,omitempty"`
	// Until is when the wait is over; [cep.AfterAll]: never.
	Until cep.Time `json:"until_ns"`
}

// OpenStep is what a step has taken.
type OpenStep struct {
	Step  string `json:"step"`
	Count int    `json:"count"`
	// Positions are those of the newest events taken, at most [PositionsMax].
	Positions []cep.Position `json:"-"`
}

// PositionsMax is the number of positions that are told of a step: a loop may have taken thousands.
const PositionsMax = 8

// OpenStarts returns open starts of a rule as they are now, answered between two batches.
func (j *Job) OpenStarts(ctx context.Context, q OpenQuery) (OpenPage, error) {
	return OpenPage{}, errNotRunning
}
