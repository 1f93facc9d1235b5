package nfa

import "github.com/cepd/cepd/cep"

// Memo remembers what the unary predicates of a rule set said about one event, so that each is evaluated at most once an
// event however many rules, keys and runs ask. All machines of one goroutine share one Memo, and with it the space in which
// they work.
type Memo struct {
	round   uint32
	answers []answer
	scratch *scratch
}

type answer struct {
	round uint32 // the answer counts while it is that of the Memo
	holds bool
	err   error
}

// NewMemo returns a Memo for the predicates with an ID below n.
func NewMemo(n int) *Memo { return &Memo{round: 1, answers: make([]answer, n), scratch: &scratch{}} }

// Next forgets all answers. Call it before each new event, not between the keys of one event.
func (m *Memo) Next() {
	m.round++
	if m.round == 0 { // 2^32 events later an old answer would look like a new one
		clear(m.answers)
		m.round = 1
	}
}

// Test evaluates p, or repeats what p said about this event if p is unary. The error is that of [Pred.Test]; the
// condition is false then.
func (m *Memo) Test(p *Pred, s *cep.Scope) (bool, error) {
	if !p.Unary || p.ID < 0 || p.ID >= len(m.answers) {
		holds, err := p.Test(s)
		return holds && err == nil, err
	}
	a := &m.answers[p.ID]
	if a.round != m.round {
		holds, err := p.Test(s)
		*a = answer{round: m.round, holds: holds && err == nil, err: err}
	}
	return a.holds, a.err
}
