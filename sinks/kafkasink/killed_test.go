//go:build brokers

package kafkasink

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/sinktest"
)

var (
	kills = flag.Int("kills", 1, "how often to kill a broker of its own in TestKilled, with transactions of each version")
	seed  = flag.Uint64("seed", 1, "what TestKilled does at random")
)

// TestKilled kills the broker again and again while a publisher sends and the network loses answers, with transactions of
// both versions: every message is there once and in order. Each version takes a broker, and each kill ten seconds, and so
// only make kill runs it:
//
//	go test -tags brokers ./sinks/kafkasink -run Killed -kills 10
func TestKilled(t *testing.T) {
	for _, v := range []int{1, 2} {
		t.Run(fmt.Sprintf("version=%d", v), func(t *testing.T) {
			c := kafkatest.Start(t, kafkatest.Options{TransactionVersion: v, Properties: []string{"transaction.max.timeout.ms=60000"}})
			_, err := newPlace(t, c, 1).sink(t, func(c *Config) { c.TransactionTimeout = 2 * time.Minute }).Open(t.Context())
			stops(t, err, "transaction.max.timeout.ms")
			if v == 1 {
				conformance(t, c, 2)
			}
			killed(t, c)
		})
	}
}

func killed(t *testing.T, c *kafkatest.Cluster) {
	t.Helper()
	random := rand.New(rand.NewPCG(*seed, 5))
	p, proxy := newPlace(t, c, 3), kafkatest.NewProxy(t, c)
	p.addresses = proxy.Addresses
	proxy.Rule(func(kafkatest.Request) kafkatest.Fate {
		if n := random.IntN(60); n < 2 { // one request at a time is judged
			return kafkatest.LoseRequest + kafkatest.Fate(n)
		}
		return kafkatest.Pass
	})
	o := &sinktest.Outbox{}
	s := p.sink(t)
	publisher := sinks.NewPublisher(sinks.PublisherConfig{Name: "out", Sink: s, Outbox: o, BatchMax: 20})
	ended := make(chan error, 1)
	go func() { ended <- publisher.Run(t.Context()) }()
	all := sinktest.Messages(sinks.Progress{}, *kills*600, "a")
	committed := 0
	commit := func(n int) {
		for range n {
			o.Commit(all[committed : committed+10]...)
			committed += 10
			publisher.Wake()
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		}
	}
	for range *kills {
		commit(20 + random.IntN(20))
		c.Broker.Kill()
		commit(10)
		if err := c.Broker.Launch(); err != nil {
			t.Fatal(err)
		}
		commit(10)
	}
	proxy.Rule(nil)
	drained := make(chan error, 1)
	go func() { drained <- publisher.Drained(t.Context()) }()
	select {
	case err := <-ended:
		t.Fatalf("the publisher ended: %v; %+v", err, publisher.Status())
	case err := <-drained:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(2 * patience):
		t.Fatalf("still not published: %+v", publisher.Status())
	}
	if d := cmp.Diff(bodies(all[:committed]), p.bodies(t)); d != "" {
		t.Fatalf("(-want +got):\n%.4000s", d)
	}
	t.Logf("%d messages, %+v", committed, publisher.Status())
}
