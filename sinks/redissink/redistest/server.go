package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience is how long a server may take to do what it was asked for before a test fails: far beyond what a loaded machine
// needs, so that only a server that hangs is found.
const patience = 30 * time.Second

// Server is a process.
type Server struct {
	Program Program
	// Address is host:port, Dir the directory of its files, of which log is the log.
	Address, Dir string

	args []string
	mu   sync.Mutex
	cmd  *exec.Cmd
	conn *Conn
}

// Start starts a server with settings such as "--appendonly", "yes". It keeps nothing on disk unless they say so.
func Start(t testing.TB, p Program, settings ...string) *Server {
	t.Helper()
	s := &Server{Program: p, Dir: t.TempDir()}
	port := freePort(t)
	s.Address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s.args = append([]string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", s.Dir, "--save", "", "--logfile", filepath.Join(s.Dir, "log"),
		"--repl-diskless-sync-delay", "0", "--daemonize", "no",
	}, settings...)
	if p.AtLeast(7, 0) {
		s.args = append(s.args, "--enable-protected-configs", "yes") // 6.2 protects nothing
	}
	s.launch(t)
	return s
}

func (s *Server) launch(t testing.TB) {
	t.Helper()
	t.Cleanup(s.Kill)
	s.Restart(t)
}

// Restart starts a server that was killed, with the same settings and files.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.restart(); err != nil {
		t.Fatal(err)
	}
}

// spawn starts the process.
func (s *Server) spawn(args []string) error {
	cmd := exec.Command(s.Program.Path, args...)
	cmd.Dir = s.Dir
	contain(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.Program.Path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = cmd
	return nil
}

func (s *Server) restart() error {
	err := s.spawn(s.args)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if _, err = s.Do("PING"); err == nil || strings.HasPrefix(err.Error(), "NOAUTH") {
			return nil
		}
	}
	s.Kill()
	return fmt.Errorf("%s does not answer: %w\n%s", s.Program, err, s.Log())
}

// Kill kills the process at once and waits for its end. A server that does not run stays as it is.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
	if s.cmd != nil {
		kill(s.cmd)
		s.cmd = nil
	}
}

// Pause stops the process as SIGSTOP does: its connections stay and nothing answers.
func (s *Server) Pause() { s.signal(pauseSignal) }

// Resume lets a paused process go on.
func (s *Server) Resume() { s.signal(resumeSignal) }

func (s *Server) signal(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(sig)
	}
}

// Log returns what the server has logged.
func (s *Server) Log() string {
	b, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
	return string(b)
}

// Do gives a command over a connection of its own that is kept.
func (s *Server) Do(args ...any) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		c, err := Connect(s.Address)
		if err != nil {
			return nil, err
		}
		s.conn = c
	}
	v, err := s.conn.Do(args...)
	if e := Error(""); err != nil && !errors.As(err, &e) {
		_ = s.conn.Close()
		s.conn = nil
	}
	return v, err
}

