package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/source/filesource"
	"github.com/cepd/cepd/patterns"
)

// newFlags are the flags of `cepd new`.
type newFlags struct {
	stream, form, output               string
	id, field, first, then, by, within string
	time                               string
	limit                              int
}

// newNew returns `cepd new`.
func newNew() *cobra.Command {
	var f newFlags
	cmd := &cobra.Command{
		Use:   "new --stream NAME=PATH",
		Short: "Begin a rule from recorded events",
		Long: `Read recorded events and write a rule to begin with: a key, two steps and tests that are made of their fields and
values, and comments that list all fields with the values that they most often have. The time field is found, and
so is how it is written. The rule passes cepd check, and its tests pass.

On a terminal it asks for what no flag says; elsewhere it takes what is likeliest.`,
		Example: `  # Look at a recording, and choose
  cepd new --stream auth=auth.jsonl

  # A failure, then a success, of one address within ten minutes
  cepd new --stream auth=auth.jsonl.gz --field outcome --first failure --then success --by src_ip \
    --within 10m --id guessed --output rules/guessed.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("what is %q? Events follow --stream NAME=PATH", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.stream, "stream", "s", "", "`NAME=PATH[,PATH]`: the stream and its files")
	flags.StringVar(&f.form, "format", "auto", "how events are written: auto, json, csv, tsv")
	flags.StringVarP(&f.output, "output", "o", "", "`FILE` to write, which must not be there yet (default: standard output)")
	flags.StringVar(&f.id, "id", "", "the id of the rule (default: NAME-rule)")
	flags.StringVar(&f.field, "field", "", "the `FIELD` that tells events apart, as outcome")
	flags.StringVar(&f.first, "first", "", "its `VALUE` in the first event")
	flags.StringVar(&f.then, "then", "", "its `VALUE` in the second event; \"-\" for a rule of one event")
	flags.StringVar(&f.by, "by", "", "`FIELD[,FIELD]`: the key; \"-\" for none")
	flags.StringVar(&f.within, "within", "10m", "the `DURATION` from the first to the second event")
	flags.StringVarP(&f.time, "time", "t", "", "`FIELD[,LAYOUT]`: where events keep their time")
	flags.IntVar(&f.limit, "limit", 100_000, "how many events are looked at")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"auto", "json", "csv", "tsv"}, cobra.ShellCompDirectiveNoFileComp)) // fails only for unknown flags
	return cmd
}

func (f *newFlags) run(cmd *cobra.Command) error {
	if f.stream == "" {
		return usagef("which events? Say --stream NAME=PATH, as in --stream auth=auth.jsonl")
	}
	inputs, err := (&replayFlags{streams: []string{f.stream}}).inputs()
	if err != nil {
		return err
	}
	if _, err := patterns.ParseDuration(f.within); err != nil {
		return usagef("--within %s: %w", f.within, err)
	}
	if f.limit < 1 {
		return usagef("--limit %d: at least one event must be looked at", f.limit)
	}
	in := inputs[0]
	s, err := surveyFiles(cmd.Context(), in, filesource.Form(f.form), cmd.InOrStdin(), f.limit)
	if err != nil {
		return err
	}
	if s.events == 0 {
		return failed(fmt.Errorf("there is no event in %s: %s could not be read", strings.Join(in.paths, ", "), plural(s.bad, "record")))
	}
	k := &skeleton{survey: s, stream: in.stream, files: in.paths, within: f.within}
	ask := &questions{in: bufio.NewReader(cmd.InOrStdin()), out: newPrinter(cmd.ErrOrStderr())}
	stdin, ok := cmd.InOrStdin().(*os.File)
	ask.on = ok && isTerminal(stdin) && isTerminal(cmd.ErrOrStderr()) && !slices.Contains(in.paths, "-")
	if err := f.choose(cmd.Context(), k, ask); err != nil {
		return err
	}
	text, err := k.write()
	if err != nil {
		return err
	}
	if f.output == "" {
		if _, err := cmd.OutOrStdout().Write(text); err != nil {
			return failed(fmt.Errorf("write output: %w", err))
		}
		return nil
	}
	return writeNew(f.output, text)
}

// writeNew writes a file that is not there yet.
func writeNew(name string, text []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // rules are for everybody to read
	if errors.Is(err, fs.ErrExist) {
		return usagef("--output %s: there is such a file, and it stays as it is", name)
	} else if err != nil {
		return usagef("--output %w", plainPath(err))
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return failed(fmt.Errorf("write %s: %w", name, err))
	}
	return nil
}

// choose settles what the rule is about: what flags say, what is answered, or what is likeliest.
func (f *newFlags) choose(ctx context.Context, k *skeleton, ask *questions) error {
	k.time = f.time
	if k.time == "" {
		k.time = k.survey.timeField()
	} else if spec, err := codec.ParseTime(k.time); err != nil {
		return usagef("--time: %w", err)
	} else if !k.survey.fits(spec) {
		return usagef("--time %s: events have no such time", k.time)
	}
	if err := f.chooseSteps(ctx, k, ask); err != nil {
		return err
	}
	if err := f.chooseKey(ctx, k, ask); err != nil {
		return err
	}
	k.id = f.id
	if k.id == "" {
		k.id = strings.Trim(notInID.ReplaceAllString(strings.ToLower(k.stream), "-"), "-.") + "-rule"
	}
	return ctx.Err()
}

var notInID = regexp.MustCompile(`[^a-z0-9_-]+`)

func (f *newFlags) chooseSteps(ctx context.Context, k *skeleton, ask *questions) error {
	tells := k.survey.tells(k.time)
	switch {
	case f.field != "":
		field, err := k.survey.field("--field", f.field)
		if err != nil {
			return err
		}
		k.telling = field
	case len(tells) > 0:
		names := make([]string, 0, len(tells))
		for _, t := range tells {
			names = append(names, t.text())
		}
		i, err := ask.choose(ctx, "Which field tells events apart?", names, 0)
		if err != nil {
			return err
		}
		k.telling = tells[i]
	default:
		return nil
	}
	values := k.telling.frequent()
	if len(values) == 0 {
		return usagef("--field %s: it has no single values", k.telling.text())
	}
	var err error
	if k.first, err = f.value(ctx, ask, "--first", "Which value comes first?", f.first, values, 0); err != nil {
		return err
	}
	if f.then == "-" || f.then == "" && len(values) == 1 {
		return nil
	}
	likely := 0
	if len(values) > 1 && values[0] == k.first {
		likely = 1
	}
	k.then, err = f.value(ctx, ask, "--then", "And which then?", f.then, values, likely)
	return err
}

// value settles a value of the field that tells events apart.
func (f *newFlags) value(ctx context.Context, ask *questions, flag, question, given string, values []string, likely int) (string, error) {
	if given == "" {
		i, err := ask.choose(ctx, question, values, likely)
		if err != nil {
			return "", err
		}
		return values[i], nil
	}
	for _, v := range values {
		if v == given || v == literalText(given) {
			return v, nil
		}
	}
	return "", usagef("%s %s: the field never has this value%s; it has %s", flag, given, didYouMean("%s", literalText(given), values), strings.Join(values[:min(6, len(values))], ", "))
}

func (f *newFlags) chooseKey(ctx context.Context, k *skeleton, ask *questions) error {
	if f.by == "-" {
		return nil
	}
	if f.by != "" {
		for name := range strings.SplitSeq(f.by, ",") {
			field, err := k.survey.field("--by", name)
			if err != nil {
				return err
			}
			k.by = append(k.by, field)
		}
		return nil
	}
	keys := k.survey.keys(k.telling, k.time)
	if len(keys) == 0 {
		return nil
	}
	names := make([]string, 0, len(keys)+1)
	for _, key := range keys {
		names = append(names, key.text())
	}
	i, err := ask.choose(ctx, "Which field says whom an event is about?", append(names, "none"), 0)
	if err == nil && i < len(keys) {
		k.by = keys[i : i+1]
	}
	return err
}

// field finds a field by the name that a flag gives it.
func (s *survey) field(flag, name string) (*surveyed, error) {
	names := make([]string, 0, len(s.fields))
	for _, f := range s.sorted() {
		if f.text() == name || strings.Join(f.path, ".") == name {
			return f, nil
		}
		names = append(names, f.text())
	}
	return nil, usagef("%s %s: no event has this field%s; they have %s", flag, name, didYouMean("%s", name, names), strings.Join(names[:min(8, len(names))], ", "))
}

// questions asks somebody at a terminal; where nobody is there the likeliest answer is taken.
type questions struct {
	on  bool
	in  *bufio.Reader
	out *printer
}

// maxOffered bounds the answers that are listed: what fits on a screen.
const maxOffered = 15

// choose asks for one of several answers, by its number.
func (q *questions) choose(ctx context.Context, question string, answers []string, likely int) (int, error) {
	if !q.on || len(answers) < 2 {
		return likely, nil
	}
	q.out.printf("%s\n", q.out.paint(bold, question))
	answers = answers[:min(len(answers), maxOffered)]
	for i, a := range answers {
		q.out.printf("  %2d  %s\n", i+1, shortText(a))
	}
	for ctx.Err() == nil {
		q.out.printf("1 to %d [%d]: ", len(answers), likely+1)
		line, err := q.in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, failed(fmt.Errorf("read the answer: %w", err))
		}
		n, wrong := strconv.Atoi(cmp.Or(strings.TrimSpace(line), strconv.Itoa(likely+1)))
		if wrong == nil && n >= 1 && n <= len(answers) {
			return n - 1, q.out.err
		}
		if errors.Is(err, io.EOF) {
			return likely, nil
		}
	}
	return 0, &codedError{exitInterrupted, errors.New("interrupted")}
}
