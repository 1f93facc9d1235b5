//go:build unix

package kafkawire_test

import (
	"bytes"
	"fmt"
	"syscall"
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

// processor is the time of all processors that this process has taken.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTransactions writes transactions of 1, 100 and 1,000 records of 200 bytes, one behind the other, each with a record
// of the position beside it.
func BenchmarkTransactions(b *testing.B) {
	c := kafkatest.Start(b, kafkatest.Options{HeapMiB: 1024, Compilers: true})
	value := bytes.Repeat([]byte("x"), 200)
	for _, records := range []int{1, 100, 1000} {
		s := newStage(b, c, 1)
		measured := func(name string, transact func() error) {
			b.Run(fmt.Sprintf("%d/%s", records, name), func(b *testing.B) {
				began := processor(b)
				for b.Loop() {
					if err := transact(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
				b.ReportMetric(float64((processor(b)-began).Microseconds())/float64(b.N), "cpu-us/op")
			})
		}
		p := s.producer(b, s.client)
		if _, err := p.Open(b.Context()); err != nil {
			b.Fatal(err)
		}
		batch := kafkawire.PartitionBatch{Topic: s.out}
		for range records {
			batch.Records = append(batch.Records, kafkawire.Record{Key: []byte("k"), Value: value})
		}
		measured("ours", func() error {
			return p.Transact(b.Context(), []byte("position"), []kafkawire.PartitionBatch{batch})
		})
		kc := c.Client(b, kgo.TransactionalID(kafkatest.Unique("bench")), kgo.DefaultProduceTopic(s.out.Name), kgo.ProducerBatchCompression(kgo.NoCompression()))
		measured("franz", func() error {
			if err := kc.BeginTransaction(); err != nil {
				return err
			}
			for range records {
				kc.Produce(b.Context(), &kgo.Record{Key: []byte("k"), Value: value}, nil)
			}
			kc.Produce(b.Context(), &kgo.Record{Topic: s.progress.Name, Key: []byte("id"), Value: []byte("position")}, nil)
			if err := kc.Flush(b.Context()); err != nil {
				return err
			}
			return kc.EndTransaction(b.Context(), kgo.TryCommit)
		})
	}
}
