package main

import (
	"maps"
	"slices"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/job"
)

// partitionSeriesMax is the number of partitions of a stream that have metrics of their own: those that want attention come first
// in a status. The largest topics that one process reads have fewer.
const partitionSeriesMax = 100

// degradedWhat is what can be degraded (job.Degradation), so that each kind is told also while there is none of it.
var degradedWhat = []string{"epoch", "limit", "log", "partition", "reading", "rereading", "restore", "rule", "sink", "stream"}

// putDaemon tells what is not of the job.
func (m *metrics) putDaemon(e *emitter) {
	d := m.daemon
	m.putCondition(e)
	refused := d.refusals()
	e.put(m.refused, float64(refused.Unauthorized), "unauthorized")
	e.put(m.refused, float64(refused.Forbidden), "forbidden")
	e.put(m.refused, float64(refused.Limited), "limited")
	r, ok := d.reloads()
	if !ok {
		return
	}
	e.put(m.reloadOK, bit(r.OK))
	e.put(m.reloads, float64(r.Count-r.Failed), "success")
	e.put(m.reloads, float64(r.Failed), "failure")
	e.time(m.reloadTime, r.Succeeded)
	if s, ok := m.stats(); ok {
		e.put(m.live, float64(s.Streams))
		e.put(m.liveSent, float64(s.Sent))
		e.put(m.changes, float64(s.Changes), "success")
		e.put(m.changes, float64(s.ChangesFailed), "failure")
		e.put(m.revisionErrors, float64(s.RevisionErrors))
	}
}

// time tells a time of a clock on the wall, unless it is none.
func (e *emitter) time(f *family, t time.Time, labels ...string) {
	if !t.IsZero() {
		e.put(f, float64(t.UnixMilli())/1e3, labels...)
	}
}

// putCondition tells what /ready does.
func (m *metrics) putCondition(e *emitter) {
	c := m.daemon.condition()
	e.put(m.ready, bit(c.ready()))
	counts := map[string]int{}
	for _, d := range c.Degraded {
		counts[d.What]++
	}
	for _, what := range degradedWhat {
		e.put(m.degraded, float64(counts[what]), what)
		delete(counts, what)
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		e.put(m.degraded, float64(counts[what]), what)
	}
}

func (m *metrics) putStreams(e *emitter, s *wholeStatus) {
	for i := range s.Streams {
		st := &s.Streams[i]
		e.count(m.events, st.Events, st.Name)
		e.count(m.late, st.Late, st.Name)
		e.count(m.returned, st.Returned, st.Name)
		e.count(m.future, st.Future, st.Name)
		for _, kind := range slices.Sorted(maps.Keys(st.Bad)) {
			e.count(m.invalid, st.Bad[kind], st.Name, kind)
		}
		e.put(m.behind, st.Behind.Seconds(), st.Name)
		e.lag(m.streamWatermark, st.Watermark, st.Name)
		e.put(m.buffered, float64(st.Buffered.Count), st.Name)
		e.put(m.bufferedBytes, float64(st.Buffered.Bytes), st.Name)
		e.put(m.paused, bit(st.Paused), st.Name)
		e.put(m.partitions, float64(st.Open), st.Name)
		e.put(m.partitionsIdle, float64(st.Idle), st.Name)
		e.put(m.partitionsAbsent, float64(st.Absent), st.Name)
		m.putPartitions(e, s, i)
	}
	for i := range s.Logs {
		l := &s.Logs[i]
		e.put(m.logAccepted, float64(l.Accepted), l.Stream)
		e.put(m.logDuplicates, float64(l.Duplicates), l.Stream)
		e.put(m.logDiffering, float64(l.Differing), l.Stream)
		e.put(m.logRefused, float64(l.Full), l.Stream, "full")
		e.put(m.logRefused, float64(l.Reused), l.Stream, "reused")
		for reason, n := range l.Refused {
			e.put(m.logRefused, float64(n), l.Stream, string(reason))
		}
		e.put(m.logRefused, float64(l.Failed), l.Stream, "failed")
		e.put(m.logSize, float64(l.Bytes), l.Stream)
		e.put(m.logLimit, float64(l.Max), l.Stream)
	}
}

