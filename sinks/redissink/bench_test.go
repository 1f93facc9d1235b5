package redissink

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// BenchmarkPublish measures alerts of 300 bytes a second and the time of one call, by batch and by what the server does with
// them. One op is one alert.
//
//	go test ./sinks/redissink -run '^$' -bench Publish
func BenchmarkPublish(b *testing.B) {
	for _, m := range []struct {
		name     string
		settings []string
		replicas int
		list     bool
	}{
		{"nothing on disk", nil, 0, false},
		{"everysec", []string{"--appendonly", "yes", "--appendfsync", "everysec"}, 0, false},
		{"always", []string{"--appendonly", "yes", "--appendfsync", "always"}, 0, false},
		{"a replica", nil, 1, false},
		{"list", nil, 0, true},
	} {
		b.Run(m.name, func(b *testing.B) {
			srv := redistest.Start(b, redistest.Default(b), m.settings...)
			if m.replicas > 0 {
				redistest.Start(b, srv.Program).Follow(b, srv)
			}
			for _, size := range []int{1, 10, 100, 1000} {
				b.Run(fmt.Sprintf("batch %d", size), func(b *testing.B) {
					srv.Must(b, "FLUSHALL")
					s := newSink(b, srv.Address, func(c *Config) {
						c.Logger, c.Replicas = slog.New(slog.DiscardHandler), m.replicas
						if m.list {
							c.List = "alerts"
						}
					})
					open(b, s)
					benchmarkPublish(b, s, size)
				})
			}
		})
	}
}

func benchmarkPublish(b *testing.B, s *Sink, size int) {
	j := &journal{size: 300}
	batch := j.batch(1, 0, size)
	var took []time.Duration
	b.ResetTimer()
	for sent := 0; sent < b.N; sent += size {
		began := time.Now()
		if _, err := s.Publish(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
		// The same bodies behind the new place: making messages is not what is measured.
		b.StopTimer()
		batch.Base = batch.End()
		chain := batch.Base.Chain
		messages := slices.Clone(batch.Messages)
		for i := range messages {
			chain = chain.Next(messages[i].ID)
			messages[i].Sequence, messages[i].Chain = batch.Base.Sequence+uint64(i)+1, chain
		}
		batch.Messages = messages
		b.StartTimer()
	}
	b.StopTimer()
	slices.Sort(took)
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	b.ReportMetric(float64(len(took)*size)/sum.Seconds(), "alerts/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkBare is the yardstick: XADD in pipelines of the same client, without position, fence or chain.
func BenchmarkBare(b *testing.B) {
	srv := redistest.Start(b, redistest.Default(b))
	s := newSink(b, srv.Address, func(c *Config) { c.Logger = slog.New(slog.DiscardHandler) })
	body := string((&journal{size: 300}).message(1).Body)
	for _, size := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("batch %d", size), func(b *testing.B) {
			srv.Must(b, "FLUSHALL")
			for sent := 0; sent < b.N; sent += size {
				p := s.client.single.Pipeline()
				for range size {
					p.Do(b.Context(), "XADD", "alerts", "*", "id", "0123456789012345678901234567890123456789012345678901234567890123", "body", body)
				}
				if _, err := p.Exec(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "alerts/s")
		})
	}
}
