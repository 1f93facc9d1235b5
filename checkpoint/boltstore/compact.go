package boltstore

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

const (
	// compactMin is the size below which a file is not compacted on start: there is nothing to gain.
	compactMin = 64 << 20
	// compactStep is how much one transaction of a compaction copies. The new file is synced once, at its end.
	compactStep = 16 << 20
)

// mostlyFree says whether more than half of a large file is free pages.
func (s *Store) mostlyFree() bool {
	s.swap.RLock()
	defer s.swap.RUnlock()
	size, err := s.used()
	free := int64(s.db.Stats().FreePageN+s.db.Stats().PendingPageN) * int64(s.db.Info().PageSize)
	return err == nil && size >= compactMin && free > size/2
}

// used is the size of the file up to the last page that was ever used.
func (s *Store) used() (size int64, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		size = tx.Size()
		return nil
	})
	return size, err
}

// Compact writes the file anew without its free pages, and gives the sizes before and after. Nobody else can use the store
// meanwhile. Where it fails the old file stays.
func (s *Store) Compact(ctx context.Context) (before, after int64, err error) {
	if s.options.ReadOnly {
		return 0, 0, errReadOnly
	}
	s.maintaining.Lock()
	defer s.maintaining.Unlock()
	s.swap.Lock()
	defer s.swap.Unlock()
	if err := errors.Join(ctx.Err(), s.ready()); err != nil {
		return 0, 0, err
	}
	before, err = s.used()
	if err != nil {
		return 0, 0, err
	}
	defer s.catch(&err)
	err = place(s.dir, purposeCompact, func(db *bolt.DB) error {
		if err := bolt.Compact(db, s.db, compactStep); err != nil {
			return err
		}
		s.point("store.compact.written")
		return ctx.Err()
	}, false)
	if err != nil {
		return 0, 0, fmt.Errorf("compact %s: %w", s.path(), err)
	}
	s.point("store.compact.renamed")
	// The new file is ours from here on: the old one has no name any more.
	old := s.db
	s.db = nil
	db, _, err := openBolt(s.dir, false)
	err = errors.Join(err, old.Close())
	if err != nil {
		// Somebody may have opened the new file in the moment before us.
		return 0, 0, s.breakDown(fmt.Errorf("open the compacted file: %w", err))
	}
	s.db = db
	after, err = s.used()
	return before, after, err
}
