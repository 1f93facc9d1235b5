package kafkawire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// reseal puts the length and checksum of a batch right after a test has changed it.
func reseal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-beforeLength))
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttrs:], castagnoli()))
	return b
}

// at gives a batch its place in a log, as the leader does.
func at(b []byte, base int64) []byte {
	binary.BigEndian.PutUint64(b, uint64(base))
	return b
}

func batchOf(base int64, p producerState, transactional bool, values ...string) []byte {
	var records []Record
	for _, v := range values {
		records = append(records, Record{Value: []byte(v)})
	}
	return at(appendBatch(nil, records, 1000, p, transactional, castagnoli()), base)
}

// compressed is the batch with another codec.
func compressed(t testing.TB, b []byte, codec uint16, pack func([]byte) []byte) []byte {
	t.Helper()
	c := append(slices.Clone(b[:batchHeader]), pack(b[batchHeader:])...)
	attrs := binary.BigEndian.Uint16(c[atAttrs:])
	binary.BigEndian.PutUint16(c[atAttrs:], attrs|codec)
	return reseal(c)
}

// marker is the control batch that ends a transaction.
func marker(base, producer int64, kind uint16) []byte {
	key := binary.BigEndian.AppendUint16([]byte{0, 0}, kind)
	b := appendBatch(nil, []Record{{Key: key, Value: []byte{0, 0, 0, 0, 0, 0}}}, 1000, producerState{producer, 0, -1}, true, castagnoli())
	binary.BigEndian.PutUint16(b[atAttrs:], attrTransactional|attrControl)
	return at(reseal(b), base)
}

func abort(base, producer int64) []byte  { return marker(base, producer, 0) }
func commit(base, producer int64) []byte { return marker(base, producer, 1) }

// emptied is a batch that compaction has left without records.
func emptied(base, last int64) []byte {
	b := batchOf(base, producerState{-1, -1, -1}, false, "x")[:batchHeader]
	binary.BigEndian.PutUint32(b[atLastDelta:], uint32(last-base))
	binary.BigEndian.PutUint32(b[atCount:], 0)
	return at(reseal(b), base)
}

// readAll decodes a page to its end.
func readAll(t testing.TB, p page, offset int64) (got []string, next int64, err error) {
	t.Helper()
	d := newDecoder(newCodecs())
	for {
		var records []Record
		records, offset, err = d.next(&p, offset)
		if err != nil || len(records) == 0 {
			return got, offset, err
		}
		for _, r := range records {
			got = append(got, fmt.Sprintf("%d:%s", r.Offset, r.Value))
		}
	}
}

