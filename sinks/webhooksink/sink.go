package webhooksink

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cepd/cepd/sinks"
)

const (
	// DefaultTimeout bounds one request: receivers are asked to answer first and work later, and most of them have seconds.
	DefaultTimeout = 10 * time.Second
	// BatchMax bounds the messages of one request: a batch of the publisher at most.
	BatchMax = sinks.BatchMax
	// BodyMax is where an array ends early: 1 MiB is the smallest limit of the common servers (nginx has it by default). A
	// message that is larger goes alone.
	BodyMax = 1 << 20
	// answerMax is how much of an answer is read: enough for its reason, and for the connection to be used again.
	answerMax = 64 << 10
	// reasonMax is how much of an answer is kept in a dead letter.
	reasonMax = 200
	// dialTimeout bounds a connection and its TLS handshake, each: a host that is not there should not use up a request's time.
	dialTimeout = 5 * time.Second
	// redirectsMax bounds what is followed on one host: from a path to its canonical form, and from there to a new place.
	redirectsMax = 3
)

// Config is where and how to send.
type Config struct {
	// URL is an http or https address, without user and password: those belong into Headers.
	URL string
	// Secret signs each request; SecretFile names a file with it, which is read again for every batch, so that it can be
	// replaced while the job runs. Neither: requests are not signed.
	Secret     string
	SecretFile string
	// Headers are sent with each request. Their values are never logged.
	Headers map[string]string
	// Format and Source are how messages look.
	Format sinks.Format
	Source string
	// Batch is the number of messages in one request. 0, 1: the body is one message; more: it is a JSON array, also of one.
	Batch int
	// Timeout bounds one request; 0: DefaultTimeout.
	Timeout time.Duration
	// RetryMax is for how long a message is tried before it becomes a dead letter; 0: for ever.
	RetryMax time.Duration
	// Private admits loopback and private addresses, Allow any others: link-local ones too.
	Private bool
	Allow   []netip.Prefix
	// CAFile holds the certificates that the receiver's is held against, in PEM; "": those of the system.
	CAFile string
}

// Sink posts messages.
type Sink struct {
	c      Config
	rules  rules
	client *http.Client
	closed atomic.Bool

	// stuck is the message that cannot be delivered, and since when.
	stuck      uint64
	stuckSince time.Time
}

var _ sinks.Sink = (*Sink)(nil)

var errClosed = errors.New("the sink is closed")

// New checks the configuration, reads the files that it names, and makes a sink. It connects to nobody.
func New(c Config) (*Sink, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		// The error of url.Parse repeats the address, which may hold a token.
		return nil, errors.New("webhook: the url cannot be read")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("webhook: the url begins with %q: http or https", u.Scheme)
	case u.Host == "":
		return nil, errors.New("webhook: the url names no host")
	case u.User != nil:
		return nil, errors.New("webhook: the url holds a user: use a header, whose value is not logged")
	case c.Batch < 0 || c.Batch > BatchMax:
		return nil, fmt.Errorf("webhook: batch %d: at most %d", c.Batch, BatchMax)
	case c.Secret != "" && c.SecretFile != "":
		return nil, errors.New("webhook: both a secret and a file with one")
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	c.Headers = maps.Clone(c.Headers)
	s := &Sink{c: c, rules: rules{private: c.Private, allow: c.Allow}}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		if err := s.rules.check(addr); err != nil {
			return nil, fmt.Errorf("webhook: %w; allow it if it is meant", err)
		}
	}
	for name, value := range c.Headers {
		if !token(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, fmt.Errorf("webhook: header %q is none, or its value holds control characters", name)
		}
	}
	if _, err := s.secret(); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("webhook: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("webhook: %s holds no certificate in PEM", c.CAFile)
		}
	}
	dialer := &net.Dialer{Timeout: dialTimeout, Control: s.rules.control}
	s.client = &http.Client{
		Transport: &http.Transport{
			// No proxy: the address that is dialled has to be that of the receiver for the rules to mean anything.
			DialContext:         dialer.DialContext,
			TLSClientConfig:     config,
			TLSHandshakeTimeout: dialTimeout,
			ForceAttemptHTTP2:   true,
			MaxIdleConns:        1, // one request at a time
			IdleConnTimeout:     90 * time.Second,
		},
		CheckRedirect: redirect,
	}
	return s, nil
}

