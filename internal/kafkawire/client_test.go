package kafkawire_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

func TestMain(m *testing.M) { os.Exit(kafkatest.Run(m)) }

func newClient(t testing.TB, c *kafkatest.Cluster, change ...func(*kafkawire.Config)) *kafkawire.Client {
	t.Helper()
	config := kafkawire.Config{Brokers: c.Addresses, Dial: c.Dial, MetadataTTL: 200 * time.Millisecond}
	for _, f := range change {
		f(&config)
	}
	client, err := kafkawire.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// topic makes a topic and waits until the client sees it.
func topic(t testing.TB, c *kafkatest.Cluster, client *kafkawire.Client, partitions int, configs ...string) kafkawire.Topic {
	t.Helper()
	return see(t, client, c.Topic(t, partitions, configs...))
}

func see(t testing.TB, client *kafkawire.Client, name string) kafkawire.Topic {
	t.Helper()
	var seen kafkawire.Topic
	kafkatest.WaitFor(t, "topic "+name, func() bool {
		var err error
		seen, err = client.Topic(t.Context(), name)
		return err == nil
	})
	return seen
}

// fetcher runs a fetcher until the test ends.
func fetcher(t testing.TB, client *kafkawire.Client, config kafkawire.FetcherConfig) *kafkawire.Fetcher {
	t.Helper()
	if config.MaxWait == 0 {
		config.MaxWait = 50 * time.Millisecond
	}
	f := client.NewFetcher(config)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return f
}

func open(t testing.TB, f *kafkawire.Fetcher, topic kafkawire.Topic, partition int32, offset int64) *kafkawire.Cursor {
	t.Helper()
	c, err := f.Open(topic, partition, offset)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// show is a record as tests compare it.
func show(offset int64, key, value []byte, headers int) string {
	null := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return fmt.Sprintf("%d:%s", len(b), b[:min(len(b), 40)])
	}
	return fmt.Sprintf("%d %s=%s +%d", offset, null(key), null(value), headers)
}

// drain reads a cursor up to an offset.
func drain(t testing.TB, c *kafkawire.Cursor, end int64) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var got []string
	for c.Offset() < end {
		records, err := c.Next(ctx)
		if err != nil {
			t.Fatalf("at offset %d of %d: %v", c.Offset(), end, err)
		}
		for _, r := range records {
			got = append(got, show(r.Offset, r.Key, r.Value, len(r.Headers)))
		}
	}
	return got
}

// ours is all that a read_committed consumer sees of a partition now, by us.
func ours(t testing.TB, client *kafkawire.Client, topic kafkawire.Topic, partition int32) []string {
	t.Helper()
	end := settled(t, client, topic, partition)
	f := fetcher(t, client, kafkawire.FetcherConfig{})
	return drain(t, open(t, f, topic, partition, 0), end)
}

// settled waits until no transaction is open and returns the end.
func settled(t testing.TB, client *kafkawire.Client, topic kafkawire.Topic, partition int32) int64 {
	t.Helper()
	var end int64
	kafkatest.WaitFor(t, "the end of transactions in "+topic.Name, func() bool {
		stable := offset(t, client, topic, kafkawire.Latest, partition)
		end = offset(t, client, topic, kafkawire.End, partition)
		return stable == end
	})
	return end
}

func offset(t testing.TB, client *kafkawire.Client, topic kafkawire.Topic, m kafkawire.Moment, partition int32) int64 {
	t.Helper()
	offsets, err := client.ListOffsets(t.Context(), topic, m, partition)
	if err != nil {
		t.Fatal(err)
	}
	return offsets[partition]
}

// franz is the same, by the witness.
func franz(t testing.TB, c *kafkatest.Cluster, topic string, partition int32, end int64) []string {
	t.Helper()
	var got []string
	for _, r := range c.ReadPartition(t, topic, partition, 0, end) {
		got = append(got, show(r.Offset, r.Key, r.Value, len(r.Headers)))
	}
	return got
}

// same reads a partition by both.
func same(t testing.TB, c *kafkatest.Cluster, client *kafkawire.Client, topic kafkawire.Topic, partition int32) []string {
	t.Helper()
	we := ours(t, client, topic, partition)
	if they := franz(t, c, topic.Name, partition, settled(t, client, topic, partition)); !slices.Equal(we, they) {
		t.Errorf("%s/%d: we read %d records\n%s\nfranz-go %d\n%s", topic.Name, partition, len(we), strings.Join(we, "\n"), len(they), strings.Join(they, "\n"))
	}
	return we
}

func values(shown []string) []string {
	var v []string
	for _, s := range shown {
		_, rest, _ := strings.Cut(s, "=")
		_, rest, _ = strings.Cut(rest, ":")
		rest, _, _ = strings.Cut(rest, " +")
		v = append(v, rest)
	}
	return v
}

