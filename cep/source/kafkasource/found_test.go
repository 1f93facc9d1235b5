package kafkasource_test

import (
	"context"
	"crypto/tls"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cepd/cepd/cep/source/kafkasource"
	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// inBubble runs a test with a fake by the clock of testing/synctest.
func inBubble(t *testing.T, f func(t *testing.T, c *kafkatest.Cluster)) {
	synctest.Test(t, func(t *testing.T) {
		f(t, kafkatest.StartFake(t, kafkatest.FakeOptions{Network: new(kfake.VirtualNetwork)}).As)
	})
}

// New partitions and topics are found while others are read, and read from their beginning.
func TestFoundLater(t *testing.T) {
	inBubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		c.CreateTopic(t, "a.1", 1)
		w := watch(t, c, kafkasource.Config{Pattern: `a\..*`})
		if d := cmp.Diff([]string{"a.1/0"}, w.names()); d != "" {
			t.Errorf("partitions at first (-want +got):\n%s", d)
		}
		began := time.Now()
		if _, err := c.Admin(t).CreatePartitions(t.Context(), 2, "a.1"); err != nil {
			t.Fatal(err)
		}
		client := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		write(t, client, &kgo.Record{Topic: "a.1", Partition: 2, Value: []byte("early")})
		if d := cmp.Diff([]string{"early"}, values(t, w.reader("a.1/2"), 1)); d != "" {
			t.Errorf("a partition that was added (-want +got):\n%s", d)
		}
		if took := time.Since(began); took > 2*time.Second+100*time.Millisecond { // docs/kafka.md says two seconds
			t.Errorf("a partition was found after %v", took)
		}
		c.CreateTopic(t, "a.2", 1)
		write(t, client, &kgo.Record{Topic: "a.2", Value: []byte("first")})
		if d := cmp.Diff([]string{"first"}, values(t, w.reader("a.2/0"), 1)); d != "" {
			t.Errorf("a topic that was made (-want +got):\n%s", d)
		}
		time.Sleep(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if d := cmp.Diff([]string{"a.1/1", "a.1/2", "a.2/0"}, w.late); d != "" {
			t.Errorf("found behind Ready (-want +got):\n%s", d)
		}
		if len(w.troubles) > 0 {
			t.Errorf("troubles: %q", w.troubles)
		}
	})
}

// A pattern that no topic matches is trouble until one does, and the end where nothing is waited for.
func TestNothingOfAPattern(t *testing.T) {
	inBubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		c.CreateTopic(t, "orders", 1)
		w := watch(t, c, kafkasource.Config{Pattern: `order`})
		if got := w.names(); len(got) > 0 {
			t.Errorf("found %q", got)
		}
		w.until("trouble", func() bool { return len(w.troubles) > 0 })
		if w.troubles[0] != `no topic matches "order", as a whole` {
			t.Errorf("trouble: %s", w.troubles[0])
		}
		c.CreateTopic(t, "order", 1)
		w.reader("order/0")
		w.until("the end of the trouble", func() bool { return w.troubles[len(w.troubles)-1] == "" })
		if err := watch(t, c, kafkasource.Config{Pattern: `rde`, Finite: true}).failure(); err == nil || !strings.Contains(err.Error(), "no topic matches") {
			t.Errorf("no topic, and no waiting: %v", err)
		}
	})
}

