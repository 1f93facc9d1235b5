// Package library holds the rules that come with cepd: worked examples that run, each with tests for a hit, a near miss and
// the boundary between them.
//
// There is one value, [FS], the YAML files. `cepd demo` runs them; copy one to begin a rule of your own.
//
//	set, diagnostics, err := rules.LoadFS(library.FS, ".")
//
// # Concurrency
//
// FS is read-only.
//
// # Cost
//
// The files are part of the program: some 20 KiB.
//
// # Caveats
//
// Field and stream names are those of the demo. Yours differ: change `from`, `by` and the conditions, and then the tests.
package library

import "embed"

// FS holds the rule files.
//
//go:embed *.yaml
var FS embed.FS
