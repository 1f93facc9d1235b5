package nfa

import "github.com/cepd/cepd/cep"

// Machine runs one program: all keys of a rule that one goroutine owns.
type Machine struct {
	program  *Program
	memo     *Memo
	now      cep.Time
	counters Counters
	out      []cep.Match
}
type memoryKind struct {
	reach   cep.Duration
	element *element
}

// NewMachine returns a machine without state.
func NewMachine(p *Program, memo *Memo) *Machine { return &Machine{program: p, memo: memo} }

// SetFirstTime sets the first time of the rule (S4.3).
func (m *Machine) SetFirstTime(t cep.Time) {}

// Event looks at an event of a key's stream.
func (m *Machine) Event(key []byte, ev *cep.Event, mask uint64) {}

// Advance moves time.
func (m *Machine) Advance(w cep.Time) {}

// NextDeadline is the time of the next deadline.
func (m *Machine) NextDeadline() cep.Time { return cep.AfterAll }

// Matches returns what was let out.
func (m *Machine) Matches() []cep.Match { return nil }

// Counters returns the counters.
func (m *Machine) Counters() *Counters { return &m.counters }

// Keys is the number of keys.
func (m *Machine) Keys() int { return 0 }

// OpenStarts is the number of open starts.
func (m *Machine) OpenStarts() int { return 0 }

// AppendSnapshot appends the state.
func (m *Machine) AppendSnapshot(dst []byte) []byte { return dst }

// Restore makes a machine from a snapshot.
func Restore(p *Program, memo *Memo, data []byte, intern func(stream, partition string) *cep.Partition) (*Machine, error) {
	return NewMachine(p, memo), nil
}

// String prints the program.
func (p *Program) String() string { return "" }