// A partition, or the whole topic, that is missing from some answers is not at its end, nor is it found again.
func TestMissingFromAnAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		c.CreateTopic(t, "t", 2)
		detail, err := c.Admin(t).ListTopics(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		var partitions, asked atomic.Int32
		partitions.Store(2)
		fake := c.Fake
		fake.ControlKey(kmsg.Metadata.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
			fake.KeepControl()
			n := partitions.Load()
			if r.GetVersion() != 12 || n == 2 { // 12 is what we ask for ourselves
				return nil, nil, false
			}
			asked.Add(1)
			answer := r.ResponseKind().(*kmsg.MetadataResponse)
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.TopicID = new("t"), detail["t"].ID
			if n == 0 {
				topic.ErrorCode = 3
			}
			for i := range n {
				p := kmsg.NewMetadataResponseTopicPartition()
				p.Partition, p.Leader, p.LeaderEpoch = i, detail["t"].Partitions[i].Leader, detail["t"].Partitions[i].LeaderEpoch
				topic.Partitions = append(topic.Partitions, p)
			}
			answer.Topics = append(answer.Topics, topic)
			return answer, nil, true
		})
		client := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		w := watch(t, c, kafkasource.Config{Topics: []string{"t"}})
		one := w.reader("t/1")
		write(t, client, &kgo.Record{Topic: "t", Partition: 1, Value: []byte("before")})
		values(t, one, 1)
		for _, n := range []int32{1, 0} {
			partitions.Store(n)
			time.Sleep(time.Minute)
			partitions.Store(2)
			write(t, client, &kgo.Record{Topic: "t", Partition: 1, Value: []byte("behind")})
			if d := cmp.Diff([]string{"behind"}, values(t, one, 1)); d != "" {
				t.Errorf("behind answers with %d partitions (-want +got):\n%s", n, d)
			}
		}
		if asked.Load() < 2 {
			t.Fatal("nobody was told that anything is missing")
		}
		time.Sleep(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.readers) != 2 || len(w.late) > 0 {
			t.Errorf("found %d, %q of them later", len(w.readers), w.late)
		}
		if n := len(w.troubles); n == 0 || w.troubles[n-1] != "" {
			t.Errorf("troubles: %q", w.troubles)
		}
	})
}

// A broker that is away is trouble, which ends by itself. To start a broker and start it again takes nearly all of the time of
// this package.
func TestBrokerAway(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kafkatest.Options{})
	topic := c.Topic(t, 1)
	client := c.Client(t)
	write(t, client, &kgo.Record{Topic: topic, Value: []byte("before")})
	w := watch(t, c, kafkasource.Config{Topics: []string{topic}})
	r := w.reader(topic + "/0")
	values(t, r, 1)
	c.Broker.Kill()
	w.until("trouble", func() bool { return len(w.troubles) > 0 })
	if text := w.troubles[0]; !strings.Contains(text, topic) {
		t.Errorf("trouble: %s", text)
	}
	if !r.Severed() {
		t.Error("the partition of a broker that is away is not severed")
	}
	c.Broker.Restart(t)
	write(t, client, &kgo.Record{Topic: topic, Value: []byte("behind")})
	back := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	rec, err := r.Next(ctx)
	if err != nil || string(rec.Data) != "behind" {
		t.Fatalf("%q, %v", rec.Data, err)
	}
	t.Logf("read on %v after the broker had taken a record", time.Since(back).Round(time.Millisecond))
	if r.Severed() {
		t.Error("it is severed although it has been read")
	}
	w.until("the end of the trouble", func() bool { return w.troubles[len(w.troubles)-1] == "" })
}

// What is wrong with the way in is the end before anything was found.
func TestWrongWayIn(t *testing.T) {
	t.Parallel()
	c := kafkatest.Shared(t)
	for _, e := range c.Endpoints {
		as := *c
		as.Addresses = e.Addresses
		config := kafkasource.Config{Topics: []string{"t"}}
		switch e.Name {
		case "sasl-plain":
			config.Kafka.SASL = &kafkawire.SASL{Mechanism: kafkawire.Plain, User: e.User, Password: "wrong"}
			if err := watch(t, &as, config).failure(); err == nil || !strings.Contains(err.Error(), "wrong user or password") {
				t.Errorf("a wrong password: %v", err)
			}
		case "tls":
			config.Kafka.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
			if err := watch(t, &as, config).failure(); err == nil || !strings.Contains(err.Error(), "nobody we trust") {
				t.Errorf("a certificate of an unknown authority: %v", err)
			}
		default:
		}
	}
}
