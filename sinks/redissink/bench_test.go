package redissink

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
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
					benchmarkPublish(b, srv, s, size)
				})
			}
		})
	}
}

func benchmarkPublish(b *testing.B, srv *redistest.Server, s *Sink, size int) {
	j := &journal{size: 300}
	batch := j.batch(1, 0, size)
	var took []time.Duration
	cpu := processor(b, srv)
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
	b.ReportMetric((processor(b, srv)-cpu)*1e6/float64(len(took)*size), "server-cpu-µs")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// processor is the time in seconds that the server has computed: unlike the time that passes, others do not change it.
func processor(b *testing.B, srv *redistest.Server) float64 {
	b.Helper()
	i := srv.Info(b, "cpu")
	var sum float64
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		s, err := strconv.ParseFloat(i[name], 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += s
	}
	return sum
}

// BenchmarkBare is the yardstick: XADD in pipelines of the same client, without position, fence or chain.
func BenchmarkBare(b *testing.B) {
	srv := redistest.Start(b, redistest.Default(b))
	s := newSink(b, srv.Address, func(c *Config) { c.Logger = slog.New(slog.DiscardHandler) })
	body := string((&journal{size: 300}).message(1).Body)
	for _, size := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("batch %d", size), func(b *testing.B) {
			srv.Must(b, "FLUSHALL")
			cpu := processor(b, srv)
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
			b.ReportMetric((processor(b, srv)-cpu)*1e6/float64(b.N), "server-cpu-µs")
		})
	}
}
