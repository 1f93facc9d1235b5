package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/rules/rulesapi"
)

// hostile is what a server would say that wants the terminal of who asks.
const hostile = "\x1b]0;owned\x07\x1b[2J\u202erm -rf\r\x9b31m"

// speak runs a command against a server, and returns what it prints.
func speak(t *testing.T, server http.Handler, args ...string) (out, err string) {
	t.Helper()
	srv := httptest.NewServer(server)
	defer srv.Close()
	root := newRoot()
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(append(args, "--server", srv.URL))
	if failed := root.ExecuteContext(t.Context()); failed != nil {
		stderr.WriteString(failed.Error())
	}
	return stdout.String(), stderr.String()
}

// calm fails where a text would move a terminal.
func calm(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			t.Errorf("%s: %q reaches the terminal in %q", what, r, text)
			return
		}
	}
}

// TestHostileAnswers shows what a server says that is not one's own.
func TestHostileAnswers(t *testing.T) {
	rule := rulesapi.Rule{ID: hostile, File: hostile, Mode: "alert", Enabled: true, State: rulesapi.RuleState{Stopped: hostile}}
	change := rulesapi.RuleChange{Rule: "a", Text: hostile}
	problem := rulesapi.Problem{Title: hostile, Detail: hostile, File: hostile + "2", Status: 409, Diagnostics: []rulesapi.Diagnostic{
		{File: hostile, Line: 1, Column: 1, Length: 1, Code: hostile, Message: hostile, Hint: hostile, Excerpt: hostile, Severity: "error"},
	}}
	answers := map[string]any{
		"GET /v1/rules":                rulesapi.List[rulesapi.Rule]{Items: []rulesapi.Rule{rule}},
		"GET /v1/rules/a":              rule,
		"DELETE /v1/rules/a":           rulesapi.Report{Epoch: 1, Applied: true, Changes: []rulesapi.RuleChange{change}},
		"POST /v1/rules/a/shadow":      rulesapi.Report{Epoch: 1, Applied: true, Changes: []rulesapi.RuleChange{change}},
		"GET /v1/rules/a/revisions":    rulesapi.List[rulesapi.Revision]{Items: []rulesapi.Revision{{Action: hostile, By: hostile, File: hostile, New: hostile}}},
		"GET /v1/silences":             rulesapi.List[rulesapi.Silence]{Items: []rulesapi.Silence{{ID: hostile, Rules: []string{hostile}, Key: map[string]any{hostile: hostile}, Comment: hostile, File: hostile}}},
		"GET /v1/streams":              rulesapi.List[rulesapi.Stream]{Items: []rulesapi.Stream{{Name: hostile, Trouble: hostile}, {Name: "b", HeldBy: []string{hostile}}}},
		"GET /v1/sinks":                rulesapi.List[rulesapi.Sink]{Items: []rulesapi.Sink{{Name: hostile, Error: hostile}}},
		"GET /v1/managed":              rulesapi.ManagedSet{},
		"PUT /v1/managed?dry_run=true": rulesapi.Report{Changes: []rulesapi.RuleChange{change}, Tests: []rulesapi.TestResult{{Rule: hostile, Name: hostile, Failure: []string{hostile}}}},
	}
	file := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nrules: [{id: a}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := [][]string{
		{"rules"},
		{"get", "a", "-o", "history"},
		{"delete", "a"},
		{"rules", "shadow", "a"},
		{"silence", "list"},
		{"silence", "end", "a"},
		{"top", "--once", "--every", "100ms"},
		{"apply", "-f", file, "--dry-run"},
		{"get", "b"},
		{"get", "c"},
	}
	for _, fails := range []bool{false, true} {
		server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name := r.Method + " " + r.URL.Path
			if r.Method == http.MethodPut {
				name += "?" + r.URL.RawQuery
			}
			answer, ok := answers[name]
			switch {
			case r.URL.Path == "/v1/rules/c":
				w.WriteHeader(http.StatusTeapot)
				_, _ = w.Write([]byte(hostile))
				return
			case fails || !ok:
				answer = problem
				w.WriteHeader(problem.Status)
			}
			b, err := json.Marshal(answer)
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(b)
		})
		for _, args := range commands {
			out, err := speak(t, server, args...)
			if out+err == "" {
				t.Errorf("%v says nothing", args)
			}
			calm(t, strings.Join(args, " "), out+err)
		}
	}
	calm(t, "a text", printableText("a\tb\n"+hostile+"\n"))
	if got := printableText("a\tb\r\n\x1b[1m\n"); got != "a\tb\\r\n\\x1b[1m\n" {
		t.Errorf("%q", got)
	}
}