func TestPage(t *testing.T) {
	free := producerState{-1, -1, -1}
	p1, p2 := producerState{1, 0, 0}, producerState{2, 0, 0}
	for _, x := range []struct {
		name    string
		raw     [][]byte
		aborted []aborted
		from    int64
		want    []string
		next    int64
	}{
		{"plain", [][]byte{batchOf(0, free, false, "a", "b"), batchOf(2, free, false, "c")}, nil, 0, []string{"0:a", "1:b", "2:c"}, 3},
		{"from the middle of a batch", [][]byte{batchOf(0, free, false, "a", "b", "c")}, nil, 1, []string{"1:b", "2:c"}, 3},
		{"a batch before the offset", [][]byte{batchOf(0, free, false, "a"), batchOf(1, free, false, "b")}, nil, 1, []string{"1:b"}, 2},
		{"cut off", [][]byte{batchOf(0, free, false, "a"), batchOf(1, free, false, "b")[:65]}, nil, 0, []string{"0:a"}, 1},
		{"cut off in the header", [][]byte{batchOf(0, free, false, "a"), batchOf(1, free, false, "b")[:5]}, nil, 0, []string{"0:a"}, 1},
		{"emptied by compaction", [][]byte{batchOf(0, free, false, "a"), emptied(1, 6), batchOf(7, free, false, "b")}, nil, 0, []string{"0:a", "7:b"}, 8},
		{"empty to the end", [][]byte{emptied(0, 9)}, nil, 0, nil, 10},
		{"committed", [][]byte{batchOf(0, p1, true, "a"), commit(1, 1)}, nil, 0, []string{"0:a"}, 2},
		{"aborted", [][]byte{batchOf(0, p1, true, "a"), abort(1, 1), batchOf(2, p1, true, "b"), commit(3, 1)}, []aborted{{1, 0}}, 0, []string{"2:b"}, 4},
		{"aborted among others", [][]byte{batchOf(0, p1, true, "a"), batchOf(1, p2, true, "b"), batchOf(2, free, false, "c"), abort(3, 1), commit(4, 2)}, []aborted{{1, 0}}, 0, []string{"1:b", "2:c"}, 5},
		{"no transaction of an aborted producer", [][]byte{batchOf(0, p1, true, "a"), batchOf(1, p1, false, "b"), abort(2, 1)}, []aborted{{1, 0}}, 0, []string{"1:b"}, 3},
		{"aborted twice", [][]byte{batchOf(0, p1, true, "a"), abort(1, 1), batchOf(2, p1, true, "b"), abort(3, 1), batchOf(4, p1, true, "c"), commit(5, 1)}, []aborted{{1, 0}, {1, 2}}, 0, []string{"4:c"}, 6},
		// The entry has to be off the list at the marker, or it hides what the producer commits next.
		{"from an abort marker", [][]byte{abort(5, 1), batchOf(6, p1, true, "b"), commit(7, 1)}, []aborted{{1, 3}}, 5, []string{"6:b"}, 8},
		{"a marker without its record", [][]byte{batchOf(0, p1, true, "a"), func() []byte {
			b := abort(1, 1)[:batchHeader]
			binary.BigEndian.PutUint32(b[atCount:], 0)
			return reseal(b)
		}(), batchOf(2, free, false, "b")}, []aborted{{1, 0}}, 0, []string{"2:b"}, 3},
	} {
		t.Run(x.name, func(t *testing.T) {
			raw := bytes.Join(x.raw, nil)
			got, next, err := readAll(t, page{raw: raw, aborted: slices.Clone(x.aborted)}, x.from)
			if err != nil || !slices.Equal(got, x.want) || next != x.next {
				t.Errorf("read %v up to %d, %v; want %v up to %d", got, next, err, x.want, x.next)
			}
			if header := nextOffset(raw, x.from); header != x.next {
				t.Errorf("by the headers it ends at %d, want %d", header, x.next)
			}
		})
	}
}

func TestDamagedBatches(t *testing.T) {
	free := producerState{-1, -1, -1}
	change := func(f func(b []byte) []byte) []byte { return f(batchOf(3, free, false, "abc", "def")) }
	for _, x := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"a bit", change(func(b []byte) []byte { b[70] ^= 1; return b }), errCRC},
		{"format 1", change(func(b []byte) []byte { b[atMagic] = 1; return b }), nil},
		{"a length below the header", change(func(b []byte) []byte { binary.BigEndian.PutUint32(b[atLength:], 10); return b }), nil},
		{"a negative length", change(func(b []byte) []byte { binary.BigEndian.PutUint32(b[atLength:], 1<<31); return b }), nil},
		{"more records than bytes", change(func(b []byte) []byte { binary.BigEndian.PutUint32(b[atCount:], 1<<30); return reseal(b) }), errRecord},
		{"fewer records than bytes", change(func(b []byte) []byte { binary.BigEndian.PutUint32(b[atCount:], 1); return reseal(b) }), errRecord},
		{"a negative number of records", change(func(b []byte) []byte { binary.BigEndian.PutUint32(b[atCount:], 1<<31); return reseal(b) }), errRecord},
		{"an offset above the last", change(func(b []byte) []byte { binary.BigEndian.PutUint32(b[atLastDelta:], 0); return reseal(b) }), errRecord},
		{"a record longer than the batch", change(func(b []byte) []byte { b[batchHeader] = 100; return reseal(b) }), errRecord},
		{"an unknown codec", change(func(b []byte) []byte { b[atAttrs+1] |= 7; return reseal(b) }), nil},
		{"a codec that it is not", change(func(b []byte) []byte { b[atAttrs+1] |= codecZstd; return reseal(b) }), nil},
		{"many headers", reseal(append(batchOf(0, free, false, "x")[:batchHeader], 22, 0, 0, 0, 1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0)), errRecord},
	} {
		_, _, err := readAll(t, page{raw: x.raw}, 0)
		if err == nil || x.want != nil && !errors.Is(err, x.want) {
			t.Errorf("%s: %v, want %v", x.name, err, x.want)
		}
	}
}

