package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
)

// lane is what an alert must keep its order in.
type lane struct{ rule, key string }

// golden is what has to arrive: alerts as they are written, in order for each rule and key, and refused events by position.
type golden struct {
	alerts map[lane][]string
	number int
	// silenced is how many alerts silences hold back.
	silenced uint64
	refused  map[string]Fate // by stream, partition and offset
}

// newGolden plays the scenario through the engine without a job around it: nothing is checkpointed, nothing sent. That the
// engine itself means what the oracle means is held in cep/engine.
func newGolden(s *Scenario) (*golden, error) {
	set, err := compile(s.Rules)
	if err != nil {
		return nil, err
	}
	spec, err := codec.ParseTime("t,unix")
	if err != nil {
		return nil, err
	}
	g := &golden{alerts: map[lane][]string{}, refused: map[string]Fate{}}
	cfg := engine.ReplayConfig{Rules: set, Time: spec, Advance: s.Advance, Partitions: source.NewPartitions(streams...)}
	for i, name := range streams {
		cfg.Streams = append(cfg.Streams, engine.Stream{Name: name, Lateness: s.Lateness[i]})
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		id := cfg.Partitions.Get(p.Stream, p.Name)
		cfg.Readers = append(cfg.Readers, &memory{id: id, records: p.Records, skip: Future})
		for offset, r := range p.Records {
			if r.Fate != Taken {
				g.refused[place(p.Stream, p.Name, int64(offset))] = r.Fate
			}
		}
	}
	cfg.Alert = func(a *cep.Alert) error {
		line := alert.AppendJSON(nil, a)
		l, err := laneOf(line)
		g.alerts[l] = append(g.alerts[l], string(line))
		g.number++
		return err
	}
	summary, err := engine.Replay(context.Background(), cfg)
	if err != nil {
		return nil, err
	}
	var late uint64
	for i := range summary.Streams {
		late += summary.Streams[i].Late
	}
	for i := range summary.Rules {
		g.silenced += summary.Rules[i].Silenced
	}
	var want uint64
	for _, f := range g.refused {
		if f == Late {
			want++
		}
	}
	if late != want {
		return nil, fmt.Errorf("%d events are late, drawn were %d", late, want)
	}
	if s.Small {
		return g, g.holdAgainstOracle(s, set, spec)
	}
	return g, nil
}

// laneOf names the key as alerts write it.
func laneOf(line []byte) (lane, error) {
	var e envelope
	err := json.Unmarshal(line, &e)
	return lane{e.Rule, string(e.Key)}, err
}

func place(stream, partition string, offset int64) string {
	return fmt.Sprintf("%s/%s/%d", stream, partition, offset)
}

// memory reads a partition in memory to its end.
type memory struct {
	id      *cep.Partition
	records []Record
	next    atomic.Int64 // of the records
	skip    Fate         // records of this fate are passed over; Taken: none
}

// Partition implements [source.Reader].
func (m *memory) Partition() *cep.Partition { return m.id }

// Name implements [source.Reader].
func (m *memory) Name() string { return m.id.Stream + "/" + m.id.Name }

// Format implements [source.Reader].
func (m *memory) Format() source.Format { return source.Format{} }

// Next implements [source.Reader].
func (m *memory) Next(ctx context.Context) (source.Record, error) {
	for {
		if err := ctx.Err(); err != nil {
			return source.Record{}, err
		}
		at := m.next.Load()
		if at == int64(len(m.records)) {
			return source.Record{}, io.EOF
		}
		r := &m.records[at]
		m.next.Store(at + 1)
		if m.skip == Taken || r.Fate != m.skip {
			return source.Record{Data: r.Data, Offset: at}, nil
		}
	}
}

// SeekTo implements [source.Reader].
func (m *memory) SeekTo(offset int64) error {
	m.next.Store(min(offset, int64(len(m.records))))
	return nil
}

// Progress implements [source.Reader].
func (m *memory) Progress() (read, total int64) { return m.next.Load(), int64(len(m.records)) }

// Close implements [source.Reader].
func (m *memory) Close() error { return nil }
