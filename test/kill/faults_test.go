//go:build unix

package kill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// hit runs `run --once` with a failpoint and expects the process to be killed there.
//
// How many epochs a run takes depends on what else the machine does; only the last one is certain. What is counted by them
// has to be reached in the first of them, or in an input that is long enough for many.
func (s *site) hit(failpoint string) {
	s.t.Helper()
	p := s.start(failpoint, "--once")
	if killed, err := p.wait(); !killed {
		s.t.Fatalf("%s was not reached: %v\n%s", failpoint, err, p.logged())
	}
}

// TestSwap kills a process that has found other rules than those of the epoch it goes on from: a rule that nobody knew comes
// between two lives, and another one goes.
func TestSwap(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	s := newSite(t, newWorkload(t, t.TempDir(), 3_000), server, "swap")
	s.hit("job.told")
	// The rule that comes has no alerts: what the others send is all that may arrive.
	s.write(t, "rules/more.yaml", []byte("version: 1\nrules:\n- {id: never, from: auth, by: [user], where: kind == \"nothing\"}\n"))
	s.hit("job.swapped")
	s.hit("job.told")
	if err := os.Remove(filepath.Join(s.dir, "rules/more.yaml")); err != nil {
		t.Fatal(err)
	}
	s.hit("job.swapped")
	s.finish()
}

// TestFolds kills a process while the store folds what has changed into a new base, and drops what it no longer keeps.
func TestFolds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	w := newWorkload(t, t.TempDir(), 40_000)
	for _, point := range []string{"store.fold.step:2", "store.fold.complete:1", "store.drop.begun:1", "store.drop.step:1"} {
		t.Run(point, func(t *testing.T) {
			s := newSite(t, w, server, strings.NewReplacer(".", "-", ":", "-").Replace(point))
			s.configure("interval: 20ms", "interval: 20ms, keep: 1")
			s.hit(point)
			first, _, _ := strings.Cut(point, ":") // how often it comes after that is not certain
			s.hit(first)
			s.finish()
		})
	}
}

// TestRedisIsKilled kills the server under load, without an append-only file that could keep what it acknowledged: it comes
// back as of its last snapshot, here as nothing.
func TestRedisIsKilled(t *testing.T) {
	t.Parallel()
	for _, settings := range [][]string{{"--appendonly", "yes", "--appendfsync", "always"}, {"--save", "", "--appendonly", "no"}} {
		t.Run(strings.Join(settings[:2], " "), func(t *testing.T) {
			server := redistest.Start(t, redistest.Default(t), settings...)
			s := newSite(t, newWorkload(t, t.TempDir(), 20_000), server, "redis")
			p := s.start("", "--once")
			for range 3 {
				time.Sleep(150 * time.Millisecond)
				server.Kill()
				time.Sleep(50 * time.Millisecond)
				server.Restart(t)
			}
			if _, err := p.wait(); err != nil {
				t.Fatalf("%v\n%s", err, p.logged())
			}
			s.finish() // what the server lost behind the last answer comes again
		})
	}
}

// TestPromotion kills a master under load, and a replica takes over that has not all of what the master had acknowledged: what
// it lacks is sent again.
func TestPromotion(t *testing.T) {
	t.Parallel()
	program := redistest.Default(t)
	master, replica := redistest.Start(t, program), redistest.Start(t, program)
	replica.Follow(t, master)
	proxy := redistest.NewProxy(t, master.Address)
	s := newSite(t, newWorkload(t, t.TempDir(), 20_000), master, "promotion")
	s.address = proxy.Address()
	s.configure()
	p := s.start("", "--once")
	arrive := func(srv *redistest.Server, n int64) {
		waitFor(t, "alerts", func() bool {
			have, _ := srv.Must(t, "XLEN", s.stream).(int64)
			return have >= min(n, int64(s.number)) // it may have come to its end meanwhile
		})
	}
	lost := 0
	for round := range 2 {
		arrive(master, int64(1+2_000*round))
		replica.Promote(t) // from here on it is behind; if it were only stopped, it would find what was sent to it when it wakes
		had, _ := master.Must(t, "XLEN", s.stream).(int64)
		arrive(master, had+500)
		acknowledged := len(master.Stream(t, s.stream))
		master.Kill()
		lost += acknowledged - len(replica.Stream(t, s.stream))
		proxy.Aim(replica.Address)
		proxy.Cut()
		master.Restart(t)
		master.Follow(t, replica)
		master, replica = replica, master
	}
	p.exits(0)
	s.server = master
	s.finish() // what was lost behind the last answer comes again
	if lost == 0 {
		t.Error("the replicas had everything: nothing was tested")
	}
	t.Logf("%d alerts that were acknowledged were lost in two failovers, and sent again", lost)
}

// stopped is how long a process is stopped at least: in long runs longer than every time-out of cepd and of Redis' clients.
func stopped() time.Duration {
	if kills() > killsUsual {
		return 40 * time.Second
	}
	return 0
}

