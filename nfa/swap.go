package nfa

import (
	"fmt"
	"slices"
)

// Under makes the machine go on under another compilation of the same program, as a rule has in every set that holds it, with
// a memo of those that run beside it; nil: the machine has one to itself. Its state stays as it is, and so does what
// [Machine.Changes] knows. Matches that nobody has asked for yet stay, too.
//
// The error wraps [ErrSnapshot] where the state does not fit the program; nothing has changed then. It costs O(1), but
// O(state) where brakes of the rule have been set otherwise.
func (m *Machine) Under(p *Program, memo *Memo) error {
	if err := m.Fits(p); err != nil {
		return err
	}
	old := m.program
	m.program, m.form = p, p.form
	m.setMemo(memo)
	m.owner = nil // what is known of the present event is known of conditions with other numbers
	if m.rows != nil {
		m.rows.p, m.rows.view = p.rows, history{form: p.form}
	}
	if p.pattern.Limits.KeysMax == old.pattern.Limits.KeysMax && p.pattern.Limits.StateBytes == old.pattern.Limits.StateBytes &&
		p.source.Rule == old.source.Rule {
		return nil
	}
	m.brake = newBrake(&p.source)
	if m.brake == nil {
		return nil
	}
	for r := range m.keys.all() {
		m.brake.settle(r.key, false, true, int(r.count), r.weigh)
	}
	if m.rows != nil {
		for _, k := range m.rows.keys {
			m.brake.settle(k.key, false, true, 1, k.weigh)
		}
	}
	return nil
}

// Fits says whether the machine could go on under another compilation of its program: the error that [Machine.Under] would
// return.
func (m *Machine) Fits(p *Program) error {
	old := m.program
	fits := p.shape() == old.shape() && len(p.layouts) == len(old.layouts) && len(p.elements) == len(old.elements) &&
		slices.Equal(p.gaps, old.gaps) &&
		slices.EqualFunc(p.memories, old.memories, func(a, b memoryKind) bool { return a.reach == b.reach })
	if !fits {
		return fmt.Errorf("%w: it belongs to another program than %s", ErrSnapshot, p.source.Rule)
	}
	return nil
}

// setMemo makes a memo the machine's, or a new one of its own.
func (m *Machine) setMemo(memo *Memo) {
	if m.memo, m.ownMemo = memo, memo == nil; m.ownMemo {
		m.memo = m.newMemo()
	}
	m.scratch = m.memo.scratch
	m.fit(m.form)
}

func (m *Machine) newMemo() *Memo {
	ids := 0
	for _, w := range m.program.conditions {
		if w != nil {
			ids = max(ids, w.ID+1)
		}
	}
	return NewMemo(ids)
}
