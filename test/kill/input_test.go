//go:build unix

package kill

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// writer writes a feed to a file that is rotated again and again: renamed and begun anew, or copied and truncated; then packed.
type writer struct {
	t    testing.TB
	feed *feed
	dir  string
	stop chan struct{}
	done sync.WaitGroup

	rotated   int
	truncated int
}

// rotateBytes is the size at which a file is rotated. Its first 1 KiB, which tells it from others, is there by then.
const rotateBytes = 64 << 10

func (s *site) writing(dir, stream string) *writer {
	s.t.Helper()
	w := &writer{t: s.t, feed: newFeed(stream, 200), dir: filepath.Join(dir, stream), stop: make(chan struct{})}
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	w.done.Go(w.run)
	s.t.Cleanup(w.end)
	return w
}

func (w *writer) end() {
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	w.done.Wait()
}

// run writes some events at a time, the last one in two pieces.
func (w *writer) run() {
	live := filepath.Join(w.dir, "live.jsonl")
	f, err := os.OpenFile(live, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	for size := 0; err == nil; {
		var lines []byte
		for range 1 + w.feed.random.IntN(20) {
			lines = append(lines, w.feed.next()...)
		}
		half := len(lines) - 20
		if _, err = f.Write(lines[:half]); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
		if _, err = f.Write(lines[half:]); err != nil {
			break
		}
		if size += len(lines); size > rotateBytes {
			size = 0
			f, err = w.rotate(f, live)
		}
		select {
		case <-w.stop:
			if err := f.Close(); err != nil {
				w.t.Error(err)
			}
			return
		case <-time.After(4 * time.Millisecond):
		}
	}
	w.t.Error(err)
}

// rotate moves what the file holds to another one, and packs that a while later.
func (w *writer) rotate(f *os.File, live string) (*os.File, error) {
	w.rotated++
	old := filepath.Join(w.dir, fmt.Sprintf("live-%d.jsonl", w.rotated))
	if w.rotated%2 == 0 {
		w.truncated++
		data, err := os.ReadFile(live)
		if err == nil {
			err = os.WriteFile(old, data, 0o644)
		}
		if err == nil {
			err = f.Truncate(0)
		}
		if err != nil {
			return f, err
		}
	} else {
		if err := os.Rename(live, old); err != nil {
			return f, err
		}
		var err error
		if err = f.Close(); err == nil {
			f, err = os.OpenFile(live, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
		}
		if err != nil {
			return f, err
		}
	}
	w.done.Go(func() {
		select {
		case <-w.stop:
		case <-time.After(300 * time.Millisecond):
		}
		if err := pack(old); err != nil {
			w.t.Error(err)
		}
	})
	return f, nil
}

// pack makes NAME.gz of a file.
func pack(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(name+".part", b.Bytes(), 0o644); err != nil {
		return err
	}
	if err := os.Rename(name+".part", name+".gz"); err != nil {
		return err
	}
	return os.Remove(name)
}

// TestInputIsRotated kills a process at random that follows files which are rotated in every way under it.
func TestInputIsRotated(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	s := newFeedSite(t, func(w *workload) *site { return newSite(t, w, server, "follow") })
	in := filepath.Join(s.name, "in")
	// A partition that is packed has ended, so that nobody has to wait until it is idle.
	var changes []string
	for _, name := range streams {
		changes = append(changes, fmt.Sprintf("{file: {paths: [%s/%s], follow: false}}", s.dir, name),
			fmt.Sprintf("{file: {paths: [%q], follow: true}}", filepath.Join(in, name, "live*.jsonl*")))
	}
	s.configure(append(changes, "idle: never", "idle: 30s")...)
	var writers []*writer
	var feeds []*feed
	for _, name := range streams {
		w := s.writing(in, name)
		writers, feeds = append(writers, w), append(feeds, w.feed)
	}
	r := moments()
	for range (kills() + 1) / 2 { // each life reads the files anew, which takes its time
		p := s.start("")
		if killed, err := p.kill(time.Duration(50+r.IntN(1000)) * time.Millisecond); !killed {
			t.Fatalf("%v\n%s", err, p.logged())
		}
	}
	// The last one that follows comes as far as rotation lets it, before all is read to its end.
	p := s.start("")
	time.Sleep(5 * time.Second)
	waitFor(t, "an alert before the end", func() bool { return len(s.bodies()) > 0 })
	if killed, err := p.kill(0); !killed {
		t.Fatalf("%v\n%s", err, p.logged())
	}
	followed := len(s.bodies())
	rotated, truncated := 0, 0
	for _, w := range writers {
		w.end()
		rotated, truncated = rotated+w.rotated, truncated+w.truncated
	}
	s.ended(t, feeds...)
	s.finish()
	if followed == 0 || truncated < 2 {
		t.Errorf("%d alerts came before the end, of files that were truncated %d times: that tests nothing", followed, truncated)
	}
	t.Logf("files were rotated %d times, %d of these by truncation; %d of %d alerts came before the end", rotated, truncated, followed, s.number)
}

// TestStandardInput kills a process that reads standard input, and gives the next one the same pipe. What was in the log counts
// once, whatever happens; what a process had taken from the pipe and not written yet is lost with it, and nothing else.
func TestStandardInput(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	s := newFeedSite(t, func(w *workload) *site { return newSite(t, w, server, "stdin") })
	s.configure(append(posted(s)[:1], "{stdin: {}}")...)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	f := newFeed("auth", 100)
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		defer func() { _ = in.Close() }()
		for {
			if _, err := in.Write(f.next()); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Microsecond):
			}
		}
	})
	end := sync.OnceFunc(func() { close(stop) })
	defer writing.Wait()
	defer end()
	args := []string{"run", "-c", filepath.Join(s.name, "cepd.yaml"), "--once"}
	killed := 0
	for _, point := range []string{"log.segment.synced", "log.append.half:20", "log.open.torn", "log.append.written:20", "log.append.synced:20", "job.trimmed"} {
		p := s.launch(out, point, args...)
		if was, err := p.wait(); !was {
			t.Fatalf("%s was not reached: %v\n%s", point, err, p.logged())
		}
		killed++
	}
	r := moments()
	for range kills() {
		if was, err := s.launch(out, "", args...).kill(time.Duration(50+r.IntN(400)) * time.Millisecond); !was {
			t.Fatal(err)
		}
		killed++
	}
	end()
	p := s.launch(out, "", args...)
	p.exits(0)
	writing.Wait()

	// Where events are missing they are those of one moment: each kill makes one gap at most.
	s.ended(t, f)
	for where, lines := range map[string][]string{"the file": s.lines("alerts.jsonl"), "Redis": s.bodies()} {
		var numbers []int
		for _, line := range lines {
			if rule, n := ruleAndNumber(line); rule == "auth" {
				numbers = append(numbers, n)
			}
		}
		slices.Sort(numbers)
		gaps, lost := 0, f.n
		for i, n := range numbers {
			switch {
			case i > 0 && n == numbers[i-1]:
				t.Errorf("%s: event %d counts twice", where, n)
			case i == 0 && n > 0 || i > 0 && n > numbers[i-1]+1:
				gaps++
			}
			lost--
		}
		if gaps > killed {
			t.Errorf("%s: %d of %d events are missing, in %d places, after %d kills", where, lost, f.n, gaps, killed)
		}
		if len(numbers) < f.n/2 {
			t.Errorf("%s: %d events of %d: too few to show anything", where, len(numbers), f.n)
		}
		t.Logf("%s: %d events, %d lost with the process that had read them, in %d places", where, f.n, lost, gaps)
	}
}

// ruleAndNumber takes an alert of a feed apart.
func ruleAndNumber(line string) (rule string, n int) {
	_, rest, _ := strings.Cut(line, `"rule":"`)
	rule, rest, _ = strings.Cut(rest, `"`)
	_, rest, _ = strings.Cut(rest, `"fields":{"n":`)
	number, _, _ := strings.Cut(rest, "}")
	n, err := strconv.Atoi(number)
	if err != nil {
		return "", 0
	}
	return rule, n
}
