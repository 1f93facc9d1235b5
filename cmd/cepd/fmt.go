package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/layout"
	"github.com/cepd/cepd/rules"
)

// fmtFlags are the flags of `cepd fmt`.
type fmtFlags struct{ write, diff, check bool }

// newFmt returns `cepd fmt`.
func newFmt() *cobra.Command {
	var f fmtFlags
	cmd := &cobra.Command{
		Use:   "fmt [PATH...]",
		Short: "Lay out rule files and configurations",
		Long: `Bring YAML files into one form: two spaces a level, one space between words, at most one empty line, comments
below each other, and quotes around expressions that YAML would tear apart. Lines stay as they were broken, keys
in their order. The meaning never changes: what was written is read again and compared.

A PATH is a file, a directory of rule files, or - for standard input; without one the directory "rules" is meant.
One file is printed; several need -w, -d or --check.

The exit code is 1 where --check finds a file that is not laid out, and 3 where a file cannot be read.`,
		Example: `  # Lay out all rules in place
  cepd fmt -w rules/

  # What would change
  cepd fmt -d rules/ssh.yaml

  # For a build: names the files that are not laid out, and fails
  cepd fmt --check rules/ cepd.yaml

  # From an editor
  cepd fmt - < rules/ssh.yaml`,
		ValidArgsFunction: completeRules,
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().BoolVarP(&f.write, "write", "w", false, "write files in place; print the names of those that changed")
	cmd.Flags().BoolVarP(&f.diff, "diff", "d", false, "print what would change")
	cmd.Flags().BoolVar(&f.check, "check", false, "print the names of files that are not laid out, and end with 1 if there are any")
	return cmd
}

func (f *fmtFlags) run(cmd *cobra.Command, args []string) error {
	if f.write && (f.check || f.diff) {
		return usagef("-w changes files, and --check and -d do not: say one of them")
	}
	names, err := f.files(args)
	if err != nil {
		return err
	}
	p := newPrinter(cmd.OutOrStdout())
	wrong, differ := false, false
	for _, name := range names {
		data, err := readText(name, cmd.InOrStdin())
		if err != nil {
			return err
		}
		out, err := layout.Format(name, data)
		if err != nil {
			wrong = true
			if err := showLayoutError(cmd.ErrOrStderr(), err); err != nil {
				return err
			}
			continue
		}
		same := bytes.Equal(data, out)
		differ = differ || !same
		switch {
		case f.write && !same:
			if err := replaceFile(name, out); err != nil {
				return failed(err)
			}
			p.printf("%s\n", name)
		case f.diff && !same:
			p.printf("%s", diff.Diff(name, data, name+" laid out", out))
		case f.check && !same:
			p.printf("%s\n", name)
		case !f.write && !f.diff && !f.check:
			p.printf("%s", out)
		}
	}
	if err := p.done(); err != nil {
		return err
	}
	switch {
	case wrong:
		return silent(exitRules)
	case f.check && differ:
		return silent(exitFailed)
	}
	return nil
}

// files are the names of what is to be laid out.
func (f *fmtFlags) files(args []string) ([]string, error) {
	if len(args) == 1 && args[0] == "-" {
		if f.write {
			return nil, usagef("standard input cannot be written in place: leave -w out")
		}
		return args, nil
	}
	if len(args) == 0 {
		args = []string{rulesDir}
	}
	names, err := rules.Find(args)
	if err != nil {
		return nil, usagef("%w", plainPath(err))
	}
	if len(names) > 1 && !f.write && !f.diff && !f.check {
		return nil, usagef("%d files are not printed one behind the other: say -w, -d or --check", len(names))
	}
	return names, nil
}

// readText reads a file that holds rules or a configuration; "-" is standard input.
func readText(name string, stdin io.Reader) ([]byte, error) {
	r := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, usagef("%w", plainPath(err))
		}
		defer func() { _ = file.Close() }() // only read from
		r = file
	}
	data, err := io.ReadAll(io.LimitReader(r, yamlnode.MaxBytes+1)) // one byte more is an error of the reader
	if err != nil {
		return nil, failed(fmt.Errorf("read %s: %w", name, err))
	}
	return data, nil
}

// showLayoutError shows why a file is not laid out.
func showLayoutError(w io.Writer, err error) error {
	if diagnostics, ok := errors.AsType[patterns.Diagnostics](err); ok {
		return showDiagnostics(w, diagnostics)
	}
	p := newPrinter(w)
	p.printf("%v\n", err)
	return p.done()
}

// replaceFile puts a text in the place of a file, whole or not at all. Where the name is a symbolic link, what it names is
// replaced.
func replaceFile(name string, data []byte) error {
	path, err := filepath.EvalSymlinks(name)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // a dot hides it from readers of rules
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Chmod(info.Mode().Perm()), temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // what was meant to be written is reported as not written
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
