package boltstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
	"github.com/cepd/cepd/checkpoint/storetest"
)

// sample makes a store of some bases and epochs and closes it. It returns the file and what each epoch holds.
func sample(t testing.TB) (file []byte, epochs map[cep.Epoch]map[string]string) {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, boltstore.Options{FoldMin: 8_000})
	for e := cep.Epoch(1); e <= 24; e += 4 {
		history(t, s, e, e+3)
		if err := s.Maintain(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Note(ctx, "sink/out", []byte("begun")); err != nil {
		t.Fatal(err)
	}
	infos, err := s.Epochs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	epochs = map[cep.Epoch]map[string]string{}
	bases := 0
	for _, i := range infos {
		epochs[i.Epoch] = contents(t, s, i.Epoch)
		if i.Base {
			bases++
		}
	}
	if bases < 3 {
		t.Fatalf("only %d bases: %v", bases, infos)
	}
	size, _ := s.Size()
	if err := errors.Join(s.Check(ctx), s.Close()); err != nil {
		t.Fatal(err)
	}
	file, err = os.ReadFile(filepath.Join(dir, boltstore.FileName))
	if err != nil {
		t.Fatal(err)
	}
	return file[:size], epochs // behind it the file is empty: it grows by 16 MiB at a time
}

// survives opens a file, and holds that all it gives is what was written, and that a check says so where it is not all.
// It reports what became of it: "refused", "sound", or "partly".
func survives(t testing.TB, dir string, file []byte, epochs map[cep.Epoch]map[string]string) (fate string, err error) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, boltstore.FileName), file, 0o600); err != nil {
		return "", err
	}
	s, err := boltstore.Open(ctx, dir, boltstore.Options{})
	if err != nil {
		if !strings.Contains(err.Error(), dir) {
			return "", fmt.Errorf("the error does not name the file: %w", err)
		}
		return "refused", nil
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	lost := 0
	for e, want := range epochs {
		got := map[string]string{}
		m, err := s.Restore(ctx, e, func(r checkpoint.Record) error {
			got[fmt.Sprintf("%d/%s", r.Slot, r.Key)] = string(r.Value)
			return nil
		})
		switch {
		case errors.Is(err, checkpoint.ErrDamaged), errors.Is(err, checkpoint.ErrMissing), errors.Is(err, checkpoint.ErrUnusable):
			lost++
			if len(got) > 0 {
				return "", fmt.Errorf("epoch %d is damaged, and %d records of it were handed out", e, len(got))
			}
		case err != nil:
			return "", err
		case m.Epoch != e || !maps.Equal(got, want):
			return "", fmt.Errorf("epoch %d was restored as %d with %d records instead of %d", e, m.Epoch, len(got), len(want))
		}
	}
	for n := uint64(1); n < 100; {
		l, err := s.Outbox(ctx, "out", n, 100, 1<<20)
		if err != nil || len(l) == 0 {
			break
		}
		for _, o := range l {
			if want := fmt.Sprintf("m%d.%d", (o.Sequence-1)/3+1, (o.Sequence-1)%3); string(o.Data) != want {
				return "", fmt.Errorf("message %d is %q", o.Sequence, o.Data)
			}
			n = o.Sequence + 1
		}
	}
	if v, err := s.Noted(ctx, "sink/out"); err == nil && v != nil && string(v) != "begun" {
		return "", fmt.Errorf("the note is %q", v)
	}
	if lost == 0 {
		return "sound", nil
	}
	if err := s.Check(ctx); err == nil {
		return "", fmt.Errorf("%d epochs are lost, and a check finds nothing", lost)
	}
	return "partly", nil
}

// scratch is a directory for many small files, in memory where there is such a disk.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "cepd-boltstore-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestDamagedFiles spoils a file in many ways: whatever is read of it is what was written, and nothing ends the process.
func TestDamagedFiles(t *testing.T) {
	file, epochs := sample(t)
	dir := scratch(t)
	fates := map[string]int{}
	try := func(what string, data []byte) {
		t.Helper()
		fate, err := survives(t, dir, data, epochs)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		fates[fate]++
	}
	try("as it is", file)
	if fates["sound"] != 1 {
		t.Fatal("a file that nobody has spoilt is refused")
	}
	used := len(file) / 4096
	// Cut off: behind each page, and in the middle of some.
	for page := range used {
		try(fmt.Sprintf("cut off at page %d", page), file[:page*4096])
		if page%8 == 0 {
			try(fmt.Sprintf("cut off in page %d", page), file[:page*4096+1234])
		}
	}
	// A page is empty, or another one, or garbage.
	rng := rand.New(rand.NewPCG(1, 2))
	for page := range used {
		data := bytes.Clone(file)
		clear(data[page*4096:][:4096])
		try(fmt.Sprintf("page %d is empty", page), data)
		copy(data[page*4096:][:4096], file[rng.IntN(used)*4096:])
		try(fmt.Sprintf("page %d is another one", page), data)
		if page%2 == 0 {
			for i := range 4096 {
				data[page*4096+i] = byte(rng.Uint32())
			}
			try(fmt.Sprintf("page %d is garbage", page), data)
		}
	}
	// Each byte of the heads of pages, and bits anywhere.
	for page := range used {
		data := bytes.Clone(file)
		at := page*4096 + rng.IntN(80)
		data[at] ^= byte(1 + rng.IntN(255))
		try(fmt.Sprintf("byte %d is spoilt", at), data)
	}
	for range 400 {
		data := bytes.Clone(file)
		at := rng.IntN(used * 4096)
		data[at] ^= 1 << rng.IntN(8)
		try(fmt.Sprintf("a bit of byte %d is spoilt", at), data)
	}
	try("empty", nil)
	try("garbage", bytes.Repeat([]byte("no file of this kind. "), 5000))
	t.Logf("%d pages: %v", used, fates)
	if fates["refused"] < used || fates["partly"] < 30 || fates["sound"] < 100 {
		t.Errorf("the spoilt files do not show all fates: %v", fates)
	}
}

