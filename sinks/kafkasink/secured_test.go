package kafkasink

import (
	"crypto/tls"
	"testing"

	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/sinktest"
)

// TestSecured: every way in, and what is said where a certificate or a password is wrong.
func TestSecured(t *testing.T) {
	c := kafkatest.Shared(t)
	p := newPlace(t, c, 1)
	at := sinks.Progress{}
	for _, e := range c.Endpoints {
		way := func(change func(*kafkawire.Config)) *Sink {
			return p.sink(t, func(c *Config) {
				c.Cluster.Brokers, c.Cluster.TLS = e.Addresses, e.TLS
				if e.Mechanism != "" {
					c.Cluster.SASL = &kafkawire.SASL{Mechanism: kafkawire.Mechanism(e.Mechanism), User: e.User, Password: e.Password}
				}
				change(&c.Cluster)
			})
		}
		s := way(func(*kafkawire.Config) {})
		at = open(t, s)
		put(t, s, at, sinktest.Messages(at, 1, "a"))
		if e.Name == "tls" {
			_, err := way(func(c *kafkawire.Config) { c.TLS = &tls.Config{MinVersion: tls.VersionTLS12} }).Open(t.Context())
			stops(t, err, "CA")
		}
		if e.Name == "sasl-plain" {
			_, err := way(func(c *kafkawire.Config) { c.SASL.Password += "x" }).Open(t.Context())
			stops(t, err, "password")
		}
	}
	if want := uint64(len(c.Endpoints) - 1); at.Sequence != want {
		t.Errorf("the last one found %d messages, want %d", at.Sequence, want)
	}
}
