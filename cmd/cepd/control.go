package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/rulesapi"
	"github.com/cepd/cepd/rules/ruletest"
)

// control is what the API speaks to: a job that has been restored.
type control struct {
	config   *config.Config
	job      *job.Job
	store    checkpoint.Store
	reloader *reloader
	// available is nil while things can be changed.
	available func() error
}

var _ rulesapi.Daemon = (*control)(nil)

// exporter is a store that writes an epoch to a file that stands by itself.
type exporter interface {
	Export(ctx context.Context, e cep.Epoch, w io.Writer) error
}

// Rules implements [rulesapi.Daemon].
func (c *control) Rules() *rules.Set { return c.job.Rules() }

// Begin implements [rulesapi.Daemon].
func (c *control) Begin(ctx context.Context) (func(), error) {
	if err := c.available(); err != nil {
		return nil, err
	}
	return c.reloader.begin(ctx)
}

// Compile implements [rulesapi.Daemon].
func (c *control) Compile(ctx context.Context, over map[string][]byte) (*rules.Set, patterns.Diagnostics, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	return c.reloader.compile(over)
}

// testedAtOnce is how many rules are tested before it is asked whether anybody still waits for the result.
const testedAtOnce = 100

// Test implements [rulesapi.Daemon].
func (c *control) Test(ctx context.Context, set *rules.Set, ids []string) ([]rulesapi.TestResult, error) {
	list := []rulesapi.TestResult{}
	for some := range slices.Chunk(ids, testedAtOnce) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		names := make([]string, len(some))
		for i, id := range some {
			names[i] = regexp.QuoteMeta(id)
		}
		filter, err := regexp.Compile("^(?:" + strings.Join(names, "|") + ")/")
		if err != nil {
			return nil, fmt.Errorf("choose the tests: %w", err)
		}
		results := ruletest.Run(set, filter)
		for i := range results {
			r := &results[i]
			list = append(list, rulesapi.TestResult{Rule: r.Rule.ID, Name: r.Test.Name, Passed: r.Passed(), Failure: r.Failure})
		}
	}
	return list, nil
}

// Plan implements [rulesapi.Daemon].
func (c *control) Plan(ctx context.Context, set *rules.Set) ([]rulesapi.RuleChange, error) {
	changes, err := c.job.Plan(ctx, set)
	return changesOf(changes, set), orStopping(err)
}

// orStopping says of a job that has ended under a request what that means for whoever asks.
func orStopping(err error) error {
	if errors.Is(err, job.ErrNotRunning) {
		return fmt.Errorf("%w: %w", rulesapi.ErrUnavailable, err)
	}
	return err
}

// Swap implements [rulesapi.Daemon]. The API has detached ctx from its client, and gives it an end: a full disk holds nobody for ever.
func (c *control) Swap(ctx context.Context, set *rules.Set) (rulesapi.Swapped, error) {
	by, _ := rulesapi.CallerOf(ctx)
	s, err := c.reloader.swap(ctx, set, by.Name)
	switch {
	case errors.Is(err, job.ErrNotDurable):
		return rulesapi.Swapped{}, fmt.Errorf("%w: %w", rulesapi.ErrNotDurable, err)
	case err != nil:
		return rulesapi.Swapped{}, orStopping(err)
	}
	return rulesapi.Swapped{Epoch: s.Epoch, Set: s.Set, Changes: changesOf(s.Changes, set), Pause: s.Pause}, nil
}

// changesOf are the changes of a swap to a set as answers tell them; never nil.
func changesOf(changes []job.RuleChange, set *rules.Set) []rulesapi.RuleChange {
	list := make([]rulesapi.RuleChange, len(changes))
	disabled := map[string]bool{}
	for _, r := range set.Rules {
		disabled[r.ID] = !r.Enabled
	}
	for i, c := range changes {
		text := changeText(c, disabled[c.Rule])
		list[i] = rulesapi.RuleChange{Rule: c.Rule, Kind: c.Kind, Starts: c.Starts, Dropped: c.Dropped, Text: text}
	}
	return list
}

