// Package patterns turns rule files into programs for the machine.
//
// A [Source] is the text of a file. [Load] reads many together and returns a [Set] of checked, compiled rules, or
// [Diagnostics]: every mistake of every file, each with its line, its column, a code and often what to write instead. A
// [Rule] is what the rest of the program works with; its Program runs on a machine of package nfa, its elements and
// expressions are what the oracle works from, and a [Router] says which keys an event belongs to.
//
//	set, diagnostics := patterns.Load(sources, patterns.Options{})
//	if set == nil {
//		return diagnostics
//	}
//	for _, rule := range set.Rules {
//		fmt.Println(rule.ID, rule.Fingerprint, rule.Program)
//	}
//
// A file goes through three stages, and each prints. Reading makes a syntax tree that keeps what was written, with one
// place a node. Checking gives the words their meaning, compiles the expressions and refuses what cannot be meant.
// Lowering makes an nfa.Pattern: predicates on the current event alone are shared by all rules of the set.
//
// # Concurrency
//
// A Set and everything in it is immutable and may be shared by goroutines, but for the [Router], which belongs to one.
//
// # Cost
//
// Load is linear in the text. It reads no clock and no files, other than those that lists and maps name, through
// [Options].
//
// # Caveats
//
// Expressions that YAML tears apart for want of quotes are recognised and shown with the quotes; the rest of such a line
// is not looked at until it is mended.
package patterns
