package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
)

// File is a file that a set was compiled from.
type File struct {
	Name string
	Data []byte
	// Rules says that it holds rules; else it is a list or a map that rules name.
	Rules bool
}

// Hash is the SHA-256 of the content in hex.
func (f *File) Hash() string {
	sum := sha256.Sum256(f.Data)
	return hex.EncodeToString(sum[:])
}

// Files returns everything that the set was compiled from, rule files first, each in the order of the names: with the schema
// of the set, [FromFiles] makes the same set of it in another process.
func (s *Set) Files() []File {
	files := make([]File, 0, len(s.Sources)+len(s.named))
	for _, f := range s.Sources {
		files = append(files, File{Name: f.Name, Data: f.Data, Rules: true})
	}
	for _, name := range slices.Sorted(maps.Keys(s.named)) {
		files = append(files, File{Name: name, Data: s.named[name]})
	}
	return files
}

// ID is a hash over the names and contents of all files, in hex: sets with equal ids mean the same.
func (s *Set) ID() string {
	if s.id == nil {
		return s.sum()
	}
	return s.id()
}

func (s *Set) sum() string {
	h := sha256.New()
	for _, f := range s.Files() {
		var head [17]byte
		binary.BigEndian.PutUint64(head[:], uint64(len(f.Name)))
		binary.BigEndian.PutUint64(head[8:], uint64(len(f.Data)))
		if f.Rules {
			head[16] = 1
		}
		h.Write(head[:])
		h.Write([]byte(f.Name))
		h.Write(f.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// FromFiles compiles a set of files that another set was compiled from. Fields that the schema knows get the slots that they
// have there; nil: there is none. Mistakes are the error: a newer version of the program may refuse what an older one took.
func FromFiles(files []File, schema *cep.Schema) (*Set, error) {
	var sources []patterns.Source
	named := map[string][]byte{}
	for _, f := range files {
		if f.Rules {
			sources = append(sources, patterns.Source{Name: f.Name, Data: f.Data})
			continue
		}
		named[f.Name] = f.Data
	}
	return compile(sources, tree{}, among(named), schema)
}

// among reads files from what is at hand.
func among(files map[string][]byte) func(name string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		data, ok := files[name]
		if !ok {
			return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		}
		return data, nil
	}
}

// Readings returns what the rules ask of events, in the order of the files. The slots in it are those of the set. It compiles the
// rules once more: what runs them keeps none of it.
func (s *Set) Readings() []patterns.Reading {
	var list []patterns.Reading
	_, _ = patterns.Load(s.Sources, patterns.Options{ // without mistakes, as the set was
		ReadFile: among(s.named), Before: s.Set, Reading: func(r patterns.Reading) { list = append(list, r) },
	})
	return list
}

// After returns the set with the slots that fields have in another one, which it is to take the place of: an engine can go on
// from what was kept of events.
func (s *Set) After(before *Set) (*Set, error) {
	set, err := FromFiles(s.Files(), before.Schema)
	if err != nil {
		return nil, err
	}
	set.files = s.files
	return set, nil
}

// Extend gives the fields that a schema has beyond those of the set the slots that they have there, so that the set can be used
// in place of the same one compiled with that schema. false: a field of the set has another slot there, and nothing has
// changed.
func (s *Set) Extend(schema *cep.Schema) bool {
	own := s.Schema.Len()
	if own > schema.Len() {
		return false
	}
	for slot := range own {
		if !slices.Equal(s.Schema.Path(slot), schema.Path(slot)) {
			return false
		}
	}
	for slot := own; slot < schema.Len(); slot++ {
		s.Schema.Slot(schema.Path(slot)...)
	}
	return true
}

// compile makes a set whose mistakes, if it has any, are the error.
func compile(sources []patterns.Source, files tree, read func(string) ([]byte, error), schema *cep.Schema) (*Set, error) {
	set, diagnostics := compileAll(sources, files, read, schema)
	if set == nil {
		return nil, diagnostics.Errors()
	}
	return set, nil
}

// compileAll makes a set and remembers the files that its rules name.
func compileAll(sources []patterns.Source, files tree, read func(string) ([]byte, error), schema *cep.Schema) (*Set, patterns.Diagnostics) {
	named := map[string][]byte{}
	o := patterns.Options{ReadFile: func(name string) ([]byte, error) {
		data, err := read(name)
		if err == nil {
			named[strings.Clone(name)] = data
		}
		return data, err
	}}
	if len(files.dirs) > 0 { // recordings are no part of what a set was compiled from
		o.FindFile = files.findNamed
	}
	if schema != nil {
		o.Before = &patterns.Set{Schema: schema}
	}
	compiled, diagnostics := patterns.Load(sources, o)
	if compiled == nil {
		return nil, diagnostics
	}
	set := &Set{Set: compiled, Sources: sources, files: files, named: named}
	set.id = sync.OnceValue(set.sum)
	return set, diagnostics
}
