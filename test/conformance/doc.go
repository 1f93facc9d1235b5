// Package conformance holds cepd to what other engines do with the same patterns and events.
//
// A [Vector] is one case of a peer: a pattern, an input and what the peer made of it. [Vector.Rule] writes its pattern
// as a rule of cepd's own language, [Run] plays the input on the machine and on the oracle, [Decisions] is the file
// that says, vector by vector, where cepd means something else on purpose, and by which sentence of its semantics.
//
// The vectors are not part of the project. The test reads the folder in CEPD_VECTORS, or ../shared/vectors beside the
// checkout, and skips where there is none. Its last lines count, for each file, the vectors that are equal, decided, not
// expressible and wrong.
//
// # Concurrency
//
// A Vector is read-only once it is loaded; everything else belongs to one test.
//
// # Cost
//
// The translation is mechanical and each vector is small: the 4,600 vectors of FlinkCEP take some seconds.
//
// # Caveats
//
// A vector that differs can be decided only where the peer is known to be odd: it carries peer_quirk or raises. A vector
// that is listed as decided and turns out equal is a mistake in the list.
package conformance
