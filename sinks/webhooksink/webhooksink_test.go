package webhooksink_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/sinktest"
	"github.com/cepd/cepd/sinks/webhooksink"
)

// receiver is an HTTP server that keeps what it took.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	bodies   []string
	requests []*http.Request
	// answer decides on a request; nil: 204. What it answers with 2xx is taken.
	answer func(w http.ResponseWriter, r *http.Request, body []byte)
}

func newReceiver(t *testing.T) *receiver {
	s := &receiver{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

type recorder struct {
	http.ResponseWriter
	code int
}

func (r *recorder) WriteHeader(code int) {
	r.code = code
	r.ResponseWriter.WriteHeader(code)
}

func (s *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	rec := &recorder{w, http.StatusNoContent}
	if s.answer != nil {
		s.answer(rec, r, body)
	}
	if rec.code/100 != 2 {
		return
	}
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil {
		for _, m := range list {
			s.bodies = append(s.bodies, string(m))
		}
	} else {
		s.bodies = append(s.bodies, string(body))
	}
	if rec.code == http.StatusNoContent {
		w.WriteHeader(rec.code)
	}
}

func (s *receiver) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

func newSink(t *testing.T, c webhooksink.Config) *webhooksink.Sink {
	t.Helper()
	c.Private = true
	k, err := webhooksink.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return k
}

func TestConformance(t *testing.T) {
	for _, batch := range []int{1, 10} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			sinktest.Run(t, sinktest.Subject{Apart: true, Unfenced: true, New: func(t *testing.T) sinktest.Destination {
				s := newReceiver(t)
				return sinktest.Destination{
					Sink:   func() sinks.Sink { return newSink(t, webhooksink.Config{URL: s.URL, Batch: batch}) },
					Bodies: s.got,
				}
			}})
		})
	}
}

func publish(t *testing.T, k *webhooksink.Sink, messages []sinks.Message) (uint64, error) {
	t.Helper()
	ack, err := k.Publish(t.Context(), sinks.Batch{Base: sinks.Progress{Lineage: 3}, Messages: messages})
	return ack.Published.Sequence, err
}

// TestSignature: what a receiver checks, by the example of the Standard Webhooks.
func TestSignature(t *testing.T) {
	key, err := webhooksink.Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := webhooksink.Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
	if _, err := webhooksink.Secret("whsec_!"); err == nil {
		t.Error("a secret that is no base64")
	}
}

func TestRequest(t *testing.T) {
	s := newReceiver(t)
	file := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	secret := "first"
	s.answer = func(_ http.ResponseWriter, r *http.Request, body []byte) {
		id, stamp := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp")
		if want := webhooksink.Sign([]byte(secret), id, stamp, body); r.Header.Get("Webhook-Signature") != want {
			t.Errorf("signature %q, want %q", r.Header.Get("Webhook-Signature"), want)
		}
	}
	k := newSink(t, webhooksink.Config{URL: s.URL + "/hook?token=x", SecretFile: file, Headers: map[string]string{"Authorization": "Bearer y"}})
	all := sinktest.Messages(sinks.Progress{}, 2, "a")
	if n, err := publish(t, k, all[:1]); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	secret = "second" // it is replaced while the job runs
	write("second\n")
	if n, err := publish(t, k, all[1:]); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	r := s.requests[1]
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Webhook-Id": all[1].ID.String(), "Cepd-Sequence": "3-2", "Authorization": "Bearer y", "User-Agent": "cepd",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if r.Method != http.MethodPost || r.URL.String() != "/hook?token=x" {
		t.Errorf("%s %s", r.Method, r.URL)
	}
	if d := cmp.Diff([]string{string(all[0].Body), string(all[1].Body)}, s.got()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	write("")
	if _, err := publish(t, k, all[1:]); err == nil || sinks.Permanent(err) {
		t.Errorf("without a secret: %v", err)
	}
}

func TestArrays(t *testing.T) {
	s := newReceiver(t)
	var sizes []int
	s.answer = func(_ http.ResponseWriter, r *http.Request, body []byte) {
		var list []json.RawMessage
		if err := json.Unmarshal(body, &list); err != nil {
			t.Error(err)
		}
		sizes = append(sizes, len(list))
		if got := r.Header.Get("Content-Type"); got != "application/cloudevents-batch+json" {
			t.Errorf("content type %q", got)
		}
	}
	k := newSink(t, webhooksink.Config{URL: s.URL, Batch: 4, Format: sinks.CloudEvents, Source: "/cepd/job"})
	all := sinktest.Messages(sinks.Progress{}, 9, "a")
	for i := 5; i < 9; i++ { // more than an array should hold
		all[i].Body = []byte(`{"text":"` + strings.Repeat("x", 400<<10) + `"}`)
	}
	if n, err := publish(t, k, all); n != 9 || err != nil {
		t.Fatal(n, err)
	}
	if d := cmp.Diff([]int{4, 3, 2}, sizes); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	ids := map[string]bool{}
	for _, r := range s.requests {
		ids[r.Header.Get("Webhook-Id")] = true
	}
	if len(ids) != 3 {
		t.Errorf("ids %v", ids)
	}
}

