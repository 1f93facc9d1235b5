package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/rules"
)

// drainsMax is the number of older versions of a rule that may still have open starts: somebody who edits a rule more often
// than its window is long is trying things out.
const drainsMax = 4

// drainDefault is how long a version without a window may drain.
const drainDefault = 24 * time.Hour

// olderVersion is a version of a rule that runs on for the starts that it has open.
type olderVersion struct {
	state  *State
	before *running
	data   []byte
	until  cep.Time
}

// State is what a Core knew when it was left: open starts as snapshots, clocks, open alerts, spans of suppression, and what
// waited to go out. Events that waited in order buffers are not in it: the source is the buffer.
type State struct {
	core     *Core
	machines map[*running][]byte
	pending  []pendingAlert
	out      []outgoing
	places   map[partitionName]*cep.Partition
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
	// Starts is the number of open starts that are kept, drain, or are dropped. Dropped is the number of those of older
	// versions that had to make room. Reason says why a rule of the same meaning could not keep its starts.
	Starts, Dropped int
	Reason          string
}

// ChangeKind says what became of a rule.
type ChangeKind uint8

// What becomes of a rule.
const (
	RuleKept     ChangeKind = iota // its meaning is what it was: it goes on
	RuleAdded                      // it begins with what lies above the swap
	RuleChanged                    // its open starts are dropped, and it begins anew
	RuleDraining                   // it begins anew, and its open starts finish under the old version
	RuleDeleted                    // its open starts are dropped, its open alerts end
)

var changeNames = [...]string{"kept", "added", "changed", "draining", "deleted"}

// String returns the word for the change.
func (k ChangeKind) String() string { return changeNames[k] }

// errCarried says that the partitions of a recording have no place to read again from.
var errCarried = errors.New("events inside a recording cannot be read again from where they were")

