package eventlog

import (
	"context"
	"errors"
	"io"

	"github.com/cepd/cepd/cep/source"
)

// SourceConfig says how a log is a stream.
type SourceConfig struct {
	Log        *Log
	Stream     string
	Partitions *source.Partitions
	// Input is read line by line into the log, as standard input; nil: something else appends.
	Input io.Reader
	// AcceptGap goes on behind a log that is gone although the job has read from it.
	AcceptGap bool
}

// Source is a log as the source of a stream: one partition. It does not close the log.
type Source struct{ config SourceConfig }

var (
	_ source.Source  = (*Source)(nil)
	_ source.Trimmer = (*Source)(nil)
)

// NewSource makes a source of a log.
func NewSource(c SourceConfig) *Source { return &Source{config: c} }

// Watch implements [source.Source].
func (s *Source) Watch(ctx context.Context, known []string, d source.Discovery) error {
	return errors.ErrUnsupported
}

// Trim implements [source.Trimmer].
func (s *Source) Trim(partition string, before int64) error { return errors.ErrUnsupported }

// Close implements [source.Source].
func (s *Source) Close() error { return nil }
