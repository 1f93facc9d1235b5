package eventlog_test

import (
	"bytes"
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
	"github.com/cepd/cepd/cep/source/eventlog"
)

// finder is told of the one partition of a log.
type finder struct {
	mu      sync.Mutex
	reader  source.Reader
	trouble error
	ready   bool
}

func (f *finder) Found(r source.Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reader = r
}

func (f *finder) Ready() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = true
}

func (f *finder) Trouble(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = err
}

// newReader returns a reader of the log.
func newReader(l *eventlog.Log) (source.Reader, error) {
	f := &finder{}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := eventlog.NewSource(eventlog.SourceConfig{Log: l, Stream: "s", Partitions: source.NewPartitions("s")})
	if err := s.Watch(ctx, nil, f); !errors.Is(err, context.Canceled) || !f.ready {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return f.reader, nil
}

func readerOf(t testing.TB, l *eventlog.Log) source.Reader {
	t.Helper()
	r, err := newReader(l)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// next returns what comes next, which is there.
func next(r source.Reader) entry {
	rec, err := r.Next(context.Background())
	if bad, ok := errors.AsType[*source.RecordError](err); ok {
		return entry{Offset: bad.Position.Offset, Err: bad.Err.Error()}
	}
	if err != nil {
		return entry{Err: "end: " + err.Error()}
	}
	return entry{Data: string(rec.Data), Offset: rec.Offset}
}

// entry is what a reader gives: a record, or what is wrong.
type entry struct {
	Data   string
	Offset int64
	Err    string
}

// everything is what is in the log now.
func everything(t testing.TB, l *eventlog.Log) (all []entry) {
	t.Helper()
	r := readerOf(t, l)
	defer func() { _ = r.Close() }()
	end := l.Status().End
	// What waits for more is at the end.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		if len(all) > 0 && all[len(all)-1].Offset >= end {
			t.Fatalf("%+v is behind the end %d", all[len(all)-1], end)
		}
		done := make(chan struct{})
		var rec source.Record
		var err error
		go func() {
			defer close(done)
			rec, err = r.Next(ctx)
		}()
		for waiting := true; waiting; {
			select {
			case <-done:
				waiting = false
			case <-time.After(time.Millisecond):
				if read, total := r.Progress(); read == total {
					cancel()
				}
			}
		}
		bad, isBad := errors.AsType[*source.RecordError](err)
		switch {
		case isBad:
			all = append(all, entry{Offset: bad.Position.Offset, Err: bad.Err.Error()})
		case err == nil:
			all = append(all, entry{Data: string(rec.Data), Offset: rec.Offset})
		case errors.Is(err, context.Canceled), errors.Is(err, io.EOF):
			return all
		default:
			t.Fatal(err)
		}
	}
}

// texts are the records alone; a gap is a !.
func texts(all []entry) string {
	var b []string
	for _, e := range all {
		if e.Err != "" {
			b = append(b, "!")
		} else {
			b = append(b, e.Data)
		}
	}
	return strings.Join(b, " ")
}

func segments(t testing.TB, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Those who append at once share writes, and every one's events are there once, together, in its own order.
func TestGroups(t *testing.T) {
	const writers, times = 32, 20
	l := open(t, eventlog.Config{Dir: t.TempDir()})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range times {
				appendAll(t, l, fmt.Sprintf("%d/%d/a", w, i), fmt.Sprintf("%d/%d/b", w, i))
			}
		})
	}
	wg.Wait()
	s := l.Status()
	if s.Accepted != writers*times*2 || s.Groups >= writers*times {
		t.Errorf("%d events in %d writes", s.Accepted, s.Groups)
	}
	t.Logf("%d appends in %d writes", writers*times, s.Groups)
	at := map[string]int{}
	all := everything(t, l)
	for i := 0; i < len(all); i += 2 {
		w, rest, _ := strings.Cut(all[i].Data, "/")
		if want := fmt.Sprintf("%d/a", at[w]); rest != want {
			t.Fatalf("writer %s: %s, want %s", w, rest, want)
		}
		if want := fmt.Sprintf("%s/%d/b", w, at[w]); all[i+1].Data != want {
			t.Fatalf("%s, want %s", all[i+1].Data, want)
		}
		at[w]++
	}
	if len(all) != writers*times*2 {
		t.Errorf("%d records", len(all))
	}
	shut(t, l)
}

