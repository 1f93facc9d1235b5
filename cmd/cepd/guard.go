package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"github.com/cepd/cepd/cep/source/httpsource"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules/rulesapi"
)

const (
	// tokenMax is the length of the longest token that is looked at: those of `cepd token new` have 48 bytes.
	tokenMax = 512
	// refusalEvery is how often a refused client is named in the log: one that goes on is counted.
	refusalEvery = time.Minute
	// anonymous is who changes something where nobody is asked who they are.
	anonymous = "anonymous"
)

// guard stands before all routes: it finds out who asks, how much they may ask, and whether they may ask this.
type guard struct {
	// file says who may do what; "": everybody may do everything.
	file   string
	access atomic.Pointer[access]
	// tls is nil where the listener does not speak it.
	tls     *certificates
	foreign *http.CrossOriginProtection
	limits  *limiter
	named   *limiter // refusals in the log
	log     *slog.Logger

	unauthorized, forbidden, limited atomic.Uint64

	mu       sync.Mutex
	readings map[*reading]struct{}
	failed   bool // the last read
}

// need is what a route asks for.
type need struct {
	// public routes answer everybody; those who may see more show who they are.
	public bool
	// unlimited routes cost next to nothing, and who asks must be answered: a probe that is refused ends a process that is well.
	unlimited bool
	// push asks for the right to send events to the stream that the path names.
	push bool
	role rulesapi.Role
	// body is the largest one that is read; 0: the handler says.
	body int64
}

// reading is a request under way that reads, perhaps for ever. It ends when who asks may no longer ask.
type reading struct {
	who  proof
	need need
	end  context.CancelCauseFunc
}

// errRevoked ends readings.
var errRevoked = errors.New("the right to ask for this was taken away")

// refusalCounts are numbers of requests that were not answered.
type refusalCounts struct{ Unauthorized, Forbidden, Limited uint64 }

// newGuard reads the files that say who may what, and what the listener shows.
func newGuard(c config.HTTP, log *slog.Logger) (*guard, error) {
	g := &guard{
		file: c.Tokens, foreign: http.NewCrossOriginProtection(), limits: newLimiter(rate.Limit(c.Rate), burstFactor*c.Rate),
		named: newLimiter(rate.Every(refusalEvery), 1), log: log, readings: map[*reading]struct{}{},
	}
	if c.TLS.Enabled() {
		var err error
		if g.tls, err = newCertificates(c.TLS); err != nil {
			return nil, err
		}
	}
	if g.file == "" {
		return g, nil
	}
	a, err := readAccess(g.file)
	if err != nil {
		return nil, err
	}
	g.access.Store(a)
	return g, nil
}

// listenerRefusals reports what is wrong with the files that the listener is configured with.
func listenerRefusals(c *config.Config) patterns.Diagnostics {
	var list patterns.Diagnostics
	if c.HTTP.Listen == "off" {
		return nil
	}
	if c.HTTP.Tokens != "" {
		_, err := readAccess(c.HTTP.Tokens)
		if all, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // of the list itself
			for _, one := range all.Unwrap() {
				list = append(list, c.Refused("http.tokens", one))
			}
		} else if err != nil {
			list = append(list, c.Refused("http.tokens", err))
		}
	}
	if c.HTTP.TLS.Enabled() {
		if _, err := newCertificates(c.HTTP.TLS); err != nil {
			list = append(list, c.Refused("http.tls", err))
		}
	}
	return list
}

// read reads the files again. After an error what was read before goes on counting.
func (g *guard) read() error {
	var errs []error
	if g.tls != nil {
		errs = append(errs, g.tls.read())
	}
	if g.file != "" {
		a, err := readAccess(g.file)
		if errs = append(errs, err); err == nil {
			g.access.Store(a)
			g.endReadings(a)
		}
	}
	err := errors.Join(errs...)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed = err != nil
	return err
}

// sound reports whether the files could be read when they were read last.
func (g *guard) sound() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.failed
}

