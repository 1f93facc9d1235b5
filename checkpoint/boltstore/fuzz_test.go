package boltstore

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/cepd/cepd/checkpoint"
)

// FuzzSegment holds that no bytes make the reader of segments fault, and that what it takes for sound says the same when it is
// packed again.
func FuzzSegment(f *testing.F) {
	place := []byte("epochs/1")
	for _, records := range [][]checkpoint.Record{
		nil,
		{{Slot: 3, Key: []byte("k"), Value: []byte("v")}},
		{{Slot: 255, Key: nil, Value: []byte{}}, {Slot: 0, Key: []byte("gone")}, {Slot: 0, Key: []byte("k"), Value: bytes.Repeat([]byte{1}, 300)}},
	} {
		err := packRecords(records).seal(place, func(_ uint32, segment []byte) error {
			f.Add(bytes.Clone(segment))
			return nil
		})
		if err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, why := readSegment(place, data)
		if why != "" {
			return
		}
		p := &packer{}
		for i := range s.runs {
			r := &s.runs[i]
			if !r.sound() || !r.each(func(key, value []byte) { p.add(r.slot, key, value) }) {
				return
			}
		}
		n := 0
		if err := p.seal(place, func(_ uint32, segment []byte) error {
			n++
			if again, why := readSegment(place, segment); why != "" || len(again.runs) > len(s.runs) {
				t.Errorf("packed again it is refused: %s", why)
			}
			return nil
		}); err != nil || n == 0 {
			t.Errorf("packed again: %d segments, %v", n, err)
		}
	})
}

// FuzzStored holds that no stored value makes its reader fault, and that what a reader takes is written as the same bytes.
func FuzzStored(f *testing.F) {
	e := entry{digest: 1, rules: 2, parts: 3, records: 4, bytes: 5, marks: []mark{{"out", 6, 7, 8}}, manifest: []byte(`{}`)}
	f.Add(e.append(nil))
	f.Add((&fold{complete: true, next: checkpoint.Slots, steps: 2, records: 3, bytes: 4}).append(nil))
	f.Add((&tally{last: 9, total: 100, forgotten: 3, forgottenTotal: 20}).append(nil))
	f.Add(appendLetter(nil, 7, []byte("message")))
	f.Fuzz(func(t *testing.T, body []byte) {
		same := func(what string, again []byte) {
			t.Helper()
			// A number may have been written longer than it need be.
			if len(again) > len(body) || len(again) == len(body) && !bytes.Equal(again, body) {
				t.Errorf("%s %x is written as %x", what, body, again)
			}
		}
		if e, ok := readEntry(body); ok {
			same("an entry", e.append(nil))
		}
		if x, ok := readFold(body); ok {
			same("a fold", x.append(nil))
		}
		if x, ok := readTally(body); ok {
			same("a tally", x.append(nil))
		}
		if total, data, ok := readLetter(body); ok {
			same("a letter", appendLetter(nil, total, data))
		}
		sealed := seal(kindLetter, []byte("place"), body)
		if got, err := unseal(kindLetter, []byte("place"), sealed, "it"); err != nil || !bytes.Equal(got, body) {
			t.Errorf("unsealed: %x, %v", got, err)
		}
		for _, other := range []struct {
			kind  byte
			place string
		}{{kindNote, "place"}, {kindLetter, "elsewhere"}} {
			if _, err := unseal(other.kind, []byte(other.place), sealed, "it"); err == nil {
				t.Errorf("a letter passes as %c at %s", other.kind, other.place)
			}
		}
		if _, err := unseal(kindLetter, nil, body, "it"); err == nil && len(body) < sealSize {
			t.Error("what is too short passes")
		}
	})
}

// FuzzPages spoils a file at one place: the walk says that it is no good, or bbolt can open it and read all of it.
func FuzzPages(f *testing.F) {
	file, err := os.ReadFile(filepath.Join("testdata", "v1.db"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), []byte{1})
	f.Add(uint32(4096*2+8), []byte{2, 0, 0xff, 0xff})
	f.Add(uint32(4096*3+12), []byte{0xff, 0xff, 0xff, 0x7f})
	f.Add(uint32(len(file)/2), bytes.Repeat([]byte{0xee}, 5000))
	f.Fuzz(func(t *testing.T, at uint32, with []byte) {
		data := bytes.Clone(file)
		copy(data[int(at)%len(data):], with)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, FileName), data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), dir, Options{})
		if err != nil {
			return
		}
		for _, i := range s.snapshot().epochs {
			_, _ = s.Restore(t.Context(), i.epoch, func(checkpoint.Record) error { return nil }) // it must come back
		}
		_ = s.Check(t.Context())
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
