package boltstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/cepd/cepd/checkpoint"
)

// openBolt locks, walks and opens the file. stale says that the last transaction was dropped, because its pages are damaged.
func openBolt(dir string, readOnly bool) (db *bolt.DB, stale bool, err error) {
	path := filepath.Join(dir, FileName)
	var file *os.File
	open := func(name string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(name, flag&^os.O_CREATE, mode)
		if err != nil {
			return nil, err
		}
		if err := lockFile(f, !readOnly, lockTimeout); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		stale, err = inspect(f, readOnly)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		file = f
		return f, nil
	}
	defer func() {
		if p := recover(); p != nil {
			// bbolt says so where it finds pages that the walk took for good. It holds the file still.
			db, err = nil, errors.Join(badPages("%v", p), file.Close())
		}
		if errors.Is(err, checkpoint.ErrDamaged) {
			err = fmt.Errorf("%s: %w; move it away and start from a copy (`cepd checkpoint import`), or without one (`--accept-gap`)", path, err)
		}
	}()
	db, err = bolt.Open(path, 0o600, &bolt.Options{
		Timeout:         lockTimeout,
		ReadOnly:        readOnly,
		PreLoadFreelist: true, // for Size, where nobody writes
		FreelistType:    bolt.FreelistMapType,
		NoFreelistSync:  true,
		InitialMmapSize: mapSize,
		OpenFile:        open,
	})
	switch {
	case errors.Is(err, errLocked) || errors.Is(err, berrors.ErrTimeout):
		return nil, false, fmt.Errorf("%w %s", checkpoint.ErrLocked, describeOwner(dir))
	case err != nil:
		return nil, false, err
	}

	return db, stale, nil
}

// inspect walks the pages of a file that is locked, and makes sure that it still has its name.
func inspect(f *os.File, readOnly bool) (stale bool, err error) {
	held, err := f.Stat()
	if err != nil {
		return false, err
	}
	if named, err := os.Stat(f.Name()); err != nil {
		return false, err
	} else if !os.SameFile(held, named) {
		// The owner has compacted it, and we have waited for the file that was there before.
		return false, errLocked
	}
	m, page, err := checkPages(f, held.Size())
	if err != nil {
		return false, err
	}
	if page < 0 {
		return false, nil
	}
	if readOnly {
		return false, badPages("its last change is damaged; opening it for writing, as `cepd run` and `cepd checkpoint compact` do, goes back to the one before")
	}
	if err := dropMeta(f, m, page); err != nil {
		return false, fmt.Errorf("go back to the last sound change: %w", err)
	}
	return true, nil
}

// create makes a new file under another name and gives it its own when it is whole, so that a file of that name which is
// empty or cut short is always damage, never a beginning.
func create(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := place(dir, purposeCreate, func(db *bolt.DB) error { return db.Update(fill) }, true)
	if errors.Is(err, fs.ErrExist) {
		return nil // somebody else was first
	}
	return err
}

// fill makes the buckets of an empty file.
func fill(tx *bolt.Tx) error {
	for _, name := range buckets {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return tx.Bucket(bucketFormat).Put(keyFormat, seal(kindFormat, keyFormat, formatBody()))
}

// What a file under a temporary name is for.
const (
	purposeCreate  = "create"
	purposeCompact = "compact"
	purposeImport  = "import"
)

// place writes a file under a temporary name and gives it the name of the store; fresh: only where there is none.
func place(dir, purpose string, write func(db *bolt.DB) error, fresh bool) (err error) {
	path := filepath.Join(dir, FileName)
	f, err := os.CreateTemp(dir, FileName+"."+purpose+"-*")
	if err != nil {
		return err
	}
	temp := f.Name()
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(os.Remove(temp)))
		}
	}()
	if err := f.Close(); err != nil {
		return err
	}
	db, err := bolt.Open(temp, 0o600, &bolt.Options{
		FreelistType: bolt.FreelistMapType, NoFreelistSync: true, InitialMmapSize: mapSize,
		NoSync: true, NoGrowSync: true, // synced once, below
	})
	if err != nil {
		return err
	}

	if err := write(db); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := db.Sync(); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := db.Close(); err != nil {
		return err
	}
	if err := syncFile(temp); err != nil {
		return err
	}
	if !fresh {
		if err := os.Rename(temp, path); err != nil {
			return err
		}
		return syncDir(dir)
	}
	// A link is refused where the name is taken: of two processes that begin at once one wins.
	switch err := os.Link(temp, path); {
	case errors.Is(err, fs.ErrExist):
		return err
	case err != nil:
		// Not every file system has links.
		if err := os.Rename(temp, path); err != nil {
			return err
		}
	default:
		if err := ignoreMissing(os.Remove(temp)); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeLeftovers removes what a process that died has left beside the file. The lock is held.
func removeLeftovers(dir string) error {
	for _, purpose := range []string{purposeCreate, purposeCompact, purposeImport} {
		names, err := filepath.Glob(filepath.Join(dir, FileName+"."+purpose+"-*"))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := ignoreMissing(os.Remove(name)); err != nil {
				return fmt.Errorf("remove what an earlier process has left: %w", err)
			}
		}
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there, and renames are durable without
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
