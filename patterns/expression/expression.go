package expression

import "github.com/cepd/cepd/cep"

// Expr is a compiled expression. It is immutable and may be shared by goroutines.
type Expr struct {
	// Text is what the user wrote.
	Text string
	// Canonical is the checked tree printed in one normal form, macros inlined and list names kept: equal strings mean
	// equal expressions within one rule set. It goes into fingerprints and lets rules share predicates.
	Canonical string
	// Test evaluates a condition. An evaluation error means false; the caller counts it.
	Test func(*cep.Scope) (bool, error)
	// Eval evaluates an expression of any type.
	Eval func(*cep.Scope) (cep.Value, error)
	// Unary says that nothing but the current event and constants is read.
	Unary bool
	// UsesPrev says that prev is read, PrevSlots which of its fields.
	UsesPrev  bool
	PrevSlots []int
	// Slots are the fields read of the current event.
	Slots []int
	// Steps are the names whose taken events are read (those behind taken and aggregates too), and StepSlots the fields to
	// keep of each. AllSteps says that match or duration is read.
	Steps     []int
	StepSlots map[int][]int
	AllSteps  bool
	// Equalities are necessary conditions that an index can use: the expression can be true only for an event whose field
	// equals one of the constants, for each entry.
	Equalities []Equality
	// Bounds are necessary conditions too: the expression can be true only for an event whose field is a number between the
	// ends of each entry. There is at most one entry for a field.
	Bounds []Bound
	// Whole says that nothing else is asked: the expression is true, without an error, for every event whose field is one of
	// the strings of the only Equality, and whose number lies within the only Bound, where there is one.
	Whole bool
	// Path is set where the whole expression is one field of the current event: its path.
	Path []string
}

// Equality says that a field must equal one of some constants.
type Equality struct {
	Slot   int
	Values []cep.Value
}

// Bound says that a field must be a number from Min to Max, both included; an end that is open is an infinity. An int
// compares by its value as a float.
type Bound struct {
	Slot     int
	Min, Max float64
}

// Problem is a mistake in an expression. The package does not know files: Offset and Length count runes in the text of
// the expression, or in that of the macro named by Macro.
type Problem struct {
	Offset, Length int
	Code           string // CEP02xx
	Message        string
	Hint           string // what to write instead; may be empty
	Warning        bool
	Macro          string
}

// Step is a name that an expression may use.
type Step struct {
	Name string
	// Index is the name's index in the rule.
	Index int
	// List says that the step may take more than one event (or none, for a loop that may be left out): it is a list.
	// A single step that was left out is missing.
	List bool
}

// Place says what the names in an expression mean where it stands.
type Place struct {
	// Schema gets a slot for each field that is read.
	Schema *cep.Schema
	// Condition says that the expression must be true or false.
	Condition bool
	// Having says that the expression is asked when a loop may be left: there is no current event, and the loop's own name,
	// among Steps, is the list of what this pass of it took.
	Having bool
	// Event says that there is a current event: bare names are its fields, e is the event. Not so in alerts.
	Event bool
	// Prev says that prev may be used.
	Prev bool
	// Steps are the names that may be read: those before the expression's own element, and for alerts all.
	Steps []Step
	// Own is the name of the step under test, which means the current event; "" where there is none. OwnIndex is its
	// index, for `taken`; Taken says that `taken` may be used.
	Own      string
	OwnIndex int
	Taken    bool
	// Match says that match and duration may be used.
	Match bool
	// Later are names of the rule that stand behind this place: using one is a mistake with a message of its own.
	Later []string
	// Hidden are names of the rule that cannot be read in this place at all, where events of one step are no context: a
	// mistake too.
	Hidden []string
	// Key are the names of the key's parts, for $key.name.
	Key []string
	// Fields are the names of the alert's fields, for titles and severities (Scope.Fields).
	Fields []string
	// Lists, Maps and Macros are what $name and lookup($name, x) mean.
	Lists  map[string]*List
	Maps   map[string]*Map
	Macros map[string]string
	// Aggregates is the rule's table; sums, counts and the like over steps are added to it.
	Aggregates *Aggregates
	// Trees gets what the expression was compiled from; nil where nobody asks.
	Trees *Trees
}

// stepNames are the names of all steps whose events the expression can see.
func (p *Place) stepNames() map[int]string {
	names := map[int]string{}
	for _, s := range p.Steps {
		names[s.Index] = s.Name
	}
	if p.Own != "" {
		names[p.OwnIndex] = p.Own
	}
	return names
}

// Aggregates is the table of a rule's aggregates: equal ones are shared.
type Aggregates struct{ list []cep.Aggregate }

// Add returns the index of an aggregate, and adds it where it is new.
func (a *Aggregates) Add(g cep.Aggregate) int {
	for i, h := range a.list {
		if g == h {
			return i
		}
	}
	a.list = append(a.list, g)
	return len(a.list) - 1
}

// All returns the aggregates by index. The result must not be changed.
func (a *Aggregates) All() []cep.Aggregate { return a.list }

// Compile checks an expression and compiles it to closures. The problems stand in the order of the text, those of macros
// after those of the expression; the Expr is nil if and only if one of them is an error.
func Compile(text string, place *Place) (*Expr, []Problem) {
	t, problem := parse(text, "")
	if problem != nil {
		return nil, []Problem{*problem}
	}
	r := &resolver{place: place}
	n := r.resolve(t)
	if place.Condition {
		n = r.asCondition(n)
	} else {
		n = r.asValue(n)
	}
	if !r.problems.failed() {
		r.lint(n)
	}
	found := r.problems.sort()
	if found.failed() {
		return nil, found
	}
	x := &Expr{Text: text, Canonical: n.String(), Unary: true}
	p := planner{place, x}
	p.node(n)
	x.Equalities, x.Bounds, x.Whole = equalities(n), bounds(n), whole(n)
	if n.op == opField && len(n.names) > 0 {
		x.Path = n.names
	}
	x.evaluator(n)
	place.Trees.add(x, n)
	return x, found
}
