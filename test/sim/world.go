package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/memstore"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/memsink"
)

const (
	// livesMax bounds the lives of a job: from then on nothing breaks any more, so that every run comes to its end.
	livesMax = 12
	// lifeMax bounds a life in simulated time: what hangs is a failure, not a test that never ends. Faults last minutes.
	lifeMax = 4 * time.Hour
)

// The sinks of every job: two that take all alerts, and one for what takes no part.
const (
	sinkMain   = "main"
	sinkOther  = "other"
	sinkRefuse = "refused"
)

var sinkNames = []string{sinkMain, sinkOther, sinkRefuse}

// Options choose what a run breaks on purpose.
type Options struct {
	// Destination is a promise that the destinations break.
	Destination memsink.Mutant
	// Store is a promise that the store breaks.
	Store StoreMutant
	// queue is where the job reads and writes; nil: nowhere but in memory.
	queue queue
}

// world is what outlives the lives of a job.
type world struct {
	scenario *Scenario
	options  Options
	disk     *memstore.Disk
	servers  map[string]*memsink.Server
	faulty   bool // faults happen

	mu    sync.Mutex
	count map[string]uint64 // how often something was drawn for a purpose
	log   []string          // what broke, for the report of a failure
	hits  map[string]int
	owner map[string]int // the last life that opened a sink
	// sleepers are the lives that somebody has taken over from and that have not found out.
	sleepers int
	at       int // which of the scenario's edits stands in the file of rules
	swaps    int // edits that took over in a job that ran

	// history is what the epochs say of the rules on the present disk.
	history *ruleHistory
}

func newWorld(s *Scenario, o Options) *world {
	w := &world{scenario: s, options: o, servers: map[string]*memsink.Server{}, count: map[string]uint64{}, hits: map[string]int{}, owner: map[string]int{}, faulty: true, history: newRuleHistory()}
	w.disk = memstore.NewDisk(memstore.Options{Keep: 1 + w.draw("keep", 3), FoldEpochs: 1 + w.draw("fold", 8)})
	for _, name := range sinkNames {
		w.servers[name] = memsink.NewServer(memsink.Options{
			Mutant:     o.Destination,
			Replicated: w.draw("replicated "+name, 2) == 0,
			Fault:      func(c memsink.Call, b *sinks.Batch) memsink.Fault { return w.sinkFault(name) },
		})
	}
	if o.queue != nil {
		o.queue.attach(w)
	}
	return w
}

// chance is true once in n, while faults happen.
func (w *world) chance(purpose string, n int) bool { return w.draw(purpose, n) == 0 && !w.calmed() }

// draw draws a number below n. What comes depends on the seed, the purpose, and how often the purpose was drawn for: what
// goroutines do side by side does not change each other's draws.
func (w *world) draw(purpose string, n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := fnv.New64a()
	h.Write([]byte(purpose))
	w.count[purpose]++
	return rand.New(rand.NewPCG(w.scenario.Seed^h.Sum64(), w.count[purpose])).IntN(n)
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// openedBy says whether a life has opened all sinks.
func (w *world) openedBy(number int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range sinkNames {
		if w.owner[name] < number {
			return false
		}
	}
	return true
}

func (w *world) calmed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.faulty
}

// calm ends all faults.
func (w *world) calm() {
	w.mu.Lock()
	w.faulty = false
	w.mu.Unlock()
	w.disk.SetFaults(nil)
	w.disk.SetFull(false)
	for _, s := range w.servers {
		s.Resume()
		s.Start()
		s.Replicate()
	}
	if w.options.queue != nil {
		w.options.queue.calm()
	}
}

