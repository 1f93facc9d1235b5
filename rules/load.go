package rules

import (
	"io/fs"

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
	compiled, diagnostics := patterns.Load(sources, patterns.Options{ReadFile: t.readNamed})
	if compiled == nil {
		return nil, diagnostics, nil
	}
	return &Set{Set: compiled, Sources: sources, files: t}, diagnostics, nil
}