// TestAnswers: what each answer means.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		code  int
		after string
		want  string
	}{
		{200, "", "taken"},
		{202, "", "taken"},
		{204, "", "taken"},
		{400, "", "rejected"},
		{409, "", "rejected"},
		{413, "", "rejected"},
		{415, "", "rejected"},
		{422, "", "rejected"},
		{431, "", "rejected"},
		{401, "", "again"},
		{403, "", "again"},
		{404, "", "again"},
		{405, "", "again"},
		{408, "", "again"},
		{410, "", "again"},
		{429, "", "again"},
		{500, "", "again"},
		{502, "", "again"},
		{503, "", "again"},
		{302, "", "again"},
		{304, "", "again"},
		{429, "120", "later"},
		{503, "120", "later"},
		{503, time.Now().Add(2 * time.Minute).UTC().Format(http.TimeFormat), "later"},
		{503, "soon", "again"},
		{503, "-3", "again"},
		{503, "Mon, 02 Jan 2006 15:04:05 GMT", "again"},
	} {
		t.Run(fmt.Sprint(c.code, c.after), func(t *testing.T) {
			s := newReceiver(t)
			s.answer = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
				if c.after != "" {
					w.Header().Set("Retry-After", c.after)
				}
				if c.code != http.StatusNoContent {
					w.WriteHeader(c.code)
				}
				if c.code >= 400 {
					_, _ = fmt.Fprintf(w, "no\nlevel=ERROR forged")
				}
			}
			k := newSink(t, webhooksink.Config{URL: s.URL})
			n, err := publish(t, k, sinktest.Messages(sinks.Progress{}, 1, "a"))
			rejected, isRejected := errors.AsType[*sinks.RejectedError](err)
			later, isLater := errors.AsType[*sinks.LaterError](err)
			got := "again"
			switch {
			case err == nil && n == 1:
				got = "taken"
			case isRejected && rejected.Sequence == 1:
				got = "rejected"
			case isLater && later.After > 110*time.Second && later.After <= 120*time.Second:
				got = "later"
			}
			if got != c.want || sinks.Permanent(err) {
				t.Errorf("%s (%v), want %s", got, err, c.want)
			}
			if err != nil && (!strings.Contains(err.Error(), fmt.Sprint(c.code)) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("error %q", err)
			}
		})
	}
}

// TestRejectedOutOfAnArray: the receiver refuses all for one; that one is found.
func TestRejectedOutOfAnArray(t *testing.T) {
	s := newReceiver(t)
	s.answer = func(w http.ResponseWriter, _ *http.Request, body []byte) {
		if bytes.Contains(body, []byte(`"n":6,`)) {
			http.Error(w, "6 is not a number", http.StatusUnprocessableEntity)
		}
	}
	k := newSink(t, webhooksink.Config{URL: s.URL, Batch: 4})
	all := sinktest.Messages(sinks.Progress{}, 9, "a")
	n, err := publish(t, k, all)
	if e, ok := errors.AsType[*sinks.RejectedError](err); !ok || e.Sequence != 6 || n != 5 || !strings.Contains(e.Reason, "6 is not a number") {
		t.Fatal(n, err)
	}
	if got := len(s.got()); got != 5 {
		t.Errorf("%d arrived", got)
	}
	if n, err := publish(t, k, all[6:]); n != 9 || err != nil {
		t.Fatal(n, err)
	}
}

