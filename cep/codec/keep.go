package codec

import (
	"strings"

	"github.com/cepd/cepd/cep"
)

// slabSize is the piece of memory that strings of many events share. One string that lives on keeps its piece alive, so
// pieces are small: the least that makes allocations rare (one in some 100 events).
const slabSize = 4 << 10

// internSlots is the number of strings remembered for each slot of the schema. Fields that rules compare hold few
// different strings (types, outcomes, countries): these are then copied once and not for each event.
const internSlots = 8

// internMax is the length above which a string is not remembered: names are short.
const internMax = 32

// Keeper copies what decoders have lent to events into memory that stays. The zero Keeper is ready. It belongs to one goroutine,
// which need not be that of a decoder.
type Keeper struct {
	slab   []byte
	intern [][internSlots]string
}

// Keep copies what a decoder has lent to an event.
func (k *Keeper) Keep(ev *cep.Event) {
	for len(k.intern) < len(ev.Values) {
		k.intern = append(k.intern, [internSlots]string{})
	}
	for i := range ev.Values {
		v := &ev.Values[i]
		switch v.Kind() {
		case cep.KindString:
			*v = cep.String(k.slotString(i, v.AsString()))
		case cep.KindList, cep.KindObject:
			*v = k.value(*v)
		default:
		}
	}
	if ev.Raw != nil {
		ev.Raw = append(make([]byte, 0, len(ev.Raw)), ev.Raw...)
	}
}

// slotString returns a copy of s, the one made for an earlier event where it is still remembered.
func (k *Keeper) slotString(slot int, s string) string {
	if s == "" || len(s) > internMax {
		return k.copy(s)
	}
	// Any mix of length and ends tells the names of one field apart well enough; a clash only costs a copy.
	at := &k.intern[slot][(uint(len(s))*7^uint(s[0])*3^uint(s[len(s)-1]))%internSlots]
	if *at != s {
		*at = k.copy(s)
	}
	return *at
}

func (k *Keeper) copy(s string) string {
	if len(s) > slabSize/4 {
		return strings.Clone(s)
	}
	if len(s) > cap(k.slab)-len(k.slab) {
		k.slab = make([]byte, 0, slabSize)
	}
	n := len(k.slab)
	k.slab = append(k.slab, s...)
	return lend(k.slab[n:])
}

func (k *Keeper) value(v cep.Value) cep.Value {
	switch v.Kind() {
	case cep.KindString:
		return cep.String(k.copy(v.AsString()))
	case cep.KindList:
		l := make([]cep.Value, len(v.AsList()))
		for i, x := range v.AsList() {
			l[i] = k.value(x)
		}
		return cep.List(l)
	case cep.KindObject:
		o := make([]cep.Member, len(v.AsObject()))
		for i, m := range v.AsObject() {
			o[i] = cep.Member{Name: k.copy(m.Name), Value: k.value(m.Value)}
		}
		return cep.Object(o)
	default:
		return v
	}
}
