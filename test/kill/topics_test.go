//go:build unix

package kill

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// queue is a cluster with the input of a workload in it: a topic for each stream, a partition for each file.
type queue struct {
	*workload
	cluster *kafkatest.Cluster
	topics  map[string]string // by stream
}

// inTopics puts a workload's files into topics, and finds out anew what has to come of them: positions are offsets there.
func (w *workload) inTopics(t testing.TB, c *kafkatest.Cluster) *queue {
	t.Helper()
	q := &queue{workload: w, cluster: c, topics: map[string]string{}}
	client := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	*w = workload{dir: w.dir, alerts: map[lane][]string{}, refused: map[string]int{}, plain: w.plain}
	for _, stream := range streams {
		files, err := filepath.Glob(filepath.Join(w.dir, stream, "*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		topic := c.Topic(t, len(files))
		q.topics[stream] = topic
		var records []*kgo.Record
		for n, name := range files {
			for _, line := range linesOf(t, name) {
				records = append(records, &kgo.Record{Topic: topic, Partition: int32(n), Value: line})
			}
		}
		if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	w.goldenOf(t, func(stream string, parts *source.Partitions) []source.Reader {
		files, err := filepath.Glob(filepath.Join(w.dir, stream, "*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		var readers []source.Reader
		for n, name := range files {
			readers = append(readers, &listed{id: parts.Get(stream, fmt.Sprintf("%s/%d", q.topics[stream], n)), lines: linesOf(t, name)})
		}
		return readers
	})
	return q
}

func linesOf(t testing.TB, name string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
}

// listed reads lines, whose offsets are their numbers as in a topic without transactions.
type listed struct {
	id    *cep.Partition
	lines [][]byte
	next  int64
}

// Partition implements [source.Reader].
func (l *listed) Partition() *cep.Partition { return l.id }

// Name implements [source.Reader].
func (l *listed) Name() string { return l.id.Stream + "/" + l.id.Name }

// Format implements [source.Reader].
func (l *listed) Format() source.Format { return source.Format{} }

// Next implements [source.Reader].
func (l *listed) Next(context.Context) (source.Record, error) {
	if l.next == int64(len(l.lines)) {
		return source.Record{}, io.EOF
	}
	l.next++
	return source.Record{Data: l.lines[l.next-1], Offset: l.next - 1}, nil
}

// SeekTo implements [source.Reader].
func (l *listed) SeekTo(offset int64) error {
	l.next = offset
	return nil
}

// Progress implements [source.Reader].
func (l *listed) Progress() (read, total int64) { return l.next, int64(len(l.lines)) }

// Close implements [source.Reader].
func (l *listed) Close() error { return nil }

// topicSite is a job from topics to topics, whose output somebody reads all the time.
type topicSite struct {
	*site
	queue                      *queue
	alerts, letters, positions string // topics
	witness                    *kafkatest.Witness
}

// newTopicSite makes one, with changes to its configuration.
func newTopicSite(t testing.TB, q *queue, name string, changes ...string) *topicSite {
	t.Helper()
	s := &topicSite{site: &site{workload: q.workload, t: t, name: filepath.Join(t.TempDir(), name)}, queue: q}
	if err := os.MkdirAll(s.name, 0o755); err != nil {
		t.Fatal(err)
	}
	c := q.cluster
	s.alerts, s.letters, s.positions = c.Topic(t, 3), c.Topic(t, 1), c.Topic(t, 1, "cleanup.policy", "compact")
	s.witness = kafkatest.NewWitness(t, c, s.alerts, s.letters)
	s.configure(changes...)
	return s
}

// id is the transactional id of the job's sink, and group the name of its group.
func (s *topicSite) id() string    { return s.job() + "/bus" }
func (s *topicSite) group() string { return s.job() }
func (s *topicSite) job() string   { return "job-" + s.alerts }

// configure writes the configuration, with changes to it: pairs of what is replaced by what.
func (s *topicSite) configure(changes ...string) {
	s.t.Helper()
	text := fmt.Sprintf(`version: 1
job: %s
rules: [%s/rules]
streams:
  auth: {source: {kafka: {brokers: %[3]q, topics: %[4]s, group: %[1]s}}, time: "t,unix", lateness: 3s, idle: never, max_ahead: 0s, late: bus}
  web: {source: {kafka: {brokers: %[3]q, topics: %[5]s, group: %[1]s}}, time: "t,unix", lateness: 3s, idle: never, max_ahead: 0s, late: bus}
sinks:
  bus: {kafka: {brokers: %[3]q, topic: %[6]s, letters_topic: %[7]s, progress_topic: %[8]s, transaction_timeout: 1m}}
dead_letters: bus
checkpoint: {path: %[9]s/state, interval: 20ms}
http: {listen: off}
log: {level: info}
`, s.job(), s.dir, strings.Join(s.queue.cluster.Addresses, ","), s.queue.topics["auth"], s.queue.topics["web"], s.alerts, s.letters, s.positions, s.name)
	text = strings.ReplaceAll(text, `brokers: "`+strings.Join(s.queue.cluster.Addresses, ",")+`"`, "brokers: ["+strings.Join(s.queue.cluster.Addresses, ", ")+"]")
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			s.t.Fatalf("the configuration has no %q", changes[i])
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	if err := os.WriteFile(filepath.Join(s.name, "cepd.yaml"), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// finish runs the job to its end and compares.
func (s *topicSite) finish() {
	s.t.Helper()
	p := s.start("", "--once")
	if _, err := p.wait(); err != nil {
		s.t.Fatalf("a run that nobody disturbs: %v\n%s", err, p.logged())
	}
	s.check()
}

// check compares what the witness has seen: all alerts and letters, in order, each once, without a gap in their sequence. No
// transaction is open, in the topic of positions neither.
func (s *topicSite) check() {
	s.t.Helper()
	s.witness.Settle(s.t, s.positions)
	switch state := s.queue.cluster.Transaction(s.t, s.id()); state {
	case "Empty", "CompleteCommit", "CompleteAbort":
	default:
		s.t.Errorf("the transaction of %s is in state %s", s.id(), state)
	}
	s.checkAlerts("the topic of alerts", bodiesOf(s.witness.Records(s.alerts)))
	if d := s.compareRefused(bodiesOf(s.witness.Records(s.letters))); d != "" {
		s.t.Errorf("the letters: %s", d)
	}
	s.checkSequence()
}

// checkSequence holds the headers against each other: over both topics they count from 1 without a gap, and up in each partition.
func (s *topicSite) checkSequence() {
	s.t.Helper()
	seen := map[int]int{}
	for _, topic := range []string{s.alerts, s.letters} {
		last := map[int32]int{}
		for _, r := range s.witness.Records(topic) {
			lineage, n := 0, 0
			for _, h := range r.Headers {
				if h.Key == "cepd-sequence" {
					if _, err := fmt.Sscanf(string(h.Value), "%d-%d", &lineage, &n); err != nil {
						s.t.Errorf("%s/%d at %d: sequence %q", topic, r.Partition, r.Offset, h.Value)
					}
				}
			}
			if lineage != 1 || n <= last[r.Partition] {
				s.t.Errorf("%s/%d at %d: sequence %d-%d behind %d", topic, r.Partition, r.Offset, lineage, n, last[r.Partition])
			}
			last[r.Partition] = n
			seen[n]++
		}
	}
	for n := 1; n <= len(seen); n++ {
		if seen[n] != 1 {
			s.t.Fatalf("sequence %d is there %d times, of %d", n, seen[n], len(seen))
		}
	}
}

func bodiesOf(records []*kgo.Record) []string {
	var l []string
	for _, r := range records {
		l = append(l, string(r.Value))
	}
	return l
}

// checkGroup holds the offsets of the job's group against the ends of its topics.
func (s *topicSite) checkGroup() {
	s.t.Helper()
	admin := s.queue.cluster.Admin(s.t)
	for _, stream := range streams {
		topic := s.queue.topics[stream]
		ends, err := admin.ListEndOffsets(context.Background(), topic)
		if err != nil {
			s.t.Fatal(err)
		}
		at, err := admin.FetchOffsets(context.Background(), s.group())
		if err != nil {
			s.t.Fatal(err)
		}
		for partition, end := range ends[topic] {
			if o, ok := at.Lookup(topic, partition); !ok || o.At != end.Offset {
				s.t.Errorf("the group %s is at %d of %s/%d, which ends at %d", s.group(), o.At, topic, partition, end.Offset)
			}
		}
	}
}

// pouring writes feeds to topics of a cluster until it is ended. Each record is repeated until it is acknowledged, by the
// idempotent producer of franz-go.
type pouring struct {
	feeds []*feed
	stop  chan struct{}
	done  sync.WaitGroup
	once  sync.Once
}

// newStream makes a job over feeds in topics, and begins to write them: so many events of each stream at a time.
func newStream(t testing.TB, c *kafkatest.Cluster, name string, pause time.Duration, changes ...string) (*topicSite, *pouring) {
	t.Helper()
	w := prepare(t, t.TempDir())
	w.write(t, "rules/rules.yaml", []byte(feedRules))
	w.plain = withoutPlaces
	q := &queue{workload: w, cluster: c, topics: map[string]string{}}
	p := &pouring{stop: make(chan struct{})}
	for _, stream := range streams {
		topic := c.Topic(t, 1)
		q.topics[stream] = topic
		f := newFeed(stream, 0)
		p.feeds = append(p.feeds, f)
		client := c.Client(t, kgo.DefaultProduceTopic(topic), kgo.RecordDeliveryTimeout(lifeMax))
		p.done.Go(func() {
			for {
				select {
				case <-p.stop:
					if err := client.ProduceSync(context.Background(), &kgo.Record{Value: bytes.TrimSpace(f.end())}).FirstErr(); err != nil {
						t.Errorf("write the end: %v", err)
					}
					return
				case <-time.After(pause):
				}
				var records []*kgo.Record
				for range 10 {
					records = append(records, &kgo.Record{Value: bytes.Clone(bytes.TrimSpace(f.next()))})
				}
				if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
					t.Errorf("write: %v", err)
					return
				}
			}
		})
	}
	t.Cleanup(p.end)
	return newTopicSite(t, q, name, changes...), p
}

// end ends the feeds.
func (p *pouring) end() {
	p.once.Do(func() { close(p.stop) })
	p.done.Wait()
}

// finishPoured ends the feeds, works them off, and compares.
func (s *topicSite) finishPoured(p *pouring) {
	s.t.Helper()
	p.end()
	s.ended(s.t, p.feeds...)
	s.finish()
	s.checkGroup()
}
