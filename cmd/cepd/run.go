package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/rulesapi"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/redissink"
)

// runFlags are the flags of `cepd run`.
type runFlags struct {
	jobFlags
	once, acceptGap, acceptRepeat bool
	insecure                      bool
	advance                       string
	moved                         cep.Duration // what advance says
}

// newRun returns `cepd run`.
func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [-c FILE] [flags]",
		Short: "Run rules over live events, and send each alert once",
		Long: `Run the job that a configuration describes: read its sources, run its rules, and publish alerts to its sinks. State is
kept on disk in epochs, so that a process may end at any moment, in good order or not, and the next one goes on where
the last epoch ended: no alert is lost, and where a sink can know how far it is none comes twice.

Rules that change are loaded again: when their files change, at SIGHUP, and over HTTP. Whatever is wrong with them is
said, and those before run on.

SIGTERM or SIGINT ends it in good order within 25 seconds: no more is read, a last epoch is written, what waits is
published. A second signal ends it at once, which loses nothing either.

--accept-gap and --accept-repeat are decisions of a person, for one start: see docs/operations.md.`,
		Example: `  # A job as cepd.yaml describes it
  cepd run

  # Another file and another place for the state; run until files and standard input end
  cepd run -c /etc/cepd/fraud.yaml --set checkpoint.path=/var/lib/cepd --once --advance end`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("what is %q? The configuration is named by -c FILE", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if f.insecure {
				f.set = append(f.set, "http.insecure=true")
			}
			return runJob(cmd, f)
		},
	}
	f.add(cmd, configFile)
	flags := cmd.Flags()
	flags.BoolVar(&f.once, "once", false, "read what is there, and end where it ends")
	flags.StringVar(&f.advance, "advance", "0s", "`DURATION|end`: with --once, move time on after the last event")
	flags.BoolVar(&f.insecure, "insecure", false, "listen where others reach the listener although nobody is asked who they are")
	flags.BoolVar(&f.acceptGap, "accept-gap", false, "start although events or alerts may be missing: the state, a source or a destination has lost some")
	flags.BoolVar(&f.acceptRepeat, "accept-repeat", false, "start although a destination holds alerts that this job would not send: alerts may come again")
	return cmd
}

// check reads the flags that need nothing else.
func (f *runFlags) check() error {
	var err error
	if f.advance == "end" {
		f.moved = engine.ToEnd
	} else if f.moved, err = patterns.ParseDuration(f.advance); err != nil {
		return usagef("--advance %s: %w; or \"end\"", f.advance, err)
	}
	if f.moved != 0 && !f.once {
		return usagef("--advance moves time on where the inputs end: they end with --once only")
	}
	return nil
}

// runJob runs `cepd run`.
func runJob(cmd *cobra.Command, f runFlags) error {
	stderr := cmd.ErrOrStderr()
	mended := 0
	f.mend = func(c *config.Config) (err error) {
		if dir := managedDir(c.Rules); dir != "" {
			mended, err = rulesapi.Recover(dir)
		}
		return err
	}
	c, set, diagnostics, err := f.load()
	if err != nil {
		return err
	}
	if c == nil {
		if err := showDiagnostics(stderr, diagnostics); err != nil {
			return err
		}
		return silent(exitRules)
	}
	if err := runnable(c, set, f); err != nil {
		return err
	}
	log := newLogger(stderr, c.Log)
	if !anyEnabled(set) {
		log.Warn("all rules are disabled: nothing is found before one is enabled", "rules", len(set.Rules))
	}
	if len(diagnostics) > 0 {
		log.Warn("cepd check -c shows warnings", "config", f.file, "found", countDiagnostics(diagnostics))
	}
	if mended > 0 {
		log.Warn("a replacement of managed rules that a crash interrupted was taken back", "files", mended)
	}
	redissink.RouteClientLog(log)
	err = classified(serve(cmd.Context(), c, set, f, cmd.InOrStdin(), cmd.OutOrStdout(), log))
	if coded, ok := errors.AsType[*codedError](err); ok && c.Log.Format == config.LogJSON {
		// Whoever reads the log as JSON reads nothing else.
		log.Error("the job has ended", "err", coded.err, "code", coded.code)
		return silent(coded.code)
	}
	return err
}

// runnable reports what the flags and the configuration cannot mean together.
func runnable(c *config.Config, set *rules.Set, f runFlags) error {
	if changes := c.HTTP.Listen != "off" || c.Reload.Watch; !anyEnabled(set) && (f.once || !changes) {
		return usagef("there is no rule to run: all of %s are disabled", plural(len(set.Rules), "rule"))
	}
	for _, s := range c.Streams {
		if f.once && s.HTTP != nil {
			return usagef("--once: the stream %s is posted, and that never ends", s.Name)
		}
	}
	return nil
}

// anyEnabled reports whether there is a rule that runs.
func anyEnabled(set *rules.Set) bool {
	return slices.ContainsFunc(set.Rules, func(r *patterns.Rule) bool { return r.Enabled })
}

// logStart says what runs.
func logStart(log *slog.Logger, c *config.Config, set *rules.Set, s job.Status) {
	var streams, outputs []string
	for _, st := range c.Streams {
		streams = append(streams, st.Name+" ("+st.Kind()+")")
	}
	for _, o := range c.Sinks {
		outputs = append(outputs, fmt.Sprintf("%s (%s, %s)", o.Name, o.Kind(), o.Guarantee))
	}
	enabled := 0
	for _, r := range set.Rules {
		if r.Enabled {
			enabled++
		}
	}
	attrs := []any{"job", c.Job, "rules", enabled, "streams", strings.Join(streams, ", "), "sinks", strings.Join(outputs, ", ")}
	if r := s.Restored; r != nil {
		attrs = append(attrs, "from_epoch", r.Epoch, "of", r.Created)
	} else {
		attrs = append(attrs, "from", "the beginning: there is no epoch yet")
	}
	log.Info("running", attrs...)
}

// decisions are errors that starting again does not mend.
var decisions = []error{job.ErrRefused, engine.ErrOtherClocks, checkpoint.ErrNewer, source.ErrGone}

// classified gives an error of a job its exit code.
func classified(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return &codedError{exitInterrupted, errors.New("interrupted before the job had started")}
	case sinks.Permanent(err) || slices.ContainsFunc(decisions, func(d error) bool { return errors.Is(err, d) }):
		return &codedError{exitDecision, err}
	}
	return failed(err)
}
