package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep/source"
)

// Running is a source of a running job under test, with one partition.
type Running struct {
	// Open makes the source over what was appended so far, as a process does that is started again.
	Open func(t *testing.T) source.Source
	// Append adds records where the source finds them, each a JSON object.
	Append func(t *testing.T, records ...string)
	// End says that nothing more will come, in this process at least; nil: the source has no end, which is then not checked.
	End func(t *testing.T)
	// Shut gives up what Open holds beside the source; nil: nothing.
	Shut func(t *testing.T)

	pace pace
}

// pace is how time passes for the checks.
type pace struct {
	// quiet is how long nothing must happen for it not to, pause what lies between two steps of others.
	quiet, pause time.Duration
	// settle waits until what was begun is done.
	settle func()
}

// RunSource checks the promises of [source.Source] and of the readers that it finds, each in a test of its own with a
// place of its own, which start prepares. Time is that of testing/synctest.
func RunSource(t *testing.T, start func(t *testing.T) Running) {
	for name, check := range checks() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t)
				s.pace = pace{quiet: within, pause: time.Minute, settle: synctest.Wait}
				check(t, s)
			})
		})
	}
}

// RunRealSource is RunSource for a source that waits for something outside of the process. Its checks run side by side, and
// take some seconds.
func RunRealSource(t *testing.T, start func(t *testing.T) Running) {
	for name, check := range checks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			const quiet = 700 * time.Millisecond // longer than a broker holds a question that it has no answer to
			s.pace = pace{quiet: quiet, pause: quiet / 7, settle: func() { time.Sleep(quiet) }}
			check(t, s)
		})
	}
}

func checks() map[string]func(*testing.T, Running) {
	return map[string]func(*testing.T, Running){
		"finds what is there":       findsAll,
		"finds what comes":          findsLater,
		"waits for more":            waits,
		"survives cancellation":     survives,
		"goes on where it was":      goesOn,
		"seeks":                     seeksRunning,
		"begins at the end":         beginsAtEnd,
		"ends":                      ends,
		"closes":                    closesRunning,
		"gives up when it is asked": givesUp,
	}
}

// within is how long anything may take that is to happen.
const within = 5 * time.Minute

// life is a source that is watched.
type life struct {
	t      *testing.T
	source source.Source
	shut   func(*testing.T)
	cancel context.CancelFunc
	ended  chan error

	mu      sync.Mutex
	found   []source.Reader
	ready   int
	trouble error
	changed chan struct{}
}

func (r Running) live(t *testing.T, known ...string) *life {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{t: t, source: r.Open(t), shut: r.Shut, cancel: cancel, ended: make(chan error, 1), changed: make(chan struct{}, 1)}
	go func() { l.ended <- l.source.Watch(ctx, known, l) }()
	return l
}

// die ends it as a process ends.
func (l *life) die() {
	l.t.Helper()
	l.cancel()
	if err := <-l.ended; err != nil && !errors.Is(err, context.Canceled) {
		l.t.Errorf("watch: %v", err)
	}
	for _, r := range l.found {
		if err := r.Close(); err != nil {
			l.t.Errorf("close a reader: %v", err)
		}
	}
	if err := l.source.Close(); err != nil {
		l.t.Errorf("close: %v", err)
	}
	if l.shut != nil {
		l.shut(l.t)
	}
}

// Found implements [source.Discovery].
func (l *life) Found(r source.Reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found = append(l.found, r)
	l.signal()
}

// Ready implements [source.Discovery].
func (l *life) Ready() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready++
	l.signal()
}

// Trouble implements [source.Discovery].
func (l *life) Trouble(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trouble = err
}

func (l *life) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// until waits for what done sees under the lock.
func (l *life) until(what string, done func() bool) {
	l.t.Helper()
	limit := time.After(within)
	for {
		l.mu.Lock()
		ok, trouble := done(), l.trouble
		l.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-l.changed:
		case <-limit:
			l.t.Fatalf("%s: not within %v (trouble: %v)", what, within, trouble)
		}
	}
}

// reader waits for the one partition.
func (l *life) reader() source.Reader {
	l.t.Helper()
	l.until("a partition", func() bool { return len(l.found) > 0 })
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.found) > 1 {
		l.t.Fatalf("%d partitions", len(l.found))
	}
	return l.found[0]
}

