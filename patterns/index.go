package patterns

import (
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns/expression"
)

// Index finds the rules that an event may touch, at a cost that grows with their number and not with that of all rules. It
// may name a rule that the event turns out not to touch; it never leaves one out. It belongs to one goroutine.
//
// A rule for which every visible event counts (`strict`, `prev`) is found by an equality in its own `where`; any other one
// by an equality in the conditions of each of its elements, or in the rule's. A rule without such an equality is found by
// every event of its streams.
type Index struct {
	streams map[string]*streamIndex
	found   []int
	stamps  []uint64 // by rule: the lookup that found it last
	lookup  uint64
	// last is the partition of the last event, and current the index of its stream: most events are like the last.
	last    *cep.Partition
	current *streamIndex
}

// streamIndex is the index over the rules that read one stream.
type streamIndex struct {
	always []int // rules that every event may touch, ascending
	fields []*fieldIndex
}

// fieldIndex holds the rules that are found by one field.
type fieldIndex struct {
	slot    int
	strings map[string][]int
	others  map[string][]int // by the encoding of cep.AppendKeyPart
}

// NewIndex returns an index over the rules; lookups give positions in this list.
func NewIndex(rules []*Rule) *Index {
	x := &Index{streams: map[string]*streamIndex{}, stamps: make([]uint64, len(rules))}
	weight := constantsBySlot(rules)
	for i, r := range rules {
		for _, stream := range r.Streams {
			s := x.streams[stream]
			if s == nil {
				s = &streamIndex{}
				x.streams[stream] = s
			}
			s.add(i, r, stream, weight)
		}
	}
	return x
}

// constantsBySlot counts the different constants that each field is compared with: the more, the better a field tells
// rules apart.
func constantsBySlot(rules []*Rule) map[int]int {
	constants := map[int]map[string]bool{}
	note := func(x *expression.Expr) {
		if x == nil {
			return
		}
		for _, eq := range x.Equalities {
			if constants[eq.Slot] == nil {
				constants[eq.Slot] = map[string]bool{}
			}
			for _, v := range eq.Values {
				if k, ok := cep.AppendKeyPart(nil, v); ok {
					constants[eq.Slot][string(k)] = true
				}
			}
		}
	}
	for _, r := range rules {
		note(r.Where)
		for i := range r.Elements {
			note(r.Elements[i].Where)
		}
	}
	weight := map[int]int{}
	for slot, c := range constants {
		weight[slot] = len(c)
	}
	return weight
}

// add enters rule i for the events of a stream.
func (s *streamIndex) add(i int, r *Rule, stream string, weight map[int]int) {
	var entries []expression.Equality
	if everyEventCounts(r) {
		eq, ok := choose(weight, r.Where)
		if !ok {
			s.always = append(s.always, i)
			return
		}
		entries = append(entries, eq)
	} else {
		for j := range r.Elements {
			e := &r.Elements[j]
			if !slices.Contains(e.From, stream) {
				continue
			}
			eq, ok := choose(weight, r.Where, e.Where)
			if !ok {
				s.always = append(s.always, i)
				return
			}
			entries = append(entries, eq)
		}
	}
	for _, eq := range entries {
		f := s.field(eq.Slot)
		for _, v := range eq.Values {
			if v.Kind() == cep.KindString {
				f.strings[v.AsString()] = insert(f.strings[v.AsString()], i)
				continue
			}
			k, _ := cep.AppendKeyPart(nil, v)
			f.others[string(k)] = insert(f.others[string(k)], i)
		}
	}
}

// insert keeps a list of rules free of repetitions; rules come in ascending order.
func insert(list []int, i int) []int {
	if len(list) > 0 && list[len(list)-1] == i {
		return list
	}
	return append(list, i)
}

func (s *streamIndex) field(slot int) *fieldIndex {
	for _, f := range s.fields {
		if f.slot == slot {
			return f
		}
	}
	f := &fieldIndex{slot: slot, strings: map[string][]int{}, others: map[string][]int{}}
	s.fields = append(s.fields, f)
	return f
}

// everyEventCounts reports whether an event that no element takes can still change what the rule does.
func everyEventCounts(r *Rule) bool {
	for i := range r.Elements {
		e := &r.Elements[i]
		if e.Link == nfa.Strict || e.Loop == nfa.Strict || (e.Where != nil && e.Where.UsesPrev) {
			return true
		}
	}
	return false
}

// choose returns the equality that tells most, of those that hold whenever all the conditions do: on the field with the
// most constants, then with the fewest values.
func choose(weight map[int]int, conditions ...*expression.Expr) (best expression.Equality, ok bool) {
	for _, x := range conditions {
		if x == nil {
			continue
		}
		for _, eq := range x.Equalities {
			if !indexable(eq) {
				continue
			}
			if !ok || better(weight, eq, best) {
				best, ok = eq, true
			}
		}
	}
	return best, ok
}

func better(weight map[int]int, a, b expression.Equality) bool {
	if weight[a.Slot] != weight[b.Slot] {
		return weight[a.Slot] > weight[b.Slot]
	}
	if len(a.Values) != len(b.Values) {
		return len(a.Values) < len(b.Values)
	}
	return a.Slot < b.Slot
}

// indexable reports whether all values have an encoding: null and objects have none.
func indexable(eq expression.Equality) bool {
	for _, v := range eq.Values {
		if v.Kind() == cep.KindString {
			continue
		}
		if _, ok := cep.AppendKeyPart(nil, v); !ok {
			return false
		}
	}
	return true
}

// Lookup returns the positions of the rules that the event may touch, each once, in no particular order. The result is
// valid until the next call and must not be changed.
func (x *Index) Lookup(ev *cep.Event) []int {
	if p := ev.Position.Partition; p != x.last {
		x.last, x.current = p, x.streams[p.Stream]
	}
	s := x.current
	if s == nil {
		return nil
	}
	if len(s.fields) == 0 {
		return s.always
	}
	if len(s.fields) == 1 && len(s.always) == 0 {
		return s.fields[0].lookup(ev)
	}
	x.lookup++
	x.found = x.found[:0]
	x.merge(s.always)
	for _, f := range s.fields {
		x.merge(f.lookup(ev))
	}
	return x.found
}

func (x *Index) merge(list []int) {
	for _, i := range list {
		if x.stamps[i] != x.lookup {
			x.stamps[i] = x.lookup
			x.found = append(x.found, i)
		}
	}
}

// lookup returns the rules that the field's value leads to. It does not allocate.
func (f *fieldIndex) lookup(ev *cep.Event) []int {
	v := ev.Value(f.slot)
	if v.Kind() == cep.KindString {
		return f.strings[v.AsString()]
	}
	if len(f.others) == 0 {
		return nil
	}
	var buf [32]byte
	k, ok := cep.AppendKeyPart(buf[:0], v)
	if !ok {
		return nil
	}
	return f.others[string(k)]
}
