package rulesapi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/rules/rulesapi"
)

// alerts makes alerts of a rule, a second apart.
func alerts(rule string, from, n int) []*cep.Alert {
	list := make([]*cep.Alert, n)
	for i := range list {
		list[i] = &cep.Alert{ID: cep.AlertID{byte(from + i), byte((from + i) >> 8), 1}, Rule: rule, Time: cep.Time(from+i) * cep.Second, Severity: "low", Title: fmt.Sprintf("alert %d", from+i)}
	}
	return list
}

func TestListOfAlerts(t *testing.T) {
	s := newServer(t)
	place := func(a rulesapi.Alert) string { return a.At }
	if got, _ := pages(s, "/v1/alerts?", place); len(got) > 0 {
		t.Errorf("alerts at first: %q", got)
	}
	s.feed.Committed(41, alerts("a", 0, 3))
	s.feed.Committed(42, nil)
	s.feed.Committed(43, append(alerts("b", 3, 2), alerts("a", 5, 1)...))
	want := []string{"43.3", "43.2", "43.1", "41.3", "41.2", "41.1"}
	for _, limit := range []int{1, 2, 3, 100} {
		if got, _ := pages(s, fmt.Sprintf("/v1/alerts?limit=%d", limit), place); !slices.Equal(got, want) {
			t.Errorf("by %d: %q", limit, got)
		}
	}
	for query, want := range map[string]string{
		"rule=a": "43.3 41.3 41.2 41.1", "rule=b": "43.2 43.1", "rule=c": "", "since=1970-01-01T00:00:04Z": "43.3 43.2", "since=1970-01-01": "43.3 43.2 43.1 41.3 41.2 41.1",
		"since=1970-01-01T00:00:02Z&rule=a": "43.3 41.3", "after=43.1": "41.3 41.2 41.1", "after=43.0": "41.3 41.2 41.1", "after=50.0": "43.3 43.2 43.1 41.3 41.2 41.1",
	} {
		if !strings.HasPrefix(query, "after") {
			if got, _ := pages(s, "/v1/alerts?limit=2&"+query, place); strings.Join(got, " ") != want {
				t.Errorf("%s: %q", query, got)
			}
		}
		var list rulesapi.List[rulesapi.Alert]
		s.ask(get, "/v1/alerts?"+query, "").want(200).json(&list)
		var got []string
		for _, a := range list.Items {
			got = append(got, a.At)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q", query, got)
		}
	}
	one := alerts("b", 4, 1)[0]
	var a rulesapi.Alert
	if s.ask(get, "/v1/alerts/"+one.ID.String(), "").want(200).json(&a); a.At != "43.2" || string(a.Alert) != string(alert.AppendJSON(nil, one)) {
		t.Errorf("%+v", a)
	}
	s.ask(get, "/v1/alerts/"+strings.Repeat("0", 64), "").problem(404, "not-found")
	s.ask(get, "/v1/alerts/"+one.ID.String()[:63], "").problem(404, "not-found")
}

// client reads a live stream as it comes. It is an http.ResponseWriter, so that tests with a clock of their own can use it.
type client struct {
	mu     sync.Mutex
	header http.Header
	code   int
	text   bytes.Buffer
	// fail is the error of writes; deadline the last that was set.
	fail     error
	deadline time.Time
	cancel   context.CancelFunc
	done     chan struct{}
}

func (c *client) Header() http.Header { return c.header }
func (c *client) WriteHeader(code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.code = code
}

func (c *client) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return 0, c.fail
	}
	return c.text.Write(b)
}
func (c *client) FlushError() error { return nil }

func (c *client) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

func (c *client) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.text.String()
	c.text.Reset()
	return s
}

