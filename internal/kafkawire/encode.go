package kafkawire

import (
	"encoding/binary"
	"hash/crc32"
)

// producerState is what a transactional batch carries: who writes, and which of its records these are (KIP-98).
type producerState struct {
	id       int64
	epoch    int16
	sequence int32
}

// appendBatch appends one uncompressed batch. All records carry the same time, so that the broker's retention sees one clock.
func appendBatch(b []byte, records []Record, millis int64, p producerState, transactional bool, table *crc32.Table) []byte {
	be := binary.BigEndian
	at := len(b)
	b = append(b, make([]byte, batchHeader)...)
	for i := range records {
		r := &records[i]
		b = binary.AppendVarint(b, int64(recordSize(r, i)))
		b = append(b, 0, 0) // attributes, time delta
		b = binary.AppendVarint(b, int64(i))
		b = appendNullable(b, r.Key)
		b = appendNullable(b, r.Value)
		b = binary.AppendVarint(b, int64(len(r.Headers)))
		for _, h := range r.Headers {
			b = binary.AppendVarint(b, int64(len(h.Key)))
			b = append(b, h.Key...)
			b = appendNullable(b, h.Value)
		}
	}
	h := b[at:]
	be.PutUint32(h[atLength:], uint32(len(h)-beforeLength))
	be.PutUint32(h[beforeLength:], ^uint32(0)) // The leader puts its epoch there.
	h[atMagic] = 2
	if transactional {
		be.PutUint16(h[atAttrs:], attrTransactional)
	}
	be.PutUint32(h[atLastDelta:], uint32(len(records)-1))
	be.PutUint64(h[atFirstTime:], uint64(millis))
	be.PutUint64(h[atMaxTime:], uint64(millis))
	be.PutUint64(h[atProducer:], uint64(p.id))
	be.PutUint16(h[atEpoch:], uint16(p.epoch))
	be.PutUint32(h[atSequence:], uint32(p.sequence))
	be.PutUint32(h[atCount:], uint32(len(records)))
	be.PutUint32(h[atCRC:], crc32.Checksum(h[atAttrs:], table))
	return b
}

// recordSize is the size of record i of a batch, without its own length.
func recordSize(r *Record, i int) int {
	n := 2 + varintSize(int64(i)) + nullableSize(r.Key) + nullableSize(r.Value) + varintSize(int64(len(r.Headers)))
	for _, h := range r.Headers {
		n += varintSize(int64(len(h.Key))) + len(h.Key) + nullableSize(h.Value)
	}
	return n
}

func varintSize(v int64) int {
	n := 1
	for u := uint64(v)<<1 ^ uint64(v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

func nullableSize(p []byte) int {
	if p == nil {
		return 1
	}
	return varintSize(int64(len(p))) + len(p)
}

func appendNullable(b, p []byte) []byte {
	if p == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(p))), p...)
}
