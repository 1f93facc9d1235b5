package boltstore_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
)

// keyed are records as an engine has them: keys of 20 bytes in any slot, values of 100.
func keyed(from, n int, e cep.Epoch) []checkpoint.Record {
	l := make([]checkpoint.Record, n)
	for i := range l {
		hash := uint64(from+i) * 0x9E3779B97F4A7C15
		key := binary.BigEndian.AppendUint64([]byte("user"), hash)
		value := make([]byte, 100)
		binary.BigEndian.PutUint64(value, uint64(e))
		l[i] = checkpoint.Record{Slot: uint8(hash >> 32), Key: binary.BigEndian.AppendUint64(key, hash), Value: value}
	}
	return l
}

func commitBench(b *testing.B, s *boltstore.Store, e cep.Epoch, records []checkpoint.Record, letters int) {
	b.Helper()
	c := &checkpoint.Commit{Manifest: checkpoint.Manifest{Epoch: e, Job: "bench", Engine: make([]byte, 0, 2000)}, Records: records}
	c.Manifest.Engine = fmt.Appendf(nil, `{"text":"%02000d"}`, e)
	for range letters {
		seq := uint64(e-1)*uint64(letters) + uint64(len(c.Outbox)) + 1
		c.Outbox = append(c.Outbox, checkpoint.Outgoing{Sink: "out", Sequence: seq, Data: make([]byte, 400)})
	}
	if e > 2 {
		c.Forget = map[string]uint64{"out": uint64(e-2) * uint64(letters)}
	}
	if err := s.Commit(ctx, c); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCommit is an epoch of so many changed keys and 10 messages, on the disk of the temporary directory.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{10, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			s := open(b, b.TempDir(), boltstore.Options{})
			defer func() { _ = s.Close() }()
			e := cep.Epoch(0)
			b.ReportAllocs()
			for b.Loop() {
				e++
				b.StopTimer()
				records := keyed(int(e)*n, n, e)
				b.StartTimer()
				commitBench(b, s, e, records, 10)
			}
		})
	}
}

// million makes a store of a million keys: a base of most of them, and deltas that change a tenth.
func million(b *testing.B, fold bool) (*boltstore.Store, cep.Epoch) {
	b.Helper()
	s := open(b, b.TempDir(), boltstore.Options{})
	e := cep.Epoch(0)
	for ; e < 10; e++ {
		commitBench(b, s, e+1, keyed(int(e)*100_000, 100_000, e), 10)
	}
	if fold {
		if err := s.Maintain(ctx); err != nil {
			b.Fatal(err)
		}
		for range 10 {
			e++
			commitBench(b, s, e, keyed(int(e)*10_000, 10_000, e), 10)
		}
	}
	return s, e
}

// BenchmarkRestore reads a million records of 120 bytes: from a base with some deltas, and from deltas alone.
func BenchmarkRestore(b *testing.B) {
	for _, fold := range []bool{true, false} {
		b.Run(fmt.Sprintf("base=%v", fold), func(b *testing.B) {
			s, e := million(b, fold)
			defer func() { _ = s.Close() }()
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				if _, err := s.Restore(ctx, e, func(checkpoint.Record) error { n++; return nil }); err != nil || n != 1_000_000 {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkFold writes a base of a million records.
func BenchmarkFold(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		s, _ := million(b, false)
		b.StartTimer()
		if err := s.Maintain(ctx); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkOpen opens a store of a million records.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s := open(b, dir, boltstore.Options{})
	for e := cep.Epoch(1); e <= 10; e++ {
		commitBench(b, s, e, keyed(int(e)*100_000, 100_000, e), 10)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s := open(b, dir, boltstore.Options{})
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
