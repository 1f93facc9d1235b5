package rulesapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/labstack/echo/v4"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/rulesapi"
	"github.com/cepd/cepd/rules/ruletest"
)

// answered counts the answers that tests had, by operation and status, so that TestMain can say what nobody asked for.
var answered = struct {
	sync.Mutex
	n map[string]int
}{n: map[string]int{}}

func TestMain(m *testing.M) {
	for _, media := range []string{"application/yaml", "text/html", "text/x-diff", "text/event-stream", "application/octet-stream"} {
		openapi3filter.RegisterBodyDecoder(media, func(r io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
			b, err := io.ReadAll(r)
			return string(b), err
		})
	}
	openapi3filter.RegisterBodyDecoder("application/merge-patch+json", openapi3filter.JSONBodyDecoder)
	openapi3filter.RegisterBodyDecoder("application/problem+json", openapi3filter.JSONBodyDecoder)
	code := m.Run()
	whole := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.fuzz").Value.String() == "" && flag.Lookup("test.list").Value.String() == ""
	if code == 0 && whole {
		code = missed()
	}
	os.Exit(code)
}

// missed says which described answers no test has had: of every operation those that say yes, 401 and 403.
func missed() int {
	doc, err := openapi3.NewLoader().LoadFromData(rulesapi.Description())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := 0
	for p, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.OperationID == pushOperation {
				continue
			}
			for status := range op.Responses.Map() {
				if status < "400" || status == "401" || status == "403" {
					if answered.n[op.OperationID+" "+status] == 0 {
						fmt.Fprintf(os.Stderr, "no test has had %s for %s %s\n", status, method, p)
						code = 1
					}
				}
			}
		}
	}
	return code
}

// fake is a daemon over a directory of rules that runs nothing: rules are found, compiled and tested as they are, and a swap
// remembers the set.
type fake struct {
	dir string

	lock chan struct{} // has an element while somebody changes rules
	mu   sync.Mutex
	set  *rules.Set
	// epoch is the newest, swaps the number of swaps that changed something.
	epoch cep.Epoch
	swaps int

	states      map[string]rulesapi.RuleState
	starts      []rulesapi.OpenStart
	streams     []rulesapi.Stream
	sinks       []rulesapi.Sink
	checkpoints []rulesapi.Checkpoint
	// failSwap, failCheckpoint and failSavepoint are what goes wrong next; failSavepoint after so many bytes.
	failSwap, failCheckpoint, failSavepoint error
	savepointBytes                          int
	// swapping is called while a swap is under way; nil: nothing is.
	swapping func()
}

func (f *fake) Rules() *rules.Set {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.set
}

