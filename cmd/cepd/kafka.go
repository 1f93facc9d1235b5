package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/kafkasource"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/kafkasink"
)

// clusterOf is a cluster as kafkawire wants it. Certificates are read, so that what is wrong with them is said before
// anything is connected to.
func clusterOf(job string, k *config.KafkaCluster, log *slog.Logger) (kafkawire.Config, error) {
	c := kafkawire.Config{Brokers: k.Brokers, ClientID: "cepd-" + job, Logger: log}
	if k.SASL.Username != "" {
		c.SASL = &kafkawire.SASL{
			Mechanism: kafkawire.Mechanism(k.SASL.Mechanism.String()), User: k.SASL.Username, Password: string(k.SASL.Password.Bytes()),
		}
	}
	if !k.TLS.Enabled {
		return c, nil
	}
	var err error
	c.TLS, err = clientTLS(&k.TLS)
	return c, err
}

// clientTLS is how a connection to a server is protected. The own certificate is read again for each, so that it can be
// changed.
func clientTLS(t *config.TLS) (*tls.Config, error) {
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: %s holds no certificate in PEM form", t.CA)
		}
	}
	if t.Certificate == "" {
		return c, nil
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file %s, tls.key_file %s: %w", t.Certificate, t.Key, err)
		}
		return &pair, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return c, nil
}

// newTopics makes the source of a stream of topics, which connects to nobody before it is watched.
func newTopics(c *config.Config, s *config.Stream, partitions *source.Partitions, once, acceptGap bool, log *slog.Logger) (*kafkasource.Source, error) {
	k := s.Kafka
	cluster, err := clusterOf(c.Job, &k.KafkaCluster, log.With("stream", s.Name))
	if err != nil {
		return nil, err
	}
	return kafkasource.New(kafkasource.Config{
		Stream: s.Name, Partitions: partitions, Kafka: cluster, Topics: k.Topics, Pattern: k.Pattern, Numbers: k.Partitions,
		Group: k.Group, MaxRecord: int(c.Limits.EventSize), Finite: once, AcceptGap: acceptGap, Logger: log,
	})
}

// newKafka makes a sink of a topic.
func newKafka(job string, s *config.Sink, origin string, log *slog.Logger) (sinks.Sink, error) {
	k := s.Kafka
	cluster, err := clusterOf(job, &k.KafkaCluster, log.With("sink", s.Name))
	if err != nil {
		return nil, err
	}
	return kafkasink.New(kafkasink.Config{
		Job: job, Name: s.Name, Cluster: cluster, Guarantee: s.Guarantee, Topic: k.Topic, LettersTopic: k.Letters, ProgressTopic: k.Progress, Create: k.Create,
		Partitions: int32(k.Partitions), Replicas: int16(k.Replicas), TransactionTimeout: k.TransactionTimeout,
		Format: s.Format, Source: origin, Logger: log,
	})
}
