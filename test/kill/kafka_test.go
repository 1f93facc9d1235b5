//go:build unix

package kill

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// long says that more is asked for than what every run of the tests does.
func long() bool { return kills() > killsUsual }

// pace is the pause between two writes of ten events to each topic.
func pace() time.Duration {
	if long() {
		return 5 * time.Millisecond
	}
	return 40 * time.Millisecond
}

// longLife is how long a process may live that sees its brokers die ten times: half a minute each on a loaded machine.
const longLife = 15 * time.Minute

// versions are those of transactions: the newest one, and where more is asked for the first one too.
func versions() []int {
	if long() {
		return []int{1, 2}
	}
	return []int{2}
}

// fewPoints are the failpoints at which every run of the tests kills a job from topics to topics: those around a transaction,
// and around an epoch.
var fewPoints = []string{"publisher.sent", "job.told"}

// TestKafkaFailpoints kills a job from topics to topics at the steps that the packages name, all of them in long runs.
func TestKafkaFailpoints(t *testing.T) {
	t.Parallel()
	c := kafkatest.Shared(t)
	w := newWorkload(t, t.TempDir(), 1_000)
	q := w.inTopics(t, c)
	for _, point := range failpoints() {
		if elsewhere[point] != "" || strings.HasPrefix(point, "log.") || strings.HasPrefix(point, "filesink.") {
			continue
		}
		if !long() && !slices.Contains(fewPoints, point) {
			continue
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := newTopicSite(t, q, strings.ReplaceAll(point, ".", "-"))
			hit := false
			for _, count := range []int{1, 2, 7} {
				if count == 1 && !long() {
					continue
				}
				p := s.start(fmt.Sprintf("%s:%d", point, count), "--once")
				was, err := p.wait()
				if !was && err != nil {
					t.Fatalf("%s:%d: %v\n%s", point, count, err, p.logged())
				}
				hit = hit || was
			}
			if !hit {
				t.Error("no run reaches it")
			}
			s.finish()
			s.checkGroup()
		})
	}
}

// TestKafkaRandomKills kills one job after the other at random moments, while its input grows.
func TestKafkaRandomKills(t *testing.T) {
	t.Parallel()
	s, p := newStream(t, kafkatest.Shared(t), "random", pace())
	r := moments()
	n := kills()
	if !long() {
		n = 3 // each takes a second
	}
	for range n {
		if killed, err := s.start("").kill(time.Duration(50+r.IntN(1000)) * time.Millisecond); !killed {
			t.Fatal(err)
		}
	}
	s.finishPoured(p)
	t.Logf("killed %d times; %d alerts, each once, in order", n, s.number)
}

// TestKafkaTakeover stops a process for longer than brokers wait for its transaction, while another one goes on with a copy of
// its state; then the first one wakes up. It changes nothing and says why it stops, and the other one is not disturbed.
func TestKafkaTakeover(t *testing.T) {
	t.Parallel()
	s, p := newStream(t, kafkatest.Shared(t), "takeover", pace(), "transaction_timeout: 1m", "transaction_timeout: 1s")
	one := s.start("")
	waitFor(t, "alerts", func() bool { return s.witness.Count(s.alerts) > 50 || !one.runs() })
	one.signal(syscall.SIGSTOP)
	asleep := time.Now()
	second := *s
	second.site = &site{workload: s.workload, t: t, name: filepath.Join(t.TempDir(), "takeover")}
	second.takeStateOf(s.state())
	second.configure("transaction_timeout: 1m", "transaction_timeout: 1s")
	before := s.witness.Count(s.alerts)
	two := second.start("")
	waitFor(t, "alerts of the second process", func() bool { return s.witness.Count(s.alerts) > before+50 || !two.runs() })
	time.Sleep(3*time.Second - time.Since(asleep))
	one.signal(syscall.SIGCONT)
	one.exits(4)
	if !strings.Contains(one.logged(), "another instance owns the destination") {
		t.Errorf("the first process does not say why it stops:\n%s", one.logged())
	}
	before = s.witness.Count(s.alerts)
	waitFor(t, "more alerts", func() bool { return s.witness.Count(s.alerts) > before+50 || !two.runs() })
	two.signal(syscall.SIGTERM)
	two.exits(0)
	second.finishPoured(p)
	t.Logf("the first process woke up after %s", time.Since(asleep).Round(time.Second))
}

// TestKafkaInputIsRemade deletes a topic that a job reads and makes it again: it is another one, which the job says and does
// not read; and so does the next start.
func TestKafkaInputIsRemade(t *testing.T) {
	t.Parallel()
	c := kafkatest.Shared(t)
	s, p := newStream(t, c, "remade", pace())
	one := s.start("")
	waitFor(t, "alerts", func() bool { return s.witness.Count(s.alerts) > 50 || !one.runs() })
	one.signal(syscall.SIGKILL)
	if killed, err := one.wait(); !killed {
		t.Fatal(err)
	}
	p.end()
	c.Remake(t, s.queue.topics["auth"], 1)
	s.says("it was made again")
}

// says starts the job and expects that it ends with an error that holds a text.
func (s *topicSite) says(text string) {
	s.t.Helper()
	p := s.start("", "--once")
	if _, err := p.wait(); err == nil || !strings.Contains(p.logged(), text) {
		s.t.Errorf("it ends with %v and does not say %q:\n%s", err, text, p.logged())
	}
}
