package engine_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

// disk keeps what cuts say, as a store does.
type disk struct {
	records map[string]checkpoint.Record
	state   []byte
	sources []checkpoint.SourcePosition
	epoch   cep.Epoch
	sets    map[string]*rules.Set
}

func (d *disk) commit(t fataler, cut *engine.Cut) {
	if d.records == nil {
		d.records, d.sets = map[string]checkpoint.Record{}, map[string]*rules.Set{}
	}
	seen := map[string]bool{}
	for _, r := range cut.Records {
		k := string(append([]byte{r.Slot}, r.Key...))
		if seen[k] {
			t.Fatal(fmt.Sprintf("record %q twice in epoch %d", k, cut.Epoch))
		}
		seen[k] = true
		if r.Value == nil {
			delete(d.records, k)
			continue
		}
		d.records[k] = checkpoint.Record{Slot: r.Slot, Key: slices.Clone(r.Key), Value: slices.Clone(r.Value)}
	}
	d.state, d.sources, d.epoch = cut.State, cut.Sources, cut.Epoch
	for _, s := range cut.Older {
		d.sets[s.ID()] = s
	}
}

func (d *disk) saved() *engine.Saved {
	return &engine.Saved{
		State: d.state,
		Records: func(each func(checkpoint.Record) error) error {
			for _, r := range d.records {
				if err := each(r); err != nil {
					return err
				}
			}
			return nil
		},
		Older: func(id string) (*rules.Set, error) {
			if s := d.sets[id]; s != nil {
				return s, nil
			}
			return nil, checkpoint.ErrMissing
		},
	}
}

// life is a job that may crash: what it pushed since its last barrier is read again, and what came of it forgotten.
type life struct {
	*engine.Core
	lender
	t       fataler
	set     *rules.Set
	streams []engine.Stream
	disk    *disk
	read    [3][]input // all that was read, by partition, in order
	// alerts and rejects are those of committed epochs, fresh the rejects since the last one.
	alerts         []engine.Out
	rejects, fresh []string
	epoch          cep.Epoch
	removed        int // records
	crashed        int
	changes        map[string][]engine.Change // by what brought them
}

func newLife(t fataler, set *rules.Set, o engine.Options, streams ...engine.Stream) *life {
	l := &life{t: t, set: set, streams: streams, disk: &disk{}}
	core, err := engine.New(set, streams, l.options(o))
	if err != nil {
		t.Fatal(err)
	}
	l.Core = core
	return l
}

func (l *life) options(o engine.Options) engine.Options {
	o.PerClock = true
	o.Reject = func(r *engine.Reject) {
		l.fresh = append(l.fresh, fmt.Sprintf("%s %s/%s/%d@%d %s", r.Reason, r.Position.Partition.Stream, r.Position.Partition.Name, r.Position.Offset, r.Time, r.Data))
	}
	return o
}

// take reads the next event of a partition.
func (l *life) take(i int, in input) {
	l.read[i] = append(l.read[i], in)
	l.give(i, in)
}

func (l *life) give(i int, in input) {
	in.partition = partitions()[i]
	l.PushRecord(in.partition, l.lend(in), l, fmt.Appendf(nil, "record %d", in.offset))
}

// partitions are those that tests know, as the last call of parts gave them out.
func partitions() []*cep.Partition { return []*cep.Partition{auth0, auth1, web0} }

// barrier ends an epoch and commits it.
func (l *life) barrier() {
	l.epoch++
	cuts := make(chan *engine.Cut, 1)
	if err := l.Barrier(l.epoch, func(c *engine.Cut) { cuts <- c }); err != nil {
		l.t.Fatal(err)
	}
	var cut *engine.Cut
	select {
	case cut = <-cuts:
	case <-l.Broken():
		l.t.Fatal(l.Err())
	}
	for _, r := range cut.Records {
		if r.Value == nil {
			l.removed++
		}
	}
	l.disk.commit(l.t, cut)
	l.alerts = append(l.alerts, cut.Alerts...)
	l.rejects = append(l.rejects, l.fresh...)
	l.fresh = nil
}

// crash goes on from the last barrier, of which read is how much had been read by then.
func (l *life) crash(o engine.Options, read [3]int) {
	l.Close()
	l.fresh = nil
	core, err := engine.Restore(l.set, l.streams, parts(), l.options(o), l.disk.saved())
	if err != nil {
		l.t.Fatal(err)
	}
	l.Core = core
	for i, n := range read {
		l.read[i] = l.read[i][:n]
	}
	l.reread([3]bool{true, true, true})
	if len(l.fresh) > 0 {
		l.t.Fatal("rejected twice:", l.fresh)
	}
}

