package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/library"
)

// newDemo returns `cepd demo`.
func newDemo() *cobra.Command {
	var events int
	var seed uint64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Generate a day of events and run the shipped rules over it",
		Long: `Generate the events of a working day in a small company that sells things on the web: log-ins, payments,
orders, sensors, administration, computers. Among them are password guessers, card thieves, dead sensors and others.
Run the shipped rules over it, print the alerts as they come and then a table that holds them against what was planted.

Everything happens in memory. Equal seeds give equal events and equal alerts.`,
		Example: `  # 200,000 events
  cepd demo

  # Another day, ten times as busy
  cepd demo --seed 7 --events 2000000

  # The alerts as JSON lines
  cepd demo --json | jq -r .title`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if events < townEventsMin || events > townEventsMax {
				return usagef("--events %d: the day has %s to %s events", events, thousands(townEventsMin), thousands(townEventsMax))
			}
			return demo(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), events, seed, asJSON)
		},
	}
	cmd.Flags().IntVar(&events, "events", 200_000, "number of events")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "what the day is made from")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print alerts as JSON lines; the table goes to standard error")
	return cmd
}

func demo(ctx context.Context, out, stderr io.Writer, events int, seed uint64, asJSON bool) error {
	set, diagnostics, err := rules.LoadFS(library.FS, ".")
	if err != nil {
		return failed(fmt.Errorf("shipped rules: %w", err))
	}
	if set == nil {
		return &codedError{exitRules, fmt.Errorf("shipped rules:\n%w", diagnostics)}
	}
	p := newPrinter(out)
	if asJSON {
		p = newPrinter(stderr)
	}
	p.printf("A day of %s events, %d rules. Generating it ...", thousands(int64(events)), len(set.Rules))
	start := time.Now()
	day := newTown(events, seed)
	p.printf(" done in %s.\n\n", seconds(time.Since(start)))

	start = time.Now()
	summary, err := runDemo(ctx, day, set, func(a *cep.Alert) error {
		if asJSON {
			_, err := fmt.Fprintf(out, "%s\n", alert.AppendJSON(nil, a))
			return err
		}
		p.printf("%s\n", alertLine(p.palette, a))
		return p.err
	})
	elapsed := time.Since(start)
	if errors.Is(err, context.Canceled) {
		return silent(exitInterrupted)
	}
	if err != nil {
		return failed(err)
	}
	return closeDemo(p, day, &summary, elapsed)
}

// runDemo replays the day.
func runDemo(ctx context.Context, day *town, set *rules.Set, alert func(*cep.Alert) error) (engine.Summary, error) {
	times, err := codec.ParseTime("time")
	if err != nil {
		return engine.Summary{}, err
	}
	cfg := engine.ReplayConfig{
		Rules: set, Time: times, Alert: alert,
		Partitions: source.NewPartitions(townStreams...),
	}
	for _, name := range townStreams {
		cfg.Streams = append(cfg.Streams, engine.Stream{Name: name, Lateness: 5 * time.Second, MaxAhead: time.Hour})
		cfg.Readers = append(cfg.Readers, day.reader(cfg.Partitions.Get(name, "day")))
	}
	return engine.Replay(ctx, cfg)
}

// alertLine is an alert for people.
func alertLine(p palette, a *cep.Alert) string {
	s := map[string]style{"critical": red, "high": red, "medium": yellow, "low": cyan}[a.Severity]
	severity := fmt.Sprintf("%-8s", a.Severity)
	if s != "" {
		severity = p.paint(s, severity)
	}
	kind := ""
	if a.Kind != cep.AlertMatch {
		kind = " (" + a.Kind.String() + ")"
	}
	return fmt.Sprintf("%s  %s  %s  %s%s", p.paint(faint, a.Time.Std().Format("15:04:05")), severity,
		p.paint(bold, fmt.Sprintf("%-27s", a.Rule)), a.Title, kind)
}

// closeDemo writes the closing table. What was planted and not found, or found and not planted, is a failure of cepd.
func closeDemo(p *printer, day *town, s *engine.Summary, elapsed time.Duration) error {
	t := table{head: []string{"rule", "events", "starts", "still open", "held back", "alerts", "planted"}}
	var alerts uint64
	var wrong []string
	others := 0
	for i := range s.Rules {
		r := &s.Rules[i]
		planted := day.planted[r.ID]
		if r.Seen == 0 && planted == 0 {
			others++
			continue
		}
		t.add(r.ID, count(r.Keyed), count(r.Opened), count(uint64(r.Open)), count(r.Suppressed), count(r.Alerts), count(uint64(planted)))
		alerts += r.Alerts
		if r.Alerts != uint64(planted) {
			wrong = append(wrong, r.ID)
		}
	}
	p.printf("\n")
	t.write(p, "")
	var events, refused, late, future uint64
	for i := range s.Streams {
		st := &s.Streams[i]
		events += st.Events + bad(st)
		refused += bad(st)
		late += st.Late
		future += st.Future
	}
	rate := float64(events) / max(elapsed.Seconds(), 1e-6)
	p.printf("\n%s events in %s (%s a second): %s. %d late, %d from the future and %d damaged ones were counted and left out.\n",
		count(events), seconds(elapsed), count(uint64(rate)), plural(int(alerts), "alert"), late, future, refused)
	if late != uint64(day.late) || future != uint64(day.future) || refused != uint64(day.refused) {
		wrong = append(wrong, "the counts of late, future and damaged events")
	}
	if len(wrong) > 0 {
		return failed(fmt.Errorf("found is not what was planted: %s; please report this", strings.Join(wrong, ", ")))
	}
	p.printf("%s\n", p.paint(green, "Every planted case was found, and nothing else."))
	if others > 0 {
		p.printf("Not in the table: %s for events that this town does not have.\n", plural(others, "shipped rule"))
	}
	p.printf("The rules: rules/library in the sources. Your own next: cepd help replay.\n")
	return p.done()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// reader returns the lines of a stream as a partition.
func (t *town) reader(p *cep.Partition) *townReader {
	r := &townReader{partition: p}
	for i := range t.events {
		if t.events[i].stream == p.Stream {
			r.lines = append(r.lines, t.events[i].line)
		}
	}
	return r
}

// townReader is a partition in memory. The offset of a line is its number.
type townReader struct {
	partition *cep.Partition
	lines     [][]byte
	next      int64
}

func (r *townReader) Partition() *cep.Partition { return r.partition }
func (r *townReader) Name() string              { return "the day's " + r.partition.Stream }
func (r *townReader) Format() source.Format     { return source.Format{} }
func (r *townReader) Close() error              { return nil }

func (r *townReader) Next(ctx context.Context) (source.Record, error) {
	if err := ctx.Err(); err != nil {
		return source.Record{}, err
	}
	if r.next >= int64(len(r.lines)) {
		return source.Record{}, io.EOF
	}
	r.next++
	return source.Record{Data: r.lines[r.next-1], Offset: r.next - 1}, nil
}

func (r *townReader) SeekTo(offset int64) error {
	r.next = offset
	return nil
}

func (r *townReader) Progress() (read, total int64) { return r.next, int64(len(r.lines)) }
