//go:build unix

package kill

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// refusedStarts is how often somebody tries to start a job beside one that runs.
const refusedStarts = 3

// startsBeside starts the job of a site that has no state, while p runs it elsewhere: each is refused. more waits until alerts
// arrive that p had not sent before; then p ends in good order.
func startsBeside(t *testing.T, p *process, beside *site, more func()) {
	t.Helper()
	more()
	for range refusedStarts {
		q := beside.start("")
		q.exits(4)
		for _, word := range []string{"the state is empty", "--accept-gap"} {
			if !strings.Contains(q.logged(), word) {
				t.Errorf("it is refused and does not say %q:\n%s", word, q.logged())
			}
		}
		more()
	}
	p.signal(syscall.SIGTERM)
	p.exits(0)
	if strings.Contains(p.logged(), "another instance") {
		t.Errorf("the job that ran was disturbed:\n%s", p.logged())
	}
}

// arrive waits until so many have arrived, and fails where p has ended before.
func arrive(t *testing.T, p *process, what string, count func() int, want int) {
	t.Helper()
	waitFor(t, what, func() bool { return count() >= want || !p.runs() })
	if !p.runs() {
		t.Fatalf("the job that ran has ended: %v\n%s", p.err, p.logged())
	}
}

// append appends to a file that somebody may be reading.
func (s *site) append(name string, data []byte) {
	s.t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.Write(data)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestRefusedStart starts a job without its state beside one that runs, with files and Redis as destinations: it is refused, and
// the other one goes on as if nothing had been.
func TestRefusedStart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	s := newFeedSite(t, func(w *workload) *site { return newSite(t, w, server, "refused") })
	s.configure("follow: false", "follow: true")
	feeds := map[string]*feed{}
	for _, name := range streams {
		feeds[name] = newFeed(name, 0)
	}
	p := s.start("")
	beside := *s
	beside.name = filepath.Join(t.TempDir(), "refused") // the job has the same name
	if err := os.MkdirAll(beside.name, 0o755); err != nil {
		t.Fatal(err)
	}
	beside.configure("follow: false", "follow: true", filepath.Join(beside.name, "alerts.jsonl"), filepath.Join(s.name, "alerts.jsonl"),
		filepath.Join(beside.name, "refused.jsonl"), filepath.Join(s.name, "refused.jsonl"))
	written := 0
	startsBeside(t, p, &beside, func() {
		t.Helper()
		for name, f := range feeds {
			var lines []byte
			for range 100 {
				lines = append(lines, f.next()...)
			}
			s.append(filepath.Join(s.dir, name, "sent.jsonl"), lines)
		}
		// Each event is an alert of its own, but for the last ones: those are let out by later ones.
		written += 100
		arrive(t, p, "alerts in the file", func() int { return len(s.lines("alerts.jsonl")) }, 2*written-4)
		arrive(t, p, "alerts in Redis", func() int { return len(s.bodies()) }, 2*written-4)
	})
	s.golden(t)
	s.finish()
}

// TestKafkaRefusedStart does so from topics to topics.
func TestKafkaRefusedStart(t *testing.T) {
	t.Parallel()
	s, pour := newStream(t, kafkatest.Shared(t), "refused", pace())
	p := s.start("")
	beside := *s
	beside.site = &site{workload: s.workload, t: t, name: filepath.Join(t.TempDir(), "refused")}
	if err := os.MkdirAll(beside.name, 0o755); err != nil {
		t.Fatal(err)
	}
	beside.configure()
	startsBeside(t, p, beside.site, func() {
		t.Helper()
		arrive(t, p, "alerts", func() int { return s.witness.Count(s.alerts) }, s.witness.Count(s.alerts)+50)
	})
	s.finishPoured(pour)
}
