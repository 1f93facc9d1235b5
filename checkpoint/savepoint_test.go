package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// heard writes down what a savepoint tells.
type heard struct{ strings.Builder }

func (h *heard) line(format string, args ...any) error {
	_, err := fmt.Fprintf(h, format+"\n", args...)
	return err
}

func (h *heard) Manifest(m *Manifest) error {
	return h.line("manifest %d %s", m.Epoch, m.Job)
}

func (h *heard) Blob(b Blob) error {
	if BlobHash(b.Data) != b.Hash {
		return errors.New("another hash")
	}
	return h.line("blob %q", b.Data)
}

func (h *heard) Sink(name string, last uint64) error {
	return h.line("sink %q %d", name, last)
}

func (h *heard) Note(name string, value []byte) error {
	return h.line("note %q %q", name, value)
}

func (h *heard) Outgoing(o Outgoing) error {
	return h.line("message %q %d %q", o.Sink, o.Sequence, o.Data)
}

func (h *heard) Record(r Record) error {
	return h.line("record %d %q %d", r.Slot, r.Key, len(r.Value))
}

func savepoint(t testing.TB, large int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewSavepointWriter(&b, &Manifest{Epoch: 9, Job: "j"})
	w.Blob(nil)
	w.Blob([]byte("rule"))
	w.Sink("out", 7)
	w.Note("n", []byte{})
	w.Outgoing(Outgoing{Sink: "out", Sequence: 7, Data: []byte("m")})
	w.Record(Record{Slot: 0, Key: nil, Value: []byte("v")})
	w.Record(Record{Slot: 0, Key: []byte("k"), Value: make([]byte, large)})
	w.Record(Record{Slot: 0, Key: []byte("l"), Value: nil})
	w.Record(Record{Slot: 255, Key: []byte("z"), Value: []byte{}})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSavepoint(t *testing.T) {
	for _, large := range []int{3, 2 * blockFull} {
		var h heard
		if err := ReadSavepoint(bytes.NewReader(savepoint(t, large)), &h); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`manifest 9 j
blob ""
blob "rule"
sink "out" 7
note "n" ""
message "out" 7 "m"
record 0 "" 1
record 0 "k" %d
record 0 "l" 0
record 255 "z" 0
`, large)
		if h.String() != want {
			t.Errorf("heard\n%s", h.String())
		}
	}
}

func TestSavepointRefused(t *testing.T) {
	whole := savepoint(t, 3)
	newer := bytes.Clone(whole)
	newer[len(savepointMagic)]++
	for what, c := range map[string]struct {
		data []byte
		is   error
		says string
	}{
		"empty":         {nil, nil, "it is no savepoint of cepd"},
		"another file":  {[]byte(strings.Repeat("x", 100)), nil, "it is no savepoint of cepd"},
		"newer":         {newer, ErrNewer, "version 2, known is 1"},
		"only the head": {whole[:15], ErrDamaged, "block 0 of the savepoint is damaged: the file is cut short"},
		"without end":   {whole[:len(whole)-10], ErrDamaged, "the file is cut short"},
		"more behind":   {append(bytes.Clone(whole), 1), ErrDamaged, "it has bytes behind its end"},
	} {
		err := ReadSavepoint(bytes.NewReader(c.data), &heard{})
		if err == nil || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Blocks in another order are refused, though each of them is whole.
	var b bytes.Buffer
	w := NewSavepointWriter(&b, &Manifest{Epoch: 1})
	w.Record(Record{Slot: 9, Key: []byte("k"), Value: []byte("v")})
	w.Record(Record{Slot: 8, Key: []byte("k"), Value: []byte("v")})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := ReadSavepoint(&b, &heard{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("slots that descend: %v", err)
	}
	why := errors.New("the disk")
	if err := ReadSavepoint(io.MultiReader(bytes.NewReader(whole[:40]), broken{why}), &heard{}); !errors.Is(err, why) {
		t.Errorf("a reader that fails: %v", err)
	}
	w = NewSavepointWriter(full{why}, &Manifest{Epoch: 1})
	w.Record(Record{Key: make([]byte, 1<<17)})
	if err := w.Close(); !errors.Is(err, why) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

type full struct{ err error }

func (f full) Write([]byte) (int, error) { return 0, f.err }

// FuzzReadSavepoint holds that no file makes the reader fault or ask for memory that the file does not have.
func FuzzReadSavepoint(f *testing.F) {
	whole := savepoint(f, 3)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(savepointMagic + "\x01m\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var h heard
		if err := ReadSavepoint(bytes.NewReader(data), &h); err == nil && !strings.HasPrefix(h.String(), "manifest ") {
			t.Errorf("read without a manifest: %s", h.String())
		}
	})
}