// A few bytes that claim to be very many are refused before memory is taken for them, or when the limit is reached.
func TestBombs(t *testing.T) {
	zeros := make([]byte, 24<<20)
	for name, pack := range packers(t) {
		c := newCodecs()
		c.max = 16 << 20
		c.zstd = func() (*zstd.Decoder, error) { return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(16<<20)) }
		if b, err := c.decompress(pack.codec, pack.pack(zeros), nil); !errors.Is(err, errBomb) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
		if b, err := c.decompress(pack.codec, pack.pack(zeros[:16<<20]), nil); err != nil || len(b) != 16<<20 {
			t.Errorf("%s: at the limit %d bytes, %v", name, len(b), err)
		}
	}
	c := newCodecs()
	for name, b := range map[string][]byte{
		"a block":          binary.AppendUvarint(nil, 100<<20),
		"a block above":    binary.AppendUvarint(nil, 1<<31),
		"a frame":          append(append(slices.Clone(xerial), 0, 0, 0, 1, 0, 0, 0, 1), 0x7f, 0xff, 0xff, 0xff, 1),
		"a cut frame head": append(append(slices.Clone(xerial), 0, 0, 0, 1, 0, 0, 0, 1), 0, 0),
		"a cut head":       append(slices.Clone(xerial), 0, 0),
	} {
		allocated := testing.AllocsPerRun(1, func() {
			if _, err := c.decompress(codecSnappy, b, nil); err == nil {
				t.Errorf("snappy: %s is taken", name)
			}
		})
		if allocated > 20 {
			t.Errorf("snappy: %s: %v allocations", name, allocated)
		}
	}
}

type packer struct {
	codec uint16
	pack  func([]byte) []byte
}

func packers(t testing.TB) map[string]packer {
	t.Helper()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = encoder.Close() })
	stream := func(c compress.Codec) func(b []byte) []byte {
		return func(b []byte) []byte {
			var buf bytes.Buffer
			w := c.NewWriter(&buf)
			if _, err := w.Write(b); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			return buf.Bytes()
		}
	}
	return map[string]packer{
		"gzip": {codecGzip, func(b []byte) []byte {
			var buf bytes.Buffer
			w := gzip.NewWriter(&buf)
			_, _ = w.Write(b)
			_ = w.Close()
			return buf.Bytes()
		}},
		"snappy":        {codecSnappy, func(b []byte) []byte { return snappy.Encode(nil, b) }},
		"xerial snappy": {codecSnappy, stream(&compress.SnappyCodec)},
		"lz4":           {codecLZ4, stream(&compress.Lz4Codec)},
		"zstd":          {codecZstd, func(b []byte) []byte { return encoder.EncodeAll(b, nil) }},
		"zstd stream":   {codecZstd, stream(&compress.ZstdCodec)},
	}
}

func drawRecords(t *rapid.T) []Record {
	field := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 200))
	header := rapid.Custom(func(t *rapid.T) Header {
		return Header{rapid.StringN(0, 10, 40).Draw(t, "name"), field.Draw(t, "value")}
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Record {
		r := Record{Key: field.Draw(t, "key"), Value: field.Draw(t, "value")}
		if n := rapid.IntRange(0, 3).Draw(t, "headers"); n > 0 {
			r.Headers = rapid.SliceOfN(header, n, n).Draw(t, "headers")
		}
		return r
	}), 1, 60).Draw(t, "records")
}

// What is encoded is what is decoded, whatever the codec.
func TestEncodeDecode(t *testing.T) {
	pack := packers(t)
	d := newDecoder(newCodecs())
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t)
		base := rapid.Int64Range(0, 1<<40).Draw(t, "base")
		b := at(appendBatch(nil, records, 1234, producerState{7, 3, 99}, true, castagnoli()), base)
		name := rapid.SampledFrom([]string{"", "gzip", "snappy", "xerial snappy", "lz4", "zstd", "zstd stream"}).Draw(t, "codec")
		if name != "" {
			c := append(slices.Clone(b[:batchHeader]), pack[name].pack(b[batchHeader:])...)
			binary.BigEndian.PutUint16(c[atAttrs:], attrTransactional|pack[name].codec)
			b = reseal(c)
		}
		got, next, err := d.next(&page{raw: b}, base)
		if err != nil || next != base+int64(len(records)) {
			t.Fatalf("up to %d, %v", next, err)
		}
		for i := range records {
			records[i].Offset, records[i].Time = base+int64(i), 1234
		}
		if diff := cmp.Diff(records, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// franz-go's generated code reads our batches field by field.
func TestEncodedAsFranzReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t)
		p := producerState{rapid.Int64().Draw(t, "id"), rapid.Int16().Draw(t, "epoch"), rapid.Int32().Draw(t, "sequence")}
		b := appendBatch(nil, records, 1234, p, true, castagnoli())
		var batch kmsg.RecordBatch
		if err := batch.ReadFrom(b); err != nil {
			t.Fatal(err)
		}
		if batch.ProducerID != p.id || batch.ProducerEpoch != p.epoch || batch.FirstSequence != p.sequence || int(batch.NumRecords) != len(records) || batch.FirstTimestamp != 1234 || batch.MaxTimestamp != 1234 || batch.Attributes != attrTransactional || int(batch.LastOffsetDelta) != len(records)-1 || batch.PartitionLeaderEpoch != -1 {
			t.Fatalf("%+v", batch)
		}
		rest := batch.Records
		for i := range records {
			length, n := binary.Varint(rest)
			var r kmsg.Record
			if err := r.ReadFrom(rest[:n+int(length)]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n+int(length):]
			if !bytes.Equal(r.Key, records[i].Key) || !bytes.Equal(r.Value, records[i].Value) || len(r.Headers) != len(records[i].Headers) || int(r.OffsetDelta) != i {
				t.Fatalf("record %d: %+v", i, r)
			}
		}
		if len(rest) > 0 {
			t.Fatalf("%d bytes left", len(rest))
		}
	})
}