// An id counts once for as long as it is remembered: while the first event with it is on its way, behind it, after a
// restart, and after its segment has gone.
func TestIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := eventlog.Config{Dir: t.TempDir(), Max: eventlog.MaxMin, IDWindow: time.Hour}
		l := open(t, c)
		add := func(want string, ids ...string) {
			t.Helper()
			var events []eventlog.Event
			for _, id := range ids {
				events = append(events, eventlog.Event{Data: []byte(`{}`), ID: id})
			}
			a, err := l.Append(t.Context(), events)
			if got := fmt.Sprintf("%d %d %v", a.Accepted, a.Duplicates, err); got != want {
				t.Errorf("%v: %s, want %s", ids, got, want)
			}
		}
		add("2 1 <nil>", "a", "b", "a")
		add("1 1 <nil>", "b", "c")
		time.Sleep(40 * time.Minute)
		add("1 1 <nil>", "a", "d")
		shut(t, l)
		l = open(t, c)
		if r := l.Report(); r.IDs != 4 || r.Records != 4 {
			t.Errorf("%+v", r)
		}
		add("0 2 <nil>", "a", "d")
		// Fill some segments, and give the first ones up.
		for range 4 {
			appendAll(t, l, strings.Repeat("x", 700_000))
		}
		before := len(segments(t, c.Dir))
		if err := l.Trim(l.Status().End); err != nil {
			t.Fatal(err)
		}
		if n := len(segments(t, c.Dir)); n != 1 || before < 4 {
			t.Errorf("%d segments, then %d", before, n)
		}
		for range 2 {
			add("0 2 <nil>", "a", "d")
			shut(t, l)
			l = open(t, c)
		}
		time.Sleep(30 * time.Minute)
		add("1 1 <nil>", "a", "d") // a was seen 70 minutes ago, d 30
		time.Sleep(31 * time.Minute)
		shut(t, l)
		l = open(t, c)
		add("1 1 <nil>", "a", "d")
		shut(t, l)
	})
}

