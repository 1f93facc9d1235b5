package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
	"github.com/cepd/cepd/cmd/cepd/config"
)

// newCheckpoint returns `cepd checkpoint`.
func newCheckpoint() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint COMMAND",
		Short: "Look at, verify, copy and compact the checkpoints of a job",
		Long: `A job keeps what it knows in a directory: its state, where it stands in its sources, the rules, and the messages
that have to be sent. These commands work on the checkpoints of a job that does not run; of one that runs they name the
process.

DIR is the directory (checkpoint.path of the configuration); in its place -c names a configuration that does.`,
		Example: `  # What is there, and how far each sink is
  cepd checkpoint ls /var/lib/cepd

  # Is all of it sound?
  cepd checkpoint verify /var/lib/cepd

  # Take the job over to another machine
  cepd checkpoint export /var/lib/cepd job.savepoint
  cepd checkpoint import /var/lib/cepd job.savepoint`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q%s", args[0], didYouMean("%q", args[0], commandNames(cmd)))
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newCheckpointLs(), newCheckpointVerify(), newCheckpointDump(), newCheckpointExport(), newCheckpointImport(), newCheckpointCompact())
	return cmd
}

func commandNames(cmd *cobra.Command) []string {
	var l []string
	for _, c := range cmd.Commands() {
		l = append(l, c.Name())
	}
	return l
}

// stateFlags say where checkpoints are.
type stateFlags struct{ config string }

func (f *stateFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.config, "config", "c", "", "the configuration `FILE` that names the directory, in place of DIR")
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 && f.config == "" {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
}

// dir takes the directory from the arguments or the configuration, and returns the other arguments, which are called names.
func (f *stateFlags) dir(args []string, names ...string) (dir string, rest []string, err error) {
	if f.config == "" {
		if len(args) != 1+len(names) {
			return "", nil, usagef("write %s: the directory of the checkpoints, or -c FILE in its place", strings.Join(append([]string{"DIR"}, names...), " "))
		}
		return args[0], args[1:], nil
	}
	cfg, diagnostics, err := config.Load(f.config, config.Layers{Environment: os.Environ()})
	switch {
	case err != nil:
		return "", nil, usagef("configuration: %w", plainPath(err))
	case cfg == nil:
		return "", nil, usagef("%s has mistakes; `cepd check -c %s` shows all %d", f.config, f.config, len(diagnostics))
	case len(args) != len(names):
		return "", nil, usagef("behind -c %s write %s", f.config, cmp.Or(strings.Join(names, " "), "nothing else"))
	}
	return cfg.Checkpoint.Path, args, nil
}

// open opens the checkpoints that the arguments or the configuration name, to read them, and returns the other arguments.
func (f *stateFlags) open(cmd *cobra.Command, args []string, names ...string) (*boltstore.Store, []string, error) {
	dir, rest, err := f.dir(args, names...)
	if err != nil {
		return nil, nil, err
	}
	s, err := openStore(cmd, dir)
	return s, rest, err
}

// openStore opens the checkpoints in a directory to read them.
func openStore(cmd *cobra.Command, dir string) (*boltstore.Store, error) {
	s, err := boltstore.Open(cmd.Context(), dir, boltstore.Options{ReadOnly: true})
	return s, openError(err)
}

// openError codes an error of opening a store.
func openError(err error) error {
	var path *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, checkpoint.ErrMissing), errors.As(err, &path) && errors.Is(err, fs.ErrNotExist):
		return &codedError{exitUsage, err}
	}
	return failed(err)
}

// finish closes a store behind a command.
func finish(s *boltstore.Store, err error) error {
	if closing := s.Close(); err == nil && closing != nil {
		return failed(closing)
	}
	return err
}

// newCheckpointVerify returns `cepd checkpoint verify`.
func newCheckpointVerify() *cobra.Command {
	var f stateFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Read every checkpoint and verify its checksums",
		Long: `Read everything that is kept, page by page, and verify every checksum and count. What is wrong is printed, a line
each, and which epochs cannot be restored because of it. Exit code 1 then.`,
		Example: `  # The checkpoints that a configuration names
  cepd checkpoint verify -c cepd.yaml

  # In a script
  cepd checkpoint verify /var/lib/cepd --json | jq -r '.problems[]'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, err := f.open(cmd, args)
			if err != nil {
				return err
			}
			return finish(s, verify(cmd, s, asJSON))
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// verified is what `verify --json` prints.
type verified struct {
	OK       bool     `json:"ok"`
	Problems []string `json:"problems"`
	// Epochs is how many are kept, Sound how many of them can be restored.
	Epochs int `json:"epochs"`
	Sound  int `json:"sound"`
}

func verify(cmd *cobra.Command, s *boltstore.Store, asJSON bool) error {
	v := verified{Problems: []string{}}
	err := s.Check(cmd.Context())
	if err != nil && cmd.Context().Err() != nil {
		return silent(exitInterrupted)
	}
	for _, e := range unjoin(err) {
		v.Problems = append(v.Problems, e.Error())
	}
	v.OK = err == nil
	infos, err := s.Epochs(cmd.Context())
	if err != nil {
		return failed(err)
	}
	v.Epochs = len(infos)
	for _, i := range infos {
		if i.Damage == "" {
			v.Sound++
		}
	}
	if asJSON {
		if err := writeJSON(cmd.OutOrStdout(), v); err != nil {
			return err
		}
	} else {
		p := newPrinter(cmd.OutOrStdout())
		for _, text := range v.Problems {
			p.printf("%s %s\n", p.paint(red, "damaged:"), text)
		}
		p.printf("%s, %s sound\n", plural(v.Epochs, "epoch"), thousands(int64(v.Sound)))
		if err := p.done(); err != nil {
			return err
		}
	}
	if !v.OK {
		return silent(exitFailed)
	}
	return nil
}

// unjoin returns the errors that were joined, one a piece.
func unjoin(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the list itself is wanted, not one inside
		var l []error
		for _, e := range joined.Unwrap() {
			l = append(l, unjoin(e)...)
		}
		return l
	}
	return []error{err}
}

// newCheckpointCompact returns `cepd checkpoint compact`.
func newCheckpointCompact() *cobra.Command {
	var f stateFlags
	cmd := &cobra.Command{
		Use:   "compact DIR",
		Short: "Give the room back that checkpoints no longer need",
		Long: `Write the file of the checkpoints anew, without the room that is free in it. The old one stays until the new one is
whole, so as much room must be on the disk as is in use. A job does the same when it starts and more than half is free.`,
		Example: `  # Behind a peak of state that is over
  cepd checkpoint compact /var/lib/cepd

  # The checkpoints that a configuration names
  cepd checkpoint compact -c cepd.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, _, err := f.dir(args)
			if err != nil {
				return err
			}
			// Opening for writing would make a store where there is none.
			probe, err := openStore(cmd, dir)
			if err != nil {
				return err
			}
			if err := probe.Close(); err != nil {
				return failed(err)
			}
			s, err := boltstore.Open(cmd.Context(), dir, boltstore.Options{Failpoint: failpoint()})
			if err != nil {
				return openError(err)
			}
			before, after, err := s.Compact(cmd.Context())
			if err != nil {
				return finish(s, failed(err))
			}
			p := newPrinter(cmd.OutOrStdout())
			p.printf("%s before, %s now\n", bytesText(before), bytesText(after))
			return finish(s, p.done())
		},
	}
	f.add(cmd)
	return cmd
}

// bytesText writes a size for people.
func bytesText(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
