// Package eventlog keeps events that cannot be read again: what comes over HTTP, or from standard input.
package eventlog