func (f *fake) Begin(ctx context.Context) (func(), error) {
	select {
	case f.lock <- struct{}{}:
		return func() { <-f.lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *fake) Compile(_ context.Context, over map[string][]byte) (*rules.Set, patterns.Diagnostics, error) {
	return rules.LoadOver([]string{f.dir}, over)
}

func (f *fake) Test(_ context.Context, set *rules.Set, ids []string) ([]rulesapi.TestResult, error) {
	var out []rulesapi.TestResult
	for _, r := range ruletest.Run(set, nil) {
		if slices.Contains(ids, r.Rule.ID) {
			out = append(out, rulesapi.TestResult{Rule: r.Rule.ID, Name: r.Test.Name, Passed: r.Passed(), Failure: r.Failure})
		}
	}
	return out, nil
}

func (f *fake) Plan(_ context.Context, set *rules.Set) ([]rulesapi.RuleChange, error) {
	before := map[string]string{}
	for _, r := range f.Rules().Rules {
		before[r.ID] = r.Fingerprint
	}
	var changes []rulesapi.RuleChange
	for _, r := range set.Rules {
		old, was := before[r.ID]
		delete(before, r.ID)
		switch {
		case !was:
			changes = append(changes, rulesapi.RuleChange{Rule: r.ID, Kind: "added", Text: r.ID + ": new"})
		case old != r.Fingerprint:
			n := f.states[r.ID].Open
			changes = append(changes, rulesapi.RuleChange{Rule: r.ID, Kind: "draining", Starts: n, Text: fmt.Sprintf("%s: pattern changed, %d open starts draining", r.ID, n)})
		default:
			changes = append(changes, rulesapi.RuleChange{Rule: r.ID, Kind: "kept", Starts: f.states[r.ID].Open, Text: r.ID + ": kept"})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(before)) {
		n := f.states[id].Open
		changes = append(changes, rulesapi.RuleChange{Rule: id, Kind: "deleted", Starts: n, Dropped: n, Text: id + ": deleted"})
	}
	return changes, nil
}

func (f *fake) Swap(ctx context.Context, set *rules.Set) (rulesapi.Swapped, error) {
	if f.swapping != nil {
		f.swapping()
	}
	if err := ctx.Err(); err != nil {
		return rulesapi.Swapped{}, err
	}
	changes, err := f.Plan(ctx, set)
	if err != nil {
		return rulesapi.Swapped{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failSwap != nil {
		return rulesapi.Swapped{}, f.failSwap
	}
	if set.ID() == f.set.ID() {
		return rulesapi.Swapped{Set: set.ID()}, nil
	}
	f.epoch++
	f.swaps++
	f.set = set
	return rulesapi.Swapped{Epoch: f.epoch, Set: set.ID(), Changes: changes, Pause: time.Millisecond}, nil
}

// reload does what a reload does that was not asked for by the API.
func (f *fake) reload(t testing.TB, api *rulesapi.API) {
	t.Helper()
	set, diagnostics, err := rules.Load([]string{f.dir})
	if err != nil || set == nil {
		t.Fatal(err, diagnostics)
	}
	f.mu.Lock()
	f.set = set
	f.mu.Unlock()
	api.Observe(set)
}

func (f *fake) RuleStates() map[string]rulesapi.RuleState { return f.states }

func (f *fake) OpenStarts(_ context.Context, q rulesapi.OpenQuery) (rulesapi.OpenPage, error) {
	var page rulesapi.OpenPage
	from := 0
	if q.After != "" {
		if _, err := fmt.Sscanf(q.After, "start-%d", &from); err != nil {
			return page, fmt.Errorf("%w: %.50q", rulesapi.ErrCursor, q.After)
		}
	}
	for i, s := range f.starts {
		if i < from || s.Rule != q.Rule || q.Key != nil && fmt.Sprint(s.Key[0].Value) != q.Key[0] {
			continue
		}
		if len(page.Starts) == q.Limit {
			page.Next = fmt.Sprintf("start-%d", i)
			break
		}
		page.Starts = append(page.Starts, s)
	}
	return page, nil
}

func (f *fake) Streams() []rulesapi.Stream { return f.streams }
func (f *fake) Sinks() []rulesapi.Sink     { return f.sinks }

func (f *fake) Checkpoints(context.Context) ([]rulesapi.Checkpoint, error) {
	return f.checkpoints, f.failCheckpoint
}

func (f *fake) MakeCheckpoint(context.Context) (cep.Epoch, error) {
	if f.failCheckpoint != nil {
		return 0, f.failCheckpoint
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epoch++
	return f.epoch, nil
}

func (f *fake) Savepoint(_ context.Context, epoch cep.Epoch, w io.Writer) error {
	if epoch > f.epoch {
		return fmt.Errorf("%w: %d", rulesapi.ErrNoSuchEpoch, epoch)
	}
	if f.savepointBytes > 0 {
		if _, err := w.Write(make([]byte, f.savepointBytes)); err != nil {
			return err
		}
	}
	if f.failSavepoint != nil {
		return f.failSavepoint
	}
	_, err := fmt.Fprintf(w, "savepoint of %d", epoch)
	return err
}

// server is an API over a fake, and holds all that is said against the description.
type server struct {
	testing.TB
	dir     string // that of the rules
	fake    *fake
	api     *rulesapi.API
	feed    *rulesapi.Feed
	echo    *echo.Echo
	doc     routers.Router
	changes []rulesapi.Change
	// changing is the answer of Config.Changing.
	changing error
}

const authRule = `version: 1
rules:
# Somebody wrote this.
- id: login-failed
  from: auth
  by: [user]
  where: outcome == "failure"
`

// newServer makes rules of people and an API beside them.
func newServer(t testing.TB) *server {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "rules")
	s := &server{TB: t, dir: dir}
	s.write("people.yaml", authRule)
	s.start()
	return s
}

// start makes the API anew, as a process does that begins.
func (s *server) start() {
	s.Helper()
	set, diagnostics, err := rules.Load([]string{s.dir})
	if err != nil || set == nil {
		s.Fatal(err, diagnostics)
	}
	if s.fake == nil {
		s.fake = &fake{dir: s.dir, lock: make(chan struct{}, 1), epoch: 40, states: map[string]rulesapi.RuleState{}}
	}
	s.fake.set = set
	s.feed = rulesapi.NewFeed(s.fake.epoch, alert.AppendJSON)
	s.api, err = rulesapi.New(rulesapi.Config{
		Daemon: s.fake, ManagedDir: filepath.ToSlash(s.dir) + "/managed", HistoryDir: filepath.Join(filepath.Dir(s.dir), "history"), Feed: s.feed,
		Changing: func(context.Context, rulesapi.Change) error { return s.changing },
		Changed:  func(_ context.Context, c rulesapi.Change) { s.changes = append(s.changes, c) },
	})
	if err != nil {
		s.Fatal(err)
	}
	s.api.Observe(set)
	s.Cleanup(func() {
		if err := s.api.Close(); err != nil {
			s.Error(err)
		}
	})
	s.echo = echo.New()
	s.api.Register(s.echo.Group(rulesapi.Prefix))
	s.echo.HTTPErrorHandler = rulesapi.HandleError
	if s.doc, err = router(); err != nil {
		s.Fatal(err)
	}
}

func (s *server) write(name, text string) {
	s.Helper()
	file := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

// onDisk is what a file of the rules holds; "" where it is not there.
func (s *server) onDisk(name string) string {
	s.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(name)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Fatal(err)
	}
	return string(b)
}

// answer is what came back.
type answer struct {
	*httptest.ResponseRecorder
	s *server
}

// ask sends a request as an admin. Headers are names and values in turn.
func (s *server) ask(method, path, body string, headers ...string) *answer {
	s.Helper()
	return s.askAs(rulesapi.Caller{Name: "root", Role: rulesapi.Admin}, method, path, body, headers...)
}

func (s *server) askAs(by rulesapi.Caller, method, path, body string, headers ...string) *answer {
	s.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/yaml")
		if body[0] == '{' {
			r.Header.Set("Content-Type", "application/json")
		}
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if by.Name != "" {
		r = r.WithContext(rulesapi.WithCaller(r.Context(), by))
	}
	return s.serve(r, body)
}

// serve answers a request, and holds both against the description.
func (s *server) serve(r *http.Request, body string) *answer {
	s.Helper()
	w := httptest.NewRecorder()
	s.echo.ServeHTTP(w, r)
	a := &answer{w, s}
	if err := s.conforms(r, body, w); err != nil {
		s.Errorf("%s %.200s: %d: %v", r.Method, r.URL, w.Code, err)
	}
	return a
}

// conforms says what the description does not say of a request and its answer.
func (s *server) conforms(r *http.Request, body string, w *httptest.ResponseRecorder) error {
	route, params, err := s.doc.FindRoute(r)
	if err == nil && route.Operation.OperationID == pushOperation {
		err = errors.New("another package answers it")
	}
	if err != nil {
		if w.Code >= 500 || w.Code < 400 {
			return fmt.Errorf("an answer without a route: %w", err)
		}
		return nil
	}
	answered.Lock()
	answered.n[fmt.Sprintf("%s %d", route.Operation.OperationID, w.Code)]++
	answered.Unlock()
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(strings.NewReader(body))
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: options}
	if w.Code < 400 {
		if err := openapi3filter.ValidateRequest(r.Context(), in); err != nil {
			return fmt.Errorf("the request was answered, and is not as described: %w", err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: w.Code, Header: w.Header(), Options: options}
	out.SetBodyBytes(w.Body.Bytes())
	if w.Body.Len() == 0 && (w.Code == http.StatusNotModified || w.Header().Get("Content-Type") == "") {
		return nil
	}
	if err := openapi3filter.ValidateResponse(r.Context(), out); err != nil {
		return fmt.Errorf("the answer is not as described: %w", err)
	}
	return nil
}

// want fails unless the status is the one that is expected.
func (a *answer) want(status int) *answer {
	a.s.Helper()
	if a.Code != status {
		a.s.Fatalf("%d, want %d: %s", a.Code, status, a.Body)
	}
	return a
}

// json decodes the answer.
func (a *answer) json(to any) *answer {
	a.s.Helper()
	d := json.NewDecoder(bytes.NewReader(a.Body.Bytes()))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		a.s.Fatalf("%v: %s", err, a.Body)
	}
	return a
}

func (a *answer) report() *rulesapi.Report {
	a.s.Helper()
	var r rulesapi.Report
	a.json(&r)
	return &r
}

// refusal is a problem that is looked at, and no error.
type refusal struct{ rulesapi.Problem }

// problem fails unless the answer is a problem of the kind, and returns it.
func (a *answer) problem(status int, kind string) refusal {
	a.s.Helper()
	var p refusal
	a.want(status).json(&p.Problem)
	if p.Type != "/v1/docs#"+kind || p.Status != status || a.Header().Get("Content-Type") != "application/problem+json" {
		a.s.Fatalf("the problem is %s %d (%s): %s", p.Type, p.Status, a.Header().Get("Content-Type"), a.Body)
	}
	return p
}

func (a *answer) etag() string { return a.Header().Get("ETag") }
