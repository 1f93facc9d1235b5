//go:build unix

package kill

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/cep/source/eventlog"
	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// posted are the changes of a configuration for streams that are posted to: one whose events have ids of their own, one whose
// requests have.
func posted(s *site) []string {
	return []string{
		fmt.Sprintf("{file: {paths: [%s/auth], follow: false}}", s.dir), "{http: {id: n, log_max: 64MiB}}",
		fmt.Sprintf("{file: {paths: [%s/web], follow: false}}", s.dir), "{http: {log_max: 64MiB}}",
		"listen: off", "listen: 127.0.0.1:0",
		"interval: 20ms", "interval: 20ms, keep: 1",
	}
}

// poster posts a feed, request after request, and repeats each until it is answered with 200.
type poster struct {
	t       testing.TB
	feed    *feed
	address *atomic.Pointer[string] // of the process that runs, if one does
	keyed   bool                    // requests have a key; else events have ids
	batch   int                     // events in a request, at most

	client     http.Client
	stop       chan struct{}
	done       chan struct{}
	requests   int
	unanswered int
	answers    map[int]int // by status
	duplicates int
	// full counts answers with 429, also for those who wait for one.
	full atomic.Int64
}

// postEvery is the pause of a poster between two requests: what is posted while a slow machine gets a process to the next step
// has to be read again by all that follow.
const postEvery = 10 * time.Millisecond

// posting starts posters for streams of a site. The events of the first stream have so many bytes of padding.
func (s *site) posting(pad, batch int, names []string) []*poster {
	s.t.Helper()
	var l []*poster
	address := &atomic.Pointer[string]{}
	for i, name := range names {
		if name != streams[0] {
			pad = 0
		}
		p := &poster{
			t: s.t, feed: newFeed(name, pad), address: address, keyed: name != streams[0], batch: batch, client: http.Client{Timeout: 30 * time.Second},
			stop: make(chan struct{}), done: make(chan struct{}), answers: map[int]int{},
		}
		l = append(l, p)
		go func() {
			defer close(p.done)
			r := rand.New(rand.NewPCG(3, uint64(i)))
			for {
				select {
				case <-p.stop:
					return
				case <-time.After(postEvery):
				}
				var lines [][]byte
				for range 1 + r.IntN(p.batch) {
					lines = append(lines, p.feed.next())
				}
				if !p.post(lines) {
					return
				}
			}
		}()
	}
	s.t.Cleanup(func() {
		for _, p := range l {
			p.end()
		}
	})
	return l
}

// end stops posting, once what is under way has been taken.
func (p *poster) end() {
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	<-p.done
}

// patience is how long a request is repeated before a test gives up.
const patience = 2 * time.Minute

// post posts events until they have been taken, and says whether they were.
func (p *poster) post(lines [][]byte) bool {
	p.requests++
	kind, body := "application/x-ndjson", bytes.Join(lines, nil)
	if p.requests%3 == 0 {
		kind, body = "application/json", append(append([]byte("["), bytes.Join(lines, []byte(","))...), ']')
	}
	packed := p.requests%4 == 0
	if packed {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(body) // into memory
		_ = w.Close()
		body = b.Bytes()
	}
	for begin := time.Now(); time.Since(begin) < patience && !p.t.Failed(); time.Sleep(5 * time.Millisecond) {
		address := p.address.Load()
		if address == nil {
			select {
			case <-p.stop: // nobody will be there any more
				return false
			default:
				continue
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+*address+"/v1/streams/"+p.feed.stream+"/events", bytes.NewReader(body))
		if err != nil {
			cancel()
			p.t.Error(err)
			return false
		}
		request.Header.Set("Content-Type", kind)
		if packed {
			request.Header.Set("Content-Encoding", "gzip")
		}
		if p.keyed {
			request.Header.Set("Idempotency-Key", fmt.Sprintf("%s-%d", p.feed.stream, p.requests))
		}
		status, answer, err := p.ask(request)
		cancel()
		if err != nil {
			p.unanswered++
			continue
		}
		p.answers[status]++
		switch status {
		case http.StatusOK:
			var taken struct{ Accepted, Duplicates int }
			if err := json.Unmarshal(answer, &taken); err != nil || taken.Accepted+taken.Duplicates != len(lines) {
				p.t.Errorf("%d events are answered by %s (%v)", len(lines), answer, err)
				return false
			}
			p.duplicates += taken.Duplicates
			return true
		case http.StatusTooManyRequests:
			p.full.Add(1)
		case http.StatusServiceUnavailable:
		default:
			p.t.Errorf("%d events are answered by %d %s", len(lines), status, answer)
			return false
		}
	}
	if !p.t.Failed() {
		p.t.Errorf("nobody took a request within %s; answers so far: %v", patience, p.answers)
	}
	return false
}

func (p *poster) ask(r *http.Request) (status int, body []byte, err error) {
	answer, err := p.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	body, err = io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return 0, nil, err
	}
	return answer.StatusCode, body, nil
}

