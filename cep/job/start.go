package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/sinks"
)

const (
	// openRetry is the pause between attempts to ask a sink on a first start, which cannot go on without its answer.
	openRetry = time.Second
	// peekPatience is for how long a start that has state waits to hear where a sink stands before it opens it: an answer takes
	// milliseconds, and a transaction that a dead predecessor left open, or a destination that is away, must not hold it up.
	peekPatience = time.Second
)

// begin makes the engine: from the newest epoch that is sound, or anew on a first start. It returns the manifest of that
// epoch, nil on a first start.
func (j *Job) begin(ctx context.Context) (*checkpoint.Manifest, memory, error) {
	infos, err := j.config.Store.Epochs(ctx)
	if err != nil {
		return nil, memory{}, fmt.Errorf("list epochs: %w", err)
	}
	var aside []SetAside
	for _, info := range slices.Backward(infos) {
		if info.Damage != "" {
			aside = append(aside, SetAside{info.Epoch, info.Damage})
			continue
		}
		m, mem, err := j.load(ctx, info.Epoch)
		if errors.Is(err, checkpoint.ErrDamaged) {
			aside = append(aside, SetAside{info.Epoch, err.Error()})
			continue
		}
		if err != nil {
			return nil, memory{}, fmt.Errorf("restore epoch %d: %w", info.Epoch, err)
		}
		j.restored = &Restored{Epoch: info.Epoch, Created: m.Created, SetAside: aside, Changes: j.changes}
		return m, mem, j.setAside(ctx, info.Epoch, aside)
	}
	if len(aside) > 0 {
		list := make([]string, len(aside))
		for i, a := range aside {
			list[i] = fmt.Sprintf("epoch %d: %s", a.Epoch, a.Reason)
		}
		return nil, memory{}, fmt.Errorf("%w: no epoch that is kept is sound (%s): bring back a copy of the state; or move it away and start "+
			"with --accept-gap: open starts are lost, and everything is read as on a first start", ErrRefused, strings.Join(list, "; "))
	}
	if j.core, err = engine.New(j.config.Rules, j.engineStreams(), j.engineOptions()); err != nil {
		return nil, memory{}, err
	}
	return nil, memory{}, nil
}

// setAside makes epoch e the newest one, where newer ones are damaged.
func (j *Job) setAside(ctx context.Context, e cep.Epoch, aside []SetAside) error {
	if len(aside) == 0 {
		return nil
	}
	for _, a := range aside {
		j.config.Logger.Error("an epoch is damaged and set aside", "epoch", a.Epoch, "reason", a.Reason, "instead", e)
	}
	if err := j.config.Store.Rewind(ctx, e); err != nil {
		return fmt.Errorf("set aside what is newer than epoch %d: %w", e, err)
	}
	return nil
}

// load restores the engine from an epoch, and has the configured rules take over where they are not those of the epoch.
func (j *Job) load(ctx context.Context, e cep.Epoch) (*checkpoint.Manifest, memory, error) {
	m, err := j.config.Store.Manifest(ctx, e)
	if err != nil {
		return nil, memory{}, err
	}
	if m.Job != j.config.Name {
		return nil, memory{}, fmt.Errorf("%w: it is of the job %q, and this one is %q, which the sinks do not know: name the job as "+
			"before, or give it a state of its own", ErrRefused, m.Job, j.config.Name)
	}
	mem, state, err := unseal(m.Engine)
	if err != nil {
		return nil, memory{}, err
	}
	schema, err := engine.SchemaOf(state)
	if err != nil {
		return nil, memory{}, err
	}
	if len(m.Rules) == 0 {
		return nil, memory{}, fmt.Errorf("it names no rules: %w", checkpoint.ErrDamaged)
	}
	set, err := j.recorded(ctx, m.Rules[0], schema)
	if err != nil {
		return nil, memory{}, err
	}
	core, err := engine.Restore(set, j.engineStreams(), j.config.Partitions, j.engineOptions(), &engine.Saved{
		State: state,
		Records: func(each func(checkpoint.Record) error) error {
			_, err := j.config.Store.Restore(ctx, e, each)
			return err
		},
		Older: func(id string) (*rules.Set, error) {
			for _, r := range m.Rules[1:] {
				if r.ID == id {
					return j.recorded(ctx, r, schema)
				}
			}
			return nil, fmt.Errorf("rules %.12s: %w", id, checkpoint.ErrMissing)
		},
	})
	if err != nil {
		return nil, memory{}, err
	}
	if set.ID() == j.config.Rules.ID() {
		j.core, j.config.Rules = core, set
		return m, mem, nil
	}
	if j.core, err = j.takeOver(core, set); err != nil {
		return nil, memory{}, err
	}
	return m, mem, nil
}

