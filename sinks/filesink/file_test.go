//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filesink_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/filesink"
	"github.com/cepd/cepd/sinks/sinktest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// file is a file sink and where it stands, for tests that do one thing after the other.
type file struct {
	t    *testing.T
	path string
	k    *filesink.Sink
	at   sinks.Progress
}

func newFile(t *testing.T) *file {
	f := &file{t: t, path: filepath.Join(t.TempDir(), "alerts.jsonl")}
	f.start()
	f.at.Lineage = 1
	if err := f.k.Begin(t.Context(), f.at); err != nil {
		t.Fatal(err)
	}
	return f
}

// start opens the sink anew, as a process that starts does.
func (f *file) start() {
	f.t.Helper()
	f.k = newSink(f.t, f.path)
	at, err := f.k.Open(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if at != f.at {
		f.t.Fatalf("opened at %+v, want %+v", at, f.at)
	}
}

// publish publishes n more messages.
func (f *file) publish(n int) []sinks.Message {
	f.t.Helper()
	messages := sinktest.Messages(f.at, n, "a")
	if err := f.try(messages); err != nil {
		f.t.Fatal(err)
	}
	return messages
}

func (f *file) try(messages []sinks.Message) error {
	b := sinks.Batch{Base: f.at, Messages: messages}
	_, err := f.k.Publish(f.t.Context(), b)
	if err == nil {
		f.at = b.End()
	}
	return err
}

func (f *file) want(path string, parts ...[]sinks.Message) {
	f.t.Helper()
	var want []string
	for _, p := range parts {
		for i := range p {
			want = append(want, string(p[i].Body))
		}
	}
	if d := cmp.Diff(want, lines(f.t, path)); d != "" {
		f.t.Fatalf("%s (-want +got):\n%.3000s", filepath.Base(path), d)
	}
}

func (f *file) write(path, text string) {
	f.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		f.t.Fatal(err)
	}
}

func (f *file) rename(to string) {
	f.t.Helper()
	if err := os.Rename(f.path, to); err != nil {
		f.t.Fatal(err)
	}
}

func (f *file) add(path, text string) {
	f.t.Helper()
	w, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := w.WriteString(text); err != nil {
		f.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		f.t.Fatal(err)
	}
}

