package nfa

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrSnapshot says that bytes are no state that this version can read: damaged, of a newer version, or of another
// program. The state was not touched; the caller has to fall back to an older snapshot or to start without one.
var ErrSnapshot = errors.New("unreadable snapshot")

func appendInt(dst []byte, i int64) []byte { return binary.AppendVarint(dst, i) }

func appendUint(dst []byte, u uint64) []byte { return binary.AppendUvarint(dst, u) }

// unreadable is the error of a reader as one of this package.
func unreadable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrSnapshot, err)
}
