package sim

import (
	"context"
	"flag"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/kafkasource"
	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/kafkasink"
)

// queueMutant is a promise that the cluster, or what stands between it and the job, breaks.
type queueMutant string

const (
	soundQueue queueMutant = ""
	// liesAboutEnds answers that a transaction was committed, now and then, and aborts it.
	liesAboutEnds queueMutant = "lies about ends"
	// noTransactions sends without them.
	noTransactions queueMutant = "no transactions"
	// losesRecords passes over one in forty.
	losesRecords queueMutant = "loses records"
)

var queueMutants = []queueMutant{liesAboutEnds, noTransactions, losesRecords}

// broker is kfake of three nodes in the memory of a bubble, with a proxy before it that loses what the world draws. Leaders and
// coordinators move, and the network stands still for minutes.
type broker struct {
	t      *testing.T
	world  *world
	fake   *kafkatest.Fake
	proxy  *kafkatest.Proxy
	mutant queueMutant

	mu    sync.Mutex
	conns map[*life][]net.Conn
	made  []io.Closer // sources and sinks: of a life that came to nothing nobody closes them
}

const (
	topicAlerts    = "alerts"
	topicPositions = "positions"
)

// drawTopics draws a scenario whose partitions are those of topics.
func drawTopics(seed uint64) *Scenario {
	s := Draw(seed)
	s.Live = false // what comes of silence depends on moments
	for i := range s.Partitions {
		p := &s.Partitions[i]
		p.Name = p.Stream + "/" + p.Name
	}
	return s
}

// newBroker makes a cluster with the input of a scenario in it.
func newBroker(t *testing.T, s *Scenario, m queueMutant) *broker {
	t.Helper()
	b := &broker{t: t, fake: kafkatest.StartFake(t, kafkatest.FakeOptions{Nodes: 3, Network: new(kfake.VirtualNetwork)}), mutant: m, conns: map[*life][]net.Conn{}}
	c := b.fake.As
	client := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for _, stream := range streams {
		n := 0
		var records []*kgo.Record
		for _, p := range s.Partitions {
			if p.Stream != stream {
				continue
			}
			for _, r := range p.Records {
				records = append(records, &kgo.Record{Topic: stream, Partition: int32(n), Value: r.Data})
			}
			n++
		}
		c.CreateTopic(t, stream, max(n, 1))
		if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	c.CreateTopic(t, topicAlerts, 3)
	c.CreateTopic(t, topicPositions, 1, "cleanup.policy", "compact")
	b.proxy = kafkatest.NewProxy(t, c)
	return b
}

func (b *broker) attach(w *world) {
	b.world = w
	b.proxy.Rule(func(r kafkatest.Request) kafkatest.Fate {
		switch name := kmsg.Key(r.Key).Name(); {
		case w.chance("request "+name, 80):
			w.note("kafka: %s is lost", name)
			return kafkatest.LoseRequest
		case w.chance("answer "+name, 80):
			w.note("kafka: the answer to %s is lost", name)
			return kafkatest.LoseAnswer
		case w.chance("leaders move", 150):
			w.note("kafka: leaders move")
			b.fake.ShufflePartitionLeaders()
		case w.chance("coordinators move", 150):
			w.note("kafka: coordinators move")
			b.fake.RehashCoordinators()
		case w.chance("network", 300):
			d := time.Duration(w.draw("network time", 30)) * time.Second
			w.note("kafka: the network stands still for %s", d)
			b.proxy.Hold(true)
			time.AfterFunc(d, func() { b.proxy.Hold(false) })
		}
		return kafkatest.Pass
	})
	if b.mutant == liesAboutEnds {
		b.fake.ControlKey(kmsg.EndTxn.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // the order is kfake's
			b.fake.KeepControl()
			if r, ok := kreq.(*kmsg.EndTxnRequest); ok && w.draw("lie", 5) == 0 {
				r.Commit = false
			}
			return nil, nil, false
		})
	}
}

func (b *broker) calm() {
	b.proxy.Rule(nil)
	b.proxy.Hold(false)
}

// config leads a life to the cluster. A process that is dead has no connections, and makes none.
func (b *broker) config(l *life) kafkawire.Config {
	return kafkawire.Config{
		Brokers: b.proxy.Addresses,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := b.fake.As.Dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			b.mu.Lock()
			b.conns[l] = append(b.conns[l], conn)
			b.mu.Unlock()
			if l.dead() {
				_ = conn.Close()
				return nil, errDead
			}
			return conn, nil
		},
	}
}