// recorded compiles a set of rules from the files that an epoch names; nearly always they are those which the configured rules
// were compiled from, and that need not be done twice.
func (j *Job) recorded(ctx context.Context, r checkpoint.RuleSet, schema *cep.Schema) (*rules.Set, error) {
	if r.ID == j.config.Rules.ID() && j.config.Rules.Extend(schema) {
		return j.config.Rules, nil
	}
	files := make([]rules.File, len(r.Files))
	for i, f := range r.Files {
		data, err := j.config.Store.Blob(ctx, f.Hash)
		if err != nil {
			return nil, fmt.Errorf("rule file %s: %w", f.Name, err)
		}
		files[i] = rules.File{Name: f.Name, Data: data, Rules: f.Rules}
	}
	set, err := rules.FromFiles(files, schema)
	if err != nil {
		return nil, fmt.Errorf("%w: the rules that ran do not compile with this version of the program; go back to the one "+
			"before, or start anew with an empty state: %w", ErrRefused, err)
	}
	return set, nil
}

// takeOver has the configured rules take over from those of an epoch.
func (j *Job) takeOver(core *engine.Core, before *rules.Set) (*engine.Core, error) {
	set, err := j.config.Rules.After(before)
	if err != nil {
		core.Close()
		return nil, fmt.Errorf("compile the rules behind those that ran: %w", err)
	}
	state, err := core.Leave()
	if err != nil {
		core.Close()
		return nil, err
	}
	next, changes, err := engine.Resume(set, j.engineStreams(), j.engineOptions(), state)
	if err != nil {
		return nil, err
	}
	j.config.Rules, j.swapped = set, true
	j.changes = append(j.changes, changesOf(changes)...)
	for _, c := range changes {
		if c.Kind == engine.RuleKept && c.Dropped == 0 {
			continue
		}
		j.config.Logger.Info("the rules have changed", "rule", c.Rule, "change", c.Kind.String(), "starts", c.Starts, "dropped", c.Dropped, "reason", c.Reason)
	}
	j.config.Failpoint(PointSwapped)
	return next, nil
}

func (j *Job) engineStreams() []engine.Stream {
	list := make([]engine.Stream, len(j.config.Streams))
	for i := range j.config.Streams {
		list[i] = j.config.Streams[i].Stream
	}
	return list
}

func (j *Job) engineOptions() engine.Options {
	begun := time.Now()
	return engine.Options{
		Shards: j.config.Shards, Parallel: true, PerClock: true,
		Reject: func(r *engine.Reject) { j.sequencer.reject(r) },
		Ready:  j.inbox.nudge,
		Timer:  func() time.Duration { return time.Since(begun) },
	}
}

// makeStreams makes the streams, with the partitions that an epoch knows.
func (j *Job) makeStreams(m *checkpoint.Manifest, mem memory) {
	raw := engine.NeedsRaw(j.config.Rules)
	byName := map[string]*stream{}
	for i := range j.config.Streams {
		c := j.config.Streams[i]
		known := mem.of(c.Name)
		st := &stream{
			Stream: c, fresh: !known.Listed, others: m != nil || !j.config.AcceptGap, plan: newPlan(&c, j.config.Rules.Schema, raw),
			inputs: map[string]*input{}, starts: map[string]*input{}, read: known.Passed, identities: map[string]string{},
		}
		maps.Copy(st.identities, known.Identities)
		for name, offset := range known.Starts {
			if id := j.config.Partitions.Get(c.Name, name); id != nil {
				in := &input{stream: st, id: id, from: offset, past: -1}
				st.inputs[name], st.starts[name] = in, in
			}
		}
		byName[c.Name] = st
		j.streams = append(j.streams, st)
	}
	if m != nil {
		for _, p := range m.Sources {
			st := byName[p.Stream]
			if st == nil {
				continue // the stream is not read any more
			}
			id := j.config.Partitions.Get(p.Stream, p.Partition)
			in := st.inputs[p.Partition]
			if in == nil {
				in = &input{stream: st, id: id, from: p.From, past: -1}
				st.inputs[p.Partition] = in
			}
			in.again, in.ended = p.Read, p.Ended
			if p.Read > 0 {
				in.from = j.core.From(id)
			}
			in.rereading = in.from < in.again // not where all that was read has been released
		}
	}
	for _, st := range j.streams {
		for _, in := range st.inputs {
			if !in.ended {
				st.open++
			}
			if in.rereading {
				j.sequencer.rereading++
			}
		}
	}
	relate(j.streams, j.config.Rules)
}