// Leave ends the work of the Core where its watermarks stand, and returns what it knows. The Core must not be used
// afterwards; [Resume] goes on.
func (c *Core) Leave() (*State, error) {
	c.Release()
	s := &State{core: c, machines: map[*running][]byte{}, out: c.left.rest()}
	for _, p := range c.partitions {
		if len(p.carried) > 0 {
			return nil, fmt.Errorf("leave partition %s of stream %s: %w", p.id.Name, p.id.Stream, errCarried)
		}
	}
	for _, r := range c.running {
		for _, v := range append([]*running{r}, r.drains...) {
			if v.disabled == "" {
				s.machines[v] = v.machine.AppendSnapshot(nil)
			}
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
	old := state.core
	for slot := range old.schema.Len() {
		if slot >= set.Schema.Len() || set.Schema.Name(slot) != old.schema.Name(slot) {
			return nil, nil, fmt.Errorf("resume: %w: %s", errMoved, old.schema.Name(slot))
		}
	}
	p := newPlan(set, state)
	c, err := build(set, streams, o, p.older)
	if err != nil {
		return nil, nil, err
	}
	c.arrivals, c.left.list = old.arrivals, state.out
	for _, s := range c.streams {
		if before := old.byName[s.Name]; before != nil {
			c.adoptStream(s, before)
		}
	}
	c.adoptClocks(old)
	c.adoptRules(p)
	for _, p := range state.pending {
		if low := c.find(p.alert.Rule); low != nil && low.feed != nil {
			low.clock.deliver(low.feed, p.alert, p.order)
		}
	}
	c.emit()
	return c, p.changes, nil
}

// errMoved says that the rules were compiled with a schema of their own.
var errMoved = errors.New("a field has another slot than before")

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

// plan is what becomes of each rule.
type plan struct {
	state   *State
	changes []Change
	// kept are the rules that go on with their machines, by id; older the versions that drain.
	kept  map[string]*nfa.Machine
	older []olderVersion
}

// newPlan decides what becomes of each rule when the set takes over.
func newPlan(set *rules.Set, state *State) *plan {
	p := &plan{state: state, kept: map[string]*nfa.Machine{}}
	after := map[string]*rules.Rule{}
	for _, r := range set.Rules {
		if !r.Enabled {
			continue
		}
		after[r.ID] = r
		if before := state.core.find(r.ID); before != nil {
			p.changes = append(p.changes, p.change(before, r))
		} else {
			p.changes = append(p.changes, Change{Rule: r.ID, Kind: RuleAdded})
		}
	}
	for _, before := range state.core.running {
		if after[before.rule.ID] == nil {
			p.changes = append(p.changes, Change{Rule: before.rule.ID, Kind: RuleDeleted, Starts: before.starts()})
		}
	}
	slices.SortFunc(p.changes, func(a, b Change) int { return strings.Compare(a.Rule, b.Rule) })
	return p
}

// change decides what becomes of the open starts of a rule.
func (p *plan) change(before *running, r *rules.Rule) Change {
	c := Change{Rule: r.ID, Kind: RuleChanged, Starts: before.machine.OpenStarts()}
	var older []olderVersion
	for _, old := range before.drains {
		older = append(older, olderVersion{p.state, old, p.state.machines[old], old.until})
	}
	data, ok := p.state.machines[before]
	if ok && before.rule.Fingerprint == r.Fingerprint {
		m, err := nfa.Restore(r.Program, nil, data, p.state.intern)
		if err == nil {
			c.Kind, p.kept[r.ID] = RuleKept, m
		} else {
			c.Reason = err.Error()
		}
	}
	if c.Kind == RuleChanged && ok && !r.DropOnChange && c.Starts > 0 {
		c.Kind = RuleDraining
		within := before.rule.Within
		if within == 0 {
			within = drainDefault
		}
		older = append(older, olderVersion{p.state, before, data, before.clock.released.Add(within)})
	}
	for len(older) > drainsMax {
		c.Dropped += older[0].before.machine.OpenStarts()
		older = older[1:]
	}
	p.older = append(p.older, older...)
	return c
}

// starts is the number of open starts of all versions.
func (r *running) starts() int {
	n := r.machine.OpenStarts()
	for _, old := range r.drains {
		n += old.machine.OpenStarts()
	}
	return n
}

// intern returns the partition of a position that open starts hold.
func (s *State) intern(stream, name string) *cep.Partition {
	if s.places == nil {
		s.places = map[partitionName]*cep.Partition{}
		for id := range s.core.partitions {
			s.places[partitionName{id.Stream, id.Name}] = id
		}
	}
	n := partitionName{stream, name}
	if s.places[n] == nil {
		s.places[n] = &cep.Partition{Stream: stream, Name: name, Order: math.MaxInt}
	}
	return s.places[n]
}

// addOlder adds a version that drains beside the one that took over. It drains on the streams that it reads, which must be
// those of its heir: otherwise the two have no common order in which to make alerts.
func (c *Core) addOlder(v *olderVersion) {
	heir := c.find(v.before.rule.ID)
	streams, missing := c.streamsOf(v.before.rule)
	if heir == nil || missing != "" || !slices.Equal(streams, heir.clock.streams) || !slices.Equal(v.before.rule.Reads, heir.clock.reads) {
		return
	}
	// Its predicates have numbers of another set, so it has a memo of its own.
	m, err := nfa.Restore(v.before.rule.Program, nil, v.data, v.state.intern)
	if err != nil {
		return
	}
	m.Drain()
	x := newRunning(v.before.rule, heir.rank, m)
	x.clock, x.heir, x.started, x.after, x.until = heir.clock, heir, true, v.before.clock.released, v.until
	heir.clock.rules = append(heir.clock.rules, x)
	heir.drains = append(heir.drains, x)
}

// adoptRules gives the rules what they knew.
func (c *Core) adoptRules(p *plan) {
	old := p.state.core
	for _, r := range c.running {
		r.after = r.clock.released
		before := old.find(r.rule.ID)
		if m := p.kept[r.rule.ID]; m != nil {
			// The machine that was restored to see whether it can be has a memo of its own; the shared one saves asking twice.
			if shared, err := nfa.Restore(r.rule.Program, r.clock.memo, p.state.machines[before], p.state.intern); err == nil {
				m = shared
			}
			r.machine, r.started, r.after = m, before.started, before.clock.released
			if c.options.Furthest {
				m.TrackFurthest()
			}
			r.changeKeys(before.rule.Keys)
		}
		if before != nil {
			c.send(r, r.maker.Adopt(before.maker, cep.Moment{Time: before.clock.released, Seq: cep.ByTime}))
		}
		for _, v := range r.drains {
			r.maker.Join(v.maker)
		}
		if !r.started && r.clock.started {
			r.start(r.clock.released)
		}
	}
	for _, k := range c.clocks {
		for _, r := range k.rules {
			k.deadlines[r.place] = r.deadline()
		}
	}
	for _, before := range old.running {
		if c.find(before.rule.ID) == nil {
			c.send(before, before.maker.EndAll(cep.Moment{Time: before.clock.released, Seq: cep.ByTime}, nil))
		}
	}
	slices.SortStableFunc(c.left.list, func(a, b outgoing) int { return a.order.compare(&b.order) })
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