// TestRetryMax: a message that cannot be delivered is not tried for ever, where somebody said so.
func TestRetryMax(t *testing.T) {
	s := newReceiver(t)
	s.answer = func(w http.ResponseWriter, _ *http.Request, body []byte) {
		if bytes.Contains(body, []byte(`"n":2,`)) {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
	k := newSink(t, webhooksink.Config{URL: s.URL, RetryMax: 30 * time.Millisecond})
	all := sinktest.Messages(sinks.Progress{}, 3, "a")
	n, err := publish(t, k, all)
	if _, rejected := errors.AsType[*sinks.RejectedError](err); n != 1 || err == nil || rejected {
		t.Fatal(n, err)
	}
	time.Sleep(40 * time.Millisecond)
	_, err = publish(t, k, all[1:])
	e, ok := errors.AsType[*sinks.RejectedError](err)
	if !ok || e.Sequence != 2 || !strings.Contains(e.Reason, "30ms") || !strings.Contains(e.Reason, "500") {
		t.Fatal(err)
	}
	if n, err := publish(t, k, all[2:]); n != 3 || err != nil {
		t.Fatal(n, err)
	}
}

func TestTimeout(t *testing.T) {
	s := newReceiver(t)
	release := make(chan struct{})
	s.answer = func(http.ResponseWriter, *http.Request, []byte) { <-release }
	t.Cleanup(func() { close(release) })
	k := newSink(t, webhooksink.Config{URL: s.URL, Timeout: 50 * time.Millisecond})
	_, err := publish(t, k, sinktest.Messages(sinks.Progress{}, 1, "a"))
	if !errors.Is(err, context.DeadlineExceeded) || sinks.Permanent(err) {
		t.Errorf("publish: %v", err)
	}
}

func TestRedirects(t *testing.T) {
	inside := newReceiver(t)
	for _, c := range []struct {
		code int
		to   string
		ok   bool
	}{
		{http.StatusPermanentRedirect, "/new", true},
		{http.StatusTemporaryRedirect, "/new", true},
		{http.StatusFound, "/new", false},          // would become a GET
		{http.StatusPermanentRedirect, "/", false}, // for ever
		{http.StatusPermanentRedirect, inside.URL, false},
	} {
		t.Run(fmt.Sprint(c.code, c.to), func(t *testing.T) {
			s := newReceiver(t)
			s.answer = func(w http.ResponseWriter, r *http.Request, _ []byte) {
				if r.URL.Path != "/new" {
					http.Redirect(w, r, c.to, c.code)
				}
			}
			k := newSink(t, webhooksink.Config{URL: s.URL, Headers: map[string]string{"X-Token": "secret"}})
			n, err := publish(t, k, sinktest.Messages(sinks.Progress{}, 1, "a"))
			if (err == nil && n == 1) != c.ok || sinks.Permanent(err) {
				t.Errorf("%d, %v", n, err)
			}
			if len(s.requests) > 5 {
				t.Errorf("%d requests", len(s.requests))
			}
		})
	}
	if len(inside.requests) > 0 {
		t.Error("another host was called")
	}
}

// TestNothingSecretIsSaid: addresses may hold tokens, headers and secrets are some; errors hold none of them.
func TestNothingSecretIsSaid(t *testing.T) {
	s := newReceiver(t)
	s.Close() // nobody listens
	k := newSink(t, webhooksink.Config{URL: s.URL + "/hook?token=swordfish", Secret: "swordfish", Headers: map[string]string{"Authorization": "swordfish"}})
	_, err := publish(t, k, sinktest.Messages(sinks.Progress{}, 1, "a"))
	if err == nil || strings.Contains(err.Error(), "swordfish") {
		t.Errorf("publish: %v", err)
	}
	for _, c := range []webhooksink.Config{
		{URL: "http://swordfish:swordfish@example.org/"},
		{URL: "http://example.org/%zz?swordfish"},
		{URL: "https://example.org/", Secret: "whsec_swordfish!"},
		{URL: "https://example.org/", Headers: map[string]string{"Authorization": "swordfish\n"}},
	} {
		if _, err := webhooksink.New(c); err == nil || strings.Contains(err.Error(), "swordfish") {
			t.Errorf("new: %v", err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []webhooksink.Config{
		{},
		{URL: "example.org"},
		{URL: "ftp://example.org"},
		{URL: "http://"},
		{URL: "https://example.org", Batch: 5000},
		{URL: "https://example.org", Batch: -1},
		{URL: "https://example.org", Secret: "a", SecretFile: "b"},
		{URL: "https://example.org", SecretFile: "/nowhere/at/all"},
		{URL: "https://example.org", CAFile: "/nowhere/at/all"},
		{URL: "https://example.org", CAFile: "webhooksink_test.go"},
		{URL: "https://example.org", Headers: map[string]string{"A B": "c"}},
		{URL: "http://127.0.0.1/"},
		{URL: "http://[::1]/"},
		{URL: "http://169.254.169.254/latest/meta-data/"},
	} {
		if _, err := webhooksink.New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

func TestTLS(t *testing.T) {
	s := &receiver{}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshake that fails
	s.StartTLS()
	t.Cleanup(s.Close)
	all := sinktest.Messages(sinks.Progress{}, 1, "a")
	k := newSink(t, webhooksink.Config{URL: s.URL})
	if _, err := publish(t, k, all); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Fatalf("a certificate that nobody knows: %v", err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	k = newSink(t, webhooksink.Config{URL: s.URL, CAFile: ca})
	if n, err := publish(t, k, all); n != 1 || err != nil {
		t.Fatal(n, err)
	}
}

// TestDialledAddress: a name that leads inside is refused when it is dialled, unless it is allowed.
func TestDialledAddress(t *testing.T) {
	s := newReceiver(t)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	all := sinktest.Messages(sinks.Progress{}, 1, "a")
	address := "http://localhost:" + port
	k, err := webhooksink.New(webhooksink.Config{URL: address})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	if _, err := publish(t, k, all); err == nil || !strings.Contains(err.Error(), "loopback") || sinks.Permanent(err) {
		t.Errorf("publish: %v", err)
	}
	if len(s.requests) > 0 {
		t.Error("it was called")
	}
	k, err = webhooksink.New(webhooksink.Config{URL: address, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	if n, err := publish(t, k, all); n != 1 || err != nil {
		t.Errorf("allowed: %d, %v", n, err)
	}
}

func ExampleSign() {
	key, _ := webhooksink.Secret("plain text")
	fmt.Println(webhooksink.Sign(key, "8d1f", "1764374400", []byte(`{"rule":"brute"}`)))
	// Output: v1,h6jKy/pWoBzrfZlOdcnpOuUpXDP2vMQwI3XCHw+27js=
}
