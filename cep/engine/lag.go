package engine

import "github.com/cepd/cepd/cep"

// Clock is the highest time seen in a partition, [cep.BeforeAll] before there is one: who has the lowest is to be read next.
// AfterAll where nothing reads its stream.
func (c *Core) Clock(id *cep.Partition) cep.Time {
	if p := c.partition(id); p != nil {
		return p.highest
	}
	return cep.AfterAll
}

// Watermark is that of a stream: no event at or below it will be taken any more.
func (c *Core) Watermark(stream string) cep.Time {
	s := c.byName[stream]
	if s == nil {
		return cep.BeforeAll
	}
	s.refresh()
	return s.released
}

// Buffered is what waits in the order buffers of a stream: its events, once for each lane that they belong to, and the bytes
// of the records that they came in.
func (c *Core) Buffered(stream string) (events int, bytes int64) {
	s := c.byName[stream]
	if s == nil {
		return 0, 0
	}
	return int(s.entered.events - s.left.events.Load()), s.entered.bytes - s.left.bytes.Load()
}

// Lag says what holds a clock back.
type Lag struct {
	// Rules are the ids of those whose clock it is.
	Rules []string
	// Stream is the one with the least watermark, Partitions the names of those of its partitions that hold it there; none
	// where the stream has none yet.
	Stream     string
	Partitions []string
	// Watermark is that of the stream, Behind how far it lies below the highest time seen in any stream.
	Watermark cep.Time
	Behind    cep.Duration
}

// Lagging says of each clock that is behind the highest time seen what holds it back.
func (c *Core) Lagging() []Lag {
	highest := cep.BeforeAll
	for _, s := range c.streams {
		highest = max(highest, s.highest)
	}
	var list []Lag
	for _, k := range c.clocks {
		var slowest *stream
		for _, s := range k.streams {
			if !s.ended() && (slowest == nil || s.released < slowest.released) {
				slowest = s
			}
		}
		if slowest == nil || slowest.released >= highest || k.partition != nil {
			continue
		}
		lag := Lag{Stream: slowest.Name, Watermark: slowest.released, Behind: highest.Sub(slowest.released)}
		for _, v := range k.versions {
			if v.heir == nil {
				lag.Rules = append(lag.Rules, v.rule.ID)
			}
		}
		for _, p := range slowest.partitions {
			if p.holds() && p.watermark <= slowest.released {
				lag.Partitions = append(lag.Partitions, p.id.Name)
			}
		}
		list = append(list, lag)
	}
	return list
}
