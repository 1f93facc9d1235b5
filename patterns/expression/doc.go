// Package expression checks and compiles the conditions and measures of rules.
//
// The language is that of github.com/expr-lang/expr, with the names and rules of docs/expressions.md: bare names are
// fields of the current event, step names are what the steps took, a missing value makes a comparison false. [Compile]
// makes an [Expr] of a text at a [Place], which says what the names mean there; mistakes come back as [Problem]s with
// their place in the text. An Expr is a few closures over [cep.Value] made from expr's syntax tree; rare builtins run on
// expr's own machine.
//
//	place := &expression.Place{Schema: schema, Event: true, Condition: true}
//	x, problems := expression.Compile(`type == "login" and amount > 100`, place)
//	ok, err := x.Test(&cep.Scope{Event: ev})
//
// # Concurrency
//
// An Expr, a [List] and a [Map] are immutable and may be shared by goroutines. A Place and the schema and aggregates in it
// belong to the goroutine that compiles.
//
// # Cost
//
// A comparison of a field with a constant costs about 3 ns, and a condition of fields, constants and taken events
// allocates nothing. What makes a new value (map, split, lower, a list that is not constant) allocates it. Sums, counts
// and the like over a step are kept up to date by the machine and cost the same however many events the step took.
//
// # Caveats
//
// An evaluation error is no panic and no third truth value: the condition is false, and the caller counts the error.
// Nothing reads a clock; the size of an expression, its nesting, and what an evaluation may visit and make are bounded.
package expression
