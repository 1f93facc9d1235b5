package nfa

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
)

// numbers are Partitions in which those of the stream "alerts", and the one named 1, have no number.
type numbers struct {
	intern func(stream, name string) *cep.Partition
	list   []*cep.Partition
}

func newNumbers(intern func(stream, name string) *cep.Partition) *numbers {
	return &numbers{intern: intern}
}

func (n *numbers) Number(p *cep.Partition) uint64 {
	if p.Name == "1" {
		return 0
	}
	i := slices.Index(n.list, p)
	if i < 0 {
		n.list = append(n.list, p)
		i = len(n.list) - 1
	}
	return uint64(i + 1)
}

func (n *numbers) ByNumber(i uint64) *cep.Partition {
	if i == 0 || i > uint64(len(n.list)) {
		return nil
	}
	return n.list[i-1]
}

func (n *numbers) ByName(stream, name string) *cep.Partition { return n.intern(stream, name) }

// records is what a store knows of a rule: the records of keys, and globals.
type records struct {
	parts   Partitions
	keys    map[string]string
	globals []byte
}

// take puts what has changed into the store. Changes say what they must and no more: no key twice, no removal of a key that
// is not there, and then all is there that the machines know.
func (s *records) take(t interface{ Fatalf(string, ...any) }, machines ...*Machine) {
	var globals [][]byte
	want := map[string]string{}
	for _, m := range machines {
		seen := map[string]bool{}
		most := m.Changed()
		m.Changes(s.parts, func(key string, value []byte) {
			if seen[key] {
				t.Fatalf("key %q changed twice", key)
			}
			seen[key] = true
			if value != nil {
				s.keys[key] = string(value)
				return
			}
			if _, ok := s.keys[key]; !ok {
				t.Fatalf("key %q is removed that was never there", key)
			}
			delete(s.keys, key)
		})
		if len(seen) > most {
			t.Fatalf("%d keys have changed, %d were foretold", len(seen), most)
		}
		m.Changes(s.parts, func(key string, _ []byte) { t.Fatalf("key %q changed twice at one time", key) })
		m.Records(s.parts, func(key string, value []byte) { want[key] = string(value) })
		var keys []string
		m.StoredKeys(func(key string) { keys = append(keys, key) })
		var own []string
		m.Records(s.parts, func(key string, _ []byte) { own = append(own, key) })
		if !slices.Equal(keys, own) {
			t.Fatalf("%q are stored, %q are there", keys, own)
		}
		globals = append(globals, m.AppendGlobals(nil))
	}
	if d := cmp.Diff(want, s.keys); d != "" {
		t.Fatalf("the store after the changes (-machine +store):\n%s", d)
	}
	merged, err := MergeGlobals(globals...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	s.globals = merged
}

// restore makes machines of the records, each with slots of its own.
func (s *records) restore(t interface{ Fatalf(string, ...any) }, p *Program, shards int) []*Machine {
	list := make([]*Restorer, shards)
	for i := range list {
		list[i] = NewRestorer(p, nil, s.parts)
	}
	for key, value := range s.keys { // in any order
		if err := list[shardOf(p, key, shards)].Key(key, []byte(value)); err != nil {
			t.Fatalf("%v", err)
		}
	}
	machines := make([]*Machine, shards)
	for i, r := range list {
		if err := r.Globals(s.globals); err != nil {
			t.Fatalf("%v", err)
		}
		m, err := r.Machine()
		if err != nil {
			t.Fatalf("%v", err)
		}
		if i > 0 {
			m.SetCounters(Counters{})
		}
		machines[i] = m
	}
	return machines
}

func shardOf(p *Program, key string, shards int) int {
	return int(Slot(p.source.Rule, key)) * shards / 256
}

// advanceDue moves the machines for which that changes something, as the engine does: their times differ.
func advanceDue(machines []*Machine, w cep.Time) {
	for _, m := range machines {
		if m.NextDeadline() <= w {
			m.Advance(w)
		}
	}
}

// feedShards runs the inputs on machines that share the keys, and prints what [feed] prints but for the order between keys.
func feedShards(machines []*Machine, list []input) []string {
	var out []string
	for _, in := range list {
		if in.event == nil {
			advanceDue(machines, in.advance)
		} else {
			advanceDue(machines, in.event.Time-1) // as one machine does before it looks at an event of any key
			m := machines[shardOf(machines[0].program, in.key, len(machines))]
			m.Event([]byte(in.key), in.event, in.mask)
		}
		open, keys := 0, 0
		var matches []string
		for _, m := range machines {
			open, keys = open+m.OpenStarts(), keys+m.Keys()
			s := strings.TrimSuffix(describe(m), fmt.Sprintf("%d open, %d keys", m.OpenStarts(), m.Keys()))
			matches = append(matches, strings.Split(strings.TrimSuffix(s, "; "), "; ")...)
		}
		matches = slices.DeleteFunc(matches, func(s string) bool { return s == "" })
		slices.Sort(matches)
		out = append(out, strings.Join(append(matches, fmt.Sprintf("%d open, %d keys", open, keys)), "; "))
	}
	return out
}

// TestRecordsEverywhere puts what has changed into a store now and then, and restores machines of it, from one to four that
// share the keys: they go on as the one that was never stopped, and the store holds what that one knows. 100 cases: 2 s.
func TestRecordsEverywhere(t *testing.T) {
	t.Run("flat", func(t *testing.T) {
		recordsEverywhere(t, func(t *rapid.T) *Program { return drawPattern(t, true) }, 30)
	})
	t.Run("all", func(t *testing.T) {
		recordsEverywhere(t, func(t *rapid.T) *Program { return drawPattern(t, false) }, 14)
	})
	t.Run("rows", func(t *testing.T) { recordsEverywhere(t, drawRows, 30) })
}

func drawRows(t *rapid.T) *Program {
	p := rowPattern(rapid.SampledFrom([]Row{
		aPlusB, rowStep(0), {Kind: RowSequence, Parts: []Row{rowStep(0), rowStep(1)}},
	}).Draw(t, "rows"))
	p.KeepRaw, p.UsesPrev, p.PrevSlots = true, rapid.Bool().Draw(t, "prev"), []int{0}
	p.After = rapid.SampledFrom([]AfterMatch{SkipPastLast, SkipToNext}).Draw(t, "after")
	program, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func recordsEverywhere(t *testing.T, draw func(*rapid.T) *Program, inputs int) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		intern := interner()
		list := drawInput(t, inputs, intern)
		for i := range list {
			if rapid.IntRange(0, 2).Draw(t, "other key") == 2 && list[i].event != nil && list[i].key != "both" {
				list[i].key = fmt.Sprint("k", rapid.IntRange(0, 5).Draw(t, "which"))
			}
		}
		one := []*Machine{NewMachine(p, nil)}
		want := feedShards(one, list)

		store := &records{parts: newNumbers(intern), keys: map[string]string{}}
		machines := []*Machine{NewMachine(p, nil)}
		for i := range list {
			if d := cmp.Diff(want[i:i+1], feedShards(machines, list[i:i+1])); d != "" {
				t.Fatalf("input %d of %d (-one +restored):\n%s\n%s", i, len(list), d, p)
			}
			if rapid.IntRange(0, 5).Draw(t, "swap") == 5 {
				q, err := Compile(*p.Pattern())
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range machines {
					if err := m.Under(q, nil); err != nil {
						t.Fatal(err)
					}
				}
				p = q
			}
			if rapid.IntRange(0, 2).Draw(t, "epoch") != 0 {
				continue
			}
			store.take(t, machines...)
			before := Counters{Taken: make([]uint64, len(p.source.Names))}
			for _, m := range machines {
				before.Add(m.Counters())
			}
			if rapid.Bool().Draw(t, "crash") {
				machines = store.restore(t, p, rapid.IntRange(1, 4).Draw(t, "shards"))
				after := Counters{Taken: make([]uint64, len(p.source.Names))}
				for _, m := range machines {
					after.Add(m.Counters())
				}
				if d := cmp.Diff(before, after); d != "" {
					t.Fatalf("counters (-before +restored):\n%s", d)
				}
			}
		}
		store.take(t, machines...)
		last := map[string]string{}
		one[0].Records(store.parts, func(key string, value []byte) { last[key] = string(value) })
		if d := cmp.Diff(last, store.keys); d != "" {
			t.Fatalf("the store in the end (-one +store):\n%s\n%s", d, p)
		}
	})
}

