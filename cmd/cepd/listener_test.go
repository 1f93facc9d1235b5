package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cmd/cepd/config"
)

// serving runs the listener of a daemon whose job is being restored, until the test ends.
func serving(t *testing.T, h config.HTTP, push http.HandlerFunc) (*daemon, string) {
	t.Helper()
	if h.Listen == "" {
		h.Listen = "127.0.0.1:0"
	}
	if h.Admin == "" {
		h.Admin = "off"
	}
	h.Audit = filepath.Join(t.TempDir(), "audit.jsonl")
	d := newDaemon(&config.Config{Job: "test", HTTP: h}, slog.New(slog.DiscardHandler))
	if push != nil {
		handler := http.Handler(push)
		d.push.Store(&handler)
	}
	if err := d.listen(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.listener.close(t.Context())
		d.admin.close(t.Context())
	})
	return d, "http://" + d.listener.net.Addr().String()
}

// ask sends a request; headers are NAME:VALUE.
func ask(t *testing.T, method, url string, header ...string) (status int, headers http.Header, body string) {
	t.Helper()
	return askBy(t, http.DefaultClient, method, url, header...)
}

func askBy(t *testing.T, client *http.Client, method, url string, header ...string) (status int, headers http.Header, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ":")
		if r.Header.Add(name, value); name == "Host" {
			r.Host = value
		}
	}
	a, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, a.Header, string(text)
}

// echoPush answers a posted request with what it was.
func echoPush(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, r.Method+" "+r.URL.Path) // the test sees what is missing
}

// The listener answers what it has before there is a job, and nothing of it to pages of other sites.
func TestListener(t *testing.T) {
	_, at := serving(t, config.HTTP{}, echoPush)
	_, early := serving(t, config.HTTP{}, nil)
	_, port, _ := strings.Cut(strings.TrimPrefix(at, "http://"), ":")
	const problemJSON = "application/problem+json"
	for _, test := range []struct {
		method, url string
		header      []string
		code        int
		kind, text  string
	}{
		{"GET", at + "/healthz", nil, 200, "application/json", `"ok"`},
		{"GET", at + "/ready", nil, 503, "application/json", `"starting"`},
		{"GET", at + "/status", nil, 200, "application/json", `"phase": "starting"`},
		{"GET", at + "/v1/rules", nil, 503, problemJSON, "being restored"},
		{"POST", at + "/-/reload", nil, 503, problemJSON, "being restored"},
		{"GET", at + "/-/reload", nil, 503, problemJSON, "being restored"},
		{"POST", early + "/v1/streams/a/events", nil, 503, problemJSON, "being restored"},
		{"POST", at + "/v1/streams/a/events", nil, 202, "text/plain; charset=utf-8", "POST /v1/streams/a/events"},
		{"POST", at + "/v1/streams/a%2Fb/events", nil, 202, "text/plain; charset=utf-8", "POST /v1/streams/a/b/events"},
		{"GET", at + "/v1/streams/a/events", nil, 405, problemJSON, "GET is not taken here: send POST"},
		{"POST", at + "/v1/streams/a", nil, 405, problemJSON, "events go to /v1/streams/{name}/events"},
		{"POST", at + "/v1/streams/a/event", nil, 404, problemJSON, "events go to /v1/streams/{name}/events"},
		{"POST", at + "/v1/streams", nil, 405, problemJSON, "events go to /v1/streams/{name}/events"},
		{"GET", at + "/v1/streams/a/event", nil, 404, problemJSON, "there is no such route"},
		{"PUT", at + "/v1/rules", nil, 405, problemJSON, "PUT is not taken here: send GET"},
		{"POST", at + "/v1/rules/a", nil, 405, problemJSON, "POST is not taken here: send DELETE or GET or PATCH or PUT"},
		{strings.Repeat("M", 1000), at + "/v1/rules", nil, 405, problemJSON, strings.Repeat("M", 20) + " is not taken here"},
		{"GET", at + "/", nil, 404, problemJSON, `"status":404`},
		{"GET", at + "/debug/pprof/", nil, 404, problemJSON, `"status":404`},
		{"POST", at + "/status", nil, 405, problemJSON, "POST is not taken here: send GET"},
		{"POST", at + "/v1/streams/a/events", []string{"Origin:http://evil.example"}, 403, problemJSON, "requests of other sites are refused"},
		{"POST", at + "/v1/streams/a/events", []string{"Sec-Fetch-Site:cross-site"}, 403, problemJSON, "requests of other sites are refused"},
		{"POST", at + "/-/reload", []string{"Sec-Fetch-Site:cross-site"}, 403, problemJSON, "requests of other sites are refused"},
		{"GET", at + "/status", []string{"Sec-Fetch-Site:same-origin", "Host:evil.example:" + port}, 403, problemJSON, "the address must be a loopback address"},
		{"GET", at + "/status", []string{"Sec-Fetch-Site:same-origin", "Host:localhost:" + port}, 200, "application/json", "starting"},
		{"GET", at + "/status", []string{"Host:proxied.example"}, 200, "application/json", "starting"},
	} {
		code, headers, text := ask(t, test.method, test.url, test.header...)
		if kind := headers.Get("Content-Type"); code != test.code || kind != test.kind || !strings.Contains(text, test.text) {
			t.Errorf("%s %s %v: %d %s %q", test.method, test.url, test.header, code, kind, text)
		}
		if strings.HasSuffix(headers.Get("Content-Type"), "json") && !json.Valid([]byte(text)) {
			t.Errorf("%s: no JSON: %s", test.url, text)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
		} {
			if got := headers.Get(name); got != want {
				t.Errorf("%s %s: %s: %q, want %q", test.method, test.url, name, got, want)
			}
		}
	}
}

