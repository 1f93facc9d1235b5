package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/rules"
)

// drainsMax is the number of older versions of a rule that may still have open starts: somebody who edits a rule more often
// than its window is long is trying things out.
const drainsMax = 4

// drainDefault is how long a version without a window may drain.
const drainDefault = 24 * time.Hour

// State is what a Core knew when it was left: its machines, clocks, open alerts, spans of suppression, and what waited to go
// out. Events that waited in order buffers are not in it: the source is the buffer.
type State struct {
	core     *Core
	standing *standing
	pending  []*pendingAlert
	out      []outgoing
}

type partitionName struct{ stream, name string }

// Change is what became of a rule when another set took over.
type Change struct {
	Rule string
	Kind ChangeKind
	// Starts is the number of open starts that are kept, drain, or are dropped. Dropped is the number of those of older
	// versions that had to make room. Reason says why a rule could not keep its starts, or finish them.
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

// errMoved says that the rules were compiled with a schema of their own.
var errMoved = errors.New("a field has another slot than before")

// Leave ends the work of the Core where its watermarks stand, and returns what it knows. The Core must not be used
// afterwards; [Resume] goes on.
func (c *Core) Leave() (*State, error) {
	c.Release()
	standing, err := c.stand()
	if err != nil {
		return nil, fmt.Errorf("leave: %w", err)
	}
	c.Close()
	if err := c.Err(); err != nil {
		return nil, fmt.Errorf("leave: %w", err)
	}
	b := c.back
	s := &State{core: c, standing: standing, out: b.left.rest()}
	standing.Alerts = b.arrivals
	for i, j := range b.junctions {
		s.out = append(s.out, j.out.rest()...)
		standing.Clocks[i].Alerts = j.alerts
		for _, l := range c.lanes(j.clock) {
			standing.Seq = max(standing.Seq, l.seq)
		}
	}
	for _, p := range b.pending {
		if p.readers > 0 {
			s.pending = append(s.pending, p)
		}
	}
	slices.SortStableFunc(s.pending, func(a, b *pendingAlert) int { return a.order.compare(&b.order) })
	slices.SortStableFunc(s.out, func(a, b outgoing) int { return a.order.compare(&b.order) })
	return s, nil
}

// Resume goes on with another set of rules, or the same one, from where a Core was left (S10), with as many shards. A rule of
// the same id and fingerprint keeps its open starts; what a rule begins anew lies above the watermark at which the Core was
// left. Changes tell what became of each rule, by id.
//
// Every partition then has to be read again from [Core.From] before anything goes on: what lies there was read but not
// released, or must be seen by rules that are new. It is not counted again. The schema of the set must hold every field at
// the slot where the set before had it.
func Resume(set *rules.Set, streams []Stream, o Options, state *State) (*Core, []Change, error) {
	c, err := state.core.successor(set, streams, o)
	if err != nil {
		return nil, nil, fmt.Errorf("resume: %w", err)
	}
	return c, c.resume(state), nil
}

// Swap is [Core.Leave] and [Resume] with the same streams and options. What can go wrong does before anything has stopped:
// unless the Core is broken, it goes on as it was after an error.
func (c *Core) Swap(set *rules.Set) (*Core, []Change, error) {
	next, err := c.successor(set, c.configured(), c.options)
	if err != nil {
		return nil, nil, fmt.Errorf("swap: %w", err)
	}
	state, err := c.Leave()
	if err != nil {
		return nil, nil, err
	}
	return next, next.resume(state), nil
}

// Plan says what [Core.Swap] would do to each rule, by id, and changes nothing.
func (c *Core) Plan(set *rules.Set) ([]Change, error) {
	next, err := c.successor(set, c.configured(), c.options)
	if err != nil {
		return nil, fmt.Errorf("plan a swap: %w", err)
	}
	standing, err := c.stand()
	if err != nil {
		return nil, fmt.Errorf("plan a swap: %w", err)
	}
	c.pause()
	if err := c.Err(); err != nil {
		return nil, fmt.Errorf("plan a swap: %w", err)
	}
	next.adoptStreams(standing, nil)
	w := &swap{core: next, old: c, dry: true}
	w.plan()
	return w.changes, nil
}

// configured are the streams as they were given.
func (c *Core) configured() []Stream {
	list := make([]Stream, len(c.streams))
	for i, s := range c.streams {
		list[i] = s.Stream
	}
	return list
}

// successor makes a Core that may take over from this one, with as many shards in the end.
func (c *Core) successor(set *rules.Set, streams []Stream, o Options) (*Core, error) {
	if err := sameSlots(c.set.Schema, set.Schema); err != nil {
		return nil, err
	}
	o.Shards = c.options.Shards
	return assemble(set, streams, o, c.numbers)
}

// resume makes a Core that has only been assembled go on from a state.
func (c *Core) resume(state *State) []Change {
	w := &swap{core: c, old: state.core, state: state, machines: map[*version][]*nfa.Machine{}, before: map[*version]*version{}, adopted: map[*version]bool{}, continued: map[*version]bool{}}
	c.adoptStreams(state.standing, nil)
	for _, s := range state.core.streams {
		if s.closed {
			c.CloseStream(s.Name)
		}
	}
	w.plan()
	c.complete()
	c.adoptClocks(state.standing)
	w.forget()
	w.take()
	c.run()
	return w.changes
}

// sameSlots reports the first field that has moved.
func sameSlots(before, after *cep.Schema) error {
	for slot := range before.Len() {
		if slot >= after.Len() || after.Name(slot) != before.Name(slot) {
			return fmt.Errorf("%w: %s", errMoved, before.Name(slot))
		}
	}
	return nil
}

// swap moves what a Core knew into the one that takes over.
type swap struct {
	core, old *Core
	state     *State
	changes   []Change
	// dry says that nothing moves: it is only asked what would become of each rule.
	dry bool
	// machines are those that go on, by the version in the new Core, and before the versions that they were of.
	machines map[*version][]*nfa.Machine
	before   map[*version]*version
	// adopted are the versions whose open alerts went to others, continued those whose makers go on as they are.
	adopted, continued map[*version]bool
}

// plan decides what becomes of each rule.
func (w *swap) plan() {
	after := map[string]bool{}
	for _, r := range w.core.set.Rules {
		if !r.Enabled {
			continue
		}
		after[r.ID] = true
		switch before, now := w.old.enlisted(r.ID), w.core.enlisted(r.ID); {
		case before == nil:
			w.changes = append(w.changes, Change{Rule: r.ID, Kind: RuleAdded})
		case now == nil: // nothing is read for one of its streams any more
			w.changes = append(w.changes, Change{Rule: r.ID, Kind: RuleChanged, Starts: w.starts(before)})
		default:
			w.changes = append(w.changes, w.change(before, now))
		}
	}
	for _, before := range w.old.rules {
		if !after[before.rule.ID] {
			w.changes = append(w.changes, Change{Rule: before.rule.ID, Kind: RuleDeleted, Starts: w.starts(before)})
		}
	}
	slices.SortFunc(w.changes, func(a, b Change) int { return strings.Compare(a.Rule, b.Rule) })
}

// starts is the number of open starts of all versions of a rule.
func (w *swap) starts(e *enrolled) (n int) {
	for _, v := range e.versions {
		for _, x := range v.all() {
			n += w.open(x)
		}
	}
	return n
}

func (w *swap) open(v *version) int {
	n, _ := w.old.open(v)
	return n
}

// change decides what becomes of the open starts of a rule, clock by clock.
func (w *swap) change(before, now *enrolled) Change {
	sum := Change{Rule: now.rule.ID, Kind: RuleChanged}
	if before.rule.Fingerprint == now.rule.Fingerprint && len(before.versions) == 0 {
		sum.Kind = RuleKept // there was no partition yet
	}
	for _, x := range before.versions {
		c := Change{Starts: w.open(x)}
		i := slices.IndexFunc(now.versions, func(v *version) bool { return v.clock.name == x.clock.name })
		if i >= 0 {
			c = w.changeVersion(x, now.versions[i])
		} else {
			c.Kind, c.Reason = RuleChanged, "it runs on another clock now, which is that of what it reads"
			for _, old := range x.drains {
				c.Dropped += w.open(old)
			}
		}
		sum.Kind = c.Kind
		if sum.Starts > 0 && c.Starts == 0 {
			sum.Kind = RuleDraining
		}
		sum.Starts += c.Starts
		sum.Dropped += c.Dropped
		if c.Reason != "" {
			sum.Reason = c.Reason
		}
	}
	return sum
}

// changeVersion decides what becomes of the open starts of a version where another one takes over on its clock.
func (w *swap) changeVersion(before, v *version) Change {
	c := Change{Kind: RuleChanged, Starts: w.open(before)}
	older := slices.DeleteFunc(slices.Clone(before.drains), func(x *version) bool { return x.over.Load() })
	alive := !before.over.Load()
	same := before.rule.Fingerprint == v.rule.Fingerprint
	if alive && same {
		switch err := w.keep(before, v); {
		case err == nil:
			c.Kind = RuleKept
		case c.Starts > 0:
			// One meaning and two programs: what is kept of a taken event follows from what the alert reads as well.
			c.Reason = "what its alert reads has changed, and with it what is kept for open starts"
		}
	}
	if c.Kind == RuleChanged && alive && (same || !v.rule.DropOnChange) && c.Starts > 0 {
		c.Kind = RuleDraining
		within := before.rule.Within
		if within == 0 {
			within = drainDefault
		}
		if !w.dry {
			before.until = before.clock.released.Add(within)
		}
		older = append(older, before)
	}
	for len(older) > drainsMax {
		c.Dropped += w.open(older[0])
		older = older[1:]
	}
	if !w.dry {
		for _, x := range older {
			w.drain(x, v)
		}
	}
	return c
}

// keep moves the machines of a version under another one of the same meaning. An error leaves them as they are.
func (w *swap) keep(before, v *version) error {
	list := make([]*nfa.Machine, 0, len(w.core.shards))
	for i, p := range w.old.parts(before) {
		// They are of one program, so the first one tells of all.
		if w.dry {
			return p.machine.Fits(v.rule.Program)
		}
		if err := p.machine.Under(v.rule.Program, w.core.memo(v, i)); err != nil {
			return err
		}
		list = append(list, p.machine)
	}
	v.number, v.counted = before.number, true
	w.machines[v], w.before[v] = list, before
	return nil
}

// memo is that of the lane of a version in a shard.
func (c *Core) memo(v *version, shard int) *nfa.Memo {
	if v.clock.layer > 0 {
		return nil
	}
	return c.shards[shard].memo
}

// drain lets the machines of an older version go on beside the one that took over.
func (w *swap) drain(before, heir *version) {
	v := newVersion(before.rule, before.set)
	v.number, v.book, v.heir, v.until, v.counted = before.number, w.core.number(), heir, before.until, true
	var list []*nfa.Machine
	for _, p := range w.old.parts(before) {
		if !p.gone {
			// Its predicates have numbers of another set, so it has a memo of its own.
			if err := p.machine.Under(before.rule.Program, nil); err != nil {
				panic(fmt.Sprintf("rule %s: %v", before.rule.ID, err)) // the program is its own
			}
			p.machine.Drain()
		}
		list = append(list, p.machine)
	}
	w.machines[v], w.before[v] = list, before
	w.core.addOlder(v)
}

// addOlder adds a version that drains beside the one that took over.
func (c *Core) addOlder(v *version) {
	v.clock = v.heir.clock
	v.clock.versions = append(v.clock.versions, v)
	v.heir.drains = append(v.heir.drains, v)
}

// forget takes back the records of what does not go on: with the next barrier, as what changes with it. Makers begin new books,
// but for those that go on as they are.
func (w *swap) forget() {
	c, block := w.core, &arena{}
	c.unsaved = w.old.unsaved
	put := func(v *version, number uint64, kind recordKind, key string) {
		c.unsaved = append(c.unsaved, checkpoint.Record{Slot: v.slot([]byte(key)), Key: block.key(number, kind, key)})
	}
	goesOn := map[*version]*version{}
	for v, before := range w.before {
		goesOn[before] = v
	}
	for v, x := range w.old.back.issuers {
		if x.gone {
			continue
		}
		now := goesOn[v]
		if now != nil && now.heir == nil && c.back.issuers[now].maker.Continue(x.maker) {
			now.book = v.book
			w.continued[v] = true
		} else {
			x.maker.StoredKeys(func(key []byte) { put(v, v.book, kindMaker, string(key)) })
		}
		if now != nil {
			y := c.back.issuers[now]
			y.merged, y.counters = x.merged, x.counters
			continue
		}
		for _, p := range w.old.parts(v) {
			if !p.gone {
				p.machine.StoredKeys(func(key string) { put(v, v.number, kindState, key) })
			}
		}
		if x.merged != nil {
			put(v, v.number, kindGlobals, "")
		}
		if x.counters != nil {
			put(v, v.number, kindCounters, "")
		}
	}
	for _, p := range w.old.back.pending {
		if p.stored {
			c.unsaved = append(c.unsaved, pendingRecord(p.number, nil, block))
		}
	}
}

// take gives the versions what they knew.
func (w *swap) take() {
	c := w.core
	b := c.back
	b.alerts = w.old.back.alerts
	b.waiting.Store(int64(len(b.alerts)))
	b.left.list = w.state.out
	for _, e := range c.rules {
		for _, v := range e.versions {
			w.takeVersion(v)
		}
	}
	for _, e := range w.old.rules {
		for _, before := range e.versions {
			if !w.adopted[before] {
				at := cep.Moment{Time: before.clock.released, Seq: cep.ByTime}
				w.send(before, w.old.back.issuers[before].maker.EndAll(at, nil))
			}
		}
	}
	slices.SortStableFunc(b.left.list, func(x, y outgoing) int { return x.order.compare(&y.order) })
	for _, p := range w.state.pending {
		if low := c.find(p.alert.Rule); low != nil && b.issuers[low].feed != nil {
			b.deliver(b.issuers[low].feed, p.alert, &p.order, true)
		}
	}
	if !c.options.PerClock {
		b.emit()
	}
}

// takeVersion gives a version and its older ones what they knew. Its alerts that are open go on where it runs on the clock of
// the version before.
func (w *swap) takeVersion(v *version) {
	c := w.core
	v.after = v.clock.released
	for _, x := range v.all() {
		if w.machines[x] != nil {
			w.install(x)
		}
	}
	if before := w.predecessor(v); before != nil {
		w.adopted[before] = true
		x := c.back.issuers[v]
		if !w.continued[before] {
			w.send(v, x.maker.Adopt(w.old.back.issuers[before].maker, cep.Moment{Time: before.clock.released, Seq: cep.ByTime}))
		}
		for _, older := range v.drains {
			x.maker.Join(c.back.issuers[older].maker)
		}
	}
	begins := v.clock.started() && (w.machines[v] == nil || !w.before[v].clock.started())
	for i, l := range c.lanes(v.clock) {
		if begins {
			l.begin(c.parts(v)[i], v.clock.released)
		}
		for _, x := range v.all() {
			p := c.parts(x)[i]
			p.started = v.clock.started()
			l.deadlines[x.place] = p.deadline()
		}
	}
}

// predecessor is the version of the rule that ran before: on the same clock, or else the only one.
func (w *swap) predecessor(v *version) *version {
	e := w.old.enlisted(v.rule.ID)
	if e == nil {
		return nil
	}
	if i := slices.IndexFunc(e.versions, func(x *version) bool { return x.clock.name == v.clock.name }); i >= 0 {
		return e.versions[i]
	}
	if e.local == nil && v.clock.partition == nil {
		return e.versions[0]
	}
	return nil
}

// install gives a version the machines that go on.
func (w *swap) install(v *version) {
	before := w.before[v]
	v.after = before.clock.released
	for i, l := range w.core.lanes(v.clock) {
		p, was := l.parts[v.place], w.old.parts(before)[i]
		p.machine, p.touched, p.stopped, p.gone, p.counters = w.machines[v][i], true, was.stopped, was.gone, was.counters
		if w.core.options.Furthest {
			p.machine.TrackFurthest()
		}
		if v.heir != nil {
			l.activate(p) // it may be over here
		}
	}
	was := w.old.routed(before)
	v.clock.readers.count(v, &was)
	w.core.back.issuers[v].read = was
	if v.heir == nil && v.clock.started() {
		w.changeKeys(v, before.rule.Keys)
	}
}

// changeKeys lets keys that were put on the rule's list wait from now on, and ends the wait of those taken off (S4.4).
func (w *swap) changeKeys(v *version, before []cep.Key) {
	for i, l := range w.core.lanes(v.clock) {
		m := w.core.parts(v)[i].machine
		for _, key := range before {
			if !slices.Contains(v.rule.Keys, key) && l.owns(v, []byte(key)) {
				m.Dismiss([]byte(key))
			}
		}
		for _, key := range v.rule.Keys {
			if !slices.Contains(before, key) && l.owns(v, []byte(key)) {
				m.Await([]byte(key), v.after)
			}
		}
	}
}

// send puts alerts of the swap where alerts wait to go out, or lets them out.
func (w *swap) send(v *version, list []alert.Out) {
	b := w.core.back
	for _, o := range list {
		at := order{time: o.Moment.Time, layer: v.rule.Layer, timed: true, rule: v.rule.ID, key: o.Key}
		if b.core.options.PerClock {
			b.let(outgoing{o.Alert, at, v})
			continue
		}
		b.left.push(outgoing{o.Alert, at, v})
	}
}