// sinkFault decides what happens to a call of a sink.
func (w *world) sinkFault(name string) (f memsink.Fault) {
	if w.options.queue != nil {
		return f // the cluster breaks, and a minute in which its clients poll costs more than one in which all waits
	}
	if w.chance(name+" delay", 8) {
		f.Delay = time.Duration(w.draw(name+" time", 3000)) * time.Millisecond
	}
	switch {
	case w.chance(name+" reply", 14):
		f.LoseReply = true
	case w.chance(name+" request", 20):
		f.LoseRequest = true
	case w.chance(name+" failover", 25):
		f.Failover = w.mayFailOver()
	case w.chance(name+" failover", 25):
		f.FailoverAfter = w.mayFailOver()
	case w.chance(name+" refuse", 30):
		f.Refuse = errors.New("READONLY")
	case w.chance(name+" away", 60):
		f.Delay = 30 * time.Minute // longer than every timeout
	}
	if w.options.Destination == memsink.PositionApart && w.chance(name+" cut", 4) {
		f.LoseReply, f.Cut = true, 1
	}
	if w.chance(name+" replica", 3) {
		w.servers[name].Replicate()
	}
	if f != (memsink.Fault{}) {
		w.note("%s: %+v", name, f)
	}
	return f
}

// mayFailOver: a destination that forgets a takeover gives itself back to the one before, whose alerts of two streams may come in another
// order, and the owner stops and asks (docs/redis.md). So none forgets anything while one sleeps that somebody has taken over from.
func (w *world) mayFailOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sleepers == 0
}

// storeFault decides what happens to a call that changes the disk.
func (w *world) storeFault(l *life, op memstore.Op) memstore.Fault {
	switch name := "store " + op.Name; {
	case l.dead():
		return memstore.CrashBefore
	case w.chance(name, 40):
		w.note("store: %s fails before", op)
		return memstore.FailBefore
	case w.chance(name, 40):
		w.note("store: %s fails behind", op)
		return memstore.FailAfter
	case w.chance(name, 50):
		w.note("store: crash before %s", op)
		l.die()
		return memstore.CrashBefore
	case w.chance(name, 50):
		w.note("store: crash behind %s", op)
		l.die()
		return memstore.CrashAfter
	case w.chance(name, 150):
		w.note("the disk is full for a while")
		disk := l.disk
		disk.SetFull(true)
		time.AfterFunc(time.Duration(w.draw("full", 120))*time.Second, func() { disk.SetFull(false) })
	}
	return memstore.None
}

// life is one process: once it is dead nothing that it does reaches the world.
type life struct {
	world  *world
	number int
	cancel context.CancelFunc
	mu     sync.Mutex
	over   bool
	hung   bool // somebody has taken over while it stood still
	disk   *memstore.Disk
	store  *memstore.Store
	// history is that of its disk.
	history *ruleHistory
}

func (l *life) dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// die is kill -9.
func (l *life) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	l.disk.Crash()
	l.cancel()
	if q := l.world.options.queue; q != nil {
		q.cut(l)
	}
}

// point is a step of the job at which it may be killed.
func (l *life) point(name string) {
	w := l.world
	w.mu.Lock()
	w.hits[name]++
	w.mu.Unlock()
	if !l.dead() && w.chance(name, 80) {
		w.note("life %d: killed at %s", l.number, name)
		l.die()
	}
}

var errDead = errors.New("the process is dead")

// mortal is a sink whose calls end with the life, and wait while it hangs: until somebody else has opened the destination.
type mortal struct {
	sinks.Sink
	life *life
	name string
}

// Peek implements [sinks.Sink].
func (m *mortal) Peek(ctx context.Context) (sinks.Progress, error) {
	if err := m.life.reach(ctx, m.name); err != nil {
		return sinks.Progress{}, err
	}
	return m.Sink.Peek(ctx)
}

// Open implements [sinks.Sink].
func (m *mortal) Open(ctx context.Context) (sinks.Progress, error) {
	if err := m.life.reach(ctx, m.name); err != nil {
		return sinks.Progress{}, err
	}
	at, err := m.Sink.Open(ctx)
	if err == nil {
		w := m.life.world
		w.mu.Lock()
		w.owner[m.name] = max(w.owner[m.name], m.life.number)
		w.mu.Unlock()
	}
	return at, err
}

