package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
)

// pickEpoch returns the epoch that a flag asks for, or the newest one that is sound.
func pickEpoch(cmd *cobra.Command, s *boltstore.Store, want uint64) (cep.Epoch, error) {
	infos, err := s.Epochs(cmd.Context())
	if err != nil {
		return 0, failed(err)
	}
	if want > 0 {
		for _, i := range infos {
			if i.Epoch == cep.Epoch(want) {
				return i.Epoch, nil
			}
		}
		if len(infos) == 0 {
			return 0, usagef("--epoch %d: there are no checkpoints yet", want)
		}
		return 0, usagef("--epoch %d: epochs %d to %d are kept", want, infos[0].Epoch, infos[len(infos)-1].Epoch)
	}
	for _, i := range slices.Backward(infos) {
		if i.Damage == "" {
			return i.Epoch, nil
		}
	}
	return 0, failed(errors.New("there is no checkpoint that is sound"))
}

// newCheckpointDump returns `cepd checkpoint dump`.
func newCheckpointDump() *cobra.Command {
	var f stateFlags
	var epoch uint64
	cmd := &cobra.Command{
		Use:   "dump DIR",
		Short: "Print one checkpoint as JSON",
		Long: `Print one epoch as a JSON object: its manifest (positions, rules, sinks, the engine's part), the notes, the messages
in the outbox, and every record of the state. A key or value that is text is printed as it is, any other one in base64.`,
		Example: `  # What the newest checkpoint holds
  cepd checkpoint dump /var/lib/cepd | jq .manifest

  # The keys of an older one
  cepd checkpoint dump -c cepd.yaml --epoch 4711 | jq -r '.records[] | .key // .key_base64'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, err := f.open(cmd, args)
			if err != nil {
				return err
			}
			e, err := pickEpoch(cmd, s, epoch)
			if err != nil {
				return finish(s, err)
			}
			return finish(s, dump(cmd, s, e))
		},
	}
	f.add(cmd)
	cmd.Flags().Uint64Var(&epoch, "epoch", 0, "the `EPOCH`, in place of the newest one")
	return cmd
}

// dumpedRecord is a record in JSON. Text and bytes have members of their own, so that a reader need not guess.
type dumpedRecord struct {
	Slot        uint8  `json:"slot"`
	Key         string `json:"key,omitempty"`
	KeyBase64   string `json:"key_base64,omitempty"`
	Value       string `json:"value,omitempty"`
	ValueBase64 string `json:"value_base64,omitempty"`
}

type dumpedMessage struct {
	Sink       string `json:"sink"`
	Sequence   uint64 `json:"sequence"`
	DataBase64 string `json:"data_base64"`
}

// outboxPage is how many messages are read at a time.
const outboxPage = 1000

// dump writes an epoch, piece by piece: state may be larger than memory.
func dump(cmd *cobra.Command, s *boltstore.Store, e cep.Epoch) error {
	ctx := cmd.Context()
	m, err := s.Manifest(ctx, e)
	if err != nil {
		return failed(err)
	}
	notes, err := s.Notes(ctx)
	if err != nil {
		return failed(err)
	}
	texts := map[string]string{}
	for name, v := range notes {
		text, encoded := textOrBase64(v)
		texts[name] = text + encoded
	}
	w := bufio.NewWriter(cmd.OutOrStdout())
	d := &dumper{w: w}
	d.member("{\n\"manifest\": ", m)
	d.member(",\n\"notes\": ", texts)
	d.text(",\n\"outbox\": [")
	for _, c := range s.Counts() {
		for next := c.Forgotten + 1; next <= c.Last; {
			l, err := s.Outbox(ctx, c.Sink, next, outboxPage, 1<<20)
			if err != nil {
				return failed(err)
			}
			if len(l) == 0 {
				break
			}
			for _, o := range l {
				d.item(dumpedMessage{o.Sink, o.Sequence, base64.StdEncoding.EncodeToString(o.Data)})
				next = o.Sequence + 1
			}
		}
	}
	d.text("],\n\"records\": [")
	d.items = 0
	_, err = s.Restore(ctx, e, func(r checkpoint.Record) error {
		out := dumpedRecord{Slot: r.Slot}
		out.Key, out.KeyBase64 = textOrBase64(r.Key)
		out.Value, out.ValueBase64 = textOrBase64(r.Value)
		d.item(out)
		return d.err
	})
	if err != nil {
		return failed(err)
	}
	d.text("]\n}\n")
	if d.err == nil {
		d.err = w.Flush()
	}
	if d.err != nil {
		return failed(fmt.Errorf("write output: %w", d.err))
	}
	return nil
}

// textOrBase64 returns bytes as text if people can read it, else in base64.
func textOrBase64(b []byte) (text, encoded string) {
	if s := string(b); utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s, ""
	}
	return "", base64.StdEncoding.EncodeToString(b)
}

// dumper writes JSON in pieces. The first error stops it.
type dumper struct {
	w     io.Writer
	items int
	err   error
}

func (d *dumper) text(s string) {
	if d.err == nil {
		_, d.err = io.WriteString(d.w, s)
	}
}

func (d *dumper) member(before string, v any) {
	d.text(before)
	if d.err != nil {
		return
	}
	data, err := json.Marshal(v)
	if err != nil {
		d.err = err
		return
	}
	d.text(string(data))
}

func (d *dumper) item(v any) {
	before := ",\n"
	if d.items == 0 {
		before = "\n"
	}
	d.items++
	d.member(before, v)
}

// newCheckpointExport returns `cepd checkpoint export`.
func newCheckpointExport() *cobra.Command {
	var f stateFlags
	var epoch uint64
	cmd := &cobra.Command{
		Use:   "export DIR FILE",
		Short: "Write one checkpoint to a file",
		Long: `Write one epoch to a file that stands by itself: the state, positions, rules, notes, and the messages that wait. FILE
must not be there yet; - is standard output. import makes checkpoints of it again, here or on another machine.`,
		Example: `  # The newest checkpoint
  cepd checkpoint export /var/lib/cepd job.savepoint

  # An older one, compressed on its way
  cepd checkpoint export -c cepd.yaml --epoch 4711 - | zstd > job.savepoint.zst`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, rest, err := f.open(cmd, args, "FILE")
			if err != nil {
				return err
			}
			e, err := pickEpoch(cmd, s, epoch)
			if err != nil {
				return finish(s, err)
			}
			return finish(s, export(cmd, s, e, rest[0]))
		},
	}
	f.add(cmd)
	cmd.Flags().Uint64Var(&epoch, "epoch", 0, "the `EPOCH`, in place of the newest one")
	return cmd
}

// export writes an epoch to a file, which appears whole or not at all.
func export(cmd *cobra.Command, s *boltstore.Store, e cep.Epoch, name string) error {
	if name == "-" {
		if err := s.Export(cmd.Context(), e, cmd.OutOrStdout()); err != nil {
			return failed(err)
		}
		return nil
	}
	if _, err := os.Stat(name); err == nil {
		return usagef("%s is there already: name another file, or remove it", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".part-*")
	if err != nil {
		return failed(err)
	}
	err = errors.Join(s.Export(cmd.Context(), e, f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return failed(errors.Join(err, os.Remove(f.Name())))
	}
	p := newPrinter(cmd.ErrOrStderr())
	p.printf("wrote epoch %d to %s\n", e, name)
	return p.done()
}

// newCheckpointImport returns `cepd checkpoint import`.
func newCheckpointImport() *cobra.Command {
	var f stateFlags
	var savepoint bool
	cmd := &cobra.Command{
		Use:   "import DIR FILE",
		Short: "Make checkpoints of a file that export wrote",
		Long: `Make checkpoints of a file in a directory that has none. FILE may be - for standard input.

Without --savepoint the job that starts on them takes over from the one that was exported: it goes on with the same
sinks where they are, and shuts the other one out of those that can be fenced. With --savepoint history begins anew at
this epoch: every sink begins a new lineage, and alerts since then may go out a second time, with the same ids.`,
		Example: `  # Take over on another machine, with the same job name
  cepd checkpoint import /var/lib/cepd job.savepoint

  # Go back to an earlier moment, on purpose
  cepd checkpoint import --savepoint /var/lib/cepd yesterday.savepoint`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, rest, err := f.dir(args, "FILE")
			if err != nil {
				return err
			}
			in := cmd.InOrStdin()
			if rest[0] != "-" {
				file, err := os.Open(rest[0])
				if err != nil {
					return &codedError{exitUsage, err}
				}
				defer func() { _ = file.Close() }() // it was read only
				in = file
			}
			m, err := boltstore.Import(cmd.Context(), dir, in, boltstore.ImportOptions{Savepoint: savepoint, Failpoint: failpoint()})
			if err != nil {
				return failed(err)
			}
			p := newPrinter(cmd.ErrOrStderr())
			p.printf("imported epoch %d of job %s into %s\n", m.Epoch, m.Job, dir)
			return p.done()
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&savepoint, "savepoint", false, "begin history anew at this epoch")
	return cmd
}
