package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
)

// Secret is a password or key. However it is printed, it does not show.
type Secret struct {
	// File is where it was read from; "" where the environment holds it, or there is none.
	File  string
	value []byte
}

// hidden is what is shown of a secret.
const hidden = "(secret)"

// maxSecret is the largest file that is taken for a secret: keys have some thousand bytes, and what is larger is another
// file, named by mistake.
const maxSecret = 64 << 10

// Bytes returns the secret; nil where there is none.
func (s Secret) Bytes() []byte { return s.value }

// String hides the secret.
func (s Secret) String() string { return hidden }

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return hidden }

// Format hides the secret from every verb: its bytes too.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// LogValue hides the secret from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// read reads the file, if there is one. The last end of line is not part of the secret: editors write one.
func (s *Secret) read() error {
	if s.File == "" {
		return nil
	}
	info, err := os.Stat(s.File)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a directory")
	case info.Size() > maxSecret:
		return fmt.Errorf("it has %d bytes, and a secret has at most %d", info.Size(), maxSecret)
	}
	data, err := os.ReadFile(s.File)
	if err != nil {
		return err
	}
	data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	if len(data) == 0 {
		return errors.New("it is empty")
	}
	s.value = data
	return nil
}
