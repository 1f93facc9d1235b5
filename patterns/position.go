package patterns

import "fmt"

// Pos is a place in a rule file. Line and Column count from 1, columns in runes; the zero Pos is no place.
type Pos struct {
	File         string
	Line, Column int
}

// String formats the position as editors and terminals link it.
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }
