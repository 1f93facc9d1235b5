package engine

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
)

// standingVersion is the version of [standing]; docs/format/engine.md draws it.
const standingVersion = 1

// standing is where a Core stands, but for what is in the records of its rules: [Cut.State]. Times are in nanoseconds.
type standing struct {
	Version int `json:"version"`
	// Schema are the paths of the fields by slot: what machines keep of events stands in that order.
	Schema [][]string `json:"schema"`
	// Numbers is the last number given to a version, a book, a partition or an alert.
	Numbers uint64 `json:"numbers"`
	// Arrivals is the number of events handed to lanes, Alerts that of alerts, and Seq the highest number of an event in any
	// lane.
	Arrivals uint64         `json:"arrivals"`
	Alerts   uint64         `json:"alerts"`
	Seq      uint64         `json:"seq"`
	Streams  []streamState  `json:"streams"`
	Clocks   []clockState   `json:"clocks"`
	Rules    []versionState `json:"rules"`
}

type streamState struct {
	Name       string           `json:"name"`
	Released   cep.Time         `json:"released"`
	Floor      cep.Time         `json:"floor"`
	First      cep.Time         `json:"first"`
	Summary    StreamSummary    `json:"summary"`
	Partitions []partitionState `json:"partitions"`
}

type partitionState struct {
	Name   string `json:"name"`
	Number uint64 `json:"number"`
	// Highest and Watermark are those of the partition where it has to be read again from, which is Offset.
	Highest   cep.Time `json:"highest"`
	Watermark cep.Time `json:"watermark"`
	Offset    int64    `json:"offset"`
	// Reached is the watermark that it has reached.
	Reached cep.Time `json:"reached"`
	Idle    bool     `json:"idle,omitempty"`
	Ended   bool     `json:"ended,omitempty"`
	// Done says that nothing has to be read again.
	Done    bool  `json:"done,omitempty"`
	Read    int64 `json:"read"`
	Settled int64 `json:"settled"`
	// Refused are stretches of events, by the offsets of their first and last.
	Refused []stretch `json:"refused,omitempty"`
	id      *cep.Partition
}

type clockState struct {
	Name     string   `json:"name"`
	Released cep.Time `json:"released"`
	First    cep.Time `json:"first"`
	Alerts   uint64   `json:"alerts,omitempty"`
}

type versionState struct {
	Rule        string `json:"rule"`
	Fingerprint string `json:"fingerprint"`
	Number      uint64 `json:"number"`
	Book        uint64 `json:"book"`
	// Set is the id of the set that an older version belongs to, Until how far its time may go; "" for the newest.
	Set   string   `json:"set,omitempty"`
	Until cep.Time `json:"until,omitempty"`
	After cep.Time `json:"after"`
	// Clock is the name of its clock.
	Clock    string `json:"clock"`
	Disabled string `json:"disabled,omitempty"`
	Mute     bool   `json:"mute,omitempty"`
}

// stand says where the front stands; what only the back knows is filled in there.
func (c *Core) stand() (*standing, error) {
	s := &standing{Version: standingVersion, Numbers: c.numbers, Arrivals: c.arrivals}
	for slot := range c.set.Schema.Len() {
		s.Schema = append(s.Schema, c.set.Schema.Path(slot))
	}
	for _, st := range c.streams {
		x := streamState{Name: st.Name, Released: st.released, Floor: st.floor, First: st.first, Summary: st.summary.clone()}
		x.Summary.Highest = st.highest
		for _, p := range st.partitions {
			if len(p.carried) > 0 {
				return nil, fmt.Errorf("partition %s of stream %s: %w", p.id.Name, p.id.Stream, errCarried)
			}
			x.Partitions = append(x.Partitions, p.stand())
		}
		s.Streams = append(s.Streams, x)
	}
	for _, k := range c.clocks {
		s.Clocks = append(s.Clocks, clockState{Name: k.name, Released: k.released, First: k.first})
	}
	return s, nil
}

// stand says from where a partition has to be read again, and what must not be counted or judged again then.
func (p *partition) stand() partitionState {
	p.forget()
	x := partitionState{
		Name: p.id.Name, Number: p.number, Highest: p.highest, Watermark: p.watermark, Reached: p.watermark, Offset: -1, Idle: p.idle, Ended: p.ended,
		Done: p.done() && !p.rereading, Read: max(p.readTo, p.again), Settled: max(p.settled, p.believed), Refused: slices.Clone(p.refused), id: p.id,
	}
	if len(p.marks) > 0 && !x.Done {
		x.Highest, x.Watermark, x.Offset = p.marks[0].highest, p.marks[0].watermark, p.marks[0].offset
	}
	return x
}

// adoptStreams makes the front stand there.
func (c *Core) adoptStreams(s *standing, partition func(stream, name string) *cep.Partition) {
	c.numbers, c.arrivals = max(c.numbers, s.Numbers), s.Arrivals
	for i := range s.Streams {
		before := &s.Streams[i]
		st := c.byName[before.Name]
		if st == nil {
			continue
		}
		st.released, st.floor, st.first = before.Released, before.Floor, before.First
		st.summary, st.highest = before.Summary.clone(), before.Summary.Highest
		for j := range before.Partitions {
			q := &before.Partitions[j]
			id := q.id
			if id == nil {
				id = partition(before.Name, q.Name)
			}
			c.enter(c.adoptPartition(q, id, st))
		}
	}
}

