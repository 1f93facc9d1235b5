package job

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/sinks"
)

// partitionsMax is the number of partitions that a status lists for each stream: the ones that want attention come first, and
// a page with more of them is read by nobody.
const partitionsMax = 200

// Status is how a job is, for people and metrics.
type Status struct {
	Job string `json:"job"`
	// At is when the job said this. A job that is at work on something large is asked in vain for a while.
	At time.Time `json:"at"`
	// Phase is running, closing, publishing, settling, or ended.
	Phase   string    `json:"phase"`
	Started time.Time `json:"started"`
	// Restored says from what the job went on; nil after a first start.
	Restored *Restored   `json:"restored,omitempty"`
	Epoch    EpochStatus `json:"epoch"`
	// Set is the id of the set of rules that runs, Swaps the number of those that have taken over since the start.
	Set     string               `json:"set"`
	Swaps   int                  `json:"swaps"`
	Streams []StreamStatus       `json:"streams"`
	Rules   []engine.RuleSummary `json:"rules"`
	// Silences stand in the order of their ids.
	Silences []engine.SilenceSummary `json:"silences,omitempty"`
	Sinks    []SinkStatus            `json:"sinks"`
	Alerts   Tally                   `json:"alerts"`
	Degraded []Degradation           `json:"degraded,omitempty"`
}

// Restored is what a job found when it started.
type Restored struct {
	Epoch cep.Epoch `json:"epoch"`
	// Created is when that epoch was made.
	Created time.Time `json:"created"`
	// SetAside are newer epochs that are damaged: what they knew is read, and what they sent is compared, again.
	SetAside []SetAside `json:"set_aside,omitempty"`
	// Changes tell what became of each rule, where the rules are not those of the epoch.
	Changes []RuleChange `json:"changes,omitempty"`
}

// SetAside is an epoch that cannot be used.
type SetAside struct {
	Epoch  cep.Epoch `json:"epoch"`
	Reason string    `json:"reason"`
}

// RuleChange is what became of a rule whose set was replaced.
type RuleChange struct {
	Rule string `json:"rule"`
	// Kind is kept, added, changed, draining or deleted; Starts the number of open starts that this is about, Dropped that of
	// those of older versions which had to make room.
	Kind    string `json:"kind"`
	Starts  int    `json:"starts"`
	Dropped int    `json:"dropped,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// EpochStatus is how epochs go.
type EpochStatus struct {
	// Committed is the newest durable epoch, At when it was, Took what the store needed for it.
	Committed cep.Epoch     `json:"committed"`
	At        time.Time     `json:"at,omitzero"`
	Took      time.Duration `json:"took_ns"`
	// Pending is the epoch under way, 0 if none is.
	Pending cep.Epoch `json:"pending,omitempty"`
	// Waiting is the number of alerts that wait for the next one.
	Waiting int `json:"waiting"`
	// Error is why the epoch under way is not durable, Since when the first attempt was.
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// StreamStatus is how a stream is.
type StreamStatus struct {
	engine.StreamSummary
	// Watermark is what the stream has released, at or below which nothing comes any more.
	Watermark cep.Time `json:"watermark_ns"`
	// Listed says that its partitions are known, Trouble what keeps its source from being read.
	Listed  bool   `json:"listed"`
	Trouble string `json:"trouble,omitempty"`
	// Untold is why the source cannot be told how far the job is: tools that show the lag of a group show too much.
	Untold string `json:"untold,omitempty"`
	// Buffered is what waits in the order buffers. Paused says that it is too much: only what time waits for is read.
	Buffered Limit `json:"buffered"`
	Paused   bool  `json:"paused,omitempty"`
	// HeldBy names the partitions that time waits for, HeldRules the rules that wait with it, Held since when.
	HeldBy    []string  `json:"held_by,omitempty"`
	HeldRules []string  `json:"held_rules,omitempty"`
	Held      time.Time `json:"held,omitzero"`
	// Open, Idle, Ended and Absent are numbers of partitions; List holds the first of those that have not ended.
	Open   int               `json:"open"`
	Idle   int               `json:"idle"`
	Ended  int               `json:"ended"`
	Absent int               `json:"absent"`
	List   []PartitionStatus `json:"partitions,omitempty"`
}

// PartitionStatus is how a partition is.
type PartitionStatus struct {
	Partition string `json:"partition"`
	Name      string `json:"name"`
	// Read is the offset behind the last record that was read, Clock the highest time seen.
	Read  int64    `json:"read"`
	Clock cep.Time `json:"clock_ns"`
	// Bytes and Total are how far the source has read of how much; Total is -1 where nobody knows.
	Bytes int64 `json:"bytes"`
	Total int64 `json:"total"`
	// End is the offset behind the last record that there is, -1 where nobody knows.
	End int64 `json:"end"`
	// Idle: its stream does not wait for it. Rereading: it has not been read again as far as before. Absent: its source has
	// not found it.
	Idle      bool   `json:"idle,omitempty"`
	Rereading bool   `json:"rereading,omitempty"`
	Absent    bool   `json:"absent,omitempty"`
	Error     string `json:"error,omitempty"`
}

// SinkStatus is how a sink is.
type SinkStatus struct {
	sinks.Status
	// Prepared is the sequence of the last message of the newest durable epoch, Waiting what of that is not published.
	Prepared uint64 `json:"prepared"`
	Waiting  Limit  `json:"waiting"`
	Full     bool   `json:"full,omitempty"`
}

// Degradation is something that is not as it should be, although the job goes on.
type Degradation struct {
	// What is epoch, reading, rereading, stream, partition, sink, rule or restore, Name which one.
	What   string    `json:"what"`
	Name   string    `json:"name,omitempty"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since,omitzero"`
}

