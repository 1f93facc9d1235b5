package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/rules"
)

const (
	// retryLeast and retryMost bound the pause before a commit is tried again: a disk that is full for a moment costs a moment,
	// one that is full for hours a write every few seconds.
	retryLeast = 50 * time.Millisecond
	retryMost  = 5 * time.Second
)

// The participants of an epoch. Dead letters and late events are messages of the sinks that take them.
const (
	participantEngine = "engine"
	participantSinks  = "sinks"
)

// flight is an epoch on its way from its barrier to the store. It belongs to the sequencer until the barrier, to the
// committer from the cut until it is durable, and to the sequencer again: nobody shares it.
type flight struct {
	epoch       cep.Epoch
	set         *rules.Set // that runs as of the epoch
	swapped     bool       // it is the first epoch under that set
	begun       time.Time
	coordinator *checkpoint.Coordinator
	cut         *engine.Cut
	letters     []letter
	memory      memory
	replies     []chan<- answer
	held        []*stream // whose reading waits for this epoch
	// took is the time that the store needed, done when it was durable.
	took  time.Duration
	done  time.Time
	tally Tally
}

// size is what is made durable with the epoch, in bytes.
func (f *flight) size() (n int64) {
	c := f.coordinator.Commit()
	for i := range c.Records {
		n += int64(len(c.Records[i].Key) + len(c.Records[i].Value))
	}
	for i := range c.Outbox {
		n += int64(len(c.Outbox[i].Data))
	}
	return n + int64(len(c.Manifest.Engine))
}

// committer makes epochs durable, one after the other, beside the engine, which goes on meanwhile.
type committer struct {
	config    *Config
	outlets   []*outlet
	inbox     *inbox
	retired   map[string]uint64 // sinks that are no more: up to where their messages go
	committed func()            // something is durable: housekeeping may be due
	// known are the sets of rules whose files the store has, so that an epoch neither hashes nor sends them again.
	known map[*rules.Set]checkpoint.RuleSet
	// tellers tell sources how far the job is.
	tellers []*teller
}

// run is the goroutine of the committer.
func (c *committer) run(ctx context.Context, flights <-chan *flight) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-flights:
			if observe := c.config.Observe.Barrier; observe != nil {
				observe(time.Since(f.begun))
			}
			c.config.Failpoint(PointCut)
			if err := c.commit(ctx, f); err != nil {
				f.coordinator.Abort(err)
				return fmt.Errorf("commit epoch %d: %w", f.epoch, err)
			}
			c.inbox.put(notice{kind: noticeCommitted, flight: f})
		}
	}
}

// commit puts an epoch together and writes it until it is durable. Its error is that of ctx, or one that no repetition mends.
func (c *committer) commit(ctx context.Context, f *flight) error {
	part, err := c.engine(f)
	if err != nil {
		return err
	}
	sources := part.Manifest.Sources
	if err := f.coordinator.Vote(f.epoch, participantEngine, part); err != nil {
		return err
	}
	mail := newPost(c.outlets, c.config.DeadLetters)
	for i := range f.cut.Alerts {
		mail.alert(&f.cut.Alerts[i])
	}
	for i := range f.letters {
		mail.letter(&f.letters[i])
	}
	part, stands, err := c.sinks(ctx, mail)
	if err != nil {
		return err
	}
	if err := f.coordinator.Vote(f.epoch, participantSinks, part); err != nil {
		return err
	}
	c.config.Failpoint(PointPrepared)
	if f.swapped {
		c.config.Failpoint(PointSwapPrepared)
	}
	if err := c.write(ctx, f); err != nil {
		return err
	}
	if err := f.coordinator.Done(f.epoch); err != nil {
		return err
	}
	c.config.Failpoint(PointCommitted)
	if f.swapped {
		c.config.Failpoint(PointSwapCommitted)
	}
	f.tally = mail.tally
	for i, o := range c.outlets {
		told := o.last != mail.last[i]
		o.last = mail.last[i]
		o.outbox.committed(o.last, stands[i].first)
		if told {
			o.publisher.Wake()
		}
	}
	c.retired = nil
	for _, t := range c.tellers {
		t.tell(sources)
	}
	if c.config.Committed != nil {
		alerts := make([]*cep.Alert, len(f.cut.Alerts))
		for i := range f.cut.Alerts {
			alerts[i] = f.cut.Alerts[i].Alert
		}
		c.config.Committed(f.epoch, alerts)
	}
	f.cut, f.letters = nil, nil // the sequencer looks at neither
	c.config.Failpoint(PointTold)
	c.committed()
	return nil
}

// engine returns the engine's part of an epoch, with what the job itself remembers.
func (c *committer) engine(f *flight) (*checkpoint.Commit, error) {
	state, err := seal(f.memory, f.cut.State)
	if err != nil {
		return nil, err
	}
	part := &checkpoint.Commit{Records: f.cut.Records}
	part.Manifest = checkpoint.Manifest{
		Epoch: f.epoch, Job: c.config.Name, Created: time.Now().UTC().Round(0), Engine: state,
		Sources: make([]checkpoint.SourcePosition, 0, len(f.cut.Sources)),
	}
	for _, p := range f.cut.Sources {
		p.Read++ // the engine knows offsets of records only: the one behind the last is at least one more, and a source can go there
		part.Manifest.Sources = append(part.Manifest.Sources, p)
	}
	known := map[*rules.Set]checkpoint.RuleSet{}
	for _, set := range append([]*rules.Set{f.set}, f.cut.Older...) {
		r, ok := c.known[set]
		if !ok {
			r.ID = set.ID()
			for _, file := range set.Files() {
				hash := file.Hash()
				r.Files = append(r.Files, checkpoint.RuleFile{Name: file.Name, Hash: hash, Rules: file.Rules})
				part.Blobs = append(part.Blobs, checkpoint.Blob{Hash: hash, Data: file.Data})
			}
		}
		known[set] = r
		part.Manifest.Rules = append(part.Manifest.Rules, r)
	}
	c.known = known
	return part, nil
}

// sinks returns the sinks' part of an epoch, and where each stands with it.
func (c *committer) sinks(ctx context.Context, mail *post) (*checkpoint.Commit, []stand, error) {
	part := &checkpoint.Commit{Outbox: mail.outgoing, Forget: map[string]uint64{}}
	part.Manifest.Sinks = make([]checkpoint.SinkPosition, 0, len(c.outlets))
	stands := make([]stand, len(c.outlets))
	for i, o := range c.outlets {
		s, err := o.outbox.stand(ctx, mail.last[i])
		if err != nil {
			return nil, nil, err
		}
		stands[i] = s
		part.Manifest.Sinks = append(part.Manifest.Sinks, s.position)
		if s.forget > 0 {
			part.Forget[o.Name] = s.forget
		}
	}
	maps.Copy(part.Forget, c.retired)
	return part, stands, nil
}

// write writes the commit until it is durable.
func (c *committer) write(ctx context.Context, f *flight) error {
	pause := retryLeast
	for {
		begun := time.Now()
		err := c.config.Store.Commit(ctx, f.coordinator.Commit())
		if err == nil {
			f.done = time.Now()
			f.took = f.done.Sub(begun)
			if observe := c.config.Observe.Commit; observe != nil {
				observe(f.took, f.size())
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, checkpoint.ErrUnusable) {
			return err // the next process finds what is there
		}
		c.inbox.put(notice{kind: noticeFailed, flight: f, err: err})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, retryMost)
	}
}
