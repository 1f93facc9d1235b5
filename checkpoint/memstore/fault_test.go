package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/memstore"
)

var ctx = context.Background()

func commit(e cep.Epoch) *checkpoint.Commit {
	return &checkpoint.Commit{
		Manifest: checkpoint.Manifest{Epoch: e},
		Records:  []checkpoint.Record{{Key: []byte("k"), Value: fmt.Append(nil, e)}},
	}
}

func open(t *testing.T, d *memstore.Disk) *memstore.Store {
	t.Helper()
	s, err := d.Open()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newest(t *testing.T, s *memstore.Store) cep.Epoch {
	t.Helper()
	l, err := s.Epochs(ctx)
	if err != nil || len(l) == 0 {
		t.Fatalf("epochs: %v, %v", l, err)
	}
	return l[len(l)-1].Epoch
}

// TestFaults holds each fault to what it says of itself.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault   memstore.Fault
		is      error
		durable bool
	}{
		{memstore.None, nil, true},
		{memstore.FailBefore, memstore.ErrInjected, false},
		{memstore.FailAfter, memstore.ErrInjected, true},
		{memstore.CrashBefore, memstore.ErrCrashed, false},
		{memstore.CrashAfter, memstore.ErrCrashed, true},
	} {
		d := memstore.NewDisk(memstore.Options{})
		s := open(t, d)
		if err := s.Commit(ctx, commit(1)); err != nil {
			t.Fatal(err)
		}
		var seen []string
		d.SetFaults(func(op memstore.Op) memstore.Fault {
			seen = append(seen, op.String())
			return c.fault
		})
		if err := s.Commit(ctx, commit(2)); !errors.Is(err, c.is) || (err == nil) != (c.is == nil) {
			t.Errorf("fault %d: %v", c.fault, err)
		}
		d.SetFaults(nil)
		if len(seen) != 1 || seen[0] != "commit epoch 2" {
			t.Errorf("fault %d was asked for %q", c.fault, seen)
		}
		if errors.Is(c.is, memstore.ErrCrashed) {
			if _, err := s.Epochs(ctx); !errors.Is(err, memstore.ErrCrashed) {
				t.Errorf("fault %d: the dead process reads: %v", c.fault, err)
			}
			s = open(t, d)
		}
		if got := newest(t, s) == 2; got != c.durable {
			t.Errorf("fault %d: durable is %v", c.fault, got)
		}
		// Whatever it was, the same commit makes it durable.
		if err := s.Commit(ctx, commit(2)); err != nil || newest(t, s) != 2 {
			t.Errorf("fault %d, and again: %v", c.fault, err)
		}
	}
}

func TestFull(t *testing.T) {
	d := memstore.NewDisk(memstore.Options{})
	s := open(t, d)
	d.SetFull(true)
	for _, err := range []error{s.Commit(ctx, commit(1)), s.Note(ctx, "n", nil), s.Maintain(ctx)} {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("full: %v", err)
		}
	}
	d.SetFull(false)
	if err := s.Commit(ctx, commit(1)); err != nil {
		t.Error(err)
	}
}

// TestClone holds that a copy and its original go their own ways.
func TestClone(t *testing.T) {
	d := memstore.NewDisk(memstore.Options{FoldEpochs: 3})
	s := open(t, d)
	for e := range cep.Epoch(7) {
		if err := errors.Join(s.Commit(ctx, commit(e+1)), s.Maintain(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, d.Clone())
	if err := errors.Join(s.Commit(ctx, commit(8)), s.Note(ctx, "n", []byte("v")), c.Rewind(ctx, 5), c.Commit(ctx, commit(6))); err != nil {
		t.Fatal(err)
	}
	if newest(t, s) != 8 || newest(t, c) != 6 {
		t.Errorf("epochs %d and %d", newest(t, s), newest(t, c))
	}
	if v, err := c.Noted(ctx, "n"); v != nil || err != nil {
		t.Errorf("the copy has the note %q, %v", v, err)
	}
	if err := errors.Join(s.Check(ctx), c.Check(ctx)); err != nil {
		t.Error(err)
	}
}

// TestDamagedBase is told by the base before it, as long as nothing between is damaged too.
func TestDamagedBase(t *testing.T) {
	d := memstore.NewDisk(memstore.Options{FoldEpochs: 3, Keep: 9})
	s := open(t, d)
	for e := range cep.Epoch(7) {
		if err := errors.Join(s.Commit(ctx, commit(e+1)), s.Maintain(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	restored := func(e cep.Epoch) error {
		got := ""
		_, err := s.Restore(ctx, e, func(r checkpoint.Record) error { got = string(r.Value); return nil })
		if err == nil && got != fmt.Sprint(e) {
			t.Errorf("epoch %d holds %s", e, got)
		}
		return err
	}
	if err := errors.Join(d.DamageBase(6), restored(7)); err != nil {
		t.Errorf("by the base of epoch 3: %v", err)
	}
	if err := errors.Join(d.Damage(2), restored(7), restored(3)); err != nil {
		t.Errorf("below that base: %v", err)
	}
	if err := d.Damage(5); err != nil || !errors.Is(restored(7), checkpoint.ErrDamaged) || restored(4) != nil {
		t.Errorf("behind it: %v, %v", err, restored(7))
	}
	if err := d.Damage(99); !errors.Is(err, checkpoint.ErrMissing) {
		t.Errorf("an epoch that is not there: %v", err)
	}
	if err := d.DamageBase(4); !errors.Is(err, checkpoint.ErrMissing) {
		t.Errorf("a base that is not there: %v", err)
	}
}

// Example shows the lives of one disk.
func Example() {
	disk := memstore.NewDisk(memstore.Options{})
	disk.SetFaults(func(op memstore.Op) memstore.Fault {
		if op.Name == "commit" && op.Epoch == 2 {
			return memstore.CrashAfter
		}
		return memstore.None
	})
	store, err := disk.Open()
	fmt.Println(err)
	fmt.Println(store.Commit(ctx, commit(1)))
	fmt.Println(store.Commit(ctx, commit(2)))
	store, err = disk.Open()
	fmt.Println(err)
	epochs, err := store.Epochs(ctx)
	fmt.Println(len(epochs), err)
	// Output:
	// <nil>
	// <nil>
	// the process is dead
	// <nil>
	// 2 <nil>
}
