package kill

import (
	"encoding/json"
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
	server := redistest.Start(t, redistest.Default(t))
	s := newSite(t, newWorkload(t, t.TempDir(), 3_000), server, "swap")
	s.hit("job.told:3")
	// The rule that comes has no alerts: what the others send is all that may arrive.
	s.write(t, "rules/more.yaml", []byte("version: 1\nrules:\n- {id: never, from: auth, by: [user], where: kind == \"nothing\"}\n"))
	s.hit("job.swapped")
	s.hit("job.told:2")
	if err := os.Remove(filepath.Join(s.dir, "rules/more.yaml")); err != nil {
		t.Fatal(err)
	}
	s.hit("job.swapped")
	s.finish()
}

// TestFolds kills a process while the store folds what has changed into a new base, and drops what it no longer keeps.
func TestFolds(t *testing.T) {
	server := redistest.Start(t, redistest.Default(t))
	w := newWorkload(t, t.TempDir(), 40_000)
	for _, point := range []string{"store.fold.step:2", "store.fold.complete:1", "store.drop.step:1"} {
		t.Run(point, func(t *testing.T) {
			s := newSite(t, w, server, strings.NewReplacer(".", "-", ":", "-").Replace(point))
			s.configure("interval: 20ms", "interval: 20ms, keep: 1")
			s.hit(point)
			s.hit(point)
			s.finish()
		})
	}
}

// TestRedisIsKilled kills the server under load, without an append-only file that could keep what it acknowledged: it comes
// back as of its last snapshot, here as nothing.
func TestRedisIsKilled(t *testing.T) {
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

// TestTakeover stops a process as a machine that hangs does, starts another one on a copy of its state, and lets the first
// one wake up: it is shut out, and says so.
func TestTakeover(t *testing.T) {
	server := redistest.Start(t, redistest.Default(t))
	w := newWorkload(t, t.TempDir(), 60_000)
	s := newSite(t, w, server, "takeover")
	p := s.start("", "--once")
	time.Sleep(400 * time.Millisecond)
	p.signal(syscall.SIGSTOP)
	// The copy is one of the files: the first one's process holds the store.
	second := *s
	second.name = filepath.Join(t.TempDir(), "takeover")
	if out, err := exec.Command("cp", "-r", s.name, second.name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	second.configure()
	q := second.start("", "--once")
	if _, err := q.wait(); err != nil {
		t.Fatalf("%v\n%s", err, q.logged())
	}
	p.signal(syscall.SIGCONT)
	_, err := p.wait()
	if exit := p.cmd.ProcessState.ExitCode(); exit != 4 {
		t.Errorf("the zombie ends with %d (%v), want 4\n%s", exit, err, p.logged())
	}
	if !strings.Contains(p.logged(), "another instance owns the destination") {
		t.Errorf("the zombie does not say why it stops:\n%s", p.logged())
	}
	s.checkAlerts("Redis", s.bodies())
}

// TestDiskFull lets the state grow on a small disk until it is full: the epoch waits, sources pause, nothing is lost.
func TestDiskFull(t *testing.T) {
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v %s (it takes root)", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", disk).Run() })
	server := redistest.Start(t, redistest.Default(t))
	s := newSite(t, newWorkload(t, t.TempDir(), 20_000), server, "full")
	if err := os.Symlink(disk, filepath.Join(s.name, "state")); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	p := s.start("", "--once")
	p.says("cannot be made durable")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-o", "remount,size=256m", disk).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if _, err := p.wait(); err != nil {
		t.Fatalf("%v\n%s", err, p.logged())
	}
	s.check()
}

// TestStateIsGone deletes the state of a job whose destinations are ahead: it refuses to start, names what it found, and
// starts when it is told to.
func TestStateIsGone(t *testing.T) {
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
	server := redistest.Start(t, redistest.Default(t))
	s := newSite(t, newWorkload(t, t.TempDir(), 60_000), server, "stop")
	for i := range 3 {
		p := s.start("", "--once")
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