// listening waits until the process listens, and sends the posters there; "": it has ended before.
func (p *process) listening(l []*poster) string {
	p.t.Helper()
	address, ok := p.saysOrEnds(`listening address=(\S+)`)
	if !ok {
		return ""
	}
	for _, x := range l {
		x.address.Store(&address)
	}
	return address
}

// condition is what /status says, as far as it is looked at here.
type condition struct {
	Epoch struct {
		Committed int    `json:"committed"`
		Error     string `json:"error"`
	} `json:"epoch"`
	Degraded []struct {
		What   string `json:"what"`
		Name   string `json:"name"`
		Reason string `json:"reason"`
	} `json:"degraded"`
}

// status asks a process how it is.
func (s *site) status(address string) condition {
	s.t.Helper()
	var c condition
	answer, err := http.Get("http://" + address + "/status")
	if err != nil {
		s.t.Fatal(err)
	}
	err = errors.Join(json.NewDecoder(answer.Body).Decode(&c), answer.Body.Close())
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// finishPosted ends the feeds, waits for all alerts, ends the job in good order, and compares.
func (s *site) finishPosted(l []*poster) {
	s.t.Helper()
	p := s.start("")
	p.listening(l)
	for _, x := range l {
		x.end()
	}
	if s.t.Failed() {
		s.t.Fatalf("the feeds have not been taken:\n%s", p.logged())
	}
	var feeds []*feed
	for _, x := range l {
		if !x.post([][]byte{x.feed.end()}) {
			s.t.Fatalf("the last event has not been taken:\n%s", p.logged())
		}
		feeds = append(feeds, x.feed)
	}
	s.ended(s.t, feeds...)
	waitFor(s.t, "the last alert", func() bool {
		n, _ := s.server.Must(s.t, "XLEN", s.stream).(int64)
		return int(n) >= s.number
	})
	p.signal(syscall.SIGTERM)
	p.exits(0)
	s.check()
}

// TestPush kills a process that is posted to at every step of its log, and at random. Clients repeat what they have no answer
// for, and each event counts once.
func TestPush(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	// A torn end is there after a kill in the middle of a write; the log is trimmed after some megabytes.
	points := []string{
		"log.segment.created", "log.segment.written", "log.segment.synced", job.PointTrimmed, "log.append.half:5", "log.open.torn",
		"log.append.written:3", "log.append.synced:3", "log.append.synced", "log.ids.written", "log.ids.renamed", "log.trim.removed",
	}
	for _, name := range eventlog.Failpoints {
		if !slices.ContainsFunc(points, func(p string) bool { n, _, _ := strings.Cut(p, ":"); return n == name }) {
			t.Errorf("no process is killed at %s", name)
		}
	}
	s := newFeedSite(t, func(w *workload) *site { return newSite(t, w, server, "push") })
	s.configure(posted(s)...)
	l := s.posting(8<<10, 20, streams)
	for _, point := range points {
		p := s.start(point)
		p.listening(l) // or it is killed before it listens
		if killed, err := p.wait(); !killed {
			t.Fatalf("%s was not reached: %v\n%s", point, err, p.logged())
		}
	}
	r := moments()
	for range kills() {
		p := s.start("")
		p.listening(l)
		if killed, err := p.kill(time.Duration(r.IntN(400)) * time.Millisecond); !killed {
			t.Fatalf("%v\n%s", err, p.logged())
		}
	}
	s.finishPosted(l)
	repeated, unanswered := 0, 0
	for _, x := range l {
		repeated += x.duplicates
		unanswered += x.unanswered
	}
	if repeated == 0 {
		t.Errorf("no event was posted twice: of %d requests none was repeated that had been taken", l[0].requests+l[1].requests)
	}
	t.Logf("%d and %d events; %d requests without an answer, %d events that were posted again although they had been taken",
		l[0].feed.n, l[1].feed.n, unanswered, repeated)
}