// adoptClocks makes what moves with the clocks stand there. A clock that is new stands where its streams do: the swap.
func (c *Core) adoptClocks(s *standing) {
	c.back.arrivals = s.Alerts
	now := c.now()
	for _, k := range c.clocks { // lower layers first
		j := c.back.junctions[k.index]
		i := slices.IndexFunc(s.Clocks, func(x clockState) bool { return x.Name == k.name })
		if i >= 0 {
			k.released, k.first, j.alerts = s.Clocks[i].Released, s.Clocks[i].First, s.Clocks[i].Alerts
		} else if k.released = k.reached(now, s); k.released != cep.BeforeAll && k.partition == nil {
			k.first = k.released
		}
		j.released = k.released
		for i := range j.reached {
			j.reached[i] = k.released
		}
		for _, l := range c.lanes(k) {
			l.seq, l.released, l.started = s.Seq, k.released, k.started()
		}
	}
}

// reached is where a clock would be that the state does not know.
func (k *clock) reached(now cep.Time, s *standing) cep.Time {
	w := k.watermark(now)
	if p := k.partition; p != nil {
		for i := range s.Streams {
			for j := range s.Streams[i].Partitions {
				if q := &s.Streams[i].Partitions[j]; s.Streams[i].Name == p.id.Stream && q.Name == p.id.Name {
					w = max(w, q.Reached)
				}
			}
		}
	}
	return w
}

// lanes returns the lanes of a clock. The shards must be at rest.
func (c *Core) lanes(k *clock) []*lane {
	if k.layer > 0 {
		return []*lane{c.back.shard.lane(k)}
	}
	list := make([]*lane, len(c.shards))
	for i, s := range c.shards {
		list[i] = s.lane(k)
	}
	return list
}

func (c *Core) adoptPartition(q *partitionState, id *cep.Partition, s *stream) *partition {
	p := newPartition(id, s)
	p.number = q.Number
	p.highest, p.watermark, p.idle, p.ended = q.Highest, max(q.Watermark, s.floor), q.Idle, q.Ended
	p.again, p.believed, p.refused = q.Read, q.Settled, slices.Clone(q.Refused)
	if q.Offset >= 0 {
		p.marks = []mark{{offset: q.Offset, highest: q.Highest, watermark: q.Watermark, newest: cep.BeforeAll}}
		p.rereading = true
		c.rereading++
	}
	return p
}

// From is the offset from which a partition has to be read after [Resume], [Core.Swap] or [Restore]: that of a record which was
// read before, or 0. Of one all of which was released it is one more than that of the last record, which is behind it.
func (c *Core) From(id *cep.Partition) int64 {
	p := c.partitions[id]
	switch {
	case p == nil:
		return 0
	case len(p.marks) == 0:
		return p.again + 1
	default:
		return p.marks[0].offset
	}
}

// Unreleased says from where a partition would have to be read again if the Core were left now; ok is false where nothing would,
// because all that was read of it has been released.
func (c *Core) Unreleased(id *cep.Partition) (from int64, ok bool) {
	p := c.partitions[id]
	if p == nil {
		return 0, false
	}
	x := p.stand()
	return max(x.Offset, 0), !x.Done
}

// sources says from where each partition has to be read again.
func (s *standing) sources() []checkpoint.SourcePosition {
	var list []checkpoint.SourcePosition
	for i := range s.Streams {
		for j := range s.Streams[i].Partitions {
			p := &s.Streams[i].Partitions[j]
			x := checkpoint.SourcePosition{Stream: s.Streams[i].Name, Partition: p.Name, From: max(p.Offset, 0), Read: p.Read}
			if p.Done {
				x.From, x.Ended = p.Read+1, p.Ended
			}
			list = append(list, x)
		}
	}
	return list
}

// SchemaOf returns the schema that a state takes for granted: the rules that go on with it must be compiled with it.
func SchemaOf(state json.RawMessage) (*cep.Schema, error) {
	s, err := readStanding(state)
	if err != nil {
		return nil, err
	}
	schema := cep.NewSchema()
	for _, path := range s.Schema {
		schema.Slot(path...)
	}
	return schema, nil
}

func readStanding(state json.RawMessage) (*standing, error) {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(state, &head); err != nil {
		return nil, fmt.Errorf("read the state of the engine: %w: %w", checkpoint.ErrDamaged, err)
	}
	if head.Version > standingVersion {
		return nil, fmt.Errorf("read the state of the engine: %w: version %d, this program reads up to %d", checkpoint.ErrNewer, head.Version, standingVersion)
	}
	s := &standing{}
	if err := json.Unmarshal(state, s); err != nil {
		return nil, fmt.Errorf("read the state of the engine: %w: %w", checkpoint.ErrDamaged, err)
	}
	if s.Version < 1 {
		return nil, fmt.Errorf("read the state of the engine: %w: it has no version", checkpoint.ErrDamaged)
	}
	return s, nil
}

// Renew forgets where a partition was read: what comes now is of another one under the same name. Its clock, and what was taken
// of it, stay; what was read and not released is lost.
func (c *Core) Renew(id *cep.Partition) {
	p := c.partition(id)
	if p == nil {
		return
	}
	c.decide(p, true)
	c.reread(p)
	p.marks, p.refused, p.doubted = nil, nil, nil
	p.readTo, p.settled, p.again, p.believed = -1, -1, -1, -1
}