// A job that runs once needs no listener: where its address is taken, and nobody has said anything about one, it runs all the same
// and says what it does without. Whatever was said counts, and a job that runs on ends with what to write.
func TestAddressIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	address := taken.Addr().String()
	for _, c := range []struct {
		name, http string
		once, runs bool
	}{
		{"nothing is said", "", true, true},
		{"the job runs on", "", false, false},
		{"the address is said", "http: {listen: " + address + "}", true, false},
		{"something else of it is said", "http: {rate: 10}", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("cepd.yaml", `version: 1
rules: [any.yaml]
streams:
  auth: {source: {file: {paths: [auth.jsonl]}}, time: [at]}
sinks:
  out: {file: {path: alerts.jsonl}}
`+c.http)
			write("any.yaml", "version: 1\nrules: [{id: any, from: auth, by: [user]}]\n")
			write("auth.jsonl", `{"at":"2025-05-04T09:00:00Z","user":"ada"}`+"\n")
			f := runFlags{jobFlags: jobFlags{file: filepath.Join(dir, "cepd.yaml")}, once: c.once, moved: engine.ToEnd}
			read, set, diagnostics, err := f.load()
			if err != nil || read == nil {
				t.Fatal(err, diagnostics)
			}
			read.HTTP.Listen = address // in place of the default, which tests that run at once have no claim to
			var log bytes.Buffer
			err = serve(t.Context(), read, set, f, strings.NewReader(""), io.Discard, slog.New(slog.NewTextHandler(&log, nil)))
			const warning = "the job runs without a listener"
			if c.runs {
				alerts, failed := os.ReadFile(filepath.Join(dir, "alerts.jsonl"))
				if err != nil || failed != nil || bytes.Count(alerts, []byte("\n")) != 1 {
					t.Errorf("%v, %v, alerts: %s", err, failed, alerts)
				}
				for _, word := range []string{"level=WARN", warning, address, "--set http.listen="} {
					if !strings.Contains(log.String(), word) {
						t.Errorf("it does not say %q:\n%s", word, log.String())
					}
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "http.listen: ") || !strings.Contains(err.Error(), "--set http.listen=") {
				t.Errorf("%v, want what to set", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "state")); !os.IsNotExist(err) || strings.Contains(log.String(), warning) {
				t.Errorf("it began (%v):\n%s", err, log.String())
			}
		})
	}
}

// Profiles are on a listener of their own, which no page of another site reaches.
func TestProfilesAreApart(t *testing.T) {
	d, _ := serving(t, config.HTTP{Admin: "127.0.0.1:0"}, nil)
	at := "http://" + d.admin.net.Addr().String()
	if code, _, text := ask(t, "GET", at+"/debug/pprof/goroutine?debug=1"); code != 200 || !strings.Contains(text, "goroutine profile") {
		t.Errorf("%d %.100s", code, text)
	}
	for _, header := range []string{"Host:evil.example", "Host:10.0.0.1:80"} {
		if code, _, _ := ask(t, "GET", at+"/debug/pprof/", header); code != http.StatusForbidden {
			t.Errorf("%s: %d", header, code)
		}
	}
	if code, _, _ := ask(t, "GET", at+"/status"); code != http.StatusNotFound {
		t.Errorf("the status on the listener of administrators: %d", code)
	}
}

// An address that is taken is an error that says what to do; a listener that was never served closes too.
func TestListenTaken(t *testing.T) {
	l, err := listen(t.Context(), "http.listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen(t.Context(), "http.listen", l.net.Addr().String()); err == nil || !strings.Contains(err.Error(), "choose another address (--set http.listen=HOST:PORT, where port 0 is a free one), or none (--set http.listen=off)") {
		t.Errorf("%v", err)
	}
	l.close(t.Context())
	again, err := listen(t.Context(), "http.listen", l.net.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	again.close(t.Context())
	var none *listener
	none.close(t.Context())
}

// Connections beyond the limit wait until others are closed, and the listener closes while they do.
func TestFewConnections(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &fewConnections{Listener: inner, free: make(chan struct{}, 2), closed: make(chan struct{})}
	accepted, ended := make(chan net.Conn, 10), make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	first := <-accepted
	<-accepted
	select {
	case <-accepted:
		t.Fatal("a third connection was accepted")
	case <-time.After(20 * time.Millisecond):
	}
	_, _ = first.Close(), first.Close() // twice makes room once
	<-accepted
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// A panic in one request is the end of that one only.
func TestPanicInARequest(t *testing.T) {
	_, at := serving(t, config.HTTP{}, func(http.ResponseWriter, *http.Request) { panic("a mistake") })
	if code, _, text := ask(t, "POST", at+"/v1/streams/a/events"); code != http.StatusInternalServerError || strings.Contains(text, "a mistake") {
		t.Errorf("%d %s", code, text)
	}
	if code, _, _ := ask(t, "GET", at+"/status"); code != http.StatusOK {
		t.Errorf("%d", code)
	}
}
