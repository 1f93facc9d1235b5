//go:build unix

package boltstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
)

// room is how large a file may become in the child that runs out of it: some megabytes above the 16 MiB that a store takes at
// once.
const room = 24 << 20

// TestDiskFull runs a child that may write no file above a limit, so that bbolt's writes fail in the middle of a commit as on
// a full disk: the commit says why, nothing of it is there, all that was there is; with room again the same commit succeeds.
func TestDiskFull(t *testing.T) {
	if dir := os.Getenv("CEPD_TEST_FULL"); dir != "" {
		fillLimit(t, dir)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestDiskFull$", "-test.v")
	child.Env = append(os.Environ(), "CEPD_TEST_FULL="+t.TempDir())
	out, err := child.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("PASS: TestDiskFull")) {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "full_test.go") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

func fillLimit(t *testing.T, dir string) {
	limit := func(change func(*syscall.Rlimit)) {
		t.Helper()
		var l syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
		change(&l)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	exhaust(t, dir, syscall.EFBIG,
		func() { limit(func(l *syscall.Rlimit) { l.Cur = room }) },
		func() { limit(func(l *syscall.Rlimit) { l.Cur = 1 << 40 }) })
}

// TestTmpfsFull does the same on a small disk in memory, where the file can grow and its pages cannot be had.
func TestTmpfsFull(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no right to mount a small disk (%v: %s): run as root, with CAP_SYS_ADMIN", err, bytes.TrimSpace(out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	exhaust(t, filepath.Join(dir, "state"), syscall.ENOSPC, func() {
		if err := os.WriteFile(ballast, make([]byte, 8<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}, func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	})
}

// exhaust commits until there is no room, tries again some times, and goes on when there is.
func exhaust(t *testing.T, dir string, want syscall.Errno, full, free func()) {
	t.Helper()
	s := open(t, dir, boltstore.Options{})
	big := func(e cep.Epoch) *checkpoint.Commit {
		c := &checkpoint.Commit{Manifest: checkpoint.Manifest{Epoch: e, Job: "j"}}
		for i := range 8 {
			c.Records = append(c.Records, checkpoint.Record{Slot: uint8(i), Key: fmt.Appendf(nil, "%d", e), Value: bytes.Repeat([]byte{byte(e)}, 64<<10)})
		}
		c.Outbox = []checkpoint.Outgoing{{Sink: "out", Sequence: uint64(e), Data: []byte("m")}}
		return c
	}
	if err := s.Commit(ctx, big(1)); err != nil {
		t.Fatal(err)
	}
	full()
	e := cep.Epoch(2)
	var err error
	for ; e < 200; e++ {
		if err = s.Commit(ctx, big(e)); err != nil {
			break
		}
	}
	t.Logf("epoch %d: %v", e, err)
	if !errors.Is(err, want) || errors.Is(err, checkpoint.ErrUnusable) {
		t.Fatalf("epoch %d on a full disk: %v", e, err)
	}
	for range 3 {
		if err := s.Commit(ctx, big(e)); !errors.Is(err, want) {
			t.Fatalf("once more: %v", err)
		}
		// A small change may find room in what is free already, or not: either way it is told.
		if err := s.Note(ctx, "n", []byte("v")); err != nil && !errors.Is(err, want) {
			t.Fatalf("a note: %v", err)
		}
	}
	holds := func(newest cep.Epoch) {
		t.Helper()
		if got := contents(t, s, newest); len(got) != 8*int(newest) {
			t.Fatalf("epoch %d has %d records", newest, len(got))
		}
		if l, err := s.Outbox(ctx, "out", uint64(newest), 9, 9); err != nil || len(l) != 1 {
			t.Fatalf("outbox: %v, %v", l, err)
		}
		if err := s.Check(ctx); err != nil {
			t.Fatal(err)
		}
	}
	holds(e - 1)
	free()
	for range 10 {
		if err := s.Commit(ctx, big(e)); err != nil {
			t.Fatalf("with room again: %v", err)
		}
		holds(e)
		e++
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, boltstore.Options{})
	holds(e - 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
