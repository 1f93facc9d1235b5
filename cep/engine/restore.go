package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/rules"
)

// Saved is an epoch that a store kept.
type Saved struct {
	State json.RawMessage
	// Records calls each for every record, in any order. What it is handed is valid during the call.
	Records func(each func(checkpoint.Record) error) error
	// Older returns the set of rules with an id, compiled with the schema of the state ([SchemaOf]).
	Older func(id string) (*rules.Set, error)
}

// ErrOtherClocks says that a rule would run on another clock than it did: that of its partitions, or one for all of them.
var ErrOtherClocks = errors.New("it ran on another clock: key_local of its stream is not what it was")

// ErrOtherRules says that a set of rules is not the one that a state belongs to.
var ErrOtherRules = errors.New("other rules than those that ran")

// Restore returns a Core that goes on where an epoch ended, with any number of shards. The set is the one that ran then,
// compiled with the schema of the state; [Core.Leave] and [Resume] bring another. The streams may be others: rules that read
// one which is not there any more are not run, and what they knew is forgotten.
//
// Every partition then has to be read again from [Core.From]; those that cannot be are to be ended. Until then nothing goes on.
func Restore(set *rules.Set, streams []Stream, parts *source.Partitions, o Options, s *Saved) (*Core, error) {
	standing, err := readStanding(s.State)
	if err != nil {
		return nil, err
	}
	schema, err := SchemaOf(s.State)
	if err != nil {
		return nil, err
	}
	if err := sameSlots(schema, set.Schema); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	c, err := assemble(set, streams, o, standing.Numbers)
	if err != nil {
		return nil, err
	}
	r := &restoration{core: c, standing: standing, versions: map[uint64]*restored{}, books: map[uint64]*version{}}
	c.adoptStreams(standing, func(stream, name string) *cep.Partition {
		if p := parts.Get(stream, name); p != nil {
			return p
		}
		return &cep.Partition{Stream: stream, Name: name, Order: alertOrder}
	})
	if err := r.match(s.Older); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	c.complete()
	c.adoptClocks(standing)
	r.number()
	if err := r.restore(s.Records); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	c.run()
	return c, nil
}

// restoration brings the versions of a state back.
type restoration struct {
	core      *Core
	standing  *standing
	numbering *numbering
	// versions are those that are restored, by number, and books the same by theirs.
	versions map[uint64]*restored
	books    map[uint64]*version
	pending  []*pendingAlert
	intake   *intake
}

// restored is a version with the machines that are made of its records, shard by shard.
type restored struct {
	version   *version
	state     *versionState
	restorers []*nfa.Restorer
	globals   bool
}

// match finds the rules of the versions in the state, and adds older versions.
func (r *restoration) match(older func(id string) (*rules.Set, error)) error {
	c := r.core
	sets := map[string]*rules.Set{}
	recorded := map[string]bool{}
	for i := range r.standing.Rules {
		s := &r.standing.Rules[i]
		if s.Set == "" {
			recorded[s.Rule] = true
			known := slices.IndexFunc(c.set.Rules, func(x *rules.Rule) bool { return x.ID == s.Rule && x.Enabled })
			if known < 0 || c.set.Rules[known].Fingerprint != s.Fingerprint {
				return fmt.Errorf("rule %s: %w", s.Rule, ErrOtherRules)
			}
			e := c.enlisted(s.Rule)
			if e == nil { // one of its streams is not there any more
				continue
			}
			i := slices.IndexFunc(e.versions, func(v *version) bool { return v.clock.name == s.Clock })
			if i < 0 {
				return fmt.Errorf("rule %s: %w", s.Rule, ErrOtherClocks)
			}
			r.add(e.versions[i], s)
			continue
		}
		if sets[s.Set] == nil {
			set, err := older(s.Set)
			if err != nil {
				return fmt.Errorf("rule %s, older version: %w", s.Rule, err)
			}
			sets[s.Set] = set
		}
		if err := r.addOlder(sets[s.Set], s); err != nil {
			return err
		}
	}
	for _, e := range c.rules {
		if e.local == nil && !recorded[e.rule.ID] && r.knowsAll(e.versions[0]) {
			return fmt.Errorf("rule %s: %w", e.rule.ID, ErrOtherRules)
		}
	}
	return nil
}

