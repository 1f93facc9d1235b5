package kill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// program builds cepd with its failpoints, once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "cepd-kill")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "cepd")
	out, err := exec.Command("go", "build", "-tags", "failpoints", "-o", path, "github.com/cepd/cepd/cmd/cepd").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build cepd: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// site is a job on disk: its input, its configuration, its state and its destinations.
type site struct {
	*workload
	t      testing.TB
	name   string // of the directory of the job's own files
	stream string // in Redis
	server *redistest.Server
}

// newSite makes another job over a workload.
func newSite(t testing.TB, w *workload, server *redistest.Server, name string) *site {
	t.Helper()
	s := &site{workload: w, t: t, name: filepath.Join(t.TempDir(), name), stream: "alerts-" + name, server: server}
	if err := os.MkdirAll(s.name, 0o755); err != nil {
		t.Fatal(err)
	}
	s.configure()
	return s
}

// configure writes the configuration, with more settings of the checkpoint if need be.
func (s *site) configure(checkpoint ...string) {
	s.t.Helper()
	text := fmt.Sprintf(`version: 1
job: %s
rules: [%s/rules]
streams:
  auth: {source: {file: {paths: [%[2]s/auth], follow: false}}, time: "t,unix", lateness: 3s, idle: never, max_ahead: 0s, late: refused}
  web: {source: {file: {paths: [%[2]s/web], follow: false}}, time: "t,unix", lateness: 3s, idle: never, max_ahead: 0s, late: refused}
sinks:
  out: {file: {path: %[3]s/alerts.jsonl}}
  refused: {file: {path: %[3]s/refused.jsonl}, alerts: named}
  bus: {redis: {address: %q, stream: %s}}
dead_letters: refused
checkpoint: {path: %[3]s/state, interval: 20ms%[6]s}
http: {listen: off}
log: {level: info}
`, filepath.Base(s.name), s.dir, s.name, s.server.Address, s.stream, strings.Join(append([]string{""}, checkpoint...), ", "))
	if err := os.WriteFile(filepath.Join(s.name, "cepd.yaml"), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// lifeMax is how long a process may take that is not killed: what hangs fails, however slow the machine.
const lifeMax = 2 * time.Minute

// process is a running cepd.
type process struct {
	cmd  *exec.Cmd
	done chan error
	mu   sync.Mutex
	log  bytes.Buffer
}

// Write takes what the process says.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// run starts `cepd run --once`, with a failpoint or "".
func (s *site) start(failpoint string, args ...string) *process {
	s.t.Helper()
	path, err := program()
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lifeMax)
	p := &process{done: make(chan error, 1)}
	p.cmd = exec.CommandContext(ctx, path, append([]string{"run", "-c", filepath.Join(s.name, "cepd.yaml")}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.Env = os.Environ()
	if failpoint != "" {
		p.cmd.Env = append(p.cmd.Env, "CEPD_FAILPOINT="+failpoint)
	}
	if err := p.cmd.Start(); err != nil {
		cancel()
		s.t.Fatal(err)
	}
	go func() {
		defer cancel()
		p.done <- p.cmd.Wait()
	}()
	return p
}

// kill kills the process after a while, if it has not ended by then.
func (p *process) kill(after time.Duration) (killed bool, err error) {
	select {
	case err = <-p.done:
	case <-time.After(after):
		_ = p.cmd.Process.Kill()
		err = <-p.done
	}
	return wasKilled(err), err
}

// wait waits for the end.
func (p *process) wait() (killed bool, err error) {
	err = <-p.done
	return wasKilled(err), err
}

func wasKilled(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// finish runs the job to its end and compares.
func (s *site) finish() {
	s.t.Helper()
	p := s.start("", "--once")
	if _, err := p.wait(); err != nil {
		s.t.Fatalf("a run that nobody disturbs: %v\n%s", err, p.logged())
	}
	s.check()
}

// check compares what has arrived everywhere.
func (s *site) check() {
	s.t.Helper()
	if d := s.compare(s.lines("alerts.jsonl")); d != "" {
		s.t.Errorf("the file: %s", d)
	}
	if d := s.compareRefused(s.lines("refused.jsonl")); d != "" {
		s.t.Errorf("the refused: %s", d)
	}
	var bodies []string
	for _, e := range s.server.Stream(s.t, s.stream) {
		bodies = append(bodies, e.Fields["body"])
	}
	if d := s.compare(bodies); d != "" {
		s.t.Errorf("Redis: %s", d)
	}
}

func (s *site) lines(name string) []string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.name, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}
