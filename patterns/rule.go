package patterns

import (
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns/expression"
)

// Set is a checked and compiled set of rules. It is immutable.
type Set struct {
	// Rules stand in the order of their ids, the disabled ones too (their Program is compiled, nobody runs it).
	Rules []*Rule
	// Silences stand in the order of their ids.
	Silences []*Silence
	// Schema is the decode plan: every field that some rule reads.
	Schema *cep.Schema
	// Predicates is the number of different predicates: the size of an [nfa.Memo].
	Predicates int
	// Lists and Maps are those of all files.
	Lists map[string]*expression.List
	Maps  map[string]*expression.Map
}

// Rule is one rule: checked, compiled, ready to run, and with all that the oracle needs to run it by another way.
type Rule struct {
	Meta
	// Pos is where the rule's id stands.
	Pos Pos
	// Fingerprint is the meaning of the rule, in hex: rules with equal fingerprints can share state (LANGUAGE, Lifecycle).
	Fingerprint string
	// Streams are all streams that the rule reads (S1.2), sorted.
	Streams []string
	// Where and Exceptions decide what the rule sees (S1.4). Where is nil without a filter.
	Where      *expression.Expr
	Exceptions []Exception
	// Key are the names of the key's parts, in written order; none: the one key ().
	Key []string
	// Names are the steps and absences in written order; Element.Name and History steps index them.
	Names []string
	// Elements are the elements in written order. A rule without `sequence` has the one step "event"; an absence alone has
	// been rewritten (S4.4).
	Elements []Element
	// Pattern is the row pattern of a rule of that form (S6); nil: the elements are a sequence. Otherwise they are the
	// steps, one for each name, with a Max other than 1 where the pattern lets a step take more than one event.
	Pattern  *nfa.Row
	Within   cep.Duration
	After    nfa.AfterMatch
	Target   int
	Ordered  bool
	Timeouts bool
	// DropOnChange says that an edit which changes the meaning drops the open starts; otherwise they drain.
	DropOnChange bool
	// Without are events that may not happen anywhere in a match.
	Without []Without
	// Newest is `keep: newest` (S5.6).
	Newest bool
	// Keys are the keys that count as present from the beginning (S4.4).
	Keys []cep.Key
	// Reads are the ids of the rules whose alerts this rule reads, sorted; Layer is one above the highest of theirs, and 0
	// for a rule that reads no alerts (S8).
	Reads []string
	Layer int
	// Aggregates are what the expressions ask of the steps.
	Aggregates []cep.Aggregate
	Limits     nfa.Limits
	Alert      Alert
	// Silences are those that concern the rule, in the order of their ids.
	Silences []*Silence
	Tests    []Test
	// Program is the rule for the machine. UsesPrev and the like are facts of it.
	Program *nfa.Program
}

// Meta is what a rule says about itself.
type Meta struct {
	ID             string
	Name           string
	Description    string
	References     []string
	Authors        []string
	FalsePositives []string
	Status         string
	Revision       int64
	Enabled        bool
	Shadow         bool
	Severity       string
	Tags           []string
	Mitre          []string
}

// Exception hides events (S1.4).
type Exception struct {
	Name  string
	Where *expression.Expr
	// Steps are the names that the exception hides the event from; nil: it is invisible.
	Steps []int
	// Expires is when it ends; cep.AfterAll without an end.
	Expires cep.Time
}

// Element is a step, loop or absence, or is made of such.
//
// Which fields count depends on Kind, as in [nfa.Element]: a composite has no Name, From and By of its own.
type Element struct {
	Kind   nfa.ElementKind
	Name   int
	Absent bool
	// From are the streams it takes events from: its own or the rule's.
	From []string
	// By gives the key's parts, one for each Rule.Key: its own or the rule's.
	By         []*expression.Expr
	Where      *expression.Expr // nil: every visible event
	Link, Loop nfa.Link
	Min, Max   int // Max < 0: no bound; Min >= 1, see Optional
	Optional   bool
	Within     cep.Duration // 0: none
	LoopWithin cep.Duration // 0: none. Where the rule gives only `within` on a loop, it is copied here.
	For        cep.Duration // 0: none; nfa.Forever
	FromStart  bool
	// Elements are those of a group, or the members of an all_of; Alternatives those of an any_of.
	Elements     []Element
	Alternatives [][]Element
	// Times says that a composite has the word times: each repetition takes at least one event (S2.4).
	Times bool
	// Need is how many members of an all_of are taken; 0: all.
	Need int
	// Greedy is possessive (S3.5).
	Greedy bool
	// Until ends a loop or group without an upper bound (S3.6), Having lets it be left, Distinct makes Min and Max count
	// different values (S3.4). Nil where the word is not there.
	Until, Having, Distinct *expression.Expr
	// FirstSeen lets a step take an event only if none like it came before (S3.7).
	FirstSeen *FirstSeen
	// Edge marks the step of a hold: it takes an event only if its condition did not hold for the one before (S2.5).
	Edge bool
}

