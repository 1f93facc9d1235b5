package main

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
)

// lsEpochs is the number of epochs below the newest that are listed where nobody asks for all: a job keeps thousands.
const lsEpochs = 5

// listing is what `ls --json` prints.
type listing struct {
	Job string `json:"job"`
	// Bytes is the size of the file, Free how much of it what comes may use.
	Bytes   int64                       `json:"bytes"`
	Free    int64                       `json:"free"`
	Epochs  []listedEpoch               `json:"epochs"`
	Sources []checkpoint.SourcePosition `json:"sources"`
	Sinks   []listedSink                `json:"sinks"`
	// Savepoint says that history begins anew when the job starts.
	Savepoint bool `json:"savepoint,omitempty"`
}

type listedEpoch struct {
	Epoch cep.Epoch `json:"epoch"`
	// Base says that the epoch stands by itself.
	Base    bool      `json:"base"`
	Bytes   int64     `json:"bytes"`
	Created time.Time `json:"created,omitzero"`
	// Rules is the id of the set that ran, Files the number of its files, Draining that of older sets beside it.
	Rules    string `json:"rules"`
	Files    int    `json:"files"`
	Draining int    `json:"draining,omitempty"`
	Damage   string `json:"damage,omitempty"`
}

// listedSink is where a sink stands: Prepared is the last message in the outbox, Committed that of the newest epoch which is
// sound, Published the last one that the destination had confirmed by then.
type listedSink struct {
	Name      string `json:"name"`
	Lineage   uint64 `json:"lineage"`
	Prepared  uint64 `json:"prepared"`
	Committed uint64 `json:"committed"`
	Published uint64 `json:"published"`
	// Kept is the number of messages in the outbox, which keeps some that are published for a while; Bytes is their size.
	Kept  uint64 `json:"kept"`
	Bytes int64  `json:"bytes"`
}

