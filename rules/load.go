package rules

import (
	"io/fs"
	"path"
	"slices"

	"github.com/cepd/cepd/patterns"
)

// Load reads and compiles the rule files among the paths, and those below the directories among them (*.yaml, *.yml).
//
// The error is about reading: a path that is not there, a directory without rules. Mistakes in rules are diagnostics; the
// set is nil exactly where one of them is an error, so that a set may come with warnings.
func Load(paths []string) (*Set, patterns.Diagnostics, error) { return load(tree{}, paths) }

// LoadFS is [Load] for a file system inside the program.
func LoadFS(fsys fs.FS, paths ...string) (*Set, patterns.Diagnostics, error) {
	return load(tree{fsys: fsys}, paths)
}

func load(t tree, paths []string) (*Set, patterns.Diagnostics, error) {
	names, err := t.find(paths)
	if err != nil {
		return nil, nil, err
	}
	sources := make([]patterns.Source, 0, len(names))
	for _, name := range names {
		data, err := t.readRules(name)
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, patterns.Source{Name: name, Data: data})
	}
	set, diagnostics := compileAll(sources, t, t.readNamed, nil)
	return set, diagnostics, nil
}

// Find returns the names of the rule files that [Load] would read for the paths, in order.
func Find(paths []string) ([]string, error) {
	t := tree{}
	return t.find(paths)
}

// Replace returns the set in which a file takes the place of one of its rule files. The name is relative to that file.
// Fields keep their slots, so that an engine can go on with the new set. Mistakes in the rules are the error.
func (s *Set) Replace(ruleFile, name string) (*Set, error) {
	data, err := s.ReadFile(ruleFile, name)
	if err != nil {
		return nil, err
	}
	sources := slices.Clone(s.Sources)
	for i := range sources {
		if sources[i].Name == ruleFile {
			sources[i] = patterns.Source{Name: path.Join(path.Dir(ruleFile), name), Data: data}
		}
	}
	return compile(sources, s.files, s.files.readNamed, s.Schema)
}
