package kafkasink

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/sinktest"
)

// TestPeekAsksOnlyToRead: no request of a peek is about a transaction, and none makes a topic.
func TestPeekAsksOnlyToRead(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p, proxy := newPlace(t, c, 1), kafkatest.NewProxy(t, c)
		s := p.sink(t)
		at := put(t, s, open(t, s), sinktest.Messages(sinks.Progress{Lineage: 1}, 3, "a"))
		p.addresses = proxy.Addresses
		var mu sync.Mutex
		var asked []kmsg.Key
		proxy.Rule(func(r kafkatest.Request) kafkatest.Fate {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, kmsg.Key(r.Key))
			return kafkatest.Pass
		})
		absent := kafkatest.Unique("absent")
		for want, change := range map[sinks.Progress]func(*Config){
			at: func(c *Config) { c.Create = true },
			{}: func(c *Config) { c.Create, c.Topic, c.ProgressTopic = true, absent, absent+"-progress" },
		} {
			if found, err := p.sink(t, change).Peek(t.Context()); err != nil || found != want {
				t.Fatalf("peek: %+v, %v, want %+v", found, err, want)
			}
		}
		proxy.Rule(nil)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(asked, kmsg.Fetch) {
			t.Errorf("asked %v", asked)
		}
		for _, key := range []kmsg.Key{kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.EndTxn, kmsg.Produce, kmsg.CreateTopics} {
			if slices.Contains(asked, key) {
				t.Errorf("it asked for %s", key.Name())
			}
		}
		topics, err := p.Admin(t).ListTopics(t.Context())
		if err != nil || topics.Has(absent) || topics.Has(absent+"-progress") {
			t.Errorf("topics were made (%v)", err)
		}
		put(t, s, at, nil)
	})
}

// TestPeekIsLost: whatever is lost on the way of a peek, the next one finds the position, and the owner notices nothing.
func TestPeekIsLost(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p, proxy := newPlace(t, c, 1), kafkatest.NewProxy(t, c)
		s := p.sink(t)
		at := put(t, s, open(t, s), sinktest.Messages(sinks.Progress{Lineage: 1}, 3, "a"))
		p.addresses = proxy.Addresses
		for _, fate := range []kafkatest.Fate{kafkatest.LoseRequest, kafkatest.LoseAnswer} {
			for _, key := range []kmsg.Key{kmsg.Metadata, kmsg.DescribeConfigs, kmsg.ListOffsets, kmsg.Fetch} {
				looker := p.sink(t)
				lost := proxy.Once(key, fate)
				found, err := looker.Peek(t.Context())
				for err != nil && !sinks.Permanent(err) {
					found, err = looker.Peek(t.Context())
				}
				if err != nil || found != at || !lost() {
					t.Fatalf("%s: %+v, %v, want %+v; lost: %v", key.Name(), found, err, at, lost())
				}
			}
		}
		put(t, s, at, nil)
	})
}

// TestPeekWaits: what is under way may move the position, so a peek waits for its end; and it leaves it alone, where Open would
// abort it.
func TestPeekWaits(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p := newPlace(t, c, 1)
		s := p.sink(t)
		at := put(t, s, open(t, s), sinktest.Messages(sinks.Progress{Lineage: 1}, 3, "a"))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		owner := p.Client(t, kgo.TransactionalID(p.job+"/out"), kgo.TransactionTimeout(time.Minute))
		if err := owner.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		next := position{Magic: magic, Version: version, Owner: p.job + "/out", Lineage: 1, Sequence: at.Sequence + 1, Chain: at.Chain.String(), Topic: p.topic}
		value, err := next.append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := owner.ProduceSync(t.Context(), &kgo.Record{Topic: p.progress, Key: []byte(p.job + "/out"), Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		type answer struct {
			at  sinks.Progress
			err error
		}
		got, looker := make(chan answer, 1), p.sink(t)
		go func() {
			at, err := looker.Peek(t.Context())
			got <- answer{at, err}
		}()
		select {
		case a := <-got:
			t.Fatalf("found %+v, %v while a transaction was open", a.at, a.err)
		case <-time.After(200 * time.Millisecond): // it may not have asked yet: then it finds the same
		}
		if err := owner.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatalf("the owner's transaction: %v", err)
		}
		if a := <-got; a.err != nil || a.at != next.progress() {
			t.Fatalf("found %+v, %v, want %+v", a.at, a.err, next.progress())
		}
	})
}

// TestPeekRefuses: a mistake that Open would stop for is found without a fence.
func TestPeekRefuses(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p := newPlace(t, c, 1)
		peek := func(change func(*Config)) error {
			_, err := p.sink(t, change).Peek(t.Context())
			return err
		}
		loose := p.Topic(t, 1)
		stops(t, peek(func(c *Config) { c.ProgressTopic = loose }), "set it to compact")
		absent := kafkatest.Unique("absent")
		if c.Real() {
			stops(t, peek(func(c *Config) { c.Topic = absent }), "create it")
			stops(t, peek(func(c *Config) { c.LettersTopic = absent }), "create it")
		}
		stops(t, peek(func(c *Config) { c.ProgressTopic = absent }), "create it")
		client := p.Client(t)
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: p.progress, Key: []byte(p.job + "/out"), Value: []byte("canary")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		stops(t, peek(func(*Config) {}), "no valid position")
	})
	c := Config{Job: "a", Name: "b", Topic: "t"}
	c.Cluster.Brokers, c.Cluster.RetryFor = []string{"127.0.0.1:1"}, 50*time.Millisecond
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Peek(t.Context()); err == nil || sinks.Permanent(err) || !strings.Contains(err.Error(), "peek t") {
		t.Errorf("%v, want an error that may pass", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Peek(t.Context()); err == nil || errors.Is(err, sinks.ErrStop) {
		t.Errorf("peek after Close: %v", err)
	}
}