// token reports whether a header may have this name.
func token(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("()<>@,;:\\\"/[]?={}", r)
	})
}

// redirect follows what keeps method, body, host and scheme; anything else is the answer. A signature and the headers of the
// configuration are for one host.
func redirect(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > redirectsMax || next.Method != http.MethodPost || next.URL.Host != first.Host || next.URL.Scheme != first.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// Peek implements [sinks.Sink]: a receiver keeps no position.
func (s *Sink) Peek(ctx context.Context) (sinks.Progress, error) {
	if s.closed.Load() {
		return sinks.Progress{}, errClosed
	}
	return sinks.Progress{}, ctx.Err()
}

// Open implements [sinks.Sink]: there is nothing to open.
func (s *Sink) Open(ctx context.Context) (sinks.Progress, error) {
	if s.closed.Load() {
		return sinks.Progress{}, errClosed
	}
	return sinks.Progress{}, ctx.Err()
}

// Begin implements [sinks.Sink]: there is nothing to begin.
func (s *Sink) Begin(ctx context.Context, _ sinks.Progress) error { return ctx.Err() }

// Close implements [sinks.Sink].
func (s *Sink) Close() error {
	s.closed.Store(true)
	s.client.CloseIdleConnections()
	return nil
}

// Publish implements [sinks.Sink]. With an error it says how far it got.
func (s *Sink) Publish(ctx context.Context, b sinks.Batch) (sinks.Ack, error) {
	at := b.Base
	if s.closed.Load() {
		return sinks.Ack{Published: at}, errClosed
	}
	secret, err := s.secret()
	if err != nil {
		return sinks.Ack{Published: at}, err
	}
	for rest := b.Messages; len(rest) > 0; {
		n, err := s.some(ctx, secret, at.Lineage, rest)
		if n > 0 {
			at.Sequence, at.Chain = rest[n-1].Sequence, rest[n-1].Chain
			rest = rest[n:]
		}
		if err != nil {
			return sinks.Ack{Published: at, Acknowledged: at.Sequence}, s.tried(rest[0].Sequence, err)
		}
	}
	s.stuck = 0
	return sinks.Ack{Published: at, Acknowledged: at.Sequence}, ctx.Err()
}

// tried gives up a message that has been tried for too long.
func (s *Sink) tried(sequence uint64, err error) error {
	now := time.Now()
	if s.stuck != sequence {
		s.stuck, s.stuckSince = sequence, now
	}
	if s.c.RetryMax == 0 || now.Sub(s.stuckSince) < s.c.RetryMax || errors.Is(err, context.Canceled) {
		return err
	}
	if _, ok := errors.AsType[*sinks.RejectedError](err); ok {
		return err
	}
	return &sinks.RejectedError{Sequence: sequence, Reason: fmt.Sprintf("tried for %s: %v", s.c.RetryMax, err)}
}

// some posts the first few messages, in one request where the receiver takes it, and returns how many it took.
func (s *Sink) some(ctx context.Context, secret []byte, lineage uint64, messages []sinks.Message) (int, error) {
	if s.c.Batch <= 1 {
		return s.post(ctx, secret, lineage, messages[:1], s.c.Format.Append(nil, s.c.Source, &messages[0]))
	}
	n, body := 0, []byte{'['}
	for ; n < min(len(messages), s.c.Batch); n++ {
		before := len(body)
		if n > 0 {
			body = append(body, ',')
		}
		body = s.c.Format.Append(body, s.c.Source, &messages[n])
		if n > 0 && len(body) > BodyMax {
			body = body[:before]
			break
		}
	}
	took, err := s.post(ctx, secret, lineage, messages[:n], append(body, ']'))
	if _, ok := errors.AsType[*sinks.RejectedError](err); !ok || n == 1 {
		return took, err
	}
	// One of them is at fault, or there are too many: one after the other tells.
	for i := range n {
		body = append(s.c.Format.Append([]byte{'['}, s.c.Source, &messages[i]), ']')
		if _, err := s.post(ctx, secret, lineage, messages[i:i+1], body); err != nil {
			return i, err
		}
	}
	return n, nil
}

// post makes one request. It returns the number of messages that were taken: all or none.
func (s *Sink) post(ctx context.Context, secret []byte, lineage uint64, messages []sinks.Message, body []byte) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.c.URL, bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("the url cannot be used")
	}
	req.Header.Set("User-Agent", "cepd")
	for k, v := range s.c.Headers {
		req.Header.Set(k, v)
	}
	media := s.c.Format.MediaType()
	if s.c.Batch > 1 {
		media = s.c.Format.MediaTypeList()
	}
	last := messages[len(messages)-1].Sequence
	req.Header.Set("Content-Type", media)
	req.Header.Set("Cepd-Sequence", fmt.Sprintf("%d-%d", lineage, last))
	id := delivery(messages)
	req.Header.Set("Webhook-Id", id)
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Webhook-Timestamp", stamp)
	if secret != nil {
		req.Header.Set("Webhook-Signature", Sign(secret, id, stamp, body))
	}
	res, err := s.client.Do(req)
	if err != nil {
		// An *url.Error repeats the address, which may hold a token.
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return 0, fmt.Errorf("post: %w", err)
	}
	defer func() { _ = res.Body.Close() }()                      // what is left of it is not wanted
	answer, _ := io.ReadAll(io.LimitReader(res.Body, answerMax)) // what there is of a reason
	if res.StatusCode/100 == 2 {
		return len(messages), nil
	}
	return 0, refusal(res, answer, messages[0].Sequence)
}

