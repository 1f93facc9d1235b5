package nfa

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
)

var update = flag.Bool("update", false, "write the golden files and fixtures anew")

// interner returns a function that gives one Partition for each stream and name.
func interner() func(stream, name string) *cep.Partition {
	known := map[[2]string]*cep.Partition{}
	return func(stream, name string) *cep.Partition {
		k := [2]string{stream, name}
		if known[k] == nil {
			known[k] = &cep.Partition{Stream: stream, Name: name}
		}
		return known[k]
	}
}

// TestRestoreEverywhere takes a snapshot after every prefix of a random input: the machine made of it writes the same
// bytes, and lets out of the rest what the machine that was never stopped lets out. 200 cases of up to 30 inputs: 3 s.
func TestRestoreEverywhere(t *testing.T) {
	t.Run("flat", func(t *testing.T) { restoreEverywhere(t, true, 30) })
	// Loops of `any` inside groups of `any` multiply.
	t.Run("all", func(t *testing.T) { restoreEverywhere(t, false, 14) })
}

func restoreEverywhere(t *testing.T, flat bool, inputs int) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPattern(t, flat)
		intern := interner()
		list := drawInput(t, inputs, intern)
		first := cep.Time(rapid.IntRange(-9, 3).Draw(t, "first time")) * cep.Second
		m := NewMachine(p, nil)
		m.SetFirstTime(first)
		want := feed(m, list)
		final := m.AppendSnapshot(nil)

		m = NewMachine(p, nil)
		m.SetFirstTime(first)
		for i := range list {
			feed(m, list[i:i+1])
			b := m.AppendSnapshot(nil)
			r, err := Restore(p, nil, b, intern)
			if err != nil {
				t.Fatalf("after %d inputs: %v\n%s", i+1, err, p)
			}
			if again := r.AppendSnapshot(nil); !bytes.Equal(b, again) {
				t.Fatalf("after %d inputs: other bytes\n%x\n%x\n%s", i+1, b, again, p)
			}
			if i%3 == 0 { // the rest from here, and from there on from one restored machine to the next
				if d := cmp.Diff(want[i+1:], feed(r, list[i+1:]), nilIsEmpty); d != "" {
					t.Fatalf("restored after %d inputs (-want +got):\n%s\n%s", i+1, d, p)
				}
				if !bytes.Equal(final, r.AppendSnapshot(nil)) {
					t.Fatalf("restored after %d inputs: another end\n%s", i+1, p)
				}
			}
			if m, err = Restore(p, nil, b, intern); err != nil {
				t.Fatal(err)
			}
		}
	})
}

var nilIsEmpty = cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })

// fixture is a machine with something of everything that a snapshot holds, and the inputs that come after it.
func fixture(t testing.TB) (m *Machine, rest []input) {
	b := sequence(t, "!x >>a >>b+ !>>c >>d")
	b.Rule = "fixture"
	b.Elements[0].For, b.Elements[0].FromStart = seconds(4), true
	ahead := b.Elements[0].Where
	b.Elements[0].Where = &Pred{ID: 1000, Text: "x.value == a.value", Slots: []int{slotKind, slotValue}, Test: func(s *cep.Scope) (bool, error) {
		ok, err := ahead.Test(s)
		return ok && cep.Equal(s.Event.Value(slotValue), s.History.At(1, 0).Value(slotValue)), err
	}}
	b.Elements[2].LoopWithin = seconds(30)
	b.Within, b.Ordered, b.After, b.KeepRaw = seconds(60), true, SkipNone, true
	b.UsesPrev, b.PrevSlots, b.PrevReach = true, []int{slotValue}, seconds(5)
	for i := range b.Names {
		b.Names[i].Keep = []int{slotValue}
	}
	b.Aggregates = []cep.Aggregate{{Kind: cep.AggregateSum, Step: 2, Slot: slotValue}, {Kind: cep.AggregateDistinct, Step: 2, Slot: slotValue}}
	m = NewMachine(b.compile(t), nil)
	var list []input
	for i, ev := range stream("a@0 a@2 b@3=2 b@4 d@5 x@7=3 a@8=4 b@9 b@12=-7 d@14 a@15=3 x@70 a@71 b@100=1.5 d@101") {
		ev.Raw = []byte(`{"n":1}`)
		if i == 3 {
			ev.Values = append(ev.Values, cep.List([]cep.Value{cep.Null, cep.Bool(true), cep.Object([]cep.Member{{Name: "o", Value: cep.TimeValue(5)}})}))
		}
		for _, key := range []string{"k", "l"} {
			if key == "k" || i%3 > 0 {
				list = append(list, input{key: key, event: ev, mask: all})
			}
		}
	}
	const before = 13 // of the inputs
	feed(m, list[:before])
	return m, list[before:]
}

