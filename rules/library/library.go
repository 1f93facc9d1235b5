// Package library holds the rules that come with cepd, each with tests for a hit, a near miss and the boundary between them:
// worked examples, and rules over the events of systems that are widely used.
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
// The files are part of the program: some 250 KiB.
//
// # Caveats
//
// Streams have the names of the demo, and in the worked examples fields too. Yours differ: change `from`, `by` and the
// conditions, and then the tests.
package library

import (
	"embed"
	"path"
	"slices"
)

// FS holds the rule files.
//
//go:embed *.yaml
var FS embed.FS

// worked are the files of the worked examples, which docs/examples.md explains.
var worked = []string{"admin.yaml", "auth.yaml", "chains.yaml", "endpoint.yaml", "orders.yaml", "payments.yaml", "sensors.yaml", "trades.yaml"}

// Worked reports whether the rules of a file are worked examples: over events that were made up for them. All other files are
// about events that some system really writes.
func Worked(file string) bool { return slices.Contains(worked, path.Base(file)) }
