package nfa

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"

	"github.com/cepd/cepd/cep"
)

// set is a persistent set of values: adding one makes a new set that shares all but O(log n) with the old one, so that
// each node of a chain can have its own. nil is the empty set.
//
// It is a hash array mapped trie (Phil Bagwell, "Ideal Hash Trees", EPFL 2001): each level of the tree looks at the next
// 5 bits of the hash, and a bitmap says which of 32 children are there. Below the last level values are simply listed.
// Sets are never written to snapshots, so the hash may differ from process to process.
type set struct {
	bitmap   uint32
	children []child // by set bits of bitmap
	values   []cep.Value
}

// child is a value or a deeper set.
type child struct {
	value cep.Value
	deep  *set
}

const (
	setBits  = 5
	setDepth = 64 / setBits // levels before the bits of the hash are used up
)

// seed is drawn anew in each process, so that nobody can send values that collide.
var seed = maphash.MakeSeed()

// with returns the set that also has v; fresh is false, and the set the same, if v was in it.
func (s *set) with(v cep.Value) (_ *set, fresh bool) {
	return s.insert(v, hashValue(v), 0)
}

func (s *set) insert(v cep.Value, hash uint64, depth int) (_ *set, fresh bool) {
	if s == nil {
		s = &set{}
	}
	if depth == setDepth {
		if slices.ContainsFunc(s.values, func(w cep.Value) bool { return cep.Equal(v, w) }) {
			return s, false
		}
		return &set{values: append(slices.Clip(s.values), v)}, true
	}
	bit := uint32(1) << (hash >> (depth * setBits) & (1<<setBits - 1))
	at := bits.OnesCount32(s.bitmap & (bit - 1))
	if s.bitmap&bit == 0 {
		grown := make([]child, len(s.children)+1)
		copy(grown, s.children[:at])
		grown[at] = child{value: v}
		copy(grown[at+1:], s.children[at:])
		return &set{bitmap: s.bitmap | bit, children: grown}, true
	}
	c := s.children[at]
	if c.deep == nil {
		if cep.Equal(c.value, v) {
			return s, false
		}
		c.deep, _ = c.deep.insert(c.value, hashValue(c.value), depth+1)
	}
	deep, fresh := c.deep.insert(v, hash, depth+1)
	if !fresh {
		return s, false
	}
	children := slices.Clone(s.children)
	children[at] = child{deep: deep}
	return &set{bitmap: s.bitmap, children: children}, true
}

// hashValue gives values that are equal (by [cep.Equal]) equal hashes.
func hashValue(v cep.Value) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	writeHash(&h, v)
	return h.Sum64()
}

func writeHash(h *maphash.Hash, v cep.Value) {
	var b [8]byte
	word := func(tag byte, u uint64) {
		_ = h.WriteByte(tag)
		binary.LittleEndian.PutUint64(b[:], u)
		_, _ = h.Write(b[:])
	}
	switch k := v.Kind(); k {
	case cep.KindFloat:
		f := v.AsFloat()
		if f == math.Trunc(f) && f >= -1<<63 && f < 1<<63 { // equal to an int
			word(byte(cep.KindInt), uint64(int64(f)))
			return
		}
		word(byte(k), math.Float64bits(f))
	case cep.KindBool:
		_ = h.WriteByte(byte(k))
		if v.AsBool() {
			_ = h.WriteByte(1)
		}
	case cep.KindString:
		word(byte(k), uint64(len(v.AsString())))
		_, _ = h.WriteString(v.AsString())
	case cep.KindList:
		word(byte(k), uint64(len(v.AsList())))
		for _, x := range v.AsList() {
			writeHash(h, x)
		}
	case cep.KindObject:
		word(byte(k), uint64(len(v.AsObject()))) // members count in any order: their number must do
	default:
		word(byte(k), uint64(v.AsInt()))
	}
}
