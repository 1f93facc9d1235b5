package nfa

// Program is a compiled pattern. It is immutable and may be shared by goroutines.
type Program struct{ pattern Pattern }
