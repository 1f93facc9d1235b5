package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/checkpoint/boltstore"
	"github.com/cepd/cepd/checkpoint/memstore"
	"github.com/cepd/cepd/sinks"
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

// stopwatch is a destination that notes when messages arrive.
type stopwatch struct {
	sinks.Sink
	mu      sync.Mutex
	arrived map[string]time.Time // by the user of the alert
}

// Publish implements [sinks.Sink].
func (s *stopwatch) Publish(ctx context.Context, b sinks.Batch) (sinks.Ack, error) {
	ack, err := s.Sink.Publish(ctx, b)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range b.Messages {
		s.arrived[member(string(b.Messages[i].Body), "key")] = now
	}
	return ack, err
}

// BenchmarkLatency writes 10,000 events a second, every hundredth of which completes a match, and tells how long the alerts
// need from there to a destination in this process, through a store on the disk.
func BenchmarkLatency(b *testing.B) {
	const perMilli = 10
	set, err := compile(pairs)
	if err != nil {
		b.Fatal(err)
	}
	spec, err := codec.ParseTime("t,unix_us")
	if err != nil {
		b.Fatal(err)
	}
	store, err := boltstore.Open(b.Context(), b.TempDir(), boltstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s := &tapes{stream: "auth", changed: make(chan struct{})}
	s.write("0")
	w := &stopwatch{Sink: memsink.NewServer(memsink.Options{}).Sink(), arrived: map[string]time.Time{}}
	c := Config{Name: "bench", Rules: set, Store: store, Partitions: source.NewPartitions("auth"), Shards: 2}
	c.Streams = []Stream{{Stream: engine.Stream{Name: "auth"}, Time: spec, Source: &tapesSource{s, c.Partitions}}}
	c.Sinks = []Sink{{Name: "out", Sink: w, All: true}}
	j, err := New(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- j.Run(context.Background()) }()
	written := map[string]time.Time{}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	n := 0
	for b.Loop() { // an iteration is a millisecond
		<-tick.C
		events := make([]string, 0, perMilli)
		for range perMilli {
			kind, user := "c", fmt.Sprint("u", n/100)
			switch n % 100 {
			case 50:
				kind = "a"
			case 99:
				kind = "b"
				written[fmt.Sprintf(`{"user":%q}`, user)] = time.Now()
			}
			events = append(events, fmt.Sprintf(`{"t":%d,"kind":%q,"user":%q}`, time.Now().UnixMicro(), kind, user))
			n++
		}
		s.write("0", events...)
	}
	s.write("0", fmt.Sprintf(`{"t":%d,"kind":"c","user":"last"}`, time.Now().UnixMicro()+1)) // lets the last one out
	time.Sleep(100 * time.Millisecond)
	if err := j.Drain(context.Background()); err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(<-ended, store.Close()); err != nil {
		b.Fatal(err)
	}
	took := make([]time.Duration, 0, len(written))
	for key, at := range written {
		if arrived, ok := w.arrived[key]; ok {
			took = append(took, arrived.Sub(at))
		}
	}
	if len(took) != len(written) {
		b.Fatalf("%d of %d alerts arrived", len(took), len(written))
	}
	slices.Sort(took)
	if n := len(took); n > 0 {
		b.ReportMetric(took[n/2].Seconds()*1000, "p50-ms")
		b.ReportMetric(took[n*99/100].Seconds()*1000, "p99-ms")
	}
}