// wholeFixture is the same for what version 2 added: composites, greedy, until, having, distinct, first_seen, edges, without.
func wholeFixture(t testing.TB) (m *Machine, rest []input) {
	step := func(name int, kind string) Element {
		return Element{Name: name, Where: kindIs(kind), Link: Relaxed, Min: 1, Max: 1}
	}
	a, b, c, d, e := step(0, "a"), step(1, "b"), step(2, "c"), step(3, "d"), step(4, "e")
	a.FirstSeen = &FirstSeen{By: []*Expr{value()}, For: seconds(20), FromStart: true}
	b.Max, b.Greedy, b.Distinct, b.Optional = -1, true, value(), true
	b.Until = kindIs("u")
	b.Having = &Pred{ID: 7, Text: "len(b) != 3", Test: func(s *cep.Scope) (bool, error) { return s.History.Len(1) != 3, nil }}
	c.Link = NoLink
	group := Element{
		Kind: KindGroup, Link: Relaxed, Loop: Relaxed, Min: 1, Max: 3, Times: true, Within: seconds(30),
		Elements: []Element{{Kind: KindAllOf, Elements: []Element{c, d}}},
	}
	e.Edge = true
	end := Element{Name: 5, Absent: true, Where: kindIs("x"), For: seconds(8)}
	p := Pattern{
		Rule: "whole", Elements: []Element{a, b, group, e, end}, Within: seconds(60), After: SkipNone,
		Without: []Without{{Name: 6, Where: kindIs("w")}}, PrevReach: seconds(9),
	}
	for _, n := range []string{"a", "b", "c", "d", "e", "x", "w"} {
		p.Names = append(p.Names, Name{Name: n, Keep: []int{slotValue}})
	}
	program, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	m = NewMachine(program, nil)
	var list []input
	for i, ev := range stream("a@0=1 a@1=1 b@2=1 b@3=2 a@4=2 d@5=0 c@6=0 b@7=2 c@8=0 e@9=0 e@10=0 d@11=0 a@12=2 d@13=0 w@14=0 b@15=3 u@16=0 c@17=0 d@18=0 e@25=0 x@27=0 e@40=0 a@49=0") {
		for _, key := range []string{"k", "l"} {
			if key == "k" || i%4 != 2 {
				list = append(list, input{key: key, event: ev, mask: all})
			}
		}
	}
	const before = 24 // of the inputs
	feed(m, list[:before])
	return m, list[before:]
}

// ledFixture is a machine with parked starts.
func ledFixture(t testing.TB) (m *Machine, rest []input) {
	b := sequence(t, "a{2,} >>b+ >>c")
	b.Rule, b.Within, b.After = "led", seconds(20), SkipPastLast
	b.Names[0].Keep, b.Names[1].Keep = []int{slotValue}, []int{slotValue}
	m = NewMachine(b.compile(t), nil)
	var list []input
	for _, ev := range stream("a@0=1 a@1=2 b@2=3 a@3=4 b@4=5 a@6=6 a@18=7 b@19=8 a@23=9 c@25 a@26=1") {
		list = append(list, input{key: "k", event: ev, mask: all})
	}
	const before = 7
	feed(m, list[:before])
	return m, list[before:]
}

