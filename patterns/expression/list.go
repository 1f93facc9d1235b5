package expression

import (
	"github.com/cepd/cepd/cep"
)

// List is a constant set of values, named $name in expressions: 1 and 1.0 are one value, "1" another. `x in $name` asks
// for one of the values as it stands; cidr(x, $name) reads the texts among them as addresses and networks.
type List struct {
	members  map[string]struct{}
	values   []cep.Value
	networks networks
	// Reloads says that the values come from a file: what they are now says nothing of later.
	Reloads bool
}

// NewList returns the set of the values; what cannot be compared for equality (null, "", lists, objects) is left out.
func NewList(values []cep.Value) *List {
	l := &List{members: make(map[string]struct{}, len(values))}
	for _, v := range values {
		k, ok := cep.KeyOf(v)
		if !ok {
			continue
		}
		if _, known := l.members[string(k)]; known {
			continue
		}
		l.members[string(k)] = struct{}{}
		l.values = append(l.values, v)
		if v.Kind() == cep.KindString {
			if p, ok := parseNetwork(v.AsString()); ok {
				l.networks.add(p)
			}
		}
	}
	return l
}

// Len returns the number of different values.
func (l *List) Len() int { return len(l.values) }

// Values returns the different values in the order in which they were given. It must not be changed.
func (l *List) Values() []cep.Value { return l.values }

// Contains reports whether v is in the set. It does not allocate for values of up to 63 bytes.
func (l *List) Contains(v cep.Value) bool {
	var buf [64]byte
	k, ok := cep.AppendKeyPart(buf[:0], v)
	if !ok {
		return false
	}
	_, in := l.members[string(k)]
	return in
}

// Map is a constant table from keys to values, for lookup($name, key).
type Map struct{ values map[string]cep.Value }

// NewMap returns the table of keys[i] to values[i]; a later key wins.
func NewMap(keys, values []cep.Value) *Map {
	m := &Map{values: make(map[string]cep.Value, len(keys))}
	for i, v := range keys {
		if k, ok := cep.KeyOf(v); ok {
			m.values[string(k)] = values[i]
		}
	}
	return m
}

// Get returns the value of a key, missing where the table has none.
func (m *Map) Get(v cep.Value) cep.Value {
	var buf [64]byte
	k, ok := cep.AppendKeyPart(buf[:0], v)
	if !ok {
		return cep.Value{}
	}
	return m.values[string(k)]
}
