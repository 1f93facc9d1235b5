//go:build !failpoints || !unix

package main

// failpoint returns nil: this program was not built to be killed at a step.
func failpoint() func(point string) { return nil }