// read takes the next n records.
func read(t *testing.T, r source.Reader, n int) (records []string, offsets []int64) {
	t.Helper()
	for range n {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		rec, err := r.Next(ctx)
		cancel()
		if err != nil {
			t.Fatalf("record %d of %d: %v", len(records), n, err)
		}
		records = append(records, string(rec.Data))
		offsets = append(offsets, rec.Offset)
	}
	return records, offsets
}

// silent checks that nothing comes.
func (p pace) silent(t *testing.T, r source.Reader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), p.quiet)
	defer cancel()
	if rec, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("where nothing is left: %q, %v", rec.Data, err)
	}
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// batch is n records that differ from those of other batches.
func batch(from, n int) (records []string) {
	for i := range n {
		records = append(records, fmt.Sprintf(`{"n":%d,"text":"some words to fill the line, number %[1]d"}`, from+i))
	}
	return records
}

func findsAll(t *testing.T, s Running) {
	want := batch(0, 30)
	s.Append(t, want...)
	l := s.live(t)
	defer l.die()
	l.until("ready", func() bool { return l.ready > 0 })
	l.mu.Lock()
	n := len(l.found)
	l.mu.Unlock()
	if n != 1 {
		t.Fatalf("%d partitions when ready", n)
	}
	r := l.reader()
	if r.Partition() == nil || r.Name() == "" {
		t.Errorf("partition %v, name %q", r.Partition(), r.Name())
	}
	got, offsets := read(t, r, len(want))
	same(t, "records", want, got)
	for i := range offsets {
		if offsets[i] < 0 || i > 0 && offsets[i] <= offsets[i-1] {
			t.Errorf("offsets %v", offsets)
			break
		}
	}
	if done, total := r.Progress(); done <= 0 || total >= 0 && done > total {
		t.Errorf("progress: %d of %d", done, total)
	}
	time.Sleep(s.pace.quiet)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ready != 1 || len(l.found) != 1 || l.trouble != nil {
		t.Errorf("ready %d times, %d partitions, trouble: %v", l.ready, len(l.found), l.trouble)
	}
}

func findsLater(t *testing.T, s Running) {
	l := s.live(t)
	defer l.die()
	l.until("ready", func() bool { return l.ready > 0 })
	want := batch(0, 3)
	s.Append(t, want...)
	got, _ := read(t, l.reader(), len(want))
	same(t, "records", want, got)
}

func waits(t *testing.T, s Running) {
	want := batch(0, 20)
	s.Append(t, want[:5]...)
	l := s.live(t)
	defer l.die()
	r := l.reader()
	got, _ := read(t, r, 5)
	for i := 5; i < len(want); i += 5 {
		s.pace.silent(t, r)
		go func() {
			time.Sleep(s.pace.pause)
			s.Append(t, want[i:i+5]...)
		}()
		more, _ := read(t, r, 5)
		got = append(got, more...)
	}
	same(t, "records", want, got)
	s.pace.silent(t, r)
}

func survives(t *testing.T, s Running) {
	want := batch(0, 2)
	s.Append(t, want[:1]...)
	l := s.live(t)
	defer l.die()
	r := l.reader()
	read(t, r, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := r.Next(ctx)
		done <- err
	}()
	s.pace.settle()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a Next that waited and was cancelled: %v", err)
	}
	if _, err := r.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a Next that is cancelled before: %v", err)
	}
	s.Append(t, want[1:]...)
	got, _ := read(t, r, 1)
	same(t, "the record behind it", want[1:], got)
}

