package kafkasource_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/kafkasource"
	"github.com/cepd/cepd/cep/source/sourcetest"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

func TestMain(m *testing.M) { os.Exit(kafkatest.Run(m)) }

// running is a topic of one partition as a source of a job.
func running(t *testing.T, c *kafkatest.Cluster) sourcetest.Running {
	topic := c.Topic(t, 1)
	client := c.Client(t)
	return sourcetest.Running{
		Open: func(t *testing.T) source.Source { return newSource(t, c, kafkasource.Config{Topics: []string{topic}}) },
		Append: func(t *testing.T, records ...string) {
			for _, r := range records {
				write(t, client, &kgo.Record{Topic: topic, Value: []byte(r)})
			}
		},
	}
}

func newSource(t testing.TB, c *kafkatest.Cluster, config kafkasource.Config) *kafkasource.Source {
	t.Helper()
	if config.Stream == "" {
		config.Stream = "s"
	}
	if config.Partitions == nil {
		config.Partitions = source.NewPartitions(config.Stream)
	}
	config.Kafka.Brokers, config.Kafka.Dial, config.Kafka.MetadataTTL = c.Addresses, c.Dial, 200*time.Millisecond
	if config.Fetch.MaxWait == 0 {
		config.Fetch.MaxWait = 100 * time.Millisecond
	}
	s, err := kafkasource.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t testing.TB, client *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("write: %v", err)
	}
}

func TestSuite(t *testing.T) {
	sourcetest.RunSource(t, func(t *testing.T) sourcetest.Running {
		return running(t, kafkatest.StartFake(t, kafkatest.FakeOptions{Network: new(kfake.VirtualNetwork)}).As)
	})
}

func TestSuiteOnBroker(t *testing.T) {
	t.Parallel()
	c := kafkatest.Shared(t)
	sourcetest.RunRealSource(t, func(t *testing.T) sourcetest.Running { return running(t, c) })
}
