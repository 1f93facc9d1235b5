package kafkasink

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/sinktest"
)

// persist publishes a batch as a Publisher does: again and again, the same.
func persist(t *testing.T, s *Sink, base sinks.Progress, messages []sinks.Message) sinks.Progress {
	t.Helper()
	b := sinks.Batch{Base: base, Messages: messages}
	for deadline := time.Now().Add(patience); ; {
		ack, err := s.Publish(t.Context(), b)
		if err == nil {
			if ack.Published != b.End() {
				t.Fatalf("published %+v, want %+v", ack.Published, b.End())
			}
			return b.End()
		}
		if _, stands := errors.AsType[*sinks.StandsError](err); stands || sinks.Permanent(err) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		t.Logf("again: %v", err)
		time.Sleep(10 * time.Millisecond)
	}
}

// bodies are what a reader must find.
func bodies(messages ...[]sinks.Message) []string {
	var list []string
	for _, part := range messages {
		for i := range part {
			list = append(list, string(part[i].Body))
		}
	}
	return list
}

// TestLostOnTheWay: each request of a transaction and of an opening is lost once, and so is its answer. What comes of it is one
// definite answer.
func TestLostOnTheWay(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p, proxy := newPlace(t, c, 3), kafkatest.NewProxy(t, c)
		p.addresses = proxy.Addresses
		all := sinktest.Messages(sinks.Progress{Lineage: 1}, 200, "a")
		s := p.sink(t)
		at := open(t, s)
		next := func(n int) []sinks.Message { return all[at.Sequence : at.Sequence+uint64(n)] }
		at = put(t, s, at, next(10))
		for _, fate := range []kafkatest.Fate{kafkatest.LoseRequest, kafkatest.LoseAnswer} {
			for _, key := range []kmsg.Key{kmsg.Produce, kmsg.EndTxn} {
				lost := proxy.Once(key, fate)
				at = persist(t, s, at, next(10))
				if !lost() {
					t.Fatalf("%s: nothing was lost", key.Name())
				}
				at = put(t, s, at, next(10))
			}
			for _, key := range []kmsg.Key{kmsg.InitProducerID, kmsg.Fetch, kmsg.ListOffsets, kmsg.FindCoordinator, kmsg.EndTxn} {
				s = p.sink(t)
				lost := proxy.Once(key, fate)
				found, err := s.Open(t.Context())
				for err != nil && !sinks.Permanent(err) {
					found, err = s.Open(t.Context())
				}
				if err != nil || found != at || !lost() {
					t.Fatalf("%s: open: %+v, %v, want %+v; lost: %v", key.Name(), found, err, at, lost())
				}
				at = put(t, s, at, next(2))
			}
		}
		if d := cmp.Diff(bodies(all[:at.Sequence]), p.bodies(t)); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

// TestAbandoned: what a predecessor had under way when it died is aborted by Open, and hides nothing behind it.
func TestAbandoned(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p := newPlace(t, c, 1)
		s := p.sink(t)
		all := sinktest.Messages(sinks.Progress{Lineage: 1}, 6, "a")
		mid := put(t, s, open(t, s), all[:3])
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		// It had written a message and a position, and not the end.
		dead := p.Client(t, kgo.TransactionalID(p.job+"/out"), kgo.TransactionTimeout(20*time.Second))
		if err := dead.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, topic := range []string{p.topic, p.progress} {
			if err := dead.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(p.job + "/out"), Value: []byte("canary")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		heir := p.sink(t)
		begin := time.Now()
		if at := open(t, heir); at != mid {
			t.Fatalf("opened at %+v, want %+v", at, mid)
		}
		if d := time.Since(begin); d > 15*time.Second {
			t.Errorf("it waited for the transaction's end: %s", d)
		}
		put(t, heir, mid, all[3:])
		if d := cmp.Diff(bodies(all), p.bodies(t)); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

// TestZombieInTheMiddle: an instance whose end of a transaction never arrives is overtaken, and wakes.
func TestZombieInTheMiddle(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p := newPlace(t, c, 1)
		proxy := kafkatest.NewProxy(t, c)
		direct := p.addresses
		p.addresses = proxy.Addresses
		zombie := p.sink(t)
		start := open(t, zombie)
		canary := sinktest.Messages(start, 3, "canary")
		reached := make(chan struct{}, 100)
		proxy.Rule(func(r kafkatest.Request) kafkatest.Fate {
			if r.Key != kmsg.EndTxn.Int16() {
				return kafkatest.Pass
			}
			select {
			case reached <- struct{}{}:
			default:
			}
			return kafkatest.LoseRequest
		})
		ended := make(chan error, 1)
		go func() {
			_, err := zombie.Publish(t.Context(), sinks.Batch{Base: start, Messages: canary})
			ended <- err
		}()
		<-reached // its messages are written
		p.addresses = direct
		heir := p.sink(t)
		if at := open(t, heir); at != start {
			t.Fatalf("the heir opened at %+v, want %+v", at, start)
		}
		all := sinktest.Messages(start, 6, "a")
		mid := put(t, heir, start, all[:3])
		proxy.Rule(nil)
		fenced := func(err error) {
			t.Helper()
			if f, ok := errors.AsType[*sinks.FencedError](err); !ok || f.Forgotten || f.Owner == "" {
				t.Fatalf("the zombie: %v, want that it is fenced by a successor that is named", err)
			}
		}
		fenced(<-ended)
		_, err := zombie.Publish(t.Context(), sinks.Batch{Base: start, Messages: canary})
		fenced(err)
		persist(t, heir, mid, all[3:])
		if d := cmp.Diff(bodies(all), p.bodies(t)); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

// TestWhatReadersFind: one record of each message, and one of the position, by another client.
func TestWhatReadersFind(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p := newPlace(t, c, 2)
		s := p.sink(t)
		all := sinktest.Messages(sinks.Progress{Lineage: 1}, 20, "a")
		begin := time.Now().Add(-time.Second)
		end := put(t, s, open(t, s), all)
		got := p.messages(t)
		if len(got) != len(all) {
			t.Fatalf("%d records, want %d", len(got), len(all))
		}
		for i, r := range got {
			want := s.record(&all[i], 1)
			if !bytes.Equal(r.Key, want.Key) || !bytes.Equal(r.Value, want.Value) {
				t.Fatalf("record %s = %s, want %s = %s", r.Key, r.Value, want.Key, want.Value)
			}
			var headers []kgo.RecordHeader
			for _, h := range want.Headers {
				headers = append(headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
			}
			if d := cmp.Diff(headers, r.Headers); d != "" {
				t.Fatalf("headers (-want +got):\n%s", d)
			}
			if r.Timestamp.Before(begin) || r.Timestamp.After(time.Now().Add(time.Second)) {
				t.Fatalf("time %s: want the wall clock", r.Timestamp)
			}
		}
		positions := p.read(t, p.progress)
		last := positions[len(positions)-1]
		at, err := readPosition(last.Value)
		if err != nil {
			t.Fatal(err)
		}
		if string(last.Key) != p.job+"/out" || at.progress() != end || at.Topic != p.topic || at.Owner != p.job+"/out" {
			t.Fatalf("position %s = %s", last.Key, last.Value)
		}
		// One from the opening (which says who owns it), one from the beginning of the lineage, one from the batch.
		if len(positions) != 3 {
			t.Errorf("%d positions, want 3", len(positions))
		}
	})
}

// TestTopicRemade: a topic that is deleted and made again holds what came after, and the log says so.
func TestTopicRemade(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p := newPlace(t, c, 1)
		var log bytes.Buffer
		s := p.sink(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		all := sinktest.Messages(sinks.Progress{Lineage: 1}, 6, "a")
		mid := put(t, s, open(t, s), all[:3])
		if _, err := p.Admin(t).DeleteTopic(t.Context(), p.topic); err != nil {
			t.Fatal(err)
		}
		p.CreateTopic(t, p.topic, 1)
		end := persist(t, s, mid, all[3:])
		put(t, s, end, nil) // the fake goes by names: a probe finds it
		if d := cmp.Diff(bodies(all[3:]), p.bodies(t)); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
		if n := strings.Count(log.String(), "deleted and made again"); n != 1 {
			t.Errorf("said %d times: %s", n, log.String())
		}
	})
}

// TestPartitionsGrow: a probe finds new partitions.
func TestPartitionsGrow(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p := newPlace(t, c, 1)
		s := p.sink(t)
		all := sinktest.Messages(sinks.Progress{Lineage: 1}, 30, "a")
		mid := put(t, s, open(t, s), all[:10])
		if answers, err := p.Admin(t).UpdatePartitions(t.Context(), 3, p.topic); err != nil || answers.Error() != nil {
			t.Fatal(err, answers.Error())
		}
		kafkatest.WaitFor(t, "the new partitions", func() bool {
			put(t, s, mid, nil)
			return len(s.topic.Partitions) == 3
		})
		put(t, s, mid, all[10:])
		if d := cmp.Diff(len(all), len(p.read(t, p.topic))); d != "" {
			t.Fatalf("records (-want +got):\n%s", d)
		}
	})
}

