package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/rules"
)

// State is what a Core knew when it was left: open starts as snapshots, clocks, open alerts, spans of suppression, and what
// waited to go out. Events that waited in order buffers are not in it: the source is the buffer.
type State struct {
	core     *Core
	machines map[string][]byte
	pending  []pendingAlert
	out      []outgoing
}

// pendingAlert is an alert that a rule over alerts has not seen yet.
type pendingAlert struct {
	alert *cep.Alert
	order *order
}

// Change is what became of a rule when another set took over.
type Change struct {
	Rule string
	Kind ChangeKind
	// Starts is the number of open starts that are kept or dropped, Reason why they could not be kept.
	Starts int
	Reason string
}

// ChangeKind says what became of a rule.
type ChangeKind uint8

// What becomes of a rule.
const (
	RuleKept    ChangeKind = iota // its meaning is what it was: it goes on
	RuleAdded                     // it begins with what lies above the swap
	RuleChanged                   // its open starts are dropped, and it begins anew
	RuleDeleted                   // its open alerts end
)

var changeNames = [...]string{"kept", "added", "changed", "deleted"}

// String returns the word for the change.
func (k ChangeKind) String() string { return changeNames[k] }

// errCarried says that the partitions of a recording have no place to read again from.
var errCarried = errors.New("events inside a recording cannot be read again from where they were")

// Leave ends the work of the Core where its watermarks stand, and returns what it knows. The Core must not be used
// afterwards; [Resume] goes on.
func (c *Core) Leave() (*State, error) {
	c.Release()
	s := &State{core: c, machines: map[string][]byte{}, out: c.left.rest()}
	for _, p := range c.partitions {
		if len(p.carried) > 0 {
			return nil, fmt.Errorf("leave partition %s of stream %s: %w", p.id.Name, p.id.Stream, errCarried)
		}
	}
	for _, r := range c.running {
		if r.disabled == "" {
			s.machines[r.rule.ID] = r.machine.AppendSnapshot(nil)
		}
	}
	seen := map[*order]bool{}
	for _, k := range c.clocks {
		s.out = append(s.out, k.out.rest()...)
		for e := k.buffer.least(); e != nil; e = k.buffer.least() {
			k.buffer.pop()
			if o := e.place.origin; o != nil && !seen[o] {
				seen[o] = true
				s.pending = append(s.pending, pendingAlert{e.alert, o})
			}
		}
	}
	slices.SortStableFunc(s.pending, func(a, b pendingAlert) int { return a.order.compare(b.order) })
	slices.SortStableFunc(s.out, func(a, b outgoing) int { return a.order.compare(&b.order) })
	return s, nil
}

// Resume goes on with another set of rules, or the same one, from where a Core was left (S10). A rule of the same id and
// fingerprint keeps its open starts; what a rule begins anew lies above the watermark at which the Core was left. Changes
// tell what became of each rule, by id.
//
// Every partition then has to be read again from [Core.From] before anything goes on: what lies there was read but not
// released, or must be seen by rules that are new. It is not counted again. The schema of the set must hold every field at
// the slot where the set before had it.
func Resume(set *rules.Set, streams []Stream, o Options, state *State) (*Core, []Change, error) {
	c, err := New(set, streams, o)
	if err != nil {
		return nil, nil, err
	}
	old := state.core
	c.arrivals, c.left.list = old.arrivals, state.out
	for _, s := range c.streams {
		if before := old.byName[s.Name]; before != nil {
			c.adoptStream(s, before)
		}
	}
	c.adoptClocks(old)
	changes := c.adoptRules(state)
	for _, p := range state.pending {
		if low := c.find(p.alert.Rule); low != nil && low.feed != nil {
			low.clock.deliver(low.feed, p.alert, p.order)
		}
	}
	c.emit()
	return c, changes, nil
}

// From is the offset from which a partition has to be read after [Resume]: 0 if nothing of it was read.
func (c *Core) From(id *cep.Partition) int64 {
	p := c.partitions[id]
	if p == nil || len(p.marks) == 0 {
		return 0
	}
	return p.marks[0].offset
}

