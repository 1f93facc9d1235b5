//go:build invariants || race

package invariant

import "fmt"

// Enabled says whether invariants are checked.
const Enabled = true

// Check panics with the message where ok is false.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}