// swap brings another set.
func (l *life) swap(set *rules.Set, o engine.Options) {
	l.Release() // as the swap does, which the plan must foresee
	plan, err := l.Plan(set)
	if err != nil {
		l.t.Fatal(err)
	}
	waits := [3]bool{}
	for i, p := range partitions() {
		_, waits[i] = l.Unreleased(p)
	}
	var changes []engine.Change
	if len(l.read[0])%2 == 0 {
		l.Core, changes, err = l.Swap(set)
	} else {
		var state *engine.State
		if state, err = l.Leave(); err == nil {
			l.Core, changes, err = engine.Resume(set, l.streams, l.options(o), state)
		}
	}
	if err != nil {
		l.t.Fatal(err)
	}
	if diff := gocmp.Diff(plan, changes); diff != "" {
		l.t.Fatal("what was planned, and what became of it (-plan +swap):", diff)
	}
	l.set = set
	if l.changes == nil {
		l.changes = map[string][]engine.Change{}
	}
	l.changes[fmt.Sprint(l.read, set.Sources)] = changes
	l.reread(waits)
}

// reread reads partitions again from where something waits.
func (l *life) reread(which [3]bool) {
	for i, p := range partitions() {
		from := l.From(p)
		if !which[i] {
			continue
		}
		for _, in := range l.read[i] {
			if in.offset >= from {
				l.give(i, in)
			}
		}
	}
}

// parts gives out the partitions that tests know.
func parts() *source.Partitions {
	p := source.NewPartitions("auth", "web")
	for _, q := range []**cep.Partition{&auth0, &auth1, &web0} {
		*q = p.Get((*q).Stream, (*q).Name)
	}
	return p
}

// byRuleAndKey are the alerts of each rule and key, in order.
func byRuleAndKey(list []engine.Out) map[string][]string {
	m := map[string][]string{}
	for _, o := range list {
		k := o.Alert.Rule + " " + string(o.Key)
		m[k] = append(m[k], fmt.Sprintf("%x %s", o.Alert.ID[:4], line(o.Alert)))
	}
	return m
}

// layout is how a Core does its work, which must not show.
type layout struct {
	engine.Options
	procs int
}

func drawLayout(t *rapid.T) layout {
	return layout{engine.Options{
		Batch: rapid.SampledFrom([]int{1, 2, 3, 10, 1000}).Draw(t, "batch"), Shards: rapid.IntRange(1, 5).Draw(t, "shards"),
		Parallel: rapid.Bool().Draw(t, "parallel"),
	}, rapid.IntRange(1, 4).Draw(t, "procs")}
}

// history is what happens to a job: events in the order in which they are read, and facts that come between them.
type history struct {
	rules   func() *rules.Set
	all     [][]input
	arrival []int // the partition of each event
	streams []engine.Stream
	// arrived says that it is known when events came in.
	arrived              bool
	idle, idleAt, tickAt int
	// edits bring another set before an event.
	edits map[int]uint64
}

func drawHistory(t *rapid.T) *history {
	h := &history{rules: layeredRules, all: drawPartitions(t), streams: slices.Clone(metamorphicStreams), edits: map[int]uint64{}}
	h.streams[0].MaxAhead = rapid.SampledFrom([]cep.Duration{0, 5}).Draw(t, "max ahead")
	h.arrived = rapid.Bool().Draw(t, "arrivals are known")
	for i, list := range h.all {
		for range list {
			h.arrival = append(h.arrival, i)
		}
	}
	h.arrival = rapid.Permutation(h.arrival).Draw(t, "arrival")
	h.idle, h.idleAt = rapid.IntRange(0, 2).Draw(t, "idle"), rapid.IntRange(0, 60).Draw(t, "idle at")
	h.tickAt = rapid.IntRange(0, 60).Draw(t, "tick at")
	return h
}

// setAt is the set that runs before an event, and whether it takes over there.
func (h *history) setAt(n int) (set *rules.Set, edited bool) {
	at := -1
	for e := range h.edits {
		if e <= n {
			at = max(at, e)
		}
	}
	if at < 0 {
		return h.rules(), false
	}
	set = editedSet(h.rules(), h.edits[at])
	set.Sources = []patterns.Source{{Name: fmt.Sprint(h.edits[at])}}
	return set, at == n
}

