package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/pprof"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
)

// runCEPD replays a workload through cepd as `cepd replay` does.
func runCEPD(o options, m *meter) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200) // as `cepd replay` does
	}
	set, err := loadRules(o.work, o.rules, o.window)
	if err != nil {
		return err
	}
	parts := source.NewPartitions("events")
	readers, err := filesource.Open(filesource.Config{Stream: "events", Paths: []string{o.file}, Partitions: parts})
	if err != nil {
		return err
	}
	at, err := codec.ParseTime("ts,unix_ms")
	if err != nil {
		return err
	}
	m.prepare()
	m.start(0)
	var line []byte
	summary, err := engine.Replay(context.Background(), engine.ReplayConfig{
		Rules: set, Streams: []engine.Stream{{Name: "events"}}, Partitions: parts, Time: at,
		Readers: []source.Reader{&gauge{Reader: readers[0], o: o, m: m}},
		Alert: func(a *cep.Alert) error {
			m.outputs++
			line = alert.AppendJSON(line[:0], a)
			_, err := io.Discard.Write(line)
			return err
		},
	})
	if err != nil {
		return err
	}
	var starts uint64
	for _, r := range summary.Rules {
		starts += r.Opened
	}
	m.note = fmt.Sprintf("starts %d", starts)
	return nil
}

// gauge is a reader that measures: from the event at which the measuring begins to the limit or the end, and then what is
// still held, at once and after a day without events.
type gauge struct {
	source.Reader
	o    options
	m    *meter
	n    int
	last int64 // the offset of the input's last event
	// quiet counts the events behind the input that no rule wants.
	quiet int
	line  []byte

	// settle, where it is not nil, waits until all up to an offset is worked off: a job reads ahead. begun is told that the
	// measuring begins, stopped that it is over; its error ends the reading.
	settle  func(ctx context.Context, offset int64) error
	begun   func()
	stopped func() error
}

// quietEvents is how many events follow the input, a month later: time must pass, and the engine may work in batches.
const quietEvents = 10_000

// Next implements [source.Reader].
func (g *gauge) Next(ctx context.Context) (source.Record, error) {
	if g.n == g.o.warm && g.n > 0 && g.quiet == 0 {
		if err := g.workedOff(ctx, g.last); err != nil {
			return source.Record{}, err
		}
		if g.begun != nil {
			g.begun()
		}
		g.m.start(g.n)
	}
	if g.n < g.o.limit && g.quiet == 0 {
		r, err := g.Reader.Next(ctx)
		if err == nil {
			g.n++
			g.last = r.Offset
			return r, nil
		}
		if !errors.Is(err, io.EOF) {
			return r, err
		}
	}
	g.quiet++
	switch g.quiet {
	case 1:
		if err := g.workedOff(ctx, g.last); err != nil {
			return source.Record{}, err
		}
		g.m.stop(g.n)
		g.m.heapEnd = heapMB()
		if err := writeHeap(g.o.heapProfile); err != nil {
			return source.Record{}, err
		}
		if g.stopped != nil {
			if err := g.stopped(); err != nil {
				return source.Record{}, err
			}
		}
	case quietEvents:
		if err := g.workedOff(ctx, g.last+quietEvents-1); err != nil {
			return source.Record{}, err
		}
		g.m.heapIdle = heapMB()
		return source.Record{}, io.EOF
	}
	at := int64(epoch) + 30*24*3600*1000 + int64(g.quiet) // behind everything in the input
	g.line = fmt.Appendf(g.line[:0], `{"ts":%d,"type":"tomorrow"}`, at)
	return source.Record{Data: g.line, Offset: g.last + int64(g.quiet)}, nil
}

func (g *gauge) workedOff(ctx context.Context, offset int64) error {
	if g.settle == nil {
		return nil
	}
	return g.settle(ctx, offset)
}

// writeHeap writes the profile of the heap; nothing where file is "".
func writeHeap(file string) error {
	if file == "" {
		return nil
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}
