package ruletest

import (
	"fmt"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

// bench is one test on its engine.
type bench struct {
	set  *rules.Set
	rule *patterns.Rule
	test *patterns.Test
	// next are the rules that steps of the test bring, by the file's name.
	next       map[string]*rules.Set
	streams    []engine.Stream // of the rule and of those whose alerts it reads, in all versions
	options    engine.Options
	core       *engine.Core
	partitions *source.Partitions
	decoders   decoders
	offsets    map[string]int64 // by stream: of the next event
	zero, now  cep.Time
	events     int
	foreign    int // events on streams that the rule does not read
	// order are the partitions that events came from, read what came from each: a service that starts again reads again.
	order []*cep.Partition
	read  map[*cep.Partition][]record
	// silence is how long nothing has arrived, ticked how much of it the streams have been told.
	silence, ticked cep.Duration
	alerts          []*cep.Alert
}

// record is an event of a test, before it is decoded.
type record struct {
	stream string
	data   []byte
	// offset is where it stands in the stream's partition of the test, found where it was first read, which a recorded
	// event may say.
	offset, found int64
	// at is the event's time; recorded says that the event tells it itself.
	at       cep.Time
	recorded bool
}

// decoders are for events in rule files, whose time is given, and for recorded ones.
type decoders struct{ given, recorded codec.Decoder }

func newBench(set *rules.Set, r *patterns.Rule, t *patterns.Test) (*bench, error) {
	b := &bench{
		set: set, rule: r, test: t,
		next:    map[string]*rules.Set{},
		offsets: map[string]int64{},
		zero:    Zero, now: cep.BeforeAll,
		read: map[*cep.Partition][]record{},
	}
	b.options = engine.Options{
		Alert: func(a *cep.Alert) {
			if a.Rule == r.ID {
				b.alerts = append(b.alerts, a)
			}
		},
		Furthest: true,
	}
	first := withRead(set, r.ID, true)
	streams := streamsOf(first)
	for i := range t.Steps {
		s := &t.Steps[i]
		if s.Reload == "" {
			continue
		}
		next, err := set.Replace(s.Pos.File, s.Reload)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Pos, err)
		}
		b.next[s.Reload] = withRead(next, r.ID, false)
		streams = append(streams, streamsOf(b.next[s.Reload])...)
	}
	slices.Sort(streams)
	streams = slices.Compact(streams)
	b.partitions = source.NewPartitions(streams...)
	for _, name := range streams {
		b.streams = append(b.streams, engine.Stream{Name: name, Lateness: t.Lateness, MaxAhead: maxAhead})
	}
	var err error
	if b.core, err = engine.New(first, b.streams, b.options); err != nil {
		return nil, err
	}
	b.set = first
	return b, b.makeDecoders()
}

// withRead returns the set with only a rule, and the rules whose alerts it reads, and those that they read, without silences:
// what nobody wants to hear of for now says nothing of whether a rule is right. on switches the rule on where it is off or a
// shadow.
func withRead(set *rules.Set, id string, on bool) *rules.Set {
	wanted := map[string]bool{}
	var want func(id string)
	want = func(id string) {
		if wanted[id] {
			return
		}
		wanted[id] = true
		for _, x := range set.Rules {
			if x.ID == id {
				for _, lower := range x.Reads {
					want(lower)
				}
			}
		}
	}
	want(id)
	some := *set
	compiled := *set.Set
	some.Set, compiled.Rules, compiled.Silences = &compiled, nil, nil
	for _, x := range set.Rules {
		if !wanted[x.ID] {
			continue
		}
		heard := *x
		heard.Silences = nil
		if x.ID == id && on {
			heard.Enabled, heard.Shadow = true, false
		}
		compiled.Rules = append(compiled.Rules, &heard)
	}
	return &some
}

// streamsOf returns the streams that rules read, but for that of alerts.
func streamsOf(set *rules.Set) []string {
	var streams []string
	for _, r := range set.Rules {
		streams = append(streams, r.Inputs()...)
	}
	return slices.DeleteFunc(streams, func(s string) bool { return s == engine.AlertStream })
}