// listen opens a live stream in a bubble.
func (s *server) listen(query string, headers ...string) *client {
	c := &client{header: http.Header{}, done: make(chan struct{})}
	r := httptest.NewRequest(get, "/v1/alerts/live"+query, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	ctx, cancel := context.WithCancel(rulesapi.WithCaller(context.Background(), rulesapi.Caller{Name: "v", Role: rulesapi.Viewer}))
	c.cancel = cancel
	go func() {
		defer close(c.done)
		s.echo.ServeHTTP(c, r.WithContext(ctx))
	}()
	synctest.Wait()
	return c
}

// ids are the ids of the alerts in a text, of other events the names, and of places alone the place behind @.
func ids(text string) string {
	var out []string
	for event := range strings.SplitSeq(text, "\n\n") {
		id, name := "", ""
		for line := range strings.Lines(event) {
			field, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch field {
			case "id":
				id = value
			case "event":
				name = value
			}
		}
		switch {
		case name == "alert":
			out = append(out, id)
		case name != "":
			out = append(out, name)
		case id != "":
			out = append(out, "@"+id)
		}
	}
	return strings.Join(out, " ")
}

func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.feed.Committed(41, alerts("a", 0, 2))
		c := s.listen("")
		if text := c.take(); c.code != 200 || c.header.Get("Content-Type") != "text/event-stream" || text != "retry: 2000\n\nid: 42.0\n\n" {
			t.Errorf("%d %v %q", c.code, c.header, text)
		}
		of := s.listen("?rule=b")
		of.take()
		list := append(alerts("a", 2, 1), alerts("b", 3, 1)...)
		s.feed.Committed(42, list)
		synctest.Wait()
		want := fmt.Sprintf("id: 42.1\nevent: alert\ndata: %s\n\nid: 42.2\nevent: alert\ndata: %s\n\nid: 43.0\n\n", alert.AppendJSON(nil, list[0]), alert.AppendJSON(nil, list[1]))
		if text := c.take(); text != want {
			t.Error(cmp.Diff(want, text))
		}
		if text := of.take(); ids(text) != "42.2 @43.0" {
			t.Errorf("of one rule: %q", text)
		}
		// Silence is broken, and says where the stream stands.
		s.feed.Committed(50, nil)
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if text := c.take(); text != ": still here\n\nid: 51.0\n\n" {
			t.Errorf("in silence: %q", text)
		}
		if st := s.api.Stats(); st.Streams != 2 || st.Sent != 3 {
			t.Errorf("%+v", st)
		}
		// A client that goes leaves nothing.
		of.cancel()
		<-of.done
		if st := s.api.Stats(); st.Streams != 1 {
			t.Errorf("%+v", st)
		}
		// What is written late is cut.
		c.mu.Lock()
		c.fail = fmt.Errorf("write: %w", os.ErrDeadlineExceeded)
		if time.Until(c.deadline) > 10*time.Second {
			t.Errorf("the deadline is %s ahead", time.Until(c.deadline))
		}
		c.mu.Unlock()
		s.feed.Committed(51, alerts("a", 9, 1))
		<-c.done
		gone := s.listen("")
		gone.mu.Lock()
		gone.fail = errors.New("connection reset")
		gone.mu.Unlock()
		s.feed.Committed(52, alerts("a", 10, 1))
		<-gone.done
		if st := s.api.Stats(); st.Streams != 0 || st.Cut["slow"] != 1 || len(st.Cut) != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestLiveResumes goes on behind what a client has seen, in this process and in the next one.
func TestLiveResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t) // its newest epoch is 40
		s.feed.Committed(41, alerts("a", 0, 3))
		s.feed.Committed(43, alerts("a", 3, 2))
		for seen, want := range map[string]string{
			"41.1": "41.2 41.3 43.1 43.2 @44.0",
			"41.3": "43.1 43.2 @44.0",
			"42.0": "43.1 43.2 @44.0",
			"43.0": "43.1 43.2 @44.0",
			"43.2": "@44.0",
			"44.0": "@44.0",
			"41.0": "41.1 41.2 41.3 43.1 43.2 @44.0", // the client has seen all of epoch 40
			"40.7": "gap 41.1 41.2 41.3 43.1 43.2 @44.0",
			"3.1":  "gap 41.1 41.2 41.3 43.1 43.2 @44.0",
			"44.1": "gap @44.0", // of another history
			"90.0": "gap @44.0",
		} {
			for _, c := range []*client{s.listen("", "Last-Event-ID", seen), s.listen("?after=" + seen)} {
				if text := c.take(); ids(text) != want {
					t.Errorf("behind %s: %s, want %s", seen, ids(text), want)
				}
				c.cancel()
				<-c.done
			}
		}
	})
}

// TestLiveIsBounded keeps so many alerts and so many listeners, and no more.
func TestLiveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.feed.Committed(41, alerts("a", 0, 9_000))
		s.feed.Committed(42, alerts("a", 9_000, 2_000))
		c := s.listen("?after=41.1000")
		if text := c.take(); strings.HasPrefix(ids(text), "gap") || strings.Count(text, "event: alert") != 10_000 || !strings.HasSuffix(text, "id: 43.0\n\n") {
			t.Errorf("%.200q", text)
		}
		c.cancel()
		<-c.done
		c = s.listen("?after=41.999")
		if text := c.take(); !strings.HasPrefix(ids(text), "gap 41.1001 ") {
			t.Errorf("%.200q", text)
		}
		// More than is kept, at once: who has not seen it is cut, and told.
		c.mu.Lock() // it is slow
		s.feed.Committed(43, alerts("a", 11_000, 10_000))
		s.feed.Committed(44, alerts("b", 0, 10_001))
		c.mu.Unlock()
		<-c.done
		if text := c.take(); !strings.HasSuffix(text, "event: end\ndata: {\"reason\":\"slow\"}\n\n") || s.api.Stats().Cut["slow"] != 1 {
			t.Errorf("%.200q", text)
		}
		c = s.listen("?after=44.1")
		if text := c.take(); strings.Count(text, "event: alert") != 10_000 || !strings.HasPrefix(ids(text), "44.2 ") {
			t.Errorf("%.200q", text)
		}
		open := []*client{c}
		for range 99 {
			open = append(open, s.listen(""))
		}
		s.ask(get, "/v1/alerts/live", "").problem(503, "full")
		s.api.EndStreams()
		for _, c := range open {
			<-c.done
			if !strings.HasSuffix(c.take(), "event: end\ndata: {\"reason\":\"closing\"}\n\n") {
				t.Error("a client was not told")
			}
		}
		if st := s.api.Stats(); st.Streams != 0 || st.Cut["closing"] != 100 || st.Cut["full"] != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestLiveOverHTTP is a stream as clients have it, with all that is between.
func TestLiveOverHTTP(t *testing.T) {
	s := newServer(t)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.echo.ServeHTTP(w, r.WithContext(rulesapi.WithCaller(r.Context(), rulesapi.Caller{Name: "v", Role: rulesapi.Viewer})))
	}))
	// A server that has no patience with requests: streams outlive it.
	const patience = 50 * time.Millisecond
	srv.Config.ReadTimeout, srv.Config.WriteTimeout = patience, patience
	srv.Start()
	defer srv.Close()
	resp, err := http.Get(srv.URL + "/v1/alerts/live")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == want {
				return
			}
		}
		t.Fatalf("no %q: %v", want, lines.Err())
	}
	next("id: 41.0")
	time.Sleep(4 * patience) // more only makes it surer
	s.feed.Committed(41, alerts("a", 0, 1))
	next("id: 41.1")
	next("event: alert")
	s.api.EndStreams()
	next(`data: {"reason":"closing"}`)
	for lines.Scan() {
		if lines.Text() != "" {
			t.Errorf("behind the end: %q", lines.Text())
		}
	}
}
