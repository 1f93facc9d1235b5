package boltstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
	"github.com/cepd/cepd/checkpoint/storetest"
)

// TestSecondOwner is told who the first one is, whether it wants to write or to read; readers bear each other.
func TestSecondOwner(t *testing.T) { synctest.Test(t, secondOwner) } // so that waiting for a lock takes no time

func secondOwner(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, boltstore.Options{})
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("in use by process %d on %s since ", os.Getpid(), host)
	for _, o := range []boltstore.Options{{}, {ReadOnly: true}} {
		if _, err := boltstore.Open(ctx, dir, o); !errors.Is(err, checkpoint.ErrLocked) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("what is left: %v, %v", left, err)
	}
	one, two := open(t, dir, boltstore.Options{ReadOnly: true}), open(t, dir, boltstore.Options{ReadOnly: true})
	if _, err := boltstore.Open(ctx, dir, boltstore.Options{}); !errors.Is(err, checkpoint.ErrLocked) || !strings.Contains(err.Error(), "another process, perhaps") {
		t.Errorf("beside readers: %v", err)
	}
	if err := errors.Join(one.Close(), two.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestReadOnly changes nothing, not even where there is nothing.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	if _, err := boltstore.Open(ctx, filepath.Join(dir, "nowhere"), boltstore.Options{ReadOnly: true}); !errors.Is(err, checkpoint.ErrMissing) {
		t.Errorf("nowhere: %v", err)
	}
	s := open(t, dir, boltstore.Options{})
	history(t, s, 1, 5)
	before, err := snapshot(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, boltstore.Options{ReadOnly: true})
	if got := contents(t, s, 5); len(got) == 0 {
		t.Error("nothing was read")
	}
	if size, free := s.Size(); size != int64(len(before)) || free <= 0 || free >= size {
		t.Errorf("%d of %d bytes are free", free, size)
	}
	_, _, compact := s.Compact(ctx)
	for what, err := range map[string]error{
		"commit": s.Commit(ctx, plain(6)), "note": s.Note(ctx, "n", nil), "rewind": s.Rewind(ctx, 1), "maintain": s.Maintain(ctx), "compact": compact,
	} {
		if err == nil || !strings.Contains(err.Error(), "opened for reading") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := errors.Join(s.Check(ctx), s.Close()); err != nil {
		t.Error(err)
	}
	after, err := os.ReadFile(filepath.Join(dir, boltstore.FileName))
	if err != nil || !bytes.Equal(before, after[:len(before)]) {
		t.Errorf("the file has changed: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("what is left: %v, %v", left, err)
	}
}

// TestCompaction fills a store, empties it, and holds that a start gives the room back, by itself and with everything in it.
func TestCompaction(t *testing.T) {
	dir := scratch(t)
	var log bytes.Buffer
	o := boltstore.Options{FoldMin: 1 << 20, Keep: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	s := open(t, dir, o)
	e := cep.Epoch(0)
	commit := func(size int) {
		t.Helper()
		e++
		c := plain(e)
		for i := range 100 {
			c.Records = append(c.Records, checkpoint.Record{Slot: uint8(i), Key: []byte("k"), Value: bytes.Repeat([]byte{byte(e)}, size)})
		}
		c.Outbox = []checkpoint.Outgoing{{Sink: "out", Sequence: uint64(e), Data: []byte("m")}}
		if err := s.Commit(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		commit(400 << 10)
	}
	for range 12 {
		commit(50 << 10)
		if err := s.Maintain(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if size, free := s.Size(); size < 100<<20 || free < size/2 {
		t.Fatalf("%d of %d bytes are free", free, size)
	}
	want := contents(t, s, e)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, o)
	size, _ := s.Size()
	if size > 50<<20 || !strings.Contains(log.String(), "compacted the checkpoints") {
		t.Errorf("%d bytes behind the start, log:\n%s", size, log.String())
	}
	got := contents(t, s, e)
	for k, v := range want {
		if got[k] != v {
			t.Fatalf("%s differs", k)
		}
	}
	if n, _ := s.OutboxSize("out"); n != int(e) {
		t.Errorf("%d messages", n)
	}
	// The owner is still the owner of the new file.
	if _, err := boltstore.Open(ctx, dir, boltstore.Options{}); !errors.Is(err, checkpoint.ErrLocked) {
		t.Errorf("a second owner: %v", err)
	}
	commit(10)
	storetest.Cleanup(t, s)
}

// TestMaintainGivesUp ends a fold in the middle, and the next call goes on with it.
func TestMaintainGivesUp(t *testing.T) {
	steps := 0
	ended, cancel := context.WithCancel(ctx)
	s := open(t, t.TempDir(), boltstore.Options{FoldMin: 1000, Failpoint: func(point string) {
		if point == "store.fold.step" {
			if steps++; steps == 2 {
				cancel()
			}
		}
	}})
	storetest.Cleanup(t, s)
	c := plain(1)
	for i := range 200 {
		c.Records = append(c.Records, checkpoint.Record{Slot: uint8(i), Key: []byte("k"), Value: make([]byte, 30_000)})
	}
	if err := s.Commit(ctx, c); err != nil {
		t.Fatal(err)
	}
	if err := s.Maintain(ended); !errors.Is(err, context.Canceled) || steps != 2 {
		t.Fatalf("behind %d steps: %v", steps, err)
	}
	// More epochs come before the fold goes on; the base is of the one that it was begun for.
	for e := cep.Epoch(2); e < 5; e++ {
		if err := s.Commit(ctx, plain(e)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	if steps < 5 || steps > 8 {
		t.Errorf("the fold took %d steps in all", steps)
	}
	if got := contents(t, s, 4); len(got) != 201 || got["77/plain"] != "\x04" {
		t.Errorf("%d records", len(got))
	}
}

// TestFirstBase writes a base of the very first epoch, and keeps no more than it and none: each epoch that is listed is there.
func TestFirstBase(t *testing.T) {
	for keep := 1; keep <= 3; keep++ {
		t.Run(fmt.Sprintf("keep %d", keep), func(t *testing.T) {
			dir, o := t.TempDir(), boltstore.Options{FoldMin: 1, Keep: keep}
			for e := cep.Epoch(1); e <= 6; e++ {
				s := open(t, dir, o)
				if err := s.Commit(ctx, plain(e)); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(s.Fold(ctx), s.Check(ctx)); err != nil {
					t.Errorf("with %d epochs: %v", e, err)
				}
				bases := 0
				for range 2 {
					infos, err := s.Epochs(ctx)
					if err != nil || len(infos) == 0 || infos[len(infos)-1].Epoch != e {
						t.Fatalf("with %d epochs: %v, %v", e, infos, err)
					}
					bases = 0
					for _, i := range infos {
						if got := contents(t, s, i.Epoch); got["77/plain"] != string([]byte{byte(i.Epoch)}) {
							t.Errorf("epoch %d of %d holds %q", i.Epoch, e, got)
						}
						if i.Base {
							bases++
						}
					}
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					s = open(t, dir, o)
				}
				if bases != min(int(e), keep) {
					t.Errorf("with %d epochs: %d bases are kept", e, bases)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
