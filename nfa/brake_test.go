package nfa

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
)

// checkBrake counts anew what the brake has noted.
func checkBrake(m *Machine) error {
	var keys [brakeSlots]int
	known := map[string]bool{}
	for r := range m.keys.all() {
		known[r.key] = true
	}
	if m.rows != nil {
		for k := range m.rows.keys {
			known[k] = true
		}
	}
	var bytes [brakeSlots]int64
	for k := range known {
		slot := Slot(m.program.source.Rule, k)
		keys[slot]++
		bytes[slot] += m.brake.weights[k].bytes
	}
	if keys != m.brake.keys {
		return fmt.Errorf("the brake counts other keys than there are: %d in all", len(known))
	}
	if m.brake.weights != nil && (bytes != m.brake.bytes || len(m.brake.weights) != len(known)) {
		return fmt.Errorf("the brake weighs %d keys of %d", len(m.brake.weights), len(known))
	}
	return nil
}

func kilobytes(b *brake) (sum int64) {
	for _, n := range b.bytes {
		sum += n
	}
	return sum / 1024
}

// What the brake has noted is what is there, whatever happens to keys, and through a restart; in the end it is nothing.
func TestBrakeIsTrue(t *testing.T) {
	patterns := []string{"a >>b", "a+ >>b", "a >>b+/any >>c", "a >>b !>>c", "!a >>b", "a >b{2,3}"}
	rapid.Check(t, func(t *rapid.T) {
		b := sequence(&testing.T{}, rapid.SampledFrom(patterns).Draw(t, "pattern"))
		b.Within = seconds(5)
		for i := range b.Elements {
			if b.Elements[i].Absent && i == 0 {
				b.Elements[i].For = seconds(3)
			}
		}
		b.After = AfterMatch(rapid.IntRange(0, 2).Draw(t, "after"))
		b.UsesPrev = rapid.Bool().Draw(t, "prev")
		b.Limits = Limits{KeysMax: brakeSlots * rapid.IntRange(1, 2).Draw(t, "keys"), StateBytes: int64(rapid.IntRange(1, 2000).Draw(t, "bytes")) * brakeSlots}
		p, err := Compile(b.Pattern)
		if err != nil {
			t.Fatal(err)
		}
		m := NewMachine(p, nil)
		for i, ev := range stream(rapid.StringMatching(`([abcx] ){30}`).Draw(t, "events")) {
			m.Event(fmt.Append(nil, rapid.IntRange(0, 6).Draw(t, "key")), ev, all)
			if err := checkBrake(m); err != nil {
				t.Fatalf("event %d: %v", i+1, err)
			}
			m.Matches()
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				again, err := Restore(p, nil, m.AppendSnapshot(nil), func(stream, name string) *cep.Partition { return ev.Position.Partition })
				if err != nil {
					t.Fatal(err)
				}
				if m = again; checkBrake(m) != nil {
					t.Fatal(checkBrake(m))
				}
			}
		}
		m.Advance(cep.Time(math.MaxInt64) - 1)
		if err := checkBrake(m); err != nil || m.Keys() != 0 || m.brake.keys != [brakeSlots]int{} || m.brake.bytes != [brakeSlots]int64{} {
			t.Fatalf("at the end of time %d keys, %v", m.Keys(), err)
		}
	})
}

// 10,000 keys meet a brake of 1,024: no slot holds more than its part, and when the first have gone others may come.
func TestKeysBrake(t *testing.T) {
	for name, p := range map[string]Pattern{"sequence": sequence(t, "a >>b").Pattern, "rows": rowPattern(aPlusB)} {
		p.Within, p.Limits = seconds(10), Limits{KeysMax: 1024}
		program, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		m := NewMachine(program, nil)
		seq := uint64(0)
		feed := func(from, to int, at cep.Time) {
			for i := from; i < to; i++ {
				ev := stream("a")[0]
				seq++
				ev.Time, ev.Seq = at, seq
				m.Event(fmt.Appendf(nil, "key %d", i), ev, all)
			}
		}
		feed(0, 10_000, cep.Second)
		if n := m.Keys(); n > 1024 || n < 900 || m.Counters().Braked != uint64(10_000-n) {
			t.Errorf("%s: %d keys, %d braked", name, n, m.Counters().Braked)
		}
		for slot, n := range m.brake.keys {
			if n > 4 {
				t.Errorf("%s: slot %d holds %d keys", name, slot, n)
			}
		}
		m.Advance(60 * cep.Second)
		if m.Keys() != 0 {
			t.Errorf("%s: %d keys are left", name, m.Keys())
		}
		braked := m.Counters().Braked
		feed(20_000, 20_010, 61*cep.Second)
		if m.Keys() != 10 || m.Counters().Braked != braked {
			t.Errorf("%s: %d of ten new keys, %d braked", name, m.Keys(), m.Counters().Braked-braked)
		}
	}
}

// A key whose candidates multiply is held at about its slot's part; other slots are not touched.
func TestStateBrake(t *testing.T) {
	b := sequence(t, "a >>b+/any >>c")
	b.After, b.Limits = SkipNone, Limits{StateBytes: brakeSlots * 64 << 10}
	m := NewMachine(b.compile(t), nil)
	hot, other := []byte("hot"), []byte("other")
	for i, ev := range stream("a a a a b b b b a b b a b b a b b a a a a a") {
		m.Event(hot, ev, all)
		if i == 21 {
			m.Event(other, ev, all)
		}
	}
	if m.Counters().Braked == 0 || m.Keys() != 2 {
		t.Errorf("%d braked, %d keys, %d kB", m.Counters().Braked, m.Keys(), kilobytes(m.brake))
	}
	if Slot("test", "hot") == Slot("test", "other") {
		t.Fatal("the keys must fall into two slots")
	}
	open := m.OpenStarts()
	last := stream("a@100")[0]
	last.Seq = 100
	m.Event(hot, last, all)
	if m.OpenStarts() != open {
		t.Error("a start was opened though the slot is full")
	}
}

func TestNoBrakeCostsNothing(t *testing.T) {
	if m := NewMachine(sequence(t, "a >>b").compile(t), nil); m.brake != nil {
		t.Error("a rule without brakes has one")
	}
}