// endReadings ends what those are reading who may no longer.
func (g *guard) endReadings(a *access) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for r := range g.readings {
		if by := r.who.grant(a); by == nil || by.role < r.need.role {
			r.end(errRevoked)
		}
	}
}

// refusals returns how many requests were refused.
func (g *guard) refusals() refusalCounts {
	return refusalCounts{Unauthorized: g.unauthorized.Load(), Forbidden: g.forbidden.Load(), Limited: g.limited.Load()}
}

// proof is what a request shows of who sends it.
type proof struct {
	token string
	// given says that there is a token, although it may be none that anybody has.
	given bool
	names []string // of its certificate
}

// proofOf returns what a request shows. A token counts before a certificate: who sends one means it.
func proofOf(r *http.Request, now time.Time) proof {
	if list := r.Header.Values("Authorization"); len(list) > 0 {
		scheme, token, _ := strings.Cut(list[0], " ")
		if token = strings.TrimSpace(token); len(list) > 1 || !strings.EqualFold(scheme, "Bearer") || len(token) > tokenMax {
			token = ""
		}
		return proof{token: token, given: true}
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return proof{}
	}
	leaf := r.TLS.PeerCertificates[0]
	if now.After(leaf.NotAfter) {
		return proof{} // it was good when the connection began
	}
	return proof{names: namesOf(leaf)}
}

// namesOf returns what a certificate calls its owner.
func namesOf(c *x509.Certificate) []string {
	names := append(append([]string{}, c.DNSNames...), c.EmailAddresses...)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	if c.Subject.CommonName != "" {
		names = append(names, c.Subject.CommonName)
	}
	return names
}

// grant is what the proof stands for, nil for nothing.
func (p proof) grant(a *access) *grant {
	switch {
	case a == nil:
		return nil
	case p.given && p.token == "":
		return nil
	case p.given:
		return a.byToken(p.token)
	}
	return a.byCertificate(p.names)
}

// protect is the middleware before routes that need what needs says, by method and path.
func (g *guard) protect(needs map[string]need) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { return g.serve(c, needs, next) }
	}
}

func (g *guard) serve(c echo.Context, needs map[string]need, next echo.HandlerFunc) error {
	r := c.Request()
	strictHeaders(c.Response().Header(), r.TLS != nil)
	if err := g.refuseBrowsers(r); err != nil {
		return err
	}
	n, known := needs[r.Method+" "+c.Path()]
	if !known {
		// Echo's answer, 404 or 405, is for those who may see anything at all.
		n = need{role: rulesapi.Viewer}
	}
	who := proofOf(r, time.Now())
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	if r.Method == http.MethodGet && g.file != "" {
		// Before it is looked up, so that a right which is taken away in between is noticed.
		defer g.note(&reading{who, n, end})()
	}
	by, from := g.callerOf(who), c.RealIP()
	if err := g.admit(c, n, by, from); err != nil {
		return err
	}
	if err := g.decide(c, n, known, who, by, from); err != nil {
		return err
	}
	if by != nil {
		ctx = rulesapi.WithCaller(ctx, rulesapi.Caller{Name: by.name, Role: by.role, From: from})
	}
	if n.body > 0 {
		r.Body = http.MaxBytesReader(c.Response(), r.Body, n.body)
	}
	// Who does not take an answer is not waited for; a handler of answers without end says so itself.
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(requestTimeout)) // not all writers have one
	c.SetRequest(r.WithContext(context.WithValue(ctx, noteKey{}, new(string))))
	return next(c)
}

// note keeps a reading until it has ended.
func (g *guard) note(r *reading) (ended func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.readings[r] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.readings, r)
	}
}

// everybody is who asks where nobody is asked who they are.
var everybody = &grant{name: anonymous, role: rulesapi.Admin, pushAll: true}

func (g *guard) callerOf(who proof) *grant {
	if g.file == "" {
		return everybody
	}
	return who.grant(g.access.Load())
}

