package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/eventlog"
	"github.com/cepd/cepd/cep/source/filesource"
	"github.com/cepd/cepd/cep/source/httpsource"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/rules"
)

// eventsDir is where the logs of pushed events lie below the directory of the state, one for each stream.
const eventsDir = "events"

// assembly is everything that a job is made of, opened from a configuration. It is closed in the reverse order.
type assembly struct {
	config *config.Config
	job    job.Config
	// push takes what is posted; logs keep it, and what is read from standard input.
	push    http.Handler
	logs    []*streamLog
	closers []closer
}

// closer gives up one thing.
type closer struct {
	what  string
	close func() error
}

// assemble opens the store, the sources and the sinks of a job. Nothing is read or sent yet. On an error what was opened is
// closed again.
func assemble(ctx context.Context, c *config.Config, set *rules.Set, o runFlags, stdin io.Reader, stdout io.Writer, log *slog.Logger) (_ *assembly, err error) {
	a := &assembly{config: c}
	defer func() {
		if err != nil {
			a.close(log)
		}
	}()
	a.job = job.Config{
		Name: c.Job, Rules: set, DeadLetters: c.DeadLetters, Shards: c.Shards, Interval: c.Checkpoint.Interval,
		Once: o.once, Advance: o.moved, AcceptGap: o.acceptGap, AcceptRepeat: o.acceptRepeat, Logger: log, Failpoint: failpoint(),
	}
	if err := a.openStore(ctx, log); err != nil {
		return nil, err
	}
	if err := a.openStreams(o, stdin, log); err != nil {
		return nil, err
	}
	for _, l := range a.logs {
		l.found(log)
	}
	return a, a.openSinks(stdout, log)
}

// close closes everything, the last first. Errors are logged: what matters is durable already.
func (a *assembly) close(log *slog.Logger) {
	for len(a.closers) > 0 {
		last := a.closers[len(a.closers)-1]
		a.closers = a.closers[:len(a.closers)-1]
		if err := last.close(); err != nil {
			log.Warn("closing failed", "what", last.what, "err", err)
		}
	}
}

func (a *assembly) closeLater(what string, f func() error) {
	a.closers = append(a.closers, closer{what, f})
}

// openStore opens the state.
func (a *assembly) openStore(ctx context.Context, log *slog.Logger) error {
	dir := a.config.Checkpoint.Path
	store, err := boltstore.Open(ctx, dir, boltstore.Options{Keep: a.config.Checkpoint.Keep, Logger: log, Failpoint: a.job.Failpoint})
	switch {
	case errors.Is(err, checkpoint.ErrLocked):
		return fmt.Errorf("%w; a second instance takes over on a copy of the state: see `cepd checkpoint export --help`", err)
	case errors.Is(err, checkpoint.ErrDamaged):
		// Damage to one epoch is none here: this is a file that every start would find as it is.
		return fmt.Errorf("%w: %w", job.ErrRefused, err)
	case err != nil:
		return err
	}
	a.closeLater("store", store.Close)
	a.job.Store = store
	return nil
}

