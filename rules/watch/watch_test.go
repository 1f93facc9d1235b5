package watch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"
)

func write(t *testing.T, name, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// begin runs a watcher, and returns what counts its calls.
func begin(t *testing.T, w *watcher, events <-chan fsnotify.Event) (calls *atomic.Int64) {
	t.Helper()
	calls = &atomic.Int64{}
	w.changed = func() { calls.Add(1) }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.run(ctx, events, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("watch: %v", err)
		}
	})
	return calls
}

func options() Options { return Options{Debounce: DebounceDefault, Rehash: RehashDefault} }

// TestLooksAfterAPause: many events are one look, and a look at what has not changed is no call.
func TestLooksAfterAPause(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, "version: 1\n")
	synctest.Test(t, func(t *testing.T) {
		events := make(chan fsnotify.Event)
		calls := begin(t, &watcher{paths: []string{dir}, options: options()}, events)
		expect := func(want int64, when string) {
			t.Helper()
			synctest.Wait()
			if got := calls.Load(); got != want {
				t.Fatalf("%s: called %d times, want %d", when, got, want)
			}
		}
		expect(1, "at the beginning")
		write(t, file, "version: 1\nlists: {}\n")
		for range 5 {
			events <- fsnotify.Event{Name: file, Op: fsnotify.Write}
			time.Sleep(DebounceDefault / 2)
		}
		expect(1, "while events go on")
		time.Sleep(DebounceDefault)
		expect(2, "after a pause")
		events <- fsnotify.Event{Name: file, Op: fsnotify.Write}
		time.Sleep(2 * DebounceDefault)
		expect(2, "an event without a change")
		write(t, file, "version: 1\nlists: {a: [1]}\n")
		for range 3 * debouncesMost {
			events <- fsnotify.Event{Name: file, Op: fsnotify.Write}
			time.Sleep(DebounceDefault / 2)
		}
		expect(3, "while events go on for long")
		events <- fsnotify.Event{Name: file, Op: fsnotify.Chmod}
		close(events)
		write(t, file, "version: 1\nlists: {a: [2]}\n")
		time.Sleep(RehashDefault + time.Second)
		expect(4, "without any event")
	})
}

// TestWhatCounts: rule files, tables, what comes and goes; nothing else.
func TestWhatCounts(t *testing.T) {
	dir := t.TempDir()
	rulesDir := filepath.Join(dir, "rules")
	extra := filepath.Join(dir, "hosts.txt")
	write(t, filepath.Join(rulesDir, "a.yaml"), "a")
	steps := []struct {
		name   string
		change func()
		counts bool
	}{
		{"another rule file", func() { write(t, filepath.Join(rulesDir, "managed", "b.yml"), "b") }, true},
		{"a table", func() { write(t, filepath.Join(rulesDir, "lists.csv"), "ip\n") }, true},
		{"what rules name", func() { write(t, extra, "ip\n1.1.1.1\n") }, true},
		{"a note", func() { write(t, filepath.Join(rulesDir, "README.md"), "read") }, false},
		{"a hidden file", func() { write(t, filepath.Join(rulesDir, ".a.yaml.swp"), "x") }, false},
		{"nothing", func() {}, false},
		{"a file that goes", func() { _ = os.Remove(filepath.Join(rulesDir, "managed", "b.yml")) }, true},
		{"all that goes", func() { _ = os.RemoveAll(rulesDir) }, true},
		{"what comes back", func() { write(t, filepath.Join(rulesDir, "a.yaml"), "a") }, true},
	}
	calls := 0
	o := options()
	o.Named = func() []string { return []string{extra} }
	w := &watcher{paths: []string{rulesDir}, options: o, changed: func() { calls++ }}
	w.look()
	for _, s := range steps {
		before := calls
		s.change()
		if w.look(); (calls > before) != s.counts {
			t.Errorf("%s: called %t, want %t", s.name, calls > before, s.counts)
		}
	}
}

// TestWhatComesBackIsTold: of a file whose directory was deleted, and that of its parent too, the file system tells when all of it
// is there again.
func TestWhatComesBackIsTold(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "some", "rules", "a.yaml")
	write(t, file, "1")
	ctx, cancel := context.WithCancel(t.Context())
	called, done := make(chan struct{}, 100), make(chan error, 1)
	go func() {
		done <- Watch(ctx, []string{file}, Options{Debounce: 20 * time.Millisecond, Rehash: time.Hour}, func() { called <- struct{}{} })
	}()
	defer func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("watch: %v", err)
		}
	}()
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"the beginning", func() {}},
		{"what went", func() { _ = os.RemoveAll(filepath.Join(dir, "some")) }},
		{"what came back", func() { write(t, file, "2") }},
		{"a change", func() { write(t, file, "3") }},
	} {
		step.do()
		select {
		case <-called:
		case <-time.After(time.Minute):
			t.Fatalf("nothing was told of %s", step.name)
		}
	}
}

// TestTheFileSystemTells: the real thing, with a directory that is replaced and a symbolic link that is turned, as deployments
// do. Looking at intervals is out of the question here.
func TestTheFileSystemTells(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	rulesDir := filepath.Join(dir, "rules")
	write(t, filepath.Join(rulesDir, "a.yaml"), "1")
	ctx, cancel := context.WithCancel(t.Context())
	called := make(chan struct{}, 100)
	done := make(chan error, 1)
	go func() {
		done <- Watch(ctx, []string{rulesDir}, Options{Debounce: 20 * time.Millisecond, Rehash: time.Hour}, func() { called <- struct{}{} })
	}()
	defer func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("watch: %v", err)
		}
	}()
	expect := func(what string) {
		t.Helper()
		select {
		case <-called:
		case <-time.After(time.Minute):
			t.Fatalf("nothing was told of %s", what)
		}
	}
	expect("the beginning")
	write(t, filepath.Join(rulesDir, "a.yaml"), "2")
	expect("a file written")
	write(t, filepath.Join(rulesDir, "deep", "down", "b.yaml"), "3")
	expect("a directory made")
	if err := os.Rename(rulesDir, rulesDir+".old"); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(rulesDir, "a.yaml"), "4")
	expect("a directory replaced")
	for len(called) > 0 { // it may have been seen while it was away
		<-called
	}
	write(t, filepath.Join(rulesDir, "a.yaml"), "5")
	expect("a file in the new directory")

	for _, v := range []string{"v1", "v2"} {
		write(t, filepath.Join(rulesDir, "..data."+v, "c.yaml"), v)
	}
	link := func(v string) {
		t.Helper()
		if err := os.Symlink("..data."+v, filepath.Join(rulesDir, "..tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(rulesDir, "..tmp"), filepath.Join(rulesDir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	link("v1")
	if err := os.Symlink(filepath.Join("..data", "c.yaml"), filepath.Join(rulesDir, "c.yaml")); err != nil {
		t.Fatal(err)
	}
	expect("a link made")
	link("v2")
	expect("a link turned")
}