// makeDecoders makes the decoders for the rules that run; the engine must stand before it.
func (b *bench) makeDecoders() error {
	times, err := codec.ParseTime(TimeFields...)
	if err != nil {
		return err
	}
	options := codec.Options{Raw: engine.NeedsRaw(b.set), Partition: b.partitions.Get}
	b.decoders = decoders{codec.NewJSON(b.set.Schema, codec.TimeSpec{}, options), codec.NewJSON(b.set.Schema, times, options)}
	return nil
}

// step does one thing that a test says.
func (b *bench) step(s *patterns.TestStep, first bool) error {
	switch {
	case s.Advance > 0:
		if b.now == cep.BeforeAll {
			b.now = b.zero
		}
		b.now = b.now.Add(s.Advance)
		b.core.Advance(b.now)
		return nil
	case s.Idle > 0:
		b.idle(s.Idle)
		return nil
	case s.Restart:
		return b.resume(b.set)
	case s.Reload != "":
		return b.resume(b.next[s.Reload])
	case s.File != "":
		return b.file(s, first)
	}
	if b.events+s.Times > maxEvents { // said before they are played
		return errEvents
	}
	at := b.zero.Add(s.At)
	for range s.Times {
		if err := b.push(record{stream: s.From, data: s.Event, at: at}); err != nil {
			return err
		}
		at = at.Add(s.Every)
	}
	return nil
}

// push takes a new event.
func (b *bench) push(rec record) error {
	if b.events++; b.events > maxEvents {
		return errEvents
	}
	if b.partitions.Get(rec.stream, partitionName) == nil { // the rule does not read the stream; whoever checks the rules is warned
		b.foreign++
		return nil
	}
	rec.offset = b.offsets[rec.stream]
	b.offsets[rec.stream]++
	ev, err := b.play(rec)
	if err != nil {
		return err
	}
	b.now = max(b.now, ev.Time)
	b.silence, b.ticked = 0, 0
	p := ev.Position.Partition
	if b.read[p] == nil {
		b.order = append(b.order, p)
	}
	rec.found = ev.Position.Offset
	b.read[p] = append(b.read[p], rec)
	return nil
}

// partitionName is the name of the one partition of each stream; events of a recording may say another.
const partitionName = "test"

// play decodes an event and hands it to the engine.
func (b *bench) play(rec record) (cep.Event, error) {
	decoder := b.decoders.given
	if rec.recorded {
		decoder = b.decoders.recorded
	}
	ev := cep.Event{Time: rec.at, Position: cep.Position{Partition: b.partitions.Get(rec.stream, partitionName), Offset: rec.offset}}
	if err := decoder.Decode(rec.data, &ev); err != nil {
		return ev, err
	}
	b.core.Push(ev.Position.Partition, &ev, decoder)
	return ev, nil
}

// idle lets time pass in which nothing arrives. Once a stream has been silent for long enough its partitions no longer
// count, and its time follows the clock on the wall from its last event on.
func (b *bench) idle(d cep.Duration) {
	b.silence += d
	if b.silence < idleAfter {
		return
	}
	for _, p := range b.order {
		b.core.Idle(p)
	}
	passed := b.silence - b.ticked
	b.ticked = b.silence
	for i := range b.streams {
		b.core.Tick(b.streams[i].Name, passed)
	}
	if b.now != cep.BeforeAll {
		b.now = b.now.Add(passed)
	}
	b.core.Release()
}

// resume stops the service and starts it again, with the same rules or others.
func (b *bench) resume(set *rules.Set) error {
	state, err := b.core.Leave()
	if err != nil {
		return err
	}
	if b.core, _, err = engine.Resume(set, b.streams, b.options, state); err != nil {
		return err
	}
	b.set = set
	if err := b.makeDecoders(); err != nil {
		return err
	}
	for _, p := range b.order {
		from := b.core.From(p)
		for i := range b.read[p] {
			if b.read[p][i].found < from {
				continue
			}
			if _, err := b.play(b.read[p][i]); err != nil {
				return err
			}
		}
	}
	return nil
}