// TestChanges: what came and went is no change, what was there and went is removed once.
func TestChanges(t *testing.T) {
	m := NewMachine(sequence(t, "a >>b").compile(t), nil)
	parts := newNumbers(interner())
	changes := func() string {
		var out []string
		m.Changes(parts, func(key string, value []byte) {
			if value == nil {
				key = "-" + key
			}
			out = append(out, key)
		})
		return strings.Join(out, " ")
	}
	seq := uint64(0)
	event := func(key, kind string) {
		seq++
		ev := &cep.Event{Time: cep.Time(seq), Seq: seq, Position: cep.Position{Partition: &cep.Partition{}}, Values: []cep.Value{cep.String(kind)}}
		m.Event([]byte(key), ev, all)
		m.Matches()
	}
	for i, step := range []struct{ events, want string }{
		{"l:a k:a o:a o:b", "k l"}, // the first time in the order of keys
		{"", ""},
		{"n:a n:b", ""},
		{"l:b m:a", "m -l"},
		{"m:b m:a k:b k:a k:b", "m -k"},
		{"k:a k:b", ""},
		{"q:a m:b", "q -m"},
		{"m:a q:b r:a r:b s:a", "m s -q"},
		{"k:c m:a m:b s:b", "-m -s"},
	} {
		for x := range strings.FieldsSeq(step.events) {
			key, kind, _ := strings.Cut(x, ":")
			event(key, kind)
		}
		if got := changes(); got != step.want {
			t.Errorf("%d: %q, want %q", i, got, step.want)
		}
	}
	event("a", "a")
	changes()
	event("a", "b")
	event("b", "a")
	var stored []string
	m.StoredKeys(func(key string) { stored = append(stored, key) })
	if !slices.Equal(stored, []string{"a"}) {
		t.Errorf("stored: %q", stored)
	}
}

