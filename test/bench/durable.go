package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/filesink"
)

// noEpochs is an interval that no run reaches.
const noEpochs = 24 * time.Hour

// epochs is a store that notes what the epochs of a job cost.
type epochs struct {
	checkpoint.Store

	mu    sync.Mutex
	began time.Time
	// cuts are the times from the start of a barrier to the cut that answers it: what was pushed before it is worked off in
	// that time too. took are those of commits, bytes what they wrote.
	cuts, took []time.Duration
	bytes      []int
}

// Commit implements [checkpoint.Store].
func (e *epochs) Commit(ctx context.Context, c *checkpoint.Commit) error {
	size := len(c.Manifest.Engine)
	for _, r := range c.Records {
		size += len(r.Key) + len(r.Value)
	}
	for _, m := range c.Outbox {
		size += len(m.Data)
	}
	began := time.Now()
	err := e.Store.Commit(ctx, c)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.took, e.bytes = append(e.took, time.Since(began)), append(e.bytes, size)
	return err
}

// point is the failpoint of the job, by which it tells how far it is.
func (e *epochs) point(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch name {
	case job.PointBarrier:
		e.began = time.Now()
	case job.PointCut:
		e.cuts = append(e.cuts, time.Since(e.began))
	}
}

// forget begins anew.
func (e *epochs) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cuts, e.took, e.bytes = nil, nil, nil
}

// note is what there is to say of the epochs since.
func (e *epochs) note() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	bytes := slices.Sorted(slices.Values(e.bytes))
	return fmt.Sprintf("epochs=%d %s %s epoch_p50_kb=%.1f epoch_max_kb=%.1f", len(e.took), spread("cut", e.cuts), spread("commit", e.took),
		float64(share(bytes, 0.5))/1e3, float64(share(bytes, 1))/1e3)
}

// share is what a share p of a sorted list is not above.
func share[T any](sorted []T, p float64) (v T) {
	if len(sorted) > 0 {
		v = sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
	}
	return v
}

// spread names the middle and the ends of times, in milliseconds.
func spread(name string, times []time.Duration) string {
	times = slices.Sorted(slices.Values(times))
	var b []byte
	for _, p := range []struct {
		name string
		of   float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}} {
		b = fmt.Appendf(b, "%s_%s_ms=%.3f ", name, p.name, share(times, p.of).Seconds()*1e3)
	}
	return string(bytes.TrimSpace(b))
}

// rig is a job with everything around it, in a directory.
type rig struct {
	dir    string
	config job.Config
	epochs *epochs
	job    *job.Job
	// closers are called in reverse.
	closers []func() error
}

// newRig opens a store in dir.
func newRig(o options, dir string) (*rig, error) {
	set, err := loadRules(o.work, o.rules, o.window)
	if err != nil {
		return nil, err
	}
	store, err := boltstore.Open(context.Background(), filepath.Join(dir, "state"), boltstore.Options{})
	if err != nil {
		return nil, err
	}
	r := &rig{dir: dir, epochs: &epochs{Store: store}, closers: []func() error{store.Close}}
	r.config = job.Config{
		Name: "bench", Rules: set, Partitions: source.NewPartitions("events"), Store: r.epochs, Failpoint: r.epochs.point,
		Interval: o.interval, Shards: o.shards,
	}
	return r, nil
}

// read adds the stream.
func (r *rig) read(from source.Source, lateness cep.Duration) error {
	at, err := codec.ParseTime("ts,unix_ms")
	if err != nil {
		return err
	}
	r.config.Streams = []job.Stream{{Stream: engine.Stream{Name: "events", Lateness: lateness}, Source: from, Time: at}}
	r.closers = append(r.closers, from.Close)
	return nil
}

// alerts is the file of those.
func (r *rig) alerts() string { return filepath.Join(r.dir, "alerts.jsonl") }

// send adds the sink.
func (r *rig) send(s sinks.Sink) {
	r.config.Sinks = []job.Sink{{Name: "out", Sink: s, All: true}}
	r.closers = append(r.closers, s.Close)
}

