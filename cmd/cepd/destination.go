package main

import (
	"io"
	"log/slog"

	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/filesink"
	"github.com/cepd/cepd/sinks/redissink"
	"github.com/cepd/cepd/sinks/webhooksink"
)

// newSink makes a sink of a job, which connects to nobody before it is opened. An error is about its settings.
func newSink(job string, s *config.Sink, stdout io.Writer, log *slog.Logger, failpoint func(point string)) (sinks.Sink, error) {
	origin := s.Source
	if origin == "" {
		origin = sinks.Source(job)
	}
	switch {
	case s.File != nil && s.File.Path == "-":
		return filesink.NewWriter(stdout, s.Format, origin), nil
	case s.File != nil:
		return filesink.New(filesink.Config{
			Path: s.File.Path, Owner: job + "/" + s.Name, Format: s.Format, Source: origin, Logger: log.With("sink", s.Name), Failpoint: failpoint,
		})
	case s.Redis != nil:
		return newRedis(job, s, origin, log)
	case s.Kafka != nil:
		return newKafka(job, s, origin, log)
	}
	w := s.Webhook
	c := webhooksink.Config{
		URL: w.URL, Format: s.Format, Source: origin, Batch: w.Batch, Timeout: w.Timeout, RetryMax: w.Retry,
		Private: w.Private, Allow: w.Allow, CAFile: w.CA, Headers: map[string]string{},
	}
	for _, h := range w.Headers {
		c.Headers[h[0]] = h[1]
	}
	if a := w.Authorization.Bytes(); a != nil {
		c.Headers["Authorization"] = string(a)
	}
	if w.Secret.File != "" {
		c.SecretFile = w.Secret.File // read again for every batch, so that it can be changed
	} else {
		c.Secret = string(w.Secret.Bytes())
	}
	return webhooksink.New(c)
}

func newRedis(job string, s *config.Sink, origin string, log *slog.Logger) (sinks.Sink, error) {
	r := s.Redis
	c := redissink.Config{
		Job: job, Name: s.Name, Addresses: r.Addresses, Cluster: r.Cluster, Sentinel: r.Sentinel, Database: r.Database,
		Username: r.Username, SentinelUsername: r.SentinelUsername, SentinelPassword: string(r.SentinelPassword.Bytes()),
		Stream: r.Stream, List: r.List, Channel: r.Channel, MaxLen: r.MaxLength, MaxAge: r.MaxAge,
		Replicas: r.Replicas, ReplicaTimeout: r.ReplicaTimeout, Guarantee: s.Guarantee, Format: s.Format, Source: origin, Logger: log,
	}
	if r.Password.File != "" {
		c.PasswordFile = r.Password.File // read again at each connection, so that it can be changed
	} else {
		c.Password = string(r.Password.Bytes())
	}
	if t := r.TLS; t.Enabled {
		c.TLS = &redissink.TLS{CA: t.CA, Cert: t.Certificate, Key: t.Key, ServerName: t.ServerName}
	}
	return redissink.New(c)
}