// putPartitions tells of the partitions of a stream. Files that follow each other under one name are told as one: the slowest
// clock of them, and all that has not been read.
func (m *metrics) putPartitions(e *emitter, s *wholeStatus, stream int) {
	type told struct {
		clock          cep.Time
		records, bytes int64
	}
	st := &s.Streams[stream]
	byName := map[string]*told{}
	var names []string
	for i := range st.List {
		p := &st.List[i]
		t := byName[p.Name]
		if t == nil {
			if len(names) == partitionSeriesMax {
				continue
			}
			t = &told{clock: cep.AfterAll, records: -1, bytes: -1}
			byName[p.Name] = t
			names = append(names, p.Name)
		}
		if p.Clock != cep.BeforeAll {
			t.clock = min(t.clock, p.Clock)
		}
		if p.End >= 0 {
			t.records = max(t.records, 0) + max(p.End-p.Read, 0)
		}
		if p.Total >= 0 {
			t.bytes = max(t.bytes, 0) + max(p.Total-p.Bytes, 0)
		}
	}
	lateness := m.daemon.lateness(st.Name)
	for _, name := range names {
		t := byName[name]
		if t.clock != cep.AfterAll {
			e.lag(m.partitionWatermark, t.clock.Add(-lateness), st.Name, name)
		}
		if t.records >= 0 {
			e.put(m.partitionRecords, float64(t.records), st.Name, name)
		}
		if t.bytes >= 0 {
			e.put(m.partitionBytes, float64(t.bytes), st.Name, name)
		}
	}
}

// lateness is how late events of a stream may be.
func (d *daemon) lateness(stream string) cep.Duration {
	for i := range d.config.Streams {
		if s := d.config.Streams[i]; s.Name == stream {
			return s.Lateness
		}
	}
	return 0
}

// outboxLimit is what may wait for a sink.
func (d *daemon) outboxLimit(sink string) (job.Limit, bool) {
	for i := range d.config.Sinks {
		if s := d.config.Sinks[i]; s.Name == sink {
			return job.Limit{Count: s.Outbox.Messages, Bytes: s.Outbox.Bytes}, true
		}
	}
	return job.Limit{}, false
}

func (m *metrics) putEpochs(e *emitter, s *wholeStatus) {
	e.put(m.epoch, float64(s.Epoch.Committed))
	e.time(m.lastEpoch, s.Epoch.At)
	e.put(m.epochFailing, bit(s.Epoch.Error != ""))
	if m.store != nil && !e.base {
		size, free := m.store.Size()
		e.put(m.stateSize, float64(size))
		e.put(m.stateFree, float64(free))
	}
	e.count(m.alertsSent, s.Alerts.Alerts)
	e.count(m.unsent, s.Alerts.Unsent)
	e.count(m.letters, s.Alerts.Letters)
	e.count(m.excess, s.Alerts.Excess)
}

func (m *metrics) putSinks(e *emitter, s *wholeStatus) {
	for i := range s.Sinks {
		k := &s.Sinks[i]
		e.count(m.sinkMessages, k.Messages, k.Name)
		e.count(m.sinkBytes, k.Bytes, k.Name)
		e.count(m.sinkBatches, k.Batches, k.Name)
		e.count(m.sinkRetries, k.Retries, k.Name)
		e.count(m.sinkMoves, k.Rewinds, k.Name)
		e.count(m.sinkRejected, k.Rejected, k.Name)
		e.count(m.sinkLost, k.Lost, k.Name)
		e.put(m.sinkFailing, bit(k.Error != ""), k.Name)
		e.put(m.sinkStopped, bit(k.Stopped), k.Name)
		e.put(m.outbox, float64(k.Waiting.Count), k.Name)
		e.put(m.outboxBytes, float64(k.Waiting.Bytes), k.Name)
		if limit, ok := m.daemon.outboxLimit(k.Name); ok {
			e.put(m.outboxLimit, float64(limit.Count), k.Name)
			e.put(m.outboxBytesLimit, float64(limit.Bytes), k.Name)
		}
		e.put(m.unacknowledged, float64(k.Published.Sequence-min(k.Acknowledged, k.Published.Sequence)), k.Name)
	}
}
