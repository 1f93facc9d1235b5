package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/cepd/cepd/cep/source/eventlog"
	"github.com/cepd/cepd/cep/source/httpsource"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/rules/rulesapi"
)

// TestPushIsDescribed holds what is answered to those who post events against /v1/openapi.yaml: each answer that it describes
// is had, and each that is had is described.
func TestPushIsDescribed(t *testing.T) {
	asText := func(r io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
		b, err := io.ReadAll(r)
		return string(b), err
	}
	for _, media := range []string{"application/x-ndjson", "application/jsonl", "application/x-jsonlines", "application/json-lines"} {
		openapi3filter.RegisterBodyDecoder(media, asText)
	}
	openapi3filter.RegisterBodyDecoder("application/problem+json", openapi3filter.JSONBodyDecoder)
	doc, err := openapi3.NewLoader().LoadFromData(rulesapi.Description())
	if err != nil {
		t.Fatal(err)
	}
	no := false
	for _, s := range doc.Components.Schemas { // no member that is not described
		if len(s.Value.Properties) > 0 && s.Value.AdditionalProperties.Schema == nil {
			s.Value.AdditionalProperties.Has = &no
		}
	}
	described, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	log, err := eventlog.Open(eventlog.Config{Dir: t.TempDir(), Max: eventlog.MaxMin})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // once more, where the test has not come to its end
	push := httpsource.New(httpsource.Config{Streams: map[string]httpsource.Stream{"auth": {Log: log, ID: "id"}}, BodyMax: 1 << 20})
	d, _ := serving(t, config.HTTP{Tokens: tokensFile(t, accessText()), Rate: fast}, push.ServeHTTP)
	early, _ := serving(t, config.HTTP{Tokens: tokensFile(t, accessText()), Rate: fast}, nil)
	large := `{"a":"` + strings.Repeat("x", 900_000) + `"}`
	had := map[int]bool{}
	const slow = "a body that comes too slowly"
	for _, c := range []struct {
		d            *daemon
		stream, body string
		token        string
		header       []string
		want         int
		detail       string
	}{
		{d, "auth", `{"a":1}`, shipToken, nil, 200, `{"accepted":1,"duplicates":0}`},
		{d, "auth", `[{"id":1,"b":1},{"id":1,"b":2}]`, shipToken, nil, 200, `{"accepted":1,"duplicates":1,"differing":1}`},
		{d, "auth", "{}\n{}\n", shipToken, []string{"Content-Type:application/x-ndjson"}, 200, `"accepted":2`},
		{d, "auth", "{}", shipToken, []string{"Content-Type:application/jsonl"}, 200, `"accepted":1`},
		{d, "auth", "{}", shipToken, []string{"Content-Type:application/x-jsonlines"}, 200, `"accepted":1`},
		{d, "auth", "{}", shipToken, []string{"Content-Type:application/json-lines"}, 200, `"accepted":1`},
		{d, "auth", `[{"id":true},{"c":1}]`, shipToken, []string{"Prefer:handling=lenient"}, 200, `"refused":1`},
		{d, "auth", `{"a":1}`, shipToken, []string{"Idempotency-Key:k"}, 200, `"accepted":1`},
		{d, "auth", `{"a":1}`, shipToken, []string{"Idempotency-Key:k"}, 200, `"duplicates":1`},
		{d, "auth", `{"a":2}`, shipToken, []string{"Idempotency-Key:k"}, 422, `Idempotency-Key \"k\" came before with another body`},
		{d, "auth", `[1,{}]`, shipToken, nil, 422, `"refusals":[{"index":0`},
		{d, "auth", `[`, shipToken, nil, 400, "byte 1"},
		{d, "auth", `{}`, shipToken, []string{"Idempotency-Key:" + strings.Repeat("k", 201)}, 400, "201 bytes"},
		{d, "auth", `{}`, "", nil, 401, "a token or certificate is needed"},
		{d, "shop", `{}`, shipToken, nil, 403, "may not send events to the stream"},
		{d, "auth", `{}`, adaToken, nil, 403, "may not send events to the stream"},
		{d, "shop", `{}`, allToken, nil, 404, `no stream \"shop\" takes events`},
		{d, "auth", strings.Repeat(" ", 1<<20) + "{}", shipToken, nil, 413, "bytes at most"},
		{d, "auth", `{}`, shipToken, []string{"Content-Type:text/plain"}, 415, "text/plain"},
		{d, "auth", slow, shipToken, nil, 408, "has not come within"},
		{early, "auth", `{}`, shipToken, nil, 503, "being restored"},
		{d, "auth", large, shipToken, nil, 200, `"accepted":1`},
		{d, "auth", large, shipToken, nil, 200, `"accepted":1`},
		{d, "auth", large, shipToken, nil, 200, `"accepted":1`},
		{d, "auth", large, shipToken, nil, 200, `"accepted":1`},
		{d, "auth", large, shipToken, nil, 429, "more events waiting than it may"},
		{nil, "", "", "", nil, 0, ""}, // the log ends
		{d, "auth", `{}`, shipToken, nil, 503, "cepd is stopping"},
	} {
		if c.d == nil {
			log.End()
			continue
		}
		name := fmt.Sprintf("%s %.40s %s", c.stream, c.body, c.header)
		r := httptest.NewRequest(http.MethodPost, "/v1/streams/"+c.stream+"/events", strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		for _, h := range c.header {
			k, v, _ := strings.Cut(h, ":")
			r.Header.Set(k, v)
		}
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		if c.body == slow {
			r.Body = io.NopCloser(iotest.ErrReader(os.ErrDeadlineExceeded))
		}
		w := httptest.NewRecorder()
		c.d.router(nil).ServeHTTP(w, r)
		if had[w.Code] = true; w.Code != c.want || !strings.Contains(w.Body.String(), c.detail) {
			t.Errorf("%s: %d %s, want %d with %s", name, w.Code, w.Body, c.want, c.detail)
		}
		r.Body = io.NopCloser(strings.NewReader(c.body))
		route, params, err := described.FindRoute(r)
		if err != nil {
			t.Fatal(err)
		}
		options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true}
		in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: options}
		if w.Code == http.StatusOK {
			if err := openapi3filter.ValidateRequest(t.Context(), in); err != nil && !strings.Contains(name, "lenient") {
				t.Errorf("%s: the request was taken, and is not as described: %v", name, err)
			}
		}
		out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: w.Code, Header: w.Header(), Options: options}
		out.SetBodyBytes(w.Body.Bytes())
		if err := openapi3filter.ValidateResponse(t.Context(), out); err != nil {
			t.Errorf("%s: the answer is not as described: %v", name, err)
		}
	}
	for status := range doc.Paths.Find("/streams/{name}/events").Post.Responses.Map() {
		var n int
		if _, err := fmt.Sscan(status, &n); err != nil || !had[n] {
			t.Errorf("%s is described, and nobody had it", status)
		}
	}
}