// TestFixtures restores the snapshots that every released version has written. A new version of the format adds a file; the
// old ones stay.
func TestFixtures(t *testing.T) {
	makers := []func(testing.TB) (*Machine, []input){fixture, wholeFixture} // by version
	if len(makers) != snapshotVersion {
		t.Fatalf("%d fixtures for %d versions", len(makers), snapshotVersion)
	}
	for i, make := range makers {
		name := filepath.Join("testdata", fmt.Sprintf("snapshot-v%d.bin", i+1))
		m, rest := make(t)
		if *update {
			if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
				if err := os.WriteFile(name, m.AppendSnapshot(nil), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Restore(m.Program(), nil, data, interner())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := feed(m, rest)
		if d := cmp.Diff(want, feed(r, rest)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if len(strings.Join(want, "")) < 400 {
			t.Errorf("%s: little happens after it: %s", name, want)
		}
	}
}

// seal gives bytes the checksum that Restore wants, so that what lies behind it is tested.
func seal(b []byte) []byte {
	if len(b) < checksumSize {
		return b
	}
	b = bytes.Clone(b)
	body := b[:len(b)-checksumSize]
	binary.BigEndian.PutUint32(b[len(body):], crc32.Checksum(body, castagnoli))
	return b
}

// TestRestoreRefuses changes, cuts and lengthens a good snapshot in every place.
func TestRestoreRefuses(t *testing.T) {
	for _, make := range []func(testing.TB) (*Machine, []input){fixture, wholeFixture, ledFixture} {
		m, _ := make(t)
		restoreRefuses(t, m)
	}
}

func restoreRefuses(t *testing.T, m *Machine) {
	p, good := m.Program(), m.AppendSnapshot(nil)
	refuse := func(what string, b []byte) {
		t.Helper()
		if _, err := Restore(p, nil, b, interner()); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 4
		refuse("a flipped bit", bad)
		refuse("cut off", good[:i])
		if i < len(good)-checksumSize {
			refuse("cut off and sealed", seal(good[:i]))
		}
	}
	refuse("bytes behind", seal(append(bytes.Clone(good), 0)))
	newer := bytes.Clone(good)
	newer[len(snapshotMagic)]++
	refuse("a newer version", seal(newer))
	other := sequence(t, "a >>b").compile(t)
	if _, err := Restore(other, nil, good, interner()); !errors.Is(err, ErrSnapshot) {
		t.Errorf("another program: %v", err)
	}
}

// FuzzDecodeSnapshot: bytes that nobody has written are refused, or give a machine that holds its invariants, whose own
// snapshot is a fixed point, and that goes on without harm.
func FuzzDecodeSnapshot(f *testing.F) {
	programs := []*Program{}
	for which, make := range []func(testing.TB) (*Machine, []input){fixture, wholeFixture, ledFixture} {
		m, rest := make(f)
		programs = append(programs, m.Program())
		f.Add(uint8(which), NewMachine(m.Program(), nil).AppendSnapshot(nil))
		for i := range rest {
			f.Add(uint8(which), m.AppendSnapshot(nil))
			feed(m, rest[i:i+1])
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		p := programs[int(which)%len(programs)]
		m, err := Restore(p, nil, seal(b), interner())
		if err != nil {
			if !errors.Is(err, ErrSnapshot) {
				t.Fatal(err)
			}
			return
		}
		for r := range m.keys.all() {
			if err := m.checkKey(r); err != nil {
				t.Fatal(err)
			}
		}
		first := m.AppendSnapshot(nil)
		again, err := Restore(p, nil, first, interner())
		if err != nil {
			t.Fatalf("its own snapshot: %v", err)
		}
		if !bytes.Equal(first, again.AppendSnapshot(nil)) {
			t.Fatal("its snapshot is no fixed point")
		}
		if again.Counters().Delivered != m.Counters().Delivered || !reflect.DeepEqual(again.Counters().Taken, m.Counters().Taken) {
			t.Fatal("other counters")
		}
		m.Advance(m.now.Add(seconds(600)))
		if again.NextDeadline() < cep.AfterAll {
			again.Advance(cep.AfterAll - 1)
		}
	})
}
