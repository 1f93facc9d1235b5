package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/cep/source/httpsource"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/rules/rulesapi"
)

// fast is a rate that no test comes near.
const fast = 100_000

// tokensFile writes a file of tokens.
func tokensFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// allRoutes are those of a daemon by method and path, each with an example of its path.
func allRoutes(d *daemon) map[string]route {
	list := map[string]route{}
	for _, r := range d.routes() {
		list[r.method+" "+r.path] = r
	}
	for _, r := range rulesapi.Routes() {
		list[r.Method+" "+r.Path] = route{method: r.Method, path: r.Path, need: need{role: r.Role}}
	}
	return list
}

// example is a path that a route answers.
func example(path string) string {
	if path == pushPath {
		return httpsource.Prefix + "auth/events"
	}
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, ":") {
			parts[i] = "1"
		}
	}
	return strings.Join(parts, "/")
}

// TestRoutesAskForCredentials walks every route with each kind of credentials. What a route needs is written down here once
// more, for all of which somebody could come to harm.
func TestRoutesAskForCredentials(t *testing.T) {
	d, at := serving(t, config.HTTP{Tokens: tokensFile(t, accessText()), Rate: fast}, echoPush)
	callers := []struct {
		name, header string
		role         rulesapi.Role
		auth         bool // may send to the stream auth
		known        bool
	}{
		{"nobody", "", rulesapi.NoRole, false, false},
		{"a wrong token", "Bearer " + adaToken + "x", rulesapi.NoRole, false, false},
		{"the hash of a token", "Bearer " + hashOfToken(adaToken), rulesapi.NoRole, false, false},
		{"another scheme", "Basic " + adaToken, rulesapi.NoRole, false, false},
		{"no scheme", adaToken, rulesapi.NoRole, false, false},
		{"an empty token", "Bearer ", rulesapi.NoRole, false, false},
		{"an endless token", "Bearer " + strings.Repeat("a", tokenMax+1), rulesapi.NoRole, false, false},
		{"viewer", "Bearer " + eveToken, rulesapi.Viewer, false, true},
		{"editor", "bearer " + bobToken, rulesapi.Editor, false, true},
		{"admin", "Bearer " + adaToken, rulesapi.Admin, false, true},
		{"shipper", "Bearer " + shipToken, rulesapi.NoRole, true, true},
		{"shipper and viewer", "Bearer " + allToken, rulesapi.Viewer, true, true},
	}
	routes := allRoutes(d)
	if len(routes) < 30 {
		t.Fatalf("only %d routes: the walk is blind", len(routes))
	}
	for name, want := range map[string]rulesapi.Role{
		"GET /status": rulesapi.Viewer, "POST /-/reload": rulesapi.Editor, "GET /-/reload": rulesapi.Viewer, "PUT /v1/rules/:id": rulesapi.Editor,
		"DELETE /v1/rules/:id": rulesapi.Editor, "PUT /v1/managed": rulesapi.Editor, "POST /v1/savepoints": rulesapi.Admin,
		"POST /v1/checkpoints": rulesapi.Admin, "GET /v1/alerts/live": rulesapi.Viewer, "PUT /v1/silences/:id": rulesapi.Editor,
	} {
		if r, ok := routes[name]; !ok || r.need.role != want || r.need.public || r.need.push {
			t.Errorf("%s needs %+v, not %s", name, r.need, want)
		}
	}
	for name, r := range routes {
		if r.need.public != slices.Contains([]string{"GET /healthz", "GET /ready", "HEAD /healthz", "HEAD /ready"}, name) {
			t.Errorf("%s is public: %t", name, r.need.public)
		}
		if r.need.role == rulesapi.NoRole && !r.need.public && !r.need.push {
			t.Errorf("%s needs nothing", name)
		}
		for _, c := range callers {
			want := "answered"
			switch {
			case r.need.public:
			case !c.known:
				want = "401"
			case r.need.push && !c.auth, !r.need.push && c.role < r.need.role:
				want = "403"
			}
			var header []string
			if c.header != "" {
				header = []string{"Authorization:" + c.header}
			}
			code, headers, text := ask(t, r.method, at+example(r.path), header...)
			got := "answered"
			if code == http.StatusUnauthorized || code == http.StatusForbidden {
				got = fmt.Sprint(code)
			}
			if got != want {
				t.Errorf("%s by %s: %d, want %s: %s", name, c.name, code, want, text)
			}
			if code == http.StatusUnauthorized && !strings.HasPrefix(headers.Get("WWW-Authenticate"), `Bearer realm="cepd"`) {
				t.Errorf("%s by %s: WWW-Authenticate %q", name, c.name, headers.Get("WWW-Authenticate"))
			}
			if strings.Contains(text, adaToken) {
				t.Errorf("%s by %s: the answer shows a token: %s", name, c.name, text)
			}
		}
	}
	// Two headers are none.
	if code, _, _ := ask(t, "GET", at+"/status", "Authorization:Bearer "+eveToken, "Authorization:Bearer "+adaToken); code != http.StatusUnauthorized {
		t.Errorf("two tokens: %d", code)
	}
	// Of another stream, or another path.
	for path, want := range map[string]int{
		"/v1/streams/auth/events": http.StatusAccepted, "/v1/streams/shop/events": http.StatusForbidden, "/v1/streams/auth/events/events": http.StatusNotFound,
		"/v1/streams/%61uth/events": http.StatusAccepted, "/v1/streams/../auth/events": http.StatusNotFound, "/v1/streams/..%2fauth/events": http.StatusForbidden,
		"/nowhere": http.StatusNotFound,
	} {
		if code, _, text := ask(t, "POST", at+path, "Authorization:Bearer "+shipToken); code != want {
			t.Errorf("%s: %d, want %d: %s", path, code, want, text)
		}
	}
	if n := d.refusals(); n.Unauthorized == 0 || n.Forbidden == 0 || n.Limited != 0 {
		t.Errorf("%+v", n)
	}
}