// statusKeeper keeps the last status, for those who ask while nobody can say anything newer.
type statusKeeper struct {
	mu   sync.Mutex
	last *Status
}

func (k *statusKeeper) keep(s *Status) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = s
}

func (k *statusKeeper) get() *Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// statusWait is how long Status waits for the sequencer before it answers with what it knew last: an engine that works off a
// burst is back within milliseconds.
const statusWait = 2 * time.Second

// Status says how the job is. It may be called from any goroutine at any time.
func (j *Job) Status() Status {
	if j.running.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), statusWait)
		defer cancel()
		if a, err := j.ask(ctx, noticeStatus); err == nil {
			j.status.keep(a.status)
		}
	}
	return *j.status.get()
}

// report describes the job as the sequencer sees it.
func (s *sequencer) report() *Status {
	r := &Status{
		Job: s.config.Name, At: time.Now(), Phase: phaseNames[s.phase], Set: s.set.ID(), Swaps: s.swaps, Started: s.begun, Restored: s.restored, Alerts: s.tally,
		Epoch: EpochStatus{Committed: s.newest, At: s.lastDone, Took: s.lastTook, Waiting: s.core.Waiting()},
	}
	degraded := func(what, name, reason string, since time.Time) {
		r.Degraded = append(r.Degraded, Degradation{what, name, reason, since})
	}
	if s.restored != nil {
		for _, a := range s.restored.SetAside {
			degraded("restore", fmt.Sprintf("epoch %d", a.Epoch), a.Reason, s.begun)
		}
	}
	if s.flight != nil {
		r.Epoch.Pending = s.flight.epoch
	}
	if s.failing != nil {
		r.Epoch.Error, r.Epoch.Since = s.failing.Error(), s.failingFrom
		degraded("epoch", "", s.failing.Error(), s.failingFrom)
	}
	if s.halt != "" && s.phase == phaseReading && s.failing == nil && len(s.full) > 0 {
		degraded("reading", "", s.halt, time.Time{})
	}
	summary := s.core.Summary()
	r.Rules, r.Silences = summary.Rules, summary.Silences
	for i := range r.Rules {
		if why := r.Rules[i].Disabled; why != "" {
			degraded("rule", r.Rules[i].ID, why, time.Time{})
		}
	}
	for i, st := range s.streams {
		r.Streams = append(r.Streams, s.reportStream(st, &summary.Streams[i], degraded))
	}
	for _, o := range s.outlets {
		n, bytes := o.outbox.waits()
		k := SinkStatus{Status: o.publisher.Status(), Prepared: o.outbox.Range().Last.Sequence, Waiting: Limit{int(n), bytes}, Full: o.full()}
		r.Sinks = append(r.Sinks, k)
		if k.Error != "" {
			degraded("sink", o.Name, k.Error, k.Since)
		}
		if k.Full {
			degraded("sink", o.Name, "no room in the outbox", time.Time{})
		}
	}
	return r
}

func (s *sequencer) reportStream(st *stream, summary *engine.StreamSummary, degraded func(what, name, reason string, since time.Time)) StreamStatus {
	r := StreamStatus{StreamSummary: *summary, Watermark: s.core.Watermark(st.Name), Listed: st.listed, Paused: st.paused}
	r.Buffered.Count, r.Buffered.Bytes = s.core.Buffered(st.Name)
	if st.trouble != nil {
		r.Trouble = st.trouble.Error()
		degraded("stream", st.Name, r.Trouble, time.Time{})
	}
	if st.untold != nil {
		r.Untold = st.untold.Error() // what the job does is whole without it
	}
	if l := st.lag; l != nil && l.named {
		r.HeldBy, r.HeldRules, r.Held = s.names(st, l.Partitions), l.Rules, l.since
		degraded("stream", st.Name, "held back by "+strings.Join(r.HeldBy, ", "), l.since)
	}
	var list []*input
	for _, in := range st.inputs {
		switch {
		case in.ended:
			r.Ended++
			continue
		case in.reader == nil:
			r.Absent++
			if st.listed && !in.idle {
				degraded("partition", st.Name+" "+in.name(), "its source has not found it", in.silence)
			}
		}
		if in.idle {
			r.Idle++
		}
		r.Open++
		list = append(list, in)
	}
	slices.SortFunc(list, func(a, b *input) int {
		if x, y := a.urgency(), b.urgency(); x != y {
			return y - x
		}
		return strings.Compare(a.id.Name, b.id.Name)
	})
	for _, in := range list {
		if in.failed != nil {
			degraded("partition", st.Name+" "+in.name(), in.failed.Error(), in.silence)
		}
		if len(r.List) == partitionsMax {
			continue
		}
		p := PartitionStatus{
			Partition: in.id.Name, Name: in.name(), Read: max(in.read, in.again), Clock: s.core.Clock(in.id), Total: -1, End: -1,
			Idle: in.idle, Rereading: in.rereading, Absent: in.reader == nil,
		}
		if in.reader != nil {
			p.Bytes, p.Total = in.reader.Progress()
			if l, ok := in.reader.(source.Lagger); ok {
				if end, known := l.End(); known {
					p.End = end
				}
			}
		}
		if in.failed != nil {
			p.Error = in.failed.Error()
		}
		r.List = append(r.List, p)
	}
	return r
}

// urgency puts partitions in the order in which somebody would want to hear of them.
func (in *input) urgency() int {
	switch {
	case in.failed != nil:
		return 3
	case in.reader == nil:
		return 2
	case in.idle || in.rereading:
		return 1
	}
	return 0
}

// end notes that the job has ended.
func (k *statusKeeper) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := *k.last
	s.Phase = "ended"
	k.last = &s
}
