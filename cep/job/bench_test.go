package job

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/checkpoint/memstore"
	"github.com/cepd/cepd/sinks/memsink"
)

// BenchmarkJob reads a million events of one partition, or of eight, to the last alert at the destination: what a job costs
// around the engine.
func BenchmarkJob(b *testing.B) {
	const events = 1_000_000
	for _, partitions := range []int{1, 8} {
		b.Run(fmt.Sprint(partitions), func(b *testing.B) {
			s := &tapes{stream: "auth", changed: make(chan struct{}), complete: true}
			for i := range events {
				t := s.tape(fmt.Sprint(i % partitions))
				t.records = append(t.records, source.Record{Offset: 10 * int64(len(t.records)), Data: fmt.Appendf(nil,
					`{"t":%d,"kind":%q,"user":"user%d","host":"host-%d","address":"10.0.%d.%d","agent":"Mozilla/5.0 (X11; Linux x86_64)"}`,
					i/1000, []string{"a", "c", "d", "e", "f", "g", "h", "b", "c", "d"}[i%10], i*7%4999, i%100, i%256, i%200)})
				t.closed = true
			}
			for b.Loop() {
				set, err := compile(pairs)
				if err != nil {
					b.Fatal(err)
				}
				spec, err := codec.ParseTime("t,unix")
				if err != nil {
					b.Fatal(err)
				}
				store, err := memstore.NewDisk(memstore.Options{}).Open()
				if err != nil {
					b.Fatal(err)
				}
				server := memsink.NewServer(memsink.Options{})
				c := Config{Name: "bench", Rules: set, Store: store, Partitions: source.NewPartitions("auth"), Once: true, Shards: 1}
				c.Streams = []Stream{{Stream: engine.Stream{Name: "auth", Lateness: 5 * time.Second}, Time: spec, Source: &tapesSource{s, c.Partitions}}}
				c.Sinks = []Sink{{Name: "out", Sink: server.Sink(), All: true}}
				j, err := New(context.Background(), c)
				if err != nil {
					b.Fatal(err)
				}
				if err := j.Run(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(server.Messages())), "alerts")
			}
			b.ReportMetric(events*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
