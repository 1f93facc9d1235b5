package watch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/cepd/cepd/rules"
)

const (
	// DebounceDefault is the pause in events after which files are looked at: an editor needs a tenth of that for all that it
	// does when it saves, a deployment of some hundred files about as long.
	DebounceDefault = 500 * time.Millisecond
	// RehashDefault is how often files are looked at although nothing was told of them: network file systems tell nothing.
	RehashDefault = 30 * time.Second
	// debouncesMost is the number of pauses after which files are looked at although events go on: something that writes
	// without end below the directory must not keep rules from changing.
	debouncesMost = 10
	// namedMax is the size up to which a list or map is hashed; package rules refuses larger ones.
	namedMax = 64 << 20
)

// Options say how to watch; what is zero has its default.
type Options struct {
	// Debounce is the pause in events after which files are looked at, Rehash how often they are besides.
	Debounce, Rehash time.Duration
	// Named returns names of lists and maps that are watched besides the *.csv files below the paths: those that rules name and
	// that are called otherwise. Nil: there are none. It is called in the goroutine of Watch.
	Named func() []string
	// Logger is told of what keeps Watch from watching; nil: nobody is.
	Logger *slog.Logger
}

// Watch calls changed when the content of the rule files below the paths, or of what they name, is not what it was at the call
// before. It is called once at the beginning, because nobody knows what has happened since the rules were loaded. A path that
// is not there, or cannot be read, is a change like any other: whoever loads the rules then finds out.
//
// It returns the error of ctx, and no other: where directories cannot be watched, looking at intervals remains.
func Watch(ctx context.Context, paths []string, o Options, changed func()) error {
	if o.Debounce <= 0 {
		o.Debounce = DebounceDefault
	}
	if o.Rehash <= 0 {
		o.Rehash = RehashDefault
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	w := &watcher{paths: paths, options: o, changed: changed}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		o.Logger.Warn("rule directories cannot be watched; they are looked at every so often", "every", o.Rehash, "err", err)
		return w.run(ctx, nil, nil)
	}
	defer func() { _ = notify.Close() }() // it only ends the watching
	w.notify = notify
	return w.run(ctx, notify.Events, notify.Errors)
}

// watcher is a Watch at work.
type watcher struct {
	paths   []string
	options Options
	changed func()
	notify  *fsnotify.Watcher // nil: nothing is told
	failed  string            // the last error of watching, so that it is told once
	sum     [sha256.Size]byte
}

func (w *watcher) run(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error) error {
	look := time.NewTimer(0) // of what there is to begin with
	defer look.Stop()
	var pending time.Time // of the first event that nobody has looked after yet
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			if e.Op == fsnotify.Chmod {
				continue
			}
			if e.Has(fsnotify.Remove | fsnotify.Rename) {
				_ = w.notify.Remove(e.Name) // a directory that went is watched no more, whatever comes in its place; a file never was
			}
			now := time.Now()
			if pending.IsZero() {
				pending = now
			}
			latest := pending.Add(debouncesMost * w.options.Debounce)
			look.Reset(min(w.options.Debounce, max(latest.Sub(now), 0)))
		case err, ok := <-errs:
			if !ok {
				errs = nil
				continue
			}
			// Events were lost, most likely.
			w.trouble(err)
			look.Reset(w.options.Debounce)
		case <-look.C:
			pending = time.Time{}
			w.look()
			look.Reset(w.options.Rehash)
		}
	}
}

// look compares the content of the files with what it was. Directories are watched first, so that nothing falls in between: what
// came before one of them was watched is found by searching once more.
func (w *watcher) look() {
	names, err := rules.Find(w.paths)
	dirs, named := w.walk(names)
	if w.follow(dirs) {
		names, err = rules.Find(w.paths)
		dirs, named = w.walk(names)
		w.follow(dirs)
	}
	sum := sumOf(names, named, err)
	if sum == w.sum {
		return
	}
	w.sum = sum
	w.changed()
}

// walk returns all directories that hold, or may come to hold, a file that counts, and the files that rules may name.
func (w *watcher) walk(names []string) (dirs map[string]bool, named []string) {
	dirs = map[string]bool{}
	for _, p := range w.paths {
		p = filepath.Clean(p)
		// Also the directory above: a path may be replaced as a whole, or is not there yet.
		above(p, dirs)
		_ = filepath.WalkDir(p, func(name string, e fs.DirEntry, err error) error {
			switch {
			case err != nil: // whoever loads the rules says so
			case name != p && strings.HasPrefix(e.Name(), "."):
				if e.IsDir() {
					return filepath.SkipDir
				}
			case len(dirs)+len(named) > rules.MaxFiles:
				return filepath.SkipAll
			case e.IsDir():
				dirs[name] = true
			case filepath.Ext(name) == ".csv":
				named = append(named, name)
			}
			return nil
		})
	}
	if w.options.Named != nil {
		named = append(named, w.options.Named()...)
	}
	slices.Sort(named)
	named = slices.Compact(named)
	for _, name := range slices.Concat(names, named) { // WalkDir does not follow symbolic links, and loading does
		above(name, dirs)
		if target, err := filepath.EvalSymlinks(name); err == nil {
			dirs[filepath.Dir(target)] = true
		}
	}
	return dirs, named
}

// above adds the directory of a file, and where that is not there the nearest one that is: in it the others will appear.
func above(name string, dirs map[string]bool) {
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		dirs[dir] = true
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return
		}
	}
}

// follow has the directories watched, and no others. It reports whether there are new ones among them.
func (w *watcher) follow(dirs map[string]bool) (more bool) {
	if w.notify == nil {
		return false
	}
	watched := map[string]bool{}
	for _, dir := range w.notify.WatchList() {
		if watched[dir] = dirs[dir]; !dirs[dir] {
			_ = w.notify.Remove(dir) // it may be gone already
		}
	}
	for dir := range dirs {
		if info, err := os.Stat(dir); watched[dir] || err != nil || !info.IsDir() {
			continue
		}
		if err := w.notify.Add(dir); err != nil {
			w.trouble(fmt.Errorf("watch %s: %w", dir, err))
		} else {
			more = true
		}
	}
	return more
}

// trouble tells of an error, once.
func (w *watcher) trouble(err error) {
	if err.Error() != w.failed {
		w.failed = err.Error()
		w.options.Logger.Warn("watching the rules", "err", err, "looking_every", w.options.Rehash)
	}
}

// sumOf is a hash over the names and contents of files, and of what keeps them from being found.
func sumOf(names, named []string, err error) (sum [sha256.Size]byte) {
	h := sha256.New()
	if err != nil {
		h.Write(fmt.Appendf(nil, "error %q\n", err))
	}
	for _, name := range names {
		add(h, name)
	}
	h.Write([]byte("named\n"))
	for _, name := range named {
		add(h, name)
	}
	h.Sum(sum[:0])
	return sum
}

func add(h hash.Hash, name string) {
	content := sha256.New()
	f, err := os.Open(name)
	if err == nil {
		_, err = io.Copy(content, io.LimitReader(f, namedMax))
		err = errors.Join(err, f.Close())
	}
	h.Write(fmt.Appendf(nil, "%q %v %x\n", name, err, content.Sum(nil)))
}