func TestRotation(t *testing.T) {
	t.Run("moved away", func(t *testing.T) {
		f := newFile(t)
		first := f.publish(3)
		f.rename(f.path + ".1")
		second := f.publish(2)
		f.want(f.path+".1", first)
		f.want(f.path, second)
		f.start()
		third := f.publish(1)
		f.want(f.path, second, third)
	})
	t.Run("moved away and made anew", func(t *testing.T) {
		f := newFile(t)
		first := f.publish(3)
		f.rename(f.path + ".1")
		f.write(f.path, "")
		second := f.publish(2)
		f.want(f.path+".1", first)
		f.want(f.path, second)
	})
	t.Run("a probe notices", func(t *testing.T) {
		f := newFile(t)
		f.publish(3)
		f.rename(f.path + ".1")
		f.publish(0)
		f.want(f.path)
		if _, err := os.Stat(f.path); err != nil {
			t.Error(err)
		}
	})
	t.Run("while nobody looks", func(t *testing.T) {
		f := newFile(t)
		first := f.publish(3)
		rest := sinktest.Messages(f.at, 3, "a")
		f.add(f.path, string(rest[0].Body)+"\n"+string(rest[1].Body)[:5]) // a crash in the middle of a batch
		f.rename(filepath.Join(filepath.Dir(f.path), "alerts-20261129.jsonl"))
		f.start()
		if err := f.try(rest); err != nil {
			t.Fatal(err)
		}
		f.want(filepath.Join(filepath.Dir(f.path), "alerts-20261129.jsonl"), first)
		f.want(f.path, rest)
	})
	for _, made := range []bool{false, true} {
		t.Run(fmt.Sprintf("a file that was only begun, made anew %v", made), func(t *testing.T) {
			f := newFile(t)
			first := f.publish(3)
			f.rename(f.path + ".1")
			f.publish(0) // a new file is begun, and holds nothing
			rest := sinktest.Messages(f.at, 3, "a")
			f.add(f.path, string(rest[0].Body)+"\n"+string(rest[1].Body)[:5]) // a crash in the middle of its first batch
			f.rename(f.path + ".2")
			f.write(f.path+".3.gz", "\x1f\x8b\x00\x00")
			if made {
				f.write(f.path, "")
			}
			f.start()
			if err := f.try(rest); err != nil {
				t.Fatal(err)
			}
			f.want(f.path+".1", first)
			f.want(f.path + ".2")
			f.want(f.path, rest)
			if b, err := os.ReadFile(f.path + ".3.gz"); err != nil || len(b) != 4 {
				t.Errorf("a file of somebody else is %q now, %v", b, err)
			}
		})
	}
	t.Run("a job that begins anew leaves what was put aside", func(t *testing.T) {
		f := newFile(t)
		first := f.publish(3)
		for _, name := range []string{f.path + ".position", f.path} {
			if err := os.Rename(name, strings.Replace(name, "alerts", "alerts-before", 1)); err != nil {
				t.Fatal(err)
			}
		}
		f.at = sinks.Progress{}
		f.start()
		f.at.Lineage = 1
		if err := f.k.Begin(t.Context(), f.at); err != nil {
			t.Fatal(err)
		}
		if err := f.try(first); err != nil {
			t.Fatal(err)
		}
		f.want(f.path, first)
		f.want(strings.Replace(f.path, "alerts", "alerts-before", 1), first)
	})
	t.Run("copied and emptied", func(t *testing.T) {
		f := newFile(t)
		f.publish(3)
		if err := os.Truncate(f.path, 0); err != nil {
			t.Fatal(err)
		}
		second := f.publish(2)
		f.want(f.path, second)
		if err := os.Truncate(f.path, 0); err != nil {
			t.Fatal(err)
		}
		f.start()
		third := f.publish(2)
		f.want(f.path, third)
	})
	t.Run("removed", func(t *testing.T) {
		f := newFile(t)
		f.publish(3)
		if err := os.Remove(f.path); err != nil {
			t.Fatal(err)
		}
		second := f.publish(2)
		f.want(f.path, second)
		if err := os.Remove(f.path); err != nil {
			t.Fatal(err)
		}
		f.start()
		third := f.publish(2)
		f.want(f.path, third)
	})
}