// TestProgressGone: without the position the sink stands nowhere; what then is the Publisher's to say.
func TestProgressGone(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p := newPlace(t, c, 1)
		s := p.sink(t)
		put(t, s, open(t, s), sinktest.Messages(sinks.Progress{Lineage: 1}, 3, "a"))
		if _, err := p.Admin(t).DeleteTopic(t.Context(), p.progress); err != nil {
			t.Fatal(err)
		}
		p.CreateTopic(t, p.progress, 1, "cleanup.policy", "compact")
		for _, again := range []*Sink{s, p.sink(t)} {
			if at, err := again.Open(t.Context()); err != nil || at != (sinks.Progress{}) {
				t.Fatalf("open: %+v, %v, want nothing", at, err)
			}
		}
	})
}

// TestMistakes: what no repetition mends stops, with what to do. That a topic is absent is believed after a second.
func TestMistakes(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p := newPlace(t, c, 1)
		tries := func(change func(*Config)) error {
			_, err := p.sink(t, change).Open(t.Context())
			return err
		}
		stops(t, tries(func(config *Config) {
			if absent := kafkatest.Unique("absent"); c.Real() {
				config.Topic = absent
			} else {
				config.ProgressTopic = absent
			}
		}), "create it")
		loose := p.Topic(t, 1)
		stops(t, tries(func(c *Config) { c.ProgressTopic = loose }), "set it to compact")

		made := kafkatest.Unique("made")
		s := p.sink(t, func(c *Config) {
			c.Topic, c.ProgressTopic, c.Create, c.Partitions, c.Replicas = made, made+"-progress", true, 4, 1
		})
		put(t, s, open(t, s), sinktest.Messages(sinks.Progress{Lineage: 1}, 3, "a"))
		topics, err := p.Admin(t).ListTopics(t.Context(), made, made+"-progress")
		if err != nil || len(topics[made].Partitions) != 4 || len(topics[made+"-progress"].Partitions) != 1 {
			t.Errorf("made %v, %v", topics, err)
		}
		if _, err := p.Admin(t).DeleteTopics(t.Context(), made, made+"-progress"); err != nil {
			t.Error(err)
		}
	})
}