// TestDamageSetsAsideOnlyWhatNeedsIt spoils a base, and then what the bases below need too.
func TestDamageSetsAsideOnlyWhatNeedsIt(t *testing.T) {
	file, epochs := sample(t)
	dir := t.TempDir()
	write := func() {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, boltstore.FileName), file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bases := func() (l []cep.Epoch) {
		s := open(t, dir, boltstore.Options{ReadOnly: true})
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		infos, err := s.Epochs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range infos {
			if i.Base {
				l = append(l, i.Epoch)
			}
		}
		return l
	}
	flip := func(_, v []byte) []byte {
		v[len(v)-1] ^= 1 // the end of the last run
		return v
	}
	write()
	all := bases()
	newest := all[len(all)-1]
	step := string(key(newest)) + "\x00\x00\x00\x00"
	if err := spoil(dir, []string{"bases", step}, flip); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, boltstore.Options{FoldMin: 8_000})
	for e, want := range epochs {
		if got := contents(t, s, e); !maps.Equal(got, want) {
			t.Errorf("epoch %d: %d records instead of %d", e, len(got), len(want))
		}
	}
	if err := s.Check(ctx); !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), fmt.Sprintf("the base of epoch %d is damaged", newest)) {
		t.Errorf("check: %v", err)
	}
	// The next base is told by the one before, and the damaged one goes when its time has come. Nothing is lost.
	last := cep.Epoch(24)
	for range 20 {
		history(t, s, last+1, last+1)
		last++
		if err := s.Maintain(ctx); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Cleanup(t, s)

	// Both: the newest base, and a change that all others need.
	dir = t.TempDir()
	write()
	if err := errors.Join(spoil(dir, []string{"bases", step}, flip), spoil(dir, []string{"epochs", string(key(newest))}, func(k, v []byte) []byte {
		if len(k) != 4 {
			return nil
		}
		v[16] ^= 1 // the checksum of the head: nothing in it is known
		return v
	})); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, boltstore.Options{})
	for e := range epochs {
		_, err := s.Restore(ctx, e, func(checkpoint.Record) error { return nil })
		if (err != nil) != (e >= newest) || err != nil && !errors.Is(err, checkpoint.ErrDamaged) {
			t.Errorf("epoch %d above base %d: %v", e, newest, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestLastChangeDamaged loses a page of the last transaction, as a disk does that lies about a sync: the store goes back to
// the transaction before, and says so.
func TestLastChangeDamaged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, boltstore.Options{})
	history(t, s, 1, 4)
	before, err := os.ReadFile(filepath.Join(dir, boltstore.FileName))
	if err != nil {
		t.Fatal(err)
	}
	history(t, s, 5, 5)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(filepath.Join(dir, boltstore.FileName))
	if err != nil {
		t.Fatal(err)
	}
	// The pages that the last commit wrote are lost, but for the first two.
	lost := bytes.Clone(after)
	copy(lost[2*4096:], before[2*4096:])
	if bytes.Equal(lost, after) || bytes.Equal(lost, before) {
		t.Fatal("nothing is lost")
	}
	if err := os.WriteFile(filepath.Join(dir, boltstore.FileName), lost, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := boltstore.Open(ctx, dir, boltstore.Options{ReadOnly: true}); !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), "its last change is damaged") {
		t.Errorf("for reading: %v", err)
	}
	s = open(t, dir, boltstore.Options{})
	infos, err := s.Epochs(ctx)
	if err != nil || len(infos) != 5 || infos[4].Epoch != 5 || infos[4].Damage == "" || infos[3].Damage != "" {
		t.Errorf("epochs: %v, %v", infos, err)
	}
	if _, err := s.Restore(ctx, 5, nil); !errors.Is(err, checkpoint.ErrMissing) {
		t.Errorf("the epoch that is lost: %v", err)
	}
	if err := s.Rewind(ctx, 4); err != nil {
		t.Fatal(err)
	}
	history(t, s, 5, 6)
	storetest.Cleanup(t, s)
}