func TestIDsAreBounded(t *testing.T) {
	l := open(t, eventlog.Config{Dir: t.TempDir(), IDsMax: 10})
	for i := range 30 {
		if _, err := l.Append(t.Context(), []eventlog.Event{{Data: []byte("{}"), ID: fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if s := l.Status(); s.Forgotten < 18 || s.Forgotten > 20 {
		t.Errorf("%d ids were forgotten", s.Forgotten)
	}
	a, err := l.Append(t.Context(), []eventlog.Event{{ID: "29"}, {ID: "2"}})
	if err != nil || a.Accepted != 1 || a.Duplicates != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	shut(t, l)
}

// A log that is full takes nothing until something has been trimmed; what the reader has not read stays.
func TestFull(t *testing.T) {
	l := open(t, eventlog.Config{Dir: t.TempDir(), Max: eventlog.MaxMin})
	event := []eventlog.Event{{Data: bytes.Repeat([]byte("x"), 100_000)}}
	n := 0
	var err error
	for ; err == nil; n++ {
		s := l.Status()
		if crowded := l.Crowded(s.End); crowded != (s.Bytes > s.Max/2) || l.Crowded(0) {
			t.Fatalf("with %d of %d bytes it is crowded: %v, and before its first record: %v", s.Bytes, s.Max, crowded, l.Crowded(0))
		}
		_, err = l.Append(t.Context(), event)
	}
	s := l.Status()
	if n--; !errors.Is(err, eventlog.ErrFull) || s.Bytes > s.Max || s.Bytes < s.Max-200_000 || s.Full != 1 {
		t.Errorf("%v after %d: %+v", err, n, s)
	}
	all := everything(t, l)
	if len(all) != n {
		t.Errorf("%d records of %d", len(all), n)
	}
	if err := l.Trim(all[n/2].Offset); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), event); err != nil {
		t.Error(err)
	}
	rest := everything(t, l)
	if first := l.Status().First; len(rest) == 0 || rest[0].Offset != first || first > all[n/2].Offset || first == 0 {
		t.Errorf("the first record is at %d", first)
	}
	if d := cmp.Diff(all[n-len(rest)+1:], rest[:len(rest)-1]); d != "" {
		t.Error(d)
	}
	r := readerOf(t, l)
	if err := r.SeekTo(all[1].Offset); !errors.Is(err, eventlog.ErrTrimmed) {
		t.Errorf("seek to what is trimmed: %v", err)
	}
	if err := r.SeekTo(l.Status().End + 1); !errors.Is(err, eventlog.ErrGone) {
		t.Errorf("seek behind the end: %v", err)
	}
	if _, err := l.Append(t.Context(), []eventlog.Event{{Data: make([]byte, eventlog.MaxMin/2)}}); !errors.Is(err, source.ErrTooLarge) {
		t.Errorf("more than the log takes at once: %v", err)
	}
	if _, err := l.Append(t.Context(), []eventlog.Event{{ID: strings.Repeat("x", 256)}}); err == nil || !strings.Contains(err.Error(), "id of 256") {
		t.Errorf("a long id: %v", err)
	}
	shut(t, l)
}

func TestOwner(t *testing.T) {
	c := eventlog.Config{Dir: t.TempDir()}
	l := open(t, c)
	_, err := eventlog.Open(c)
	if !errors.Is(err, eventlog.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("a second owner: %v", err)
	}
	r := readerOf(t, l)
	shut(t, l)
	shut(t, l)
	if _, err := r.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a reader of a closed log: %v", err)
	}
	if _, err := l.Append(t.Context(), nil); !errors.Is(err, eventlog.ErrEnded) {
		t.Errorf("append to a closed log: %v", err)
	}
	shut(t, open(t, c))
	if _, err := eventlog.Open(eventlog.Config{Dir: c.Dir, Max: 1000}); err == nil || !strings.Contains(err.Error(), "at least 4194304") {
		t.Error(err)
	}
}

// Who gives up waiting does not keep others from being written.
func TestGivenUp(t *testing.T) {
	l := open(t, eventlog.Config{Dir: t.TempDir()})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for i := range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%2 == 0 {
					cancel()
				}
				if _, err := l.Append(ctx, []eventlog.Event{{Data: []byte("{}")}}); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	appendAll(t, l, "last")
	all := everything(t, l)
	if n := len(all); n < 501 || n > 1001 || all[n-1].Data != "last" {
		t.Errorf("%d records", n)
	}
	shut(t, l)
}

// A job goes on in the log that it knows. One that takes its place is refused, unless the gap is accepted: then it has a
// name of its own.
func TestAnotherLog(t *testing.T) {
	dir := t.TempDir()
	names := func(l *eventlog.Log, accept bool, known ...string) (string, error) {
		f := &finder{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := eventlog.NewSource(eventlog.SourceConfig{Log: l, Stream: "s", Partitions: source.NewPartitions("s"), AcceptGap: accept})
		if err := s.Watch(ctx, known, f); f.reader == nil {
			return "", err
		}
		return f.reader.Partition().Name, nil
	}
	l := open(t, eventlog.Config{Dir: dir})
	appendAll(t, l, "a") // before anybody has named it
	if name, err := names(l, false, "00d2a5c1e9f0b3a7"); name != "1" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	if name, err := names(l, false, "1"); name != "1" || err != nil {
		t.Errorf("again: %q, %v", name, err)
	}
	appendAll(t, l, "b")
	shut(t, l)
	l = open(t, eventlog.Config{Dir: dir})
	if name, err := names(l, false, "1"); name != "1" || err != nil {
		t.Errorf("after a restart: %q, %v", name, err)
	}
	if got := texts(everything(t, l)); got != "a b" {
		t.Error(got)
	}
	shut(t, l)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it is refused as often as it is tried
		l = open(t, eventlog.Config{Dir: dir})
		appendAll(t, l, "c")
		if _, err := names(l, false, "1"); !errors.Is(err, eventlog.ErrGone) || !strings.Contains(err.Error(), "--accept-gap") {
			t.Errorf("the log is gone: %v", err)
		}
		shut(t, l)
	}
	l = open(t, eventlog.Config{Dir: dir})
	if name, err := names(l, true, "1"); name != "2" || err != nil {
		t.Errorf("accepted: %q, %v", name, err)
	}
	if name, err := names(l, false, "1", "2"); name != "2" || err != nil {
		t.Errorf("from then on: %q, %v", name, err)
	}
	if got := texts(everything(t, l)); got != "c c" {
		t.Error(got)
	}
	shut(t, l)
}

// What a clock does in small steps back is not believed, so that events arrive in their order.
func TestArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, eventlog.Config{Dir: t.TempDir()})
		start := time.Now()
		appendAll(t, l, "a")
		time.Sleep(time.Second)
		appendAll(t, l, "b")
		r := readerOf(t, l)
		for i, want := range []time.Time{start, start.Add(time.Second)} {
			rec, err := r.Next(t.Context())
			if err != nil || int64(rec.Arrived) != want.UnixNano() {
				t.Errorf("record %d arrived %v, %v", i, rec.Arrived, err)
			}
		}
		_ = r.Close()
		shut(t, l)
	})
}

