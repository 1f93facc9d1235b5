package kafkawire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A record batch of version 2 (KIP-98), big-endian:
//
//	 0 base offset  i64 | 8 length i32, of what follows | 12 leader epoch i32 | 16 magic i8 = 2 | 17 crc32c u32, of what follows
//	21 attributes   i16: 0-2 codec, 3 log append time, 4 transactional, 5 control
//	23 last delta   i32 | 27 first time i64 | 35 highest time i64
//	43 producer id  i64 | 51 producer epoch i16 | 53 first sequence i32 | 57 records i32
//	61 records, compressed as a whole:
//	   length varint | attributes i8 | time delta varint | offset delta varint
//	   key: length varint, -1 null | value: the same | headers: number varint, each key and value
const (
	batchHeader = 61
	atLength    = 8
	atMagic     = 16
	atCRC       = 17
	atAttrs     = 21
	atLastDelta = 23
	atFirstTime = 27
	atMaxTime   = 35
	atProducer  = 43
	atEpoch     = 51
	atSequence  = 53
	atCount     = 57
	// beforeLength is what the length does not count.
	beforeLength = 12

	attrCodec         = 0x07
	attrAppendTime    = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20

	markerAbort = 0

	// minRecord is the smallest record: a byte for each of its seven parts.
	minRecord = 7
	// maxInterned bounds the names of headers that a cursor remembers: producers use a handful, and one that makes them up
	// must not fill the memory.
	maxInterned = 64
)

