package filesource

import (
	"context"
	"errors"

	"github.com/cepd/cepd/cep/source"
)

// FollowerConfig says what a running job reads.
type FollowerConfig struct {
	// Stream is the stream that the files are partitions of.
	Stream string
	// Paths are files, directories and patterns as in [Config], but for Stdin. They need not be there yet.
	Paths []string
	// Partitions gives out the partitions; it knows Stream.
	Partitions *source.Partitions
	// Form is FormAuto where it is "".
	Form Form
	// MaxRecord is the limit of a record's size in bytes; source.MaxRecord where it is 0.
	MaxRecord int
	// Finite reads what is there and ends; else files are followed as they grow, and new ones are found.
	Finite bool
}

// Follower is the files of one stream, for a job that runs.
type Follower struct {
	config FollowerConfig
}

var _ source.Source = (*Follower)(nil)

// NewFollower checks the configuration. Nothing is opened yet.
func NewFollower(c FollowerConfig) (*Follower, error) {
	return &Follower{config: c}, nil
}

// Watch implements [source.Source].
func (f *Follower) Watch(ctx context.Context, known []string, d source.Discovery) error {
	return errors.ErrUnsupported
}

// Close implements [source.Source].
func (f *Follower) Close() error { return nil }
