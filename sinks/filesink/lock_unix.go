//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filesink

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks the file for this open file alone, without waiting. It ends with the process.
func tryLock(f *os.File) (bool, error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, err
		}
	}
}

func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
