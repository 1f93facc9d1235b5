package source

import (
	"slices"
	"strings"
	"sync"

	"github.com/cepd/cepd/cep"
)

// Partitions gives out partitions: one for each (stream, name), so that their pointers compare.
type Partitions struct {
	streams []string // in the order of the configuration
	mu      sync.Mutex
	known   map[partitionKey]*cep.Partition
}

type partitionKey struct{ stream, name string }

// NewPartitions takes the names of the streams in the order of the configuration, which orders events of one time.
func NewPartitions(streams ...string) *Partitions {
	return &Partitions{streams: slices.Clone(streams), known: map[partitionKey]*cep.Partition{}}
}

// Get returns the partition, nil where there is no such stream.
func (p *Partitions) Get(stream, name string) *cep.Partition {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := partitionKey{stream, name}
	q := p.known[k]
	if q == nil {
		order := slices.Index(p.streams, stream)
		if order < 0 {
			return nil
		}
		// The caller's strings may be lent: a decoder's live until its next event.
		k = partitionKey{p.streams[order], strings.Clone(name)}
		q = &cep.Partition{Stream: k.stream, Name: k.name, Order: order}
		p.known[k] = q
	}
	return q
}