// cut is called by the life while it dies.
func (b *broker) cut(l *life) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns[l] {
		_ = c.Close()
	}
	delete(b.conns, l)
}

func (b *broker) source(l *life, stream string, parts *source.Partitions) (source.Source, error) {
	src, err := kafkasource.New(kafkasource.Config{
		Stream: stream, Partitions: parts, Kafka: b.config(l), Topics: []string{stream}, Group: "sim", Finite: true,
		Fetch: kafkawire.FetcherConfig{MaxWait: 10 * time.Second, PartitionBytes: int32(1 + b.world.draw("fetch", 2000))},
	})
	if err != nil {
		return nil, err
	}
	b.keep(src)
	if b.mutant == losesRecords {
		return &lossy{src, b.world}, nil
	}
	return src, nil
}

func (b *broker) sink(l *life) (sinks.Sink, error) {
	c := kafkasink.Config{Job: "sim", Name: sinkTopic, Cluster: b.config(l), Topic: topicAlerts, ProgressTopic: topicPositions}
	if b.mutant == noTransactions {
		c.Guarantee = sinks.AtLeastOnce
	}
	to, err := kafkasink.New(c)
	if err == nil {
		b.keep(to)
	}
	return to, err
}

func (b *broker) keep(c io.Closer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made = append(b.made, c)
}

// close ends what is left.
func (b *broker) close() {
	for _, c := range b.made {
		_ = c.Close()
	}
}

// messages are those that a witness is given, once no transaction is open. While one is, kfake answers a reader at once, and time
// does not pass.
func (b *broker) messages() []sinks.Message {
	c := b.fake.As
	c.Settled(b.t, topicPositions)
	c.Settled(b.t, topicAlerts)
	w := kafkatest.NewWitness(b.t, c, topicAlerts)
	w.Settle(b.t)
	var l []sinks.Message
	for _, r := range w.Records(topicAlerts) {
		l = append(l, sinks.Message{Body: r.Value})
	}
	return l
}

// lossy is a source whose readers lose records.
type lossy struct {
	source.Source
	world *world
}

// Watch implements [source.Source].
func (s *lossy) Watch(ctx context.Context, known []string, d source.Discovery) error {
	return s.Source.Watch(ctx, known, &losing{d, s.world})
}

type losing struct {
	source.Discovery
	world *world
}

// Found implements [source.Discovery].
func (l *losing) Found(r source.Reader) { l.Discovery.Found(&loser{r, l.world}) }

type loser struct {
	source.Reader
	world *world
}

// Next implements [source.Reader].
func (l *loser) Next(ctx context.Context) (source.Record, error) {
	if l.world.draw("lose", 40) == 0 {
		if _, err := l.Reader.Next(ctx); err != nil {
			return source.Record{}, err
		}
	}
	return l.Reader.Next(ctx)
}

// playTopics runs a seed from topics to a topic.
func playTopics(t *testing.T, seed uint64, m queueMutant) (out outcome, err error) {
	synctest.Test(t, func(t *testing.T) {
		s := drawTopics(seed)
		b := newBroker(t, s, m)
		out, err = run(t.Context(), s, Options{queue: b})
		b.close()
	})
	return out, err
}

// topics is 200 in every run of the tests: a seed takes half as long again as one of TestSeeds, since three clients and a
// proxy speak a real protocol for hours of simulated time.
var topics = flag.Int("topics", 200, "how many seeds TestTopics runs")

// TestTopics runs jobs from topics to a topic, against a cluster that breaks. 200 seeds take some ten seconds.
func TestTopics(t *testing.T) {
	total := playAll(t, *topics, "-topics", func(t *testing.T, seed uint64) (outcome, error) { return playTopics(t, seed, soundQueue) })
	t.Logf("%d seeds: %d lives, %d killed, %d woke up as zombies, %d found their newest epoch damaged; %d alerts to a topic, each once, in order",
		*topics**times, total.lives, total.kills, total.zombies, total.damages, total.alerts)
}

// TestTopicMutants breaks one promise at a time.
func TestTopicMutants(t *testing.T) {
	const tries = 100
	for _, m := range queueMutants {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(tries) {
				if _, err := playTopics(t, seed+1, m); err != nil {
					t.Logf("caught by seed %d: %.300s", seed+1, err)
					return
				}
			}
			t.Errorf("not caught by %d seeds", tries)
		})
	}
}
