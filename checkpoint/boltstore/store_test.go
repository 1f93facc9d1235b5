package boltstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
	"github.com/cepd/cepd/checkpoint/storetest"
)

// world is a directory. A crash is a copy of the file at that instant, which is what a process leaves that is killed:
// whatever it had written is there, and nothing that it had not.
type world struct {
	dir     string
	options boltstore.Options
	lives   int
	store   *boltstore.Store
}

func (w *world) path() string { return filepath.Join(w.dir, fmt.Sprint(w.lives)) }

func (w *world) Open(ctx context.Context) (checkpoint.Store, error) {
	s, err := boltstore.Open(ctx, w.path(), w.options)
	if err != nil {
		return nil, err
	}
	w.store = s
	return s, nil
}

func (w *world) Crash() error {
	data, err := snapshot(w.path(), w.store)
	if err != nil {
		return err
	}
	if err := w.store.Close(); err != nil {
		return err
	}
	if err := os.RemoveAll(w.path()); err != nil {
		return err
	}
	w.lives++
	return errors.Join(os.MkdirAll(w.path(), 0o755), os.WriteFile(filepath.Join(w.path(), boltstore.FileName), data, 0o600))
}

// snapshot reads the file of a store as it is now, up to the last page that was used: it grows by 16 MiB at a time.
func snapshot(dir string, s *boltstore.Store) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, boltstore.FileName))
	if err != nil {
		return nil, err
	}
	size, _ := s.Size()
	data := make([]byte, size)
	_, err = f.ReadAt(data, 0)
	return data, errors.Join(err, f.Close())
}

// Damage flips a bit in the first segment of an epoch, behind its head.
func (w *world) Damage(e cep.Epoch) error {
	return spoil(w.path(), []string{"epochs", string(key(e))}, func(k, v []byte) []byte {
		if len(k) != 4 {
			return nil
		}
		v[len(v)/2] ^= 0x40
		return v
	})
}

func key(e cep.Epoch) []byte {
	return []byte{byte(e >> 56), byte(e >> 48), byte(e >> 40), byte(e >> 32), byte(e >> 24), byte(e >> 16), byte(e >> 8), byte(e)}
}

// spoil changes the first value in a bucket for which f returns one.
func spoil(dir string, path []string, f func(k, v []byte) []byte) error {
	db, err := bolt.Open(filepath.Join(dir, boltstore.FileName), 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(path[0]))
		for _, name := range path[1:] {
			b = b.Bucket([]byte(name))
		}
		c := b.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if changed := f(k, append([]byte{}, v...)); changed != nil {
				return b.Put(append([]byte{}, k...), changed)
			}
		}
		return errors.New("there is nothing to spoil")
	})
	return errors.Join(err, db.Close())
}

// Where there is a disk in memory the suite runs there: it syncs some ten thousand times, and no machine crashes in it.
func TestContract(t *testing.T) {
	root := ""
	if dir, err := os.MkdirTemp("/dev/shm", "cepd-boltstore-"); err == nil {
		root = dir
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
	}
	with := func(o boltstore.Options) func(string) storetest.World {
		return func(dir string) storetest.World { return &world{dir: filepath.Join(root, dir), options: o} }
	}
	// Those that come behind fold the first epoch already, and keep little.
	storetest.Run(t, with(boltstore.Options{FoldMin: 20_000}),
		with(boltstore.Options{FoldMin: 1}), with(boltstore.Options{FoldMin: 1, Keep: 1}), with(boltstore.Options{FoldMin: 20_000, Keep: 2}))
}
