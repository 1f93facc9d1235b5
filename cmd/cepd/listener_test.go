package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

// serving runs a listener until the test ends and returns its address.
func serving(t *testing.T, push http.Handler, wrong []string) string {
	t.Helper()
	l, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.serve(push, func() any { return map[string]int{"n": 1} }, func() []string { return wrong }, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { l.close(t.Context()) })
	return l.net.Addr().String()
}

func ask(t *testing.T, method, url string, header ...string) (int, string, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ":")
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, a.Header.Get("Content-Type"), string(text)
}

// The listener answers what it has, and nothing of it to pages of other sites.
func TestListener(t *testing.T) {
	push := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path) // the test sees what is missing
	})
	at := "http://" + serving(t, push, nil)
	ill := "http://" + serving(t, push, []string{"sink bus: refused"})
	_, port, _ := strings.Cut(strings.TrimPrefix(at, "http://"), ":")
	for _, test := range []struct {
		method, url string
		header      []string
		code        int
		kind, text  string
	}{
		{"GET", at + "/healthz", nil, 200, "application/json", `{"status":"ok"}`},
		{"GET", ill + "/healthz", nil, 503, "application/json", `{"status":"degraded","degraded":["sink bus: refused"]}`},
		{"GET", at + "/status", nil, 200, "application/json", "{\n  \"n\": 1\n}"},
		{"POST", at + "/v1/streams/a/events", nil, 202, "text/plain; charset=utf-8", "POST /v1/streams/a/events"},
		{"PUT", at + "/v1/streams/a%2Fb/events", nil, 202, "text/plain; charset=utf-8", "PUT /v1/streams/a/b/events"},
		{"GET", at + "/", nil, 404, "application/problem+json", `{"title":"Not Found","status":404}`},
		{"POST", at + "/status", nil, 405, "application/problem+json", `{"title":"Method Not Allowed","status":405}`},
		{"POST", at + "/v1/streams/a/events", []string{"Origin:http://evil.example"}, 403, "application/problem+json", `{"title":"requests of other sites are refused","status":403}`},
		{"POST", at + "/v1/streams/a/events", []string{"Sec-Fetch-Site:cross-site"}, 403, "application/problem+json", `{"title":"requests of other sites are refused","status":403}`},
		{"GET", at + "/status", []string{"Sec-Fetch-Site:same-origin", "Host:evil.example:" + port}, 403, "application/problem+json", `{"title":"the address must be a loopback address","status":403}`},
		{"GET", at + "/healthz", []string{"Sec-Fetch-Site:same-origin", "Host:localhost:" + port}, 200, "application/json", `{"status":"ok"}`},
		{"GET", at + "/healthz", []string{"Host:proxied.example"}, 200, "application/json", `{"status":"ok"}`},
	} {
		code, kind, text := ask(t, test.method, test.url, test.header...)
		if code != test.code || kind != test.kind || strings.TrimSuffix(text, "\n") != test.text {
			t.Errorf("%s %s %v: %d %s %q", test.method, test.url, test.header, code, kind, text)
		}
		if strings.HasSuffix(kind, "json") && !json.Valid([]byte(text)) {
			t.Errorf("%s: no JSON: %s", test.url, text)
		}
	}
}

// An address that is taken is an error that says what to do; a listener that was never served closes too.
func TestListenTaken(t *testing.T) {
	l, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen(t.Context(), l.net.Addr().String()); err == nil || !strings.Contains(err.Error(), "choose another address, or write off") {
		t.Errorf("%v", err)
	}
	l.close(t.Context())
	again, err := listen(t.Context(), l.net.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	again.close(t.Context())
	var none *listener
	none.close(t.Context())
}
