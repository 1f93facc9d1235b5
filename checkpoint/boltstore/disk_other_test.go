//go:build !(linux && amd64)

package boltstore_test

import "testing"

func TestCrashStates(t *testing.T) {
	t.Skip("the writes of a process are recorded on linux/amd64 only: run this test there")
}
