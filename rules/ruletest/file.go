package ruletest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/patterns"
)

// file plays a recorded file: JSON lines, each with its own time. Where it is the first thing in a test, its first event is
// the test's zero.
func (b *bench) file(s *patterns.TestStep, first bool) error {
	data, err := b.set.ReadFile(s.Pos.File, s.File)
	if err != nil {
		return err
	}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		err := b.push(record{stream: s.From, data: line, recorded: true})
		var bad *codec.Error
		if errors.As(err, &bad) && bad.Kind == codec.NoTime {
			return fmt.Errorf("%s line %d: %w (looked for in %q)", s.File, number, err, TimeFields)
		}
		if err != nil {
			return fmt.Errorf("%s line %d: %w", s.File, number, err)
		}
		if first {
			b.zero, first = b.now, false
		}
	}
	if number == 0 {
		return fmt.Errorf("%s is empty", s.File)
	}
	return nil
}
