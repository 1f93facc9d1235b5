package ruletest

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

// Zero is the time that `at` counts from: the beginning of a year, of a day, and a Thursday.
var Zero = cep.Time(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())

// TimeFields are where the events of a recorded file keep their time: the first that an event has, RFC 3339.
var TimeFields = []string{"@timestamp", "timestamp", "time", "ts"}

const (
	// maxAhead and idleAfter are those of a stream without settings of its own.
	maxAhead  = time.Hour
	idleAfter = 30 * time.Second
	// maxEvents bounds the events of one test, so that `times: 1000000000` is an error and not a hang. A million takes
	// some seconds.
	maxEvents = 1_000_000
)

var errEvents = fmt.Errorf("more than %d events in one test", maxEvents)

// Result is what came of one test.
type Result struct {
	Rule *patterns.Rule
	Test *patterns.Test
	// Alerts are those that the rule let out.
	Alerts []*cep.Alert
	// Failure says what differs, line by line; it is empty where the test passed.
	Failure []string
}

// Passed reports whether all was as the test expects.
func (r *Result) Passed() bool { return len(r.Failure) == 0 }

// Name is the rule's id and the test's name: what a filter is matched with.
func (r *Result) Name() string { return name(r.Rule, r.Test) }

func name(r *patterns.Rule, t *patterns.Test) string { return r.ID + "/" + t.Name }

// Run runs the tests whose names the filter matches, all where it is nil, in the order of rules and tests. Tests of
// disabled rules run too. The error is a test that cannot be run: a file that is not there.
func Run(set *rules.Set, filter *regexp.Regexp) ([]Result, error) {
	var results []Result
	for _, r := range set.Rules {
		for i := range r.Tests {
			t := &r.Tests[i]
			if filter != nil && !filter.MatchString(name(r, t)) {
				continue
			}
			result, err := runTest(set, r, t)
			if err != nil {
				return results, fmt.Errorf("%s: test %q of %s: %w", t.Pos, t.Name, r.ID, err)
			}
			results = append(results, result)
		}
	}
	return results, nil
}

// bench is one test on its engine.
type bench struct {
	set        *rules.Set
	rule       *patterns.Rule
	test       *patterns.Test
	core       *engine.Core
	decoder    codec.Decoder // of events in the rule file, which have their time from `at`
	partitions *source.Partitions
	offsets    map[string]int64 // by stream: of the next event
	zero, now  cep.Time
	events     int
	foreign    int              // events on streams that the rule does not read
	read       []*cep.Partition // partitions that events came from
	// silence is how long nothing has arrived, ticked how much of it the streams have been told.
	silence, ticked cep.Duration
	alerts          []*cep.Alert
}

func runTest(set *rules.Set, r *patterns.Rule, t *patterns.Test) (Result, error) {
	b := &bench{
		set: set, rule: r, test: t,
		partitions: source.NewPartitions(r.Streams...),
		offsets:    map[string]int64{},
		zero:       Zero, now: cep.BeforeAll,
	}
	alone := *r
	alone.Enabled = true
	compiled := *set.Set
	compiled.Rules = []*patterns.Rule{&alone}
	streams := make([]engine.Stream, len(r.Streams))
	for i, s := range r.Streams {
		streams[i] = engine.Stream{Name: s, Lateness: t.Lateness, MaxAhead: maxAhead}
	}
	var err error
	b.core, err = engine.New(&rules.Set{Set: &compiled}, streams, engine.Options{
		Alert:    func(a *cep.Alert) { b.alerts = append(b.alerts, a) },
		Furthest: true,
	})
	if err != nil {
		return Result{}, err
	}
	b.decoder = b.newDecoder(codec.TimeSpec{})
	for i := range t.Steps {
		if err := b.step(&t.Steps[i], i == 0); err != nil {
			return Result{}, fmt.Errorf("%s: %w", t.Steps[i].Pos, err)
		}
	}
	b.core.Finish(0)
	return Result{Rule: r, Test: t, Alerts: b.alerts, Failure: b.judge()}, nil
}

func (b *bench) newDecoder(t codec.TimeSpec) codec.Decoder {
	return codec.NewJSON(b.set.Schema, t, codec.Options{
		Raw:       b.rule.Alert.Include == patterns.IncludeFirstLast || b.rule.Alert.Include == patterns.IncludeAll,
		Partition: b.partitions.Get,
	})
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
	case s.File != "":
		return b.file(s, first)
	}
	if b.events+s.Times > maxEvents { // said before they are played
		return errEvents
	}
	at := b.zero.Add(s.At)
	for range s.Times {
		if err := b.push(b.decoder, s.From, s.Event, at); err != nil {
			return err
		}
		at = at.Add(s.Every)
	}
	return nil
}

// push decodes an event and hands it to the engine. at is its time where it does not say it itself.
func (b *bench) push(decoder codec.Decoder, stream string, data []byte, at cep.Time) error {
	if b.events++; b.events > maxEvents {
		return errEvents
	}
	p := b.partitions.Get(stream, "test")
	if p == nil { // the rule does not read the stream; whoever checks the rules is warned
		b.foreign++
		return nil
	}
	ev := cep.Event{Time: at, Position: cep.Position{Partition: p, Offset: b.offsets[stream]}}
	b.offsets[stream]++
	if err := decoder.Decode(data, &ev); err != nil {
		return err
	}
	b.now = max(b.now, ev.Time)
	b.silence, b.ticked = 0, 0
	for _, q := range []*cep.Partition{p, ev.Position.Partition} { // a recording may say where an event was first read
		if !slices.Contains(b.read, q) {
			b.read = append(b.read, q)
		}
	}
	b.core.Push(p, &ev, decoder)
	return nil
}

// idle lets time pass in which nothing arrives. Once a stream has been silent for long enough its partitions no longer
// count, and its time follows the clock on the wall from its last event on.
func (b *bench) idle(d cep.Duration) {
	b.silence += d
	if b.silence < idleAfter {
		return
	}
	for _, p := range b.read {
		b.core.Idle(p)
	}
	passed := b.silence - b.ticked
	b.ticked = b.silence
	for _, name := range b.rule.Streams {
		b.core.Tick(name, passed)
	}
	if b.now != cep.BeforeAll {
		b.now = b.now.Add(passed)
	}
	b.core.Release()
}

// judge returns what differs from what the test expects.
func (b *bench) judge() []string {
	want := b.test.Expect
	c := comparison{zero: b.zero, want: want.Alerts, got: b.alerts}
	var failure []string
	missing := false
	if want.Count >= 0 {
		if len(b.alerts) == want.Count {
			return nil
		}
		failure = append(failure, fmt.Sprintf("expected %s, got %d", alertCount(want.Count), len(b.alerts)))
		missing = len(b.alerts) < want.Count
		for j := range min(len(b.alerts), maxSurplus) {
			failure = append(failure, "  "+c.found(j))
		}
	} else {
		failure = c.diff()
		missing = len(b.alerts) < len(want.Alerts)
	}
	if len(failure) > 0 {
		failure = append(failure, b.hints(missing)...)
	}
	return failure
}

func alertCount(n int) string {
	if n == 1 {
		return "1 alert"
	}
	return fmt.Sprintf("%d alerts", n)
}
