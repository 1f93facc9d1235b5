package eventlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	lockName = "lock"
	// lockWait is how long a log in use is waited for: the process before may be about to end.
	lockWait  = 2 * time.Second
	lockRetry = 50 * time.Millisecond
)

// lock makes this process the owner of a directory. The file stays: removing it would let two own it.
func lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	held := false
	for end := time.Now().Add(lockWait); ; time.Sleep(lockRetry) {
		if held, err = tryLock(f); held || err != nil {
			break
		}
		if time.Now().After(end) {
			holder, _ := os.ReadFile(path) // it is only for the message
			return nil, errors.Join(fmt.Errorf("the log %s is %w by process %s: one process owns a log", dir, ErrLocked, strings.TrimSpace(string(holder))), f.Close())
		}
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}
