package rulesapi

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

// Daemon is the service that the API speaks for. Its methods may be called from any goroutine, and end when their context does.
type Daemon interface {
	// Rules is the set in force.
	Rules() *rules.Set
	// Begin waits until no other change of the rules is under way, by a reload or another request, and keeps them out until
	// done is called. Compile, Plan and Swap are called between the two where something is to change; Compile and Plan also
	// without, to answer what would be.
	Begin(ctx context.Context) (done func(), err error)
	// Compile reads the rule files as a start would, with some of them as they are given here: by the names that
	// [rules.Set.Sources] has, nil for one that is to be gone. It checks the rules against the configuration too. The set is nil
	// where a diagnostic is an error; the error is about reading.
	Compile(ctx context.Context, over map[string][]byte) (*rules.Set, patterns.Diagnostics, error)
	// Test runs the tests of some rules of the set. One that cannot be run, as it names a file that is not there, has failed; the
	// error is that of the context.
	Test(ctx context.Context, set *rules.Set, ids []string) ([]TestResult, error)
	// Plan says what Swap would do. It changes nothing.
	Plan(ctx context.Context, set *rules.Set) ([]RuleChange, error)
	// Swap puts the set in force, and returns when that is durable. After an error the old one is, but for [ErrNotDurable]. It
	// gives up when its context ends, which is minutes away.
	Swap(ctx context.Context, set *rules.Set) (Swapped, error)

	// RuleStates returns the state of each rule of the set in force, by id. What it returns is not changed any more.
	RuleStates() map[string]RuleState
	// OpenStarts returns a page of what is open. The error is [ErrNoSuchRule], [ErrCursor], [ErrKey], or about the operation.
	OpenStarts(ctx context.Context, q OpenQuery) (OpenPage, error)
	Streams() []Stream
	Sinks() []Sink

	// Checkpoints returns the epochs that are kept, oldest first.
	Checkpoints(ctx context.Context) ([]Checkpoint, error)
	// MakeCheckpoint makes an epoch of all that has happened and returns it once it is durable.
	MakeCheckpoint(ctx context.Context) (cep.Epoch, error)
	// Savepoint writes an epoch that is kept, with what waits to be sent. The error is [ErrNoSuchEpoch] before anything has
	// been written, or about the operation.
	Savepoint(ctx context.Context, epoch cep.Epoch, w io.Writer) error
}

// Errors of a Daemon that have an answer of their own.
var (
	// ErrNoSuchRule says that no rule of that id runs.
	ErrNoSuchRule = errors.New("no such rule")
	// ErrCursor says that a cursor is not one that was given out.
	ErrCursor = errors.New("not a cursor")
	// ErrKey says that a key has other parts than those of the rule.
	ErrKey = errors.New("not a key of the rule")
	// ErrNotDurable says that a set is in force and that this is not durable yet: its files stay.
	ErrNotDurable = errors.New("in force, and not durable yet")
	// ErrNoSuchEpoch says that an epoch is not kept.
	ErrNoSuchEpoch = errors.New("no such epoch")
	// ErrUnavailable says that the operation is not possible now: the job starts, or stops.
	ErrUnavailable = errors.New("not available now")
)

// RuleState is how a rule of the set in force is doing. Numbers count since the job's first start.
type RuleState struct {
	// Stopped says why the rule does not run although it is enabled; "" where it runs.
	Stopped string `json:"stopped,omitempty"`
	// Open are the open starts of this version in Keys keys, Draining those of older versions.
	Open     int `json:"open"`
	Keys     int `json:"keys"`
	Draining int `json:"draining"`
	// Seen is the number of events of the rule's streams, Visible what its filter let through, Keyed what belongs to a key.
	Seen    uint64 `json:"seen"`
	Visible uint64 `json:"visible"`
	Keyed   uint64 `json:"keyed"`
	// Opened is the number of starts, Matched that of matches that were let out, Timeouts that of starts that expired and were.
	Opened   uint64 `json:"opened"`
	Matched  uint64 `json:"matched"`
	Timeouts uint64 `json:"timeouts"`
	// Alerts went out, Suppressed and Silenced were held back.
	Alerts     uint64 `json:"alerts"`
	Suppressed uint64 `json:"suppressed"`
	Silenced   uint64 `json:"silenced"`
	// Refused counts what limits kept from being.
	Refused uint64 `json:"refused"`
	// Evaluation is about how long its machines have worked.
	Evaluation time.Duration `json:"evaluation_ns"`
	// Errors is the number of evaluation errors, LastError the newest of them, LastErrorAt its event time.
	Errors      uint64    `json:"errors"`
	LastError   string    `json:"last_error,omitempty"`
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
	// LastMatch is the event time of the last match.
	LastMatch time.Time `json:"last_match,omitzero"`
	// Taken counts, for each step and absence by name, the candidates that took an event for it, or that it killed.
	Taken []Count `json:"taken"`
	// Ended counts the starts that are no longer open by reason.
	Ended []Count `json:"ended"`
}

// Count is a number with its name.
type Count struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// RuleChange is what becomes of a rule in a swap.
type RuleChange struct {
	Rule string `json:"rule"`
	// Kind is kept, added, changed, draining or deleted. Starts are the open starts that this is about, Dropped those that go.
	Kind    string `json:"kind"`
	Starts  int    `json:"starts"`
	Dropped int    `json:"dropped"`
	// Text says it in a sentence.
	Text string `json:"text"`
}