// TestWhatStandsThereStays: a file that was there before the sink is continued, on a line of its own.
func TestWhatStandsThereStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alerts.jsonl")
	f := &file{t: t, path: path}
	f.write(path, "{\"old\":1}\n{\"old\":2}")
	f.start()
	f.at.Lineage = 1
	if err := f.k.Begin(t.Context(), f.at); err != nil {
		t.Fatal(err)
	}
	new := f.publish(1)
	want := []string{`{"old":1}`, `{"old":2}`, string(new[0].Body)}
	if d := cmp.Diff(want, lines(t, path)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// The same where it came with a rotation, and something stands there already.
	f.rename(path + ".1")
	f.write(path, "{\"new\":1}\n")
	more := f.publish(1)
	if d := cmp.Diff([]string{`{"new":1}`, string(more[0].Body)}, lines(t, path)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	f.rename(path + ".2")
	f.publish(0)
	f.add(path, "{\"new\":2}\n") // before anything of ours
	f.start()
	more = f.publish(1)
	if d := cmp.Diff([]string{`{"new":2}`, string(more[0].Body)}, lines(t, path)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestCrashRemains: what a crash leaves behind the recorded length is written over, and cut where it is blank.
func TestCrashRemains(t *testing.T) {
	for name, tail := range map[string]func(text string) string{
		"nothing":           func(string) string { return "" },
		"half a line":       func(s string) string { return s[:7] },
		"some lines":        func(s string) string { return s[:strings.IndexByte(s, '\n')+5] },
		"all lines":         func(s string) string { return s },
		"blanks":            func(string) string { return strings.Repeat("\x00", 5000) },
		"a page, then none": func(s string) string { return s[:12] + strings.Repeat("\x00", 100) },
		"blanks, then more": func(s string) string { return strings.Repeat("\x00", 30) + s[30:] },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFile(t)
			first := f.publish(2)
			rest := sinktest.Messages(f.at, 4, "a")
			var text strings.Builder
			for i := range rest {
				text.WriteString(string(rest[i].Body) + "\n")
			}
			f.add(f.path, tail(text.String()))
			f.start()
			// In smaller batches than the one that was cut off.
			if err := f.try(rest[:1]); err != nil {
				t.Fatal(err)
			}
			if err := f.try(rest[1:]); err != nil {
				t.Fatal(err)
			}
			f.want(f.path, first, rest)
		})
	}
}

func wantDiverged(t *testing.T, err error, words ...string) {
	t.Helper()
	e, ok := errors.AsType[*sinks.DivergedError](err)
	if !ok {
		t.Fatalf("%v, want that it stops", err)
	}
	for _, w := range words {
		if !strings.Contains(e.Error(), w) {
			t.Errorf("%q does not say %q", e, w)
		}
	}
}

// TestStrangers: whoever else writes into the file stops the sink, and loses nothing.
func TestStrangers(t *testing.T) {
	for name, change := range map[string]struct {
		do   func(f *file)
		word string
	}{
		"a line behind ours": {func(f *file) { f.add(f.path, "{\"who\":1}\n") }, "somebody else has written 10 bytes"},
		"cut": {func(f *file) {
			if err := os.Truncate(f.path, 10); err != nil {
				f.t.Fatal(err)
			}
		}, "holds 10 bytes"},
		"edited in place": {func(f *file) {
			b, err := os.ReadFile(f.path)
			if err != nil {
				f.t.Fatal(err)
			}
			b[len(b)-3] ^= 1
			f.write(f.path, string(b))
		}, "not there any more"},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				f := newFile(t)
				f.publish(3)
				change.do(f)
				before, err := os.ReadFile(f.path)
				if err != nil {
					t.Fatal(err)
				}
				if restart {
					f.k = newSink(t, f.path)
					if _, err := f.k.Open(t.Context()); err != nil {
						wantDiverged(t, err, change.word)
						return
					}
				}
				wantDiverged(t, f.try(sinktest.Messages(f.at, 2, "a")), change.word, "move")
				after, err := os.ReadFile(f.path)
				if err != nil || string(after) != string(before) {
					t.Errorf("it was %q and is %q, %v", before, after, err)
				}
				// What the message says helps.
				f.rename(f.path + ".strange")
				f.start()
				more := f.publish(1)
				f.want(f.path, more)
				after, err = os.ReadFile(f.path + ".strange")
				if err != nil || string(after) != string(before) {
					t.Errorf("moved away it was %q and is %q, %v", before, after, err)
				}
			})
		}
	}
}