// newCheckpointLs returns `cepd checkpoint ls`.
func newCheckpointLs() *cobra.Command {
	var f stateFlags
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "ls DIR",
		Short: "List the checkpoints, and how far sources and sinks are",
		Long: `List the epochs that are kept: the bases, which stand by themselves, the newest ones and those that are damaged. Then
where each partition is to be read again, and for each sink the last message that was prepared (is in the outbox),
committed (by the newest sound epoch) and published (confirmed by the destination, as of that epoch).`,
		Example: `  # The bases, the newest epochs, sources and sinks
  cepd checkpoint ls /var/lib/cepd

  # All of it for a script
  cepd checkpoint ls -c cepd.yaml --json | jq '.sinks[] | select(.published < .committed)'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, err := f.open(cmd, args)
			if err != nil {
				return err
			}
			l, err := list(cmd, s)
			if err != nil {
				return finish(s, failed(err))
			}
			if asJSON {
				return finish(s, writeJSON(cmd.OutOrStdout(), l))
			}
			return finish(s, writeListing(newPrinter(cmd.OutOrStdout()), l, all, time.Now()))
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with all epochs")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "list all epochs")
	return cmd
}

// list reads what is listed.
func list(cmd *cobra.Command, s *boltstore.Store) (*listing, error) {
	ctx := cmd.Context()
	infos, err := s.Epochs(ctx)
	if err != nil {
		return nil, err
	}
	l := &listing{Epochs: []listedEpoch{}, Sources: []checkpoint.SourcePosition{}, Sinks: []listedSink{}}
	l.Bytes, l.Free = s.Size()
	var newest *checkpoint.Manifest
	for _, i := range infos {
		e := listedEpoch{Epoch: i.Epoch, Base: i.Base, Bytes: i.Bytes, Damage: i.Damage}
		if i.Damage == "" {
			m, err := s.Manifest(ctx, i.Epoch)
			if err != nil {
				return nil, err
			}
			newest = m
			e.Created = m.Created
			if len(m.Rules) > 0 {
				e.Rules, e.Files, e.Draining = m.Rules[0].ID, len(m.Rules[0].Files), len(m.Rules)-1
			}
		}
		l.Epochs = append(l.Epochs, e)
	}
	note, err := s.Noted(ctx, checkpoint.NoteSavepoint)
	if err != nil {
		return nil, err
	}
	l.Savepoint = note != nil
	sinks := map[string]int{}
	if newest != nil {
		l.Job = newest.Job
		l.Sources = append(l.Sources, newest.Sources...)
		for _, p := range newest.Sinks {
			sinks[p.Name] = len(l.Sinks)
			l.Sinks = append(l.Sinks, listedSink{Name: p.Name, Lineage: p.Lineage, Prepared: p.Sequence, Committed: p.Sequence, Published: p.Published})
		}
	}
	for _, c := range s.Counts() {
		i, ok := sinks[c.Sink]
		if !ok {
			i = len(l.Sinks)
			l.Sinks = append(l.Sinks, listedSink{Name: c.Sink})
		}
		l.Sinks[i].Prepared, l.Sinks[i].Kept, l.Sinks[i].Bytes = c.Last, c.Last-c.Forgotten, c.Bytes
	}
	return l, nil
}

// writeListing writes tables for people.
func writeListing(p *printer, l *listing, all bool, now time.Time) error {
	if len(l.Epochs) == 0 {
		p.printf("there are no checkpoints yet\n")
		return p.done()
	}
	p.printf("job %s, %s on disk, %s of it free\n", cmp.Or(l.Job, "?"), bytesText(l.Bytes), bytesText(l.Free))
	if l.Savepoint {
		p.printf("%s imported as a savepoint: every sink begins a new lineage when the job starts\n", p.paint(yellow, "note:"))
	}
	p.printf("\n")
	epochs := table{head: []string{"epoch", "base", "size", "age", "rules", "state"}}
	left := 0
	for i, e := range l.Epochs {
		if !all && !e.Base && e.Damage == "" && i < len(l.Epochs)-lsEpochs {
			left++
			continue
		}
		if left > 0 {
			epochs.add("...", "", "", "", "", plural(left, "epoch"))
			left = 0
		}
		row := []string{strconv.FormatUint(uint64(e.Epoch), 10), "", bytesText(e.Bytes), age(e.Created, now), "", "ok"}
		if e.Base {
			row[1] = "yes"
		}
		if e.Rules != "" {
			row[4] = fmt.Sprintf("%.12s (%s)", e.Rules, plural(e.Files, "file"))
		}
		if e.Draining > 0 {
			row[4] += fmt.Sprintf(" + %d draining", e.Draining)
		}
		if e.Damage != "" {
			row[5] = "damaged: " + e.Damage
		}
		epochs.add(row...)
	}
	epochs.write(p, "")
	if len(l.Sources) > 0 {
		p.printf("\n")
		t := table{head: []string{"stream", "partition", "read again from", "read up to", "state"}}
		for _, s := range l.Sources {
			state := ""
			if s.Ended {
				state = "ended"
			}
			t.add(s.Stream, s.Partition, thousands(s.From), thousands(s.Read), state)
		}
		t.write(p, "")
	}
	if len(l.Sinks) > 0 {
		p.printf("\n")
		t := table{head: []string{"sink", "lineage", "prepared", "committed", "published", "in the outbox"}}
		for _, s := range l.Sinks {
			t.add(s.Name, thousands(int64(s.Lineage)), thousands(int64(s.Prepared)), thousands(int64(s.Committed)), thousands(int64(s.Published)),
				fmt.Sprintf("%s (%s)", thousands(int64(s.Kept)), bytesText(s.Bytes)))
		}
		t.write(p, "")
	}
	return p.done()
}

// age says how long ago something was, as far as people care.
func age(t, now time.Time) string {
	if t.IsZero() {
		return "?"
	}
	d := now.Sub(t)
	switch {
	case d < 0:
		return "in the future"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
