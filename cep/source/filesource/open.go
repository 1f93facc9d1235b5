package filesource

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
)

// Form says how records are to be cut and decoded.
type Form string

// The forms. FormAuto goes by the name: .csv and .tsv, in front of .gz and .zst too, are delimited, all else is JSON.
const (
	FormAuto Form = "auto"
	FormJSON Form = "json"
	FormCSV  Form = "csv"
	FormTSV  Form = "tsv"
)

// Stdin is the path that means standard input.
const Stdin = "-"

// Config says what to open.
type Config struct {
	// Stream is the stream that the files are partitions of.
	Stream string
	// Paths are files, directories (all files below them, but for names that begin with a dot), patterns as of
	// path/filepath.Match, and "-" for Stdin. A file that is named twice is read once.
	Paths []string
	// Partitions gives out the partitions; it knows Stream.
	Partitions *source.Partitions
	// Form is FormAuto where it is "".
	Form Form
	// Stdin is what "-" reads; it is not closed.
	Stdin io.Reader
	// MaxRecord is the limit of a record's size in bytes; source.MaxRecord where it is 0.
	MaxRecord int
}

// Open finds the files and returns a reader for each partition, in the order of the paths. Files without content are no
// partitions. All that is wrong is said at once.
//
// Each file is opened here for its first 1 KiB and closed again; a reader opens it when it is asked for a record.
func Open(c Config) ([]source.Reader, error) {
	if c.MaxRecord == 0 {
		c.MaxRecord = source.MaxRecord
	}
	if c.Form == "" {
		c.Form = FormAuto
	}
	if err := c.Form.check(); err != nil {
		return nil, err
	}
	paths, errs := expand(c.Paths)
	var readers []source.Reader
	names := map[*cep.Partition]string{}
	for _, path := range paths {
		contents, err := list(path, c.Stdin)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, content := range contents {
			r, err := newReader(content, c)
			switch {
			case errors.Is(err, errEmpty):
				continue
			case err != nil:
				errs = append(errs, fmt.Errorf("%s: %w", content.name(), err))
				continue
			}
			if other, twice := names[r.partition]; twice {
				errs = append(errs, fmt.Errorf("%s and %s begin with the same bytes: they are one partition, leave one of them out",
					other, content.name()))
				continue
			}
			names[r.partition] = content.name()
			readers = append(readers, r)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return readers, nil
}

// expand returns the files that paths mean, each once.
func expand(paths []string) (files []string, errs []error) {
	seen := map[string]bool{}
	add := func(path string) {
		id := filepath.Clean(path)
		if abs, err := filepath.Abs(path); err == nil && path != Stdin {
			id = abs
		}
		if !seen[id] {
			seen[id] = true
			files = append(files, path)
		}
	}
	for _, path := range paths {
		if path == Stdin {
			add(path)
			continue
		}
		found := []string{path}
		// A file may have a bracket in its name: what is there under the very name is no pattern.
		if _, err := os.Stat(path); err != nil && strings.ContainsAny(path, "*?[") {
			if found, err = filepath.Glob(path); err != nil {
				errs = append(errs, fmt.Errorf("pattern %s: %w", path, err))
			} else if len(found) == 0 {
				errs = append(errs, fmt.Errorf("pattern %s: no file matches", path))
			}
		}
		for _, f := range found {
			root := f
			if info, err := os.Stat(f); err == nil && info.IsDir() {
				root += string(filepath.Separator) // a link to a directory is gone into where it is named
			}
			_ = filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
				switch {
				case err != nil && (p != root || f != path) && errors.Is(err, fs.ErrNotExist): // it went meanwhile
				case err != nil:
					errs = append(errs, err)
					if e != nil && e.IsDir() {
						return fs.SkipDir
					}
				case p != root && strings.HasPrefix(e.Name(), "."):
					if e.IsDir() {
						return fs.SkipDir
					}
				case p == root && !e.IsDir(), readable(p, e):
					add(p)
				}
				return nil
			})
		}
	}
	return files, errs
}

func (f Form) check() error {
	switch f {
	case FormAuto, FormJSON, FormCSV, FormTSV:
		return nil
	}
	return fmt.Errorf("format %q: known are auto, json, csv, tsv", f)
}

// comma is what separates the fields of a file, if any does.
func (f Form) comma(name string) (comma byte, delimited bool) {
	if f == FormAuto {
		name = strings.ToLower(name)
		for _, ext := range [...]string{".gz", ".zst", ".zstd"} {
			name = strings.TrimSuffix(name, ext)
		}
		f = Form(strings.TrimPrefix(filepath.Ext(name), "."))
	}
	switch f {
	case FormCSV:
		return ',', true
	case FormTSV:
		return '\t', true
	default:
		return 0, false
	}
}

// readable reports whether something in a directory is a file, or a link to one: pipes and devices are read only where
// they are named.
func readable(path string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.Type().IsRegular()
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