// changeText says what becomes of a rule; disabled: it is among the rules still, and does not run.
func changeText(c job.RuleChange, disabled bool) string {
	starts := plural(c.Starts, "open start")
	var text string
	switch kind := c.Kind; {
	case kind == engine.RuleKept.String():
		text = starts + " go on"
	case kind == engine.RuleAdded.String():
		text = "begins with the next event"
	case kind == engine.RuleDraining.String():
		text = starts + " go on under the version that they began under, until they end"
	case kind == engine.RuleDeleted.String() && disabled:
		text = "disabled, with " + starts
	case kind == engine.RuleDeleted.String():
		text = "gone, with " + starts
	case c.Starts == 0:
		text = "no start was open"
	default:
		text = starts + " of the version before are dropped"
	}
	if c.Dropped > 0 {
		text += fmt.Sprintf("; %s of older versions are dropped", plural(c.Dropped, "open start"))
	}
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	return text
}

// RuleStates implements [rulesapi.Daemon].
func (c *control) RuleStates() map[string]rulesapi.RuleState {
	s := c.job.Status()
	states := make(map[string]rulesapi.RuleState, len(s.Rules))
	for i := range s.Rules {
		r := &s.Rules[i]
		state := rulesapi.RuleState{
			Stopped: r.Disabled, Open: r.Open, Keys: r.Keys, Draining: r.Draining, Seen: r.Seen, Visible: r.Visible, Keyed: r.Keyed,
			Opened: r.Opened, Matched: r.Matched, Timeouts: r.Timeouts, Alerts: r.Alerts, Suppressed: r.Suppressed, Silenced: r.Silenced,
			Refused: r.Refused + r.TooLong + r.Braked, Evaluation: r.Evaluation, Errors: r.Errors, LastError: r.LastError, LastErrorAt: errorTime(r.ErrorAt),
			LastMatch: rulesapi.EventTime(r.LastMatch), Taken: countsOf(r.Taken), Ended: countsOf(r.Ended),
		}
		states[r.ID] = state
	}
	return states
}

// errorTime is the event time of an error, zero where nobody knows it any more.
func errorTime(t cep.Time) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return rulesapi.EventTime(t)
}

func countsOf(counts []engine.Count) []rulesapi.Count {
	list := make([]rulesapi.Count, len(counts))
	for i, n := range counts {
		list[i] = rulesapi.Count{Name: n.Name, Count: n.N}
	}
	return list
}

// OpenStarts implements [rulesapi.Daemon].
func (c *control) OpenStarts(ctx context.Context, q rulesapi.OpenQuery) (rulesapi.OpenPage, error) {
	page, err := c.job.OpenStarts(ctx, job.OpenQuery{Rule: q.Rule, Key: q.Key, After: q.After, Limit: q.Limit})
	switch {
	case errors.Is(err, job.ErrNoRule):
		return rulesapi.OpenPage{}, fmt.Errorf("%w: %w", rulesapi.ErrNoSuchRule, err)
	case errors.Is(err, job.ErrCursor):
		return rulesapi.OpenPage{}, fmt.Errorf("%w: %w", rulesapi.ErrCursor, err)
	case errors.Is(err, job.ErrKey):
		return rulesapi.OpenPage{}, echo.NewHTTPError(http.StatusBadRequest, err.Error())
	case err != nil:
		return rulesapi.OpenPage{}, orStopping(err)
	}
	out := rulesapi.OpenPage{Starts: make([]rulesapi.OpenStart, len(page.Starts)), Next: page.Next}
	for i := range page.Starts {
		out.Starts[i] = openStartOf(&page.Starts[i])
	}
	return out, nil
}

// openStartOf is an open start as the API tells it: what it has taken is what the way that came furthest has, and it waits for
// what any of its ways waits for.
func openStartOf(s *job.OpenStart) rulesapi.OpenStart {
	out := rulesapi.OpenStart{
		Rule: s.Rule, Fingerprint: s.Fingerprint, Draining: s.Draining, Key: make([]rulesapi.KeyPart, len(s.Key)),
		Since: rulesapi.EventTime(s.Since), Until: rulesapi.EventTime(s.Until), Taken: []rulesapi.TakenStep{}, WaitsFor: []string{},
	}
	for i, k := range s.Key {
		out.Key[i] = rulesapi.KeyPart{Name: k.Name, Value: json.RawMessage(cep.AppendJSON(nil, k.Value))}
	}
	var furthest *job.OpenRun
	most := -1
	for i := range s.Runs {
		r := &s.Runs[i]
		taken := 0
		for _, t := range r.Taken {
			taken += t.Count
		}
		if taken > most {
			furthest, most = r, taken
		}
		for _, w := range r.Waits {
			if !slices.Contains(out.WaitsFor, w) {
				out.WaitsFor = append(out.WaitsFor, w)
			}
		}
	}
	if furthest == nil {
		return out
	}
	for _, t := range furthest.Taken {
		step := rulesapi.TakenStep{Step: t.Step, Count: t.Count}
		for _, p := range t.Positions {
			step.Events = append(step.Events, rulesapi.TakenEvent{Stream: p.Partition.Stream, Partition: p.Partition.Name, Offset: p.Offset})
		}
		out.Taken = append(out.Taken, step)
	}
	return out
}

