package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
	"github.com/cepd/cepd/cep/source/kafkasource"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/rules"
)

// configured takes rules and streams from a configuration. What --stream names is read in place of a stream's source.
func (f *replayFlags) configured(cmd *cobra.Command, cfg *engine.ReplayConfig, instead []input) ([]input, error) {
	for _, flag := range []string{"time", "lateness", "tiebreak", "max-ahead"} {
		if cmd.Flags().Changed(flag) {
			return nil, usagef("--%s: the configuration says that of each stream; leave it out, or -c", flag)
		}
	}
	c, set, diagnostics, err := f.load()
	if err != nil {
		return nil, err
	}
	if c == nil {
		if err := showDiagnostics(cmd.ErrOrStderr(), diagnostics); err != nil {
			return nil, err
		}
		return nil, silent(exitRules)
	}
	if len(f.rules) > 0 {
		if set, err = runnableRules(cmd.ErrOrStderr(), f.rules, " behind --rules"); err != nil {
			return nil, err
		}
	}
	cfg.Rules, cfg.Times = set, map[string]codec.TimeSpec{}
	names := make([]string, len(c.Streams))
	for i, s := range c.Streams {
		names[i] = s.Name
	}
	cfg.Partitions = source.NewPartitions(names...)
	for _, in := range instead {
		if !slices.Contains(names, in.stream) {
			return nil, usagef("--stream %s: the configuration has no such stream%s", in.stream, didYouMean("%q", in.stream, names))
		}
	}
	var inputs []input
	for _, s := range c.Streams {
		if !readByRules(set, s.Name) {
			continue
		}
		in, err := inputOf(c, s, instead)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, in)
		cfg.Streams = append(cfg.Streams, timedStream(s))
		cfg.Times[s.Name] = s.TimeSpec
		if s.AppendTime {
			if cfg.Times[s.Name], err = codec.ParseTime("_kafka.timestamp,unix_ms"); err != nil {
				return nil, failed(err)
			}
		}
	}
	if len(inputs) == 0 {
		return nil, usagef("no rule reads a stream of %s", f.file)
	}
	return inputs, nil
}

// appendedOnly takes the time from records whose topic does not keep when they were appended: a job refuses them.
type appendedOnly struct{ source.Reader }

// Next implements [source.Reader].
func (r appendedOnly) Next(ctx context.Context) (source.Record, error) {
	rec, err := r.Reader.Next(ctx)
	if m := rec.Meta; m != nil && !m.Appended {
		without := *m
		without.Time = cep.BeforeAll
		rec.Meta = &without
	}
	return rec, err
}

func readByRules(set *rules.Set, stream string) bool {
	return slices.ContainsFunc(set.Rules, func(r *rules.Rule) bool {
		return r.Enabled && slices.Contains(r.Inputs(), stream)
	})
}

// inputOf says where the events of a stream are read from.
func inputOf(c *config.Config, s *config.Stream, instead []input) (input, error) {
	if s.Arrival {
		return input{}, usagef("the time of stream %s is when events arrive, which no recording holds", s.Name)
	}
	if i := slices.IndexFunc(instead, func(in input) bool { return in.stream == s.Name }); i >= 0 {
		in := instead[i]
		in.appended = s.AppendTime
		return in, nil
	}
	switch {
	case s.Kafka != nil:
		return input{stream: s.Name, appended: s.AppendTime, open: func(partitions *source.Partitions) (*kafkasource.Source, error) {
			from, err := newTopics(c, s, partitions, true, false, slog.New(slog.DiscardHandler))
			if err != nil {
				return nil, fmt.Errorf("topics: %w", err)
			}
			return from, nil
		}}, nil
	case s.File != nil:
		return input{stream: s.Name, paths: s.File.Paths, form: filesource.Form(s.File.Format.String())}, nil
	}
	return input{}, usagef("the events of stream %s are pushed, and cannot be read from where they come: say --stream %s=PATH", s.Name, s.Name)
}
