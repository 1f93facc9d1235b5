package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
)

const (
	// soakRows is the number of rows of the table of a soak.
	soakRows = 10
	// soakEvents and soakLive are those of its events and of its live starts where nobody says.
	soakEvents = 50_000_000
	soakLive   = 1_000_000
	// soakHit says how many events there are for one that completes a match.
	soakHit = 100
	// soakGrace is how long messages are kept that the destination has: a minutes-long soak shows whether they go.
	soakGrace = 5 * time.Second
)

// soak runs a job over events of keys that never come back: each begins a start under a key of its own, but for one in a hundred,
// which completes that of a key which lives. Starts are open for as long as it takes live more to begin. It prints what is
// held as it goes on, and once time has passed all that was open.
func soak(w io.Writer, o options, size shape) (err error) {
	o.work = "w2"
	events, live := size.Events, size.Live
	dir, err := os.MkdirTemp("", "cepd-soak")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left of it harms nobody
	before := heapMB()
	r, err := newRig(o, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	p := &printer{w: w}
	s := &soakSource{p: p, r: r, events: events, before: before, id: r.config.Partitions.Get("events", "soak")}
	s.step = float64(o.window) / float64(live)
	s.lag = live/2/soakHit*soakHit + soakHit/2 // what lies so far behind an end is a start
	if err := r.read(s, 0); err != nil {
		return err
	}
	if err := r.sendToFile(); err != nil {
		return err
	}
	r.config.Sinks[0].Grace = soakGrace
	r.config.Once = true
	if err := r.make(); err != nil {
		return err
	}
	p.printf("%s, %d cores, %s; %d events, about %d live starts, epochs each %s\n\n", processor(), runtime.NumCPU(), runtime.Version(), events, live, o.interval)
	p.printf("| events | live starts | alerts | heap MB | RSS MB | store MB | epochs | cpu us an event |\n|---|---|---|---|---|---|---|---|\n")
	if err := r.job.Run(context.Background()); err != nil {
		return err
	}
	alerts, err := countLines(r.alerts())
	if err != nil {
		return err
	}
	if alerts != s.hits {
		return fmt.Errorf("%d alerts, exactly %d are there", alerts, s.hits)
	}
	p.printf("\n%d alerts, each of them once.\n", alerts)
	return p.err
}

// printer writes, and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// soakSource makes the events of a soak as they are read. It is its own one reader.
type soakSource struct {
	p      *printer
	r      *rig
	events int
	step   float64 // milliseconds between two events
	lag    int     // events between a start and its end
	before float64 // MB on the heap before all began
	id     *cep.Partition

	n, hits, rows int
	used          float64 // processor time and events at the last row
	done          int
	line          []byte
}

// Watch implements [source.Source].
func (s *soakSource) Watch(_ context.Context, _ []string, d source.Discovery) error {
	d.Found(s)
	d.Ready()
	return nil
}

// Partition implements [source.Reader].
func (s *soakSource) Partition() *cep.Partition { return s.id }

// Name implements [source.Reader].
func (s *soakSource) Name() string { return "soak" }

// Format implements [source.Reader].
func (s *soakSource) Format() source.Format { return source.Format{} }

// SeekTo implements [source.Reader].
func (s *soakSource) SeekTo(offset int64) error {
	if offset > 0 {
		return source.ErrNotSeekable
	}
	return nil
}

// Progress implements [source.Reader].
func (s *soakSource) Progress() (read, total int64) { return int64(s.n), int64(s.events) }

// Close implements [source.Source] and [source.Reader].
func (s *soakSource) Close() error { return nil }

// Next implements [source.Reader].
func (s *soakSource) Next(ctx context.Context) (source.Record, error) {
	if s.n > 0 && s.n <= s.events && s.n*soakRows/s.events > s.rows {
		s.rows++
		if err := s.row(ctx); err != nil {
			return source.Record{}, err
		}
	}
	i := s.n
	switch {
	case i < s.events:
		s.event(i)
	case i < s.events+quietEvents: // a month later
		s.line = fmt.Appendf(s.line[:0], `{"ts":%d,"type":"tomorrow"}`, int64(epoch)+int64(float64(s.events)*s.step)+30*24*3600*1000+int64(i))
	default:
		if err := s.row(ctx); err != nil {
			return source.Record{}, err
		}
		return source.Record{}, io.EOF
	}
	s.n++
	return source.Record{Data: s.line, Offset: int64(i)}, nil
}

// row says what is held, once all that was read is worked off and durable.
func (s *soakSource) row(ctx context.Context) error {
	if err := s.r.settle(ctx, int64(s.n-1), true); err != nil {
		return err
	}
	used := cpuSeconds()
	each := (used - s.used) * 1e6 / float64(s.n-s.done)
	if s.done == s.events {
		each = 0 // time passes, and no event is worth a figure
	}
	heap := heapMB() - s.before
	size, err := sizeMB(filepath.Join(s.r.dir, "state"))
	if err != nil {
		return err
	}
	status := s.r.job.Status()
	s.p.printf("| %d | %d | %d | %.1f | %d | %.1f | %d | %.2f |\n", min(s.n, s.events), status.Rules[0].Open,
		status.Rules[0].Alerts, heap, processMB("VmRSS:"), size, status.Epoch.Committed, each)
	s.used, s.done = cpuSeconds(), s.n // without what looking took
	return s.p.err
}

// sizeMB is the size of the files in a directory and below it.
func sizeMB(dir string) (mb float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			mb += float64(info.Size()) / 1e6
		}
		return err
	})
	return mb, err
}

// event makes event i: a start of key i, or the end of one that began about half a window before.
func (s *soakSource) event(i int) {
	kind, key := "login_failed", i
	if first := i - s.lag; i%soakHit == soakHit-1 && first >= 0 {
		kind, key = "transfer", first
		s.hits++
	}
	b := append(s.line[:0], `{"ts":`...)
	b = strconv.AppendInt(b, int64(epoch)+int64(float64(i)*s.step), 10)
	b = append(append(append(b, `,"type":"`...), kind...), `","user":"user-`...)
	b = strconv.AppendInt(b, int64(key), 10)
	b = append(b, `","src_ip":"`...)
	b = strconv.AppendInt(b, int64(key), 36)
	b = append(b, `.example","device":"web-chrome","country":"DE","amount":`...)
	b = strconv.AppendInt(b, int64(101+i%899), 10)
	s.line = append(b, `.25,"status":401,"session":"f0e1d2c3b4a59687","ok":false}`...)
}