// TestTokenStaysAtItsServer follows no server that points elsewhere.
func TestTokenStaysAtItsServer(t *testing.T) {
	seen := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen++ }))
	defer elsewhere.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("cepd_secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := speak(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer cepd_secret" {
			t.Errorf("the token is %q", r.Header.Get("Authorization"))
		}
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}), "rules", "--token-file", token)
	if seen > 0 || !strings.Contains(err, "that is not how cepd does") || strings.Contains(err, "secret") {
		t.Errorf("%d requests elsewhere; %s", seen, err)
	}
}

// TestServersCertificate trusts the one that it is told of, and shows one of its own where the server asks.
func TestServersCertificate(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 {
			t.Error("the client shows no certificate")
		}
		_, _ = w.Write([]byte(`{"items": []}`))
	}))
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	dir := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(srv.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, b []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	cert, keyFile := write("cert", "CERTIFICATE", srv.Certificate().Raw), write("key", "PRIVATE KEY", key)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"", []string{"--ca-file", cert, "--cert-file", cert, "--key-file", keyFile}},
		{"certificate", []string{"--cert-file", cert, "--key-file", keyFile}},
		{"certificate", []string{"--ca-file", cert}},
		{"there is no certificate in", []string{"--ca-file", keyFile}},
		{"go together", []string{"--cert-file", cert}},
		{"no such file", []string{"--ca-file", filepath.Join(dir, "none")}},
		{"no such file", []string{"--token-file", filepath.Join(dir, "none")}},
	} {
		root := newRoot()
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		root.SetArgs(append([]string{"rules", "--server", srv.URL}, c.args...))
		err := root.ExecuteContext(t.Context())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

func TestTopLook(t *testing.T) {
	at := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	lag := int64(1200)
	before := &topLook{server: "http://x", at: at, streams: []rulesapi.Stream{{Name: "a", Events: 100}}, sinks: []rulesapi.Sink{{Name: "out", Published: 9}}, rules: []rulesapi.Rule{{ID: "slow"}, {ID: "again", State: rulesapi.RuleState{Seen: 500, Evaluation: time.Hour}}}}
	now := &topLook{
		server: "http://x", at: at.Add(2 * time.Second), more: true,
		streams: []rulesapi.Stream{
			{Name: "a", Events: 2100, Watermark: at.Add(-time.Minute), Partitions: []rulesapi.Partition{{Lag: &lag}, {Lag: &lag}, {}}, Bad: map[string]uint64{"x": 2}},
			{Name: "b", Open: 1, Idle: 1},
			{Name: "c", Paused: true, HeldBy: []string{"p1"}},
		},
		sinks: []rulesapi.Sink{{Name: "out", Published: 19, Waiting: 3, Full: true}, {Name: "other", Error: "refused", Stopped: true}},
		rules: []rulesapi.Rule{
			{ID: "quiet", State: rulesapi.RuleState{Open: 7, Keys: 3}},
			{ID: "slow", State: rulesapi.RuleState{Seen: 1000, Evaluation: 500 * time.Millisecond}},
			{ID: "again", State: rulesapi.RuleState{Seen: 5, Evaluation: time.Second}},
		},
	}
	want := []string{
		"http://x  09:00:02  the first 3 rules, 7 open starts in 3 keys",
		"",
		"stream  events  a second    lag  behind  buffered  late  bad  is",
		"a        2,100     1,000  2,400  1m2s           0     0    2  well",
		"b            0                                  0     0    0  idle",
		"c            0                                  0     0    0  paused: waits for p1",
		"",
		"sink   published  a second  waiting  is",
		"out           19         5        3  full",
		"other          0                  0  stopped: refused",
		"",
		"rule     busy  seen a second  open  keys  draining  matched  alerts  errors",
		"slow   25.0 %            500     0     0         0        0       0       0",
		"quiet                            7     3         0        0       0       0",
		"again   0.0 %                    0     0         0        0       0       0",
	}
	if d := cmp.Diff(want, now.lines(before, palette{})); d != "" {
		t.Error(d)
	}
	for line, cut := range map[string]string{"abcdef": "abc", "ab": "ab", "\x1b[1mabcdef\x1b[0m": "\x1b[1mabc\x1b[0m", "日本語x": "日本語", "": ""} {
		if got := fit(line, 3); got != cut {
			t.Errorf("%q cut to 3 is %q", line, got)
		}
	}
}

func TestKeyValue(t *testing.T) {
	for text, want := range map[string]any{
		"7": json.Number("7"), "1.5": json.Number("1.5"), "true": true, `"7"`: "7", "ann": "ann", "": "", "null": "null", "[1]": "[1]", "10.0.0.1": "10.0.0.1", "7 8": "7 8", `"`: `"`,
	} {
		if got := keyValue(text); got != want {
			t.Errorf("%q is %#v", text, got)
		}
	}
}