// TestUnder: a machine goes on under a program compiled anew, with other conditions and another memo, and not under another
// one; brakes that were set otherwise hold from then on.
func TestUnder(t *testing.T) {
	b := sequence(t, "a >>b")
	m := NewMachine(b.compile(t), nil)
	letters := stream("a a b b")
	for i, ev := range letters[:2] {
		m.Event([]byte{byte('k' + i)}, ev, all)
	}
	other := NewMachine(sequence(t, "a >>b >>c").compile(t), nil).Program()
	if err := m.Under(other, nil); !errors.Is(err, ErrSnapshot) || m.Program() == other {
		t.Errorf("under another program: %v", err)
	}
	asked := 0
	again := sequence(t, "a >>b")
	again.Limits.KeysMax = 1
	again.Elements[1].Where = &Pred{ID: 0, Text: "any", Unary: true, Test: func(*cep.Scope) (bool, error) { asked++; return true, nil }}
	p := again.compile(t)
	memo := NewMemo(1)
	if err := m.Under(p, memo); err != nil {
		t.Fatal(err)
	}
	m.Event([]byte("k"), letters[2], all)
	memo.Next()
	m.Event([]byte("l"), letters[3], all)
	if got, want := lines(p, m), "a=1 b=3 @3; a=2 b=4 @4"; got != want || asked != 2 {
		t.Errorf("%s, want %s; asked %d times", got, want, asked)
	}
	if m.Keys() != 0 || m.brake.keys != [brakeSlots]int{} {
		t.Errorf("%d keys", m.Keys())
	}
	if SlotsOf("r").Of([]byte("k")) != Slot("r", "k") {
		t.Error("two slots of one key")
	}
}

// recordFixtures are machines with something of everything that records hold, and what comes after.
var recordFixtures = []struct {
	name string
	make func(testing.TB) (m *Machine, rest func(*Machine) string)
}{
	{"sequence", func(t testing.TB) (*Machine, func(*Machine) string) { return withRest(fixture(t)) }},
	{"whole", func(t testing.TB) (*Machine, func(*Machine) string) { return withRest(wholeFixture(t)) }},
	{"led", func(t testing.TB) (*Machine, func(*Machine) string) { return withRest(ledFixture(t)) }},
	{"rows", func(t testing.TB) (*Machine, func(*Machine) string) {
		m, letters := rowFixture(t)
		return m, func(m *Machine) string { return rowFeed(m, letters, 8) }
	}},
}

func withRest(m *Machine, list []input) (*Machine, func(*Machine) string) {
	return m, func(m *Machine) string { return strings.Join(feed(m, list), "\n") }
}

// recordFile is the content of a fixture: the globals, and each key with its record. The numbered partitions are all of
// stream t, by number.
func recordFile(m *Machine, parts Partitions) []byte {
	b := cep.AppendText(nil, m.AppendGlobals(nil))
	m.Records(parts, func(key string, value []byte) { b = cep.AppendText(cep.AppendText(b, key), value) })
	return b
}