// relate finds out which streams may have to wait for each other.
func relate(streams []*stream, set *rules.Set) {
	byName, byID := map[string]*stream{}, map[string]*rules.Rule{}
	for _, st := range streams {
		byName[st.Name] = st
	}
	for _, r := range set.Rules {
		byID[r.ID] = r
	}
	reads := map[string][]*stream{}
	var of func(r *rules.Rule) []*stream
	of = func(r *rules.Rule) []*stream {
		if list, ok := reads[r.ID]; ok {
			return list
		}
		var list []*stream
		for _, name := range r.Inputs() {
			if st := byName[name]; st != nil {
				list = append(list, st)
			}
		}
		for _, id := range r.Reads {
			if low := byID[id]; low != nil {
				list = append(list, of(low)...)
			}
		}
		reads[r.ID] = list
		return list
	}
	for _, st := range streams {
		st.related = []*stream{st}
	}
	for _, r := range set.Rules {
		if !r.Enabled {
			continue
		}
		list := of(r)
		for _, a := range list {
			for _, b := range list {
				if !slices.Contains(a.related, b) {
					a.related = append(a.related, b)
				}
			}
		}
	}
}

// makeOutlets makes the sinks, at the positions that an epoch knows.
func (j *Job) makeOutlets(ctx context.Context, m *checkpoint.Manifest) error {
	known := map[string]checkpoint.SinkPosition{}
	if m != nil {
		for _, p := range m.Sinks {
			known[p.Name] = p
		}
	}
	savepoint, err := j.config.Store.Noted(ctx, checkpoint.NoteSavepoint)
	if err != nil {
		return fmt.Errorf("look for a savepoint: %w", err)
	}
	if savepoint != nil {
		j.config.NewLineage, j.savepoint = true, true
	}
	for i := range j.config.Sinks {
		o := &outlet{Sink: j.config.Sinks[i]}
		o.outbox = &outbox{
			store: j.config.Store, name: o.Name, failpoint: j.config.Failpoint,
			changed: func() { j.inbox.put(notice{kind: noticeConfirmed}) },
		}
		if p, ok := known[o.Name]; ok {
			if err := o.outbox.restore(ctx, p); err != nil {
				return fmt.Errorf("restore sink %s: %w", o.Name, err)
			}
		} else if err := o.outbox.readNote(ctx); err != nil {
			return fmt.Errorf("restore sink %s: %w", o.Name, err)
		}
		delete(known, o.Name)
		o.last = o.outbox.last
		o.publisher = sinks.NewPublisher(sinks.PublisherConfig{
			Name: o.Name, Sink: j.observe(o), Outbox: o.outbox, Guarantee: o.Guarantee,
			BatchMax: o.BatchMax, BytesMax: o.BytesMax, Grace: o.Grace, ProbeEvery: o.ProbeEvery,
			AcceptGap: j.config.AcceptGap, AcceptRepeat: j.config.AcceptRepeat, NewLineage: j.config.NewLineage,
			Rejected: func(m sinks.Message, reason string) error { return j.rejected(o, &m, reason) },
			Logger:   j.config.Logger, Failpoint: j.config.Failpoint,
		})
		j.outlets = append(j.outlets, o)
	}
	return j.retire(known)
}

