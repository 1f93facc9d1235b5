package nfa

import (
	"math"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
)

// met is what a step with first_seen has met: values, each with the time of the newest event that had them, linked in the
// order of these times.
type met struct {
	values         map[string]*meeting
	oldest, newest *meeting
}

type meeting struct {
	values       string
	time         cep.Time
	older, newer *meeting
}

func newMet() *met { return &met{values: map[string]*meeting{}} }

func (m *met) last(values string) (cep.Time, bool) {
	if x := m.values[values]; x != nil {
		return x.time, true
	}
	return 0, false
}

// note records an event that is not older than all before.
func (m *met) note(values string, t cep.Time) {
	x := m.values[values]
	if x == nil {
		x = &meeting{values: values}
		m.values[values] = x
	} else {
		m.unlink(x)
	}
	x.time, x.older = t, m.newest
	if m.newest == nil {
		m.oldest = x
	} else {
		m.newest.newer = x
	}
	m.newest = x
}

func (m *met) unlink(x *meeting) {
	if x.older == nil {
		m.oldest = x.newer
	} else {
		x.older.newer = x.newer
	}
	if x.newer == nil {
		m.newest = x.older
	} else {
		x.newer.older = x.older
	}
	x.older, x.newer = nil, nil
}

// forget drops what was met before a time only.
func (m *met) forget(before cep.Time) {
	for x := m.oldest; x != nil && x.time < before; x = m.oldest {
		m.unlink(x)
		delete(m.values, x.values)
	}
}

// appendEqual appends a value so that equal values (by [cep.Equal]) give equal bytes and others do not.
func appendEqual(dst []byte, v cep.Value) []byte {
	switch v.Kind() {
	case cep.KindFloat:
		if f := v.AsFloat(); f == math.Trunc(f) && f >= -1<<63 && f < 1<<63 {
			v = cep.Int(int64(f))
		}
		return cep.AppendValue(dst, v)
	case cep.KindList:
		dst = appendUint(append(dst, byte(cep.KindList)), uint64(len(v.AsList())))
		for _, x := range v.AsList() {
			dst = appendEqual(dst, x)
		}
		return dst
	case cep.KindObject:
		members := slices.Clone(v.AsObject())
		slices.SortStableFunc(members, func(a, b cep.Member) int { return strings.Compare(a.Name, b.Name) })
		dst = appendUint(append(dst, byte(cep.KindObject)), uint64(len(members)))
		for _, x := range members {
			dst = appendEqual(cep.AppendText(dst, x.Name), x.Value)
		}
		return dst
	default:
		return cep.AppendValue(dst, v)
	}
}