// FuzzPage: no bytes make the decoder panic, go back, see what is before the offset, or take memory without bound.
func FuzzPage(f *testing.F) {
	free, p1 := producerState{-1, -1, -1}, producerState{1, 0, 0}
	f.Add(batchOf(0, free, false, "a", "b"), int64(0), int64(1), int64(0))
	f.Add(slices.Concat(batchOf(0, p1, true, "a"), abort(1, 1), batchOf(2, p1, true, "b"), commit(3, 1)), int64(0), int64(1), int64(0))
	f.Add(slices.Concat(emptied(0, 7), batchOf(8, free, false, "x")[:65]), int64(3), int64(2), int64(5))
	for _, p := range packers(f) {
		f.Add(compressed(f, batchOf(5, free, false, "aaaaaaaaaa", "bbbbbbbbbbbbb"), p.codec, p.pack), int64(5), int64(0), int64(9))
	}
	codecs := newCodecs()
	codecs.max = 1 << 20
	codecs.zstd = func() (*zstd.Decoder, error) { return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(1<<20)) }
	f.Fuzz(func(t *testing.T, raw []byte, offset, producer, first int64) {
		if offset < 0 {
			return
		}
		// The checksum would keep the fuzzer out: it is put right where the batches are whole.
		for rest := raw; ; {
			batch, more, err := nextBatch(rest)
			if err != nil {
				break
			}
			binary.BigEndian.PutUint32(batch[atCRC:], crc32.Checksum(batch[atAttrs:], castagnoli()))
			rest = more
		}
		d := newDecoder(codecs)
		p := page{raw: raw, aborted: []aborted{{producer, first}}}
		for at := offset; ; {
			records, next, err := d.next(&p, at)
			if next < at {
				t.Fatalf("from %d back to %d", at, next)
			}
			if err != nil || len(records) == 0 {
				return
			}
			for _, r := range records {
				if r.Offset < at || r.Offset >= next {
					t.Fatalf("offset %d in %d..%d", r.Offset, at, next)
				}
			}
			at = next
		}
	})
}

// FuzzFetchAnswer: no answer makes the parser panic or take memory that the answer does not have.
func FuzzFetchAnswer(f *testing.F) {
	id := TopicID{1, 2, 3}
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = apiFetch.version
	rt := kmsg.NewFetchResponseTopic()
	rt.TopicID = id
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.Partition, rp.HighWatermark, rp.LastStableOffset, rp.RecordBatches = 4, 9, 8, []byte("batches")
	ra := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
	ra.ProducerID, ra.FirstOffset = 5, 6
	rp.AbortedTransactions = append(rp.AbortedTransactions, ra)
	rt.Partitions = append(rt.Partitions, rp)
	resp.Topics = append(resp.Topics, rt)
	good := resp.AppendTo(nil)
	want := []wanted{{id: id, partition: 4}}
	got, err := parseFetch(&answer{b: good}, want)
	if err != nil || len(got) != 1 || got[0].stable != 8 || got[0].highWatermark != 9 || string(got[0].raw) != "batches" || !slices.Equal(got[0].aborted, []aborted{{5, 6}}) {
		f.Fatalf("%+v, %v", got, err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseFetch(&answer{b: b}, want)
		if err == nil && len(got) != 1 {
			t.Fatal("not one partition")
		}
	})
}