func (r *rig) sendToFile() error {
	s, err := filesink.New(filesink.Config{Path: r.alerts(), Owner: "bench/out"})
	if err == nil {
		r.send(s)
	}
	return err
}

// make makes the job, with the collector tuned as `cepd run` does.
func (r *rig) make() (err error) {
	tune := func(percent int) {
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(percent)
		}
	}
	tune(400)
	defer tune(200)
	r.job, err = job.New(context.Background(), r.config)
	return err
}

func (r *rig) close() error {
	var errs []error
	for _, f := range slices.Backward(r.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// settle waits until the job has worked off everything up to an offset, and then with an epoch until that is durable.
func (r *rig) settle(ctx context.Context, offset int64, epoch bool) error {
	for {
		s := r.job.Status()
		list := s.Streams[0].List
		if len(list) > 0 && list[0].Read > offset {
			break
		}
		if s.Phase == "ended" {
			return errors.New("the job has ended")
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	if !epoch {
		return nil
	}
	_, err := r.job.Checkpoint(ctx)
	return err
}

// tapped is a source whose readers are taken hold of.
type tapped struct {
	source.Source
	tap func(source.Reader) source.Reader
}

// Watch implements [source.Source].
func (t *tapped) Watch(ctx context.Context, known []string, d source.Discovery) error {
	return t.Source.Watch(ctx, known, tappedDiscovery{d, t.tap})
}

type tappedDiscovery struct {
	source.Discovery
	tap func(source.Reader) source.Reader
}

// Found implements [source.Discovery].
func (d tappedDiscovery) Found(r source.Reader) { d.Discovery.Found(d.tap(r)) }

// readFile adds the input of a workload as the stream, behind a gauge.
func (r *rig) readFile(o options, tap func(source.Reader) source.Reader) error {
	files, err := filesource.NewFollower(filesource.FollowerConfig{
		Stream: "events", Paths: []string{o.file}, Partitions: r.config.Partitions, Finite: true,
	})
	if err != nil {
		return err
	}
	return r.read(&tapped{files, tap}, 0)
}

// runDurable runs a workload through a job as `cepd run --once` does: a file in, epochs into a store on the disk, a file of
// alerts out. With a place for the state it ends without notice at the end of what is measured, and the state stays.
func runDurable(o options, m *meter) (err error) {
	dir := o.state
	if dir == "" {
		if dir, err = os.MkdirTemp("", "cepd-bench"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // what is left of it harms nobody
	}
	m.prepare()
	r, err := newRig(o, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	durable := o.interval < noEpochs
	running, end := context.WithCancel(context.Background())
	defer end()
	g := &gauge{o: o, m: m}
	g.settle = func(ctx context.Context, offset int64) error { return r.settle(ctx, offset, durable) }
	g.begun = r.epochs.forget
	g.stopped = func() error {
		m.note = r.epochs.note() + " " + collection()
		if o.state != "" {
			end()
			return running.Err()
		}
		return nil
	}
	if err := r.readFile(o, func(inner source.Reader) source.Reader { g.Reader = inner; return g }); err != nil {
		return err
	}
	if err := r.sendToFile(); err != nil {
		return err
	}
	r.config.Once = true
	if err := r.make(); err != nil {
		return err
	}
	m.start(0)
	if err := r.job.Run(running); err != nil && (o.state == "" || !errors.Is(err, context.Canceled)) {
		return err
	}
	m.outputs, err = countLines(r.alerts())
	return err
}

// collection measures a full collection.
func collection() string {
	runtime.GC()
	began, used := time.Now(), cpuSeconds()
	runtime.GC()
	return fmt.Sprintf("gc_wall_ms=%.1f gc_cpu_ms=%.1f", time.Since(began).Seconds()*1e3, (cpuSeconds()-used)*1e3)
}

func countLines(file string) (n int, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // there was no alert
	} else if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b := make([]byte, 1<<20)
	for {
		k, err := f.Read(b)
		n += bytes.Count(b[:k], []byte("\n"))
		if errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

// runRecover goes on from a state that runDurable has left, until the first record is asked for: how long a start takes.
func runRecover(o options, m *meter) (err error) {
	running, end := context.WithCancel(context.Background())
	defer end()
	m.prepare()
	m.start(0)
	began := time.Now()
	r, err := newRig(o, o.state)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	opened := time.Since(began)
	if err := r.readFile(o, func(inner source.Reader) source.Reader { return &stopped{inner, m, end} }); err != nil {
		return err
	}
	if err := r.sendToFile(); err != nil {
		return err
	}
	if err := r.make(); err != nil {
		return err
	}
	made := time.Since(began)
	status := r.job.Status()
	if status.Restored == nil {
		return fmt.Errorf("no state in %s: write one with -variant job", o.state)
	}
	if err := r.job.Run(running); !errors.Is(err, context.Canceled) {
		return err
	}
	m.events = status.Rules[0].Open
	m.note = fmt.Sprintf("open_ms=%.1f restore_ms=%.1f %s", opened.Seconds()*1e3, (made-opened).Seconds()*1e3, collection())
	m.heapEnd = heapMB()
	runtime.KeepAlive(r)
	return nil
}

// stopped ends the run at the first record, once the time is known.
type stopped struct {
	source.Reader
	m   *meter
	end func()
}

// Next implements [source.Reader].
func (s *stopped) Next(ctx context.Context) (source.Record, error) {
	s.m.stop(0)
	s.end()
	<-ctx.Done()
	return source.Record{}, ctx.Err()
}

// runPauses drives an engine without a job: what it stands still for at a barrier each so many events, without what waits in
// queues. With one shard all of it runs in this goroutine, and the pause is the whole of a barrier; with more the front goes
// on as soon as the barrier is on its way, and only that is the pause.
func runPauses(o options, m *meter) error {
	set, err := loadRules(o.work, o.rules, o.window)
	if err != nil {
		return err
	}
	parts := source.NewPartitions("events")
	readers, err := filesource.Open(filesource.Config{Stream: "events", Paths: []string{o.file}, Partitions: parts})
	if err != nil {
		return err
	}
	reader := readers[0]
	defer func() { _ = reader.Close() }() // it was only read
	at, err := codec.ParseTime("ts,unix_ms")
	if err != nil {
		return err
	}
	core, err := engine.New(set, []engine.Stream{{Name: "events"}}, engine.Options{PerClock: true, Shards: o.shards, Parallel: o.shards > 1})
	if err != nil {
		return err
	}
	defer core.Close()
	m.prepare()
	id, decoder := reader.Partition(), codec.NewJSON(set.Schema, at, codec.Options{})
	cuts := make(chan *engine.Cut, 1)
	var ev cep.Event
	var pauses []time.Duration
	epoch, last, n := cep.Epoch(0), 0, 0
	for ; n < o.limit; n++ {
		rec, err := reader.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		ev.Position = cep.Position{Partition: id, Offset: rec.Offset}
		if err := decoder.Decode(rec.Data, &ev); err != nil {
			return err
		}
		core.Push(id, &ev, decoder)
		if n+1 < o.warm || (n+1-o.warm)%o.every > 0 {
			continue
		}
		epoch++
		began := time.Now()
		if err := core.Barrier(epoch, func(c *engine.Cut) { cuts <- c }); err != nil {
			return err
		}
		if pause := time.Since(began); n+1 > o.warm {
			pauses = append(pauses, pause)
		} else {
			m.start(n + 1)
		}
		m.outputs += len((<-cuts).Alerts)
		last = n + 1
	}
	m.stop(last)
	m.heapEnd = heapMB()
	m.note = fmt.Sprintf("epochs=%d %s", len(pauses), spread("pause", pauses))
	runtime.KeepAlive(core)
	return nil
}
