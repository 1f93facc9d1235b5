package kafkasource_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cepd/cepd/cep/source/kafkasource"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// BenchmarkRead reads records of 200 bytes with a key and a header, one by one through a Reader, beside franz-go's
// read_committed, from the real broker: run with -cpu 1 and compare within one run.
func BenchmarkRead(b *testing.B) {
	c := kafkatest.Start(b, kafkatest.Options{HeapMiB: 1024, Compilers: true})
	const records = 200_000
	for _, codec := range []struct {
		name string
		kgo  kgo.CompressionCodec
	}{{"none", kgo.NoCompression()}, {"lz4", kgo.Lz4Compression()}, {"zstd", kgo.ZstdCompression()}} {
		topic := c.Topic(b, 1)
		producer := c.Client(b, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec.kgo), kgo.ProducerLinger(5*time.Millisecond), kgo.ProducerBatchMaxBytes(128<<10))
		for i := range records {
			value := append(fmt.Appendf(nil, `{"user":"u%d","ip":"10.0.%d.%d","path":"/login"}`, i, i%200, i%97), bytes.Repeat([]byte("x"), 130)...)
			r := &kgo.Record{Key: fmt.Appendf(nil, "u%d", i), Value: value, Headers: []kgo.RecordHeader{{Key: "trace", Value: value[:16]}}}
			producer.Produce(b.Context(), r, func(_ *kgo.Record, err error) {
				if err != nil {
					b.Error(err)
				}
			})
		}
		if err := producer.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.Run(codec.name+"/ours", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s := newSource(b, c, kafkasource.Config{Topics: []string{topic}, Finite: true})
				readers, err := s.Open(b.Context(), kafkasource.Bound{}, kafkasource.Bound{})
				if err != nil {
					b.Fatal(err)
				}
				for range records {
					if _, err := readers[0].Next(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*records/b.Elapsed().Seconds(), "records/s")
		})
		b.Run(codec.name+"/franz", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				kc := c.Client(b, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
				sum := 0
				for n := 0; n < records; {
					kc.PollFetches(b.Context()).EachRecord(func(r *kgo.Record) {
						n++
						sum += len(r.Value)
					})
				}
				kc.Close()
			}
			b.ReportMetric(float64(b.N)*records/b.Elapsed().Seconds(), "records/s")
		})
	}
}
