package spectest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns/oracle"
)

// eventsDrawn bounds a drawn stream. A start of two `any` loops has up to 3^n assignments, and the oracle writes all.
const eventsDrawn = 9

// choicesDrawn is enough for a rule and its streams; where there are fewer choices the rest is the simplest there is.
const choicesDrawn = 1000

// inputsPerShape is how many streams each drawn rule sees: most rules find nothing in one stream.
const inputsPerShape = 12

// TestMachineIsOracle holds the machine against the oracle on rules and streams drawn at random: matches, their moments,
// timeouts, refused starts, and the open starts after every entry; also when it is restarted after every entry.
func TestMachineIsOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapidSource(t)
		s := drawShape(draw)
		for range inputsPerShape {
			if err := compareOn(s, drawInput(draw, eventsDrawn)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// seedsRun is what TestManyRules runs; CEPD_SEEDS=FROM,COUNT says otherwise.
const seedsRun = 4_000

// TestManyRules is TestMachineIsOracle with choices that are spread evenly: rapid prefers small ones, with which most
// rules are plain.
func TestManyRules(t *testing.T) {
	from, count := 0, seedsRun
	if raceEnabled {
		count /= 10
	}
	if text := os.Getenv("CEPD_SEEDS"); text != "" {
		if _, err := fmt.Sscanf(text, "%d,%d", &from, &count); err != nil {
			t.Fatalf("CEPD_SEEDS=%q: %v", text, err)
		}
	}
	run := func(data []byte) error {
		draw := bytesSource(data)
		return compareOn(drawShape(draw), drawInput(draw, eventsDrawn))
	}
	for seed := from; seed < from+count; seed++ {
		data := make([]byte, choicesDrawn)
		random := rand.New(rand.NewPCG(uint64(seed), 0))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		if run(data) != nil {
			t.Fatalf("seed %d, made smaller:\n%v", seed, run(smaller(data, run)))
		}
	}
	t.Logf("%d rules, each on one stream", count)
}

// smaller makes choices that fail fewer and simpler, as long as they fail.
func smaller(data []byte, run func([]byte) error) []byte {
	for size := len(data) / 2; size > 0; {
		shrunk := false
		for i := 0; i < len(data); i += size {
			end := min(i+size, len(data))
			without := slices.Concat(data[:i], data[end:])
			zero := slices.Clone(data)
			clear(zero[i:end])
			switch {
			case run(without) != nil:
				data, shrunk = without, true
			case !slices.Equal(zero, data) && run(zero) != nil:
				data, shrunk = zero, true
			}
		}
		if !shrunk {
			size /= 2
		}
	}
	return data
}

// TestKeysAreApart: what a rule finds in a key does not depend on the events of other keys.
func TestKeysAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapidSource(t)
		s := drawShape(draw)
		s.keyed = true
		for _, e := range s.leaves() {
			e.otherKey = false
		}
		for i := range s.without {
			s.without[i].otherKey = false
		}
		for range inputsPerShape {
			in := drawInput(draw, eventsDrawn+3)
			ofKey := map[string]int{} // more than eventsDrawn would take minutes here too
			in.Entries = slices.DeleteFunc(in.Entries, func(e oracle.Entry) bool {
				if e.Event == nil {
					return false
				}
				k := &e.Event.Values[slotK]
				if k.Kind() == cep.KindList {
					*k = cep.String("x")
				}
				ofKey[k.AsString()]++
				return ofKey[k.AsString()] > eventsDrawn
			})
			r, memo, err := s.build()
			if err != nil {
				t.Fatal(err)
			}
			together, err := Play(r, memo, in, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"x", "y"} {
				alone := oracle.Input{FirstTime: in.FirstTime}
				for _, e := range in.Entries {
					if e.Event == nil || e.Event.Values[slotK].AsString() == name {
						alone.Entries = append(alone.Entries, e)
					} else {
						alone.Entries = append(alone.Entries, oracle.Entry{Watermark: e.Event.Time - 1})
					}
				}
				got, err := Play(r, memo, alone, false)
				if err != nil {
					t.Fatal(err)
				}
				key, _ := cep.KeyOf(cep.String(name))
				of := func(out oracle.Output) string { // a key that counts as present matches without an event too
					var list []cep.Match
					for _, m := range out.Matches {
						if m.Key == key {
							list = append(list, m)
						}
					}
					return Digest(oracle.Output{Matches: list})
				}
				if a, b := of(got), of(together); a != b {
					t.Fatalf("%v on\n%s\nkey %s alone:\n%s\namong others:\n%s", s, inputString(in), name, a, b)
				}
			}
		}
	})
}

