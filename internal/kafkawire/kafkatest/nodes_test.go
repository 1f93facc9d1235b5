//go:build brokers

package kafkatest_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// Of three nodes one may be away, and the others go on. They take ten seconds to start.
func TestThreeNodes(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Options{Nodes: 3})
	topic := c.Topic(t, 3)
	client := c.Client(t, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	for range 6 {
		write(t, client, topic, "a")
	}
	c.Broker.Kill(2)
	if c.Broker.Running(2) || !c.Broker.Running(1) || !c.Broker.Running(3) {
		t.Error("another node than 2 ended")
	}
	for range 6 {
		write(t, client, topic, "b")
	}
	c.Broker.Restart(t, 2)
	if err := c.Broker.Stop(1); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		write(t, client, topic, "c")
	}
}