// goesOn stops after each number of records and goes on in another life, where more has come meanwhile.
func goesOn(t *testing.T, s Running) {
	want := batch(0, 8)
	s.Append(t, want[:4]...)
	l := s.live(t)
	first := l.reader()
	name := first.Partition().Name
	_, all := read(t, first, 4)
	l.die()
	s.Append(t, want[4:]...)
	for i := range all {
		l := s.live(t, "another", name)
		r := l.reader()
		if r.Partition().Name != name {
			t.Errorf("partition %q, then %q", name, r.Partition().Name)
		}
		if err := r.SeekTo(all[i]); err != nil {
			t.Fatal(err)
		}
		got, at := read(t, r, len(want)-i)
		same(t, "records", want[i:], got)
		same(t, "offsets", all[i:], at[:len(all)-i])
		s.pace.silent(t, r)
		l.die()
	}
	// Behind the last record that was read in the first life.
	l = s.live(t, name)
	r := l.reader()
	if err := r.SeekTo(all[3] + 1); err != nil {
		t.Fatal(err)
	}
	got, _ := read(t, r, len(want)-4)
	same(t, "records behind those of the first life", want[4:], got)
	l.die()
}

func seeksRunning(t *testing.T, s Running) {
	want := batch(0, 12)
	s.Append(t, want...)
	l := s.live(t)
	defer l.die()
	r := l.reader()
	_, offsets := read(t, r, len(want))
	for _, back := range []int{11, 0, 5, 6, 2} {
		if err := r.SeekTo(offsets[back]); err != nil {
			t.Fatal(err)
		}
		got, at := read(t, r, len(want)-back)
		same(t, "records", want[back:], got)
		same(t, "offsets", offsets[back:], at)
	}
	s.pace.silent(t, r)
	for _, behind := range []int{3, 10, 0} {
		if err := r.SeekTo(offsets[behind] + 1); err != nil {
			t.Fatal(err)
		}
		got, at := read(t, r, len(want)-behind-1)
		same(t, "records behind one", want[behind+1:], got)
		same(t, "offsets behind one", offsets[behind+1:], at)
	}
	if err := r.SeekTo(offsets[len(want)-1] + 1); err != nil {
		t.Fatal(err)
	}
	s.pace.silent(t, r)
	if err := r.SeekTo(0); err != nil {
		t.Fatal(err)
	}
	got, _ := read(t, r, 1)
	same(t, "the first record", want[:1], got)
}

func beginsAtEnd(t *testing.T, s Running) {
	want := batch(0, 6)
	s.Append(t, want[:3]...)
	l := s.live(t)
	r := l.reader()
	e, ok := r.(source.Ender)
	if !ok {
		l.die()
		t.Skip("the source does not know its end")
	}
	s.pace.settle() // what was appended may be on its way
	offset, err := e.SeekEnd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.pace.silent(t, r)
	s.Append(t, want[3:]...)
	got, at := read(t, r, 3)
	same(t, "records behind the end", want[3:], got)
	if at[0] < offset {
		t.Errorf("the record behind the end %d is at %d", offset, at[0])
	}
	name := r.Partition().Name
	l.die()
	l = s.live(t, name)
	defer l.die()
	r = l.reader()
	if err := r.SeekTo(offset); err != nil {
		t.Fatal(err)
	}
	got, again := read(t, r, 3)
	same(t, "records behind the end, in another life", want[3:], got)
	same(t, "their offsets", at, again)
}

func ends(t *testing.T, s Running) {
	if s.End == nil {
		return // it waits for more for ever, which other checks see
	}
	want := batch(0, 5)
	s.Append(t, want...)
	l := s.live(t)
	defer l.die()
	r := l.reader()
	_, offsets := read(t, r, 2)
	go func() {
		time.Sleep(s.pace.pause)
		s.End(t)
	}()
	got, _ := rest(t, r)
	same(t, "records up to the end", want[2:], got)
	if _, err := r.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("behind the end: %v", err)
	}
	if err := r.SeekTo(offsets[1]); err == nil { // a file may be gone by now
		if rec, err := r.Next(t.Context()); err == nil {
			same(t, "a record after the end and back", want[1], string(rec.Data))
		}
	}
}

func closesRunning(t *testing.T, s Running) {
	s.Append(t, batch(0, 3)...)
	for n := range 3 {
		l := s.live(t)
		r := l.reader()
		s.pace.settle() // what was appended may be on its way
		read(t, r, n)
		if err := r.Close(); err != nil {
			t.Errorf("close after %d records: %v", n, err)
		}
		l.die()
	}
}

func givesUp(t *testing.T, s Running) {
	l := s.live(t)
	l.until("ready", func() bool { return l.ready > 0 })
	l.die() // which waits for Watch
}
