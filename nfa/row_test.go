package nfa

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cepd/cepd/cep"
)

// rowPattern is a row pattern over the steps a and b; an event is taken by the step whose letter it has in slot 0.
func rowPattern(row Row) Pattern {
	letter := func(id int, want string) *Pred {
		return &Pred{ID: id, Text: want, Unary: true, Slots: []int{0}, Test: func(s *cep.Scope) (bool, error) {
			return s.Event.Value(0).AsString() == want, nil
		}}
	}
	return Pattern{
		Rule: "rows", Names: []Name{{Name: "a", Keep: []int{0}}, {Name: "b"}}, Rows: &row, After: SkipPastLast, Within: 10 * cep.Duration(cep.Second),
		PrevReach: 10 * cep.Duration(cep.Second), Elements: []Element{{Name: 0, Where: letter(0, "a")}, {Name: 1, Where: letter(1, "b")}},
	}
}

func rowStep(name int) Row { return Row{Kind: RowStep, Name: name} }

// aPlusB is a+ b.
var aPlusB = Row{Kind: RowSequence, Parts: []Row{{Kind: RowRepeat, Parts: []Row{rowStep(0)}, Min: 1, Max: -1}, rowStep(1)}}

func rowMachineFor(t *testing.T, p Pattern) *Machine {
	t.Helper()
	program, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return NewMachine(program, nil)
}

// rowFeed gives a machine a letter a second, and returns what it lets out.
func rowFeed(m *Machine, letters string, from int) string {
	partition := &cep.Partition{Stream: "s", Name: "0"}
	var out []string
	for i, c := range letters {
		m.Event([]byte("k"), &cep.Event{
			Time: cep.Time(from+i) * cep.Second, Seq: uint64(from + i), Position: cep.Position{Partition: partition, Offset: int64(from + i)},
			Values: []cep.Value{cep.String(string(c))},
		}, 3)
		out = append(out, rowMatches(m)...)
	}
	return strings.Join(out, "; ")
}

func rowMatches(m *Machine) []string {
	var out []string
	for _, match := range m.Matches() {
		var b strings.Builder
		for i := range match.History.Total() {
			taken := match.History.Nth(i)
			fmt.Fprintf(&b, "%d%s ", taken.Position().Offset, m.program.source.Names[taken.Step()].Name)
		}
		fmt.Fprintf(&b, "@%v", match.Moment.Time.Sub(0))
		out = append(out, b.String())
	}
	return out
}

