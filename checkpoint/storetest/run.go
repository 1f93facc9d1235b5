package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
)

// World is a disk with a store on it, and at most one process that uses it.
type World interface {
	// Open starts a process: what it sees is what is durable.
	Open(ctx context.Context) (checkpoint.Store, error)
	// Crash ends the process without a word. What was not durable is lost.
	Crash() error
	// Damage spoils what an epoch changed, while no process runs.
	Damage(e cep.Epoch) error
}

// Run runs the suite. newWorld makes a world whose store is empty and, if it uses files, lies in a directory of its own. The
// others are the same with other settings; the random part of the suite plays in them as well.
func Run(t *testing.T, newWorld func(dir string) World, others ...func(dir string) World) {
	t.Helper()
	made := atomic.Int64{}
	makers := append([]func(dir string) World{newWorld}, others...)
	fresh := func(root string, maker int) World {
		dir := filepath.Join(root, fmt.Sprint(made.Add(1)))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			panic(err)
		}
		return makers[maker](dir)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := fresh(t.TempDir(), 0)
			c.run(&process{t: t, world: w})
		})
	}
	some := func(t *rapid.T, root string) World {
		return fresh(root, rapid.IntRange(0, len(others)).Draw(t, "world"))
	}
	t.Run("histories", func(t *testing.T) { histories(t, some) })
	t.Run("damage", func(t *testing.T) { damages(t, some) })
}

// Cleanup checks a store when the test ends, and closes it.
func Cleanup(t testing.TB, s checkpoint.Store) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Check(context.Background()); err != nil {
			t.Errorf("at the end of the test: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// Fails is the part of [testing.TB] and of a random test that the suite needs.
type Fails interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// process is the process of a world under test.
type process struct {
	t     Fails
	world World
	store checkpoint.Store
}

var ctx = context.Background()

func (p *process) open() checkpoint.Store {
	p.t.Helper()
	s, err := p.world.Open(ctx)
	if err != nil {
		p.t.Fatalf("open: %v", err)
	}
	p.store = s
	return s
}

// end closes the store in good order, and checks it before.
func (p *process) end() {
	p.t.Helper()
	if err := p.store.Check(ctx); err != nil {
		p.t.Errorf("check: %v", err)
	}
	if err := p.store.Close(); err != nil {
		p.t.Fatalf("close: %v", err)
	}
}

// state is the records of an epoch by slot and key.
type state map[place]string

type place struct {
	slot uint8
	key  string
}

// restore returns an epoch.
func restore(s checkpoint.Store, e cep.Epoch) (state, *checkpoint.Manifest, error) {
	got := state{}
	var twice error
	m, err := s.Restore(ctx, e, func(r checkpoint.Record) error {
		p := place{r.Slot, string(r.Key)}
		if _, ok := got[p]; ok {
			twice = fmt.Errorf("key %q of slot %d came twice", r.Key, r.Slot)
		}
		if r.Value == nil {
			twice = fmt.Errorf("key %q of slot %d came without a value", r.Key, r.Slot)
		}
		got[p] = string(r.Value)
		return nil
	})
	return got, m, errors.Join(err, twice)
}
