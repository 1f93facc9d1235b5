// Package graph draws rules.
//
// [Of] makes a [Graph] of a compiled rule: its steps, absences and choices as nodes, and how a match may go from one to the
// next as edges. A graph prints itself as [Graph.DOT] for Graphviz, as [Graph.Mermaid] for pages that draw such, and as
// [Graph.SVG], laid out here, for everything that shows pictures.
//
//	g := graph.Of(rule)
//	os.Stdout.Write(g.SVG())
//
// # Concurrency
//
// A Graph is immutable.
//
// # Cost
//
// A drawing is quadratic in the number of nodes, of which a rule has some hundred at most.
//
// # Caveats
//
// A graph shows what may follow what, not every word of the rule: long conditions are cut, and what they compare is no edge.
package graph