func TestOwner(t *testing.T) {
	f := newFile(t)
	f.publish(1)
	k, err := filesink.New(filesink.Config{Path: f.path, Owner: "other/out"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	for name, call := range map[string]func(context.Context) (sinks.Progress, error){"peek": k.Peek, "open": k.Open} {
		if _, err := call(t.Context()); !errors.Is(err, sinks.ErrStop) || !strings.Contains(err.Error(), `"job/out"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.publish(1) // and the owner goes on
	if _, err := filesink.New(filesink.Config{Path: f.path, Owner: strings.Repeat("x", 5000)}); err == nil {
		t.Error("a name that no position can hold")
	}
	if _, err := filesink.New(filesink.Config{Path: t.TempDir(), Owner: "job/out"}); err == nil {
		t.Error("a folder")
	}
}

// TestPositionIsGone: nobody owns the file then; the publisher opens it again and finds out what to do.
func TestPositionIsGone(t *testing.T) {
	f := newFile(t)
	f.publish(2)
	if err := os.Remove(f.path + ".position"); err != nil {
		t.Fatal(err)
	}
	err := f.try(sinktest.Messages(f.at, 1, "a"))
	if e, ok := errors.AsType[*sinks.FencedError](err); !ok || !e.Forgotten {
		t.Fatalf("publish: %v", err)
	}
	if at, err := newSink(t, f.path).Peek(t.Context()); err != nil || at != (sinks.Progress{}) {
		t.Errorf("peek: %+v, %v", at, err)
	}
	if _, err := os.Stat(f.path + ".position"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a peek made the position: %v", err)
	}
	at, err := f.k.Open(t.Context())
	if err != nil || at != (sinks.Progress{}) {
		t.Errorf("open: %+v, %v", at, err)
	}
}

// TestPeekTouchesNothing: no file is made or changed, whether one is there or not.
func TestPeekTouchesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "alerts.jsonl")
	if at, err := newSink(t, path).Peek(t.Context()); err != nil || at != (sinks.Progress{}) {
		t.Errorf("peek: %+v, %v", at, err)
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
		t.Errorf("a peek made %v, %v", made, err)
	}
	f := newFile(t)
	f.publish(3)
	before, err := os.ReadFile(f.path + ".position")
	if err != nil {
		t.Fatal(err)
	}
	if at, err := newSink(t, f.path).Peek(t.Context()); err != nil || at != f.at {
		t.Errorf("peek: %+v, %v, want %+v", at, err, f.at)
	}
	if now, err := os.ReadFile(f.path + ".position"); err != nil || !bytes.Equal(now, before) {
		t.Errorf("a peek changed the position: %v", err)
	}
}

// TestDamagedPosition: one slot that is torn is a crash, two are damage.
func TestDamagedPosition(t *testing.T) {
	f := newFile(t)
	first := f.publish(2)
	name := f.path + ".position"
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole) != 8192 {
		t.Fatalf("%d bytes", len(whole))
	}
	torn := 0
	for slot := range 2 {
		b := []byte(string(whole))
		copy(b[slot*4096+20:], "torn")
		f.write(name, string(b))
		k := newSink(t, f.path)
		at, err := k.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if at != f.at {
			torn++
		}
		f.write(name, string(whole))
	}
	if torn != 1 {
		t.Errorf("%d of 2 slots hold the newest position", torn)
	}
	// With the older position the same messages come again, and are there already.
	f.start()
	f.want(f.path, first)
	f.write(name, strings.Repeat("\x00", 8192))
	k := newSink(t, f.path)
	for name, call := range map[string]func(context.Context) (sinks.Progress, error){"peek": k.Peek, "open": k.Open} {
		if _, err := call(t.Context()); !errors.Is(err, sinks.ErrStop) || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPositionFixture: a position that version 1 has written is read for ever, and a newer one refused.
func TestPositionFixture(t *testing.T) {
	if *update {
		f := newFile(t)
		for _, m := range sinktest.Messages(f.at, 2, "fixture") {
			if err := f.try([]sinks.Message{m}); err != nil {
				t.Fatal(err)
			}
		}
		for from, to := range map[string]string{f.path: "alerts-1.jsonl", f.path + ".position": "position-1.jsonl"} {
			b, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			f.write(filepath.Join("testdata", to), string(b))
		}
	}
	fixture, err := os.ReadFile(filepath.Join("testdata", "position-1.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join("testdata", "alerts-1.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "alerts.jsonl")
	f := &file{t: t, path: path}
	f.write(path, string(data))
	f.write(path+".position", string(fixture))
	base := sinks.Progress{Lineage: 1}
	messages := sinktest.Messages(base, 2, "fixture")
	f.at = sinks.Progress{Lineage: 1, Sequence: 2, Chain: messages[1].Chain}
	f.start()
	more := f.publish(1)
	f.want(path, messages, more)

	newer := strings.ReplaceAll(string(fixture), `"version":1,`, `"version":2,`)
	newer = resum(newer)
	f.write(path+".position", newer)
	k := newSink(t, path)
	if _, err := k.Open(t.Context()); !errors.Is(err, sinks.ErrStop) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("open of a newer version: %v", err)
	}
}

// resum puts the right checksums into slots that were changed.
func resum(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		body, _, ok := strings.Cut(line, `,"crc":"`)
		if ok {
			sum := crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli))
			body = fmt.Sprintf(`%s,"crc":"%08x"}`, body, sum)
		}
		fmt.Fprintf(&b, "%-*s\n", len(line)-1, strings.TrimRight(body, "\n"))
	}
	return b.String()
}

// TestInTheMiddleOfACall: an instance that was stopped there keeps the lock, and the other one says who.
func TestInTheMiddleOfACall(t *testing.T) {
	f := newFile(t)
	f.publish(1)
	held, err := os.OpenFile(f.path+".position", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	k := newSink(t, f.path)
	for name, call := range map[string]func(context.Context) (sinks.Progress, error){"peek": k.Peek, "open": k.Open} {
		if _, err := call(t.Context()); err == nil || sinks.Permanent(err) || !strings.Contains(err.Error(), "locked by process") {
			t.Fatalf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Open(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if at, err := k.Open(t.Context()); err != nil || at != f.at {
		t.Errorf("open: %+v, %v", at, err)
	}
}

// TestLineEnds: a message with line ends between the parts of its JSON is still one line.
func TestLineEnds(t *testing.T) {
	f := newFile(t)
	m := sinktest.Message(1, "a", []byte("{\n  \"a\": \"x\\ny\",\r\n  \"b\": 2\n}"))
	messages := []sinks.Message{m}
	sinktest.Chain(f.at, messages)
	if err := f.try(messages); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{`{   "a": "x\ny",    "b": 2 }`}, lines(t, f.path)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestNoRoom runs a child that may write no file above a limit: one for the tests' own process would hold for what the
// testing package writes too.
func TestNoRoom(t *testing.T) {
	if os.Getenv("CEPD_TEST_NO_ROOM") != "" {
		fillUp(t)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestNoRoom$", "-test.v")
	child.Env = append(os.Environ(), "CEPD_TEST_NO_ROOM=1")
	if out, err := child.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS: TestNoRoom")) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// fillUp: a disk that is full fails the call, in the middle of a line, and once there is room the call is repeated.
func fillUp(t *testing.T) {
	f := newFile(t)
	first := f.publish(3)
	info, err := os.Stat(f.path)
	if err != nil {
		t.Fatal(err)
	}
	rest := sinktest.Messages(f.at, 4000, "a") // more than one write
	const limit = 70 << 10
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	err = f.try(rest)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EFBIG) || sinks.Permanent(err) {
		t.Fatalf("publish: %v", err)
	}
	if full, err := os.Stat(f.path); err != nil || full.Size() != limit || full.Size() <= info.Size() {
		t.Fatalf("the file holds %d bytes, %v", full.Size(), err)
	}
	if err := f.try(rest); err != nil {
		t.Fatal(err)
	}
	f.want(f.path, first, rest)
}

// TestFullDisk: a publisher waits for room on a disk that is full from the first alert on, and publishes everything then. Where
// nothing may be mounted, TestNoRoom has shown the same by a limit of the process.
func TestFullDisk(t *testing.T) {
	folder := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder).CombinedOutput(); err != nil {
		t.Logf("no tmpfs can be mounted here (%v: %s): TestNoRoom alone stands for a full disk", err, bytes.TrimSpace(out))
		return
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", folder).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	path := filepath.Join(folder, "alerts.jsonl")
	o := &sinktest.Outbox{}
	k := newSink(t, path)
	p := sinks.NewPublisher(sinks.PublisherConfig{Name: "out", Sink: k, Outbox: o})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("run: %v", err)
		}
		if err := k.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	first := sinktest.Messages(sinks.Progress{}, 3, "a")
	o.Commit(first...)
	p.Wake()
	if err := p.Drained(ctx); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(folder, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o666); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill: %v", err)
	}
	rest := sinktest.Messages(o.Range().Last, 2000, "a")
	o.Commit(rest...)
	p.Wake()
	for p.Status().Attempts < 3 {
		select {
		case <-ctx.Done():
			t.Fatalf("it is not noticed: %+v", p.Status())
		case <-time.After(5 * time.Millisecond):
		}
	}
	if s := p.Status(); !strings.Contains(s.Error, "no space left") || s.Published.Sequence != 3 {
		t.Errorf("%+v", s)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := p.Drained(ctx); err != nil {
		t.Fatal(err)
	}
	f := &file{t: t}
	f.want(path, first, rest)
}
