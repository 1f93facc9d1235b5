//go:build unix

package eventlog_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cepd/cepd/cep/source/eventlog"
)

// The environment by which the test's own binary becomes a process that appends until it is killed.
const (
	childDir   = "EVENTLOG_TEST_DIR"
	childFirst = "EVENTLOG_TEST_FIRST"
	childPoint = "EVENTLOG_TEST_FAILPOINT"
	childCount = "EVENTLOG_TEST_COUNT"
	childLimit = "EVENTLOG_TEST_FILE_LIMIT"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child appends from some writers at once, and says on standard output what was answered: `ack WRITER NUMBER`. Each event
// has an id and is sent twice now and then. It trims what is far behind, so that every failpoint is met.
func child(dir string) error {
	first, err := strconv.Atoi(os.Getenv(childFirst))
	if err != nil {
		return err
	}
	var hits atomic.Int64
	count, _ := strconv.ParseInt(os.Getenv(childCount), 10, 64) // none: 0
	point := os.Getenv(childPoint)
	l, err := eventlog.Open(eventlog.Config{Dir: dir, Max: eventlog.MaxMin, Failpoint: func(name string) {
		if name == point && hits.Add(1) == count {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}})
	if err != nil {
		return err
	}
	if os.Getenv(childLimit) != "" {
		return fillUp(l)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	pad := strings.Repeat("x", 20_000)
	for w := range 4 {
		wg.Go(func() {
			for n := first; n < first+120; n++ {
				e := []eventlog.Event{{Data: fmt.Appendf(nil, "%d %d %s", w, n, pad), ID: fmt.Sprintf("%d/%d", w, n)}}
				for range 1 + n%2 {
					_, err := l.Append(context.Background(), e)
					for errors.Is(err, eventlog.ErrFull) {
						// What lies more than a megabyte behind has been read, in this play.
						if e := l.Trim(l.Status().End - 1<<20); e != nil {
							err = e
							break
						}
						_, err = l.Append(context.Background(), e)
					}
					mu.Lock()
					if err != nil {
						fmt.Println("error", err)
					} else {
						fmt.Println("ack", w, n)
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return l.Close()
}

// run starts a child and kills it a while after its first word, or lets it end; it returns the highest number that each writer was told
// to be there.
func run(t *testing.T, dir string, first int, point string, count int, after time.Duration) (acks map[int]int, killed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, fmt.Sprint(childFirst, "=", first), childPoint+"="+point, fmt.Sprint(childCount, "=", count))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acks = map[int]int{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if after > 0 && len(acks) == 0 {
			timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
		}
		var w, n int
		if _, err := fmt.Sscanf(lines.Text(), "ack %d %d", &w, &n); err != nil {
			t.Errorf("the child says %q", lines.Text())
			continue
		}
		acks[w] = n
	}
	return acks, cmd.Wait() != nil
}

// verify reads the log as after a crash: what was acknowledged is there, each once, each writer's in their order, but for
// what was trimmed.
func verify(t *testing.T, dir string, first int, acks map[int]int) {
	t.Helper()
	l := open(t, eventlog.Config{Dir: dir, Max: eventlog.MaxMin})
	defer shut(t, l)
	if s := l.Status(); s.Bytes > s.Max {
		t.Errorf("the log takes %d bytes", s.Bytes)
	}
	report := l.Report()
	if report.Gaps != 0 || report.Lost != 0 || report.IDsDamage != nil {
		t.Errorf("%+v", report)
	}
	r := readerOf(t, l)
	defer func() { _ = r.Close() }()
	last := map[int]int{}
	for range report.Records {
		e := next(r)
		var w, n int
		if _, err := fmt.Sscanf(e.Data, "%d %d", &w, &n); err != nil {
			t.Fatalf("%.60q %s", e.Data, e.Err)
		}
		if before, ok := last[w]; ok && n != before+1 && (n%1000 != 0 || n <= before) { // each life begins at a thousand
			t.Errorf("writer %d: %d follows %d", w, n, before)
		}
		last[w] = n
	}
	for w, n := range acks {
		if last[w] < n {
			t.Errorf("writer %d was told of %d, and %d is the last in the log", w, n, last[w])
		}
		if last[w] > n+1 {
			t.Errorf("writer %d was told of %d, and %d is in the log", w, n, last[w])
		}
		// Ids are remembered over the crash.
		for _, k := range []int{first, n} {
			a, err := l.Append(t.Context(), []eventlog.Event{{ID: fmt.Sprintf("%d/%d", w, k)}})
			if err != nil || a.Duplicates != 1 {
				t.Errorf("writer %d sends %d again: %+v, %v", w, k, a, err)
			}
		}
	}
}

// A process is killed at every failpoint, by itself, and later goes on.
func TestKillAtFailpoints(t *testing.T) {
	for _, point := range eventlog.Failpoints {
		if point == "log.open.torn" {
			continue // below
		}
		t.Run(point, func(t *testing.T) {
			dir := t.TempDir()
			acks, killed := run(t, dir, 0, point, 2, 0) // the first segment is made before anybody is told anything
			if !killed {
				t.Fatal("the failpoint was not met")
			}
			verify(t, dir, 0, acks)
			if acks, killed := run(t, dir, 5000, "", 0, 0); killed || len(acks) != 4 {
				t.Errorf("the life behind it: %v", acks)
			} else {
				verify(t, dir, 5000, acks)
			}
		})
	}
	t.Run("log.open.torn", func(t *testing.T) {
		dir := t.TempDir()
		acks, _ := run(t, dir, 0, "log.append.half", 20, 0)
		if _, killed := run(t, dir, 1000, "log.open.torn", 1, 0); !killed {
			t.Error("the failpoint was not met")
		}
		verify(t, dir, 0, acks)
	})
}

// A process is killed at random moments: 10 of them, or as many as CEPD_KILLS says.
func TestKillAtRandom(t *testing.T) {
	n := 10
	if s := os.Getenv("CEPD_KILLS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	told := 0
	for life := range n {
		acks, _ := run(t, dir, 1000*life, "", 0, time.Duration(random.IntN(200))*time.Millisecond)
		told += len(acks)
		verify(t, dir, 1000*life, acks)
	}
	if told == 0 {
		t.Error("no process lived long enough to be told anything")
	}
}

// fillUp appends until the system refuses, makes room, and goes on.
func fillUp(l *eventlog.Log) error {
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	limit := before
	limit.Cur = 100_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	event := func(n int) []eventlog.Event {
		return []eventlog.Event{{Data: fmt.Appendf(nil, "%d %s", n, strings.Repeat("x", 3000)), ID: fmt.Sprint(n)}}
	}
	n := 0
	var err error
	for ; err == nil; n++ {
		_, err = l.Append(context.Background(), event(n))
	}
	if !errors.Is(err, syscall.EFBIG) || l.Status().Failed == nil {
		return fmt.Errorf("the disk is full, and Append says: %w", err)
	}
	for range 3 {
		if _, err := l.Append(context.Background(), event(n-1)); !errors.Is(err, syscall.EFBIG) {
			return fmt.Errorf("the disk is still full, and Append says: %w", err)
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	for i := range 3 {
		if a, err := l.Append(context.Background(), event(n-1+i)); err != nil || a.Accepted != 1 {
			return fmt.Errorf("there is room again, and Append says: %+v, %w", a, err)
		}
	}
	fmt.Println("records", n+2)
	return l.Close()
}

// Where the disk is full nothing is taken, also no id, and nothing half written stays; when there is room it goes on.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childFirst+"=0", childLimit+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var want int
	if _, err := fmt.Sscanf(string(out), "records %d", &want); err != nil || want < 30 {
		t.Fatalf("%q", out)
	}
	l := open(t, eventlog.Config{Dir: dir})
	defer shut(t, l)
	all := everything(t, l)
	for i, e := range all {
		if !strings.HasPrefix(e.Data, fmt.Sprint(i, " ")) {
			t.Errorf("record %d: %.20q %s", i, e.Data, e.Err)
		}
	}
	if r := l.Report(); len(all) != want || r.Torn != 0 || r.Gaps != 0 {
		t.Errorf("%d records, want %d; %+v", len(all), want, r)
	}
}
