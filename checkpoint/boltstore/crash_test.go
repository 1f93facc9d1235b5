package boltstore_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
)

// TestCrashAtFailpoints copies the directory of a store whenever it passes a failpoint, which is what a process leaves that is
// killed there, and opens each copy: every epoch that had been acknowledged is there, and at most the next one besides, and
// life goes on. Every point must have been passed.
func TestCrashAtFailpoints(t *testing.T) {
	root, passed, copies := scratch(t), map[string]int{}, 0
	dir := filepath.Join(root, "store")
	var s *boltstore.Store
	var acknowledged cep.Epoch
	expect := map[cep.Epoch]map[string]string{}
	// lowest is the epoch that a rewind leads to: while it runs each one above may be the newest.
	var lowest cep.Epoch
	crash := func(point string) {
		passed[point]++
		if passed[point] > 4 && passed[point]%20 != 0 {
			return // the first ones, and some of the many later
		}
		copies++
		next := filepath.Join(root, "crashed")
		copyDir(t, dir, next)
		n, err := boltstore.Open(ctx, next, boltstore.Options{FoldMin: 8_000})
		if err != nil {
			t.Fatalf("%s: %v", point, err)
		}
		if err := n.Check(ctx); err != nil {
			t.Errorf("%s: %v", point, err)
		}
		infos, err := n.Epochs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		newest := cep.Epoch(0)
		if len(infos) > 0 {
			newest = infos[len(infos)-1].Epoch
		}
		if newest < acknowledged && (lowest == 0 || newest < lowest) || newest > acknowledged+1 {
			t.Errorf("%s: epoch %d is the newest behind %d", point, newest, acknowledged)
		}
		for _, i := range infos {
			if want, ok := expect[i.Epoch]; ok && !maps.Equal(want, contents(t, n, i.Epoch)) {
				t.Errorf("%s: epoch %d is another one", point, i.Epoch)
			}
		}
		for e := newest + 1; e <= newest+2; e++ {
			if err := n.Commit(ctx, plain(e)); err != nil {
				t.Errorf("%s: %v", point, err)
			}
			if err := n.Maintain(ctx); err != nil {
				t.Errorf("%s: maintain: %v", point, err)
			}
		}
		if err := n.Check(ctx); err != nil {
			t.Errorf("%s, and later: %v", point, err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if left, err := filepath.Glob(filepath.Join(next, "*.*-*")); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", point, left, err)
		}
		if err := os.RemoveAll(next); err != nil {
			t.Fatal(err)
		}
	}
	o := boltstore.Options{FoldMin: 8_000, Failpoint: func(point string) { crash(point) }}
	s = open(t, dir, o)
	live := func(from, to cep.Epoch) {
		for e := from; e <= to; e++ {
			history(t, s, e, e)
			acknowledged = e
			expect[e] = contents(t, s, e)
			if e%3 == 0 {
				if err := s.Maintain(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	live(1, 40)
	if err := s.Note(ctx, "n", []byte("v")); err != nil {
		t.Fatal(err)
	}
	// A state that takes a base of several steps.
	large := &checkpoint.Commit{Manifest: checkpoint.Manifest{Epoch: 41, Job: "job"}}
	for i := range 200 {
		large.Records = append(large.Records, checkpoint.Record{Slot: uint8(i), Key: []byte("large"), Value: bytes.Repeat([]byte{byte(i)}, 20_000)})
	}
	if err := s.Commit(ctx, large); err != nil {
		t.Fatal(err)
	}
	acknowledged = 41
	expect[41] = contents(t, s, 41)
	if err := s.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	// More than one step of a rewind: 64 epochs.
	o.FoldMin = 1 << 30
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, o)
	for e := cep.Epoch(42); e <= 200; e++ {
		if err := s.Commit(ctx, plain(e)); err != nil {
			t.Fatal(err)
		}
		acknowledged = e
	}
	lowest = 60
	if err := s.Rewind(ctx, lowest); err != nil {
		t.Fatal(err)
	}
	acknowledged, lowest = 60, 0
	if _, _, err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := s.Export(ctx, 60, &file); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// A crash inside an import leaves no store, and does not keep the next import from making one.
	imported := filepath.Join(root, "imported")
	_, err := boltstore.Import(ctx, imported, bytes.NewReader(file.Bytes()), boltstore.ImportOptions{Failpoint: func(point string) {
		passed[point]++
		next := filepath.Join(root, "crashed")
		copyDir(t, imported, next)
		if _, err := boltstore.Open(ctx, next, boltstore.Options{ReadOnly: true}); err == nil {
			t.Error("a crash inside of an import left a store")
		}
		if _, err := boltstore.Import(ctx, next, bytes.NewReader(file.Bytes()), boltstore.ImportOptions{}); err != nil {
			t.Errorf("the next import: %v", err)
		}
		n := open(t, next, boltstore.Options{})
		if got := contents(t, n, 60); len(got) == 0 {
			t.Error("the next import is empty")
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, point := range boltstore.Failpoints {
		if passed[point] == 0 {
			t.Errorf("%s was never passed", point)
		}
	}
	for point := range passed {
		if !slices.Contains(boltstore.Failpoints, point) {
			t.Errorf("%s is not in the list", point)
		}
	}
	t.Logf("%d copies: %v", copies, passed)
}

// plain returns an epoch with one record.
func plain(e cep.Epoch) *checkpoint.Commit {
	return &checkpoint.Commit{
		Manifest: checkpoint.Manifest{Epoch: e, Job: "job"},
		Records:  []checkpoint.Record{{Slot: 77, Key: []byte("plain"), Value: []byte{byte(e)}}},
	}
}

// copyDir copies files as a crash leaves them. Holes stay holes: files grow by 16 MiB at a time.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		data, err := os.ReadFile(filepath.Join(from, n.Name()))
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(to, n.Name()))
		if err != nil {
			t.Fatal(err)
		}
		const page = 4096
		for at := 0; at < len(data); at += page {
			piece := data[at:min(at+page, len(data))]
			if !bytes.Equal(piece, make([]byte, len(piece))) {
				if _, err := f.WriteAt(piece, int64(at)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := f.Truncate(int64(len(data))); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
