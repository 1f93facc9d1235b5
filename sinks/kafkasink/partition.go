package kafkasink

import "encoding/binary"

// partition chooses one of n partitions for a record's key as the clients of Kafka do unless they are told otherwise, so that
// whoever knows the key knows the partition. Records without a key, which those clients spread, have one key here: the order
// of a rule without `by` is kept too.
func partition(key []byte, n int) int32 {
	return int32(murmur2(key)&0x7fffffff) % int32(n)
}

// murmur2 is MurmurHash 2 with the seed of Kafka's clients.
func murmur2(data []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * m
		k ^= k >> r
		h = h*m ^ k*m
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
