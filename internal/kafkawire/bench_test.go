package kafkawire_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// BenchmarkRead reads records of 200 bytes, ours beside franz-go's read_committed, from the real broker: run with -cpu 1 and
// compare within one run.
func BenchmarkRead(b *testing.B) {
	c := kafkatest.Start(b, kafkatest.Options{HeapMiB: 1024, Compilers: true})
	const records = 200_000
	for _, codec := range []struct {
		name string
		kgo  kgo.CompressionCodec
	}{{"none", kgo.NoCompression()}, {"lz4", kgo.Lz4Compression()}, {"zstd", kgo.ZstdCompression()}} {
		name := c.Topic(b, 1)
		producer := c.Client(b, kgo.DefaultProduceTopic(name), kgo.ProducerBatchCompression(codec.kgo), kgo.ProducerLinger(5*time.Millisecond), kgo.ProducerBatchMaxBytes(128<<10))
		for i := range records {
			value := append(fmt.Appendf(nil, `{"user":"u%d","ip":"10.0.%d.%d","path":"/login"}`, i, i%200, i%97), bytes.Repeat([]byte("x"), 130)...)
			producer.Produce(b.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					b.Error(err)
				}
			})
		}
		if err := producer.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
		client := newClient(b, c)
		top := see(b, client, name)
		b.Run(codec.name+"/ours", func(b *testing.B) {
			for b.Loop() {
				f := fetcher(b, client, kafkawire.FetcherConfig{})
				cursor := open(b, f, top, 0, 0)
				for n := 0; n < records; {
					got, err := cursor.Next(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					n += len(got)
				}
				cursor.Close()
			}
			b.ReportMetric(float64(b.N)*records/b.Elapsed().Seconds(), "records/s")
		})
		b.Run(codec.name+"/franz", func(b *testing.B) {
			for b.Loop() {
				kc := c.Client(b, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: {0: kgo.NewOffset().AtStart()}}))
				for n := 0; n < records; {
					n += kc.PollFetches(b.Context()).NumRecords()
				}
				kc.Close()
			}
			b.ReportMetric(float64(b.N)*records/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkTransactions writes transactions of 1,000 records of 200 bytes.
func BenchmarkTransactions(b *testing.B) {
	c := kafkatest.Start(b, kafkatest.Options{HeapMiB: 1024, Compilers: true})
	const records = 1000
	value := bytes.Repeat([]byte("x"), 200)
	s := newStage(b, c, 1)
	b.Run("ours", func(b *testing.B) {
		p := s.producer(b, s.client)
		if _, err := p.Open(b.Context()); err != nil {
			b.Fatal(err)
		}
		batch := kafkawire.PartitionBatch{Topic: s.out}
		for range records {
			batch.Records = append(batch.Records, kafkawire.Record{Key: []byte("k"), Value: value})
		}
		for b.Loop() {
			if err := p.Transact(b.Context(), []byte("position"), []kafkawire.PartitionBatch{batch}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)*records/b.Elapsed().Seconds(), "records/s")
	})
	b.Run("franz", func(b *testing.B) {
		kc := c.Client(b, kgo.TransactionalID(kafkatest.Unique("bench")), kgo.DefaultProduceTopic(s.out.Name), kgo.ProducerBatchCompression(kgo.NoCompression()))
		for b.Loop() {
			if err := kc.BeginTransaction(); err != nil {
				b.Fatal(err)
			}
			for range records {
				kc.Produce(b.Context(), &kgo.Record{Key: []byte("k"), Value: value}, nil)
			}
			// The position, as ours has it.
			kc.Produce(b.Context(), &kgo.Record{Topic: s.progress.Name, Key: []byte("id"), Value: []byte("position")}, nil)
			if err := kc.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			if err := kc.EndTransaction(b.Context(), kgo.TryCommit); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)*records/b.Elapsed().Seconds(), "records/s")
	})
}