func TestRowProgramPrint(t *testing.T) {
	row := Row{Kind: RowSequence, Parts: []Row{
		{Kind: RowChoice, Parts: []Row{rowStep(0), {Kind: RowExclude, Parts: []Row{rowStep(1)}}}},
		{Kind: RowRepeat, Parts: []Row{rowStep(0)}, Min: 0, Max: -1, Reluctant: true},
		{Kind: RowPermute, Parts: []Row{rowStep(0), rowStep(1)}},
	}}
	m := rowMachineFor(t, rowPattern(row))
	want := `program rows, after_match past_last, within 10s
rows (a | {- b -}) a*? PERMUTE(a, b)
  0  split 1, 3
  1  take a
  2  jump 4
  3  take b, not listed
  4  split 11, 5
  5  first of loop 0
  6  take a
  7  check loop 0, on at 8 or out at 11
  8  split 11, 9
  9  again loop 0
 10  jump 6
 11  split 12, 15
 12  take a
 13  take b
 14  jump 17
 15  take b
 16  take a
 17  done
where a a
where b b
keep [0]
facts ways merge
`
	if got := m.Program().String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestRowState: what is open is counted, limits hold, and a key without a start costs nothing.
func TestRowState(t *testing.T) {
	m := rowMachineFor(t, rowPattern(aPlusB))
	if got := rowFeed(m, "ccaab", 1); got != "3a 4a 5b @5s" {
		t.Error(got)
	}
	if m.Keys() != 0 || m.OpenStarts() != 0 || m.NextDeadline() < cep.AfterAll && m.Keys() > 0 {
		t.Errorf("%d keys, %d starts", m.Keys(), m.OpenStarts())
	}
	rowFeed(m, "aa", 6)
	if m.Keys() != 1 || m.OpenStarts() != 1 || m.NextDeadline() > 16*cep.Second {
		t.Errorf("%d keys, %d starts, next %v", m.Keys(), m.OpenStarts(), m.NextDeadline())
	}
	m.Advance(16 * cep.Second) // the window of the first a, then the second begins anew
	if m.OpenStarts() != 1 {
		t.Errorf("%d starts", m.OpenStarts())
	}
	m.Advance(17 * cep.Second)
	if c := m.Counters(); m.Keys() != 0 || m.OpenStarts() != 0 || c.Opened != 3 || c.Matched != 1 || c.Ended[EndExpired] != 2 || c.Ended[EndCompleted] != 1 {
		t.Errorf("%d keys, %d starts, %+v", m.Keys(), m.OpenStarts(), c)
	}
}

func TestRowLimits(t *testing.T) {
	p := rowPattern(aPlusB)
	p.Limits.EventsPerMatch = 3
	m := rowMachineFor(t, p)
	if got := rowFeed(m, "aaaab", 1); got != "3a 4a 5b @5s" || m.Counters().TooLong == 0 {
		t.Errorf("%s, %+v", got, m.Counters())
	}
	for _, row := range []Row{
		{Kind: RowRepeat, Parts: []Row{{Kind: RowRepeat, Parts: []Row{rowStep(0)}, Min: 1000, Max: 1000}}, Min: 1000, Max: 1000},
		{Kind: RowRepeat, Parts: []Row{{Kind: RowRepeat, Parts: []Row{rowStep(0)}, Min: 0, Max: -1}}, Min: 50, Max: 50},
		{Kind: RowPermute, Parts: []Row{rowStep(0), rowStep(0), rowStep(0), rowStep(0), rowStep(0), rowStep(0), rowStep(0), rowStep(0)}},
	} {
		if _, err := Compile(rowPattern(row)); err == nil {
			t.Errorf("%s compiles", row.String(rowPattern(row).Names))
		}
	}
	// 2^n ways: a loop over a choice whose alternatives fit alike. They merge, because no condition looks back.
	many := Row{Kind: RowSequence, Parts: []Row{{Kind: RowRepeat, Parts: []Row{{Kind: RowChoice, Parts: []Row{rowStep(0), rowStep(0)}}}, Min: 1, Max: -1}, rowStep(1)}}
	m = rowMachineFor(t, rowPattern(many))
	rowFeed(m, strings.Repeat("a", 9), 1)
	if n := len(m.rows.keys["k"].ways); n > 3 {
		t.Errorf("%d ways", n)
	}
	p = rowPattern(many)
	p.RowsLookBack, p.Within = true, 0
	m = rowMachineFor(t, p)
	rowFeed(m, strings.Repeat("a", 20), 1)
	if n := len(m.rows.keys["k"].ways); n > maxRowWays || m.Counters().TooLong == 0 {
		t.Errorf("%d ways, %d too long", n, m.Counters().TooLong)
	}
}

// TestRowSkips: a skip to a step that took nothing, or to the match's own first event, is one to the next event, counted.
func TestRowSkips(t *testing.T) {
	p := rowPattern(aPlusB)
	p.After, p.Target = SkipToFirst, 0
	m := rowMachineFor(t, p)
	if got := rowFeed(m, "aab", 1); got != "1a 2a 3b @3s; 2a 3b @3s" || m.Counters().Skips != 2 {
		t.Errorf("%s, %d", got, m.Counters().Skips)
	}
	p.After = SkipToLast
	m = rowMachineFor(t, p)
	if got := rowFeed(m, "aab", 1); got != "1a 2a 3b @3s; 2a 3b @3s" || m.Counters().Skips != 1 {
		t.Errorf("%s, %d", got, m.Counters().Skips)
	}
	back, err := Restore(m.Program(), nil, m.AppendSnapshot(nil), interner())
	if err != nil || back.Counters().Skips != 1 {
		t.Error(err)
	}
}

// TestRowDrain: the start that is open goes on, no other begins.
func TestRowDrain(t *testing.T) {
	m := rowMachineFor(t, rowPattern(aPlusB))
	rowFeed(m, "a", 1)
	m.Drain()
	if got := rowFeed(m, "abaab", 2); got != "1a 2a 3b @3s" || m.Keys() != 0 {
		t.Errorf("%s, %d keys", got, m.Keys())
	}
}

// TestRowSnapshotDamage: bytes that were changed are refused, whatever was changed.
func TestRowSnapshotDamage(t *testing.T) {
	m := rowMachineFor(t, rowPattern(aPlusB))
	rowFeed(m, "aaa", 1)
	data := m.AppendSnapshot(nil)
	intern := func(stream, name string) *cep.Partition { return &cep.Partition{Stream: stream, Name: name} }
	back, err := Restore(m.Program(), nil, data, intern)
	if err != nil {
		t.Fatal(err)
	}
	if got := rowFeed(back, "b", 4); got != "1a 2a 3a 4b @4s" || back.Counters().Opened != 1 {
		t.Errorf("%s, %+v", got, back.Counters())
	}
	for i := range data {
		damaged := append([]byte{}, data...)
		damaged[i] ^= 0x55
		if _, err := Restore(m.Program(), nil, damaged, intern); err == nil {
			t.Errorf("byte %d changed, and it restores", i)
		}
	}
	other := rowMachineFor(t, rowPattern(rowStep(0)))
	if _, err := Restore(other.Program(), nil, data, intern); err == nil {
		t.Error("another program restores it")
	}
}

// rowFixture is a machine in the middle of something, and what follows.
func rowFixture(t testing.TB) (*Machine, string) {
	p := rowPattern(aPlusB)
	p.UsesPrev, p.PrevSlots, p.KeepRaw = true, []int{0}, true
	program, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	m := NewMachine(program, nil)
	rowFeed(m, "cabcaa", 1)
	m.Event([]byte("other"), &cep.Event{
		Time: 7 * cep.Second, Seq: 7, Position: cep.Position{Partition: &cep.Partition{Stream: "t", Name: "1"}, Offset: 9},
		Values: []cep.Value{cep.String("a")}, Raw: []byte(`{"x":"a"}`),
	}, 3)
	m.Matches()
	return m, "ab"
}

// TestRowFixture restores the snapshot of row patterns that this version of the format was released with.
func TestRowFixture(t *testing.T) {
	const name = "testdata/rows-v2.bin"
	m, rest := rowFixture(t)
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
	back, err := Restore(m.Program(), nil, data, interner())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := rowFeed(back, rest, 8), rowFeed(m, rest, 8); got != want || got != "5a 6a 8a 9b @9s" {
		t.Errorf("%q, want %q", got, want)
	}
	if back.Keys() != m.Keys() || back.OpenStarts() != m.OpenStarts() || back.NextDeadline() != m.NextDeadline() {
		t.Errorf("%d keys, %d starts, %v; want %d, %d, %v", back.Keys(), back.OpenStarts(), back.NextDeadline(), m.Keys(), m.OpenStarts(), m.NextDeadline())
	}
}

func TestRowRestoreRefuses(t *testing.T) {
	m, _ := rowFixture(t)
	restoreRefuses(t, m)
}

// FuzzDecodeRows: bytes that nobody has written are refused, or give a machine that goes on without harm and whose own
// snapshot is a fixed point.
func FuzzDecodeRows(f *testing.F) {
	m, rest := rowFixture(f)
	good := m.AppendSnapshot(nil)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Restore(m.Program(), nil, seal(data), interner())
		if err != nil {
			if !errors.Is(err, ErrSnapshot) {
				t.Fatal(err)
			}
			return
		}
		once := r.AppendSnapshot(nil)
		again, err := Restore(m.Program(), nil, once, interner())
		if err != nil {
			t.Fatal(err)
		}
		if twice := again.AppendSnapshot(nil); !bytes.Equal(once, twice) {
			t.Fatalf("%x, then %x", once, twice)
		}
		if r.now < 1<<50 && r.now >= 0 {
			rowFeed(r, rest, int(r.now/cep.Second)+1)
		}
		r.Advance(cep.AfterAll - 1)
	})
}