// play lives through a history with barriers before some events, and crashes before some others.
func (h *history) play(t fataler, o layout, barriers []int, crashes map[int]layout) *life {
	parts()
	runtime.GOMAXPROCS(o.procs)
	set, _ := h.setAt(-1)
	l := newLife(t, set, o.Options, h.streams...)
	for _, p := range partitions() {
		l.Open(p)
	}
	rest, saved, at, swapped := slices.Clone(h.all), slices.Clone(h.all), -1, -1
	var read [3]int
	done := map[int]bool{}
	for n := 0; n <= len(h.arrival); n++ {
		if set, ok := h.setAt(n); ok && swapped < n {
			l.swap(set, o.Options)
			swapped = n
		}
		if slices.Contains(barriers, n) && at < n {
			l.barrier()
			saved, at = slices.Clone(rest), n
			for i, list := range l.read {
				read[i] = len(list)
			}
		}
		if next, ok := crashes[n]; ok && !done[n] && at >= 0 {
			done[n] = true
			l.crashed++
			o = next
			runtime.GOMAXPROCS(o.procs)
			l.set, _ = h.setAt(at)
			l.crash(o.Options, read)
			rest, n, swapped = slices.Clone(saved), at-1, at
			continue
		}
		if n == len(h.arrival) {
			break
		}
		i := h.arrival[n]
		in := rest[i][0]
		rest[i] = rest[i][1:]
		if h.arrived {
			l.Arrive(in.time.Add(cep.Duration(6*(n%2) - 8))) // some lie too far above
		}
		l.take(i, in)
		if n == h.idleAt {
			l.Idle(partitions()[h.idle])
		}
		if n == h.tickAt {
			l.Tick("web", 3)
		}
	}
	l.Finish(3)
	l.barrier()
	l.Close()
	return l
}

// Barriers and crashes at any moments, with any number of shards before and after, change neither the alerts of a rule and
// key, nor those of a clock, nor what is counted or refused.
func TestCrashesChangeNothing(t *testing.T) {
	crashes, alerts, rejects, removed := 0, 0, 0, 0
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	rapid.Check(t, func(t *rapid.T) {
		got, want := sameAfterCrashes(t, drawHistory(t))
		crashes += got.crashed
		alerts += len(want.alerts)
		rejects += len(want.rejects)
		removed += got.removed
	})
	if crashes == 0 || alerts == 0 || rejects == 0 || removed == 0 {
		t.Errorf("%d crashes, %d alerts, %d rejects, %d records removed: the test tests nothing", crashes, alerts, rejects, removed)
	}
}

// The same holds where other rules take over on the way.
func TestCrashesAndEditsChangeNothing(t *testing.T) {
	crashes, drained := 0, 0
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		for range rapid.IntRange(1, 4).Draw(t, "edits") {
			h.edits[rapid.IntRange(0, len(h.arrival)).Draw(t, "edit at")] = rapid.Uint64().Draw(t, "which")
		}
		got, _ := sameAfterCrashes(t, h)
		crashes += got.crashed
		for _, c := range slices.Concat(slices.Collect(maps.Values(got.changes))...) {
			if c.Kind == engine.RuleDraining {
				drained++
			}
		}
	})
	if crashes == 0 || drained == 0 {
		t.Errorf("%d crashes, %d versions drained: the test tests nothing", crashes, drained)
	}
}

// sameAfterCrashes plays a history plainly, and with crashes.
func sameAfterCrashes(t *rapid.T, h *history) (got, want *life) {
	want = h.play(t, layout{engine.Options{Batch: 1}, 1}, nil, nil)
	return afterCrashes(t, h, want), want
}

func afterCrashes(t *rapid.T, h *history, want *life) (got *life) {
	barriers := rapid.SliceOfN(rapid.IntRange(0, len(h.arrival)), 0, 6).Draw(t, "barriers")
	crashes := map[int]layout{}
	for range rapid.IntRange(0, 3).Draw(t, "crashes") {
		crashes[rapid.IntRange(0, len(h.arrival)).Draw(t, "crash at")] = drawLayout(t)
	}
	o := drawLayout(t)
	text := fmt.Sprintf("%+v, barriers %v, crashes %+v, edits %v", o, barriers, crashes, h.edits)
	got = h.play(t, o, barriers, crashes)
	if diff := gocmp.Diff(byRuleAndKey(want.alerts), byRuleAndKey(got.alerts)); diff != "" {
		t.Fatalf("%s (-through +crashed):\n%s", text, diff)
	}
	if len(h.streams[0].KeyLocal) == 0 {
		sameByClock(t, want.alerts, got.alerts)
	}
	slices.Sort(want.rejects)
	slices.Sort(got.rejects)
	if diff := gocmp.Diff(want.rejects, got.rejects); diff != "" {
		t.Fatalf("%s, rejects (-through +crashed):\n%s", text, diff)
	}
	if diff := gocmp.Diff(want.Summary(), got.Summary()); diff != "" {
		t.Fatalf("%s (-through +crashed):\n%s", text, diff)
	}
	if diff := gocmp.Diff(want.changes, got.changes); diff != "" {
		t.Fatalf("%s (-through +crashed):\n%s", text, diff)
	}
	return got
}