// openStreams makes the sources, and opens the logs of those whose events cannot be read again from where they come.
func (a *assembly) openStreams(o runFlags, stdin io.Reader, log *slog.Logger) error {
	names := make([]string, len(a.config.Streams))
	for i, s := range a.config.Streams {
		names[i] = s.Name
	}
	a.job.Partitions = source.NewPartitions(names...)
	pushed := httpsource.Config{Streams: map[string]httpsource.Stream{}, EventMax: int(a.config.Limits.EventSize), BodyMax: int(a.config.HTTP.Body)}
	for _, s := range a.config.Streams {
		var from source.Source
		var err error
		switch {
		case s.File != nil:
			from, err = newFollower(a.config, s, a.job.Partitions, o.once)
		case s.HTTP != nil:
			var events *eventlog.Log
			if events, err = a.openLog(s.Name, eventlog.Config{Max: s.HTTP.LogMax, IDWindow: s.HTTP.IDWindow}); err == nil {
				pushed.Streams[s.Name] = httpsource.Stream{Log: events, ID: s.HTTP.ID}
				from = eventlog.NewSource(eventlog.SourceConfig{Log: events, Stream: s.Name, Partitions: a.job.Partitions, AcceptGap: o.acceptGap})
			}
		case s.Stdin != nil:
			var events *eventlog.Log
			if events, err = a.openLog(s.Name, eventlog.Config{Max: s.Stdin.LogMax}); err == nil {
				from = eventlog.NewSource(eventlog.SourceConfig{
					Log: events, Stream: s.Name, Partitions: a.job.Partitions, Input: stdin, MaxRecord: int(a.config.Limits.EventSize),
					AcceptGap: o.acceptGap,
				})
			}
		case s.Kafka != nil:
			from, err = newTopics(a.config, s, a.job.Partitions, o.once, o.acceptGap, log)
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", s.Name, err)
		}
		a.closeLater("source of "+s.Name, from.Close)
		a.job.Streams = append(a.job.Streams, streamOf(s, from, int(a.config.Limits.EventSize)))
	}
	push := httpsource.New(pushed)
	for _, l := range a.logs {
		l.push = push
	}
	a.push = push
	return nil
}

// newFollower makes the source of a stream of files. Nothing is opened yet.
func newFollower(c *config.Config, s *config.Stream, partitions *source.Partitions, once bool) (*filesource.Follower, error) {
	return filesource.NewFollower(filesource.FollowerConfig{
		Stream: s.Name, Paths: s.File.Paths, Partitions: partitions, Form: filesource.Form(s.File.Format.String()),
		MaxRecord: int(c.Limits.EventSize), Finite: once || !s.File.Follow,
	})
}

// openLog opens the log of a stream.
func (a *assembly) openLog(stream string, c eventlog.Config) (*eventlog.Log, error) {
	c.Dir, c.Failpoint = filepath.Join(a.config.Checkpoint.Path, eventsDir, stream), a.job.Failpoint
	l, err := eventlog.Open(c)
	if err != nil {
		return nil, err
	}
	a.closeLater("log of "+stream, l.Close)
	a.logs = append(a.logs, &streamLog{stream: stream, log: l})
	return l, nil
}

// streamOf is a stream as the job wants it.
func streamOf(s *config.Stream, from source.Source, eventSize int) job.Stream {
	out := job.Stream{
		Stream: timedStream(s), Source: from, Time: s.TimeSpec, Arrival: s.Arrival || s.AppendTime, Idle: s.Idle,
		Ahead: job.Limit{Count: s.Buffer.Events, Bytes: s.Buffer.Ahead}, Late: s.Late, EventSize: eventSize,
	}
	switch s.Start {
	case config.Latest:
		out.Start = job.Latest
	case config.AtTime:
		out.Start, out.StartAt = job.At, s.StartTime
	case config.Earliest:
	}
	return out
}

// timedStream is a stream as the engine wants it.
func timedStream(s *config.Stream) engine.Stream {
	out := engine.Stream{Name: s.Name, Lateness: s.Lateness, MaxAhead: s.MaxAhead}
	if s.Tiebreak != "" {
		out.Tiebreak = strings.Split(s.Tiebreak, ".")
	}
	for _, f := range s.KeyLocal {
		out.KeyLocal = append(out.KeyLocal, strings.Split(f, "."))
	}
	return out
}

// openSinks makes the sinks. The job opens them.
func (a *assembly) openSinks(stdout io.Writer, log *slog.Logger) error {
	for _, s := range a.config.Sinks {
		to, err := newSink(a.config.Job, s, stdout, log, a.job.Failpoint)
		if err != nil {
			return fmt.Errorf("sink %s: %w", s.Name, err)
		}
		a.closeLater("sink "+s.Name, to.Close)
		out := job.Sink{
			Name: s.Name, Sink: to, Guarantee: s.Guarantee, All: s.Alerts == config.AllAlerts,
			OutboxMax: job.Limit{Count: s.Outbox.Messages, Bytes: s.Outbox.Bytes},
		}
		if s.OnFull == config.DeadLetter {
			out.OnFull = job.DeadLetter
		}
		a.job.Sinks = append(a.job.Sinks, out)
	}
	return nil
}
