//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package eventlog

import (
	"errors"
	"os"
)

// tryLock refuses: two owners of a log would write over each other.
func tryLock(*os.File) (bool, error) {
	return false, errors.New("this system has no locks that a log of events could rely on")
}