// FirstSeen is the word first_seen of a step.
type FirstSeen struct {
	By        []*expression.Expr
	For       cep.Duration // nfa.Forever needs FromStart
	FromStart bool
}

// Without is an event that may not happen anywhere in a match (S4.5).
type Without struct {
	// Name is the index of its name.
	Name int
	From []string
	// By gives the key's parts, one for each Rule.Key: its own or the rule's.
	By    []*expression.Expr
	Where *expression.Expr
}

// Leaves returns the steps, loops and absences of all nesting, in written order. They may not be changed.
func (r *Rule) Leaves() []*Element { return leaves(nil, r.Elements) }

func leaves(list []*Element, elements []Element) []*Element {
	for i := range elements {
		e := &elements[i]
		if e.Kind == nfa.KindLeaf {
			list = append(list, e)
		}
		list = leaves(list, e.Elements)
		for _, a := range e.Alternatives {
			list = leaves(list, a)
		}
	}
	return list
}

// Alert says what the rule's alerts look like.
type Alert struct {
	// Title is text and expressions in turn; empty: the name of the rule, or its id.
	Title []Segment
	// Fields are computed first, in written order.
	Fields []Field
	// Severity is nil where the rule's own severity counts.
	Severity *expression.Expr
	Include  Include
	Suppress *Suppress
	To       []string
	// Resolve is when an alert that went out is over; nil: it is never open (S7.3).
	Resolve *Resolve
	// WhileOpen is what a match does while an alert is open.
	WhileOpen WhileOpen
	// Repeat is the time between reminders; 0: none.
	Repeat cep.Duration
}

// Inputs are all streams that events have to come from for the rule, sorted: those that it reads, and those on which its alerts
// are resolved (S1.2). Its clock goes by all of them.
func (r *Rule) Inputs() []string {
	names := slices.Clone(r.Streams)
	if r.Alert.Resolve != nil {
		names = append(names, r.Alert.Resolve.From...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Resolve says when an open alert is over (S7.3).
type Resolve struct {
	// From and By are its own or the rule's. It sees its streams without the rule's filter and exceptions.
	From []string
	By   []*expression.Expr
	// Where is nil where only quiet ends it.
	Where *expression.Expr
	// Quiet is the time without a match after which it is over; 0: none.
	Quiet cep.Duration
}

// WhileOpen is what a match of a rule and key does while an alert of theirs is open.
type WhileOpen uint8

// What matches do while an alert is open.
const (
	OpenCount WhileOpen = iota
	OpenUpdate
	OpenNew
)

// Segment is a piece of a title: Text, or the value of Expr.
type Segment struct {
	Text string
	Expr *expression.Expr
}

// Field is a measure that the alert carries.
type Field struct {
	Name string
	Expr *expression.Expr
}

// Include says how much of the events an alert carries.
type Include uint8

// What alerts include.
const (
	IncludeIDs Include = iota // positions and times
	IncludeNone
	IncludeFirstLast // the first and last event of each step
	IncludeAll
)

// Suppress bounds how many alerts go out (S7.2).
type Suppress struct {
	// By are alert fields (Field >= 0) or key parts (Key >= 0).
	By  []SuppressBy
	For cep.Duration
	Max int
}

// SuppressBy is one value that suppressed alerts have in common.
type SuppressBy struct{ Field, Key int }

// Test is one entry of a rule's tests.
type Test struct {
	Name     string
	Pos      Pos
	Lateness cep.Duration
	// Steps is what happens, in order of arrival.
	Steps  []TestStep
	Expect Expect
}

// TestStep is an event, a file of recorded events, or time that passes.
type TestStep struct {
	Pos Pos
	// At, Times, Every, From and Event describe an event; At counts from the test's zero. Event is its JSON text.
	At    cep.Duration
	Times int
	Every cep.Duration
	From  string
	Event []byte
	// File is a recorded stream, relative to the rule's file.
	File string
	// Advance moves time; 0: this is an event or a file.
	Advance cep.Duration
	// Idle is a time in which nothing at all arrives. Reload is a rule file that takes the place of this one, relative to
	// it. Restart stops the service and starts it again.
	Idle    cep.Duration
	Reload  string
	Restart bool
}

// Expect is what a test expects of this rule's alerts.
type Expect struct {
	// Count is the number of alerts, where it is all that is said; -1: Alerts says it.
	Count  int
	Alerts []ExpectedAlert
}

// ExpectedAlert is one alert, in order. Unset parts are not compared.
type ExpectedAlert struct {
	Pos    Pos
	At     cep.Duration
	HasAt  bool
	Kind   string
	Fields []ExpectedField
}

// ExpectedField is one field of an expected alert.
type ExpectedField struct {
	Name  string
	Value cep.Value
}
