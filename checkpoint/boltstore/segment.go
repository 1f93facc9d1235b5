package boltstore

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/cepd/cepd/checkpoint"
)

// A segment holds records of several slots, those of one slot together in a run. Each run has its own checksum, so that a
// fold reads and verifies one slot alone, and damage in one run is no damage of another.
//
//	segment   = head, entries, runs
//	head      = 's', version, count of entries (2), part (4), number of parts (4), size of the segment (4), checksum (4)
//	entry     = slot (1), 0 (3), records (4), offset of the run in the segment (4), checksum of the run (4)
//	run       = records
//	record    = uvarint length of the key, uvarint length of the value + 1 (0: removed), key, value
//
// Entries ascend by slot, runs lie behind each other in their order. The checksum of the head is over the place of the
// segment, the head before it, and all entries.
const (
	segmentHead  = 20
	segmentEntry = 16
	// segmentSize is the size from which a segment is closed. Of 100,000 records one value each took 35 times as long to
	// commit as values of a megabyte; above that nothing was gained.
	segmentSize = 1<<20 - 4096
)

// run is the records of one slot in one segment.
type run struct {
	slot    uint8
	records uint32
	sum     uint32
	data    []byte
}

// sound verifies the run.
func (r *run) sound() bool { return crc32.Checksum(r.data, castagnoli) == r.sum }

// each calls f for every record in order, and reports whether the run could be read to its end.
func (r *run) each(f func(key, value []byte)) bool {
	b := r.data
	for n := r.records; n > 0; n-- {
		keySize, i := binary.Uvarint(b)
		if i <= 0 {
			return false
		}
		valueSize, j := binary.Uvarint(b[i:])
		if j <= 0 {
			return false
		}
		b = b[i+j:]
		if keySize > uint64(len(b)) || valueSize > uint64(len(b))-keySize+1 {
			return false
		}
		key := b[:keySize:keySize]
		b = b[keySize:]
		if valueSize == 0 {
			f(key, nil)
			continue
		}
		valueSize--
		if valueSize > uint64(len(b)) {
			return false
		}
		f(key, b[:valueSize:valueSize])
		b = b[valueSize:]
	}
	return len(b) == 0
}

func appendRecord(b, key, value []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(key)))
	if value == nil {
		return append(append(b, 0), key...)
	}
	b = binary.AppendUvarint(b, uint64(len(value))+1)
	return append(append(b, key...), value...)
}

// packer makes segments of records that come by ascending slot.
type packer struct {
	// room is how many bytes are expected, so that memory is asked for once.
	room    int
	parts   []part
	records uint64
	bytes   uint64
}

// part is a segment before its head is known: in front of its body there is room for the largest head.
type part struct {
	runs []run
	body []byte
}

const headRoom = segmentHead + segmentEntry*checkpoint.Slots

// add appends a record.
func (p *packer) add(slot uint8, key, value []byte) {
	if n := len(p.parts); n == 0 || len(p.parts[n-1].body) >= headRoom+segmentSize {
		p.grow()
	}
	s := &p.parts[len(p.parts)-1]
	if n := len(s.runs); n == 0 || s.runs[n-1].slot != slot {
		s.runs = append(s.runs, run{slot: slot, sum: uint32(len(s.body))}) // sum: where the run begins, until it is sealed
	}
	s.body = appendRecord(s.body, key, value)
	s.runs[len(s.runs)-1].records++
	p.records++
}

func (p *packer) grow() {
	const slack = 16 << 10 // for the record that fills it
	p.parts = append(p.parts, part{body: make([]byte, headRoom, headRoom+min(p.room, segmentSize+slack))})
}

