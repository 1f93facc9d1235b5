package kafkawire_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// way makes a client for an endpoint, with something changed.
func way(t *testing.T, c *kafkatest.Cluster, e kafkatest.Endpoint, change func(*kafkawire.Config)) *kafkawire.Client {
	t.Helper()
	return newClient(t, c, func(config *kafkawire.Config) {
		config.Brokers, config.TLS = e.Addresses, e.TLS
		if e.Mechanism != "" {
			config.SASL = &kafkawire.SASL{Mechanism: kafkawire.Mechanism(e.Mechanism), User: e.User, Password: e.Password}
		}
		if change != nil {
			config.RetryFor = 50 * time.Millisecond // what is wrong stays wrong
			change(config)
		}
	})
}

// Every way in works, and one that does not says what to change and never the password.
func TestSecurity(t *testing.T) {
	kafkatest.EachEndpoint(t, func(t *testing.T, c *kafkatest.Cluster, e kafkatest.Endpoint) {
		client := way(t, c, e, nil)
		name := kafkatest.Unique("secure")
		made, err := client.CreateTopic(t.Context(), kafkawire.NewTopic{Name: name, Partitions: 1, Replicas: -1})
		if err != nil {
			t.Fatal(err)
		}
		s := &stage{c: c, client: client, out: made, progress: made, id: name}
		p := s.producer(t, client)
		if _, err := p.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Transact(t.Context(), []byte("1"), []kafkawire.PartitionBatch{s.batch(0, "through "+e.Name)}); err != nil {
			t.Fatal(err)
		}
		if got := values(ours(t, client, made, 0)); len(got) != 3 || !strings.HasPrefix("through "+e.Name, got[1]) {
			t.Errorf("read back %q", got)
		}

		wrong := func(what, want string, change func(*kafkawire.Config)) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err := way(t, c, e, change).Topics(ctx)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", what, err, want)
			}
			if err != nil && (strings.Contains(err.Error(), "secret") || e.Password != "" && strings.Contains(err.Error(), e.Password)) {
				t.Errorf("%s: the password is in %q", what, err)
			}
		}
		if e.TLS != nil {
			wrong("nobody trusted", "give its CA file", func(c *kafkawire.Config) { c.TLS = &tls.Config{MinVersion: tls.VersionTLS12} })
			wrong("another name", "for another name", func(c *kafkawire.Config) {
				c.TLS = c.TLS.Clone()
				c.TLS.ServerName = "elsewhere.example"
			})
			if c.Real() { // kfake hangs up without a word
				wrong("plain text", "configure tls", func(c *kafkawire.Config) { c.TLS = nil })
			}
		} else if c.Real() {
			if e.Mechanism == "" {
				wrong("a password that nobody asks for", "leave sasl out", func(c *kafkawire.Config) {
					c.SASL = &kafkawire.SASL{Mechanism: kafkawire.Plain, User: "u", Password: "secret"}
				})
			}
			wrong("TLS to a plain port", "hung up", func(c *kafkawire.Config) { c.TLS = &tls.Config{MinVersion: tls.VersionTLS12} })
		}
		if e.Mechanism == "" || !c.Real() { // kfake hangs up on a wrong password
			return
		}
		wrong("a wrong password", "wrong user or password", func(c *kafkawire.Config) {
			c.SASL = &kafkawire.SASL{Mechanism: kafkawire.Mechanism(e.Mechanism), User: e.User, Password: "secret"}
		})
		wrong("no password", "SASL", func(c *kafkawire.Config) { c.SASL = nil })
	})
}

// TestCertificateWanted: what the broker thinks of its clients is not said of its own certificate.
func TestCertificateWanted(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		s := httptest.NewUnstartedServer(nil)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = &tls.Config{MinVersion: version, MaxVersion: version, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
		s.StartTLS()
		t.Cleanup(s.Close)
		trusted := x509.NewCertPool()
		trusted.AddCert(s.Certificate())
		for want, shown := range map[string][]tls.Certificate{"give a certificate and its key": nil, "does not accept the certificate": s.TLS.Certificates} {
			client, err := kafkawire.NewClient(kafkawire.Config{
				Brokers: []string{s.Listener.Addr().String()}, RetryFor: 100 * time.Millisecond,
				TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted, Certificates: shown},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			_, err = client.Topics(t.Context())
			if version == tls.VersionTLS12 && shown == nil {
				want = "wants a certificate of its clients, give" // the alert may mean something else as well
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("version %x, %d certificates shown: %v, want %q", version, len(shown), err, want)
			}
		}
	}
}

func TestNobodyThere(t *testing.T) {
	client, err := kafkawire.NewClient(kafkawire.Config{Brokers: []string{"127.0.0.1:1"}, RetryFor: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	_, err = client.Topics(t.Context())
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || !kafkawire.Retriable(err) {
		t.Errorf("nobody there: %v", err)
	}
}
