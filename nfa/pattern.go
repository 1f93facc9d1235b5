package nfa

import "github.com/cepd/cepd/cep"

// Link is how an element is tied to the last event taken before it (S3.2).
type Link uint8

// The links. NoLink is that of the first element of a pattern.
const (
	NoLink  Link = iota
	Strict       // the very next event of the key's stream, or the candidate dies
	Relaxed      // skip until the first event that fits, take it, no other way
	Any          // take it, and also go on waiting
)

// Pred is a condition, compiled elsewhere. The machine knows no expression language: it calls Test.
type Pred struct {
	// ID numbers the predicates of a rule set from 0; equal predicates of several rules share a Pred, and a [Memo]
	// evaluates a unary one at most once an event.
	ID int
	// Text is the condition as programs print it.
	Text string
	// Unary says that Test reads nothing but Scope.Event: no history, prev or key.
	Unary bool
	// Slots are the fields of the current event that Test reads.
	Slots []int
	// Test evaluates the condition. An error is an evaluation error: the condition is false and the error is counted.
	Test func(*cep.Scope) (bool, error)
}

// Expr is a value that is computed of an event alone, compiled elsewhere. An error counts as a missing value and is counted.
type Expr struct {
	Text  string
	Slots []int
	Eval  func(*cep.Scope) (cep.Value, error)
}

// ElementKind tells elements that take events themselves from those that are made of others.
type ElementKind uint8

// The kinds. A leaf is a step, a loop or an absence.
const (
	KindLeaf  ElementKind = iota
	KindGroup             // Elements, one after the other
	KindAnyOf             // one of Alternatives
	KindAllOf             // Elements, in any order
)

var kindNames = [...]string{"step", "group", "any_of", "all_of"}

// String returns the word that rules use.
func (k ElementKind) String() string { return kindNames[k] }

// FirstSeen is the word first_seen of a step (S3.7).
type FirstSeen struct {
	By        []*Expr
	For       cep.Duration // [Forever] needs FromStart
	FromStart bool
}

// Element is an element of a sequence, in written order.
//
// Which fields count depends on what it is. A leaf: all of the first part, and of the second Greedy, Until, Having,
// Distinct, FirstSeen and Edge. A group: Link, Loop, Min, Max, Optional, Within, Until, Times, Elements. An any_of the
// same with Alternatives. An all_of: Link, Optional, Within, Where, Elements, Need.
type Element struct {
	// Name is the index of the element's name in [Pattern.Names], and its bit in the mask of [Machine.Event]. A composite
	// has none.
	Name int
	// Absent marks an absence; a step or loop otherwise.
	Absent bool
	// Where is the condition; nil: every visible event fits.
	Where *Pred
	// Link ties the element to what was taken before. For an absence Strict looks only at the very next event, Relaxed at
	// all. NoLink on the first element inside a composite: the composite's own word counts.
	Link Link
	// Loop is the link inside a loop.
	Loop Link
	// Min and Max bound the number of events of a loop; 1, 1 is a plain step; Max < 0: no upper bound. Min is at least 1:
	// a loop that may take nothing is Optional.
	Min, Max int
	// Optional elements may be left out.
	Optional bool
	// Within bounds the time to the event taken before, LoopWithin that between the events of the loop. Inclusive; 0: none.
	Within, LoopWithin cep.Duration
	// For is how long an absence at the start or the end must hold; 0: none given (at the end the window of the rule
	// counts); [Forever]: since the first time of the rule.
	For cep.Duration
	// FromStart: the time before the rule's first time counts as empty, for an absence at the start.
	FromStart bool

	Kind ElementKind
	// Elements are the parts of a group, or the members of an all_of: single steps, or any_of of such.
	Elements []Element
	// Alternatives are the parts of an any_of, each a sequence.
	Alternatives [][]Element
	// Times says that the composite has the word times: each repetition takes at least one event (S2.4).
	Times bool
	// Need is how many members of an all_of are taken; 0: all.
	Need int
	// Greedy is possessive (S3.5); for a loop, or an optional one.
	Greedy bool
	// Until ends a loop or group without an upper bound (S3.6). It is asked about every event of the key's stream.
	Until *Pred
	// Having must hold for a loop to be left. Its own name is what this pass of the loop took.
	Having *Pred
	// Distinct makes Min and Max count different values instead of events (S3.4).
	Distinct *Expr
	// FirstSeen lets a step take an event only if none like it came before.
	FirstSeen *FirstSeen
	// Edge lets a step take an event only if its condition did not hold for the event before among those that the step's
	// mask bit admits, within the reach of prev: the first event of a hold (S2.5).
	Edge bool
}

// Forever is the For of an absence at the start that looks back without a bound.
const Forever = cep.Duration(1<<63 - 1)

// AfterMatch says what a match takes with it (S5.4).
type AfterMatch uint8

// The skip strategies.
const (
	SkipNone AfterMatch = iota
	SkipPastLast
	SkipToNext
	SkipToFirst // of the step Pattern.Target
	SkipToLast  // of the step Pattern.Target
)

// Name is a name of the rule: a step or an absence.
type Name struct {
	Name string
	// Keep are the slots that conditions, alerts or aggregates read of events this step has taken. Nothing else of an
	// event is kept.
	Keep []int
}

// Limits bound what one key, one match and all keys of a rule may hold (S5.8). 0 is no limit.
type Limits struct {
	StartsPerKey   int
	EventsPerMatch int
	// DropOldest: at the limit the earliest start goes instead of the new one.
	DropOldest bool
	// KeysMax and StateBytes are brakes, see brake.go: no new key, and no new start, where a slot is full.
	KeysMax    int
	StateBytes int64
}

// Without is a condition on events that may not happen anywhere in a match (S4.5).
type Without struct {
	// Name is the index of its name in [Pattern.Names], and its bit in the mask.
	Name  int
	Where *Pred
}

// Pattern is what [Compile] makes a [Program] from: a rule after it was parsed, checked and rewritten.
type Pattern struct {
	// Rule is the id of the rule, for printing.
	Rule     string
	Names    []Name
	Elements []Element
	// Rows is a row pattern (S6). Elements are then its steps, one leaf for each name; what ties them is in Rows.
	Rows *Row
	// RowsLookBack says that some condition of a row pattern reads what was taken.
	RowsLookBack bool
	// Within is the window from the first to the last taken event, inclusive; 0: none.
	Within cep.Duration
	After  AfterMatch
	// Target is the name that SkipToFirst and SkipToLast mean.
	Target  int
	Without []Without
	// Newest is `keep: newest` (S5.6): of the candidates of a key that came equally far only the one that got there last
	// goes on. Single steps, relaxed, none optional, no absences.
	Newest bool
	// Ordered holds a match back while an earlier start is open (S5.5).
	Ordered bool
	// Timeouts lets starts that expire without a match out as matches of kind timeout (S5.7).
	Timeouts bool
	// PrevSlots are the slots that conditions read through prev, UsesPrev whether any does, and PrevReach how far back it
	// may be.
	UsesPrev  bool
	PrevSlots []int
	PrevReach cep.Duration
	// KeepRaw keeps the raw text of taken events, for alerts that include events.
	KeepRaw    bool
	Aggregates []cep.Aggregate
	Limits     Limits
}
