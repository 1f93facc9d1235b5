package cep

import "strings"

// Schema is the set of fields that any rule of a set reads: the decode plan. Each field has a slot, its index in
// [Event.Values]. It grows while rules compile; after that it is read-only.
type Schema struct {
	paths [][]string
	slots map[string]int
}

// NewSchema returns a schema without fields.
func NewSchema() *Schema { return &Schema{slots: map[string]int{}} }

// Slot returns the slot of a field and adds the field where it is new. The path's segments are the names from the outside
// in; a field of several segments (user, name) is found nested or as one flat key "user.name", and the flat key wins. The
// empty path is the whole event, as an object.
func (s *Schema) Slot(path ...string) int {
	k := strings.Join(path, "\x00")
	i, ok := s.slots[k]
	if len(path) == 0 {
		k = "\x00"
		i, ok = s.slots[k]
	}
	if !ok {
		i = len(s.paths)
		s.slots[k] = i
		s.paths = append(s.paths, append([]string{}, path...))
	}
	return i
}

// Len returns the number of slots.
func (s *Schema) Len() int { return len(s.paths) }

// Path returns the path of a slot. It must not be changed.
func (s *Schema) Path(slot int) []string { return s.paths[slot] }

// Name returns the path of a slot as users write it: user.name.
func (s *Schema) Name(slot int) string { return strings.Join(s.paths[slot], ".") }