// Lines that were read from standard input and found no room before the end are gone from there: it is said how many.
func TestPumpIsStopped(t *testing.T) {
	lines := strings.Repeat(strings.Repeat("z", 999)+"\n", 6000)
	for name, in := range map[string]io.Reader{
		"a file": strings.NewReader(lines),
		"a pipe": &lineThenSilence{text: lines, done: make(chan struct{})},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := open(t, eventlog.Config{Dir: t.TempDir(), Max: eventlog.MaxMin})
				f := &finder{}
				s := eventlog.NewSource(eventlog.SourceConfig{Log: l, Stream: "s", Partitions: source.NewPartitions("s"), Input: in})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- s.Watch(ctx, nil, f) }()
				time.Sleep(time.Minute)
				cancel()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				if f.trouble == nil || !strings.Contains(f.trouble.Error(), "lines that were read are lost") {
					t.Errorf("trouble: %v", f.trouble)
				}
				shut(t, l)
			})
		})
	}
}

// What comes on standard input while the log takes nothing waits, and is said.
func TestPump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, eventlog.Config{Dir: t.TempDir(), Max: eventlog.MaxMin})
		long := strings.Repeat("x", 5000)
		text := "a\r\n\n \nb\n" + long + "\nc\n" + strings.Repeat("y", 700_000) + "\nd\n" + "last"
		f := &finder{}
		s := eventlog.NewSource(eventlog.SourceConfig{
			Log: l, Stream: "s", Partitions: source.NewPartitions("s"), Input: strings.NewReader(text), MaxRecord: 1000,
		})
		if err := s.Watch(t.Context(), nil, f); err != nil {
			t.Fatal(err)
		}
		all := everything(t, l)
		if got := texts(all); got != "a b ! c ! d last" {
			t.Error(got)
		}
		for _, i := range []int{2, 4} {
			if !strings.Contains(all[i].Err, "record is too large") {
				t.Error(all[i].Err)
			}
		}
		shut(t, l)

		l = open(t, eventlog.Config{Dir: t.TempDir(), Max: eventlog.MaxMin})
		lines := strings.Repeat(strings.Repeat("z", 999)+"\n", 6000)
		s = eventlog.NewSource(eventlog.SourceConfig{Log: l, Stream: "s", Partitions: source.NewPartitions("s"), Input: strings.NewReader(lines)})
		done := make(chan error, 1)
		go func() { done <- s.Watch(t.Context(), nil, f) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		f.mu.Lock()
		if !errors.Is(f.trouble, eventlog.ErrFull) {
			t.Errorf("trouble: %v", f.trouble)
		}
		f.mu.Unlock()
		n := len(everything(t, l))
		if err := s.Trim(l.Name(), l.Status().End); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		first := l.Status().First
		all = everything(t, l)
		if n < 3000 || n >= 6000 || int(l.Status().Accepted) != 6000 || all[0].Offset != first {
			t.Errorf("%d records, then %d accepted", n, l.Status().Accepted)
		}
		shut(t, l)
	})
}
