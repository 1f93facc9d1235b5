package kafkawire_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// stage is a topic to write to, one for positions, and a transactional id.
type stage struct {
	c        *kafkatest.Cluster
	client   *kafkawire.Client
	out      kafkawire.Topic
	progress kafkawire.Topic
	id       string
}

func newStage(t testing.TB, c *kafkatest.Cluster, partitions int) *stage {
	t.Helper()
	client := newClient(t, c)
	return &stage{
		c: c, client: client, out: topic(t, c, client, partitions),
		progress: topic(t, c, client, 1, "cleanup.policy", "compact"), id: kafkatest.Unique("job/sink"),
	}
}

func (s *stage) producer(t testing.TB, client *kafkawire.Client) *kafkawire.Producer {
	t.Helper()
	p, err := client.NewProducer(kafkawire.ProducerConfig{ID: s.id, Progress: s.progress, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *stage) batch(partition int32, values ...string) kafkawire.PartitionBatch {
	b := kafkawire.PartitionBatch{Topic: s.out, Partition: partition}
	for _, v := range values {
		b.Records = append(b.Records, kafkawire.Record{Key: []byte("k"), Value: []byte(v), Headers: []kafkawire.Header{{Key: "ce_id", Value: []byte(v)}}})
	}
	return b
}

var kills = flag.Int("kills", 0, "how often TestBrokerOfItsOwn kills its broker in the middle of a transaction, in each version")

// TestTransactions runs in both versions of transactions on the fake, and in version 2 on the broker that tests share.
func TestTransactions(t *testing.T) {
	for version := 1; version <= 2; version++ {
		t.Run(fmt.Sprintf("kfake v%d", version), func(t *testing.T) {
			testTransactions(t, kafkatest.StartFake(t, kafkatest.FakeOptions{TransactionVersion: version}).As, version)
		})
	}
	t.Run("kafka v2", func(t *testing.T) { testTransactions(t, kafkatest.Shared(t), 2) })
}

func testTransactions(t *testing.T, c *kafkatest.Cluster, version int) {
	t.Run("write", func(t *testing.T) { testWriting(t, c, version) })
	t.Run("take over", func(t *testing.T) { testTakeOver(t, c) })
	t.Run("cuts", func(t *testing.T) { testCuts(t, c, version) })
}

// TestBrokerOfItsOwn has a broker that it may kill, which begins with version 1 and is told to have version 2 while a producer
// is open. It takes ten seconds, most of them for two starts; each of -kills takes five more.
func TestBrokerOfItsOwn(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kafkatest.Options{TransactionVersion: 1})
	testTransactions(t, c, 1)
	for range *kills {
		t.Run("kill v1", func(t *testing.T) { testKill(t, c) })
	}
	t.Run("hanging v1", func(t *testing.T) { testHanging(t, c) })
	t.Run("change", func(t *testing.T) { testChange(t, c) })
	t.Run("hanging v2", func(t *testing.T) { testHanging(t, c) })
	for range *kills {
		t.Run("kill v2", func(t *testing.T) { testKill(t, c) })
	}
	t.Run("false fence", func(t *testing.T) { testFalseFence(t, c) })
}

// The cluster gets another version while a producer is open. It goes on with the one that it has, which the cluster still
// speaks, and takes the new one when it recovers.
func testChange(t *testing.T, c *kafkatest.Cluster) {
	s := newStage(t, c, 2)
	o := newOutbox(t, s, s.client)
	o.write(t, 2)
	if o.p.Version() != 1 {
		t.Errorf("version %d before the change", o.p.Version())
	}
	c.Finalize(t, "transaction.version", 2)
	o.write(t, 4)
	kafkatest.WaitFor(t, "version 2", func() bool {
		o.settle(t, o.p.Recover)
		return o.p.Version() == 2
	})
	o.write(t, 6)
	o.verify(t)
}

func testWriting(t *testing.T, c *kafkatest.Cluster, version int) {
	s := newStage(t, c, 2)
	p := s.producer(t, s.client)
	if err := p.Transact(t.Context(), nil, nil); !errors.Is(err, kafkawire.ErrUnsettled) {
		t.Errorf("before Open: %v", err)
	}
	at, err := p.Open(t.Context())
	if err != nil || at != nil {
		t.Fatalf("opened at %q, %v", at, err)
	}
	if p.Version() != version {
		t.Fatalf("transactions of version %d, want %d", p.Version(), version)
	}
	for i := range 5 {
		n := fmt.Sprint(i)
		err := p.Transact(t.Context(), []byte("at "+n), []kafkawire.PartitionBatch{s.batch(0, n+"a", n+"b"), s.batch(1, n+"c"), s.batch(0, n+"d")})
		if err != nil {
			t.Fatal(err)
		}
	}
	// An empty one verifies.
	if err := p.Transact(t.Context(), []byte("at the end"), nil); err != nil {
		t.Fatal(err)
	}
	got := values(same(t, c, s.client, s.out, 0))
	want := []string{"0a", "0b", "0d", "1a", "1b", "1d", "2a", "2b", "2d", "3a", "3b", "3d", "4a", "4b", "4d"}
	if !slices.Equal(got, want) {
		t.Errorf("partition 0 has %v, want %v", got, want)
	}
	if got := values(same(t, c, s.client, s.out, 1)); !slices.Equal(got, []string{"0c", "1c", "2c", "3c", "4c"}) {
		t.Errorf("partition 1 has %v", got)
	}
	at, err = p.Recover(t.Context())
	if err != nil || string(at) != "at the end" {
		t.Errorf("recovered at %q, %v", at, err)
	}
	next := s.producer(t, newClient(t, c))
	at, err = next.Open(t.Context())
	if err != nil || string(at) != "at the end" {
		t.Errorf("the next instance is at %q, %v", at, err)
	}
	value, token, err := s.client.Progress(t.Context(), s.progress, 0, s.id)
	if err != nil || string(value) != "at the end" || len(token) != 16 {
		t.Errorf("a bystander finds %q by %q, %v", value, token, err)
	}
}

// The time of records is the wall clock: the time of an event in the past would roll segments, and have retention delete them.
func TestRecordTime(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		s := newStage(t, c, 1)
		p := s.producer(t, s.client)
		if _, err := p.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := time.Now().UnixMilli()
		b := s.batch(0, "x")
		b.Records[0].Time = 1
		if err := p.Transact(t.Context(), nil, []kafkawire.PartitionBatch{b}); err != nil {
			t.Fatal(err)
		}
		kc := c.Client(t, kgo.ConsumeTopics(s.out.Name))
		for _, r := range kc.PollFetches(t.Context()).Records() {
			if ms := r.Timestamp.UnixMilli(); ms < before || ms > time.Now().UnixMilli() {
				t.Errorf("time %v", r.Timestamp)
			}
			if len(r.Headers) != 1 || r.Headers[0].Key != "ce_id" || string(r.Headers[0].Value) != "x" {
				t.Errorf("headers %v", r.Headers)
			}
		}
	})
}