// sameByClock compares the order of alerts among rules that share a clock.
func sameByClock(t *rapid.T, want, got []engine.Out) {
	clocks := func(list []engine.Out) map[string][]string {
		m := map[string][]string{}
		for _, o := range list {
			k := fmt.Sprint(o.Rule.Streams, o.Rule.Layer, o.Rule.Reads)
			if r := o.Rule.Alert.Resolve; r != nil {
				k = fmt.Sprint(k, r.From)
			}
			m[k] = append(m[k], line(o.Alert))
		}
		return m
	}
	if diff := gocmp.Diff(clocks(want), clocks(got)); diff != "" {
		t.Fatalf("by clock (-through +crashed):\n%s", diff)
	}
}

// A partition that had ended may grow: it is read on behind its last record, and its stream waits for it again.
func TestEndedPartitionGrows(t *testing.T) {
	parts()
	set := setOf(rule("r", 100, element{from: "auth", kind: "a"}, element{from: "auth", kind: "b"}))
	l := newLife(t, set, engine.Options{Batch: 1}, engine.Stream{Name: "auth"})
	l.Open(auth0)
	for i, kind := range []string{"a", "x", "x"} {
		in := ev(auth0, cep.Time(i), kind, "u")
		in.offset = int64(10 * i)
		l.take(0, in)
	}
	l.CloseStream("auth")
	l.End(auth0)
	l.barrier()
	if s := l.disk.sources[0]; !s.Ended || s.From != 21 || s.Read != 20 {
		t.Errorf("position %+v", s)
	}
	l.crash(engine.Options{Batch: 1}, [3]int{3})
	l.Open(auth0)
	if from := l.From(auth0); from != 21 {
		t.Errorf("read from %d", from)
	}
	l.Open(auth1)
	in := ev(auth0, 5, "b", "u")
	in.offset = 30
	l.take(0, in)
	l.barrier()
	if len(l.alerts) > 0 {
		t.Error("the stream does not wait for its partitions")
	}
	l.Finish(0)
	l.barrier()
	if len(l.alerts) != 1 || l.Summary().Streams[0].Events != 4 {
		t.Errorf("%d alerts, %+v", len(l.alerts), l.Summary().Streams[0])
	}
}

// apartRules are rules of one stream that keep users apart, and two that do not.
func apartRules() *rules.Set {
	seq := rule("seq", 20, element{from: "auth", kind: "a"}, element{from: "auth", kind: "b"})
	seq.Alert.Suppress = &patterns.Suppress{By: []patterns.SuppressBy{{Field: -1}}, For: 5, Max: 1}
	across := rule("across", 20, element{from: "auth", kind: "b"}, element{from: "auth", kind: "a"})
	across.Alert.Suppress = &patterns.Suppress{By: []patterns.SuppressBy{{Field: 0, Key: -1}}, For: 5, Max: 1}
	return setOf(seq, across,
		resolved(rule("quiet", 0, element{from: "auth", kind: "a"}), "auth", "x", 6, 2, patterns.OpenUpdate),
		rule("absent", 0, element{from: "auth", kind: "a"}, element{from: "auth", kind: "b", absent: true, lasts: 7}),
		rule("start", 0, element{from: "auth", kind: "a", absent: true, lasts: 5}, element{from: "auth", kind: "b", link: nfa.NoLink}))
}

