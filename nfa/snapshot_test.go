package nfa

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
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
// bytes, and lets out of the rest what the machine that was never stopped lets out. 100 cases of up to 30 inputs: 2 s.
func TestRestoreEverywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPattern(t)
		intern := interner()
		list := drawInput(t, 30, intern)
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

// TestFixtures restores the snapshots that every released version has written. A new version of the format adds a file; the
// old ones stay.
func TestFixtures(t *testing.T) {
	written := filepath.Join("testdata", "snapshot-v1.bin")
	m, rest := fixture(t)
	if *update {
		if _, err := os.Stat(written); errors.Is(err, os.ErrNotExist) {
			if err := os.WriteFile(written, m.AppendSnapshot(nil), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join("testdata", "snapshot-v*.bin"))
	if err != nil || len(files) != snapshotVersion {
		t.Fatalf("%d fixtures for %d versions: %v", len(files), snapshotVersion, err)
	}
	want := feed(m, rest)
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Restore(m.Program(), nil, data, interner())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, feed(r, rest)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
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
	m, _ := fixture(t)
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
	m, rest := fixture(f)
	p := m.Program()
	f.Add(m.AppendSnapshot(nil))
	f.Add(NewMachine(p, nil).AppendSnapshot(nil))
	for i := range rest {
		feed(m, rest[i:i+1])
		f.Add(m.AppendSnapshot(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
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
