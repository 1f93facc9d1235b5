package httpsource_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/eventlog"
	"github.com/cepd/cepd/cep/source/httpsource"
	"github.com/cepd/cepd/cep/source/sourcetest"
)

func open(t testing.TB, c eventlog.Config) *eventlog.Log {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	l, err := eventlog.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// request builds a request from header lines.
func request(body string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/streams/auth/events", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return r
}

// slow is a request whose body ends in an error.
func slow(err error) *http.Request {
	r := request("")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("["), iotest.ErrReader(err)))
	return r
}

// keys is a request with several keys.
func keys(all ...string) *http.Request {
	r := request("{}")
	r.Header["Idempotency-Key"] = all
	return r
}

func send(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// contents are the events in a log.
func contents(t testing.TB, l *eventlog.Log) (all []string) {
	t.Helper()
	f := &finder{found: make(chan source.Reader, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	s := eventlog.NewSource(eventlog.SourceConfig{Log: l, Stream: "auth", Partitions: source.NewPartitions("auth")})
	go func() { done <- s.Watch(ctx, nil, f) }()
	r := <-f.found
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for end := l.Status().End; l.Status().Accepted > uint64(len(all)); {
		rec, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rec.Offset >= end || rec.Arrived == 0 {
			t.Errorf("record at %d of %d arrived at %v", rec.Offset, end, rec.Arrived)
		}
		all = append(all, string(rec.Data))
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	return all
}

type finder struct{ found chan source.Reader }

func (f *finder) Found(r source.Reader) { f.found <- r }
func (f *finder) Ready()                {}
func (f *finder) Trouble(error)         {}

func packed(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text) // a buffer takes all
	_ = z.Close()
	return b.String()
}

const lines = "Content-Type: application/x-ndjson"

func TestTaken(t *testing.T) {
	for name, test := range map[string]struct {
		request *http.Request
		want    []string
		answer  string
	}{
		"object":   {request(` {"a": [1, "]"]} `), []string{`{"a": [1, "]"]}`}, `{"accepted":1,"duplicates":0}`},
		"list":     {request(`[{"a":"}],[\\\""} , {"b":[{}]}]`), []string{`{"a":"}],[\\\""}`, `{"b":[{}]}`}, `{"accepted":2,"duplicates":0}`},
		"mark":     {request("\ufeff{}"), []string{`{}`}, `{"accepted":1,"duplicates":0}`},
		"none":     {request(` [ ] `), nil, `{"accepted":0,"duplicates":0}`},
		"lines":    {request("{\"a\":1}\r\n\n{\"b\":2}", lines), []string{`{"a":1}`, `{"b":2}`}, `{"accepted":2,"duplicates":0}`},
		"no lines": {request("\n", lines), nil, `{"accepted":0,"duplicates":0}`},
		"charset":  {request(`{}`, "Content-Type: application/json; charset=UTF-8"), []string{`{}`}, `{"accepted":1,"duplicates":0}`},
		"utf8":     {request(`{}`, "Content-Type: application/json; charset=utf8"), []string{`{}`}, `{"accepted":1,"duplicates":0}`},
		"gzip":     {request(packed(`[{"a":1}]`), "Content-Encoding: gzip"), []string{`{"a":1}`}, `{"accepted":1,"duplicates":0}`},
		"identity": {request(`{}`, "Content-Encoding: identity"), []string{`{}`}, `{"accepted":1,"duplicates":0}`},
		"lenient": {
			request("{}\nno\n{\"a\":1}\n", lines, "Prefer: respond-async, handling=lenient;x=1"),
			[]string{`{}`, `{"a":1}`},
			`{"accepted":2,"duplicates":0,"refused":1,"refusals":[{"index":1,"offset":3,"reason":"bad_json","detail":"an event is an object"}]}`,
		},
		"deep": {
			request(`{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`),
			[]string{`{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`},
			`{"accepted":1,"duplicates":0}`,
		},
		"repeated in itself": {
			request(`[{"id":1},{"id":1},{"id":"1"},{"id":""},{"id":null}]`),
			[]string{`{"id":1}`, `{"id":""}`, `{"id":null}`},
			`{"accepted":3,"duplicates":2,"differing":1}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := open(t, eventlog.Config{})
			h := httpsource.New(httpsource.Config{Streams: map[string]httpsource.Stream{"auth": {Log: log, ID: "id"}}})
			w := send(h, test.request)
			if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%d %v", w.Code, w.Header())
			}
			if d := cmp.Diff(test.answer, strings.TrimSpace(w.Body.String())); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(test.want, contents(t, log)); d != "" {
				t.Errorf("in the log: %s", d)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	deep := strings.Repeat("[", 64) + strings.Repeat("]", 64)
	many := "[{}" + strings.Repeat(",{}", httpsource.EventsMax) + "]"
	for name, test := range map[string]struct {
		request *http.Request
		status  int
		detail  string // a part of it
		header  string
		refused []httpsource.Refusal
	}{
		"other stream": {httptest.NewRequest(http.MethodPost, "/v1/streams/mail/events", nil), 404, `no stream "mail"`, "", nil},
		"no stream":    {httptest.NewRequest(http.MethodPost, "/v1/streams/events", nil), 404, "/v1/streams/{name}/events", "", nil},
		"elsewhere":    {httptest.NewRequest(http.MethodPost, "/v2/auth/events", nil), 404, "/v1/streams/{name}/events", "", nil},
		"get":          {httptest.NewRequest(http.MethodGet, "/v1/streams/auth/events", nil), 405, "POST", "Allow: POST", nil},
		"form":         {request("a=1", "Content-Type: application/x-www-form-urlencoded"), 415, "application/x-ndjson", "Accept-Post: application/json, application/x-ndjson, application/jsonl", nil},
		"no type":      {request("{}", "Content-Type: "), 415, `""`, "", nil},
		"latin":        {request("{}", "Content-Type: application/json; charset=latin1"), 415, "UTF-8", "", nil},
		"brotli":       {request("{}", "Content-Encoding: br"), 415, "gzip", "Accept-Encoding: gzip", nil},
		"twice packed": {request("{}", "Content-Encoding: gzip, gzip"), 415, "gzip", "", nil},
		"no gzip":      {request("{}", "Content-Encoding: gzip"), 400, "read the body: as gzip", "", nil},
		"cut gzip":     {request(packed("{}")[:15], "Content-Encoding: gzip"), 400, "read the body", "", nil},
		"bomb":         {request(packed(strings.Repeat(" ", 5<<20)), "Content-Encoding: gzip"), 413, "1048576 bytes at most", "", nil},
		"large":        {request(strings.Repeat(" ", 1<<20) + "{}"), 413, "1048576 bytes at most", "", nil},
		"many":         {request(many), 413, "more than 65536", "", nil},
		"empty":        {request(" "), 400, "there is nothing", "", nil},
		"open list":    {request(`[{},`), 400, "byte 4", "", nil},
		"open text":    {request(`[{"a]`), 400, "byte 1", "", nil},
		"brackets":     {request(`[}]`), 400, "byte 1", "", nil},
		"no comma":     {request(`[{}`), 400, "byte 1", "", nil},
		"lines":        {request("{}\n{}"), 400, "byte 0: these are objects a line: send them as application/x-ndjson", "", nil},
		"slow":         {slow(os.ErrDeadlineExceeded), 408, "the body has not come within 30s, and nothing was taken", "Retry-After: 1", nil},
		"broken off":   {slow(io.ErrUnexpectedEOF), 400, "read the body: unexpected EOF", "", nil},
		"long type":    {request("{}", "Content-Type: "+strings.Repeat("x", 1000)), 415, `Content-Type is "` + strings.Repeat("x", 100) + `"...; send`, "", nil},
		"gzip unsaid": {request(packed(`{"a":1}`)), 422, "1 of 1 events are refused, and none was taken", "", []httpsource.Refusal{
			{Reason: httpsource.BadJSON, Detail: "an event is an object; this begins as gzip, which needs Content-Encoding: gzip"},
		}},
		"UTF-16": {request("\xff\xfe{\x00}\x00"), 422, "1 of 1", "", []httpsource.Refusal{
			{Reason: httpsource.BadJSON, Detail: "an event is an object; this begins as UTF-16, and events are UTF-8"},
		}},
		"list as lines": {request("[{}]", lines), 422, "1 of 1", "", []httpsource.Refusal{
			{Reason: httpsource.BadJSON, Detail: "an event is an object; a list of them is application/json"},
		}},
		"behind":    {request(`[{}] {}`), 400, "byte 5: something follows the list", "", nil},
		"long key":  {request("{}", "Idempotency-Key: "+strings.Repeat("k", 201)), 400, "201 bytes", "", nil},
		"empty key": {request("{}", `Idempotency-Key: ""`), 400, "Idempotency-Key is empty", "", nil},
		"blank key": {request("{}", "Idempotency-Key:  "), 400, "Idempotency-Key is empty", "", nil},
		"two keys":  {keys("a", "b"), 400, "Idempotency-Key stands there 2 times", "", nil},
		"text": {request(`"a"`), 422, "1 of 1", "", []httpsource.Refusal{
			{Reason: httpsource.BadJSON, Detail: "an event is an object"},
		}},
		"two objects": {request(`{} {}`), 422, "1 of 1", "", []httpsource.Refusal{
			{Reason: httpsource.BadJSON, Detail: "byte 4 of the event: invalid character '{' after top-level value"},
		}},
		"some": {request("[{}, {\"a\":NaN},\n{\"b\":\"\xff\"}, {\"c\":" + deep + "}, {\"id\":true}, 3]"), 422, "5 of 6 events are refused, and none was taken", "", []httpsource.Refusal{
			{Index: 1, Offset: 5, Reason: httpsource.BadJSON, Detail: "byte 6 of the event: invalid character 'N' looking for beginning of value"},
			{Index: 2, Offset: 16, Reason: httpsource.BadUTF8, Detail: "byte 7 of the event"},
			{Index: 3, Offset: 27, Reason: httpsource.TooDeep, Detail: "the limit is 64"},
			{Index: 4, Offset: 163, Reason: httpsource.BadID, Detail: `member "id": an id is a text or a number`},
			{Index: 5, Offset: 176, Reason: httpsource.BadJSON, Detail: "an event is an object"},
		}},
		"large event": {request(`{"a":"` + strings.Repeat("x", 2000) + `"}`), 413, "1 of 1", "", []httpsource.Refusal{
			{Reason: httpsource.TooLarge, Detail: "2008 bytes; the limit is 1000"},
		}},
		"long id": {request(`{"id":"` + strings.Repeat("x", 250) + `"}`), 422, "1 of 1", "", []httpsource.Refusal{
			{Reason: httpsource.BadID, Detail: `member "id": an id has 249 bytes at most`},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			log := open(t, eventlog.Config{})
			h := httpsource.New(httpsource.Config{
				Streams: map[string]httpsource.Stream{"auth": {Log: log, ID: "id"}}, EventMax: 1000, BodyMax: 1 << 20,
			})
			w := send(h, test.request)
			var p httpsource.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
				t.Fatal(err)
			}
			if w.Code != test.status || p.Status != test.status || p.Type != "about:blank" || p.Title != http.StatusText(test.status) ||
				w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%d, %+v, %v", w.Code, p, w.Header())
			}
			if !strings.Contains(p.Detail, test.detail) {
				t.Errorf("detail: %s", p.Detail)
			}
			if name, value, ok := strings.Cut(test.header, ": "); ok && w.Header().Get(name) != value {
				t.Errorf("%s: %s", name, w.Header().Get(name))
			}
			if d := cmp.Diff(test.refused, p.Refusals); d != "" || p.Refused != len(test.refused) {
				t.Errorf("%d refused: %s", p.Refused, d)
			}
			if s := log.Status(); s.Accepted != 0 {
				t.Errorf("%d events in the log", s.Accepted)
			}
			counted := map[httpsource.Reason]uint64{}
			for _, r := range test.refused {
				counted[r.Reason]++
			}
			if d := cmp.Diff(counted, h.Refused("auth")); d != "" {
				t.Errorf("counted: %s", d)
			}
		})
	}
}

// Many bad events are counted, and a few named.
func TestRefusalsAreBounded(t *testing.T) {
	h := httpsource.New(httpsource.Config{Streams: map[string]httpsource.Stream{"auth": {Log: open(t, eventlog.Config{})}}})
	var p httpsource.Problem
	if err := json.Unmarshal(send(h, request(strings.Repeat("x\n", 1000), lines)).Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if n := h.Refused("auth")[httpsource.BadJSON]; p.Refused != 1000 || len(p.Refusals) != 20 || n != 1000 {
		t.Errorf("%d refused, %d named, %d counted", p.Refused, len(p.Refusals), n)
	}
	if w := send(h, request("x\n{}\n", lines, "Prefer: handling=lenient")); w.Code != http.StatusOK || h.Refused("auth")[httpsource.BadJSON] != 1001 {
		t.Errorf("%d %s; counted %v", w.Code, w.Body, h.Refused("auth"))
	}
	if n := h.Refused("mail"); len(n) > 0 {
		t.Errorf("of another stream %v", n)
	}
}

// An id is a member as rules see it: flat, else inside.
func TestIDsInside(t *testing.T) {
	for _, test := range []struct{ id, first, second, answer string }{
		{"meta.id", `{"meta":{"id":1}}`, `{"meta":{"id":1}}`, `{"accepted":0,"duplicates":1}`},
		{"meta.id", `{"meta":{"id":1}}`, `{"meta.id":1}`, `{"accepted":0,"duplicates":1,"differing":1}`},
		{"meta.id", `{"meta":{"id":1}}`, `{"meta":{"id":1},"meta.id":2}`, `{"accepted":1,"duplicates":0}`},
		{"meta.id", `{"meta":{"id":1}}`, `{"meta":{"id":2}}`, `{"accepted":1,"duplicates":0}`},
		{"meta.id", `{"meta":"id"}`, `{"meta":"id"}`, `{"accepted":1,"duplicates":0}`},
		{"meta.id", `{"meta":{}}`, `{"meta":{}}`, `{"accepted":1,"duplicates":0}`},
		{"a.b.c", `{"a":{"b":{"c":"x"}}}`, `{"a": {"b": {"c": "x"}}}`, `{"accepted":0,"duplicates":1,"differing":1}`},
		{"a.b.c", `{"a":{"b.c":"x"}}`, `{"a":{"b.c":"x"}}`, `{"accepted":1,"duplicates":0}`}, // not as rules see it
		{"id", `{"id":1,"id":2}`, `{"id":2}`, `{"accepted":0,"duplicates":1,"differing":1}`},
	} {
		h := httpsource.New(httpsource.Config{Streams: map[string]httpsource.Stream{"auth": {Log: open(t, eventlog.Config{}), ID: test.id}}})
		send(h, request(test.first))
		if got := strings.TrimSpace(send(h, request(test.second)).Body.String()); got != test.answer {
			t.Errorf("%s of %s and %s: %s, want %s", test.id, test.first, test.second, got, test.answer)
		}
	}
}

// A request that is repeated counts once, also after a restart; a body that goes on where the first one ended brings what is
// new, and one that says anything else is refused.
func TestRepeated(t *testing.T) {
	dir := t.TempDir()
	key := `Idempotency-Key: "7f3a"`
	log := open(t, eventlog.Config{Dir: dir})
	handler := func() http.Handler {
		return httpsource.New(httpsource.Config{Streams: map[string]httpsource.Stream{"auth": {Log: log, ID: "id"}}})
	}
	const reused = `"status":422,"detail":"Idempotency-Key \"7f3a\" came before with another body, and nothing was taken; ` +
		`a repetition has the same body, and another body needs a key of its own"}`
	h := handler()
	for _, test := range []struct {
		request *http.Request
		answer  string
	}{
		{request(`[{"a":1},{"a":1}]`, key), `{"accepted":2,"duplicates":0}`},
		{request(`[{"a":1},{"a":1}]`, key), `{"accepted":0,"duplicates":2}`},
		{request(packed(`[{"a":1},{"a":1}]`), key, "Content-Encoding: gzip"), `{"accepted":0,"duplicates":2}`},
		{request("{\"a\":1}\n{\"a\":1}\n", key, lines), `{"accepted":0,"duplicates":2}`},
		{request(`[{"a":1},{"a":2}]`, key), reused},
		{request(`{"a":3}`, key), reused},
		{request(`[{"a":1},{"a":2},{"a":3}]`, key, "Prefer: handling=lenient"), reused},
		{request(`[{"a":1},{"a":2}]`, "Idempotency-Key: 7f3b"), `{"accepted":2,"duplicates":0}`},
		{request(`[{"a":1},{"a":1},{"a":1}]`, "Idempotency-Key: 7f3a"), `{"accepted":1,"duplicates":2}`},
		{request(`[{"id":7,"a":1}]`, key), `{"accepted":1,"duplicates":0}`},
		{request(`[{"id":7,"a":2}]`), `{"accepted":0,"duplicates":1,"differing":1}`},
		{request(`{"a":1}`), `{"accepted":1,"duplicates":0}`},
		{request(`{"a":1}`), `{"accepted":1,"duplicates":0}`},
	} {
		if got := strings.TrimSpace(send(h, test.request).Body.String()); !strings.HasSuffix(got, test.answer) {
			t.Errorf("%s, want %s", got, test.answer)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	log = open(t, eventlog.Config{Dir: dir})
	h = handler()
	for _, test := range []struct {
		request *http.Request
		answer  string
	}{
		{request(`[{"a":1},{"a":1}]`, key), `{"accepted":0,"duplicates":2}`},
		{request(`[{"a":1},{"a":2}]`, key), reused},
		{request(`{"id":7}`), `{"accepted":0,"duplicates":1,"differing":1}`},
		{request(`{"id":8}`), `{"accepted":1,"duplicates":0}`},
	} {
		if got := strings.TrimSpace(send(h, test.request).Body.String()); !strings.HasSuffix(got, test.answer) {
			t.Errorf("after a restart: %s, want %s", got, test.answer)
		}
	}
	if s := log.Status(); s.Reused != 2 || s.Differing != 1 {
		t.Errorf("%+v", s)
	}
}

// What was refused of a body that was taken in part may be mended under its key.
func TestMended(t *testing.T) {
	log := open(t, eventlog.Config{})
	h := httpsource.New(httpsource.Config{Streams: map[string]httpsource.Stream{"auth": {Log: log}}})
	for _, test := range []struct{ body, answer string }{
		{"{\"a\":1\n{\"b\":2}\n", `{"accepted":1,"duplicates":0,"refused":1`},
		{"{\"a\":1\n{\"b\":2}\n", `{"accepted":0,"duplicates":1,"refused":1`},
		{"{\"a\":1}\n{\"b\":2}\n", `{"accepted":1,"duplicates":1}`},
		{"{\"a\":1\n{\"b\":3}\n", `{"type":"about:blank","title":"Unprocessable Entity","status":422,"detail":"Idempotency-Key \"k\" came before with another body`},
	} {
		if got := send(h, request(test.body, lines, "Idempotency-Key: k", "Prefer: handling=lenient")).Body.String(); !strings.HasPrefix(got, test.answer) {
			t.Errorf("%q: %s", test.body, got)
		}
	}
	if d := cmp.Diff([]string{`{"b":2}`, `{"a":1}`}, contents(t, log)); d != "" {
		t.Error(d)
	}
}

// Where the log has no room, and where it takes nothing any more, who sends is asked to come again.
func TestPressure(t *testing.T) {
	log := open(t, eventlog.Config{Max: eventlog.MaxMin})
	h := httpsource.New(httpsource.Config{Streams: map[string]httpsource.Stream{"auth": {Log: log}}})
	large := `{"a":"` + strings.Repeat("x", 900_000) + `"}`
	taken := 0
	for {
		w := send(h, request(large))
		if w.Code == http.StatusOK {
			taken++
			continue
		}
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "5" {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		break
	}
	if taken != 4 || len(contents(t, log)) != 4 {
		t.Errorf("%d events taken in 4 MiB", taken)
	}
	if w := send(h, request(`{"a":1}`, "Idempotency-Key: k")); w.Code != http.StatusOK {
		t.Errorf("a small one: %d %s", w.Code, w.Body)
	}
	if w := send(h, request(large, "Idempotency-Key: k")); w.Code != http.StatusUnprocessableEntity { // waiting would not help
		t.Errorf("a key with another body: %d %s", w.Code, w.Body)
	}
	if w := send(h, request("["+large+","+large+","+large+"]")); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("more than the log ever takes at once: %d", w.Code)
	}
	log.End()
	for _, key := range []string{"k", "l"} {
		if w := send(h, request(`{}`, "Idempotency-Key: "+key)); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	}
}

// slowBody is a body of which nothing more comes until somebody lets it.
type slowBody struct{ wait chan struct{} }

func (b slowBody) Read([]byte) (int, error) {
	<-b.wait
	return 0, errors.New("gone")
}

// Bodies that do not end share a bounded memory; who comes when it is used up is asked to come again, and it comes back.
func TestMemory(t *testing.T) {
	h := httpsource.New(httpsource.Config{Streams: map[string]httpsource.Stream{"auth": {Log: open(t, eventlog.Config{})}}})
	body := slowBody{make(chan struct{})}
	var wg sync.WaitGroup
	codes := make(chan int, 1000)
	full := make(chan struct{})
	var once sync.Once
	for range 17 { // one more than there is room for, of the largest
		wg.Go(func() {
			r := request("")
			r.Body, r.ContentLength = io.NopCloser(body), httpsource.DefaultBodyMax
			w := send(h, r)
			if codes <- w.Code; w.Code == http.StatusTooManyRequests {
				once.Do(func() { close(full) })
			}
		})
	}
	<-full
	w := send(h, request(`{}`, "Content-Length: 2"))
	close(body.wait)
	wg.Wait()
	close(codes)
	n := map[int]int{}
	for c := range codes {
		n[c]++
	}
	if n[http.StatusTooManyRequests]+n[http.StatusBadRequest] != 17 || n[http.StatusTooManyRequests] == 0 {
		t.Errorf("answers %v", n)
	}
	if w.Code != http.StatusOK {
		t.Errorf("a small one beside them: %d", w.Code)
	}
	if w := send(h, request(`{}`)); w.Code != http.StatusOK {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

func TestRunning(t *testing.T) {
	sourcetest.RunSource(t, func(t *testing.T) sourcetest.Running {
		dir := t.TempDir()
		var log *eventlog.Log
		start := func(t *testing.T) {
			var err error
			if log, err = eventlog.Open(eventlog.Config{Dir: dir}); err != nil {
				t.Fatal(err)
			}
		}
		stop := func(t *testing.T) {
			if err := log.Close(); err != nil {
				t.Error(err)
			}
			log = nil
		}
		return sourcetest.Running{
			Open: func(t *testing.T) source.Source {
				start(t)
				return eventlog.NewSource(eventlog.SourceConfig{Log: log, Stream: "auth", Partitions: source.NewPartitions("auth")})
			},
			Append: func(t *testing.T, records ...string) {
				if log == nil {
					start(t)
					defer stop(t)
				}
				h := httpsource.New(httpsource.Config{Streams: map[string]httpsource.Stream{"auth": {Log: log}}})
				if w := send(h, request("["+strings.Join(records, ",")+"]")); w.Code != http.StatusOK {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			},
			Shut: stop,
		}
	})
}

// A real server and client: keep-alive goes on behind a refusal.
func TestServer(t *testing.T) {
	log := open(t, eventlog.Config{})
	mux := http.NewServeMux()
	mux.Handle(httpsource.Prefix, httpsource.New(httpsource.Config{Streams: map[string]httpsource.Stream{"auth": {Log: log}}}))
	s := httptest.NewServer(mux)
	defer s.Close()
	for i := range 20 {
		body := fmt.Sprintf(`{"n":%d}`, i)
		if i%5 == 4 {
			body = "?"
		}
		resp, err := s.Client().Post(s.URL+"/v1/streams/auth/events", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if want := map[bool]int{true: 422, false: 200}[i%5 == 4]; resp.StatusCode != want {
			t.Errorf("%d: %s", i, resp.Status)
		}
	}
	if n := len(contents(t, log)); n != 16 {
		t.Errorf("%d events", n)
	}
}

// Who sends a body too slowly is told so, also where most of it never comes, and the connection ends: nobody waits for the rest.
func TestSlowBody(t *testing.T) {
	s := httptest.NewServer(httpsource.New(httpsource.Config{
		Streams: map[string]httpsource.Stream{"auth": {Log: open(t, eventlog.Config{})}}, BodyTime: 20 * time.Millisecond,
	}))
	defer s.Close()
	for _, head := range []string{"Content-Length: 1000", "Content-Length: 1000\r\nContent-Encoding: gzip", "Transfer-Encoding: chunked"} {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "POST /v1/streams/auth/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+head+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
			t.Errorf("%s: %v: %s", head, err, answer)
		}
		_ = c.Close()
	}
}

// Whatever is sent, the answer is one of those that are documented, and what it says is in the log.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		`{}`, `[{"a":1},{"id":2}]`, `[[[`, "{}\n{}\nx", `[{"a":"\"]"}]`, "\xef\xbb\xbf[]", packed(`[{}]`), `{"a":{"b":[1,2,{"c":null}]}}`, `[{},{"id":"x"},{"id":"x"}]`,
	} {
		for mode := range byte(8) {
			f.Add([]byte(body), mode)
		}
	}
	dir := f.TempDir()
	log, err := eventlog.Open(eventlog.Config{Dir: dir})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = log.Close() })
	h := httpsource.New(httpsource.Config{Streams: map[string]httpsource.Stream{"auth": {Log: log, ID: "id"}}, EventMax: 1 << 10, BodyMax: 1 << 16})
	f.Fuzz(func(t *testing.T, body []byte, mode byte) {
		r := request(string(body))
		if mode&1 != 0 {
			r.Header.Set("Content-Type", "application/x-ndjson")
		}
		if mode&2 != 0 {
			r.Header.Set("Content-Encoding", "gzip")
		}
		if mode&4 != 0 {
			r.Header.Set("Prefer", "handling=lenient")
		}
		before := log.Status().Accepted
		w := send(h, r)
		taken := int(log.Status().Accepted - before)
		var a httpsource.Answer
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		switch w.Code {
		case http.StatusOK:
			if a.Accepted != taken || a.Refused != 0 && mode&4 == 0 {
				t.Errorf("%+v, and %d are in the log", a, taken)
			}
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
			if taken != 0 {
				t.Errorf("%d, and %d are in the log", w.Code, taken)
			}
		case http.StatusTooManyRequests: // the log of a long fuzz run is full
		default:
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// Nesting is bounded before anything decodes it.
func TestDeep(t *testing.T) {
	h := httpsource.New(httpsource.Config{Streams: map[string]httpsource.Stream{"auth": {Log: open(t, eventlog.Config{})}}, EventMax: 8 << 20})
	for _, body := range []string{
		`{"a":` + strings.Repeat("[", 5<<20), strings.Repeat(`{"a":`, 1<<20) + "1" + strings.Repeat("}", 1<<20),
	} {
		w := send(h, request(body))
		if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `"reason":"too_deep"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if w := send(h, request(strings.Repeat("[", 5<<20))); w.Code != http.StatusBadRequest {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