// admit bounds how many requests somebody sends. Events that may be sent have bounds of their own, and what comes from this
// machine without a name could as well burn its processors. Probes have a bucket of their own, so that no flood of anything else
// from where they come from keeps them out.
func (g *guard) admit(c echo.Context, n need, by *grant, from string) error {
	ip := net.ParseIP(from)
	switch {
	case g.file == "" && ip != nil && ip.IsLoopback():
		return nil
	case n.unlimited, by != nil && n.push:
		return nil
	}
	name := "network " + network(from)
	if by != nil && by != everybody {
		name = "name " + by.name
	}
	bucket := name
	if n.public {
		bucket = "probes of " + name
	}
	after, ok := g.limits.admit(bucket, time.Now())
	if ok {
		return nil
	}
	g.limited.Add(1)
	c.Response().Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(after.Seconds())))))
	return g.refused(c, http.StatusTooManyRequests, name, from, "too many requests; come again later")
}

// decide refuses who may not ask for what a route gives.
func (g *guard) decide(c echo.Context, n need, known bool, who proof, by *grant, from string) error {
	switch {
	case n.public:
		return nil
	case by == nil:
		g.unauthorized.Add(1)
		c.Response().Header().Set("WWW-Authenticate", `Bearer realm="cepd"`)
		text := "a token or certificate is needed: Authorization: Bearer TOKEN"
		if who.given || len(who.names) > 0 {
			c.Response().Header().Set("WWW-Authenticate", `Bearer realm="cepd", error="invalid_token"`)
			text = "the token or certificate is not known here"
		}
		return g.refused(c, http.StatusUnauthorized, "network "+network(from), from, text)
	case n.push:
		stream, isEvents := pushedStream(c.Request().URL.Path)
		if !isEvents || by.maySend(stream) {
			return nil // what is no such path is not found behind
		}
		return g.forbid(c, by, from, fmt.Sprintf("%s may not send events to the stream", by.name))
	case !known && (by.pushAll || len(by.push) > 0):
		return nil // so that a mistaken path is told from a mistaken token
	case by.role < n.role:
		return g.forbid(c, by, from, fmt.Sprintf("%s is %s, and this needs %s", by.name, by.role, n.role))
	}
	return nil
}

func (g *guard) forbid(c echo.Context, by *grant, from, text string) error {
	g.forbidden.Add(1)
	return g.refused(c, http.StatusForbidden, "name "+by.name, from, text)
}

// refused answers with an error, and names who was refused now and then. Nothing that the client wrote but method and path
// is logged, least of all a token.
func (g *guard) refused(c echo.Context, status int, client, from, text string) error {
	if _, ok := g.named.admit(client, time.Now()); ok {
		g.log.Warn("a request was refused", "client", client, "from", from, "status", status, "method", bounded(c.Request().Method),
			"path", bounded(c.Request().URL.Path), "reason", text, "silent_for", refusalEvery)
	}
	return echo.NewHTTPError(status, text)
}

// pushedStream is the stream that events are sent to, by the path.
func pushedStream(path string) (name string, isEvents bool) {
	rest, _ := strings.CutPrefix(path, httpsource.Prefix)
	name, isEvents = strings.CutSuffix(rest, "/events")
	return name, isEvents && rest != path
}

// strictHeaders keep browsers from doing more with an answer than showing it. A page that needs more says so itself.
func strictHeaders(h http.Header, isTLS bool) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if isTLS {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// refuseBrowsers keeps pages of other sites from reaching the listener through the browser of somebody who can: by a request of
// their own, or, where nobody is asked for a token, under a name that they have made point here.
func (g *guard) refuseBrowsers(r *http.Request) error {
	if err := g.foreign.Check(r); err != nil {
		return echo.NewHTTPError(http.StatusForbidden, "requests of other sites are refused")
	}
	browser := r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
	if browser && g.file == "" && !isLoopback(r.Host) {
		return echo.NewHTTPError(http.StatusForbidden, "the address must be a loopback address")
	}
	return nil
}
