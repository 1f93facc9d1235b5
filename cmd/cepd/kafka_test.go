package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
	"github.com/cepd/cepd/sinks"
)

// endpointConfig is a configuration that reads and writes through a way into a cluster.
func endpointConfig(t *testing.T, e kafkatest.Endpoint, topic, password string) *config.Config {
	t.Helper()
	var way strings.Builder
	fmt.Fprintf(&way, "brokers: %q", e.Addresses)
	if e.CAFile != "" {
		fmt.Fprintf(&way, ", tls: {enabled: true, ca_file: %q", e.CAFile)
		if e.CertFile != "" {
			fmt.Fprintf(&way, ", cert_file: %q, key_file: %q", e.CertFile, e.KeyFile)
		}
		way.WriteString("}")
	}
	if e.Mechanism != "" {
		file := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&way, ", sasl: {mechanism: %s, username: %s, password_file: %q}", e.Mechanism, e.User, file)
	}
	text := strings.NewReplacer("WAY", strings.ReplaceAll(way.String(), `" "`, `", "`), "TOPIC", topic).Replace(`
version: 1
job: ways
streams:
  in: {source: {kafka: {WAY, topics: TOPIC-in}}}
sinks:
  out: {kafka: {WAY, topic: TOPIC, progress_topic: TOPIC-progress, create: true, partitions: 2}}
`)
	c, diagnostics := config.Parse("cepd.yaml", []byte(text), config.Layers{})
	if c == nil {
		t.Fatal(diagnostics.Error())
	}
	if refused := refusals(c); len(refused) > 0 {
		t.Fatal(refused.Error())
	}
	return c
}

// found notes the partitions of a source.
type found struct {
	mu    sync.Mutex
	names []string
	ready chan struct{}
}

func (f *found) Found(r source.Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names = append(f.names, r.Partition().Name)
}

func (f *found) Ready() { close(f.ready) }

func (f *found) Trouble(error) {}

// TestKafkaWays: source and sink of a configuration get in through every way into a cluster, and a wrong password is said to
// be one.
func TestKafkaWays(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	kafkatest.EachEndpoint(t, func(t *testing.T, cluster *kafkatest.Cluster, e kafkatest.Endpoint) {
		topic := cluster.Topic(t, 1)
		cluster.CreateTopic(t, topic+"-in", 2)
		t.Cleanup(func() {
			_, _ = cluster.Admin(t).DeleteTopics(context.Background(), topic+"-progress") // it may not have been made
		})
		c := endpointConfig(t, e, topic, e.Password)
		to, err := newSink(c.Job, c.Sinks[0], io.Discard, quiet, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = to.Close() }()
		if at, err := to.Open(t.Context()); err != nil || at != (sinks.Progress{}) {
			t.Fatalf("open: %+v, %v", at, err)
		}

		from, err := newTopics(c, c.Streams[0], source.NewPartitions("in"), false, false, quiet)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		d := &found{ready: make(chan struct{})}
		ended := make(chan error, 1)
		go func() { ended <- from.Watch(ctx, nil, d) }()
		select {
		case <-d.ready:
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(patience):
			t.Fatal("nothing was found")
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := from.Close(); err != nil {
			t.Error(err)
		}
		if len(d.names) != 2 {
			t.Errorf("found %v", d.names)
		}

		if e.Mechanism == "" || !cluster.Real() { // the fake hangs up instead
			return
		}
		c = endpointConfig(t, e, topic, "wrong")
		refused, err := newSink(c.Job, c.Sinks[0], io.Discard, quiet, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = refused.Close() }()
		if _, err := refused.Open(t.Context()); !sinks.Permanent(err) || !strings.Contains(err.Error(), "wrong user or password") || strings.Contains(err.Error(), `"wrong"`) {
			t.Errorf("a wrong password: %v", err)
		}
	})
}

// TestKafkaCertificates: what is wrong with certificates is said before anything is connected to.
func TestKafkaCertificates(t *testing.T) {
	dir := t.TempDir()
	blank := filepath.Join(dir, "blank.pem")
	if err := os.WriteFile(blank, []byte("no certificate\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for settings, says := range map[string]string{
		"ca_file: " + dir + "/none.pem":                        "tls.ca_file: open",
		"ca_file: " + blank:                                    "holds no certificate",
		"cert_file: " + blank + ", key_file: " + blank:         "tls.cert_file",
		"cert_file: " + dir + "/none, key_file: " + dir + "/x": "no such file",
	} {
		c, diagnostics := config.Parse("cepd.yaml", []byte(`
version: 1
streams: {in: {source: {kafka: {brokers: "localhost:9092", topics: in, tls: {enabled: true, `+settings+`}}}}}
sinks: {out: {kafka: {brokers: "localhost:9092", topic: out, tls: {enabled: true, `+settings+`}}}}
`), config.Layers{})
		if c == nil {
			t.Fatal(diagnostics.Error())
		}
		refused := refusals(c)
		if len(refused) != 2 || !strings.Contains(refused[0].Message, says) || !strings.Contains(refused[1].Message, says) {
			t.Errorf("%s: %s", settings, refused.Error())
		}
	}
}