// TestTakeover stops a process as a machine that hangs does, starts another one on a copy of its state, and lets the first
// one wake up: it is shut out, changes nothing, and says so.
func TestTakeover(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	s := newSite(t, newWorkload(t, t.TempDir(), 20_000), server, "takeover")
	p := s.start("", "--once")
	waitFor(t, "alerts", func() bool { return server.LastID(s.stream) != "" })
	p.signal(syscall.SIGSTOP)
	asleep := time.Now()
	second := *s
	second.name = filepath.Join(t.TempDir(), "takeover")
	second.takeStateOf(s.state())
	// It goes on with the same destinations.
	second.configure(filepath.Join(second.name, "alerts.jsonl"), filepath.Join(s.name, "alerts.jsonl"),
		filepath.Join(second.name, "refused.jsonl"), filepath.Join(s.name, "refused.jsonl"))
	q := second.start("", "--once")
	// A process that was stopped while it wrote to a file holds that file's lock, and nobody can take it from it.
	if _, locked := q.saysOrEnds("in the middle of a call"); locked {
		t.Log("the first process was stopped while it wrote to a file: it has to finish that first")
		p.signal(syscall.SIGCONT)
		q.exits(0)
	} else {
		q.exits(0)
		s.check()
		time.Sleep(stopped() - time.Since(asleep))
		p.signal(syscall.SIGCONT)
	}
	p.exits(4)
	if !strings.Contains(p.logged(), "another instance owns the destination") {
		t.Errorf("the zombie does not say why it stops:\n%s", p.logged())
	}
	s.check()
	t.Logf("the zombie woke up after %s", time.Since(asleep).Round(time.Second))
}

// disk is a small file system for the state of a site.
type disk struct {
	t    testing.TB
	path string
}

// newDisk mounts one, of so many megabytes.
func (s *site) newDisk(size int) *disk {
	s.t.Helper()
	d := &disk{s.t, s.t.TempDir()}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", size), "tmpfs", d.path).CombinedOutput(); err != nil {
		s.t.Skipf("no right to mount a small disk (%v: %s): run as root, with CAP_SYS_ADMIN", err, bytes.TrimSpace(out))
	}
	s.t.Cleanup(func() { _ = exec.Command("umount", d.path).Run() }) // processes that used it have ended, or the test has failed
	if err := os.Symlink(d.path, s.state()); err != nil {
		s.t.Fatal(err)
	}
	return d
}

// fill leaves so many bytes free, or less where others write.
func (d *disk) fill(free int64) {
	d.t.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(d.path, &fs); err != nil {
		d.t.Fatal(err)
	}
	n := max(int64(fs.Bavail)*int64(fs.Bsize)-free, 0)
	if err := os.WriteFile(filepath.Join(d.path, "filler"), make([]byte, n), 0o600); err != nil && !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatal(err)
	}
}

// grow makes room.
func (d *disk) grow(size int) {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.path, "filler")); err != nil {
		d.t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-o", fmt.Sprintf("remount,size=%dm", size), d.path).CombinedOutput(); err != nil {
		d.t.Fatalf("%v %s", err, out)
	}
}

// TestDiskFull lets the state grow on a small disk until it is full: the epoch waits, sources pause, the status says so. Half
// of the jobs are killed meanwhile. When there is room nothing has been lost.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	w := newWorkload(t, t.TempDir(), 20_000)
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			s := newSite(t, w, server, fmt.Sprintf("full-%v", killed))
			d := s.newDisk(4)
			d.fill(1 << 20)
			s.configure("listen: off", "listen: 127.0.0.1:0")
			p := s.start("", "--once")
			address := p.says(`listening address=(\S+)`)
			p.says("cannot be made durable")
			c := s.status(address)
			if c.Epoch.Error == "" || len(c.Degraded) == 0 || c.Degraded[0].What != "epoch" {
				t.Errorf("the status does not say that the epoch waits for the disk: %+v", c)
			}
			if later := s.status(address); later.Epoch.Committed != c.Epoch.Committed {
				t.Errorf("epoch %d is durable on a full disk", later.Epoch.Committed)
			}
			if killed {
				if was, err := p.kill(0); !was {
					t.Fatalf("%v\n%s", err, p.logged())
				}
				d.grow(256)
				s.finish()
				return
			}
			d.grow(256)
			p.exits(0)
			s.check()
		})
	}
}

// TestLogDiskFull fills the disk under the log of what is posted: clients are told to come later, what was taken stays, and
// when there is room everything goes on, also for a process that was killed meanwhile.
func TestLogDiskFull(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	s := newFeedSite(t, func(w *workload) *site { return newSite(t, w, server, "posted-full") })
	s.configure(posted(s)...)
	d := s.newDisk(32)
	l := s.posting(4<<10, 20, streams)
	p := s.start("")
	address := p.listening(l)
	p.says(" running ")
	d.fill(4 << 20)
	waitFor := func(what string, is func(c condition) bool) {
		waitFor(t, what, func() bool { return is(s.status(address)) })
	}
	waitFor("a log without room", func(c condition) bool {
		for _, x := range c.Degraded {
			if x.What == "log" {
				return true
			}
		}
		return false
	})
	time.Sleep(100 * time.Millisecond) // clients go on
	if was, err := p.kill(0); !was {
		t.Fatalf("%v\n%s", err, p.logged())
	}
	d.grow(512)
	s.finishPosted(l)
	refused := 0
	for _, x := range l {
		refused += x.answers[http.StatusServiceUnavailable]
	}
	if refused == 0 {
		t.Error("no request was answered with 503")
	}
	t.Logf("%d requests were answered with 503, and taken later", refused)
}

