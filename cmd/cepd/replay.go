package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
	"github.com/cepd/cepd/cep/source/kafkasource"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/ruletest"
)

// replayFlags are the flags of `cepd replay` as they were written.
type replayFlags struct {
	jobFlags
	from, to                        string
	rules, streams, times           []string
	lateness, tiebreak              []string
	maxAhead, advance, form, report string
	// shards is the number of goroutines that run rules; with more than one each partition is decoded in another.
	shards int
	// against are the rules that those of --rules are compared with; asJSON prints the comparison for programs.
	against string
	asJSON  bool
	// compared says that this is one of two replays that are compared.
	compared bool
}

// newReplay returns `cepd replay`.
func newReplay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay --rules PATH --stream NAME=PATH [flags] | -c FILE [flags]",
		Short: "Run rules over recorded events, or what topics hold",
		Long: `Read recorded events, run rules over them in event time, and print each alert as one line of JSON.
A summary of where the events went follows on standard error.

PATH of a stream is a file, a directory, a pattern ('logs/*.gz'), or - for standard input; several stand behind
commas or in several --stream of one name. Files are JSON lines, or CSV where they are called *.csv; gzip, zstd and zip
are unpacked. Each file is a partition: events may be out of order inside it up to --lateness.

PATH may be topics too, whose partitions are read from --from up to --to: earliest, latest, an offset, or a time as
2024-11-29T12:00:00Z, the first record whose own time is that or later. Nothing is left behind in the cluster.
` + topicsHelp + `

With -c, rules, streams and what is said of these are those of a job. Its files and topics are read as they are now;
--stream NAME=PATH puts a recording in the place of a stream. The alerts are those of the job, ids and all.

FIELD of --time is the path of a field (user.time), and LAYOUT is rfc3339 (the default), unix, unix_ms, unix_us,
unix_ns, windows, or a layout with its zone: '2006-01-02 15:04:05,UTC' or '%Y-%m-%d %H:%M:%S,Europe/Berlin'. The first
of several fields that an event has counts. Without --time these are tried: ` + strings.Join(ruletest.TimeFields, ", ") + `.

Time stands where the input ends: windows and absences that end later do not fire, unless --advance moves it on.

With --against the events are replayed twice, by the rules before an edit and by those of --rules. What alerts the edit
adds, removes and changes is printed, rule by rule; the exit code is 1 where there is any difference.`,
		Example: `  # Compressed JSON lines
  cepd replay --rules rules/ --stream auth=auth.jsonl.gz --time '@timestamp'

  # CSV from standard input, local times, events up to ten minutes late, time moved on to the very end
  zcat log.gz | cepd replay --rules rules/ --stream web=- --format csv \
    --time 'when,2006-01-02 15:04:05,Europe/Berlin' --lateness 10m --advance end

  # What a topic held for an hour, as the job of a configuration reads it
  cepd replay -c cepd.yaml --from 2024-11-29T12:00:00Z --to 2024-11-29T13:00:00Z

  # The same topic by rules that are being written
  cepd replay --rules new.yaml --stream orders=kafka://127.0.0.1:9092/orders --time _kafka.timestamp,unix_ms

  # What an edit of the rules changes
  cepd replay --rules rules/ --against /tmp/rules-before/ --stream auth=auth.jsonl.gz

  # Two streams, one of several files; only the summary
  cepd replay --rules rules/ --stream iam=iam.jsonl --stream cloud='cloud/*.jsonl,late.jsonl' >/dev/null`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("what is %q? Rules follow --rules, and events --stream NAME=PATH", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			tuneCollector(collectorPercent)
			return replay(cmd, f)
		},
	}
	f.add(cmd, "")
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.rules, "rules", "r", nil, "rule file or directory; may be repeated (default \""+rulesDir+"\")")
	flags.StringArrayVarP(&f.streams, "stream", "s", nil, "`NAME=PATH[,PATH]`: a stream and its files; repeat for others")
	flags.StringArrayVarP(&f.times, "time", "t", nil, "`FIELD[,LAYOUT]`: where events keep their time; repeat for others")
	flags.StringArrayVar(&f.lateness, "lateness", []string{"5s"}, "`[NAME=]DURATION` that events may be out of order")
	flags.StringArrayVar(&f.tiebreak, "tiebreak", nil, "`[NAME=]FIELD` that orders events of one time")
	flags.StringVar(&f.maxAhead, "max-ahead", "1h", "`DURATION` above which an event ahead of all others has a broken clock; 0s for none")
	flags.StringVar(&f.advance, "advance", "0s", "`DURATION|end`: move time on after the last event")
	flags.StringVar(&f.form, "format", "auto", "how events are written: auto, json, csv, tsv")
	flags.StringVar(&f.from, "from", "", "where to begin in topics (default: at their beginning)")
	flags.StringVar(&f.to, "to", "", "where to end in topics (default: at their end)")
	flags.IntVar(&f.shards, "shards", 1, "`NUMBER` of goroutines that run rules, while each file is decoded in one of its own; 0: one for each processor. The output is the same")
	flags.StringVar(&f.report, "summary", "table", "summary on standard error: table, json, none")
	flags.StringVar(&f.against, "against", "", "`PATH` of the rules before an edit: print what it adds, removes and changes")
	flags.BoolVar(&f.asJSON, "json", false, "with --against: print JSON")
	complete := func(flag string, f cobra.CompletionFunc) { _ = cmd.RegisterFlagCompletionFunc(flag, f) } // fails only for unknown flags
	complete("rules", completeRules)
	complete("against", completeRules)
	complete("format", cobra.FixedCompletions([]string{"auto", "json", "csv", "tsv"}, cobra.ShellCompDirectiveNoFileComp))
	complete("summary", cobra.FixedCompletions([]string{"table", "json", "none"}, cobra.ShellCompDirectiveNoFileComp))
	complete("advance", cobra.FixedCompletions([]string{"end", "10m", "1h"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// replay runs `cepd replay`.
func replay(cmd *cobra.Command, f replayFlags) error {
	if f.against != "" {
		return compareReplays(cmd, f)
	}
	stderr := cmd.ErrOrStderr()
	cfg, done, err := f.open(cmd)
	if err != nil {
		return err
	}
	defer done()
	summary, err := runReplay(cmd.Context(), cfg, cmd.OutOrStdout(), stderr)
	switch f.report {
	case "json":
		if err := writeJSON(stderr, summary); err != nil {
			return err
		}
	case "table":
		writeSummary(newPrinter(stderr), &summary)
	}
	return err
}

// open makes what the flags say ready to be replayed; done closes what stands behind the readers.
func (f *replayFlags) open(cmd *cobra.Command) (cfg engine.ReplayConfig, done func(), err error) {
	if cfg, err = f.config(); err != nil {
		return cfg, nil, err
	}
	inputs, err := f.inputs()
	if err != nil {
		return cfg, nil, err
	}
	if f.file != "" {
		inputs, err = f.configured(cmd, &cfg, inputs)
	} else {
		inputs, err = f.plain(cmd.ErrOrStderr(), &cfg, inputs)
	}
	if err != nil {
		return cfg, nil, err
	}
	span, err := parseSpan(f.from, f.to)
	if err != nil {
		return cfg, nil, err
	}
	closers, err := openInputs(cmd.Context(), &cfg, inputs, span, filesource.Form(f.form), cmd.InOrStdin())
	return cfg, func() {
		for _, c := range closers {
			_ = c.Close() // it was only read from
		}
	}, err
}

// plain takes rules and streams from the flags.
func (f *replayFlags) plain(stderr io.Writer, cfg *engine.ReplayConfig, inputs []input) (_ []input, err error) {
	if cfg.Rules, err = runnableRules(stderr, f.rules, " behind --rules"); err != nil {
		return nil, err
	}
	all := inputs
	if f.compared {
		// One of the two sets may not read all that the other does.
		inputs = slices.DeleteFunc(slices.Clone(inputs), func(in input) bool { return !readByRules(cfg.Rules, in.stream) })
	}
	if err := checkStreams(cfg.Rules, inputs); err != nil {
		return nil, err
	}
	cfg.Streams, err = f.timing(all)
	return inputs, err
}

// config reads the flags that need nothing else.
func (f *replayFlags) config() (engine.ReplayConfig, error) {
	var cfg engine.ReplayConfig
	times := f.times
	if len(times) == 0 {
		times = ruletest.TimeFields
	}
	var err error
	if cfg.Time, err = codec.ParseTime(times...); err != nil {
		return cfg, usagef("--time: %w", err)
	}
	if f.advance == "end" {
		cfg.Advance = engine.ToEnd
	} else if cfg.Advance, err = patterns.ParseDuration(f.advance); err != nil {
		return cfg, usagef("--advance %s: %w; or \"end\"", f.advance, err)
	}
	if cfg.Shards = f.shards; f.shards == 0 {
		cfg.Shards = runtime.GOMAXPROCS(0)
	}
	if cfg.Shards < 1 || cfg.Shards > checkpoint.Slots {
		return cfg, usagef("--shards %d: 0 to %d, for keys fall into so many slots", f.shards, checkpoint.Slots)
	}
	if !slices.Contains([]string{"auto", "json", "csv", "tsv"}, f.form) {
		return cfg, usagef("--format: %q is none of auto, json, csv, tsv", f.form)
	}
	if !slices.Contains([]string{"table", "json", "none"}, f.report) {
		return cfg, usagef("--summary: %q is none of table, json, none", f.report)
	}
	return cfg, nil
}

// input is a stream, and the paths of its files or the names of its topics.
type input struct {
	stream string
	paths  []string
	topics []string
	// form is how files are written; "": as --format says.
	form filesource.Form
	// appended says that the time of an event is when a broker took its record.
	appended bool
	// open makes the source of a configuration; nil: paths and topics are all.
	open func(*source.Partitions) (*kafkasource.Source, error)
}

// inputs reads --stream.
func (f *replayFlags) inputs() ([]input, error) {
	var list []input
	for _, text := range f.streams {
		name, paths, ok := strings.Cut(text, "=")
		if !ok || name == "" || paths == "" {
			return nil, usagef("--stream %s: write NAME=PATH, as in --stream auth=%s", text, cmp.Or(name, "auth.jsonl"))
		}
		i := slices.IndexFunc(list, func(in input) bool { return in.stream == name })
		if i < 0 {
			i = len(list)
			list = append(list, input{stream: name})
		}
		if strings.HasPrefix(paths, kafkaScheme) {
			list[i].topics = append(list[i].topics, paths)
		} else {
			list[i].paths = append(list[i].paths, strings.Split(paths, ",")...)
		}
	}
	return list, nil
}

// checkStreams holds the streams that are read against those that rules read: a misspelt name would find nothing, and
// nobody would know why.
func checkStreams(set *rules.Set, inputs []input) error {
	var known []string
	for _, r := range set.Rules {
		if r.Enabled {
			known = append(known, r.Inputs()...)
		}
	}
	slices.Sort(known)
	known = slices.DeleteFunc(slices.Compact(known), func(s string) bool { return s == engine.AlertStream })
	if len(known) == 0 {
		return usagef("there is no rule to run: all of %s are disabled", plural(len(set.Rules), "rule"))
	}
	if len(inputs) == 0 {
		return usagef("which events? Say --stream NAME=PATH; the rules read %s", strings.Join(known, ", "))
	}
	for _, in := range inputs {
		if !slices.Contains(known, in.stream) {
			return usagef("--stream %s: no rule reads it%s; the rules read %s", in.stream,
				didYouMean("%q", in.stream, known), strings.Join(known, ", "))
		}
	}
	return nil
}

// timing reads --lateness, --tiebreak and --max-ahead.
func (f *replayFlags) timing(inputs []input) ([]engine.Stream, error) {
	ahead, err := patterns.ParseDuration(f.maxAhead)
	if err != nil {
		return nil, usagef("--max-ahead %s: %w", f.maxAhead, err)
	}
	streams := make([]engine.Stream, len(inputs))
	for i, in := range inputs {
		streams[i] = engine.Stream{Name: in.stream, MaxAhead: ahead, Lateness: 5 * time.Second}
	}
	each := func(flag string, values []string, set func(*engine.Stream, string) error) error {
		// What names a stream wins over what is for all, wherever it stands.
		for _, named := range []bool{false, true} {
			for _, text := range values {
				name, value, has := strings.Cut(text, "=")
				if has != named {
					continue
				}
				if !has {
					value = text
				} else if !slices.ContainsFunc(inputs, func(in input) bool { return in.stream == name }) {
					return usagef("--%s %s: there is no --stream %s", flag, text, name)
				}
				for i := range streams {
					if !has || streams[i].Name == name {
						if err := set(&streams[i], value); err != nil {
							return usagef("--%s %s: %w", flag, text, err)
						}
					}
				}
			}
		}
		return nil
	}
	if err := each("lateness", f.lateness, func(s *engine.Stream, v string) (err error) {
		s.Lateness, err = patterns.ParseDuration(v)
		return err
	}); err != nil {
		return nil, err
	}
	return streams, each("tiebreak", f.tiebreak, func(s *engine.Stream, v string) error {
		s.Tiebreak = strings.Split(v, ".")
		if slices.Contains(s.Tiebreak, "") {
			return fmt.Errorf("%q is no field", v)
		}
		return nil
	})
}

// openInputs opens the files and topics of all streams. What it returns is to be closed behind the readers.
func openInputs(ctx context.Context, cfg *engine.ReplayConfig, inputs []input, s span, form filesource.Form, stdin io.Reader) (closers []io.Closer, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, r := range cfg.Readers {
			_ = r.Close() // only read from
		}
		for _, c := range closers {
			_ = c.Close() // as above
		}
	}()
	stdins := 0
	for _, in := range inputs {
		for _, p := range in.paths {
			if p == "-" {
				stdins++
			}
		}
	}
	if stdins > 1 {
		return nil, usagef("standard input can be read once: \"-\" stands for %d files", stdins)
	}
	if cfg.Partitions == nil {
		names := make([]string, len(inputs))
		for i, in := range inputs {
			names[i] = in.stream
		}
		cfg.Partitions = source.NewPartitions(names...)
	}
	topics := false
	for _, in := range inputs {
		if len(in.paths) > 0 {
			readers, err := filesource.Open(filesource.Config{
				Stream: in.stream, Paths: in.paths, Partitions: cfg.Partitions, Form: cmp.Or(in.form, form), Stdin: stdin,
			})
			if err != nil {
				return closers, usagef("--stream %s: %w", in.stream, plainPath(err))
			}
			cfg.Readers = append(cfg.Readers, readers...)
		}
		sources, err := in.sources(cfg.Partitions)
		for _, from := range sources {
			topics = true
			closers = append(closers, from)
		}
		if err != nil {
			return closers, usagef("--stream %s: %w", in.stream, err)
		}
		for _, from := range sources {
			readers, err := from.Open(ctx, s.from, s.to)
			if err != nil {
				return closers, failed(fmt.Errorf("stream %s: %w", in.stream, err))
			}
			if in.appended {
				for i := range readers {
					readers[i] = appendedOnly{readers[i]}
				}
			}
			cfg.Readers = append(cfg.Readers, readers...)
		}
	}
	if !topics && s != (span{}) {
		return closers, usagef("--from and --to are about topics, and none is read")
	}
	return closers, nil
}

// sources makes those of the topics.
func (in *input) sources(partitions *source.Partitions) (list []*kafkasource.Source, err error) {
	if in.open != nil {
		from, err := in.open(partitions)
		if err != nil {
			return nil, err
		}
		return []*kafkasource.Source{from}, nil
	}
	for _, name := range in.topics {
		c, err := parseTopics(name)
		if err != nil {
			return list, err
		}
		c.Stream, c.Partitions, c.Finite = in.stream, partitions, true
		from, err := kafkasource.New(c)
		if err != nil {
			return list, err
		}
		list = append(list, from)
	}
	return list, nil
}

// runReplay replays, writing alerts as lines to out and the progress to stderr, if that is a terminal.
func runReplay(ctx context.Context, cfg engine.ReplayConfig, out, stderr io.Writer) (engine.Summary, error) {
	w := bufio.NewWriterSize(out, 64<<10)
	bar := newProgress(stderr, progressOfFiles(cfg.Readers))
	shared := isTerminal(out) // alerts would be written over the bar where both are on one terminal
	var line []byte
	var mu sync.Mutex // of w and line: with shards alerts come from another goroutine than progress
	cfg.Alert = func(a *cep.Alert) error {
		mu.Lock()
		defer mu.Unlock()
		line = append(alert.AppendJSON(line[:0], a), '\n')
		if _, err := w.Write(line); err != nil {
			return fmt.Errorf("write alerts: %w", err)
		}
		return nil
	}
	cfg.Progress = func(uint64) {
		mu.Lock()
		defer mu.Unlock()
		if w.Buffered() > 0 {
			if shared {
				bar.hide()
			}
			_ = w.Flush() // the writer remembers its error, and the last Flush returns it
		}
		bar.show()
	}
	summary, err := engine.Replay(ctx, cfg)
	bar.hide()
	if flushErr := w.Flush(); err == nil && flushErr != nil {
		err = fmt.Errorf("write alerts: %w", flushErr)
	}
	switch {
	case err == nil:
		return summary, nil
	case errors.Is(err, context.Canceled):
		return summary, &codedError{exitInterrupted, errors.New("interrupted: the summary covers what was read until then")}
	}
	return summary, failed(err)
}
