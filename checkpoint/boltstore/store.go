package boltstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/cepd/cepd/cep"
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

// known is what the file holds, as far as it is needed at every commit. It changes when a transaction is durable.
type known struct {
	epochs []epochInfo // ascending, without gaps
	folds  map[cep.Epoch]fold
	sinks  map[string]tally
	// stale counts what left something in the file that no longer counts, cleaned how much of it Maintain has removed.
	stale, cleaned uint64
	// lost says what Open had to set aside, "" for nothing.
	lost string
}

// epochInfo is what is known of an epoch without reading it.
type epochInfo struct {
	epoch         cep.Epoch
	bytes         int64
	digest, rules uint64
	damage        string
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
	db, stale, err := openBolt(s.dir, s.options.ReadOnly, 0)
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

// openBolt locks, walks and opens the file; mode is bbolt's NoSync for files that nobody has yet. stale says that the last
// transaction was dropped, because its pages are damaged.
func openBolt(dir string, readOnly bool, waited time.Duration) (db *bolt.DB, stale bool, err error) {
	path := filepath.Join(dir, FileName)
	var file *os.File
	open := func(name string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(name, flag&^os.O_CREATE, mode)
		if err != nil {
			return nil, err
		}
		if err := lockFile(f, !readOnly, lockTimeout-waited); err != nil {
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

// load reads what is known without reading all.
func (s *Store) load() (known, error) {
	k := known{folds: map[cep.Epoch]fold{}, sinks: map[string]tally{}}
	err := s.read(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketFormat)
		if b == nil {
			return checkFormat(nil)
		}
		if err := checkFormat(b.Get(keyFormat)); err != nil {
			return err
		}
		for _, name := range buckets {
			if tx.Bucket(name) == nil {
				return &checkpoint.DamageError{What: fmt.Sprintf("bucket %s", name), Why: "it is missing"}
			}
		}
		if err := k.loadFolds(tx); err != nil {
			return err
		}
		if err := k.loadEpochs(tx); err != nil {
			return err
		}
		// Steps of bases that are none any more show only when they are looked for.
		k.stale++
		return k.loadSinks(tx)
	})
	return k, err
}

func (k *known) loadFolds(tx *bolt.Tx) error {
	return tx.Bucket(bucketFolds).ForEach(func(key, v []byte) error {
		e, ok := epochOf(key)
		if !ok {
			return nil // Check says so
		}
		f, err := decodeFold(e, v)
		if errors.Is(err, checkpoint.ErrNewer) {
			return err
		}
		if err == nil {
			k.folds[e] = f
		}
		return nil
	})
}

func decodeFold(e cep.Epoch, v []byte) (fold, error) {
	body, err := unseal(kindFold, epochKey(e), v, "the record of the base of epoch %d", e)
	if err != nil {
		return fold{}, err
	}
	f, ok := readFold(body)
	if !ok {
		return fold{}, &checkpoint.DamageError{What: fmt.Sprintf("the record of the base of epoch %d", e), Why: "it cannot be read"}
	}
	return f, nil
}

func (k *known) loadEpochs(tx *bolt.Tx) error {
	oldest := k.oldest()
	epochs := tx.Bucket(bucketEpochs)
	whole := epochs.Bucket(epochKey(1)) != nil // all is there from the beginning
	return epochs.ForEachBucket(func(key []byte) error {
		e, ok := epochOf(key)
		if !ok {
			return nil
		}
		if e < oldest && !whole {
			k.stale++
			return nil
		}
		if n := len(k.epochs); n > 0 && k.epochs[n-1].epoch+1 != e {
			for missing := k.epochs[n-1].epoch + 1; missing < e; missing++ {
				if missing-k.epochs[n-1].epoch > foldEpochs {
					return &checkpoint.DamageError{What: fmt.Sprintf("epoch %d", missing), Why: "it is missing, as are more behind it"}
				}
				k.epochs = append(k.epochs, epochInfo{epoch: missing, damage: "it is missing"})
				n++
			}
		}
		i := epochInfo{epoch: e}
		en, err := readEpoch(epochs, e)
		switch {
		case errors.Is(err, checkpoint.ErrNewer):
			return err
		case err != nil:
			i.damage = err.Error()
		default:
			i.bytes, i.digest, i.rules = int64(en.bytes), en.digest, en.rules
		}
		k.epochs = append(k.epochs, i)
		return nil
	})
}

// readEpoch returns what an epoch says of itself. Its manifest is valid during the transaction.
func readEpoch(epochs *bolt.Bucket, e cep.Epoch) (entry, error) {
	b := epochs.Bucket(epochKey(e))
	if b == nil {
		return entry{}, fmt.Errorf("epoch %d: %w", e, checkpoint.ErrMissing)
	}
	body, err := unseal(kindEntry, epochKey(e), b.Get(keyEntry), "the manifest of epoch %d", e)
	if err != nil {
		return entry{}, err
	}
	en, ok := readEntry(body)
	if !ok {
		return entry{}, &checkpoint.DamageError{What: fmt.Sprintf("the manifest of epoch %d", e), Why: "it cannot be read"}
	}
	return en, nil
}

func (k *known) loadSinks(tx *bolt.Tx) error {
	return tx.Bucket(bucketSinks).ForEach(func(name, v []byte) error {
		t, err := decodeTally(string(name), v)
		if err != nil {
			return err // without it the next message could get a number that was used
		}
		k.sinks[string(name)] = t
		if box := tx.Bucket(bucketOutbox).Bucket(name); box != nil {
			first, _ := box.Cursor().First()
			if len(first) == 8 && order64(first) <= t.forgotten {
				k.stale++
			}
		}
		return nil
	})
}

func decodeTally(sink string, v []byte) (tally, error) {
	body, err := unseal(kindTally, []byte(sink), v, "the count of messages for sink %s", sink)
	if err != nil {
		return tally{}, err
	}
	t, ok := readTally(body)
	if !ok {
		return tally{}, &checkpoint.DamageError{What: "the count of messages for sink " + sink, Why: "it cannot be read"}
	}
	return t, nil
}

// newest returns the newest epoch, 0 where there is none.
func (k *known) newest() cep.Epoch {
	if n := len(k.epochs); n > 0 {
		return k.epochs[n-1].epoch
	}
	return 0
}

// bases returns the complete bases, ascending.
func (k *known) bases() []cep.Epoch {
	var l []cep.Epoch
	for e, f := range k.folds {
		if f.complete {
			l = append(l, e)
		}
	}
	slices.Sort(l)
	return l
}

// standing returns the bases and, where all is there from the beginning, 0 for the empty state that the first epoch follows.
func (k *known) standing() []cep.Epoch {
	if len(k.epochs) > 0 && k.epochs[0].epoch == 1 {
		return append([]cep.Epoch{0}, k.bases()...)
	}
	return k.bases()
}

// oldest returns the oldest base, 0 where there is none: everything below it counts no longer.
func (k *known) oldest() cep.Epoch {
	if b := k.bases(); len(b) > 0 {
		return b[0]
	}
	return 0
}

// find returns the place of an epoch in the list.
func (k *known) find(e cep.Epoch) (int, bool) {
	return slices.BinarySearchFunc(k.epochs, e, func(i epochInfo, e cep.Epoch) int {
		switch {
		case i.epoch < e:
			return -1
		case i.epoch > e:
			return 1
		}
		return 0
	})
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
	var errno syscall.Errno
	var path *fs.PathError
	if errors.As(err, &path) {
		return err
	}
	if errors.As(err, &errno) {
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
