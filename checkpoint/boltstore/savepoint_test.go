package boltstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
	"github.com/cepd/cepd/checkpoint/storetest"
)

var ctx = context.Background()

func open(t testing.TB, dir string, o boltstore.Options) *boltstore.Store {
	t.Helper()
	s, err := boltstore.Open(ctx, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// history commits epochs of some records and messages each, with a rule file that changes at epoch 10.
func history(t testing.TB, s *boltstore.Store, from, to cep.Epoch) {
	t.Helper()
	for e := from; e <= to; e++ {
		text := fmt.Appendf(nil, "rules %d", e/10)
		b := checkpoint.Blob{Hash: checkpoint.BlobHash(text), Data: text}
		c := &checkpoint.Commit{
			Manifest: checkpoint.Manifest{
				Epoch: e, Job: "job", Created: time.Unix(int64(e), 0).UTC(),
				Rules: []checkpoint.RuleSet{{ID: "r", Files: []checkpoint.RuleFile{{Name: "r.yaml", Hash: b.Hash, Rules: true}}}},
				Sinks: []checkpoint.SinkPosition{{Name: "out", Sequence: uint64(e) * 3}},
			},
			Blobs:  []checkpoint.Blob{b},
			Forget: map[string]uint64{"out": uint64(e), "quiet": 1},
		}
		for i := range 40 {
			r := checkpoint.Record{Slot: uint8(i * 7), Key: fmt.Appendf(nil, "k%d", i%13), Value: fmt.Appendf(nil, "%d of %d", i, e)}
			if (uint64(e)+uint64(i))%5 == 0 {
				r.Value = nil
			}
			c.Records = append(c.Records, r)
		}
		for i := range 3 {
			c.Outbox = append(c.Outbox, checkpoint.Outgoing{Sink: "out", Sequence: uint64(e-1)*3 + uint64(i) + 1, Data: fmt.Appendf(nil, "m%d.%d", e, i)})
		}
		if e == 1 {
			c.Outbox = append(c.Outbox, checkpoint.Outgoing{Sink: "quiet", Sequence: 1, Data: []byte("once")})
		}
		if err := s.Commit(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
}

// contents are all records of an epoch.
func contents(t testing.TB, s checkpoint.Store, e cep.Epoch) map[string]string {
	t.Helper()
	got := map[string]string{}
	if _, err := s.Restore(ctx, e, func(r checkpoint.Record) error {
		got[fmt.Sprintf("%d/%s", r.Slot, r.Key)] = string(r.Value)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestExportImport(t *testing.T) {
	s := open(t, t.TempDir(), boltstore.Options{FoldMin: 10_000})
	storetest.Cleanup(t, s)
	history(t, s, 1, 25)
	if err := errors.Join(s.Maintain(ctx), s.Note(ctx, "sink/out", []byte("begun"))); err != nil {
		t.Fatal(err)
	}
	history(t, s, 26, 30)
	for _, e := range []cep.Epoch{30, 25, 11} {
		for _, savepoint := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d savepoint %v", e, savepoint), func(t *testing.T) {
				var file bytes.Buffer
				if err := s.Export(ctx, e, &file); err != nil {
					t.Fatal(err)
				}
				dir := filepath.Join(t.TempDir(), "new")
				m, err := boltstore.Import(ctx, dir, &file, boltstore.ImportOptions{Savepoint: savepoint})
				if err != nil || m.Epoch != e {
					t.Fatalf("manifest %v, %v", m, err)
				}
				if _, err := boltstore.Import(ctx, dir, &file, boltstore.ImportOptions{}); err == nil || !strings.Contains(err.Error(), "there are checkpoints already") {
					t.Errorf("an import over what is there: %v", err)
				}
				n := open(t, dir, boltstore.Options{})
				storetest.Cleanup(t, n)
				if want, got := contents(t, s, e), contents(t, n, e); len(want) == 0 || !maps.Equal(want, got) {
					t.Errorf("%d records instead of %d", len(got), len(want))
				}
				want, err := s.Outbox(ctx, "out", 0, 1000, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				want = slices.DeleteFunc(want, func(o checkpoint.Outgoing) bool { return o.Sequence > uint64(e)*3 })
				got, err := n.Outbox(ctx, "out", 0, 1000, 1<<20)
				if err != nil || fmt.Sprint(got) != fmt.Sprint(want) || e > 15 && len(got) == 0 {
					t.Errorf("outbox %v instead of %v: %v", got, want, err)
				}
				if v, err := n.Noted(ctx, "sink/out"); err != nil || string(v) != "begun" {
					t.Errorf("note %q, %v", v, err)
				}
				mark, err := n.Noted(ctx, checkpoint.NoteSavepoint)
				if err != nil || (string(mark) == fmt.Sprintf(`{"job":"job","epoch":%d}`, e)) != savepoint || !savepoint && mark != nil {
					t.Errorf("the note of a savepoint is %q, %v", mark, err)
				}
				if counts := n.Counts(); len(counts) != 2 || counts[0].Last != uint64(e)*3 || counts[1] != (boltstore.Count{Sink: "quiet", Last: 1, Forgotten: 1}) {
					t.Errorf("counts %v", counts)
				}
				// Life goes on from there.
				history(t, n, e+1, e+3)
				if err := n.Maintain(ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if err := s.Export(ctx, 31, &bytes.Buffer{}); !errors.Is(err, checkpoint.ErrMissing) {
		t.Errorf("an epoch that is not there: %v", err)
	}
}

// TestImportOfTheFirst imports the very first epoch. Nothing but its base tells it: where that is spoilt or was dropped there
// is no empty beginning to go back to.
func TestImportOfTheFirst(t *testing.T) {
	s := open(t, t.TempDir(), boltstore.Options{})
	storetest.Cleanup(t, s)
	history(t, s, 1, 1)
	want := contents(t, s, 1)
	var file bytes.Buffer
	if err := s.Export(ctx, 1, &file); err != nil {
		t.Fatal(err)
	}
	load := func(t *testing.T) string {
		dir := t.TempDir()
		if _, err := boltstore.Import(ctx, dir, bytes.NewReader(file.Bytes()), boltstore.ImportOptions{}); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	none := func(checkpoint.Record) error { return nil }

	for name, path := range map[string][]string{
		"its base":             {"bases", string(key(1)) + "\x00\x00\x00\x00"},
		"the record of a base": {"folds"},
	} {
		t.Run(name+" is spoilt", func(t *testing.T) {
			dir := load(t)
			if err := spoil(dir, path, func(_, v []byte) []byte { v[len(v)/2] ^= 0x40; return v }); err != nil {
				t.Fatal(err)
			}
			n := open(t, dir, boltstore.Options{})
			for range 2 { // the second time the store knows that it is damaged
				if _, err := n.Restore(ctx, 1, none); !errors.Is(err, checkpoint.ErrDamaged) {
					t.Errorf("restored with %v", err)
				}
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		})
	}

	t.Run("its base is dropped", func(t *testing.T) {
		dir, killed := load(t), filepath.Join(t.TempDir(), "killed")
		n := open(t, dir, boltstore.Options{FoldMin: 1, Keep: 1, Failpoint: func(point string) {
			if point == "store.drop.begun" {
				copyDir(t, dir, killed)
			}
		}})
		storetest.Cleanup(t, n)
		if got := contents(t, n, 1); !maps.Equal(got, want) {
			t.Fatalf("%d records instead of %d", len(got), len(want))
		}
		history(t, n, 2, 4)
		if err := n.Maintain(ctx); err != nil {
			t.Fatal(err)
		}
		k := open(t, killed, boltstore.Options{})
		storetest.Cleanup(t, k)
		for what, s := range map[string]*boltstore.Store{"the one that lived": n, "the one that was killed": k} {
			if infos, err := s.Epochs(ctx); err != nil || len(infos) != 1 || infos[0].Epoch != 4 || len(contents(t, s, 4)) == 0 {
				t.Errorf("%s holds %v, %v", what, infos, err)
			}
		}
	})
}

// TestImportOfDamage spoils each byte of a savepoint, and cuts it at each: nothing of it becomes a store.
func TestImportOfDamage(t *testing.T) {
	s := open(t, t.TempDir(), boltstore.Options{})
	storetest.Cleanup(t, s)
	if err := s.Commit(ctx, &checkpoint.Commit{
		Manifest: checkpoint.Manifest{Epoch: 1, Job: "j"},
		Records:  []checkpoint.Record{{Slot: 3, Key: []byte("k"), Value: []byte("v")}},
		Outbox:   []checkpoint.Outgoing{{Sink: "out", Sequence: 1, Data: []byte("m")}},
	}); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := s.Export(ctx, 1, &file); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	try := func(data []byte, what string, at int) {
		_, err := boltstore.Import(ctx, dir, bytes.NewReader(data), boltstore.ImportOptions{})
		if err == nil {
			t.Errorf("byte %d %s: it was imported", at, what)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Fatalf("byte %d %s: the import left %v, %v", at, what, left, err)
		}
	}
	for i := range file.Bytes() {
		data := bytes.Clone(file.Bytes())
		data[i] ^= 0x10
		try(data, "spoilt", i)
		if i%7 == 0 {
			try(file.Bytes()[:i], "cut off", i)
		}
	}
	try(append(bytes.Clone(file.Bytes()), 0), "appended", file.Len())
}
