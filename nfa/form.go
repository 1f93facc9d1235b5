package nfa

import (
	"reflect"

	"github.com/cepd/cepd/cep"
)

// form is all of a program but its words and the conditions of its steps, loops and absences: what machines look at for each
// event. Rules are mostly written after a few models and differ in their conditions alone. Then they share one form, which
// stays in the nearest cache, where a thousand of them would come from far each time.
type form struct {
	elements []element // leaves, and conditions that are watched: what has a bit
	// entry has the bits of the elements that can take the first event, around those of the untils and greedy loops that may
	// forbid it, lead those of the absences at the start, constant those of the steps whose first_seen or edge must be told
	// of every event, strict those of the strict absences, without those of the events that may not happen.
	entry, around, lead, constant uint64
	flat                          bool
	// repeats: the same assignment may be reached in two ways.
	repeats bool
	led     bool // see lead.go
	pruning bool // some of prunes
	atOnce  bool // in a led program: where the oldest start ends the next one leads at once
	// openEnd: the rule may be complete and still go on.
	openEnd   bool
	looksBack bool // some memory keeps events together with the ones before them
	code      []instruction
	// entries are the ways to the first event. Their absences are those at the start.
	entries         []exit
	strict, without uint64
	// between and end have the bits of the absences that can be pending before another take, and at the end.
	between, end uint64
	most         int // no run lacks more events than that
	// taking has the bits of all elements that take events, final those of the ones behind which the rule may be complete.
	taking, final uint64
	logging       uint64   // what a led program logs: what is taken, and what breaks an absence at the end
	aggregated    uint64   // names that have aggregates
	layouts       []layout // by name: what is kept of the events it takes
	prunes        []bool   // by pc of a take: see dominate.go
	gaps          []cep.Duration
	memories      []memoryKind
	least         []int      // by pc: the events that a run which comes there still takes at least
	wholes        []*element // composites: what has a slot in the groups of a run
	bars          []bar
	prevLayout    layout
	pattern       Pattern // without its words, its elements and what it has instead of them
}

// Forms compiles patterns to programs that share what they have in common. It belongs to one goroutine; the programs do not.
type Forms struct{ byShape map[uint32][]*form }

// Compile makes a Program as [Compile] does.
func (f *Forms) Compile(pattern Pattern) (*Program, error) {
	p, err := Compile(pattern)
	if err != nil || p.rows != nil {
		return p, err
	}
	if f.byShape == nil {
		f.byShape = map[uint32][]*form{}
	}
	shape := p.shape()
	for _, other := range f.byShape[shape] {
		// Functions are never equal: what evaluates more than conditions has a form of its own.
		if reflect.DeepEqual(p.form, other) {
			p.form = other
			return p, nil
		}
	}
	f.byShape[shape] = append(f.byShape[shape], p.form)
	return p, nil
}

// split takes out of the form what makes this program differ from others like it.
func (p *Program) split() {
	p.source = p.pattern
	own := &p.pattern
	own.Rule, own.Names, own.Elements, own.Without, own.Rows = "", nil, nil, nil, nil
	for _, n := range p.source.Names {
		own.Names = append(own.Names, Name{Keep: n.Keep})
	}
	p.conditions = make([]*Pred, len(p.elements))
	for i := range p.elements {
		e := &p.elements[i]
		p.conditions[i], e.Where = e.Where, nil
	}
}

// condition is that of an element or composite; nil: it has none.
func (p *Program) condition(e *element) *Pred {
	if e.Kind != KindLeaf {
		return e.Where
	}
	return p.conditions[e.index]
}

// judged notes what the condition of an element reads.
func (e *element) judged() {
	if w := e.Where; w != nil {
		e.asks, e.looksAround = w.Unary, !w.Unary
	}
}
