//go:build unix && brokers

package kill

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// These take minutes: make kill runs them.

// TestKafkaInstances ends a job in good order and starts it again, while its input grows: no instance, one, none, one.
func TestKafkaInstances(t *testing.T) {
	t.Parallel()
	s, p := newStream(t, kafkatest.Shared(t), "instances", pace())
	for range 10 {
		one := s.start("")
		one.says(" running ")
		before := s.witness.Count(s.alerts)
		waitFor(t, "alerts", func() bool { return s.witness.Count(s.alerts) > before+50 || !one.runs() })
		one.signal(syscall.SIGTERM)
		one.exits(0)
	}
	s.finishPoured(p)
}

// TestKafkaIsKilled kills the broker under load again and again: the job that runs goes on, and nothing is lost or doubled, in
// what it reads and what it writes.
func TestKafkaIsKilled(t *testing.T) {
	t.Parallel()
	for _, version := range versions() {
		t.Run(fmt.Sprintf("version=%d", version), func(t *testing.T) {
			c := kafkatest.Start(t, kafkatest.Options{TransactionVersion: version})
			s, p := newStream(t, c, "broker", pace())
			s.life = longLife
			one := s.start("")
			r := moments()
			const times = 10
			for range times {
				before := s.witness.Count(s.alerts)
				waitFor(t, "alerts", func() bool { return s.witness.Count(s.alerts) > before || !one.runs() })
				time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
				c.Broker.Kill()
				if err := c.Broker.Launch(); err != nil {
					t.Fatal(err)
				}
			}
			if !one.runs() {
				t.Fatalf("the job ended: %v\n%s", one.err, one.logged())
			}
			one.signal(syscall.SIGTERM)
			one.exits(0)
			s.finishPoured(p)
			t.Logf("the broker was killed %d times; %d alerts, each once, in order", times, s.number)
		})
	}
}

// TestKafkaNodes kills and stops the nodes of a cluster of three at random: leaders and coordinators move all the time.
func TestKafkaNodes(t *testing.T) {
	t.Parallel()
	for _, version := range versions() {
		t.Run(fmt.Sprintf("version=%d", version), func(t *testing.T) {
			c := kafkatest.Start(t, kafkatest.Options{Nodes: 3, TransactionVersion: version})
			s, p := newStream(t, c, "nodes", pace())
			s.life = longLife
			one := s.start("")
			r := moments()
			killed, stopped := 0, 0
			for range 10 {
				before := s.witness.Count(s.alerts)
				waitFor(t, "alerts", func() bool { return s.witness.Count(s.alerts) > before || !one.runs() })
				node := 1 + r.IntN(3)
				if r.IntN(2) == 0 {
					c.Broker.Kill(node)
					killed++
				} else {
					if err := c.Broker.Stop(node); err != nil {
						t.Fatal(err)
					}
					stopped++
				}
				time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
				if err := c.Broker.Launch(node); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond) // one of three may be away, but its replicas have to catch up
			}
			if !one.runs() {
				t.Fatalf("the job ended: %v\n%s", one.err, one.logged())
			}
			one.signal(syscall.SIGTERM)
			one.exits(0)
			s.finishPoured(p)
			t.Logf("nodes were killed %d times and stopped %d times; %d alerts, each once, in order", killed, stopped, s.number)
		})
	}
}
