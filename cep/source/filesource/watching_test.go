package filesource_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
)

// watching is a follower whose partitions are all read as they come.
type watching struct {
	t      *testing.T
	follow *filesource.Follower
	cancel context.CancelFunc
	ctx    context.Context
	wg     sync.WaitGroup
	// part has the follower end, which watched is closed behind.
	part    context.CancelFunc
	watched chan struct{}
	paused  bool // found readers are not read

	mu      sync.Mutex
	err     error
	found   []source.Reader
	at      map[string]int64 // by partition: behind the last record
	got     map[string][]string
	ended   map[string]bool
	bad     []error
	trouble error
	said    []string // all that was ever wrong, as a log has it
	ready   bool
}

// watch starts a follower. at has positions from an earlier life.
func watch(t *testing.T, c filesource.FollowerConfig, at map[string]int64) *watching {
	t.Helper()
	w := &watching{t: t, follow: follower(t, c), at: map[string]int64{}, got: map[string][]string{}, ended: map[string]bool{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	var known []string
	for name, offset := range at {
		known = append(known, name)
		w.at[name] = offset
	}
	w.start(known)
	return w
}

func (w *watching) start(known []string) {
	var ctx context.Context
	ctx, w.part = context.WithCancel(context.Background())
	w.watched = make(chan struct{})
	go func() {
		defer close(w.watched)
		err := w.follow.Watch(ctx, known, w)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = err
	}()
}

// stop ends it, and returns the positions. The readers end first: who closes what first is not said anywhere, and what they knew must
// not be lost with them.
func (w *watching) stop() map[string]int64 {
	w.t.Helper()
	w.mu.Lock()
	w.cancel() // what is found from now on is nobody's
	found := w.found
	w.mu.Unlock()
	w.wg.Wait()
	for _, r := range found {
		if err := r.Close(); err != nil {
			w.t.Error(err)
		}
	}
	w.part()
	<-w.watched
	if err := w.follow.Close(); err != nil {
		w.t.Error(err)
	}
	if w.err != nil && !errors.Is(w.err, context.Canceled) {
		w.t.Error(w.err)
	}
	return w.at
}

func (w *watching) Found(r source.Reader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx != nil && w.ctx.Err() != nil {
		if err := r.Close(); err != nil {
			w.t.Error(err)
		}
		return
	}
	w.found = append(w.found, r)
	name := r.Partition().Name
	w.ended[name] = false
	if at := w.at[name]; at > 0 {
		if err := r.SeekTo(at); err != nil {
			w.t.Error(err)
		}
	}
	if !w.paused {
		w.wg.Go(func() { w.read(r) })
	}
}

func (w *watching) read(r source.Reader) {
	name := r.Partition().Name
	for {
		rec, err := r.Next(w.ctx)
		bad, isBad := errors.AsType[*source.RecordError](err)
		w.mu.Lock()
		switch {
		case isBad:
			w.bad = append(w.bad, err)
			w.at[name] = bad.Position.Offset + 1
		case err == nil:
			if rec.Offset < w.at[name] {
				w.t.Errorf("%s: offset %d follows %d", r.Name(), rec.Offset, w.at[name]-1)
			}
			w.at[name] = rec.Offset + 1
			w.got[name] = append(w.got[name], string(rec.Data))
		default:
			if w.ended[name] = errors.Is(err, io.EOF); !w.ended[name] && w.ctx.Err() == nil {
				w.t.Errorf("%s: %v", r.Name(), err)
			}
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
	}
}

func (w *watching) Ready() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ready = true
}

func (w *watching) Trouble(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trouble = err; err != nil {
		w.said = append(w.said, err.Error())
	}
}

// after lets time pass.
func (w *watching) after(d time.Duration) *watching {
	time.Sleep(d)
	synctest.Wait()
	return w
}

// records are what was read, in the order in which partitions were found, these separated by |. A partition that has ended
// has a dot.
func (w *watching) records() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	seen := map[string]bool{}
	for _, r := range w.found {
		name := r.Partition().Name
		if seen[name] {
			continue
		}
		seen[name] = true
		var one []string
		for _, text := range w.got[name] {
			one = append(one, word(text))
		}
		if w.ended[name] {
			one = append(one, ".")
		}
		all = append(all, strings.Join(one, " "))
	}
	return strings.Join(all, " | ")
}

func (w *watching) want(records string) {
	w.t.Helper()
	if d := cmp.Diff(records, w.records()); d != "" {
		w.t.Errorf("records (-want +got):\n%s", d)
	}
}

// wantTrouble checks that all parts are in what is reported; none: nothing is.
func (w *watching) wantTrouble(parts ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if (w.trouble == nil) != (len(parts) == 0) {
		w.t.Errorf("trouble: %v, want %q", w.trouble, parts)
		return
	}
	for _, p := range parts {
		if !strings.Contains(w.trouble.Error(), p) {
			w.t.Errorf("trouble: %v, want %q", w.trouble, p)
		}
	}
}

// lineOf makes a line of a word, wide enough that 20 of them are more than a head; word finds it again.
func lineOf(w string) string { return fmt.Sprintf("{%q:%q}\n", w, strings.Repeat("-", 50)) }

func word(text string) string {
	text, ok := strings.CutPrefix(text, `{"`)
	w, _, _ := strings.Cut(text, `"`)
	if !ok {
		return "?" + text
	}
	return w
}

func linesOf(words string) string {
	var b strings.Builder
	for w := range strings.FieldsSeq(words) {
		b.WriteString(lineOf(w))
	}
	return b.String()
}

// numbered are n words from one number on.
func numbered(from, n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint("n", from+i))
	}
	return strings.Join(all, " ")
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, to, string(b))
}

// in runs a scenario in a directory of its own, with the clock of synctest.
func in(t *testing.T, name string, run func(t *testing.T, dir string)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { run(t, t.TempDir()) })
	})
}

func all(dir string) filesource.FollowerConfig {
	return filesource.FollowerConfig{Paths: []string{filepath.Join(dir, "*")}}
}