// Where users keep to their partitions, rules that keep users apart find the same on the clocks of partitions, also after
// crashes and edits, and find it earlier.
func TestPartitionClocks(t *testing.T) {
	parts()
	core, err := engine.New(apartRules(), []engine.Stream{{Name: "auth", KeyLocal: [][]string{{"user"}}}}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"seq": "each partition of auth", "quiet": "each partition of auth", "absent": "each partition of auth",
		"start": "auth (not each partition: it counts from its first time)", "across": "auth (not each partition: it suppresses across user)",
	} {
		if got := core.ClockOf(id); got != want {
			t.Errorf("%s runs on the clock of %q, want %q", id, got, want)
		}
	}
	alerts, earlier := 0, 0
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		h.rules = apartRules
		for i, list := range h.all {
			for j := range list {
				list[j].values[slotUser] = cep.String(list[j].values[slotUser].AsString() + fmt.Sprint(i))
			}
		}
		if rapid.Bool().Draw(t, "edited") { // what a swap meets depends on the clock
			h.streams[0].KeyLocal = [][]string{{"user"}}
			h.edits[rapid.IntRange(0, len(h.arrival)).Draw(t, "edit at")] = rapid.Uint64().Draw(t, "which")
		}
		want := h.play(t, layout{engine.Options{Batch: 1}, 1}, nil, nil)
		alerts += len(want.alerts)
		h.streams[0].KeyLocal = [][]string{{"user"}}
		afterCrashes(t, h, want)
		half := *h
		half.arrival = h.arrival[:len(h.arrival)/2]
		apart := half.unfinished(t)
		half.streams = slices.Clone(h.streams)
		half.streams[0].KeyLocal = nil
		if together := half.unfinished(t); apart < together {
			t.Fatalf("%d alerts on the clocks of partitions, %d on one for all", apart, together)
		} else if apart > together {
			earlier++
		}
	})
	if alerts == 0 || earlier == 0 {
		t.Errorf("%d alerts, earlier %d times: the test tests nothing", alerts, earlier)
	}
}

// unfinished is the number of alerts before anything ends.
func (h *history) unfinished(t fataler) int {
	parts()
	l := newLife(t, h.rules(), engine.Options{Batch: 1}, h.streams...)
	for _, p := range partitions() {
		l.Open(p)
	}
	next := [3]int{}
	for _, i := range h.arrival {
		l.take(i, h.all[i][next[i]])
		next[i]++
	}
	l.barrier()
	return len(l.alerts)
}

// Nothing of a partition has to be read again once all that was read of it has been released, also where it may bring more: from
// then on it may be gone, and nothing is lost. Where one event waits, it has to be read again from there.
func TestAllReleased(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(l *life)
		from   int64 // where partition 0 has to be read again from; its records are at 0 and 10
	}{
		{"it waits for the other", func(*life) {}, 0},
		{"silent, and its last event is not released", func(l *life) { l.Idle(auth0) }, 0},
		{"silent, and overtaken", func(l *life) {
			l.Idle(auth0)
			l.take(1, ev(auth1, 20, "x", "u"))
		}, 11},
		{"silent, as all are, for a while", func(l *life) {
			l.Idle(auth0)
			l.Idle(auth1)
			l.Tick("auth", 30)
		}, 11},
		{"ended, and its last event is not released", func(l *life) { l.End(auth0) }, 0},
		{"ended, and overtaken", func(l *life) {
			l.End(auth0)
			l.take(1, ev(auth1, 20, "x", "u"))
		}, 11},
	} {
		t.Run(c.name, func(t *testing.T) {
			parts()
			set := setOf(rule("r", 100, element{from: "auth", kind: "a"}, element{from: "auth", kind: "b"}))
			l := newLife(t, set, engine.Options{Batch: 1}, engine.Stream{Name: "auth", Lateness: 5})
			l.Open(auth0)
			l.Open(auth1)
			first, second := ev(auth0, 1, "a", "u"), ev(auth0, 9, "x", "u")
			second.offset = 10
			l.take(0, first)
			l.take(0, second)
			c.before(l)
			l.barrier()
			if s := l.disk.sources[0]; s.From != c.from || s.Read != 10 {
				t.Errorf("position %+v", s)
			}
			l.crash(engine.Options{Batch: 1}, [3]int{2, len(l.read[1])})
			if from := l.From(auth0); from != c.from {
				t.Errorf("read from %d", from)
			}
			if _, waits := l.Unreleased(auth0); waits && c.from > 0 {
				t.Error("something of it waits")
			}
			end := ev(auth1, 40, "b", "u")
			end.offset = 10
			l.take(1, end)
			l.Finish(0)
			l.barrier()
			if len(l.alerts) != 1 || l.Summary().Streams[0].Events != 3+uint64(len(l.read[1])-1) {
				t.Errorf("%d alerts, %+v", len(l.alerts), l.Summary().Streams[0])
			}
		})
	}
}