// TestLogFull posts more than the log may hold: clients are told to come later with 429, until epochs have moved on.
func TestLogFull(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	s := newFeedSite(t, func(w *workload) *site { return newSite(t, w, server, "posted-much") })
	// The state stays small, so that no base is due by itself before the log is full. While nothing more finds room in the
	// outbox nothing is read.
	s.write(t, "rules/rules.yaml", []byte(feedRules[:strings.Index(feedRules, "- {id: held")]))
	s.configure(append(posted(s), "interval: 20ms, keep: 1", "interval: 1s, keep: 3", fmt.Sprintf("stream: %s}}", s.stream), fmt.Sprintf("stream: %s}, outbox: {messages: 20}}", s.stream))...)
	l := s.posting(128<<10, 4, streams)
	p := s.start("")
	p.listening(l)
	p.says(" running ")
	server.Pause()
	waitFor(t, "a log that is full", func() bool { return l[0].full.Load() > 0 })
	if was, err := p.kill(0); !was {
		t.Fatalf("%v\n%s", err, p.logged())
	}
	server.Resume()
	s.finishPosted(l)
	t.Logf("%d requests were answered with 429, and taken later", l[0].full.Load())
}

// TestStateIsGone deletes the state of a job whose destinations are ahead: it refuses to start, names what it found, and
// starts when it is told to.
func TestStateIsGone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	s := newSite(t, newWorkload(t, t.TempDir(), 3_000), server, "gone")
	s.finish()
	if err := os.RemoveAll(filepath.Join(s.name, "state")); err != nil {
		t.Fatal(err)
	}
	p := s.start("", "--once")
	if _, err := p.wait(); p.cmd.ProcessState.ExitCode() != 4 || !strings.Contains(p.logged(), "--accept-gap") {
		t.Errorf("a job whose state is gone: %v\n%s", err, p.logged())
	}
	if t.Failed() {
		return
	}
	s.check() // nothing was sent
	// Rules that read different streams have no order among each other: read from the beginning the same alerts come in
	// another one, so that the destination, which is ahead, cannot be followed.
	p = s.start("", "--once", "--accept-gap", "--accept-repeat")
	if _, err := p.wait(); err != nil {
		t.Fatalf("%v\n%s", err, p.logged())
	}
	// Everything is sent again in a new lineage, with the same ids.
	ids := map[string]int{}
	for _, e := range server.Stream(t, s.stream) {
		var b struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal([]byte(e.Fields["body"]), &b); err != nil {
			t.Fatal(err)
		}
		ids[b.ID]++
	}
	for id, n := range ids {
		if n != 2 {
			t.Errorf("alert %s is there %d times", id, n)
		}
	}
	if len(ids) != s.number {
		t.Errorf("%d alerts, want %d", len(ids), s.number)
	}
}

// TestStop ends a process under load with a signal: the last epoch, everything published, exit status 0; the next one goes
// on.
func TestStop(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	s := newSite(t, newWorkload(t, t.TempDir(), 30_000), server, "stop")
	for i := range 3 {
		p := s.start("", "--once")
		p.says("INFO  running")
		time.Sleep(250 * time.Millisecond)
		p.signal(syscall.SIGTERM)
		begin := time.Now()
		if _, err := p.wait(); err != nil {
			t.Fatalf("stop %d: %v\n%s", i, err, p.logged())
		}
		if took := time.Since(begin); took > 25*time.Second {
			t.Errorf("it took %s to stop", took)
		}
		if sent, stands := len(server.Stream(t, s.stream)), len(s.lines("alerts.jsonl")); sent != stands && sent > 0 {
			t.Errorf("stopped with %d alerts in Redis and %d in the file", sent, stands)
		}
	}
	s.finish()
}

// TestSecondSignal asks a process to end that cannot, because the destination hangs, and then once more: it ends at once, and
// the next one sends what waited.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	s := newSite(t, newWorkload(t, t.TempDir(), 20_000), server, "second")
	p := s.start("", "--once")
	waitFor(t, "alerts", func() bool { return server.LastID(s.stream) != "" })
	server.Pause()
	p.signal(syscall.SIGTERM)
	p.says("stopping: nothing more is read")
	begin := time.Now()
	p.signal(syscall.SIGTERM)
	<-p.done
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ends otherwise than by the second signal: %v\n%s", p.err, p.logged())
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the second signal took %s", took)
	}
	server.Resume()
	s.finish()
}