var (
	errPartial = errors.New("the batch is cut off")
	errCRC     = errors.New("the checksum is wrong")
	errRecord  = errors.New("a record is malformed")
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Header is a header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Record is what a producer wrote.
type Record struct {
	// Offset is the place in the partition; assigned by the broker.
	Offset int64
	// Time is in milliseconds since 1970: the producer's, or the broker's where AppendTime says so. What is produced here
	// gets the wall clock, whatever stands in it.
	Time int64
	// AppendTime says that the topic notes when a record was appended (message.timestamp.type=LogAppendTime).
	AppendTime bool
	// Key and Value may be nil; a nil Value removes the key from a compacted topic.
	Key, Value []byte
	Headers    []Header
}

// batchView is a batch that has been checked, in the bytes it came in.
type batchView struct {
	base, last int64
	attrs      uint16
	firstTime  int64
	maxTime    int64
	producer   int64
	count      int32
	body       []byte
}

// batchSize returns the size of the batch that b begins with, however much of it is there; 0 where even that cannot be read.
func batchSize(b []byte) int64 {
	if len(b) < beforeLength {
		return 0
	}
	return beforeLength + int64(int32(binary.BigEndian.Uint32(b[atLength:])))
}

// lastOffset is the last offset of the batch that b begins with, which need not hold a record any more.
func lastOffset(b []byte) int64 {
	return int64(binary.BigEndian.Uint64(b)) + int64(int32(binary.BigEndian.Uint32(b[atLastDelta:])))
}

// nextBatch splits the first batch off b; errPartial where b ends before it does.
func nextBatch(b []byte) (batch, rest []byte, err error) {
	if len(b) < beforeLength {
		return nil, b, errPartial
	}
	n := batchSize(b)
	if n < batchHeader {
		return nil, b, fmt.Errorf("a batch of %d bytes", n)
	}
	if n > int64(len(b)) {
		return nil, b, errPartial
	}
	return b[:n:n], b[n:], nil
}

// nextOffset is the offset behind the last whole batch in b, or offset where there is none.
func nextOffset(b []byte, offset int64) int64 {
	for {
		batch, rest, err := nextBatch(b)
		if err != nil {
			return offset
		}
		offset, b = max(offset, lastOffset(batch)+1), rest
	}
}

// viewBatch checks a whole batch.
func viewBatch(b []byte, table *crc32.Table) (v batchView, err error) {
	be := binary.BigEndian
	if magic := b[atMagic]; magic != 2 {
		return v, fmt.Errorf("records of format %d: only 2 (Kafka 0.11 and later) is read", magic)
	}
	if be.Uint32(b[atCRC:]) != crc32.Checksum(b[atAttrs:], table) {
		return v, errCRC
	}
	v = batchView{
		base: int64(be.Uint64(b)), last: lastOffset(b), attrs: be.Uint16(b[atAttrs:]),
		firstTime: int64(be.Uint64(b[atFirstTime:])), maxTime: int64(be.Uint64(b[atMaxTime:])),
		producer: int64(be.Uint64(b[atProducer:])), count: int32(be.Uint32(b[atCount:])), body: b[batchHeader:],
	}
	if v.base < 0 || v.last < v.base || v.count < 0 {
		return v, errRecord
	}
	return v, nil
}

// aborted is one entry of a fetch's list of aborted transactions.
type aborted struct{ producer, first int64 }

// page is one answered fetch of one partition, as it came.
type page struct {
	raw []byte
	// aborted is in order of first offsets.
	aborted []aborted
	// active are the producers whose aborted transaction has begun and not ended yet.
	active map[int64]bool
}

// decoder reads records out of pages. What it returns is valid until the next call.
type decoder struct {
	codecs  *codecs
	table   *crc32.Table
	records []Record
	headers []Header
	plain   []byte
	names   map[string]string
}

func newDecoder(codecs *codecs) decoder {
	return decoder{codecs: codecs, table: castagnoli(), names: map[string]string{}}
}

// next decodes the first batch of the page that holds a record which a read_committed consumer may see at or above offset.
// It returns none with the page at its end, and always the offset to go on from.
func (d *decoder) next(p *page, offset int64) ([]Record, int64, error) {
	for {
		raw, rest, err := nextBatch(p.raw)
		if errors.Is(err, errPartial) { // Cut by the limit of bytes: the next fetch begins with it.
			p.raw = nil
			return nil, offset, nil
		}
		if err != nil {
			return nil, offset, err
		}
		if lastOffset(raw) < offset {
			p.raw = rest
			continue
		}
		v, err := viewBatch(raw, d.table)
		if err != nil {
			return nil, offset, err
		}
		if p.hides(&v) {
			offset, p.raw = v.last+1, rest
			continue
		}
		records, err := d.decode(&v, offset)
		if err != nil {
			return nil, offset, err
		}
		offset, p.raw = v.last+1, rest
		if len(records) > 0 {
			return records, offset, nil
		}
	}
}

// hides keeps the list of aborted transactions up to the batch, and says whether its records are none for the reader.
func (p *page) hides(v *batchView) bool {
	// Before every batch, markers too: a fetch may begin at the abort marker itself, and the broker still lists that
	// transaction. Left on the list it would hide the producer's next one, which may be committed.
	for len(p.aborted) > 0 && p.aborted[0].first <= v.last {
		if p.active == nil {
			p.active = map[int64]bool{}
		}
		p.active[p.aborted[0].producer] = true
		p.aborted = p.aborted[1:]
	}
	if v.attrs&attrControl != 0 {
		// The marker of a transaction that is not listed ends nothing; a batch without records is a marker that was
		// compacted away.
		if v.marker() == markerAbort {
			delete(p.active, v.producer)
		}
		return true
	}
	return v.attrs&attrTransactional != 0 && p.active[v.producer]
}

// marker returns the kind of a control batch; -1 where it holds none.
func (v *batchView) marker() int {
	if v.count == 0 {
		return -1
	}
	f := fields{b: v.body}
	f.varint()
	f.octet()
	f.varint()
	f.varint()
	key := f.bytes() // version i16, kind i16
	if f.bad || len(key) < 4 {
		return -1
	}
	return int(int16(binary.BigEndian.Uint16(key[2:])))
}

func (d *decoder) decode(v *batchView, offset int64) ([]Record, error) {
	d.records, d.headers = d.records[:0], d.headers[:0]
	if v.count == 0 { // Compacted to nothing.
		return nil, nil
	}
	body := v.body
	if codec := v.attrs & attrCodec; codec != 0 {
		plain, err := d.codecs.decompress(codec, body, d.plain[:0])
		if err != nil {
			return nil, err
		}
		body = plain
		if cap(plain) <= keepPlain {
			d.plain = plain
		}
	}
	if int64(v.count)*minRecord > int64(len(body)) {
		return nil, fmt.Errorf("%w: %d records in %d bytes", errRecord, v.count, len(body))
	}
	f := fields{b: body}
	appended := v.attrs&attrAppendTime != 0
	for range v.count {
		size := f.varint()
		if size < 0 || size > int64(len(f.b)) {
			return nil, errRecord
		}
		one := fields{b: f.b[:size]}
		f.b = f.b[size:]
		one.octet() // attributes, unused
		r := Record{Time: v.firstTime + one.varint(), Offset: v.base + one.varint(), AppendTime: appended}
		if appended {
			r.Time = v.maxTime
		}
		r.Key, r.Value = one.bytes(), one.bytes()
		n := one.varint()
		if n < 0 || 2*n > int64(len(one.b)) { // A header takes two lengths.
			return nil, errRecord
		}
		begin := len(d.headers)
		for range n {
			key := one.bytes()
			d.headers = append(d.headers, Header{Key: d.name(key), Value: one.bytes()})
		}
		if n > 0 {
			r.Headers = d.headers[begin:len(d.headers):len(d.headers)]
		}
		if one.bad || len(one.b) > 0 || r.Offset < v.base || r.Offset > v.last {
			return nil, errRecord
		}
		if r.Offset >= offset {
			d.records = append(d.records, r)
		}
	}
	if f.bad || len(f.b) > 0 {
		return nil, errRecord
	}
	return d.records, nil
}

// name returns a header's name without an allocation for those seen before.
func (d *decoder) name(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(d.names) < maxInterned {
		d.names[s] = s
	}
	return s
}

// fields reads the parts of records. After a mistake all is zero.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) octet() {
	if len(f.b) == 0 {
		f.bad = true
		return
	}
	f.b = f.b[1:]
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.b)
	if n <= 0 {
		f.bad, f.b = true, nil
		return 0
	}
	f.b = f.b[n:]
	return v
}

// bytes returns nil for null.
func (f *fields) bytes() []byte {
	n := f.varint()
	if n < 0 || f.bad {
		return nil
	}
	if n > int64(len(f.b)) {
		f.bad, f.b = true, nil
		return nil
	}
	p := f.b[:n:n]
	f.b = f.b[n:]
	return p
}