// TestTooLarge: a message that the topic does not take stops a sink that skips nothing, and is a dead letter of any other.
func TestTooLarge(t *testing.T) {
	c := kafkatest.Shared(t) // the fake takes batches of any size
	p := newPlace(t, c, 1)
	p.topic = c.Topic(t, 1, "max.message.bytes", "20000")
	all := sinktest.Messages(sinks.Progress{Lineage: 1}, 100, "a")
	all[70].Body = []byte(`"` + strings.Repeat("x", 30000) + `"`)
	s := p.sink(t)
	at := put(t, s, open(t, s), all[:60]) // in several batches
	_, err := s.Publish(t.Context(), sinks.Batch{Base: at, Messages: all[60:]})
	stops(t, err, "max.message.bytes")
	if d := cmp.Diff(bodies(all[:60]), p.bodies(t)); d != "" {
		t.Fatalf("(-want +got):\n%s", d)
	}
	apart := p.sink(t, func(c *Config) { c.Guarantee = sinks.AtLeastOnce })
	open(t, apart)
	ack, err := apart.Publish(t.Context(), sinks.Batch{Base: at, Messages: all[60:]})
	if r, ok := errors.AsType[*sinks.RejectedError](err); !ok || r.Sequence != 71 || ack.Published.Sequence != 70 {
		t.Fatalf("%+v, %v, want that message 71 is refused behind 70", ack, err)
	}
}

// TestNew: every mistake at once.
func TestNew(t *testing.T) {
	_, err := New(Config{Job: "a/b", Topic: "no spaces", ProgressTopic: "..", Partitions: 3, TransactionTimeout: time.Hour, Guarantee: sinks.ExactlyOnce})
	for _, says := range []string{"job", "name", `topic "no spaces"`, `progress topic ".."`, "partitions and replicas", "transaction timeout 1h0m0s"} {
		stops(t, err, says)
	}
	_, err = New(Config{Job: "a", Name: "b", Topic: "t", ProgressTopic: "t"})
	stops(t, err, "another one")
	_, err = New(Config{Job: "a", Name: "b", Topic: "t", Guarantee: sinks.AtMostOnce})
	stops(t, err, "at_least_once")
}

// TestAway: a cluster that is not there is waited for.
func TestAway(t *testing.T) {
	c := Config{Job: "a", Name: "b", Topic: "t"}
	c.Cluster.Brokers, c.Cluster.RetryFor = []string{"127.0.0.1:1"}, 50*time.Millisecond
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Open(t.Context()); err == nil || sinks.Permanent(err) {
		t.Errorf("%v, want an error that may pass", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.Open(ctx); err == nil {
		t.Error("opened")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Open(t.Context()); err == nil {
		t.Error("opened after Close")
	}
}
