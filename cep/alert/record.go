package alert

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/cepd/cepd/cep"
)

// What a Maker remembers as records, so that making it durable costs what has changed. docs/format/state.md draws them.
//
//	key    = 's', values of by   a span of suppression
//	         'o', key            an open alert
//	value  = version, span or open
//	span   = int end, uint sent, uint held
//	open   = int since time, uint since seq, int last, int remind, alert
const (
	recordSpan = 's'
	recordOpen = 'o'

	recordVersion = 1
)

// marks say what is known of a thing that is remembered.
type marks struct {
	listed bool // it stands among the changes
	stored bool // its record is out there: it was yielded or restored, and not forgotten
}

func (m *marks) mark() *marks { return m }

// changes are what has changed since somebody asked last. Nothing is listed until somebody has.
type changes[K ~string, V interface{ mark() *marks }] struct {
	asked bool
	list  []K
	gone  []K // stored and forgotten; what is remembered anew under one may be there as well
}

// note is told of what is new or has changed.
func (c *changes[K, V]) note(key K, v V) {
	if m := v.mark(); c.asked && !m.listed {
		m.listed = true
		c.list = append(c.list, key)
	}
}

// drop is told of what is forgotten.
func (c *changes[K, V]) drop(key K, v V) {
	if m := v.mark(); m.stored {
		c.gone = append(c.gone, key)
	}
}

// yield tells of the changes among all, the first time of all that there is.
func (c *changes[K, V]) yield(all map[K]V, changed func(K, V), gone func(K)) {
	if !c.asked {
		c.asked = true
		c.list = slices.Sorted(maps.Keys(all))
		for _, v := range all {
			v.mark().listed = true
		}
	}
	for _, key := range c.list {
		v, ok := all[key]
		if !ok || !v.mark().listed { // forgotten, or remembered anew and told of already
			continue
		}
		*v.mark() = marks{stored: true}
		changed(key, v)
	}
	for _, key := range c.gone {
		if _, ok := all[key]; !ok {
			gone(key)
		}
	}
	c.list, c.gone = nil, nil
}

// stored lists what is stored, in order.
func (c *changes[K, V]) stored(all map[K]V) []K {
	list := slices.Clone(c.gone)
	for key, v := range all {
		if v.mark().stored {
			list = append(list, key)
		}
	}
	slices.Sort(list)
	return list
}

// Changes calls yield once for each thing that the Maker remembers and that has changed since the last call, or since the Maker
// was made: a span of suppression, an open alert. Key and value are valid during the call; value is nil for what was yielded
// or restored before and is forgotten. The first call of a new Maker yields all that it remembers, also what it has adopted.
//
// What a Maker has joined is told of by the one that it was joined to. A Maker that was asked once must be asked again and
// again: the list of changes grows until then. Counters are no part of it.
func (m *Maker) Changes(yield func(key, value []byte)) {
	var k, v []byte
	if s := m.spans; !m.joinedSpans {
		s.changes.yield(s.open, func(key string, sp *span) {
			k, v = recordKey(k, recordSpan, key), sp.append(append(v[:0], recordVersion))
			yield(k, v)
		}, func(key string) {
			k = recordKey(k, recordSpan, key)
			yield(k, nil)
		})
	}
	if f := m.following; !m.joined {
		f.changes.yield(f.open, func(key cep.Key, o *openAlert) {
			k, v = recordKey(k, recordOpen, key), o.append(append(v[:0], recordVersion))
			yield(k, v)
		}, func(key cep.Key) {
			k = recordKey(k, recordOpen, key)
			yield(k, nil)
		})
	}
}

func recordKey[K ~string](dst []byte, kind byte, key K) []byte {
	return append(append(dst[:0], kind), key...)
}

// StoredKeys calls yield for the key of each thing that was yielded or restored and whose removal was not, in order: what
// has to go when the Maker does. What another Maker has adopted is among them.
func (m *Maker) StoredKeys(yield func(key []byte)) {
	var k []byte
	if f := m.following; !m.joined {
		for _, key := range f.changes.stored(f.open) {
			k = recordKey(k, recordOpen, key)
			yield(k)
		}
	}
	if s := m.spans; !m.joinedSpans {
		for _, key := range s.changes.stored(s.open) {
			k = recordKey(k, recordSpan, key)
			yield(k)
		}
	}
}

// Restore takes a record in, of a Maker with an equal plan; it keeps neither key nor value. When all are in, the Maker is told
// by [Maker.Restored]. The error wraps [cep.ErrBytes].
func (m *Maker) Restore(key, value []byte) error {
	if len(key) == 0 {
		return fmt.Errorf("restore what rule %s remembers: %w: a key without a kind", m.plan.Rule, cep.ErrBytes)
	}
	r := cep.NewReader(value)
	readVersion(&r, "record of alerts", recordVersion)
	switch kind, key := key[0], string(key[1:]); kind {
	case recordSpan:
		m.restoreSpan(&r, key)
	case recordOpen:
		m.restoreOpen(&r, cep.Key(key))
	default:
		r.Fail("unknown kind %q", kind)
	}
	if err := r.End(); err != nil {
		return fmt.Errorf("restore what rule %s remembers under %q: %w", m.plan.Rule, key, err)
	}
	return nil
}

func (m *Maker) restoreSpan(r *cep.Reader, key string) {
	s := m.spans
	if s.by == nil {
		r.Fail("a span of a rule that suppresses nothing")
		return
	}
	sp := &span{end: cep.Time(r.Int()), sent: r.Uint(), held: r.Uint(), marks: marks{stored: true}}
	r.Check(sp.sent <= uint64(s.by.Max), "more was sent than may be")
	r.Check(s.open[key] == nil, "it is there twice")
	if r.Err() == nil {
		s.open[key] = sp
	}
}

func (m *Maker) restoreOpen(r *cep.Reader, key cep.Key) {
	f := m.following
	if f.by == nil {
		r.Fail("an open alert of a rule whose alerts end as they begin")
		return
	}
	o := &openAlert{key: key, since: cep.Moment{Time: cep.Time(r.Int()), Seq: r.Uint()}, marks: marks{stored: true}}
	o.last, o.remind = cep.Time(r.Int()), cep.Time(r.Int())
	o.alert = readAlert(r)
	if parts, err := key.Parts(); err != nil || len(parts) != len(m.plan.Key) {
		r.Fail("it is no key of the rule")
	}
	r.Check(o.remind == cep.AfterAll || f.by.Repeat > 0, "a reminder of a rule that sends none")
	r.Check(f.open[key] == nil, "it is there twice")
	if r.Err() == nil {
		f.open[key] = o
	}
}

// Restored says that all records are in.
func (m *Maker) Restored() {
	s := m.spans
	for key, sp := range s.open {
		s.ends = append(s.ends, ending{sp.end, key})
	}
	slices.SortFunc(s.ends, func(a, b ending) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key)) })
	m.following.queue()
	s.changes.asked, m.following.changes.asked = true, true
}

func (s *span) append(dst []byte) []byte {
	dst = binary.AppendVarint(dst, int64(s.end))
	return binary.AppendUvarint(binary.AppendUvarint(dst, s.sent), s.held)
}

func (o *openAlert) append(dst []byte) []byte {
	dst = binary.AppendUvarint(binary.AppendVarint(dst, int64(o.since.Time)), o.since.Seq)
	dst = binary.AppendVarint(binary.AppendVarint(dst, int64(o.last)), int64(o.remind))
	return AppendAlert(dst, o.alert)
}
