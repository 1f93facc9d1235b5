//go:build unix

package kill

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// TestOutputIsRotated moves the file of a sink away, as log rotation does, while alerts are written to it, and kills the
// process at each step of that and at random. All files together hold each alert once.
func TestOutputIsRotated(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	s := newSite(t, newWorkload(t, t.TempDir(), 40_000), server, "rotated")
	file := filepath.Join(s.name, "alerts.jsonl")
	moved := 0
	rotate := func() {
		name := filepath.Join(s.name, fmt.Sprintf("alerts-%d.jsonl", moved))
		if err := os.Rename(file, name); err == nil {
			moved++
		}
	}
	// A file that was moved away is noticed by the next batch.
	for _, point := range []string{"filesink.left", "filesink.left:2", "filesink.created", "filesink.created:2", "filesink.synced:2", ""} {
		p := s.start(point, "--once")
		// As often as it takes until the process has come to its point, which it does with the batch behind a rotation.
		for n, ended := 0, false; !ended; n++ {
			select {
			case <-p.done:
				ended = true
			case <-time.After(60 * time.Millisecond):
				if p.runs() {
					rotate()
				}
			}
			if point == "" && n == 3 {
				_, _ = p.kill(0)
			}
		}
		if killed, err := p.wait(); !killed && err != nil {
			t.Fatalf("%s: %v\n%s", point, err, p.logged())
		}
	}
	p := s.start("", "--once")
	p.exits(0)
	var lines []string
	for i := range moved {
		lines = append(lines, s.lines(fmt.Sprintf("alerts-%d.jsonl", i))...)
	}
	s.checkAlerts(fmt.Sprintf("%d files", moved+1), append(lines, s.lines("alerts.jsonl")...))
	s.checkAlerts("Redis", s.bodies())
}

// TestWeakerGuarantees kills a process between the two steps of sinks that do not promise each alert once: at_most_once loses
// what was under way and repeats nothing, at_least_once repeats what was under way and loses nothing. The file beside them
// stays exact.
func TestWeakerGuarantees(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	w := newWorkload(t, t.TempDir(), 3_000)
	for _, c := range []struct {
		guarantee, point string
		// loses and repeats say what has to be seen.
		loses, repeats bool
	}{
		{"at_most_once", "publisher.noted", true, false},
		{"at_most_once", "publisher.sent", false, false},
		{"at_least_once", "publisher.sending", false, false},
		// The file of alerts is sent to as often: where it is killed there Redis may have nothing to repeat.
		{"at_least_once", "publisher.sent", false, true},
	} {
		t.Run(c.guarantee+"/"+c.point, func(t *testing.T) {
			s := newSite(t, w, server, c.guarantee+"-"+strings.ReplaceAll(c.point, ".", "-"))
			s.configure(fmt.Sprintf("stream: %s}}", s.stream), fmt.Sprintf("stream: %s}, guarantee: %s}", s.stream, c.guarantee))
			for count := 1; count <= 12; count++ {
				p := s.start(fmt.Sprintf("%s:%d", c.point, count), "--once")
				if killed, err := p.wait(); !killed && err != nil {
					t.Fatalf("%v\n%s", err, p.logged())
				}
			}
			p := s.start("", "--once")
			p.exits(0)
			s.checkAlerts("the file", s.lines("alerts.jsonl"))
			missing, doubled, unordered := s.differ(s.bodies())
			t.Logf("%d of %d alerts are missing, %d came again", missing, s.number, doubled)
			switch {
			case missing > 0 && c.guarantee == "at_least_once":
				t.Errorf("%d alerts are missing", missing)
			case missing == 0 && c.loses:
				t.Error("nothing is missing: no process was killed between the two steps")
			case doubled > 0 && c.guarantee == "at_most_once":
				t.Errorf("%d alerts came twice", doubled)
			case doubled == 0 && c.repeats:
				t.Error("nothing came again: no process was killed between the two steps")
			case unordered != "" && !c.repeats:
				t.Error(unordered)
			}
		})
	}
}

// receiver takes what a webhook posts, and refuses some for good.
type receiver struct {
	mu      sync.Mutex
	bodies  []string
	refused map[string]bool
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return // the process was killed while it sent
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.Contains(string(body), `"rule":"storm"`) {
		r.refused[string(body)] = true
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.bodies = append(r.bodies, string(body))
}

// TestWebhook kills a process that posts alerts to a receiver which refuses those of one rule: what it takes arrives at least
// once, what it refuses is in the dead letters, and nothing else is.
func TestWebhook(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	s := newSite(t, newWorkload(t, t.TempDir(), 1_000), server, "webhook")
	r := &receiver{refused: map[string]bool{}}
	web := httptest.NewServer(r)
	t.Cleanup(web.Close)
	s.configure("dead_letters:", fmt.Sprintf("  hook: {webhook: {url: %q, private: true}}\ndead_letters:", web.URL))
	for _, point := range []string{"publisher.rejected", "publisher.rejected:2", "publisher.sent:5", "publisher.confirmed:5", "job.told"} {
		p := s.start(point, "--once")
		if killed, err := p.wait(); !killed {
			t.Fatalf("%s was not reached: %v\n%s", point, err, p.logged())
		}
	}
	p := s.start("", "--once")
	p.exits(0)

	s.checkAlerts("the file", s.lines("alerts.jsonl"))
	s.checkAlerts("Redis", s.bodies())
	var letters, events []string
	for _, line := range s.lines("refused.jsonl") {
		var l struct {
			Kind    string          `json:"kind"`
			Message json.RawMessage `json:"message"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Kind == "excess" {
			letters = append(letters, string(l.Message))
			if !r.refused[string(l.Message)] {
				t.Errorf("a letter of what was never refused: %s", line)
			}
			continue
		}
		events = append(events, line)
	}
	if d := s.compareRefused(events); d != "" {
		t.Errorf("the refused: %s", d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	missing, doubled, _ := s.differ(append(r.bodies, letters...))
	if missing > 0 {
		t.Errorf("%d alerts are neither at the receiver nor among the letters", missing)
	}
	// What was under way in a crash: one message at each of the five kills, and what two other sinks were not killed at.
	if doubled > 5 {
		t.Errorf("%d alerts came more than once; five processes were killed with one under way", doubled)
	}
	t.Logf("%d taken, %d letters, %d of them more than once", len(r.bodies), len(letters), doubled)
}
