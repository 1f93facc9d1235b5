package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/patterns"
)

// prefix begins the names of variables that set something.
const prefix = "CEPD_"

// testVariables belong to the tests, to programs built for them and to other commands, and set nothing here.
var testVariables = []string{
	"CEPD_CI", "CEPD_VECTORS", "CEPD_CASES", "CEPD_DATA", "CEPD_EXHAUSTIVE", "CEPD_REDIS_SERVERS", "CEPD_FAILPOINT", "CEPD_UPDATE",
	"CEPD_SEEDS", "CEPD_KILLS", "CEPD_KAFKA_LENT",
	// These are of the commands that speak to a running job.
	"CEPD_SERVER", "CEPD_TOKEN_FILE",
}

// Layers are what stands above the file.
type Layers struct {
	// Environment are variables as NAME=VALUE, as [os.Environ] returns them; those without the prefix CEPD_ are not looked at.
	Environment []string
	// Set are settings of the command line, as PATH=VALUE: checkpoint.interval=5s. They stand above the environment.
	Set []string
}

// Load reads a file and what stands above it. All mistakes come back at once; the configuration is nil exactly where there
// is one that is more than a warning. The error is that of reading the file.
func Load(file string, above Layers) (*Config, patterns.Diagnostics, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	if info, err := f.Stat(); err != nil {
		return nil, nil, err
	} else if info.IsDir() {
		return nil, nil, fmt.Errorf("%s: is a directory, not a file", file)
	} else if info.Size() > yamlnode.MaxBytes {
		return nil, nil, fmt.Errorf("%s: has %d bytes, and a configuration has at most %d", file, info.Size(), yamlnode.MaxBytes)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	c, diagnostics := Parse(file, data, above)
	return c, diagnostics, nil
}

// Parse is [Load] for a text that was read already. Relative paths in it start from the directory of the name.
func Parse(file string, data []byte, above Layers) (*Config, patterns.Diagnostics) {
	dir := filepath.Dir(file)
	r := &reader{config: defaults(dir), dir: dir, wrong: map[string]bool{}}
	r.config.places = places{}
	r.readFile(file, data)
	r.environment(above.Environment)
	r.flags(above.Set)
	r.settle()
	list := r.sorted()
	if len(list.Errors()) > 0 {
		return nil, list
	}
	return r.config, list
}

// leaf is a setting that can be set by one value.
type leaf struct {
	path  string
	value value // *scalar or *list
}

// leaves are the settings that the environment and flags can set: those of the streams, sinks and kinds that the file has.
func leaves(all []leaf, path string, settings section) []leaf {
	for i := range settings {
		s := &settings[i]
		at := path
		if s.name != "" {
			at = join(path, s.name)
		}
		switch v := s.value.(type) {
		case *scalar, *list:
			all = append(all, leaf{at, s.value})
		case section:
			all = leaves(all, at, v)
		case *choice:
			for _, o := range v.options {
				if m := o.made(); m != nil {
					all = leaves(all, join(at, o.name), m)
				}
			}
		case *named:
			for _, n := range v.all() {
				all = leaves(all, join(at, n.name), n.settings)
			}
		}
	}
	return all
}

// variable is the name of the variable that sets a setting: its path in capitals, behind the prefix, with _ for all that is
// no letter or digit.
func variable(path string) string {
	return prefix + strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, path)
}

// environment sets what variables say.
func (r *reader) environment(list []string) {
	all := leaves(nil, "", r.config.settings())
	byName := map[string][]leaf{}
	var names []string
	for _, l := range all {
		name := variable(l.path)
		byName[name] = append(byName[name], l)
		names = append(names, name)
	}
	torn := len(r.list) > 0 // the file may have streams and sinks that could not be read
	for _, text := range slices.Sorted(slices.Values(list)) {
		name, value, _ := strings.Cut(text, "=")
		if !strings.HasPrefix(name, prefix) || slices.Contains(testVariables, name) || value == "" {
			continue // an empty variable says nothing: whoever starts programs from templates has many
		}
		p := place{pos: patterns.Pos{File: name, Line: 1, Column: 1}, length: len(name), excerpt: name, origin: name}
		switch of := byName[name]; len(of) {
		case 0:
			if torn && (strings.HasPrefix(name, variable("streams.")) || strings.HasPrefix(name, variable("sinks."))) {
				continue
			}
			r.report(p, codeEnvironment, nearest(name, names), "the variable %s names no setting", name)
		case 1:
			r.override(of[0], p, value)
		default:
			r.report(p, codeEnvironment, "", "the variable %s could mean %s and %s: rename one of them", name, of[0].path, of[1].path)
		}
	}
}

// flags sets what --set says.
func (r *reader) flags(list []string) {
	all := leaves(nil, "", r.config.settings())
	var names []string
	for _, l := range all {
		names = append(names, l.path)
	}
	for _, text := range list {
		path, value, ok := strings.Cut(text, "=")
		p := place{pos: patterns.Pos{File: "--set " + path, Line: 1, Column: 1}, length: len(path), excerpt: path, origin: "--set"}
		i := slices.IndexFunc(all, func(l leaf) bool { return l.path == path })
		if i < 0 || !ok {
			hint := nearest(path, names)
			if !ok {
				hint = "write --set PATH=VALUE, as checkpoint.interval=5s"
			}
			r.report(p, codeSet, hint, "there is no setting %q", path)
			continue
		}
		if s, ok := all[i].value.(*scalar); ok && s.secret {
			r.report(p, codeSecret, fmt.Sprintf("set %s in the environment: command lines are seen by all users of a machine", variable(path)), "a secret does not stand in a command line")
			continue
		}
		r.override(all[i], p, value)
	}
}

// override sets a setting to a text. A list is one value, or written as YAML writes it: [a, b].
func (r *reader) override(l leaf, p place, text string) {
	delete(r.wrong, l.path)
	p.excerpt, p.length = text, len([]rune(text))
	switch v := l.value.(type) {
	case *scalar:
		if v.secret {
			p.excerpt, p.length = hidden, len(hidden)
		}
		r.set(l.path, p, v.set(input{text, ""}))
	case *list:
		items := []string{text}
		if strings.HasPrefix(text, "[") {
			var ok bool
			if items, ok = flowItems(text); !ok {
				r.set(l.path, p, mistakef(codeShape, "write [a, b], with quotes around what holds a comma", "the list cannot be read"))
				return
			}
		}
		v.reset()
		for _, item := range items {
			r.set(l.path, p, v.add(input{item, ""}))
		}
	}
}

// flowItems reads [a, b].
func flowItems(text string) (items []string, ok bool) {
	f, problems := yamlnode.Parse("", []byte(text))
	if len(problems) > 0 || len(f.Documents) != 1 || f.Documents[0].Kind != yamlnode.List {
		return nil, false
	}
	for _, n := range f.Documents[0].Content {
		if n.Kind != yamlnode.Scalar || yamlnode.IsNull(n) {
			return nil, false
		}
		items = append(items, n.Value)
	}
	return items, len(items) > 0
}

// plain is an error of the file system without the path, which the caller says.
func plain(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
