//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filesink_test

import (
	"fmt"
	"testing"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/filesink"
	"github.com/cepd/cepd/sinks/sinktest"
)

// BenchmarkPublish is a batch of alerts on the disk of the temporary folder, with both fsyncs.
func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			path := b.TempDir() + "/alerts.jsonl"
			k, err := filesink.New(filesink.Config{Path: path, Owner: "job/out"})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = k.Close() }()
			if _, err := k.Open(b.Context()); err != nil {
				b.Fatal(err)
			}
			at := sinks.Progress{Lineage: 1}
			if err := k.Begin(b.Context(), at); err != nil {
				b.Fatal(err)
			}
			body := fmt.Appendf(nil, `{"id":%q,"filler":"%0600d"}`, sinks.Chain{}, 0)
			for b.Loop() {
				b.StopTimer()
				messages := sinktest.Messages(at, n, "bench")
				for i := range messages {
					messages[i].Body = body
				}
				b.StartTimer()
				batch := sinks.Batch{Base: at, Messages: messages}
				if _, err := k.Publish(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				at = batch.End()
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "alerts/s")
		})
	}
}
