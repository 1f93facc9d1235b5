//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package filesink

import (
	"fmt"
	"os"
	"runtime"

	"github.com/cepd/cepd/sinks"
)

func tryLock(*os.File) (bool, error) {
	return false, fmt.Errorf("%w: a file sink needs flock, which %s has not", sinks.ErrStop, runtime.GOOS)
}

func unlock(*os.File) error { return nil }