// seal hands out the finished segments. There is always one, so that one which is missing is noticed.
func (p *packer) seal(place []byte, put func(part uint32, segment []byte) error) error {
	if len(p.parts) == 0 {
		p.grow()
	}
	for i := range p.parts {
		s := &p.parts[i]
		head := segmentHead + segmentEntry*len(s.runs)
		b := s.body[headRoom-head:] // the head lies in what is left of its room
		b[0], b[1] = kindSegment, version
		binary.BigEndian.PutUint16(b[2:], uint16(len(s.runs)))
		binary.BigEndian.PutUint32(b[4:], uint32(i))
		binary.BigEndian.PutUint32(b[8:], uint32(len(p.parts)))
		binary.BigEndian.PutUint32(b[12:], uint32(len(b)))
		for j, r := range s.runs {
			end := len(s.body)
			if j+1 < len(s.runs) {
				end = int(s.runs[j+1].sum)
			}
			e := b[segmentHead+segmentEntry*j:]
			e[0] = r.slot
			binary.BigEndian.PutUint32(e[4:], r.records)
			binary.BigEndian.PutUint32(e[8:], uint32(head)+r.sum-headRoom)
			binary.BigEndian.PutUint32(e[12:], crc32.Checksum(s.body[r.sum:end], castagnoli))
		}
		binary.BigEndian.PutUint32(b[16:], segmentSum(b[:head], place))
		p.bytes += uint64(len(b))
		s.body = nil
		if err := put(uint32(i), b); err != nil {
			return err
		}
	}
	return nil
}

func segmentSum(head, place []byte) uint32 {
	sum := crc32.Update(0, castagnoli, place)
	sum = crc32.Update(sum, castagnoli, head[:16])
	return crc32.Update(sum, castagnoli, head[segmentHead:])
}

// segment is a segment of which the head and the entries are sound.
type segment struct {
	part, parts uint32
	runs        []run
}

// readSegment verifies the head and entries of a segment, not its runs. It returns what is wrong, "" if nothing is.
func readSegment(place, v []byte) (segment, string) {
	var s segment
	if len(v) < segmentHead || v[0] != kindSegment {
		return s, "it is no segment"
	}
	head := segmentHead + segmentEntry*int(binary.BigEndian.Uint16(v[2:]))
	switch {
	case len(v) < head || binary.BigEndian.Uint32(v[12:]) != uint32(len(v)):
		return s, "it is cut short"
	case binary.BigEndian.Uint32(v[16:]) != segmentSum(v[:head], place):
		return s, "its checksum does not fit"
	case v[1] != version:
		return s, "its version is not known"
	}
	s.part, s.parts = binary.BigEndian.Uint32(v[4:]), binary.BigEndian.Uint32(v[8:])
	at := uint32(head)
	for e := v[segmentHead:head]; len(e) > 0; e = e[segmentEntry:] {
		end := uint32(len(v))
		if len(e) > segmentEntry {
			end = binary.BigEndian.Uint32(e[segmentEntry+8:])
		}
		if binary.BigEndian.Uint32(e[8:]) != at || end < at || end > uint32(len(v)) {
			return s, "its runs do not lie behind each other"
		}
		r := run{slot: e[0], records: binary.BigEndian.Uint32(e[4:]), sum: binary.BigEndian.Uint32(e[12:]), data: v[at:end:end]}
		if n := len(s.runs); n > 0 && s.runs[n-1].slot >= r.slot {
			return s, "its slots do not ascend"
		}
		s.runs = append(s.runs, r)
		at = end
	}
	if at != uint32(len(v)) {
		return s, "it has bytes behind its runs"
	}
	return s, ""
}

// packRecords makes segments of the records of a commit. Records of a slot keep their order.
func packRecords(records []checkpoint.Record) *packer {
	// By counting: it is stable, and records of 256 slots need no comparison.
	var starts [checkpoint.Slots + 1]int
	for i := range records {
		starts[int(records[i].Slot)+1]++
	}
	for s := range checkpoint.Slots {
		starts[s+1] += starts[s]
	}
	order := make([]int32, len(records))
	for i := range records {
		s := records[i].Slot
		order[starts[s]] = int32(i)
		starts[s]++
	}
	p := &packer{}
	for i := range records {
		p.room += len(records[i].Key) + len(records[i].Value) + 8
	}
	for _, i := range order {
		r := &records[i]
		p.add(r.Slot, r.Key, r.Value)
	}
	return p
}

// find returns the runs of a slot.
func (s *segment) find(slot uint8) []run {
	i, ok := slices.BinarySearchFunc(s.runs, slot, func(r run, slot uint8) int { return int(r.slot) - int(slot) })
	if !ok {
		return nil
	}
	return s.runs[i : i+1]
}
