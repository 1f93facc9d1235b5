package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cepd/cepd/cep/source"
)

const (
	// checkTime is how often it is looked whether the log takes events.
	checkTime = time.Second
	// noteTime is how long is reported what was wrong with the log when it was opened.
	noteTime = 10 * time.Minute
)

// SourceConfig says how a log is a stream.
type SourceConfig struct {
	Log        *Log
	Stream     string
	Partitions *source.Partitions
	// Input is read line by line into the log, as standard input, and ends it; nil: something else appends. It is not
	// closed. If it has a method SetReadDeadline as of os.File, a read that waits is ended by that; else it is left
	// behind when the context of Watch ends.
	Input io.Reader
	// MaxRecord is the size in bytes above which a line of Input is refused; source.MaxRecord where it is 0.
	MaxRecord int
	// AcceptGap goes on behind a log that is gone although the job has read from it.
	AcceptGap bool
}

// Source is a log as the source of a stream: one partition. It does not close the log.
type Source struct{ config SourceConfig }

var (
	_ source.Source  = (*Source)(nil)
	_ source.Trimmer = (*Source)(nil)
	_ source.Ender   = (*reader)(nil)
)

// NewSource makes a source of a log.
func NewSource(c SourceConfig) *Source {
	if c.MaxRecord == 0 {
		c.MaxRecord = source.MaxRecord
	}
	return &Source{config: c}
}

// Watch implements [source.Source]. It returns nil when Input has ended.
func (s *Source) Watch(ctx context.Context, known []string, d source.Discovery) error {
	l := s.config.Log
	if err := l.claim(known, s.config.AcceptGap); err != nil {
		return err
	}
	p := s.config.Partitions.Get(s.config.Stream, l.Name())
	if p == nil {
		return fmt.Errorf("stream %q is not configured", s.config.Stream)
	}
	d.Found(&reader{log: l, partition: p})
	d.Ready()
	var in *pump
	var done chan struct{}
	if s.config.Input != nil {
		in = newPump(l, s.config.Input, s.config.MaxRecord)
		done = in.start(ctx)
	}
	return s.check(ctx, d, in, done)
}

// check reports what keeps events from being taken, until done is closed or ctx ends.
func (s *Source) check(ctx context.Context, d source.Discovery, in *pump, done <-chan struct{}) error {
	tick := time.NewTicker(checkTime)
	defer tick.Stop()
	opened, told, full := time.Now(), "", s.config.Log.Status().Full
	for {
		var errs []error
		if time.Since(opened) < noteTime {
			errs = append(errs, s.config.Log.report.trouble())
		}
		status := s.config.Log.Status()
		if errs = append(errs, status.Failed); status.Full != full {
			errs = append(errs, fmt.Errorf("%w: %d of %d bytes", ErrFull, status.Bytes, status.Max))
		}
		if full = status.Full; in != nil {
			errs = append(errs, in.trouble())
		}
		err := errors.Join(errs...)
		if text := fmt.Sprint(err); text != told && (err != nil || told != "") {
			told = text
			d.Trouble(err)
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		case <-done:
		}
		if ctx.Err() == nil {
			return in.end
		}
		if in != nil {
			if err := in.stop(done); err != nil {
				d.Trouble(err)
			}
		}
		return ctx.Err()
	}
}

// trouble is what of it is worth a word.
func (r Report) trouble() error {
	var errs []error
	if r.Gaps > 0 || r.Lost > 0 {
		errs = append(errs, fmt.Errorf("the log is %w: %d stretches are skipped, with %d records", ErrDamaged, r.Gaps, r.Lost))
	}
	if r.IDsDamage != nil {
		errs = append(errs, fmt.Errorf("the ids of events that are trimmed cannot be read, so that repetitions of these are taken again: %w", r.IDsDamage))
	}
	return errors.Join(errs...)
}

// Trim implements [source.Trimmer].
func (s *Source) Trim(partition string, before int64) error {
	if partition != s.config.Log.Name() {
		return nil // of a log that is gone
	}
	return s.config.Log.Trim(before)
}

// Crowded implements [source.Trimmer].
func (s *Source) Crowded(partition string, before int64) bool {
	return partition == s.config.Log.Name() && s.config.Log.Crowded(before)
}

// Close implements [source.Source].
func (s *Source) Close() error { return nil }