// knowsAll says whether the state knows all streams of a version: else it was not run for want of one.
func (r *restoration) knowsAll(v *version) bool {
	return !slices.ContainsFunc(v.clock.streams, func(s *stream) bool {
		return !slices.ContainsFunc(r.standing.Streams, func(x streamState) bool { return x.Name == s.Name })
	})
}

func (r *restoration) add(v *version, s *versionState) {
	v.number, v.book, v.after, v.counted = s.Number, s.Book, s.After, true
	r.versions[s.Number] = &restored{version: v, state: s}
	r.books[s.Book] = v
}

// addOlder adds an older version beside its heir. Where that does not run on the same clock any more, it is forgotten.
func (r *restoration) addOlder(set *rules.Set, s *versionState) error {
	i := slices.IndexFunc(set.Rules, func(x *rules.Rule) bool { return x.ID == s.Rule })
	if i < 0 || set.Rules[i].Fingerprint != s.Fingerprint {
		return fmt.Errorf("rule %s, older version: %w", s.Rule, ErrOtherRules)
	}
	e := r.core.enlisted(s.Rule)
	if e == nil {
		return nil
	}
	k := slices.IndexFunc(e.versions, func(v *version) bool { return v.clock.name == s.Clock })
	if k < 0 {
		return nil
	}
	v := newVersion(set.Rules[i], set)
	v.heir, v.until = e.versions[k], s.Until
	r.core.addOlder(v)
	r.add(v, s)
	return nil
}

// number learns the partitions that records name by number: also those of streams that are not read any more.
func (r *restoration) number() {
	c := r.core
	n := &numbering{places: map[uint64]*cep.Partition{}, names: map[partitionName]*cep.Partition{}}
	for i := range r.standing.Streams {
		s := &r.standing.Streams[i]
		for j := range s.Partitions {
			p := &s.Partitions[j]
			n.places[p.Number] = &cep.Partition{Stream: s.Name, Name: p.Name, Order: alertOrder}
		}
	}
	for id, p := range c.partitions {
		n.places[p.number] = id
	}
	r.numbering = n
}

// restore reads the records and gives the versions what they knew.
func (r *restoration) restore(records func(func(checkpoint.Record) error) error) error {
	c := r.core
	for _, x := range r.versions {
		for i := range c.parts(x.version) {
			m := c.memo(x.version, i)
			if x.version.heir != nil {
				m = nil // its predicates have numbers of another set
			}
			x.restorers = append(x.restorers, nfa.NewRestorer(x.version.rule.Program, m, r.numbering))
		}
	}
	r.intake = newIntake(len(c.shards), c.options.Parallel)
	if err := errors.Join(records(r.take), r.intake.end()); err != nil {
		return err
	}
	for _, e := range c.rules {
		for _, v := range e.versions {
			for _, x := range v.all() {
				if y := r.versions[x.number]; y != nil && y.version == x {
					if err := r.finish(y); err != nil {
						return fmt.Errorf("rule %s: %w", x.rule.ID, err)
					}
				}
			}
			r.settle(v)
		}
	}
	slices.SortFunc(r.pending, func(a, b *pendingAlert) int {
		if o := a.order.compare(&b.order); o != 0 {
			return o
		}
		return int(a.number) - int(b.number)
	})
	for _, p := range r.pending {
		c.back.restorePending(p)
	}
	return nil
}

