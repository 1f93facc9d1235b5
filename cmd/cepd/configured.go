package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

// configFile is the configuration that `cepd run` looks for.
const configFile = "cepd.yaml"

// jobFlags name a configuration and what stands above it.
type jobFlags struct {
	file string
	set  []string
	// mend brings rules in order that a process has left half written, before they are read; nil: they are only read.
	mend func(*config.Config) error
}

func (f *jobFlags) add(cmd *cobra.Command, usual string) {
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "config", "c", usual, "the configuration `FILE`")
	flags.StringArrayVar(&f.set, "set", nil, "`PATH=VALUE`: a setting in place of the file's, as checkpoint.path=/var/lib/cepd; repeat for others")
	_ = cmd.RegisterFlagCompletionFunc("config", completeRules) // fails only for unknown flags
}

// load reads the configuration and its rules and holds them against each other. The configuration and the set are nil where
// a diagnostic is more than a warning; err is about a file that is not there.
func (f *jobFlags) load() (*config.Config, *rules.Set, patterns.Diagnostics, error) {
	cfg, diagnostics, err := config.Load(f.file, config.Layers{Environment: os.Environ(), Set: f.set})
	if err != nil {
		return nil, nil, nil, &codedError{exitUsage, fmt.Errorf("configuration: %w; name the file with -c FILE", plainPath(err))}
	}
	if cfg == nil {
		return nil, nil, diagnostics, nil
	}
	if f.mend != nil {
		if err := f.mend(cfg); err != nil {
			return nil, nil, diagnostics, failed(err)
		}
	}
	set, wrong, err := rules.Load(cfg.Rules)
	if err != nil {
		return nil, nil, append(diagnostics, cfg.CannotRead("rules", plainPath(err))), nil
	}
	diagnostics = append(diagnostics, wrong...)
	if set != nil {
		diagnostics = append(diagnostics, cfg.CheckRules(set.Rules, set.Sources)...)
	}
	diagnostics = append(append(diagnostics, refusals(cfg)...), listenerRefusals(cfg)...)
	if len(diagnostics.Errors()) > 0 {
		return nil, nil, diagnostics, nil
	}
	return cfg, set, diagnostics, nil
}

// refusals makes the sources of files and topics and the sinks, which open nothing before they are used, and reports what they say about
// their settings.
func refusals(c *config.Config) patterns.Diagnostics {
	var list patterns.Diagnostics
	names := make([]string, len(c.Streams))
	for i, s := range c.Streams {
		names[i] = s.Name
	}
	partitions := source.NewPartitions(names...)
	quiet := slog.New(slog.DiscardHandler)
	for _, s := range c.Streams {
		var from source.Source
		var err error
		switch {
		case s.File != nil:
			from, err = newFollower(c, s, partitions, false)
		case s.Kafka != nil:
			from, err = newTopics(c, s, partitions, false, false, quiet)
		default:
			continue
		}
		if err != nil {
			list = append(list, c.Refused("streams."+s.Name+".source."+s.Kind(), err))
		} else {
			_ = from.Close() // it was never read from
		}
	}
	for _, s := range c.Sinks {
		if to, err := newSink(c.Job, s, io.Discard, quiet, nil); err != nil {
			list = append(list, c.Refused("sinks."+s.Name+"."+s.Kind(), err))
		} else {
			_ = to.Close() // it was never opened
		}
	}
	return list
}

// commenting writes lines as comments of YAML.
type commenting struct {
	w     io.Writer
	begin bool // a line begins
}

func (c *commenting) Write(p []byte) (int, error) {
	var b bytes.Buffer
	for _, x := range p {
		if c.begin && x == '\n' {
			b.WriteString("#")
		} else if c.begin {
			b.WriteString("# ")
		}
		b.WriteByte(x)
		c.begin = x == '\n'
	}
	_, err := c.w.Write(b.Bytes())
	return len(p), err
}
