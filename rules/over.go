package rules

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cepd/cepd/patterns"
)

// LoadOver is [Load] where some files stand otherwise than on the disk: by name, as [Set.Sources] has it, the content of
// each, nil for one that is not there. It says what a set would be before anything is written.
//
// A new file counts where Load would have found it: below one of the directories among the paths.
func LoadOver(paths []string, over map[string][]byte) (*Set, patterns.Diagnostics, error) {
	t := tree{over: make(map[string][]byte, len(over))}
	for name, data := range over {
		t.over[path.Clean(filepath.ToSlash(name))] = data
	}
	return load(t, paths)
}

// isDir says whether a path is a directory, with what is laid over the tree.
func (t *tree) isDir(name string) (bool, error) {
	if data, ok := t.over[name]; ok {
		if data == nil {
			return false, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		}
		return false, nil
	}
	info, err := t.stat(name)
	if err != nil {
		return false, err
	}
	return info.IsDir(), nil
}

// lay brings the names found below a directory, which are those from n on, up to what is laid over the tree.
func (t *tree) lay(names []string, n int, dir string) []string {
	if len(t.over) == 0 {
		return names
	}
	for name, data := range t.over {
		at := slices.Index(names[n:], name)
		switch {
		case data == nil && at >= 0:
			names = slices.Delete(names, n+at, n+at+1)
		case data != nil && at < 0 && t.reaches(dir, name):
			names = append(names, name)
		}
	}
	return names
}

// reaches says whether walk would find a file of that name below a directory.
func (t *tree) reaches(dir, name string) bool {
	rest, inside := strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/")
	if dir == "." {
		rest, inside = name, !path.IsAbs(name) && name != ".." && !strings.HasPrefix(name, "../")
	}
	hidden := strings.HasPrefix(rest, ".") || strings.Contains(rest, "/.")
	return inside && !hidden && isRuleFile(name)
}

func isRuleFile(name string) bool {
	ext := path.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}
