package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// served is a daemon that runs in this process.
type served struct {
	t     *testing.T
	dir   string
	at    string // the URL of its listener
	stop  context.CancelFunc
	ended chan error

	mu  sync.Mutex
	log bytes.Buffer
}

// Write takes the log.
func (s *served) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(b)
}

// says waits until the log matches, and returns the last group.
func (s *served) says(pattern string) string {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		m := re.FindStringSubmatch(s.log.String())
		s.mu.Unlock()
		if m != nil {
			return m[len(m)-1]
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.Fatalf("it never said %s:\n%s", pattern, s.log.String())
	return ""
}

// file writes a file of the daemon.
func (s *served) file(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

const servedConfig = `version: 1
streams:
  logins: {source: {http: {}}, time: arrival, lateness: 0s, idle: 1s}
sinks:
  out: {file: {path: alerts.jsonl}}
http: {listen: 127.0.0.1:0, rate: 100000, tokens: tokens.yaml}
reload: {watch: false}
`

// serveDaemon runs a daemon until the test ends, with more in its configuration.
func serveDaemon(t *testing.T, more ...string) *served {
	t.Helper()
	s := &served{t: t, dir: t.TempDir(), ended: make(chan error, 1)}
	s.file("cepd.yaml", strings.Replace(servedConfig, "tokens: tokens.yaml", strings.Join(append([]string{"tokens: tokens.yaml"}, more...), ", "), 1))
	s.file("tokens.yaml", accessText())
	s.file("rules/any.yaml", "version: 1\nrules: [{id: any, from: logins, by: [user]}]\n")
	f := runFlags{jobFlags: jobFlags{file: filepath.Join(s.dir, "cepd.yaml")}}
	c, set, diagnostics, err := f.load()
	if err != nil || c == nil {
		t.Fatal(err, diagnostics)
	}
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	log := slog.New(&logHandler{out: &lockedWriter{w: s}, palette: palette{false}})
	go func() { s.ended <- serve(ctx, c, set, f, strings.NewReader(""), io.Discard, log) }()
	t.Cleanup(func() {
		stop()
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
	})
	s.at = "http://" + s.says(`listening address=(\S+)`)
	s.says(` running job=`)
	return s
}

func (s *served) reload() {
	s.t.Helper()
	if code, _, text := ask(s.t, "POST", s.at+"/-/reload", "Authorization:Bearer "+adaToken); code != http.StatusOK || !strings.Contains(text, `"unchanged": true`) {
		s.t.Fatalf("%d %s", code, text)
	}
}

// weight is what a process holds.
type weight struct {
	goroutines, files int
	heap              uint64
}

func (s *served) weigh() weight {
	s.t.Helper()
	w := weight{goroutines: runtime.NumGoroutine()}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil { // elsewhere files are not counted
		w.files = len(entries)
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what has a finalizer goes with the second
	runtime.ReadMemStats(&m)
	w.heap = m.HeapAlloc
	return w
}

// TestReloadsChangeNothing loads the same bytes a thousand times: what the process holds behind the last is what it held
// behind the tenth, and the engine has not noticed.
func TestReloadsChangeNothing(t *testing.T) {
	s := serveDaemon(t)
	for range 10 {
		s.reload()
	}
	// Connections of clients and epochs come and go while somebody looks: what counts is the most that there was before, and the
	// least that there is behind.
	http.DefaultClient.CloseIdleConnections()
	var before weight
	for range 20 {
		w := s.weigh()
		before = weight{max(before.goroutines, w.goroutines), max(before.files, w.files), max(before.heap, w.heap)}
		time.Sleep(5 * time.Millisecond)
	}
	for range 990 {
		s.reload()
	}
	http.DefaultClient.CloseIdleConnections()
	var after weight
	for range 40 {
		if after = s.weigh(); after.goroutines <= before.goroutines && after.files <= before.files && after.heap <= before.heap*105/100 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("behind 10: %+v, behind 1,000: %+v", before, after)
}

// TestLiveStreams listens to alerts: a stream ends with the right to it, and all end with the process, which does not wait for
// them.
func TestLiveStreams(t *testing.T) {
	s := serveDaemon(t)
	listen := func(token string) (lines *bufio.Reader, end func()) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.at+"/v1/alerts/live", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if a.StatusCode != http.StatusOK {
			t.Fatal(a.Status)
		}
		return bufio.NewReader(a.Body), func() { _ = a.Body.Close() }
	}
	// until reads a stream up to a line; false: it has ended before.
	until := func(lines *bufio.Reader, text string) bool {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return false
			}
			if strings.Contains(line, text) {
				return true
			}
		}
	}
	post := func(user string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.at+"/v1/streams/logins/events", strings.NewReader(fmt.Sprintf(`{"user":%q}`, user)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+allToken)
		r.Header.Set("Content-Type", "application/json")
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
		if a.StatusCode != http.StatusOK {
			t.Fatal(a.Status)
		}
	}
	eve, endEve := listen(eveToken)
	defer endEve()
	ada, endAda := listen(adaToken)
	defer endAda()
	post("one")
	if !until(eve, `"one"`) || !until(ada, `"one"`) {
		t.Fatal("a stream ended by itself")
	}
	s.file("tokens.yaml", strings.Replace(accessText(), hashOfToken(eveToken), hashOfToken(eveToken+"new"), 1))
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.says(`tokens and certificates were read again by=signal`)
	if until(eve, "never") {
		t.Fatal("what is not there was read")
	}
	post("two")
	if !until(ada, `"two"`) {
		t.Fatal("who may still listen was cut off")
	}
	begun := time.Now()
	s.stop()
	if until(ada, "never") {
		t.Fatal("what is not there was read")
	}
	err = <-s.ended
	if s.ended <- nil; err != nil || time.Since(begun) > drainTimeout {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
}

// send sends a request as an administrator.
func (s *served) send(method, path, body string) (status int, answer string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.at+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+adaToken)
	r.Header.Set("Content-Type", "application/yaml")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := io.ReadAll(a.Body)
	if err = errors.Join(err, a.Body.Close()); err != nil {
		s.t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

// A change that is only asked for says what it would do, rule by rule, and does nothing.
func TestDryRun(t *testing.T) {
	s := serveDaemon(t)
	reload := func(query string) reloadAnswer {
		t.Helper()
		code, text := s.send("POST", "/-/reload"+query, "")
		var a reloadAnswer
		if err := json.Unmarshal([]byte(text), &a); code != http.StatusOK || err != nil {
			t.Fatal(code, err, text)
		}
		return a
	}
	before := reload("?dry_run=true")
	if !before.Unchanged || !before.DryRun || len(before.Changes) != 0 || before.Read == "" {
		t.Errorf("%+v", before)
	}
	s.file("rules/more.yaml", "version: 1\nrules: [{id: more, from: logins, by: [user]}]\n")
	would := reload("?dry_run=true")
	if would.Unchanged || would.Set == before.Set || len(would.Changes) != 2 {
		t.Fatalf("%+v", would)
	}
	kinds := map[string]string{}
	for _, c := range would.Changes {
		if kinds[c.Rule] = c.Kind; c.Text == "" {
			t.Errorf("%+v", c)
		}
	}
	if kinds["any"] != "kept" || kinds["more"] != "added" {
		t.Errorf("%v", kinds)
	}
	if code, _ := s.send("GET", "/v1/rules/more", ""); code != http.StatusNotFound {
		t.Errorf("a dry run made a rule: %d", code)
	}
	if did := reload(""); did.Unchanged || did.Set != would.Set || did.Epoch == 0 || len(did.Changes) != 2 {
		t.Errorf("%+v", did)
	}
	if code, _ := s.send("GET", "/v1/rules/more", ""); code != http.StatusOK {
		t.Errorf("the rule is not there: %d", code)
	}
}

// What was wrong with the last change stands in the status, until one succeeds.
func TestStatusOfReload(t *testing.T) {
	s := serveDaemon(t)
	last := func() reloadStatus {
		t.Helper()
		code, text := s.send("GET", "/status", "")
		var a struct{ Reload *reloadStatus }
		if err := json.Unmarshal([]byte(text), &a); code != http.StatusOK || err != nil || a.Reload == nil {
			t.Fatal(code, err, text)
		}
		return *a.Reload
	}
	if r := last(); !r.OK || r.By != "start" || r.Error != "" {
		t.Errorf("%+v", r)
	}
	s.file("rules/more.yaml", "version: 1\nrules: [{id: more, from: nowhere, by: [user]}]\n")
	if code, text := s.send("POST", "/-/reload", ""); code != http.StatusUnprocessableEntity {
		t.Fatal(code, text)
	}
	if r := last(); r.OK || !strings.Contains(r.Error, "nowhere") || r.Failed == 0 {
		t.Errorf("%+v", r)
	}
	s.file("rules/more.yaml", "version: 1\nrules: [{id: more, from: logins, by: [user]}]\n")
	if code, text := s.send("POST", "/-/reload", ""); code != http.StatusOK {
		t.Fatal(code, text)
	}
	if r := last(); !r.OK || r.Error != "" || r.Epoch == 0 {
		t.Errorf("%+v", r)
	}
}

// What cannot be noted is not done: not by files, and not over HTTP, where no file is left behind either.
func TestUnnotedChanges(t *testing.T) {
	s := serveDaemon(t, "audit: none/audit.jsonl")
	s.file("rules/more.yaml", "version: 1\nrules: [{id: more, from: logins, by: [user]}]\n")
	if code, text := s.send("POST", "/-/reload", ""); code < 500 || !strings.Contains(text, "nothing was changed, because it cannot be noted") {
		t.Errorf("%d %s", code, text)
	}
	if err := os.Remove(filepath.Join(s.dir, "rules/more.yaml")); err != nil {
		t.Fatal(err)
	}
	if code, text := s.send("PUT", "/v1/rules/mine", "version: 1\nrules: [{id: mine, from: logins, by: [user]}]\n"); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, text)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "rules/managed/mine.yaml")); err == nil {
		t.Error("a file was written")
	}
	if code, text := s.send("POST", "/v1/checkpoints", ""); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, text)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "none"), 0o700); err != nil {
		t.Fatal(err)
	}
	if code, text := s.send("PUT", "/v1/rules/mine", "version: 1\nrules: [{id: mine, from: logins, by: [user]}]\n"); code != http.StatusCreated {
		t.Errorf("%d %s", code, text)
	}
	lines := readAudit(t, filepath.Join(s.dir, "none/audit.jsonl"))
	if n := len(lines); n < 2 || lines[n-2].Action != "create" || lines[n-2].Who != "ada" || lines[n-1].Outcome != outcomeDone {
		t.Errorf("%+v", lines)
	}
}
