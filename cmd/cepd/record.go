package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/kafkasource"
	"github.com/cepd/cepd/cmd/cepd/config"
)

// recordFlags are the flags of `cepd record`.
type recordFlags struct {
	jobFlags
	stream, out, from, to string
	follow                bool
}

// newRecord returns `cepd record`.
func newRecord() *cobra.Command {
	var f recordFlags
	cmd := &cobra.Command{
		Use:   "record kafka://HOST:PORT/TOPIC | -c FILE STREAM",
		Short: "Record topics of Kafka as JSON lines, for replay and tests",
		Long: `Read what topics hold and write each event as a line of JSON, with a member _cepd that says where it was read: a replay
of the recording gives the alerts, ids and all, that a job gives which reads the topics themselves.

` + topicsHelp + `
With -c, STREAM is one of the configuration's, with its brokers, topics and partitions.

FROM and TO are earliest, latest, an offset, or a time as 2024-11-29T12:00:00Z: the first record whose own time is that
or later. TO is not among what is recorded, and latest is where the last transaction that has ended ends now.

The first line of each partition stands in front, the others follow in the order of the times of their records.
{partition} in the name of the file stands for TOPIC-NUMBER, and gives each partition a file of its own. Records that
are no JSON objects and those without a value are left out and counted: they are no events.`,
		Example: `  # All that a topic holds, compressed
  cepd record kafka://127.0.0.1:9092/orders -o orders.jsonl.gz

  # An hour of a stream that a job reads, a file for each partition
  cepd record -c cepd.yaml orders --from 2024-11-29T12:00:00Z --to 2024-11-29T13:00:00Z -o 'rec/{partition}.jsonl.zst'

  # What comes from now on, until it is interrupted
  cepd record 'kafka://alice@kafka.example.org:9093/orders?tls=true&password_file=secret' --from latest --follow`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("one source is recorded: kafka://HOST:PORT/TOPIC, or -c FILE and the name of a stream")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return record(cmd, &f, args[0]) },
	}
	f.add(cmd, "")
	flags := cmd.Flags()
	flags.StringVarP(&f.stream, "stream", "s", "", "the `NAME` of the stream that rules know the events by (default: the name of the topic)")
	flags.StringVarP(&f.out, "out", "o", "-", "the `FILE`, which must not be there yet: *.gz and *.zst are compressed; - is standard output")
	flags.StringVar(&f.from, "from", "earliest", "where to begin: earliest, latest, an offset, a time")
	flags.StringVar(&f.to, "to", "", "where to end, as --from (default: at the end)")
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with what comes, until SIGINT or SIGTERM")
	return cmd
}

// record runs `cepd record`.
func record(cmd *cobra.Command, f *recordFlags, name string) error {
	s, err := parseSpan(f.from, f.to)
	if err != nil {
		return err
	}
	if f.follow && f.to != "" {
		return usagef("--to says where to end, and --follow that there is no end")
	}
	from, stream, err := f.source(cmd.ErrOrStderr(), name)
	if err != nil {
		return err
	}
	readers, closer, err := openTopics(cmd.Context(), from, s)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = closer.Close() }() // it was only read from
	if len(readers) == 0 {
		return failed(fmt.Errorf("record %s: there is no such partition", name))
	}
	r, err := newRecording(stream, f.out, cmd.OutOrStdout(), readers)
	if err != nil {
		return usagef("--out %w", err)
	}
	ended := r.take(cmd.Context(), readers, newProgress(cmd.ErrOrStderr(), progressOf{
		what: "record", total: leftOf(readers), done: func() int64 { return r.begun - leftOf(readers) },
	}))
	if ended == nil && f.follow {
		newPrinter(cmd.ErrOrStderr()).printf("what was there is recorded; it follows what comes\n")
		ended = r.follow(cmd.Context(), readers)
	}
	if err := r.close(); err != nil {
		return failed(err)
	}
	stderr := newPrinter(cmd.ErrOrStderr())
	r.summary(stderr, len(readers))
	switch {
	case ended != nil && cmd.Context().Err() != nil && f.follow:
		return stderr.done() // that is how it ends
	case ended != nil && cmd.Context().Err() != nil:
		return &codedError{exitInterrupted, errors.New("interrupted: the recording holds what was read until then")}
	case ended != nil:
		return failed(ended)
	}
	return stderr.done()
}

// source makes the source of what is to be recorded, and says which stream it is.
func (f *recordFlags) source(stderr io.Writer, name string) (*kafkasource.Source, string, error) {
	if strings.HasPrefix(name, kafkaScheme) {
		if f.file != "" {
			return nil, "", usagef("%s names the brokers, and -c %s does too: leave one of them out", name, f.file)
		}
		c, err := parseTopics(name)
		if err != nil {
			return nil, "", usagef("%w", err)
		}
		if c.Stream = f.stream; c.Stream == "" {
			if c.Stream = c.Topics[0]; len(c.Topics) > 1 {
				return nil, "", usagef("which stream are the topics %s? Say --stream NAME", strings.Join(c.Topics, ", "))
			}
		}
		c.Partitions, c.Finite = source.NewPartitions(c.Stream), true
		from, err := kafkasource.New(c)
		if err != nil {
			return nil, "", usagef("%w", err)
		}
		return from, c.Stream, nil
	}
	if f.file == "" {
		return nil, "", usagef("what is %q? Write %sHOST:PORT/TOPIC, or -c FILE and the name of a stream", name, kafkaScheme)
	}
	c, err := f.configuration(stderr)
	if err != nil {
		return nil, "", err
	}
	i := slices.IndexFunc(c.Streams, func(s *config.Stream) bool { return s.Name == name })
	if i < 0 || c.Streams[i].Kafka == nil {
		var known []string
		for _, s := range c.Streams {
			if s.Kafka != nil {
				known = append(known, s.Name)
			}
		}
		return nil, "", usagef("%s has no stream %q of Kafka%s; it has %s", f.file, name, didYouMean("%q", name, known), orNone(known))
	}
	if f.stream != "" && f.stream != name {
		return nil, "", usagef("--stream %s: the configuration calls it %s", f.stream, name)
	}
	from, err := newTopics(c, c.Streams[i], source.NewPartitions(name), true, false, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, "", failed(fmt.Errorf("stream %s: %w", name, err))
	}
	return from, name, nil
}

// configuration reads the configuration alone; its mistakes are shown.
func (f *jobFlags) configuration(stderr io.Writer) (*config.Config, error) {
	c, diagnostics, err := config.Load(f.file, config.Layers{Environment: os.Environ(), Set: f.set})
	if err != nil {
		return nil, usagef("configuration: %w", plainPath(err))
	}
	if c == nil {
		if err := showDiagnostics(stderr, diagnostics); err != nil {
			return nil, err
		}
		return nil, silent(exitRules)
	}
	return c, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// leftOf is how many offsets are before the ends of the readers.
func leftOf(readers []source.Reader) (n int64) {
	for _, r := range readers {
		n += max(0, r.(*kafkasource.Reader).Left())
	}
	return n
}
