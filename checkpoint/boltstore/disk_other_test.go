//go:build !(linux && amd64)

package boltstore_test

import "testing"

func TestCrashStates(t *testing.T) {
	t.Skip("no recorder of writes for this system: linux/amd64 has one, run the test there")
}