// Must gives a command that must succeed.
func (s *Server) Must(t testing.TB, args ...any) any {
	t.Helper()
	v, err := s.Do(args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// Info returns a section of INFO.
func (s *Server) Info(t testing.TB, section string) map[string]string {
	t.Helper()
	text, _ := s.Must(t, "INFO", section).(string)
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m
}

// Entry is an entry of a stream.
type Entry struct {
	ID     string
	Fields map[string]string
}

// Stream reads a stream from its beginning.
func (s *Server) Stream(t testing.TB, key string) []Entry {
	t.Helper()
	entries, err := s.ReadStream(key, "-")
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// ReadStream reads a stream from an id on ("-": from its beginning; "(" before the id: behind it).
func (s *Server) ReadStream(key, from string) ([]Entry, error) {
	const page = 1000
	var entries []Entry
	for {
		v, err := s.Do("XRANGE", key, from, "+", "COUNT", page)
		if err != nil {
			return entries, err
		}
		rows, _ := v.([]any)
		for _, row := range rows {
			pair, _ := row.([]any)
			if len(pair) != 2 {
				return entries, fmt.Errorf("an entry of %s is %v", key, row)
			}
			e := Entry{Fields: map[string]string{}}
			e.ID, _ = pair[0].(string)
			fields, _ := pair[1].([]any)
			for i := 0; i+1 < len(fields); i += 2 {
				name, _ := fields[i].(string)
				e.Fields[name], _ = fields[i+1].(string)
			}
			entries = append(entries, e)
		}
		if len(rows) < page {
			return entries, nil
		}
		from = "(" + entries[len(entries)-1].ID
	}
}

// LastID is the last id that a stream has given, "" where there is no stream.
func (s *Server) LastID(key string) string {
	v, err := s.Do("XINFO", "STREAM", key)
	if err != nil {
		return ""
	}
	facts, _ := v.([]any)
	for i := 0; i+1 < len(facts); i += 2 {
		if facts[i] == "last-generated-id" {
			id, _ := facts[i+1].(string)
			return id
		}
	}
	return ""
}

// Calls is how often a command was called since the server started.
func (s *Server) Calls(t testing.TB, command string) int {
	t.Helper()
	text := s.Info(t, "commandstats")["cmdstat_"+command]
	var n int
	_, _ = fmt.Sscanf(text, "calls=%d", &n)
	return n
}

// Follow makes s a replica and waits until it has all that its master has.
func (s *Server) Follow(t testing.TB, master *Server) {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Address)
	s.Must(t, "REPLICAOF", host, port)
	WaitFor(t, "the link to the master", func() bool { return s.Info(t, "replication")["master_link_status"] == "up" })
	WaitFor(t, "the replica at its master", func() bool {
		return strings.Contains(master.Info(t, "replication")["slave0"]+master.Info(t, "replication")["slave1"], "port="+port0(s)+",state=online")
	})
	s.CatchUp(t, master) // `online` may come a second before anything is there
}

// CatchUp waits until a replica has what its master has now.
func (s *Server) CatchUp(t testing.TB, master *Server) {
	t.Helper()
	have := func(srv *Server, name string) int {
		n, _ := strconv.Atoi(srv.Info(t, "replication")[name])
		return n
	}
	want := have(master, "master_repl_offset")
	WaitFor(t, "the replica to have all", func() bool { return have(s, "slave_repl_offset") >= want })
}

func port0(s *Server) string {
	_, port, _ := net.SplitHostPort(s.Address)
	return port
}

// Promote makes a replica a master, without asking its master.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Must(t, "REPLICAOF", "NO", "ONE")
}

// WaitFor waits until something is so, and fails the test where it never is.
func WaitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited %s for %s", patience, what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Ports lie below those that systems give to outgoing connections, so that a server finds its own free when it restarts, and
// low enough that a cluster's second port, 10,000 above, does too. Processes begin at different ones.
const (
	portFirst = 10000
	portCount = 12000
)

var portNext atomic.Int64

func freePort(t testing.TB) int {
	t.Helper()
	for range portCount {
		n := portNext.Add(1) + int64(os.Getpid())*37
		port := portFirst + int(n%portCount)
		free := true
		for _, p := range []int{port, port + 10000} {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
			if err != nil {
				free = false
				break
			}
			_ = l.Close()
		}
		if free {
			return port
		}
	}
	t.Fatal("no free port on the loopback address")
	return 0
}

func writeFile(t testing.TB, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// LaunchSlowly starts a server that was killed, so that loading its snapshot takes a while, and returns before it answers.
// Redis 6.2 has no such switch.
func (s *Server) LaunchSlowly(t testing.TB) {
	t.Helper()
	args := append(slices.Clone(s.args), "--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024")
	if err := s.spawn(args); err != nil {
		t.Fatal(err)
	}
}

// StartTLS starts a server that has a second port for encrypted connections, whose address is returned too. It trusts the
// clients that show its own certificate.
func StartTLS(t testing.TB, p Program, cert, key string) (s *Server, address string) {
	t.Helper()
	port := strconv.Itoa(freePort(t))
	s = Start(t, p, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "yes")
	return s, net.JoinHostPort("127.0.0.1", port)
}