// take takes a record. Those that belong to nothing any more are removed with the next barrier.
func (r *restoration) take(rec checkpoint.Record) error {
	number, kind, rest, err := splitKey(rec.Key)
	if err != nil {
		return err
	}
	x := r.versions[number]
	switch {
	case kind == kindPending && number == 0:
		p, err := readPending(rec.Value, r.numbering)
		if err != nil {
			return fmt.Errorf("record of an alert: %w", err)
		}
		in := cep.NewReader(rest)
		p.number = in.Uint()
		r.pending = append(r.pending, p)
		return in.End()
	case kind == kindMaker && r.books[number] != nil:
		v := r.books[number]
		if err := r.core.back.issuers[v].maker.Restore(slices.Clone(rest), slices.Clone(rec.Value)); err != nil {
			return fmt.Errorf("rule %s, alerts: %w", v.rule.ID, err)
		}
		return nil
	case x == nil || kind == kindMaker || kind == kindPending || kind == kindState && x.state.Disabled != "":
		r.core.unsaved = append(r.core.unsaved, checkpoint.Record{Slot: rec.Slot, Key: slices.Clone(rec.Key)})
		return nil
	}
	if err := r.takeVersion(x, kind, rest, rec.Value); err != nil {
		return fmt.Errorf("rule %s: %w", x.version.rule.ID, err)
	}
	return nil
}

func (r *restoration) takeVersion(x *restored, kind recordKind, rest, value []byte) error {
	issuer := r.core.back.issuers[x.version]
	switch kind {
	case kindState:
		i := 0
		if len(x.restorers) > 1 {
			i = shardOf(x.version.slot(rest), len(x.restorers))
		}
		return r.intake.take(i, x.restorers[i], x.version.rule.ID, rest, value)
	case kindGlobals:
		// The restorers are in the hands of others until all keys are there: they are given it by finish.
		x.globals, issuer.merged = true, slices.Clone(value)
		return nil
	case kindCounters:
		issuer.counters = slices.Clone(value)
		return issuer.readCounters(value, x.version.clock.readers)
	default:
		return fmt.Errorf("%w: a record of the unknown kind %q", checkpoint.ErrDamaged, kind)
	}
}

// finish gives a version its machines.
func (r *restoration) finish(x *restored) error {
	c, v := r.core, x.version
	issuer := c.back.issuers[v]
	issuer.mute = x.state.Mute
	issuer.maker.Restored()
	if x.state.Disabled != "" {
		issuer.disable(x.state.Disabled)
		for _, p := range c.parts(v) {
			p.stopped, p.touched = true, true
		}
		return nil
	}
	if !x.globals {
		return fmt.Errorf("%w: there are no globals", checkpoint.ErrDamaged)
	}
	for i, l := range c.lanes(v.clock) {
		if err := x.restorers[i].Globals(issuer.merged); err != nil {
			return err
		}
		m, err := x.restorers[i].Machine()
		if err != nil {
			return err
		}
		if i > 0 {
			m.SetCounters(nfa.Counters{})
		}
		p := l.parts[v.place]
		p.machine, p.touched = m, true
		if v.heir != nil {
			m.Drain()
			l.activate(p) // it may be over here
		}
	}
	return nil
}

// settle brings a version and its older ones together, and makes one begin that the state does not know.
func (r *restoration) settle(v *version) {
	c := r.core
	x := c.back.issuers[v]
	for _, older := range v.drains {
		x.maker.Join(c.back.issuers[older].maker)
	}
	if r.versions[v.number] == nil {
		v.after = v.clock.released
	}
	for i, l := range c.lanes(v.clock) {
		if r.versions[v.number] == nil && v.clock.started() {
			l.begin(l.parts[v.place], v.clock.released)
		}
		for _, y := range v.all() {
			p := c.parts(y)[i]
			p.started = v.clock.started()
			l.deadlines[y.place] = p.deadline()
		}
	}
}

// restorePending gives an alert to the rules that have not read it yet.
func (b *back) restorePending(p *pendingAlert) {
	if low := b.core.find(p.alert.Rule); low != nil && b.issuers[low].feed != nil {
		b.offer(b.issuers[low].feed, p, p.number, true)
	}
	if p.readers == 0 {
		b.core.unsaved = append(b.core.unsaved, pendingRecord(p.number, nil, &arena{}))
	}
}
