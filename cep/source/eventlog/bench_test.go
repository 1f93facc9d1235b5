package eventlog_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cepd/cepd/cep/source/eventlog"
)

// BenchmarkAppend appends one event of 300 bytes at a time, from so many clients; each waits for its fsync.
func BenchmarkAppend(b *testing.B) {
	for _, clients := range []int{1, 16, 256} {
		b.Run(fmt.Sprint("clients=", clients), func(b *testing.B) {
			l := open(b, eventlog.Config{Dir: b.TempDir(), Max: 1 << 40})
			event := []eventlog.Event{{Data: bytes.Repeat([]byte("x"), 300)}}
			b.SetParallelism(clients)
			b.SetBytes(300)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if _, err := l.Append(b.Context(), event); err != nil {
						b.Error(err)
						return
					}
				}
			})
			s := l.Status()
			b.ReportMetric(float64(s.Accepted)/float64(s.Groups), "events/fsync")
			shut(b, l)
		})
	}
}

// BenchmarkOpen opens a log of 256 MiB; B/op is that.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	l := open(b, eventlog.Config{Dir: dir})
	events := make([]eventlog.Event, 10_000)
	for i := range events {
		events[i].Data = bytes.Repeat([]byte("x"), 300)
	}
	for l.Status().Bytes < 256<<20 {
		if _, err := l.Append(b.Context(), events); err != nil {
			b.Fatal(err)
		}
	}
	shut(b, l)
	b.SetBytes(256 << 20)
	for b.Loop() {
		shut(b, open(b, eventlog.Config{Dir: dir}))
	}
}