// Streams implements [rulesapi.Daemon].
func (c *control) Streams() []rulesapi.Stream {
	kinds := map[string]string{}
	for _, s := range c.config.Streams {
		kinds[s.Name] = s.Kind()
	}
	s := c.job.Status()
	list := make([]rulesapi.Stream, len(s.Streams))
	for i := range s.Streams {
		st := &s.Streams[i]
		out := rulesapi.Stream{
			Name: st.Name, Kind: kinds[st.Name], Watermark: rulesapi.EventTime(st.Watermark), Events: st.Events, Taken: st.Taken, Late: st.Late,
			Returned: st.Returned, Future: st.Future, Bad: st.Bad, Buffered: st.Buffered.Count, Paused: st.Paused, Trouble: st.Trouble,
			HeldBy: st.HeldBy, Held: st.Held, Open: st.Open, Idle: st.Idle, Ended: st.Ended, Absent: st.Absent,
			Partitions: make([]rulesapi.Partition, len(st.List)),
		}
		for k := range st.List {
			p := &st.List[k]
			out.Partitions[k] = rulesapi.Partition{Name: p.Name, Read: p.Read, Clock: rulesapi.EventTime(p.Clock), Idle: p.Idle, Error: p.Error}
			if p.End >= 0 {
				lag := max(p.End-p.Read, 0)
				out.Partitions[k].Lag = &lag
			}
		}
		list[i] = out
	}
	return list
}

// Sinks implements [rulesapi.Daemon].
func (c *control) Sinks() []rulesapi.Sink {
	kinds := map[string]string{}
	for _, s := range c.config.Sinks {
		kinds[s.Name] = s.Kind()
	}
	s := c.job.Status()
	list := make([]rulesapi.Sink, len(s.Sinks))
	for i := range s.Sinks {
		o := &s.Sinks[i]
		list[i] = rulesapi.Sink{
			Name: o.Name, Kind: kinds[o.Name], Guarantee: o.Guarantee.String(), Committed: o.Prepared, Published: o.Published.Sequence,
			Lineage: o.Published.Lineage, Waiting: o.Waiting.Count, WaitingBytes: o.Waiting.Bytes, Full: o.Full, Messages: o.Messages,
			Retries: o.Retries, Error: o.Error, Since: o.Since, Stopped: o.Stopped,
		}
	}
	return list
}

// Checkpoints implements [rulesapi.Daemon].
func (c *control) Checkpoints(ctx context.Context) ([]rulesapi.Checkpoint, error) {
	infos, err := c.store.Epochs(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the epochs: %w", err)
	}
	list := make([]rulesapi.Checkpoint, len(infos))
	for i, info := range infos {
		list[i] = rulesapi.Checkpoint{Epoch: info.Epoch, Base: info.Base, Bytes: info.Bytes, Damage: info.Damage}
		if info.Damage != "" {
			continue
		}
		m, err := c.store.Manifest(ctx, info.Epoch)
		switch {
		case errors.Is(err, checkpoint.ErrMissing):
			list[i].Damage = "dropped a moment ago" // housekeeping was quicker
		case err != nil:
			list[i].Damage = err.Error()
		default:
			list[i].Created = m.Created
			if len(m.Rules) > 0 {
				list[i].Set = m.Rules[0].ID
			}
		}
	}
	return list, nil
}

// MakeCheckpoint implements [rulesapi.Daemon].
func (c *control) MakeCheckpoint(ctx context.Context) (cep.Epoch, error) {
	if err := c.available(); err != nil {
		return 0, err
	}
	e, err := c.job.Checkpoint(ctx)
	return e, orStopping(err)
}

// Savepoint implements [rulesapi.Daemon].
func (c *control) Savepoint(ctx context.Context, epoch cep.Epoch, w io.Writer) error {
	s, ok := c.store.(exporter)
	if !ok {
		return errors.New("the store writes no savepoints")
	}
	if _, err := c.store.Manifest(ctx, epoch); errors.Is(err, checkpoint.ErrMissing) {
		return fmt.Errorf("%w: %w", rulesapi.ErrNoSuchEpoch, err)
	}
	return s.Export(ctx, epoch, w)
}