// TestRecordFixtures restores the records that every released version has written. A new version adds files; the old ones
// stay.
func TestRecordFixtures(t *testing.T) {
	for version := 1; version <= recordVersion; version++ {
		for _, f := range recordFixtures {
			name := filepath.Join("testdata", fmt.Sprintf("record-v%d-%s.bin", version, f.name))
			m, rest := f.make(t)
			if *update {
				if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
					if err := os.WriteFile(name, recordFile(m, newNumbers(interner())), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			parts := newNumbers(interner())
			m.Records(parts, func(string, []byte) {}) // numbers the partitions as they were
			in := cep.NewReader(data)
			r := NewRestorer(m.Program(), nil, parts)
			if err := r.Globals([]byte(in.Text())); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for in.Left() > 0 {
				if err := r.Key(in.Text(), []byte(in.Text())); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			back, err := r.Machine()
			if err != nil || in.Err() != nil {
				t.Fatalf("%s: %v, %v", name, err, in.Err())
			}
			if d := cmp.Diff(rest(m), rest(back)); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		}
	}
}

// TestRestorerRefuses: what does not belong together is refused, with a word for it.
func TestRestorerRefuses(t *testing.T) {
	m, _ := fixture(t)
	parts := newNumbers(interner())
	good := map[string][]byte{}
	m.Records(parts, func(key string, value []byte) { good[key] = bytes.Clone(value) })
	globals := m.AppendGlobals(nil)
	other := NewMachine(sequence(t, "a >>b").compile(t), nil)
	newer := bytes.Clone(globals)
	newer[len(globalsMagic)]++
	newerKey := bytes.Clone(good["k"])
	newerKey[0]++
	late := NewMachine(m.Program(), nil)
	late.Advance(cep.Time(seconds(1000)))
	for _, c := range []struct {
		name, want string
		do         func(*Restorer) error
	}{
		{"another program", "belongs to another program", func(r *Restorer) error { return r.Globals(other.AppendGlobals(nil)) }},
		{"newer globals", "version 2, this program reads up to 1", func(r *Restorer) error { return r.Globals(seal(newer)) }},
		{"damaged globals", "wrong checksum", func(r *Restorer) error {
			b := bytes.Clone(globals)
			b[len(b)/2] ^= 1
			return r.Globals(b)
		}},
		{"no globals", "globals of the machine are missing", func(*Restorer) error { return nil }},
		{"a newer record", "version 2, this program reads up to 1", func(r *Restorer) error { return r.Key("k", newerKey) }},
		{"no record", "no record", func(r *Restorer) error { return r.Key("k", nil) }},
		{"a key twice", "there twice", func(r *Restorer) error { return errors.Join(r.Key("k", good["k"]), r.Key("k", good["k"])) }},
		{"bytes behind", "behind the end", func(r *Restorer) error { return r.Key("k", append(bytes.Clone(good["k"]), 0)) }},
		{"cut off", "", func(r *Restorer) error { return r.Key("k", good["k"][:len(good["k"])-1]) }},
		{"a later watermark", "that is over", func(r *Restorer) error { return errors.Join(r.Key("k", good["k"]), r.Globals(late.AppendGlobals(nil))) }},
	} {
		r := NewRestorer(m.Program(), nil, parts)
		err := c.do(r)
		if err == nil {
			_, err = r.Machine()
		}
		if !errors.Is(err, ErrSnapshot) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if _, again := r.Machine(); again == nil {
			t.Errorf("%s: a machine is made after all", c.name)
		}
	}
	if _, err := MergeGlobals(globals, other.AppendGlobals(nil)); !errors.Is(err, ErrSnapshot) {
		t.Errorf("globals of two programs: %v", err)
	}
	if _, err := MergeGlobals(); !errors.Is(err, ErrSnapshot) {
		t.Errorf("no globals: %v", err)
	}
}

// FuzzRestoreKey: a record that nobody has written is refused, or gives a machine that holds its invariants, whose own
// records are a fixed point, and that goes on without harm.
func FuzzRestoreKey(f *testing.F) {
	var programs []*Program
	parts := newNumbers(interner())
	for which, x := range recordFixtures {
		m, _ := x.make(f)
		programs = append(programs, m.Program())
		m.Records(parts, func(_ string, value []byte) {
			f.Add(uint8(which), value, int64(m.now))
			f.Add(uint8(which), value, int64(cep.BeforeAll))
		})
	}
	restore := func(p *Program, keys map[string]string, globals []byte) (*Machine, error) {
		r := NewRestorer(p, nil, parts)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if err := r.Key(key, []byte(keys[key])); err != nil {
				return nil, err
			}
		}
		if err := r.Globals(globals); err != nil {
			return nil, err
		}
		return r.Machine()
	}
	list := func(m *Machine) map[string]string {
		keys := map[string]string{}
		m.Records(parts, func(key string, value []byte) { keys[key] = string(value) })
		return keys
	}
	f.Fuzz(func(t *testing.T, which uint8, value []byte, now int64) {
		p := programs[int(which)%len(programs)]
		globals := appendGlobals(nil, p.shape(), cep.Time(now), cep.BeforeAll, &Counters{Taken: make([]uint64, len(p.source.Names))})
		m, err := restore(p, map[string]string{"k": string(value)}, globals)
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
		first := list(m)
		again, err := restore(p, first, globals)
		if err != nil {
			t.Fatalf("its own record: %v", err)
		}
		if d := cmp.Diff(first, list(again)); d != "" {
			t.Fatalf("its record is no fixed point: %s", d)
		}
		m.Advance(cep.AfterAll - 1)
	})
}
