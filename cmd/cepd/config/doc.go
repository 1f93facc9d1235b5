// Package config reads the configuration of a job: one YAML file, what the environment and the command line say above it,
// and the defaults below.
//
// [Load] returns a [Config] whose values have all been checked, or all mistakes at once, as the diagnostics that rules have
// too. [Config.Print] writes what is in force, with where each value came from.
//
//	c, diagnostics, err := config.Load("cepd.yaml", config.Layers{Environment: os.Environ()})
//
// One table of settings says what there is: the file is read by it, variables are named by it, it is printed by it, and
// docs/configuration.md is made of it.
//
// # Concurrency
//
// A Config may be read by many goroutines.
//
// # Caveats
//
// Files that settings name are not opened, but for those of secrets. Variables and flags set what a file has: streams, sinks
// and their kinds come from the file alone.
package config
