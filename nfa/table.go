package nfa

import (
	"hash/maphash"
	"iter"
	"slices"
	"strings"
)

// table finds the Runs of a key. It is a hash table with linear probing (Knuth, TAOCP 6.4, algorithms L and R): a slot costs
// 12 bytes where one of a Go map costs 25, and unlike a Go map it shrinks again, so that keys that have gone cost nothing
// (S9).
type table struct {
	hashes []uint32 // with all marks; 0: the slot is free
	runs   []*Runs
	count  int
}

const tableMin = 16 // slots; a power of two, as all sizes are

// hashKey is 0 where the marks are.
func hashKey(key []byte) uint32 { return uint32(maphash.Bytes(seed, key)>>32) &^ marks }

func hashText(key string) uint32 { return uint32(maphash.String(seed, key)>>32) &^ marks }

// find returns the Runs of a key, or nil.
func (t *table) find(key []byte, hash uint32) *Runs {
	if t.count == 0 {
		return nil
	}
	mask := len(t.hashes) - 1
	hash |= marks
	for i := t.home(hash); ; i = (i + 1) & mask {
		switch h := t.hashes[i]; {
		case h == 0:
			return nil
		case h == hash && t.runs[i].key == string(key):
			return t.runs[i]
		}
	}
}

// home is where the search for a hash begins, whatever its marks.
func (t *table) home(hash uint32) int { return int(hash/(marks+1)) & (len(t.hashes) - 1) }

// insert adds Runs; false: there are some of that key.
func (t *table) insert(r *Runs) bool {
	if 4*(t.count+1) > 3*len(t.hashes) {
		t.resize(max(2*len(t.hashes), tableMin))
	}
	hash := r.hash | marks
	i := t.home(hash)
	for t.hashes[i] != 0 {
		if t.hashes[i] == hash && t.runs[i].key == r.key {
			return false
		}
		i = (i + 1) & (len(t.hashes) - 1)
	}
	t.hashes[i], t.runs[i] = hash, r
	t.count++
	return true
}

// reserve makes room for so many entries at once.
func (t *table) reserve(count int) {
	slots := tableMin
	for 3*slots < 4*(count+1) {
		slots *= 2
	}
	if slots > len(t.hashes) {
		t.resize(slots)
	}
}

func (t *table) put(hash uint32, r *Runs) {
	i := t.home(hash)
	for t.hashes[i] != 0 {
		i = (i + 1) & (len(t.hashes) - 1)
	}
	t.hashes[i], t.runs[i] = hash, r
}

// remove takes Runs out that are there, and moves later ones up that were displaced by them.
func (t *table) remove(r *Runs) {
	mask := len(t.hashes) - 1
	i := t.home(r.hash)
	for t.runs[i] != r {
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; t.hashes[j] != 0; j = (j + 1) & mask {
		// The one at j may move to i unless its home lies behind i.
		if (j-t.home(t.hashes[j]))&mask >= (j-i)&mask {
			t.hashes[i], t.runs[i] = t.hashes[j], t.runs[j]
			i = j
		}
	}
	t.hashes[i], t.runs[i] = 0, nil
	t.count--
	switch {
	case t.count == 0:
		*t = table{}
	case len(t.hashes) > tableMin && 8*t.count < len(t.hashes):
		t.resize(len(t.hashes) / 2)
	}
}

func (t *table) resize(slots int) {
	old := *t
	t.hashes, t.runs = make([]uint32, slots), make([]*Runs, slots)
	for i, h := range old.hashes {
		if h != 0 {
			t.put(h, old.runs[i])
		}
	}
}

// all goes over the Runs in no order that means anything.
func (t *table) all() iter.Seq[*Runs] {
	return func(yield func(*Runs) bool) {
		for _, r := range t.runs {
			if r != nil && !yield(r) {
				return
			}
		}
	}
}

// sorted gives the Runs in the order of their keys.
func (t *table) sorted() []*Runs {
	return slices.SortedFunc(t.all(), func(a, b *Runs) int { return strings.Compare(a.key, b.key) })
}