func TestTopics(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		client := newClient(t, c)
		name := kafkatest.Unique("made")
		made, err := client.CreateTopic(t.Context(), kafkawire.NewTopic{Name: name, Partitions: 3, Replicas: -1, Config: map[string]string{"cleanup.policy": "compact"}})
		if err != nil {
			t.Fatal(err)
		}
		if made.Name != name || len(made.Partitions) != 3 || made.ID == (kafkawire.TopicID{}) {
			t.Errorf("made %+v", made)
		}
		for i, p := range made.Partitions {
			if int(p.Number) != i || p.Leader < 0 {
				t.Errorf("partition %d: %+v", i, p)
			}
		}
		if _, err := client.CreateTopic(t.Context(), kafkawire.NewTopic{Name: name, Partitions: 1, Replicas: -1}); !errors.Is(err, kafkawire.CodeTopicExists) {
			t.Errorf("made twice: %v", err)
		}
		topics, err := client.Topics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(topics, func(x kafkawire.Topic) bool { return x.Name == name && x.ID == made.ID }) {
			t.Errorf("%s is not among %d topics", name, len(topics))
		}
		if _, err := client.Topic(t.Context(), "no-such-topic"); !errors.Is(err, kafkawire.CodeUnknownTopic) || !strings.Contains(err.Error(), "no-such-topic") {
			t.Errorf("an unknown topic: %v", err)
		}
		other := c.Topic(t, 2)
		see(t, client, other)
		named, missing, err := client.Named(t.Context(), []string{other, "no-such-topic", name})
		if err != nil || len(named) != 2 || named[0].Name != other || len(named[0].Partitions) != 2 || named[1].ID != made.ID || !slices.Equal(missing, []string{"no-such-topic"}) {
			t.Errorf("%+v, missing %q, %v", named, missing, err)
		}
		if named, missing, err := client.Named(t.Context(), nil); len(named) > 0 || len(missing) > 0 || err != nil {
			t.Errorf("no names: %+v, missing %q, %v", named, missing, err)
		}
		config, err := client.TopicConfig(t.Context(), name, "cleanup.policy", "max.message.bytes")
		if err != nil {
			t.Fatal(err)
		}
		if config["cleanup.policy"] != "compact" || config["max.message.bytes"] == "" {
			t.Errorf("config %v", config)
		}
	})
}

func TestOffsets(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		client := newClient(t, c)
		top := topic(t, c, client, 2)
		base := time.UnixMilli(time.Now().UnixMilli())
		for i := range 10 {
			r := &kgo.Record{Topic: top.Name, Partition: 1, Value: []byte{byte(i)}, Timestamp: base.Add(time.Duration(i) * time.Second)}
			if err := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())).ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		for _, x := range []struct {
			m    kafkawire.Moment
			want int64
		}{
			{kafkawire.Earliest, 0},
			{kafkawire.Latest, 10},
			{kafkawire.End, 10},
			{kafkawire.At(base.Add(3 * time.Second)), 3},
			{kafkawire.At(base.Add(2500 * time.Millisecond)), 3},
			{kafkawire.At(base.Add(-time.Hour)), 0},
			{kafkawire.At(base.Add(time.Hour)), 10}, // none: where new ones will be
		} {
			if got := offset(t, client, top, x.m, 1); got != x.want {
				t.Errorf("moment %d: offset %d, want %d", x.m, got, x.want)
			}
		}
		if got := offset(t, client, top, kafkawire.At(base), 0); got != 0 {
			t.Errorf("in an empty partition: %d", got)
		}

		group := kafkatest.Unique("group")
		at := map[string][]int32{top.Name: {0, 1}}
		got, err := client.Committed(t.Context(), group, at)
		if err != nil || len(got) != 0 {
			t.Errorf("a new group has %v, %v", got, err)
		}
		tp := kafkawire.TopicPartition{Topic: top.Name, Partition: 1}
		if err := client.Commit(t.Context(), group, "a note", map[kafkawire.TopicPartition]int64{tp: 7}); err != nil {
			t.Fatal(err)
		}
		got, err = client.Committed(t.Context(), group, at)
		if err != nil || len(got) != 1 || got[tp] != (kafkawire.GroupOffset{Offset: 7, Note: "a note"}) {
			t.Errorf("the group has %v, %v", got, err)
		}
		// The witness sees the same, and no leader epoch: one would make it believe that the log was cut.
		theirs, err := c.Admin(t).FetchOffsets(t.Context(), group)
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := theirs.Lookup(top.Name, 1); !ok || o.At != 7 || o.LeaderEpoch != -1 {
			t.Errorf("franz-go sees %+v", o)
		}
	})
}

func TestConfig(t *testing.T) {
	for _, x := range []struct {
		config kafkawire.Config
		want   string
	}{
		{kafkawire.Config{}, "no brokers"},
		{kafkawire.Config{Brokers: []string{"localhost"}}, "host:port"},
		{kafkawire.Config{Brokers: []string{"a:1"}, SASL: &kafkawire.SASL{Mechanism: "GSSAPI", User: "u"}}, `unknown mechanism "GSSAPI"`},
		{kafkawire.Config{Brokers: []string{"a:1"}, SASL: &kafkawire.SASL{Mechanism: kafkawire.Plain}}, "user is empty"},
	} {
		if _, err := kafkawire.NewClient(x.config); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v, want %q", x.config, err, x.want)
		}
	}
}
