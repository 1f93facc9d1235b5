package patterns

import (
	"maps"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns/expression"
)

// Index finds the rules that an event may touch, at a cost that grows with their number and not with that of all rules. It
// may name a rule that the event turns out not to touch; it never leaves one out. It belongs to one goroutine.
//
// A rule is found element by element: by an equality in the conditions of the rule or the element, and behind it, in the
// same cache line, by the bounds of a number. Of a rule for which every visible event counts (`strict`, `prev`) only its
// own `where` is asked. What has no equality is looked at for every event of its streams, bounds or not: its conditions are
// asked, and their errors counted.
type Index struct {
	streams map[string]*streamIndex
	found   []int
	hits    []hit // by rule
	lookup  uint64
	// last is the partition of the last event, and current the index of its stream: most events are like the last.
	last    *cep.Partition
	current *streamIndex
}

// hit is what was found of a rule last.
type hit struct {
	lookup uint64 // the lookup that found it
	may    uint64 // the names whose conditions may hold
	sure   uint64 // those of them whose conditions do hold
}

// streamIndex is the index over the rules that read one stream.
type streamIndex struct {
	always []posting
	fields []*fieldIndex
}

// fieldIndex holds what is found by one field. The postings of a rule stand next to each other.
type fieldIndex struct {
	slot    int
	strings map[string][]posting
	others  map[string][]posting // by the encoding of cep.AppendKeyPart
}

// posting is an element of a rule that an event may touch, if the number in slot lies between min and max. It holds
// nothing but numbers: most events that find an element by its equality go no further than here.
type posting struct {
	rule, slot int32 // slot is noBound where any event will do
	min, max   float64
	names      uint64 // the element's name, or all of them
	sure       uint64 // the same, where that is all that its condition asks
}

const noBound = -1

// admits reports whether the event may touch the element.
func (p *posting) admits(ev *cep.Event) bool {
	if p.slot == noBound {
		return true
	}
	v := ev.Value(int(p.slot))
	if !v.IsNumber() {
		return false
	}
	f := v.AsFloat() // rounding keeps order, so a number at or above min stays there
	return f >= p.min && f <= p.max
}

// NewIndex returns an index over the rules; lookups give positions in this list.
func NewIndex(rules []*Rule) *Index {
	x := &Index{streams: map[string]*streamIndex{}, hits: make([]hit, len(rules))}
	weight := constantsBySlot(rules)
	for i, r := range rules {
		for _, stream := range r.Streams {
			x.stream(stream).add(i, r, stream, weight)
		}
		if over := r.Alert.Resolve; over != nil && over.Where != nil {
			for _, stream := range over.From {
				x.stream(stream).enter(i, 0, weight, nil, over.Where)
			}
		}
	}
	for _, s := range x.streams {
		for _, f := range s.fields {
			f.strings = packed(f.strings)
		}
	}
	return x
}

// packed returns the same map with its keys next to each other in memory, and its postings too: an event of each type
// leads to others, and what is spread over the whole heap is in no cache.
func packed(m map[string][]posting) map[string][]posting {
	order := slices.Collect(maps.Keys(m))
	text, n := strings.Join(order, ""), 0
	for _, list := range m {
		n += len(list)
	}
	all, out := make([]posting, 0, n), make(map[string][]posting, len(m))
	for _, k := range order {
		from := len(all)
		all = append(all, m[k]...)
		out[text[:len(k)]] = all[from:len(all):len(all)]
		text = text[len(k):]
	}
	return out
}

func (x *Index) stream(name string) *streamIndex {
	s := x.streams[name]
	if s == nil {
		s = &streamIndex{}
		x.streams[name] = s
	}
	return s
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
		for _, t := range takers(r) {
			note(t.where)
		}
		if r.Alert.Resolve != nil {
			note(r.Alert.Resolve.Where)
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
	if everyEventCounts(r) {
		s.enter(i, everyName, weight, r.Where, nil)
		return
	}
	for _, t := range takers(r) {
		if slices.Contains(t.from, stream) {
			s.enter(i, 1<<t.name, weight, r.Where, t.where)
		}
	}
}

// everyName is the mask of all names of a rule.
const everyName = ^uint64(0)

// enter enters rule i for the events for which both conditions may hold, that of the rule and that of some names. Either
// may be nil.
func (s *streamIndex) enter(i int, names uint64, weight map[int]int, rule, own *expression.Expr) {
	p := posting{rule: int32(i), slot: noBound, names: names}
	eq, ok := choose(weight, rule, own)
	if !ok {
		s.always = append(s.always, p)
		return
	}
	b, bounded := narrowest(eq.Slot, rule, own)
	if bounded {
		p.slot, p.min, p.max = int32(b.Slot), b.Min, b.Max
	}
	if own != nil && own.Whole && own.Equalities[0].Slot == eq.Slot && (rule == nil || len(rule.Equalities) == 0) &&
		(len(own.Bounds) == 0 || bounded && b == own.Bounds[0]) {
		p.sure = names
	}
	f := s.field(eq.Slot)
	for _, v := range eq.Values {
		if v.Kind() == cep.KindString {
			f.strings[v.AsString()] = append(f.strings[v.AsString()], p)
			continue
		}
		k, _ := cep.AppendKeyPart(nil, v)
		f.others[string(k)] = append(f.others[string(k)], p)
	}
}

func (s *streamIndex) field(slot int) *fieldIndex {
	for _, f := range s.fields {
		if f.slot == slot {
			return f
		}
	}
	f := &fieldIndex{slot: slot, strings: map[string][]posting{}, others: map[string][]posting{}}
	s.fields = append(s.fields, f)
	return f
}

// narrowest returns the bound of the smallest range, of those that hold whenever all the conditions do. About the field of
// the equality it would tell nothing new.
func narrowest(known int, conditions ...*expression.Expr) (best expression.Bound, ok bool) {
	for _, x := range conditions {
		if x == nil {
			continue
		}
		for _, b := range x.Bounds {
			if b.Slot == known {
				continue
			}
			if !ok || b.Max-b.Min < best.Max-best.Min {
				best, ok = b, true
			}
		}
	}
	return best, ok
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
// valid until the next call and must not be changed. It does not allocate.
func (x *Index) Lookup(ev *cep.Event) []int {
	if p := ev.Position.Partition; p != x.last {
		x.last, x.current = p, x.streams[p.Stream]
	}
	s := x.current
	if s == nil {
		return nil
	}
	x.lookup++
	x.found = x.found[:0]
	x.gather(s.always, ev)
	for _, f := range s.fields {
		x.gather(f.lookup(ev), ev)
	}
	return x.found
}

// gather adds the rules of the postings that admit the event.
func (x *Index) gather(list []posting, ev *cep.Event) {
	for i := range list {
		p := &list[i]
		if !p.admits(ev) {
			continue
		}
		h := &x.hits[p.rule]
		if h.lookup != x.lookup {
			*h = hit{lookup: x.lookup}
			x.found = append(x.found, int(p.rule))
		}
		h.may |= p.names
		h.sure |= p.sure
	}
}

// May returns the names of a rule that the last lookup has found whose conditions may hold, and those of them whose
// conditions do: those of all others are false for the event. See [Router.Narrow].
func (x *Index) May(rule int) (may, sure uint64) { return x.hits[rule].may, x.hits[rule].sure }

// lookup returns what the field's value leads to.
func (f *fieldIndex) lookup(ev *cep.Event) []posting {
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