// delivery names what is in a request: the id of its message, or a hash of theirs. It is the same when it is sent again.
func delivery(messages []sinks.Message) string {
	if len(messages) == 1 {
		return messages[0].ID.String()
	}
	var c sinks.Chain
	for i := range messages {
		c = c.Next(messages[i].ID)
	}
	return hex.EncodeToString(c[:])
}

// refusal turns an answer into an error.
func refusal(res *http.Response, answer []byte, sequence uint64) error {
	text := res.Status
	if len(answer) > 0 {
		text = fmt.Sprintf("%s: %q", res.Status, strings.ToValidUTF8(string(answer[:min(len(answer), reasonMax)]), "?"))
	}
	switch c := res.StatusCode; {
	case c/100 == 3:
		return fmt.Errorf("answered %s: only redirects that keep the method are followed, on one host; set the url to where it leads", res.Status)
	case c/100 == 4 && !endpoint[c]:
		return &sinks.RejectedError{Sequence: sequence, Reason: text}
	}
	err := fmt.Errorf("answered %s", text)
	if after := retryAfter(res.Header.Get("Retry-After"), time.Now()); after > 0 {
		return &sinks.LaterError{After: after, Err: err}
	}
	return err
}

// endpoint are the answers of the 400s that say something about the receiver, its address or our right to call it, and not
// about the message: somebody will mend that, and no alert should be lost meanwhile.
var endpoint = map[int]bool{
	http.StatusUnauthorized:       true,
	http.StatusPaymentRequired:    true,
	http.StatusForbidden:          true,
	http.StatusNotFound:           true,
	http.StatusMethodNotAllowed:   true,
	http.StatusProxyAuthRequired:  true,
	http.StatusRequestTimeout:     true,
	http.StatusGone:               true,
	http.StatusMisdirectedRequest: true,
	http.StatusLocked:             true,
	http.StatusTooEarly:           true,
	http.StatusTooManyRequests:    true,
}

// retryAfter reads the header of that name: seconds, or a date. 0: neither.
func retryAfter(value string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(value); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}
