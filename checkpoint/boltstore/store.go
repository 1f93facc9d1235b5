package boltstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/cepd/cepd/checkpoint"
)

// FileName is the name of the file in the directory of a store.
const FileName = "checkpoint.db"

const (
	// lockTimeout is how long the lock is tried for: a predecessor that was told to end is mostly writing its last epoch.
	lockTimeout = 2 * time.Second
	lockRetry   = 50 * time.Millisecond
	// mapSize is the part of the address space that is taken from the start. While a file outgrows its mapping bbolt waits
	// for all who read; up to a gigabyte that never comes. It costs no memory.
	mapSize = 1 << 30
)

// KeepDefault is the number of bases that are kept where nobody says: the newest, and two to go back to.
const KeepDefault = 3

// Options are the settings of a store. The zero Options are good ones.
type Options struct {
	// Keep is the number of bases that are kept with their deltas, from 1; 0 means [KeepDefault].
	Keep int
	// ReadOnly opens what is there without changing a byte. Other readers may do the same at a time, a writer may not.
	ReadOnly bool
	// Logger hears of what is set aside, folded, dropped and compacted; nil: nobody does.
	Logger *slog.Logger
	// Failpoint is called where a test wants to crash, with one of [Failpoints]; nil: never.
	Failpoint func(point string)
	// FoldMin is the number of bytes of deltas below which no base is written; 0 means 4 MiB. Tests make it small.
	FoldMin int64
}

// Failpoints are the points at which a crash means something different, in the order in which they come.
var Failpoints = []string{
	"store.commit.before",   // nothing of the epoch is in the file
	"store.commit.after",    // the epoch is durable, nobody knows yet
	"store.note.after",      // the note is durable, nobody knows yet
	"store.rewind.step",     // some epochs above the one that is wanted are gone, others not
	"store.fold.step",       // a part of a new base is durable
	"store.fold.complete",   // the new base counts
	"store.drop.begun",      // bases count no longer, and all that they held is still there
	"store.drop.step",       // some of what is no longer kept is gone
	"store.compact.written", // the new file is durable beside the old one
	"store.compact.renamed", // it has taken the old one's place
	"store.import.written",  // an import is complete under another name
}

// Store is a checkpoint store in one bbolt file. It implements [checkpoint.Store].
type Store struct {
	dir     string
	options Options
	log     *slog.Logger

	// swap guards db: whoever uses it holds it for reading, a compaction takes it for writing.
	swap sync.RWMutex
	db   *bolt.DB // nil when closed

	// writing is held by Commit and Rewind, which go by what is known before they write.
	writing sync.Mutex
	// maintaining is held by the one call of Maintain that runs.
	maintaining sync.Mutex

	// mu guards what is known without reading.
	mu    sync.Mutex
	known known
	// broken is why the store can no longer be used.
	broken error
}

var _ checkpoint.Store = (*Store)(nil)

// noFileError says that a directory holds no store. It is [checkpoint.ErrMissing].
type noFileError struct{}

func (noFileError) Error() string { return "there is no " + FileName }
func (noFileError) Unwrap() error { return checkpoint.ErrMissing }

var errLocked = errors.New("the lock is taken")

// Open opens the store in a directory, and makes it where there is none. While another process has it the error is
// [checkpoint.ErrLocked] and names that process. A file that cannot be used is named with what can be done.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	s := &Store{dir: dir, options: o, log: o.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.options.Keep == 0 {
		s.options.Keep = KeepDefault
	}
	if s.options.FoldMin == 0 {
		s.options.FoldMin = foldMin
	}
	if s.options.Keep < 1 || s.options.FoldMin < 1 {
		return nil, fmt.Errorf("open checkpoints in %s: keep is %d, it must be 1 or more", dir, o.Keep)
	}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("open checkpoints in %s: %w", dir, err)
	}
	return s, nil
}

func (s *Store) path() string { return filepath.Join(s.dir, FileName) }