// TestRoutesAreInTheTable holds what is registered, before and after the job is there, to the table that the guard goes by:
// nothing is answered that it does not know.
func TestRoutesAreInTheTable(t *testing.T) {
	d, _ := serving(t, config.HTTP{Rate: fast}, echoPush)
	api, err := rulesapi.New(rulesapi.Config{
		Daemon: &control{}, HistoryDir: filepath.Join(t.TempDir(), "revisions"), Feed: rulesapi.NewFeed(0, alert.AppendJSON), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	table := allRoutes(d)
	for phase, api := range map[string]*rulesapi.API{"starting": nil, "running": api} {
		seen := map[string]bool{}
		for _, r := range d.router(api).(*echo.Echo).Routes() {
			if r.Method == echo.RouteNotFound { // a group's own 404
				continue
			}
			name := r.Method + " " + r.Path
			if _, ok := table[name]; !ok {
				t.Errorf("%s: %s is answered, and in no table", phase, name)
			}
			seen[name] = true
		}
		for name := range table {
			if !seen[name] {
				t.Errorf("%s: %s is in the table, and nobody answers", phase, name)
			}
		}
	}
}

// Who sends too much is told when to come again; others, and those who send events, are not kept out by it.
func TestRateLimit(t *testing.T) {
	d, at := serving(t, config.HTTP{Tokens: tokensFile(t, accessText()), Rate: 1}, echoPush)
	try := func(token, path string) (code int, headers http.Header) {
		code, headers, _ = ask(t, "POST", at+path, "Authorization:Bearer "+token)
		return code, headers
	}
	limited := 0
	for range 20 {
		if code, headers := try(eveToken, "/v1/validate"); code == http.StatusTooManyRequests {
			limited++
			if headers.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
	}
	if limited < 10 {
		t.Errorf("%d of 20 requests were refused", limited)
	}
	if code, _ := try(bobToken, "/v1/validate"); code == http.StatusTooManyRequests {
		t.Error("another name of the same machine is kept out")
	}
	for range 20 {
		if code, _ := try(shipToken, "/v1/streams/auth/events"); code != http.StatusAccepted {
			t.Errorf("events: %d", code)
		}
	}
	// Guessing is no better off, whatever it is that is asked for.
	limited = 0
	for range 20 {
		if code, _ := try("guess", "/v1/streams/auth/events"); code == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited < 10 || d.refusals().Limited < 20 {
		t.Errorf("%d of 20 guesses were refused; %+v", limited, d.refusals())
	}
}

// A flood keeps no probe out: none of whether the process is alive, whatever the flood is of, and none of whether it is ready
// unless the flood is of such.
func TestRateLimitOfProbes(t *testing.T) {
	_, at := serving(t, config.HTTP{Tokens: tokensFile(t, accessText()), Rate: 1}, nil)
	get := func(path, token string) int {
		code, _, _ := ask(t, "GET", at+path, "Authorization:Bearer "+token)
		return code
	}
	flood := func(path, token string) (limited int) {
		for range 20 {
			if get(path, token) == http.StatusTooManyRequests {
				limited++
			}
		}
		return limited
	}
	for _, token := range []string{"guess", eveToken} {
		if n := flood("/status", token); n < 10 {
			t.Errorf("%d of 20 requests were refused", n)
		}
		if code := get("/ready", token); code != http.StatusServiceUnavailable { // it starts
			t.Errorf("/ready: %d", code)
		}
		if n := flood("/ready", token); n < 10 {
			t.Errorf("%d of 20 requests for /ready were refused", n)
		}
		if n := flood("/healthz", token); n != 0 {
			t.Errorf("%d of 20 requests for /healthz were refused", n)
		}
	}
}

// A proxy's word for where a request comes from counts only where the proxy is trusted.
func TestTrustedProxies(t *testing.T) {
	who := func(h config.HTTP, forwarded string) string {
		r := httptest.NewRequest("GET", "/", http.NoBody)
		r.RemoteAddr = "10.0.0.7:1234"
		r.Header.Set("X-Forwarded-For", forwarded)
		r.Header.Set("X-Real-Ip", "6.6.6.6")
		return extractor(h)(r)
	}
	proxies := config.HTTP{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}
	for _, c := range []struct {
		h               config.HTTP
		forwarded, want string
	}{
		{config.HTTP{}, "1.2.3.4", "10.0.0.7"},
		{proxies, "1.2.3.4", "1.2.3.4"},
		{proxies, "6.6.6.6, 1.2.3.4", "1.2.3.4"}, // the client's own word
		{proxies, "6.6.6.6, 1.2.3.4, 10.0.0.9", "1.2.3.4"},
		{proxies, "1.2.3.4, 10.0.1.9", "10.0.1.9"}, // another private network is not trusted
		{proxies, "1.2.3.4, 127.0.0.1", "127.0.0.1"},
		{proxies, "nonsense", "10.0.0.7"},
	} {
		if got := who(c.h, c.forwarded); got != c.want {
			t.Errorf("%v %q: %s, want %s", c.h.TrustedProxies, c.forwarded, got, c.want)
		}
	}
}

// Where tokens are asked for, a browser may use whatever name the listener has; pages of other sites stay out.
func TestBrowsersWithTokens(t *testing.T) {
	_, at := serving(t, config.HTTP{Tokens: tokensFile(t, accessText()), Rate: fast}, echoPush)
	token := "Authorization:Bearer " + bobToken
	if code, _, _ := ask(t, "GET", at+"/status", token, "Host:cepd.example", "Sec-Fetch-Site:same-origin"); code != http.StatusOK {
		t.Errorf("%d", code)
	}
	if code, _, _ := ask(t, "POST", at+"/-/reload", token, "Host:cepd.example", "Sec-Fetch-Site:cross-site"); code != http.StatusForbidden {
		t.Errorf("%d", code)
	}
}

// Nothing that a client wrote but method and path is logged, on one line, and a client that goes on is not logged again.
func TestRefusalsInTheLog(t *testing.T) {
	var log bytes.Buffer
	h := config.HTTP{Tokens: tokensFile(t, accessText()), Rate: fast}
	g, err := newGuard(h, slog.New(&logHandler{out: &lockedWriter{w: &log}, palette: palette{false}}))
	if err != nil {
		t.Fatal(err)
	}
	e := echo.New()
	e.HTTPErrorHandler = rulesapi.HandleError
	e.IPExtractor = extractor(h)
	e.Use(g.protect(map[string]need{}))
	for range 5 {
		r := httptest.NewRequest("GET", "/nowhere%0a2026-01-01T00:00:00Z%20ERROR%20%1b[2J?token="+adaToken, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+adaToken+"x")
		w := httptest.NewRecorder()
		if e.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
			t.Errorf("%d", w.Code)
		}
	}
	text := log.String()
	if strings.Count(text, "\n") != 1 || strings.ContainsAny(text, "\x1b\r") || strings.Contains(text, adaToken) || !strings.Contains(text, "a request was refused") {
		t.Errorf("%q", text)
	}
}

// What is too large is refused before it is read, and a client that sends half a header does not hold a connection.
func TestSizes(t *testing.T) {
	d, at := serving(t, config.HTTP{Rate: fast}, echoPush)
	r, err := http.NewRequestWithContext(t.Context(), "GET", at+"/status", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Large", strings.Repeat("a", 2*headerMax))
	// The connection may end before the client has sent all of it and reads the answer.
	if a, err := http.DefaultClient.Do(r); err == nil {
		if _ = a.Body.Close(); a.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a header of %d bytes: %s", 2*headerMax, a.Status)
		}
	}
	if s := d.listener.server; s.ReadHeaderTimeout == 0 || s.ReadTimeout == 0 || s.IdleTimeout == 0 || s.MaxHeaderBytes == 0 {
		t.Errorf("a listener without an end to waiting: %+v", s)
	}
	for name, r := range allRoutes(d) {
		if r.method != http.MethodPut && r.method != http.MethodPatch {
			continue
		}
		for _, route := range rulesapi.Routes() {
			if name == route.Method+" "+route.Path && route.BodyMax == 0 {
				t.Errorf("%s has a body without a limit", name)
			}
		}
	}
	g, err := newGuard(config.HTTP{Rate: fast}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	e := echo.New()
	e.HTTPErrorHandler = rulesapi.HandleError
	e.Use(g.protect(map[string]need{"PUT /small": {role: rulesapi.Editor, body: 100}}))
	e.PUT("/small", func(c echo.Context) error {
		_, err := io.ReadAll(c.Request().Body)
		return err
	})
	for size, want := range map[int]int{100: http.StatusOK, 101: http.StatusRequestEntityTooLarge} {
		r := httptest.NewRequest("PUT", "/small", strings.NewReader(strings.Repeat("a", size)))
		r.RemoteAddr = "127.0.0.1:1"
		w := httptest.NewRecorder()
		if e.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%d bytes: %d", size, w.Code)
		}
	}
}

// An answer may take longer than a request: it is not cut off when the time for reading is over.
func TestLongAnswers(t *testing.T) {
	g, err := newGuard(config.HTTP{Rate: fast}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	const reading = 50 * time.Millisecond
	e := echo.New()
	e.Use(g.protect(map[string]need{"GET /live": {role: rulesapi.Viewer}}))
	e.GET("/live", func(c echo.Context) error {
		select {
		case <-time.After(4 * reading):
			return c.String(http.StatusOK, "all of it")
		case <-c.Request().Context().Done():
			return c.String(http.StatusGone, "cut off")
		}
	})
	server := httptest.NewUnstartedServer(e)
	server.Config.ReadTimeout = reading
	server.Start()
	defer server.Close()
	if code, _, text := ask(t, "GET", server.URL+"/live"); code != http.StatusOK || text != "all of it" {
		t.Errorf("%d %s", code, text)
	}
}

// papers are certificates that a test makes.
type papers struct {
	t      *testing.T
	dir    string
	issuer *x509.Certificate
	key    *ecdsa.PrivateKey
}

func newPapers(t *testing.T) *papers {
	p := &papers{t: t, dir: t.TempDir()}
	p.issuer, p.key = p.sign("ca", &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "ca"},
	})
	return p
}

// sign makes a certificate, and the files NAME.crt and NAME.key.
func (p *papers) sign(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		p.t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore = serial, time.Now().Add(-time.Hour)
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	issuer, signer := p.issuer, p.key
	if issuer == nil {
		issuer, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, issuer, &key.PublicKey, signer)
	if err != nil {
		p.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(name+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	p.write(name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	made, err := x509.ParseCertificate(der)
	if err != nil {
		p.t.Fatal(err)
	}
	return made, key
}

func (p *papers) write(name string, data []byte) {
	p.t.Helper()
	if err := os.WriteFile(p.file(name), data, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *papers) file(name string) string { return filepath.Join(p.dir, name) }

func (p *papers) server(name string) {
	p.sign(name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
}

func (p *papers) client(name string, dns ...string) {
	p.sign(name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: dns, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// as is a client that shows a certificate, if any, and believes the authority.
func (p *papers) as(name string) *http.Client {
	p.t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool()}
	c.RootCAs.AddCert(p.issuer)
	if name != "" {
		pair, err := tls.LoadX509KeyPair(p.file(name+".crt"), p.file(name+".key"))
		if err != nil {
			p.t.Fatal(err)
		}
		// Shown whatever authorities the server names: who is not known there tries all the same.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	transport := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
	p.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestMutualTLS lets certificates stand for names, beside tokens, and reads all files again.
func TestMutualTLS(t *testing.T) {
	p := newPapers(t)
	p.server("one")
	p.client("ship", "ship.example")
	p.client("stranger", "stranger.example")
	other := newPapers(t)
	other.client("ship", "ship.example") // the right name from a wrong authority
	h := config.HTTP{
		Tokens: tokensFile(t, accessText()), Rate: fast, TLS: config.ListenerTLS{Certificate: p.file("one.crt"), Key: p.file("one.key"), ClientCA: p.file("ca.crt")},
	}
	d, at := serving(t, h, echoPush)
	at = "https://" + strings.TrimPrefix(at, "http://")
	events := at + "/v1/streams/auth/events"
	expect := func(client *http.Client, method, url string, want int, header ...string) http.Header {
		t.Helper()
		code, headers, text := askBy(t, client, method, url, header...)
		if code != want {
			t.Errorf("%s %s: %d, want %d: %s", method, url, code, want, text)
		}
		return headers
	}
	ship := p.as("ship")
	headers := expect(ship, "POST", events, http.StatusAccepted)
	if headers.Get("Strict-Transport-Security") == "" {
		t.Error("no Strict-Transport-Security")
	}
	expect(ship, "GET", at+"/status", http.StatusForbidden)
	expect(ship, "GET", at+"/status", http.StatusOK, "Authorization:Bearer "+eveToken)          // a token counts first
	expect(ship, "POST", events, http.StatusUnauthorized, "Authorization:Bearer "+eveToken+"x") // a wrong one too
	expect(p.as("stranger"), "POST", events, http.StatusUnauthorized)
	expect(p.as(""), "POST", events, http.StatusUnauthorized)
	expect(p.as(""), "GET", at+"/healthz", http.StatusOK)
	forger := other.as("ship")
	forger.Transport.(*http.Transport).TLSClientConfig.RootCAs.AddCert(p.issuer)
	if r, err := forger.Get(at + "/healthz"); err == nil {
		_ = r.Body.Close()
		t.Error("a certificate of another authority was taken")
	}

	// New files count for new connections, and the old ones where the new ones are no good.
	served := func() string {
		c, err := tls.Dial("tcp", d.listener.net.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	p.server("two")
	for _, end := range []string{".crt", ".key"} {
		if err := os.Rename(p.file("two"+end), p.file("one"+end)); err != nil {
			t.Fatal(err)
		}
	}
	if got := served(); got != "one" {
		t.Errorf("%s is served before it was read", got)
	}
	if err := d.guard.read(); err != nil || served() != "two" {
		t.Errorf("%v: %s is served", err, served())
	}
	p.write("one.key", []byte("no key"))
	if err := d.guard.read(); err == nil || !strings.Contains(err.Error(), "http.tls: ") || served() != "two" || d.guard.sound() {
		t.Errorf("%v: %s is served", err, served())
	}
	expect(ship, "POST", events, http.StatusAccepted)
}

// TestRevoked takes a token away: the next request is refused, and what is being read with it ends.
func TestRevoked(t *testing.T) {
	h := config.HTTP{Tokens: tokensFile(t, accessText()), Rate: fast}
	g, err := newGuard(h, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	e := echo.New()
	e.Use(g.protect(map[string]need{"GET /live": {role: rulesapi.Viewer}}))
	ended := make(chan error, 2)
	e.GET("/live", func(c echo.Context) error {
		_, _ = io.WriteString(c.Response(), "begun\n")
		c.Response().Flush()
		<-c.Request().Context().Done()
		ended <- context.Cause(c.Request().Context())
		return nil
	})
	server := httptest.NewServer(e)
	defer server.Close()
	read := func(token string) (status int, body io.ReadCloser) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/live", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if a.StatusCode == http.StatusOK {
			if line, err := bufio.NewReader(a.Body).ReadString('\n'); err != nil || line != "begun\n" {
				t.Fatal(line, err)
			}
		}
		return a.StatusCode, a.Body
	}
	_, eve := read(eveToken)
	_, bob := read(bobToken)
	write := func(text string) {
		if err := os.WriteFile(h.Tokens, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("version: 1\naccess: [")
	if err := g.read(); err == nil {
		t.Error("a broken file was read")
	}
	write(fmt.Sprintf("version: 1\naccess: [{name: bob, role: viewer, tokens: [%q]}]\n", hashOfToken(bobToken)))
	if err := g.read(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, errRevoked) {
		t.Errorf("%v", err)
	}
	if code, _ := read(eveToken); code != http.StatusUnauthorized {
		t.Errorf("%d", code)
	}
	select {
	case err := <-ended:
		t.Errorf("who may still read was cut off: %v", err)
	default:
	}
	_, _ = eve.Close(), bob.Close()
	t.Log("who has gone away:", <-ended)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.readings) > 1 { // the last one is on its way out
		t.Errorf("%d readings are kept", len(g.readings))
	}
}