// Swapped is what a swap did.
type Swapped struct {
	// Epoch is the one that it is durable with; 0 where the set in force had the same files.
	Epoch   cep.Epoch    `json:"epoch"`
	Set     string       `json:"set"`
	Changes []RuleChange `json:"changes"`
	// Pause is how long no event was worked on.
	Pause time.Duration `json:"pause_ns"`
}

// TestResult is what came of one test of a rule.
type TestResult struct {
	Rule   string `json:"rule"`
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Failure says what differs, line by line.
	Failure []string `json:"failure,omitempty"`
}

// OpenQuery asks for open starts of a rule.
type OpenQuery struct {
	Rule string
	// Key are the parts of a key as text; nil: of all keys.
	Key []string
	// After is the cursor of the page before, "" for the first. Limit is between 1 and PageMax.
	After string
	Limit int
}

// OpenPage is a part of what is open. Next is the cursor of the page behind it, "" where it is the last one.
type OpenPage struct {
	Starts []OpenStart `json:"starts"`
	Next   string      `json:"next,omitempty"`
}

// OpenStart is a start that may still become a match.
type OpenStart struct {
	Rule string `json:"rule"`
	// Fingerprint is the version that it is open under; Draining says that this is an older one than that in force.
	Fingerprint string    `json:"fingerprint"`
	Draining    bool      `json:"draining,omitempty"`
	Key         []KeyPart `json:"key"`
	// Since is the event time at which it began, Until when it ends by time alone; zero: it does not.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	// Taken is what it has taken so far, step by step; WaitsFor the steps and absences that can be next.
	Taken    []TakenStep `json:"taken"`
	WaitsFor []string    `json:"waits_for"`
}

// KeyPart is a part of a key, with its value as JSON.
type KeyPart struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// TakenStep is what an open start has taken for a step. Events may be the last ones only: Count is their number.
type TakenStep struct {
	Step   string       `json:"step"`
	Count  int          `json:"count"`
	Events []TakenEvent `json:"events,omitempty"`
}

// TakenEvent is where an event that was taken was read.
type TakenEvent struct {
	Stream    string `json:"stream"`
	Partition string `json:"partition"`
	Offset    int64  `json:"offset"`
}

// Stream is an input and how it is. Times are event times but for Held.
type Stream struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Watermark is the time up to which everything is released; zero before the first event.
	Watermark time.Time `json:"watermark,omitzero"`
	// Events were read. Taken of them took their place in the order; Late, Returned and Future came too late or too early for
	// that. Bad are records that are no events, by kind.
	Events   uint64            `json:"events"`
	Taken    uint64            `json:"taken"`
	Late     uint64            `json:"late"`
	Returned uint64            `json:"returned"`
	Future   uint64            `json:"future"`
	Bad      map[string]uint64 `json:"bad"`
	// Buffered is the number of events that wait for time; Paused says that no more is read until there are fewer.
	Buffered int  `json:"buffered"`
	Paused   bool `json:"paused,omitempty"`
	// Trouble is what keeps the source from being read. HeldBy names the partitions that time waits for, since Held.
	Trouble string    `json:"trouble,omitempty"`
	HeldBy  []string  `json:"held_by,omitempty"`
	Held    time.Time `json:"held,omitzero"`
	// Open, Idle, Ended and Absent are numbers of partitions; Partitions are the first of those that have not ended.
	Open       int         `json:"open"`
	Idle       int         `json:"idle"`
	Ended      int         `json:"ended"`
	Absent     int         `json:"absent"`
	Partitions []Partition `json:"partitions"`
}

// Partition is a part of a stream and how far it has been read.
type Partition struct {
	Name string `json:"name"`
	// Read is the offset behind the last record that was read, Clock the highest event time. Lag is how much is behind Read at
	// the source; nil where nobody knows.
	Read  int64     `json:"read"`
	Clock time.Time `json:"clock,omitzero"`
	Lag   *int64    `json:"lag,omitempty"`
	Idle  bool      `json:"idle,omitempty"`
	Error string    `json:"error,omitempty"`
}

// Sink is an output and how it is.
type Sink struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Guarantee string `json:"guarantee"`
	// Committed is the sequence of the last message that is durable, Published that of the last one at the destination.
	Committed uint64 `json:"committed"`
	Published uint64 `json:"published"`
	Lineage   uint64 `json:"lineage"`
	// Waiting and WaitingBytes are what is committed and not published; Full says that there is no room for more.
	Waiting      int    `json:"waiting"`
	WaitingBytes int64  `json:"waiting_bytes"`
	Full         bool   `json:"full,omitempty"`
	Messages     uint64 `json:"messages"`
	Retries      uint64 `json:"retries"`
	// Error is why it cannot publish, Since when it could not first; Stopped says that it has given up.
	Error   string    `json:"error,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Stopped bool      `json:"stopped,omitempty"`
}

// Checkpoint is an epoch that is kept.
type Checkpoint struct {
	Epoch cep.Epoch `json:"epoch"`
	// Created is when it was made; zero where it is damaged.
	Created time.Time `json:"created,omitzero"`
	// Base says that it stands by itself. Bytes is what it added to the store.
	Base  bool  `json:"base"`
	Bytes int64 `json:"bytes"`
	// Set is the id of its rules. Damage says what is wrong with it; "" if nothing is.
	Set    string `json:"set,omitempty"`
	Damage string `json:"damage,omitempty"`
}

// EventTime is an event time as the API tells it: zero for the ends of time.
func EventTime(t cep.Time) time.Time {
	if t == cep.BeforeAll || t == cep.AfterAll {
		return time.Time{}
	}
	return t.Std()
}