func (s *Store) open(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := os.Stat(s.path()); errors.Is(err, fs.ErrNotExist) {
		if s.options.ReadOnly {
			return noFileError{}
		}
		if err := create(s.dir); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := s.openFile(); err != nil {
		return err
	}
	if s.options.ReadOnly {
		return nil
	}
	if err := s.afterOpen(ctx); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// afterOpen is what only an owner does.
func (s *Store) afterOpen(ctx context.Context) error {
	if err := writeOwner(s.dir); err != nil {
		return fmt.Errorf("write %s: %w", ownerName, err)
	}
	if err := removeLeftovers(s.dir); err != nil {
		return err
	}
	if !s.mostlyFree() {
		return nil
	}
	before, after, err := s.Compact(ctx)
	switch {
	case err == nil:
		s.log.Info("compacted the checkpoints", "dir", s.dir, "bytes_before", before, "bytes_after", after)
	case ctx.Err() != nil || s.failure() != nil:
		return err
	default:
		// A disk without room for a second copy is no reason not to run.
		s.log.Warn("the checkpoints could not be compacted", "dir", s.dir, "err", err)
	}
	return nil
}

// openFile opens and loads the file.
func (s *Store) openFile() error {
	db, stale, err := openBolt(s.dir, s.options.ReadOnly)
	if err != nil {
		return err
	}
	s.db = db
	k, err := s.load()
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", FileName, err), s.Close())
	}
	if stale {
		k.lost = "its pages are not what was written, and the state before it is used: what is lost may have been this epoch"
		s.log.Warn("the last change of the checkpoints is damaged and was set aside", "dir", s.dir, "newest_epoch", k.newest())
	}
	s.known = k
	return nil
}

// Close implements [checkpoint.Store].
func (s *Store) Close() error {
	s.swap.Lock()
	defer s.swap.Unlock()
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db = nil
	var err error
	if !s.options.ReadOnly {
		err = ignoreMissing(removeOwner(s.dir)) // while the lock is held: the file is ours
	}
	return errors.Join(err, db.Close())
}

func (s *Store) point(name string) {
	if s.options.Failpoint != nil {
		s.options.Failpoint(name)
	}
}

// ready says why the store cannot be used. swap is held.
func (s *Store) ready() error {
	if err := s.failure(); err != nil {
		return err
	}
	if s.db == nil {
		return errClosed
	}
	return nil
}

// usable is ready for those who do not hold swap.
func (s *Store) usable() error {
	s.swap.RLock()
	defer s.swap.RUnlock()
	return s.ready()
}

// failure returns why the store can no longer be used.
func (s *Store) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

func (s *Store) breakDown(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = fmt.Errorf("%w: %w", checkpoint.ErrUnusable, err)
		s.log.Error("the checkpoints can no longer be used by this process", "dir", s.dir, "err", err)
	}
	return s.broken
}

// read does a read-only transaction.
func (s *Store) read(f func(tx *bolt.Tx) error) (err error) {
	s.swap.RLock()
	defer s.swap.RUnlock()
	if err := s.ready(); err != nil {
		return err
	}
	defer s.catch(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return s.db.View(f)
}

// write does a transaction and then, if it is durable, done.
func (s *Store) write(ctx context.Context, f func(tx *bolt.Tx) error, done func(k *known)) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.swap.RLock()
	defer s.swap.RUnlock()
	if err := s.ready(); err != nil {
		return err
	}
	if s.options.ReadOnly {
		return errReadOnly
	}
	defer s.catch(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var own error
	err = s.db.Update(func(tx *bolt.Tx) error {
		own = f(tx)
		return own
	})
	switch {
	case own != nil:
		return own
	case err != nil:
		return s.refused(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	done(&s.known)
	return nil
}

var (
	errClosed   = errors.New("the store is closed")
	errReadOnly = errors.New("the store was opened for reading")
)

// refused judges an error of bbolt's commit. Where a write failed nothing has happened, and it may be tried again. Where a
// sync failed nobody knows what is on the disk, and the kernel may have dropped what was not: going on would build on it.
func (s *Store) refused(err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return s.breakDown(fmt.Errorf("sync: %w", err))
	}
	// Where the file could not grow bbolt formats the reason away.
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EFBIG, syscall.EDQUOT, syscall.EROFS, syscall.EIO} {
		if text := err.Error(); strings.HasSuffix(text, errno.Error()) {
			err = fmt.Errorf("%s%w", strings.TrimSuffix(text, errno.Error()), errno)
			if strings.HasPrefix(text, "file sync error") {
				return s.breakDown(err)
			}
			return err
		}
	}
	return err
}

// handing marks a panic that comes from a caller's function, and is none of ours to judge.
type handing struct{ value any }

// catch turns a fault in the mapped file, or what bbolt says of broken pages, into an error.
func (s *Store) catch(err *error) {
	switch p := recover().(type) {
	case nil:
	case handing:
		panic(p.value)
	default:
		*err = s.breakDown(badPages("%v", p))
	}
}

// handOut calls a caller's function inside a transaction.
func handOut(f func() error) error {
	finished := false
	defer func() {
		if !finished {
			if p := recover(); p != nil {
				panic(handing{p})
			}
		}
	}()
	err := f()
	finished = true
	return err
}
