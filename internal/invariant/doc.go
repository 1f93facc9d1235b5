// Package invariant states what must hold whatever the input: a violation is a bug in this program, never bad input.
//
// [Check] panics under the build tags invariants and race and costs nothing elsewhere, because [Enabled] is a constant.
//
//	invariant.Check(a <= b, "interval [%d, %d] is upside down", a, b)
//
// Where the condition itself is expensive, ask first:
//
//	if invariant.Enabled {
//		m.check()
//	}
package invariant