func (c *Core) adoptStream(s, before *stream) {
	s.released, s.floor, s.highest, s.first = before.released, before.floor, before.highest, before.first
	s.summary = before.summary
	for _, p := range before.partitions {
		q := &partition{
			id: p.id, stream: s, highest: p.highest, watermark: p.watermark, idle: p.idle, ended: p.ended,
			readTo: -1, settled: -1, again: p.readTo, believed: p.settled, refused: p.refused,
		}
		if len(p.marks) > 0 {
			p.forget()
			first := p.marks[0]
			q.highest, q.watermark = first.highest, max(first.watermark, s.floor)
			q.marks = []mark{{offset: first.offset, highest: first.highest, watermark: first.watermark, newest: cep.BeforeAll}}
			q.rereading = true
			c.rereading++
		}
		s.partitions = append(s.partitions, q)
		if p.id != nil {
			c.partitions[p.id] = q
		}
	}
}

// adoptClocks sets the clocks to where they were. One that is new stands where its streams do: the swap.
func (c *Core) adoptClocks(old *Core) {
	now, seq := old.now(), uint64(0)
	for _, k := range old.clocks {
		seq = max(seq, k.seq)
	}
	for _, k := range c.clocks { // lower layers first
		k.seq = seq
		i := slices.IndexFunc(old.clocks, func(o *clock) bool { return o.name() == k.name() })
		if i >= 0 {
			o := old.clocks[i]
			k.released, k.first, k.started, k.alerts = o.released, o.first, o.started, o.alerts
			continue
		}
		if k.released = k.watermark(now); k.released != cep.BeforeAll {
			k.first, k.started = k.released, true
		}
	}
}

// name identifies a clock: what its rules read.
func (k *clock) name() string {
	var b strings.Builder
	for _, s := range k.streams {
		fmt.Fprintf(&b, "%q ", s.Name)
	}
	fmt.Fprintf(&b, "layer %d %q", k.layer, k.reads)
	return b.String()
}

func (c *Core) adoptRules(state *State) []Change {
	var changes []Change
	places := map[partitionName]*cep.Partition{}
	for id := range c.partitions {
		places[partitionName{id.Stream, id.Name}] = id
	}
	intern := func(stream, name string) *cep.Partition {
		n := partitionName{stream, name}
		if places[n] == nil {
			places[n] = &cep.Partition{Stream: stream, Name: name, Order: math.MaxInt}
		}
		return places[n]
	}
	for _, r := range c.running {
		before := state.core.find(r.rule.ID)
		change := Change{Rule: r.rule.ID, Kind: RuleAdded}
		r.after = r.clock.released
		if before != nil {
			change.Kind, change.Starts = RuleChanged, before.machine.OpenStarts()
			data, ok := state.machines[r.rule.ID]
			if ok && before.rule.Fingerprint == r.rule.Fingerprint {
				m, err := nfa.Restore(r.rule.Program, r.clock.memo, data, intern)
				if err == nil {
					change.Kind = RuleKept
					r.machine, r.started, r.after = m, before.started, before.clock.released
					r.changeKeys(before.rule.Keys)
					if c.options.Furthest {
						m.TrackFurthest()
					}
				} else {
					change.Reason = err.Error()
				}
			}
			c.send(r, r.maker.Adopt(before.maker, cep.Moment{Time: before.clock.released, Seq: cep.ByTime}))
		}
		if !r.started && r.clock.started {
			r.start(r.clock.released)
		}
		r.clock.deadlines[r.place] = r.deadline()
		changes = append(changes, change)
	}
	for _, before := range state.core.running {
		if c.find(before.rule.ID) == nil {
			changes = append(changes, Change{Rule: before.rule.ID, Kind: RuleDeleted, Starts: before.machine.OpenStarts()})
			c.send(before, before.maker.EndAll(cep.Moment{Time: before.clock.released, Seq: cep.ByTime}, nil))
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Rule, b.Rule) })
	slices.SortStableFunc(c.left.list, func(a, b outgoing) int { return a.order.compare(&b.order) })
	return changes
}

// changeKeys lets keys that were put on the rule's list wait from now on, and ends the wait of those taken off (S4.4).
func (r *running) changeKeys(before []cep.Key) {
	if !r.started {
		return
	}
	for _, key := range before {
		if !slices.Contains(r.rule.Keys, key) {
			r.machine.Dismiss([]byte(key))
		}
	}
	for _, key := range r.rule.Keys {
		if !slices.Contains(before, key) {
			r.machine.Await([]byte(key), r.after)
		}
	}
}

type partitionName struct{ stream, name string }

// send puts alerts of the swap where alerts wait to go out.
func (c *Core) send(r *running, list []alert.Out) {
	for _, o := range list {
		c.left.push(outgoing{o.Alert, order{time: o.Moment.Time, layer: r.rule.Layer, timed: true, rank: r.rank, key: o.Key}})
	}
}
