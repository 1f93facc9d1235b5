package job

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/cepd/cepd/checkpoint"
)

// memory is what the job itself has to remember with an epoch, beside what engine, sources and sinks do. It is the member
// "job" of the manifest's engine part; "engine" is the engine's own state.
type memory struct {
	Streams map[string]*streamMemory `json:"streams"`
}

type streamMemory struct {
	// Listed says that the stream's partitions were all found once: those that appear later are read from their beginning.
	Listed bool `json:"listed,omitempty"`
	// Passed is the wall clock up to which the stream's silence has been told to the engine, or its last event was read.
	Passed time.Time `json:"passed,omitzero"`
	// Starts says from where partitions are read of which nothing has been read yet.
	Starts map[string]int64 `json:"starts,omitempty"`
	// Identities are those of the partitions, as far as they have one beside their name: a topic may be made again.
	Identities map[string]string `json:"identities,omitempty"`
}

// memoryVersion is that of the envelope, whose other parts have versions of their own.
const memoryVersion = 1

type envelope struct {
	Version int             `json:"version"`
	Job     memory          `json:"job"`
	Engine  json.RawMessage `json:"engine"`
}

// seal makes the engine part of a manifest.
func seal(m memory, state json.RawMessage) (json.RawMessage, error) {
	data, err := json.Marshal(envelope{memoryVersion, m, state})
	if err != nil {
		return nil, fmt.Errorf("encode what the job remembers: %w", err)
	}
	return data, nil
}

// unseal reads what seal made.
func unseal(data json.RawMessage) (memory, json.RawMessage, error) {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return memory{}, nil, fmt.Errorf("decode what the job remembers: %w: %w", checkpoint.ErrDamaged, err)
	}
	if e.Version < 1 {
		return memory{}, nil, fmt.Errorf("what the job remembers has no version: %w", checkpoint.ErrDamaged)
	}
	if e.Version > memoryVersion {
		return memory{}, nil, fmt.Errorf("what the job remembers has version %d, this program reads up to %d: %w",
			e.Version, memoryVersion, checkpoint.ErrNewer)
	}
	return e.Job, e.Engine, nil
}

// of returns what is remembered of a stream.
func (m *memory) of(stream string) streamMemory {
	if s := m.Streams[stream]; s != nil {
		return *s
	}
	return streamMemory{}
}