// observe returns the sink, timed where somebody wants to know.
func (j *Job) observe(o *outlet) sinks.Sink {
	if j.config.Observe.Publish == nil {
		return o.Sink.Sink
	}
	return &observed{o.Sink.Sink, o.Name, j.config.Observe.Publish}
}

// retire forgets the messages of sinks that are not configured any more, unless some of them have not been sent.
func (j *Job) retire(known map[string]checkpoint.SinkPosition) error {
	j.retired = map[string]uint64{}
	for name, p := range known {
		if n := p.Sequence - min(p.Published, p.Sequence); n > 0 {
			if !j.config.AcceptGap {
				return fmt.Errorf("%w: %d messages for sink %s are committed and not published, and the sink is not configured "+
					"any more: configure it until they are out, or drop them with --accept-gap", ErrRefused, n, name)
			}
			j.config.Logger.Warn("messages of a sink that is not configured any more are dropped, as accepted", "sink", name, "messages", n)
		}
		if p.Sequence > 0 {
			j.retired[name] = p.Sequence
		}
	}
	return nil
}

// peekSinks asks the destinations where they stand before any of them is fenced, so that a start which is refused leaves a job
// that runs elsewhere alone. A first start cannot go on without the answers; any other one has what [Job.openSinks] will say.
func (j *Job) peekSinks(ctx context.Context, first bool) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, o := range j.outlets {
		group.Go(func() error {
			if first && !j.config.AcceptGap {
				return j.answered(ctx, o, func() error {
					at, err := o.publisher.Peek(ctx)
					if err != nil {
						return err
					}
					return j.proveFirst(o, at)
				})
			}
			brief, cancel := context.WithTimeout(ctx, peekPatience)
			defer cancel()
			_, err := o.publisher.Peek(brief)
			if err != nil && !sinks.Permanent(err) && ctx.Err() == nil {
				j.config.Logger.Debug("where the sink stands is not known before it is opened", "sink", o.Name, "err", err)
				return nil
			}
			return err
		})
	}
	return group.Wait()
}

// openSinks fences whoever published before, and learns where the destinations stand. On a first start each has to show once
// more that it really is one: it may have moved since the peek.
func (j *Job) openSinks(ctx context.Context, first bool) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, o := range j.outlets {
		group.Go(func() error {
			if first && o.Guarantee == sinks.ExactlyOnce {
				return j.answered(ctx, o, func() error {
					if err := o.publisher.Open(ctx); err != nil {
						return err
					}
					return j.proveFirst(o, *o.publisher.Status().Found)
				})
			}
			err := o.publisher.Open(ctx)
			if err != nil && !sinks.Permanent(err) && ctx.Err() == nil {
				j.config.Logger.Warn("the sink cannot be opened yet; it goes on trying", "sink", o.Name, "err", err)
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, o := range j.outlets {
		if at := o.publisher.Status().Found; first && at != nil && at.Sequence > 0 {
			j.config.Logger.Warn("the state is gone, as accepted: everything is read as on a first start", "sink", o.Name, "stands_at", at.Sequence)
		}
	}
	return nil
}

// answered asks a sink until it answers, for a first start.
func (j *Job) answered(ctx context.Context, o *outlet, ask func() error) error {
	for {
		err := ask()
		if err == nil || sinks.Permanent(err) || errors.Is(err, ErrRefused) || ctx.Err() != nil {
			return err
		}
		j.config.Logger.Warn("the sink does not say where it stands, and a first start needs its answer; trying again", "sink", o.Name, "err", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(openRetry):
		}
	}
}

// proveFirst refuses to take a start for the first one when a destination, which stands at at, knows better.
func (j *Job) proveFirst(o *outlet, at sinks.Progress) error {
	if at.Sequence == 0 || j.config.AcceptGap {
		return nil
	}
	return fmt.Errorf("%w: the state is empty, but sink %s stands at lineage %d, sequence %d: the job %q has run before, or runs "+
		"elsewhere, and its state is not here. Bring the state back; or start with --accept-gap: open starts are lost, everything is read "+
		"as on a first start, and nothing is sent before the job has found as many alerts as the destination has",
		ErrRefused, o.Name, at.Lineage, at.Sequence, j.config.Name)
}
