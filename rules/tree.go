package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// MaxFiles bounds the rule files of one set: ten times the largest public collection of detections (about 4,000
	// files), so that a wrong directory is an error and not an hour of reading.
	MaxFiles = 40_000
	// maxRuleFile is far more than package patterns accepts, so that it and not this package refuses a file that is too
	// large, in the words for mistakes. What is larger still is cut off, and as surely refused.
	maxRuleFile = 64 << 20
	// maxNamedFile bounds a file that a rule names: a list of a million addresses has 16 MB.
	maxNamedFile = 64 << 20
)

// tree is where files come from: the disk or a file system inside the program, and the directories in it that rules may
// read from.
type tree struct {
	fsys fs.FS // nil: the disk
	dirs []string
	// over are files that stand otherwise than in the tree, by cleaned name; nil data: the file is not there.
	over map[string][]byte
}

// find returns the rule files among the paths: each file that is named, and those below each directory. A file that is
// reached twice counts once.
func (t *tree) find(paths []string) ([]string, error) {
	var names []string
	for _, p := range paths {
		p = path.Clean(filepath.ToSlash(p))
		isDir, err := t.isDir(p)
		if err != nil {
			return nil, err
		}
		if !isDir {
			names = append(names, p)
			t.dirs = append(t.dirs, path.Dir(p))
			continue
		}
		t.dirs = append(t.dirs, p)
		n := len(names)
		if names, err = t.walk(names, p, 0); err != nil {
			return nil, err
		}
		if names = t.lay(names, n, p); len(names) == n {
			return nil, &EmptyError{Dir: p}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// EmptyError says that a directory holds no rule file.
type EmptyError struct{ Dir string }

func (e *EmptyError) Error() string {
	return fmt.Sprintf("%s: no rule files here (rules are in files called *.yaml or *.yml)", e.Dir)
}

// maxDepth bounds nested directories: a symbolic link to a parent would otherwise nest until the name is too long.
const maxDepth = 32

// walk appends the rule files below dir. What begins with a dot is left out, as is `..data` of a mounted config map; a
// symbolic link to a file or directory is followed.
func (t *tree) walk(names []string, dir string, depth int) ([]string, error) {
	entries, err := t.readDir(dir)
	if err != nil {
		return names, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		name := path.Join(dir, e.Name())
		isDir := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			info, err := t.stat(name)
			if err != nil {
				return names, err
			}
			isDir = info.IsDir()
		}
		if isDir {
			if depth == maxDepth {
				return names, fmt.Errorf("%s: directories nested deeper than %d (a link to its own parent?)", name, maxDepth)
			}
			if names, err = t.walk(names, name, depth+1); err != nil {
				return names, err
			}
			continue
		}
		if ext := path.Ext(name); ext == ".yaml" || ext == ".yml" {
			if names = append(names, name); len(names) > MaxFiles {
				return names, fmt.Errorf("%s: more than %d rule files", dir, MaxFiles)
			}
		}
	}
	return names, nil
}

func (t *tree) stat(name string) (fs.FileInfo, error) {
	if t.fsys == nil {
		return os.Stat(filepath.FromSlash(name))
	}
	return fs.Stat(t.fsys, name)
}

func (t *tree) readDir(name string) ([]fs.DirEntry, error) {
	if t.fsys == nil {
		return os.ReadDir(filepath.FromSlash(name))
	}
	return fs.ReadDir(t.fsys, name)
}

// readRules reads a rule file.
func (t *tree) readRules(name string) ([]byte, error) {
	if data, ok := t.over[name]; ok {
		return data, nil
	}
	f, err := t.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, maxRuleFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

func (t *tree) open(name string) (fs.File, error) {
	if t.fsys == nil {
		return os.Open(filepath.FromSlash(name))
	}
	return t.fsys.Open(name)
}

// readBeside reads a file that a rule names, relative to the rule's file.
func (t *tree) readBeside(ruleFile, name string) ([]byte, error) {
	return t.readNamed(beside(ruleFile, name))
}

// beside is where a file stands that a rule names.
func beside(ruleFile, name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(path.Dir(ruleFile), filepath.ToSlash(name))
}

// readNamed reads a file inside one of the tree's directories.
func (t *tree) readNamed(name string) ([]byte, error) {
	name = path.Clean(filepath.ToSlash(name))
	f, closeAll, err := t.openNamed(name)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	b, err := io.ReadAll(io.LimitReader(f, maxNamedFile+1))
	if err != nil {
		return nil, reason(name, err)
	}
	if len(b) > maxNamedFile {
		return nil, fmt.Errorf("%s is larger than %d MiB", name, maxNamedFile>>20)
	}
	return b, nil
}

// findNamed says why readNamed could not read a file, without reading it.
func (t *tree) findNamed(name string) error {
	_, closeAll, err := t.openNamed(path.Clean(filepath.ToSlash(name)))
	if err == nil {
		closeAll()
	}
	return err
}

// openNamed opens a file inside one of the tree's directories, by its cleaned name.
func (t *tree) openNamed(name string) (io.Reader, func(), error) {
	dir, rest, ok := t.within(name)
	if !ok {
		return nil, nil, fmt.Errorf("%s lies outside the rule directories (%s): move it there", name, strings.Join(t.dirs, ", "))
	}
	if data, ok := t.over[name]; ok {
		if data == nil {
			return nil, nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		}
		return bytes.NewReader(data), func() {}, nil
	}
	f, closeAll, err := t.openIn(dir, rest)
	if err != nil {
		return nil, nil, reason(name, err)
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		return f, closeAll, nil
	}
	closeAll()
	if err != nil {
		return nil, nil, reason(name, err)
	}
	return nil, nil, fmt.Errorf("%s is no regular file", name)
}

// within splits a name into the longest of the tree's directories that holds it and the rest.
func (t *tree) within(name string) (dir, rest string, ok bool) {
	for _, d := range t.dirs {
		r, inside := name, !path.IsAbs(name) && name != ".." && !strings.HasPrefix(name, "../")
		if d != "." {
			r, inside = strings.CutPrefix(name, strings.TrimSuffix(d, "/")+"/")
		}
		if inside && (!ok || len(d) > len(dir)) {
			dir, rest, ok = d, r, true
		}
	}
	return dir, rest, ok
}

// openIn opens a file below dir so that no symbolic link leads out of it.
func (t *tree) openIn(dir, rest string) (fs.File, func(), error) {
	if t.fsys != nil {
		f, err := t.fsys.Open(path.Join(dir, rest))
		if err != nil {
			return nil, nil, err
		}
		return f, func() { _ = f.Close() }, nil
	}
	root, err := os.OpenRoot(filepath.FromSlash(dir))
	if err != nil {
		return nil, nil, err
	}
	f, err := root.Open(filepath.FromSlash(rest))
	if err != nil {
		_ = root.Close()
		return nil, nil, err
	}
	return f, func() { _, _ = f.Close(), root.Close() }, nil
}

// reason words an error with the name as the user knows it, not as it was opened.
func reason(name string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}