// Begin implements [sinks.Sink].
func (m *mortal) Begin(ctx context.Context, p sinks.Progress) error {
	if err := m.life.reach(ctx, m.name); err != nil {
		return err
	}
	return m.Sink.Begin(ctx, p)
}

// Publish implements [sinks.Sink].
func (m *mortal) Publish(ctx context.Context, b sinks.Batch) (sinks.Ack, error) {
	if err := m.life.reach(ctx, m.name); err != nil {
		return sinks.Ack{}, err
	}
	return m.Sink.Publish(ctx, b)
}

// reach returns once a call of the life would leave its process.
func (l *life) reach(ctx context.Context, sink string) error {
	for {
		if l.dead() {
			return errDead
		}
		if !l.hangs(sink) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (l *life) hangs(sink string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	return l.hung && l.world.owner[sink] <= l.number
}

// input brings the partitions of a stream, some of them late, and records with pauses between them.
type input struct {
	life   *life
	stream string
	parts  *source.Partitions
	pauses []int // of milliseconds, drawn before: readers run side by side
}

// Watch implements [source.Source].
func (in *input) Watch(ctx context.Context, _ []string, d source.Discovery) error {
	for i := range in.life.world.scenario.Partitions {
		p := &in.life.world.scenario.Partitions[i]
		if p.Stream != in.stream {
			continue
		}
		d.Found(&slow{memory: memory{id: in.parts.Get(p.Stream, p.Name), records: p.Records}, pauses: in.pauses, at: i})
	}
	d.Ready()
	return nil
}

// Close implements [source.Source].
func (in *input) Close() error { return nil }

// slow is a reader that pauses now and then.
type slow struct {
	memory
	pauses []int
	at     int
}

// Next implements [source.Reader].
func (s *slow) Next(ctx context.Context) (source.Record, error) {
	s.at++
	if ms := s.pauses[s.at%len(s.pauses)]; ms > 0 {
		t := time.NewTimer(time.Duration(ms) * time.Millisecond)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return source.Record{}, ctx.Err()
		case <-t.C:
		}
	}
	return s.memory.Next(ctx)
}

// configure makes the next life: another process with another configuration, but for what decides about output.
func (w *world) configure(l *life) (job.Config, error) {
	text := w.scenario.Rules
	switch {
	case w.scenario.Edits != nil:
		w.mu.Lock()
		text = w.scenario.Edits[w.at]
		w.mu.Unlock()
	case !w.scenario.OneClock && w.draw("passerby", 3) == 0:
		text = w.scenario.WithPasserby()
	}
	set, err := compile(text)
	if err != nil {
		return job.Config{}, err
	}
	spec, err := codec.ParseTime("t,unix")
	if err != nil {
		return job.Config{}, err
	}
	store, err := l.disk.Open()
	if err != nil {
		return job.Config{}, fmt.Errorf("open the disk: %w", err)
	}
	l.store = store
	l.disk.SetFaults(func(op memstore.Op) memstore.Fault { return w.storeFault(l, op) })
	parts := source.NewPartitions(streams...)
	cfg := job.Config{
		Name: "sim", Rules: set, Partitions: parts, Store: w.options.Store.around(l.recorded(store)), DeadLetters: sinkRefuse,
		Shards: 1 + w.draw("shards", 4), Interval: time.Duration(1+w.draw("interval", 2000)) * time.Millisecond,
		Once: true, Advance: w.scenario.Advance, Failpoint: l.point,
	}
	for i, name := range streams {
		in := &input{life: l, stream: name, parts: parts}
		for range 1 + w.draw("pauses", 20) {
			ms := 0
			if w.draw("pause", 4) == 0 {
				ms = w.draw("milliseconds", 1500)
			}
			if w.scenario.Live && w.draw("silence", 6) == 0 {
				ms = w.draw("silence", 20_000)
			}
			in.pauses = append(in.pauses, ms)
		}
		from, err := l.wire(in)
		if err != nil {
			return job.Config{}, err
		}
		cfg.Streams = append(cfg.Streams, job.Stream{
			Stream: engine.Stream{Name: name, Lateness: w.scenario.Lateness[i], MaxAhead: time.Hour},
			Source: from, Time: spec, Late: sinkRefuse,
		})
		if w.scenario.Live {
			cfg.Streams[i].Idle = time.Duration(1+w.draw("idle", 5)) * time.Second
		}
	}
	for _, name := range sinkNames {
		cfg.Sinks = append(cfg.Sinks, job.Sink{
			Name: name, Sink: &mortal{w.servers[name].Sink(), l, name}, All: name != sinkRefuse,
			BatchMax: 1 + w.draw("batch", 20), ProbeEvery: 30 * time.Second, Grace: 2 * time.Hour,
		})
	}
	if w.options.queue != nil {
		to, err := w.options.queue.sink(l)
		if err != nil {
			return job.Config{}, err
		}
		cfg.Sinks = append(cfg.Sinks, job.Sink{
			Name: sinkTopic, Sink: &mortal{to, l, sinkTopic}, All: true, BatchMax: 1 + w.draw("batch", 20), ProbeEvery: 30 * time.Second, Grace: 2 * time.Hour,
		})
	}
	return cfg, nil
}

// outcome is how a run went.
type outcome struct {
	lives, kills, zombies, damages int
	swaps                          int
	alerts                         int
	silenced                       uint64
	hits                           map[string]int
	log                            []string
}

func (o *outcome) add(p *outcome) {
	o.lives += p.lives
	o.kills += p.kills
	o.zombies += p.zombies
	o.damages += p.damages
	o.swaps += p.swaps
	o.alerts += p.alerts
	o.silenced += p.silenced
	for point, n := range p.hits {
		o.hits[point] += n
	}
}

// run lets a job live until its input is worked off, and compares what has arrived with what should have.
func run(ctx context.Context, s *Scenario, o Options) (out outcome, err error) {
	g, err := newGolden(s)
	if err != nil {
		return out, err
	}
	w := newWorld(s, o)
	var zombies sync.WaitGroup
	defer func() {
		zombies.Wait()
		out.hits, out.log, out.swaps = w.hits, w.log, w.swaps
	}()
	for {
		out.lives++
		if out.lives > livesMax {
			w.calm()
		}
		l, end := w.start(ctx, out.lives)
		var killed bool
		var err error
		if w.chance("zombie", 12) {
			// The process hangs for a while, and somebody starts another one on a copy of its state. Then it wakes up.
			select {
			case r := <-end:
				killed, err = r.killed, r.err
			case <-time.After(time.Duration(w.draw("zombie time", 20_000)) * time.Millisecond):
				if !w.openedBy(out.lives) { // two first starts side by side: the last one to open would own the destinations
					r := <-end
					killed, err = r.killed, r.err
					break
				}
				w.note("life %d: somebody takes over on a copy", out.lives)
				out.zombies++
				l.mu.Lock()
				l.hung = true
				l.mu.Unlock()
				w.mu.Lock()
				w.sleepers++
				w.mu.Unlock()
				w.disk, w.history = l.disk.Clone(), l.history.clone()
				zombies.Go(func() {
					r := <-end
					w.mu.Lock()
					w.sleepers--
					w.mu.Unlock()
					if r.err == nil && !r.killed {
						w.note("life %d: it ended without being told that it is a zombie", l.number)
					}
				})
				continue
			}
		} else {
			r := <-end
			killed, err = r.killed, r.err
		}
		switch {
		case killed:
			out.kills++
		case err == nil && !w.calmed():
			// A destination may have forgotten what it never acknowledged after the job was done with it: whoever starts it
			// once more finds that out. It reads nothing new.
			w.calm()
		case err == nil:
			out.alerts, out.silenced = g.number, g.silenced
			return out, w.compare(g)
		case out.lives > livesMax:
			return out, fmt.Errorf("a life without faults: %w", err)
		default:
			w.note("life %d ended: %v", out.lives, err)
		}
		if s.OneClock && w.chance("damage", 4) && w.damage() {
			out.damages++
		}
	}
}

// damage spoils the newest epoch: the one before is restored, and the destinations are ahead of it.
func (w *world) damage() bool {
	store, err := w.disk.Open()
	if err != nil {
		return false
	}
	list, err := store.Epochs(context.Background())
	if errors.Join(err, store.Close()) != nil || len(list) < 2 {
		return false
	}
	e := list[len(list)-1].Epoch
	w.note("epoch %d is damaged", e)
	return w.disk.Damage(e) == nil
}

// result is how a life ended.
type result struct {
	killed bool
	err    error
}

// start starts a life.
func (w *world) start(ctx context.Context, number int) (*life, <-chan result) {
	ctx, cancel := context.WithTimeout(ctx, lifeMax)
	l := &life{world: w, cancel: cancel, number: number, disk: w.disk, history: w.history}
	end := make(chan result, 1)
	go func() {
		defer cancel()
		err := l.run(ctx)
		end <- result{l.dead(), err}
	}()
	return l, end
}

// run runs a job until it ends or is killed.
func (l *life) run(ctx context.Context) error {
	cfg, err := l.world.configure(l)
	if err != nil {
		return err
	}
	j, err := job.New(ctx, cfg)
	if err == nil {
		err = l.live(ctx, j)
		j.Close()
	}
	if l.dead() {
		return err
	}
	if err == nil {
		if err = l.store.Check(context.Background()); err != nil {
			err = fmt.Errorf("check the store: %w", err)
		}
	}
	return errors.Join(err, l.store.Close())
}

// live runs the job, while somebody may edit its rules.
func (l *life) live(ctx context.Context, j *job.Job) error {
	if l.world.scenario.Edits == nil {
		return j.Run(ctx)
	}
	newest := cep.Epoch(0)
	if r := j.Status().Restored; r != nil {
		newest = r.Epoch
	}
	l.history.forgetAbove(newest)
	editing, stop := context.WithCancel(ctx)
	var editor sync.WaitGroup
	editor.Go(func() {
		select {
		case <-editing.Done(): // it has to run first
		case <-time.After(time.Millisecond):
			l.edit(editing, j)
		}
	})
	err := j.Run(ctx)
	stop()
	editor.Wait()
	return err
}

// recorded is the store of the life, which notes what its epochs say of the rules.
func (l *life) recorded(s checkpoint.Store) checkpoint.Store {
	if l.world.scenario.Edits == nil {
		return s
	}
	return &recorder{s, l.history}
}

// StoreMutant is a promise that a store breaks.
type StoreMutant uint8

// The mutants of the store.
const (
	SoundStore StoreMutant = iota
	// LoseTombstones keeps what was removed.
	LoseTombstones
	// OutboxApart makes messages durable in a step of its own: a crash falls between.
	OutboxApart
)

// StoreMutants are those that break something.
var StoreMutants = []StoreMutant{LoseTombstones, OutboxApart}

var storeMutantNames = [...]string{"sound", "lose tombstones", "outbox apart"}

// String names the mutant.
func (m StoreMutant) String() string { return storeMutantNames[m] }

func (m StoreMutant) around(s checkpoint.Store) checkpoint.Store {
	if m == SoundStore {
		return s
	}
	return &mutant{Store: s, which: m}
}

type mutant struct {
	checkpoint.Store
	which StoreMutant
}

// Commit implements [checkpoint.Store].
func (m *mutant) Commit(ctx context.Context, c *checkpoint.Commit) error {
	bad := *c
	switch m.which {
	case LoseTombstones:
		bad.Records = nil
		for _, r := range c.Records {
			if r.Value != nil {
				bad.Records = append(bad.Records, r)
			}
		}
	case OutboxApart:
		if c.Manifest.Epoch%3 == 0 {
			bad.Outbox = nil
		}
	case SoundStore:
	}
	return m.Store.Commit(ctx, &bad)
}