// FuzzMachineOracle is TestMachineIsOracle on the fuzzer's choices.
func FuzzMachineOracle(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a rule, and then what happens, are read from these bytes, a choice a byte, behind the end all zero"))
	for i := range 64 {
		seed := make([]byte, 160)
		for j := range seed {
			seed[j] = byte((i + 1) * (j + 3) * 37 >> 2)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		draw := bytesSource(data)
		s := drawShape(draw)
		if err := compareOn(s, drawInput(draw, eventsDrawn)); err != nil {
			t.Fatal(err)
		}
	})
}

// rapidSource draws all choices at once: rapid makes the bytes fewer and smaller where a case fails.
func rapidSource(t *rapid.T) source {
	return bytesSource(rapid.SliceOfN(rapid.Byte(), 0, choicesDrawn).Draw(t, "choices"))
}

// compareOn runs oracle, machine and restarted machine.
func compareOn(s *shape, in oracle.Input) error {
	r, memo, err := s.build()
	if err != nil {
		return fmt.Errorf("%v: %w", s, err)
	}
	want := oracle.Run(r, in)
	for _, restart := range []bool{false, true} {
		got, err := Play(r, memo, in, restart)
		if err != nil {
			return fmt.Errorf("%v on\n%s: %w", s, inputString(in), err)
		}
		if a, b := Digest(got), Digest(want); a != b {
			return fmt.Errorf("%v on\n%s\nmachine (restart %v):\n%s\noracle:\n%s\n%v", s, inputString(in), restart, a, b, r.Program)
		}
		if !s.remembers() && fmt.Sprint(got.Keys) != fmt.Sprint(want.Keys) {
			return fmt.Errorf("%v on\n%s\nkeys held: machine (restart %v) %v, with an open start %v (S9)", s, inputString(in), restart, got.Keys, want.Keys)
		}
	}
	return nil
}

// remembers says that a key may hold something without an open start (S9): prev, and times for an absence at the start,
// for first_seen and for hold.
func (s *shape) remembers() bool {
	spots := s.spots()
	for _, e := range append(s.leaves(), pointers(s.without)...) {
		if spots[e]&atStart != 0 || e.condition == afterSame || e.condition == afterLess || e.seen.word || e.hold {
			return true
		}
	}
	return false
}

func pointers(elements []shapeElement) []*shapeElement {
	all := make([]*shapeElement, len(elements))
	for i := range elements {
		all[i] = &elements[i]
	}
	return all
}

// inputString writes what happens, an entry a line.
func inputString(in oracle.Input) string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "first time %v\n", in.FirstTime)
	for i, e := range in.Entries {
		if e.Event == nil {
			fmt.Fprintf(&sb, "%d: advance %ds\n", i, e.Watermark/cep.Second)
			continue
		}
		v := e.Event.Values
		fmt.Fprintf(&sb, "%d: event %d at %ds %s l=%v n=%v k=%v j=%v\n", i, e.Event.Seq, e.Event.Time/cep.Second,
			e.Event.Position.Partition.Stream, v[slotL], v[slotN], v[slotK], v[slotJ])
	}
	return sb.String()
}