// A second instance takes over, at each moment; the first one is told who it was, and changes nothing.
func testTakeOver(t *testing.T, c *kafkatest.Cluster) {
	s := newStage(t, c, 1)
	a, b := s.producer(t, s.client), s.producer(t, newClient(t, c))
	if _, err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Transact(t.Context(), []byte("1"), []kafkawire.PartitionBatch{s.batch(0, "a1")}); err != nil {
		t.Fatal(err)
	}
	at, err := b.Open(t.Context())
	if err != nil || string(at) != "1" {
		t.Fatalf("b opened at %q, %v", at, err)
	}
	if err := a.Transact(t.Context(), []byte("2"), []kafkawire.PartitionBatch{s.batch(0, "zombie")}); err == nil {
		t.Error("a wrote though b has taken over")
	}
	_, err = a.Recover(t.Context())
	fenced, ok := errors.AsType[*kafkawire.FencedError](err)
	if !ok || fenced.ID != s.id || fenced.Owner == "" || fenced.Owner == fenced.Ours || !strings.Contains(err.Error(), "another instance") {
		t.Fatalf("a recovers with %v", err)
	}
	if err := a.Transact(t.Context(), []byte("2"), nil); !errors.Is(err, kafkawire.ErrUnsettled) {
		t.Errorf("a goes on: %v", err)
	}
	for i := range 3 {
		err := b.Transact(t.Context(), []byte("b"), []kafkawire.PartitionBatch{s.batch(0, fmt.Sprint("b", i))})
		if err != nil { // What the zombie did may cost the owner a transaction, and no more.
			at, rerr := b.Recover(t.Context())
			if rerr != nil {
				t.Fatalf("the owner was disturbed: %v, %v", err, rerr)
			}
			if i == 0 && string(at) == "1" || i > 0 && string(at) == "b" {
				if err := b.Transact(t.Context(), []byte("b"), []kafkawire.PartitionBatch{s.batch(0, fmt.Sprint("b", i))}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if got := values(same(t, c, s.client, s.out, 0)); !slices.Equal(got, []string{"a1", "b0", "b1", "b2"}) {
		t.Errorf("the topic has %v", got)
	}
}

// outbox writes numbered transactions, each once whatever happens: the exactly-once sink in small.
type outbox struct {
	*stage
	p      *kafkawire.Producer
	n      int
	errors map[string]int
}

func newOutbox(t *testing.T, s *stage, client *kafkawire.Client) *outbox {
	t.Helper()
	o := &outbox{stage: s, p: s.producer(t, client), errors: map[string]int{}}
	o.settle(t, o.p.Open)
	return o
}

// settle asks for the position until there is an answer.
func (o *outbox) settle(t *testing.T, ask func(context.Context) ([]byte, error)) {
	t.Helper()
	var last error
	defer func() {
		if t.Failed() {
			t.Logf("the last error: %v", last)
		}
	}()
	kafkatest.WaitFor(t, "the position", func() bool {
		at, err := ask(t.Context())
		last = err
		if err != nil {
			if !kafkawire.Retriable(err) {
				t.Fatalf("recover at %d: %v", o.n, err)
			}
			return false
		}
		o.n = 0
		if at != nil {
			if _, err := fmt.Sscan(string(at), &o.n); err != nil {
				t.Fatal(err)
			}
		}
		return true
	})
}

// write goes on to n transactions.
func (o *outbox) write(t *testing.T, n int) {
	t.Helper()
	for o.n < n {
		values := []string{fmt.Sprint(o.n, "a"), fmt.Sprint(o.n, "b")}
		if err := o.p.Transact(t.Context(), []byte(fmt.Sprint(o.n+1)), []kafkawire.PartitionBatch{o.batch(0, values...), o.batch(1, values...)}); err != nil {
			o.errors[err.Error()]++
			o.settle(t, o.p.Recover)
			continue
		}
		o.n++
	}
}

// verify holds both partitions against what was written.
func (o *outbox) verify(t *testing.T) {
	t.Helper()
	var want []string
	for i := range o.n {
		want = append(want, fmt.Sprint(i, "a"), fmt.Sprint(i, "b"))
	}
	for partition := range int32(2) {
		if got := values(same(t, o.c, o.client, o.out, partition)); !slices.Equal(got, want) {
			t.Errorf("partition %d has %v, want %v; errors on the way: %v", partition, got, want, o.errors)
		}
	}
}

// Every request of a transaction is lost before it arrives, and after it was answered.
func testCuts(t *testing.T, c *kafkatest.Cluster, version int) {
	proxy := kafkatest.NewProxy(t, c)
	s := newStage(t, c, 2)
	o := newOutbox(t, s, newClient(t, proxy.Cluster()))
	keys := []kmsg.Key{kmsg.Produce, kmsg.EndTxn, kmsg.InitProducerID, kmsg.FindCoordinator, kmsg.ListOffsets, kmsg.Fetch}
	if version == 1 {
		keys = append(keys, kmsg.AddPartitionsToTxn)
	}
	for _, key := range keys {
		for _, fate := range []kafkatest.Fate{kafkatest.LoseRequest, kafkatest.LoseAnswer} {
			for range 3 {
				hit := proxy.Once(key, fate)
				o.write(t, o.n+1)
				if !hit() { // Of what only a recovery asks.
					o.settle(t, o.p.Recover)
				}
				if !hit() && key != kmsg.FindCoordinator {
					t.Errorf("%s was not asked", key.Name())
				}
			}
		}
	}
	proxy.Rule(nil)
	o.write(t, o.n+1)
	o.verify(t)
}

// The broker is killed in the middle, and loses markers that are on their way: see "What a broker may lose" in
// docs/kafka-protocol.md.
func testKill(t *testing.T, c *kafkatest.Cluster) {
	s := newStage(t, c, 2)
	o := newOutbox(t, s, s.client)
	o.write(t, o.n+3)
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		c.Broker.Kill()
	}()
	// These are under way when it dies.
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	for ctx.Err() == nil {
		n := fmt.Sprint(o.n)
		if err := o.p.Transact(ctx, []byte(fmt.Sprint(o.n+1)), []kafkawire.PartitionBatch{o.batch(0, n+"a", n+"b"), o.batch(1, n+"a", n+"b")}); err != nil {
			break
		}
		o.n++
	}
	<-killed
	if err := c.Broker.Launch(); err != nil {
		t.Fatal(err)
	}
	o.settle(t, o.p.Recover)
	o.write(t, o.n+3)
	o.verify(t)
}

// The answer to InitProducerID is lost, and the coordinator restarts: it knows the epoch before no more and says that we are
// fenced, though nobody else was there.
func testFalseFence(t *testing.T, c *kafkatest.Cluster) {
	proxy := kafkatest.NewProxy(t, c)
	s := newStage(t, c, 2)
	var log bytes.Buffer // written to by the producer's goroutine, which is the test's
	client := newClient(t, proxy.Cluster(), func(c *kafkawire.Config) {
		c.RetryFor = time.Nanosecond // the lost answer is not asked for again
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	o := newOutbox(t, s, client)
	o.write(t, 2)
	settled(t, s.client, s.out, 0)
	settled(t, s.client, s.progress, 0)
	hit := proxy.Once(kmsg.InitProducerID, kafkatest.LoseAnswer)
	if _, err := o.p.Recover(t.Context()); err == nil || !hit() {
		t.Fatalf("the answer was not lost: %v", err)
	}
	proxy.Rule(nil)
	c.Broker.Kill()
	if err := c.Broker.Launch(); err != nil {
		t.Fatal(err)
	}
	o.settle(t, o.p.Recover)
	if !strings.Contains(log.String(), "fenced by nobody") {
		t.Error("the coordinator did not refuse its owner: the case was not met")
	}
	o.write(t, 4)
	o.verify(t)
}

// The same on the fake, which forgets nothing: its refusal is put there. An instance that is told so finds its own token.
func TestRefusedByNobody(t *testing.T) {
	fake := kafkatest.StartFake(t, kafkatest.FakeOptions{})
	s := newStage(t, fake.As, 2)
	o := newOutbox(t, s, s.client)
	o.write(t, 2)
	refused := 0
	fake.ControlKey(kmsg.InitProducerID.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req, ok := kreq.(*kmsg.InitProducerIDRequest)
		if !ok || req.ProducerID < 0 {
			fake.KeepControl()
			return nil, nil, false
		}
		refused++
		answer := kmsg.NewPtrInitProducerIDResponse()
		answer.Version, answer.ErrorCode = req.Version, kerr.ProducerFenced.Code
		return answer, nil, true
	})
	o.settle(t, o.p.Recover)
	if refused != 1 {
		t.Errorf("refused %d times", refused)
	}
	o.write(t, 4)
	o.verify(t)
}

// Records are cut into batches, and one that the topic does not take is named.
func TestLargeRecords(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		s := newStage(t, c, 1)
		p, err := s.client.NewProducer(kafkawire.ProducerConfig{ID: s.id, Progress: s.progress, BatchBytes: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := kafkawire.PartitionBatch{Topic: s.out}
		for i := range 60 {
			b.Records = append(b.Records, kafkawire.Record{Value: []byte(fmt.Sprintf("%03d%s", i, strings.Repeat("x", i*100)))})
		}
		if err := p.Transact(t.Context(), []byte("1"), []kafkawire.PartitionBatch{b}); err != nil {
			t.Fatal(err)
		}
		got := values(same(t, c, s.client, s.out, 0))
		if len(got) != len(b.Records) {
			t.Fatalf("%d records", len(got))
		}
		for i, v := range got {
			if !strings.HasPrefix(v, fmt.Sprintf("%03d", i)) {
				t.Errorf("record %d is %q", i, v)
			}
		}
		err = p.Transact(t.Context(), []byte("2"), []kafkawire.PartitionBatch{s.batch(0, "before", strings.Repeat("x", 2<<20))})
		if !errors.Is(err, kafkawire.CodeMessageTooLarge) || !strings.Contains(err.Error(), s.out.Name) {
			t.Errorf("2 MiB: %v", err)
		}
		at, err := p.Recover(t.Context())
		if err != nil || string(at) != "1" {
			t.Errorf("recovered at %q, %v", at, err)
		}
		if err := p.Transact(t.Context(), []byte("2"), []kafkawire.PartitionBatch{s.batch(0, "after")}); err != nil {
			t.Error(err)
		}
		if got := values(same(t, c, s.client, s.out, 0)); got[len(got)-1] != "5:after" && got[len(got)-1] != "after" || len(got) != 61 {
			t.Errorf("%d records, the last %q", len(got), got[len(got)-1])
		}
	})
}

func TestTransactionTimeout(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		s := newStage(t, c, 1)
		p, err := s.client.NewProducer(kafkawire.ProducerConfig{ID: s.id, Progress: s.progress, Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Open(t.Context()); !errors.Is(err, kafkawire.CodeInvalidTxnTimeout) || !strings.Contains(err.Error(), "transaction.max.timeout.ms") {
			t.Errorf("a timeout of an hour: %v", err)
		}
	})
}

func TestWrite(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		s := newStage(t, c, 2)
		if err := s.client.Write(t.Context(), []kafkawire.PartitionBatch{s.batch(0, "a", "b"), s.batch(1, "c")}); err != nil {
			t.Fatal(err)
		}
		if got := values(same(t, c, s.client, s.out, 0)); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("partition 0 has %v", got)
		}
		if got := values(same(t, c, s.client, s.out, 1)); !slices.Equal(got, []string{"c"}) {
			t.Errorf("partition 1 has %v", got)
		}
	})
}

// Two ids share the topic of positions, and each finds its own.
func TestSharedProgress(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		s := newStage(t, c, 1)
		for round := range 2 {
			for i := range 3 {
				p, err := s.client.NewProducer(kafkawire.ProducerConfig{ID: fmt.Sprint(s.id, i), Progress: s.progress})
				if err != nil {
					t.Fatal(err)
				}
				at, err := p.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if want := fmt.Sprint("position ", i); round > 0 && string(at) != want || round == 0 && at != nil {
					t.Errorf("round %d: id %d is at %q", round, i, at)
				}
				if err := p.Transact(t.Context(), []byte(fmt.Sprint("position ", i)), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A context that ends leaves the transaction unsettled, but not open, and the next call with another one recovers.
func TestCancelledTransaction(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		proxy := kafkatest.NewProxy(t, c)
		s := newStage(t, c, 1)
		p := s.producer(t, newClient(t, proxy.Cluster()))
		if _, err := p.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{}
		for i, key := range []kmsg.Key{kmsg.Metadata, kmsg.Produce, kmsg.EndTxn} { // before anything, with records there, at its end
			ctx, cancel := context.WithCancel(t.Context())
			proxy.Rule(func(r kafkatest.Request) kafkatest.Fate {
				if r.Key == key.Int16() && r.Count == 1 {
					cancel()
				}
				return kafkatest.Pass
			})
			if key == kmsg.Metadata {
				cancel()
			}
			value := fmt.Sprint("x", i)
			err := p.Transact(ctx, []byte(value), []kafkawire.PartitionBatch{s.batch(0, value)})
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			cancel()
			proxy.Rule(nil)
			for _, top := range []kafkawire.Topic{s.out, s.progress} {
				began := time.Now()
				settled(t, s.client, top, 0)
				if d := time.Since(began); d > 10*time.Second {
					t.Errorf("%s was open for %v: until its time-out", top.Name, d)
				}
			}
			at, err := p.Recover(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if string(at) == value {
				want = append(want, value)
			}
			if err := p.Transact(t.Context(), []byte("y"), []kafkawire.PartitionBatch{s.batch(0, fmt.Sprint("y", i))}); err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprint("y", i))
		}
		if got := values(same(t, c, s.client, s.out, 0)); !slices.Equal(got, want) {
			t.Errorf("the topic has %v, want %v", got, want)
		}
	})
}
