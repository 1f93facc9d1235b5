//go:build unix

package kill

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
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
	flag.Parse()
	// Tests wait for disks, servers and processes more than they compute.
	_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))) // the flag is there
	code := kafkatest.Run(m)
	if testing.Verbose() {
		tally.print(os.Stdout)
	}
	if all := flag.Lookup("test.run"); code == 0 && all.Value.String() == "" {
		code = tally.judge(os.Stdout)
	}
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
	// server has the alerts; address is how the job reaches it.
	server  *redistest.Server
	address string
	// life is how long a process may take that is not killed; 0: lifeMax.
	life time.Duration
}

// takeStateOf begins with the state of a job that still runs, or is stopped: its lock keeps export away, so what is exported is
// a copy of the file.
func (s *site) takeStateOf(state string) {
	s.t.Helper()
	copied, exported := filepath.Join(s.name, "copied"), filepath.Join(s.name, "exported")
	if err := os.MkdirAll(copied, 0o755); err != nil {
		s.t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(state, "checkpoint.db"))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copied, "checkpoint.db"), data, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.checkpoint("", "export", copied, exported)
	s.checkpoint("", "import", s.state(), exported)
}

// newSite makes another job over a workload.
func newSite(t testing.TB, w *workload, server *redistest.Server, name string) *site {
	t.Helper()
	s := &site{workload: w, t: t, name: filepath.Join(t.TempDir(), name), stream: "alerts-" + name, server: server, address: server.Address}
	if err := os.MkdirAll(s.name, 0o755); err != nil {
		t.Fatal(err)
	}
	s.configure()
	return s
}

// configure writes the configuration, with changes to it: pairs of what is replaced by what.
func (s *site) configure(changes ...string) {
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
checkpoint: {path: %[3]s/state, interval: 20ms}
http: {listen: off}
log: {level: info}
`, filepath.Base(s.name), s.dir, s.name, s.address, s.stream)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			s.t.Fatalf("the configuration has no %q", changes[i])
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	if err := os.WriteFile(filepath.Join(s.name, "cepd.yaml"), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// lifeMax is how long a process may take that is not killed: what hangs fails, however slow the machine.
const lifeMax = 2 * time.Minute

// process is a running cepd.
type process struct {
	t     testing.TB
	point string // where it has to be killed; "": nowhere
	cmd   *exec.Cmd
	done  chan struct{} // closed when it has ended
	err   error         // how, then
	mu    sync.Mutex
	log   bytes.Buffer
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

// start starts `cepd run`, with a failpoint or "".
func (s *site) start(failpoint string, args ...string) *process {
	s.t.Helper()
	return s.launch(nil, failpoint, append([]string{"run", "-c", filepath.Join(s.name, "cepd.yaml")}, args...)...)
}

// launch starts cepd with any arguments and standard input.
func (s *site) launch(stdin *os.File, failpoint string, args ...string) *process {
	s.t.Helper()
	path, err := program()
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(s.life, lifeMax))
	p := &process{t: s.t, point: failpoint, done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, path, args...)
	if stdin != nil {
		p.cmd.Stdin = stdin
	}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.Env = os.Environ()
	if failpoint != "" {
		p.cmd.Env = append(p.cmd.Env, "CEPD_FAILPOINT="+failpoint)
	}
	if err := p.cmd.Start(); err != nil {
		cancel()
		s.t.Fatal(err)
	}
	tally.add(s.t, figures{lives: 1})
	go func() {
		defer cancel()
		p.err = p.cmd.Wait()
		if ctx.Err() != nil { // it has not been killed where it should have been
			p.err = fmt.Errorf("it had not ended after %s", max(s.life, lifeMax))
		}
		close(p.done)
	}()
	s.t.Cleanup(func() { // where the test has failed it may still run
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

// signal sends a signal, SIGKILL for instance.
func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("%v: %v\n%s", sig, err, p.logged())
	}
}

// says waits until the process has logged something that matches, and returns the last group of the match.
func (p *process) says(pattern string) string {
	p.t.Helper()
	text, ok := p.saysOrEnds(pattern)
	if !ok {
		p.t.Fatalf("it ended (%v) and never said %q:\n%s", p.err, pattern, p.logged())
	}
	return text
}

// saysOrEnds does so, and gives up when the process has ended.
func (p *process) saysOrEnds(pattern string) (string, bool) {
	re := regexp.MustCompile(pattern)
	for ended := false; ; {
		if m := re.FindStringSubmatch(p.logged()); m != nil {
			return m[len(m)-1], true
		}
		if ended {
			return "", false
		}
		select {
		case <-p.done: // after lifeMax at the latest
			ended = true
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// runs says whether the process has not ended.
func (p *process) runs() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// exits waits for the end and expects an exit code.
func (p *process) exits(code int) {
	p.t.Helper()
	_, err := p.wait()
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("it ends with %d (%v), want %d\n%s", got, err, code, p.logged())
	}
}

// kill kills the process after a while, if it has not ended by then.
func (p *process) kill(after time.Duration) (killed bool, err error) {
	select {
	case <-p.done:
	case <-time.After(after):
		p.point = ""
		_ = p.cmd.Process.Kill()
	}
	return p.wait()
}

// wait waits for the end.
func (p *process) wait() (killed bool, err error) {
	<-p.done
	if killed = wasKilled(p.err); killed {
		tally.add(p.t, figures{kills: 1})
		tally.hit(p.point)
	}
	return killed, p.err
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
	s.checkAlerts("the file", s.lines("alerts.jsonl"))
	s.checkAlerts("Redis", s.bodies())
	if d := s.compareRefused(s.lines("refused.jsonl")); d != "" {
		s.t.Errorf("the refused: %s", d)
	}
}

// checkAlerts compares what has arrived at one destination.
func (s *site) checkAlerts(where string, lines []string) {
	s.t.Helper()
	missing, doubled, _ := s.differ(lines)
	tally.add(s.t, figures{alerts: len(lines), missing: missing, doubled: doubled})
	if d := s.compare(lines); d != "" {
		s.t.Errorf("%s: %s", where, d)
	}
}

// bodies are the messages in Redis.
func (s *site) bodies() []string {
	s.t.Helper()
	var l []string
	for _, e := range s.server.Stream(s.t, s.stream) {
		l = append(l, e.Fields["body"])
	}
	return l
}

// lines are those of a file of the site; none if it is not there.
func (s *site) lines(name string) []string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.name, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	if len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// waitFor waits until something is so, for as long as a process may live: how fast that is depends on what else the machine does.
func waitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(lifeMax); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s", lifeMax, what)
		}
	}
}
