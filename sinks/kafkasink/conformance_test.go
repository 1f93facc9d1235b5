package kafkasink

import (
	"fmt"
	"testing"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/sinktest"
)

// conformance holds the sink to what package sinks promises.
func conformance(t *testing.T, c *kafkatest.Cluster, partitions int) {
	t.Helper()
	t.Run(fmt.Sprintf("partitions=%d", partitions), func(t *testing.T) {
		sinktest.Run(t, sinktest.Subject{New: func(t *testing.T) sinktest.Destination {
			p := newPlace(t, c, partitions)
			return sinktest.Destination{Sink: func() sinks.Sink { return p.sink(t) }, Bodies: func() []string { return p.bodies(t) }}
		}})
	})
}

// TestConformance: transactions of version 2, on the fake and on a real broker, where it takes ten seconds, most of them for
// making topics.
func TestConformance(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		if c.Real() {
			conformance(t, c, 3)
		} else {
			conformance(t, c, 1)
		}
	})
}

// TestFirstVersion: transactions of version 1, as clusters have them that were not told to change. TestKilled holds a real
// broker to it.
func TestFirstVersion(t *testing.T) {
	conformance(t, kafkatest.StartFake(t, kafkatest.FakeOptions{TransactionVersion: 1}).As, 2)
}

// TestApart: without a position, at least once.
func TestApart(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		sinktest.Run(t, sinktest.Subject{Apart: true, Unfenced: true, New: func(t *testing.T) sinktest.Destination {
			p := newPlace(t, c, 1)
			return sinktest.Destination{
				Sink:   func() sinks.Sink { return p.sink(t, func(c *Config) { c.Guarantee = sinks.AtLeastOnce }) },
				Bodies: func() []string { return values(p.read(t, p.topic)) },
			}
		}})
	})
}
